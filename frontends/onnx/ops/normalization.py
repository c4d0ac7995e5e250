"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.table import converts
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir import dtypes
from isthmus.ir.dims import floordiv, same
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Value


def cast(c: Conversion, x: Any, dtype: DType) -> Any:
    """Of another element type, where it has another."""
    return x if x is None or x.tensor.dtype is dtype else c.b.cast(x, dtype=dtype)


# ---- batch normalization


@converts("BatchNormalization", since=14)
def batch_normalization(
    c: Conversion, x: Value, scale: Value, bias: Value, mean: Value, var: Value, *, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0,
) -> Any:  # fmt: skip
    """With the statistics that are given or, in training, those of the batch, which the running ones then move to."""
    if not training_mode:
        return _batch_norm(c, x, scale, bias, mean, var, epsilon)
    own = _statistics(c, x, _but_channels(c, x))
    y = _batch_norm(c, x, scale, bias, own[0], own[1], epsilon)
    return (y, *_running(c, (mean, var), own, momentum))


@converts("BatchNormalization", since=9)
def batch_normalization_by_outputs(
    c: Conversion, x: Value, scale: Value, bias: Value, mean: Value, var: Value, *, epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> Any:  # fmt: skip
    """In training where more than one result is asked for: the last two are the statistics of the batch."""
    return _old(c, x, scale, bias, mean, var, epsilon, momentum, spatial=1)


@converts("BatchNormalization", since=7)
def batch_normalization_by_element(
    c: Conversion, x: Value, scale: Value, bias: Value, mean: Value, var: Value, *, epsilon: float = 1e-5,
    momentum: float = 0.9, spatial: int = 1,
) -> Any:  # fmt: skip
    """If not spatial, with statistics for each element of the batch's members."""
    return _old(c, x, scale, bias, mean, var, epsilon, momentum, spatial)


@converts("BatchNormalization")
def batch_normalization_old(
    c: Conversion, x: Value, scale: Value, bias: Value, mean: Value, var: Value, *, consumed_inputs: Any = (),
    epsilon: float = 1e-5, is_test: int = 0, momentum: float = 0.9, spatial: int = 1,
) -> Any:  # fmt: skip
    """`is_test` only says what the number of results does."""
    return _old(c, x, scale, bias, mean, var, epsilon, momentum, spatial)


def _old(
    c: Conversion, x: Value, scale: Value, bias: Value, mean: Value, var: Value, epsilon: float, momentum: float, spatial: int,
) -> Any:  # fmt: skip
    training = any(c.wanted[1:])
    own = _statistics(c, x, _but_channels(c, x) if spatial else [0]) if training else [mean, var]
    if spatial:
        y = _batch_norm(c, x, scale, bias, own[0], own[1], epsilon)
    else:
        factor = c.b.div(scale, c.b.sqrt(c.b.add(own[1], c.same_type(epsilon, x))))
        y = c.b.add(c.b.mul(c.b.sub(x, own[0]), factor), bias)
    return (y, *_running(c, (mean, var), own, momentum), *own) if training else y


def _batch_norm(
    c: Conversion, x: Value, scale: Value, bias: Value, mean: Value, var: Value, epsilon: float,
) -> Any:  # fmt: skip
    """In the widest of the element types; without an axis of channels there is one of them."""
    given = (x, scale, bias, mean, var)
    widest = max((each.tensor.dtype for each in given), key=lambda dtype: dtype.bits)
    if {x.tensor.dtype, widest} == {dtypes.f16, dtypes.bf16}:
        widest = dtypes.f32
    wide = [cast(c, each, widest) for each in given]
    if c.rank(x) == 1:
        wide[0] = c.b.unsqueeze(wide[0], axes=[1])
    y = c.b.batch_norm(*wide, eps=epsilon)
    return cast(c, c.b.squeeze(y, axes=[1]) if c.rank(x) == 1 else y, x.tensor.dtype)


def _but_channels(c: Conversion, x: Value) -> list[int]:
    return [axis for axis in range(c.rank(x)) if axis != 1]


def _statistics(c: Conversion, x: Value, axes: Sequence[int]) -> list[Any]:
    """Mean and variance over some axes; of small floats in f32."""
    wide = cast(c, x, dtypes.f32 if x.tensor.dtype.bits < 32 else x.tensor.dtype)
    return [
        c.b.reduce_mean(wide, axes=list(axes), keepdims=False),
        c.b.reduce_var(wide, axes=list(axes), keepdims=False, correction=0.0),
    ]


def _running(c: Conversion, before: Sequence[Value], own: Sequence[Value], momentum: float) -> list[Any]:
    """The running statistics after a batch."""
    found = []
    for old, new in zip(before, own, strict=True):
        new = cast(c, new, old.tensor.dtype)
        kept = c.b.mul(old, c.same_type(momentum, old))
        found.append(c.b.add(kept, c.b.mul(new, c.same_type(1 - momentum, old))))
    return found


# ---- over the axes of each element


@converts("InstanceNormalization")
def instance_normalization(
    c: Conversion, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, consumed_inputs: Any = (),
) -> Any:  # fmt: skip
    """Each channel of each member of the batch by itself."""
    return c.b.instance_norm(x, scale, bias, eps=epsilon)


@converts("GroupNormalization", since=21)
def group_normalization(
    c: Conversion, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1,
) -> Any:  # fmt: skip
    """Runs of channels."""
    return c.b.group_norm(x, scale, bias, groups=num_groups, eps=epsilon)


@converts("GroupNormalization")
def group_normalization_by_groups(
    c: Conversion, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int,
) -> Any:  # fmt: skip
    """Scale and bias are one for each group."""
    channels = c.shape(x)[1]
    each = floordiv(channels, num_groups)
    wide = [
        c.b.reshape(c.b.expand(c.b.unsqueeze(value, axes=[1]), shape=[num_groups, each]), shape=[channels])
        for value in (scale, bias)
    ]
    return c.b.group_norm(x, *wide, groups=num_groups, eps=epsilon)


@converts("LayerNormalization")
def layer_normalization(
    c: Conversion, x: Value, scale: Value, bias: Value | None = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:  # fmt: skip
    """Over the axes from one on; the mean and the inverse of the deviation in the element type of the first stage."""
    axis = c.axis(axis, c.rank(x))
    if _trailing(c, x, scale, axis) and (bias is None or _trailing(c, x, bias, axis)):
        y = c.b.layer_norm(x, scale, bias, axis=axis, eps=epsilon)
    else:
        y = c.b.mul(c.b.layer_norm(x, None, None, axis=axis, eps=epsilon), scale)
        y = y if bias is None else c.b.add(y, bias)
    if not any(c.wanted[1:]):
        return y
    stash = dtype_of(stash_type, "stash_type")
    wide, axes = cast(c, x, stash), list(range(axis, c.rank(x)))
    mean = c.b.reduce_mean(wide, axes=axes, keepdims=True)
    var = c.b.reduce_var(wide, axes=axes, keepdims=True, correction=0.0)
    return y, mean, c.b.reciprocal(c.b.sqrt(c.b.add(var, c.same_type(epsilon, var))))


@converts("RMSNormalization")
def rms_normalization(
    c: Conversion, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
) -> Any:  # fmt: skip
    """Divided by the root of the mean of squares over the axes from one on."""
    axis, dtype = c.axis(axis, c.rank(x)), x.tensor.dtype
    if scale.tensor.dtype is dtype and _trailing(c, x, scale, axis):
        return c.b.rms_norm(x, scale, axis=axis, eps=epsilon)
    return c.b.mul(cast(c, c.b.rms_norm(x, None, axis=axis, eps=epsilon), scale.tensor.dtype), scale)


def _trailing(c: Conversion, x: Value, value: Value, axis: int) -> bool:
    """Whether something has exactly the normalized axes."""
    own, wanted = c.shape(value), c.shape(x)[axis:]
    return len(own) == len(wanted) and all(same(*pair) is not False for pair in zip(own, wanted, strict=True)) and not any(
        isinstance(size, int) and size == 1 and same(size, whole) is not True for size, whole in zip(own, wanted, strict=True)
    )


# ---- norms


@converts("LpNormalization")
def lp_normalization(c: Conversion, x: Value, *, axis: int = -1, p: int = 2) -> Any:
    """Divided by the norm along an axis; 0 where that is 0."""
    axes = [c.axis(axis, c.rank(x))]
    if p == 2:
        norm = c.b.reduce_l2(x, axes=axes, keepdims=True)
    else:
        norm = c.b.reduce_sum(c.b.abs(x), axes=axes, keepdims=True)
    zero = c.same_type(0, x)
    return c.b.where(c.b.eq(norm, zero), zero, c.b.div(x, norm))


@converts("LRN")
def lrn(c: Conversion, x: Value, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Any:
    """Divided by a power of a sum of squares over neighbouring channels."""
    return c.b.local_response_norm(x, size=size, alpha=alpha, beta=beta, k=bias)
