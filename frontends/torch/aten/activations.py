"""Activation functions, softmax and dropout: coarse where the IR has them whole."""

from __future__ import annotations

from typing import Any, Final

from isthmus.frontends.torch.aten.common import full, reshape
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers
from isthmus.ir.dtypes import DType, bool_, f32
from isthmus.ir.graph import Value

_PLAIN: Final = {"silu": "silu", "mish": "mish", "selu": "selu", "hardswish": "hard_swish", "hardsigmoid": "hard_sigmoid"}


def _plain(name: str, op: str) -> None:
    def lowering(w: Lowering, x: Value) -> Any:
        return getattr(w.b, op)(x)

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}")(lowering)


for _name, _op in _PLAIN.items():
    _plain(_name, _op)


@lowers("aten.gelu")
def gelu(w: Lowering, x: Value, approximate: str = "none") -> Any:
    return w.b.gelu(x, approximate=approximate)


@lowers("aten.relu6")
def relu6(w: Lowering, x: Value) -> Any:
    return w.b.clip(x, 0, 6)


@lowers("aten.hardtanh")
def hardtanh(w: Lowering, x: Value, min_val: Scalar = -1, max_val: Scalar = 1) -> Any:
    return w.b.clip(x, w.tensor(min_val, x.tensor.dtype), w.tensor(max_val, x.tensor.dtype))


@lowers("aten.leaky_relu")
def leaky_relu(w: Lowering, x: Value, negative_slope: float = 0.01) -> Any:
    return w.b.leaky_relu(x, alpha=negative_slope)


@lowers("aten.rrelu")
def rrelu(w: Lowering, x: Value, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Any:
    if training:
        w.unsupported("random slopes are only for training", "call model.eval() first")
    return w.b.leaky_relu(x, alpha=(lower + upper) / 2)


@lowers("aten.elu")
def elu(w: Lowering, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if scale == input_scale == 1:
        return w.b.elu(x, alpha=alpha)
    negative = w.b.mul(w.b.expm1(w.b.mul(x, float(input_scale))), float(alpha * scale))
    return w.b.where(w.b.gt(x, 0), w.b.mul(x, float(scale)), negative)


@lowers("aten.celu")
def celu(w: Lowering, x: Value, alpha: float = 1.0) -> Any:
    return w.b.celu(x, alpha=alpha)


@lowers("aten.prelu")
def prelu(w: Lowering, x: Value, weight: Value) -> Any:
    """One slope for all, or one for each channel (axis 1)."""
    rank = w.rank(x)
    count = w.dims(weight)[0] if w.rank(weight) else 1
    return w.b.prelu(x, reshape(w, weight, (count, *[1] * (rank - 2)) if rank > 1 and count != 1 else [1] * min(rank, 1)))


@lowers("aten.softplus")
def softplus(w: Lowering, x: Value, beta: float = 1, threshold: float = 20) -> Any:
    return w.b.softplus(x, beta=beta, threshold=threshold)


@lowers("aten.log_sigmoid")
def log_sigmoid(w: Lowering, x: Value) -> Any:
    return w.b.sub(w.b.minimum(x, 0), w.b.log1p(w.b.exp(w.b.neg(w.b.abs(x)))))


@lowers("aten.threshold")
def threshold(w: Lowering, x: Value, threshold: Scalar, value: Scalar) -> Any:
    dtype = x.tensor.dtype
    return w.b.where(w.b.le(x, w.tensor(threshold, dtype)), w.tensor(value, dtype), x)


@lowers("aten.hardshrink")
def hardshrink(w: Lowering, x: Value, lambd: float = 0.5) -> Any:
    inside = w.b.logical_and(w.b.ge(x, -float(lambd)), w.b.le(x, float(lambd)))
    return w.b.where(inside, 0, x)


@lowers("aten.softshrink")
def softshrink(w: Lowering, x: Value, lambd: float = 0.5) -> Any:
    below = w.b.where(w.b.lt(x, -float(lambd)), w.b.add(x, float(lambd)), w.b.mul(x, 0))
    return w.b.where(w.b.gt(x, float(lambd)), w.b.sub(x, float(lambd)), below)


@lowers("aten.glu")
def glu(w: Lowering, x: Value, dim: int = -1) -> Any:
    axis = w.axis(x, dim)
    half = w.dims(x)[axis] // 2
    value, gate = w.b.split(x, axis=axis, sizes=[half, half])
    return w.b.mul(value, w.b.sigmoid(gate))


# ---- softmax


def _softmax(w: Lowering, op: str, x: Value, dim: int, dtype: DType | None) -> Any:
    if dtype is not None:
        x = w.cast(x, dtype)
    if not w.rank(x):
        return w.b.reshape(getattr(w.b, op)(w.b.reshape(x, shape=[1]), axis=0), shape=[])
    return getattr(w.b, op)(x, axis=w.axis(x, dim))


@lowers("aten.softmax.int", "aten.special_softmax")
def softmax(w: Lowering, x: Value, dim: int, dtype: DType | None = None) -> Any:
    return _softmax(w, "softmax", x, dim, dtype)


@lowers("aten.log_softmax.int", "aten.special_log_softmax")
def log_softmax(w: Lowering, x: Value, dim: int, dtype: DType | None = None) -> Any:
    return _softmax(w, "log_softmax", x, dim, dtype)


@lowers("aten._softmax")
def _softmax_core(w: Lowering, x: Value, dim: int, half_to_float: bool) -> Any:
    return _softmax(w, "softmax", x, dim, f32 if half_to_float else None)


@lowers("aten._log_softmax")
def _log_softmax_core(w: Lowering, x: Value, dim: int, half_to_float: bool) -> Any:
    return _softmax(w, "log_softmax", x, dim, f32 if half_to_float else None)


# ---- dropout


@lowers("aten.dropout")
def dropout(w: Lowering, x: Value, p: float, train: bool) -> Any:
    return native_dropout(w, x, p, train)[0] if train and p else x


@lowers("aten.native_dropout")
def native_dropout(w: Lowering, x: Value, p: float, train: bool | None) -> Any:
    """In training, elements are kept with probability 1 - p and divided by it."""
    if not train or p == 0:
        return x, full(w, w.dims(x), True, bool_)
    kept = w.b.bernoulli(full(w, w.dims(x), 1 - p, x.tensor.dtype))
    return w.b.mul(x, w.b.mul(kept, 1 / (1 - p) if p < 1 else 0.0)), w.cast(kept, bool_)


@lowers("aten.alpha_dropout", "aten.feature_dropout", "aten.feature_alpha_dropout")
def other_dropout(w: Lowering, x: Value, p: float, train: bool) -> Any:
    if train and p:
        w.unsupported("this dropout is only for training", "call model.eval() first")
    return x
