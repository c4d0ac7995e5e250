"""Normalization layers, kept whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes

from isthmus.frontends.torch.aten.common import reshape
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim
from isthmus.ir.graph import Value

_TRAINING = "call model.eval() first"


def _statistics(w: Lowering, x: Value) -> tuple[Value, Value]:
    """Mean and biased variance of each channel."""
    axes = [axis for axis in range(w.rank(x)) if axis != 1]
    return w.b.reduce_mean(x, axes=axes), w.b.reduce_var(x, axes=axes, correction=0.0)


def _normalized(w: Lowering, x: Value, parameters: Sequence[Value | None], eps: float) -> Value:
    """`x` by scale, bias, mean and variance of its channels, which may be of a wider type than `x`."""
    if 0 in w.dims(x):
        return x  # which may have no axis of channels
    cast = [None if each is None else w.cast(each, x.tensor.dtype) for each in parameters]
    found: Value = w.b.batch_norm(x, *cast, eps=eps)
    return found


def _mixed(w: Lowering, op: Callable[..., Any], x: Value, *parameters: Value | None, **attrs: Any) -> Value:
    """`op`, computed in the wider type where `x` has a narrower one than its parameters, and rounded once to that of `x`."""
    wide = w.result_type(x, *(each for each in parameters if each is not None))
    found = op(w.cast(x, wide), *(None if each is None else w.cast(each, wide) for each in parameters), **attrs)
    return w.cast(found, x.tensor.dtype)


@lowers("aten.batch_norm")
def batch_norm(
    w: Lowering, x: Value, weight: Value | None, bias: Value | None, running_mean: Value | None, running_var: Value | None,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    if training and running_mean is not None:
        w.unsupported("batch norm in training also changes its running statistics", _TRAINING)
    mean, var = _statistics(w, x) if training or running_mean is None else (running_mean, running_var)
    return _normalized(w, x, (weight, bias, mean, var), eps)


@lowers("aten._native_batch_norm_legit_no_training")
def batch_norm_no_training(
    w: Lowering, x: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value, momentum: float,
    eps: float,
) -> Any:  # fmt: skip
    """The saved statistics are empty outside training."""
    empty = w.b.constant([], x.tensor.dtype)
    return _normalized(w, x, (weight, bias, running_mean, running_var), eps), empty, empty


@lowers("aten.layer_norm")
def layer_norm(
    w: Lowering, x: Value, normalized_shape: Sequence[Dim], weight: Value | None = None, bias: Value | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Any:  # fmt: skip
    return _mixed(w, w.b.layer_norm, x, weight, bias, axis=w.rank(x) - len(normalized_shape), eps=eps)


@lowers("aten.native_layer_norm")
def native_layer_norm(
    w: Lowering, x: Value, normalized_shape: Sequence[Dim], weight: Value | None, bias: Value | None, eps: float,
) -> Any:  # fmt: skip
    axes = list(range(w.rank(x) - len(normalized_shape), w.rank(x)))
    mean = w.b.reduce_mean(x, axes=axes, keepdims=True)
    var = w.b.reduce_var(x, axes=axes, keepdims=True, correction=0.0)
    return layer_norm(w, x, normalized_shape, weight, bias, eps), mean, w.b.rsqrt(w.b.add(var, eps))


@lowers("aten.rms_norm")
def rms_norm(
    w: Lowering, x: Value, normalized_shape: Sequence[Dim], weight: Value | None = None, eps: float | None = None
) -> Any:
    """Without an epsilon, that of the element type is taken."""
    least = float(ml_dtypes.finfo(x.tensor.dtype.numpy).eps) if eps is None else eps
    return _mixed(w, w.b.rms_norm, x, weight, axis=w.rank(x) - len(normalized_shape), eps=least)


@lowers("aten.group_norm")
def group_norm(
    w: Lowering, x: Value, num_groups: int, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    return _mixed(w, w.b.group_norm, x, weight, bias, groups=num_groups, eps=eps)


@lowers("aten.native_group_norm")
def native_group_norm(
    w: Lowering, x: Value, weight: Value | None, bias: Value | None, N: Dim, C: Dim, HxW: Dim, group: int, eps: float,
) -> Any:  # fmt: skip
    grouped = reshape(w, x, [N, group, C // group * HxW])
    mean = w.b.reduce_mean(grouped, axes=[2])
    var = w.b.reduce_var(grouped, axes=[2], correction=0.0)
    return group_norm(w, x, group, weight, bias, eps), mean, w.b.rsqrt(w.b.add(var, eps))


@lowers("aten.instance_norm")
def instance_norm(
    w: Lowering, x: Value, weight: Value | None, bias: Value | None, running_mean: Value | None, running_var: Value | None,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    if not use_input_stats:
        return _normalized(w, x, (weight, bias, running_mean, running_var), eps)
    if running_mean is not None:
        w.unsupported("instance norm in training also changes its running statistics", _TRAINING)
    return _mixed(w, w.b.instance_norm, x, weight, bias, eps=eps)
