"""Layer norm and RMS norm recovered from means and roots: first the bare form, then its scale and bias."""

from __future__ import annotations

from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Value
from isthmus.passes.matcher import Match
from isthmus.passes.rules import Refused, refuse, rule


def _trailing(m: Match, axes: tuple[int, ...]) -> int | Refused:
    """The first of the axes, when they are all the last ones."""
    if m.x.tensor.shape is None:
        return refuse("the rank is unknown", m.x)
    rank: int = m.x.tensor.rank
    found: list[int] = sorted(axis % rank for axis in axes)
    if found != list(range(rank - len(found), rank)) or not found:
        return refuse("the axes are not the last ones", m.x)
    return found[0]


def _epsilon(value: Value) -> float | Refused:
    weight = value.weight
    if weight is None or weight.size != 1 or not weight.dtype.is_float:
        return refuse("the epsilon is not a constant real number", value)
    return float(weight.array().item())


@rule
def layer_norm(p: Any, x: Any, eps: Any, *, axes: Any) -> Any:
    """``(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps)`` over the last axes."""
    centred = x - p.reduce_mean(x, axes=axes, keepdims=True)
    return centred / p.sqrt(p.reduce_mean(centred**2, axes=axes, keepdims=True) + eps)


@layer_norm.or_
def _(p: Any, x: Any, eps: Any, *, axes: Any) -> Any:
    centred = x - p.reduce_mean(x, axes=axes, keepdims=True)
    return centred * p.rsqrt(p.reduce_mean(centred**2, axes=axes, keepdims=True) + eps)


@layer_norm.or_
def _(p: Any, x: Any, eps: Any, *, axes: Any) -> Any:
    centred = x - p.reduce_mean(x, axes=axes, keepdims=True)
    return centred / p.sqrt(p.reduce_var(x, axes=axes, keepdims=True, correction=0.0) + eps)


@layer_norm.or_
def _(p: Any, x: Any, eps: Any, *, axes: Any) -> Any:
    centred = x - p.reduce_mean(x, axes=axes, keepdims=True)
    return centred * p.rsqrt(p.reduce_var(x, axes=axes, keepdims=True, correction=0.0) + eps)


@layer_norm.becomes
def _(b: Builder, m: Match) -> Any:
    axis, eps = _trailing(m, m.axes), _epsilon(m.eps)
    if isinstance(axis, Refused) or isinstance(eps, Refused):
        return axis if isinstance(axis, Refused) else eps if isinstance(eps, Refused) else None
    return b.layer_norm(m.x, axis=axis, eps=eps)


@rule
def rms_norm(p: Any, x: Any, eps: Any, *, axes: Any) -> Any:
    """``x / sqrt(mean(x ** 2) + eps)`` over the last axes."""
    return x / p.sqrt(p.reduce_mean(x**2, axes=axes, keepdims=True) + eps)


@rms_norm.or_
def _(p: Any, x: Any, eps: Any, *, axes: Any) -> Any:
    return x * p.rsqrt(p.reduce_mean(x**2, axes=axes, keepdims=True) + eps)


@rms_norm.becomes
def _(b: Builder, m: Match) -> Any:
    axis, eps = _trailing(m, m.axes), _epsilon(m.eps)
    if isinstance(axis, Refused) or isinstance(eps, Refused):
        return axis if isinstance(axis, Refused) else eps if isinstance(eps, Refused) else None
    return b.rms_norm(m.x, axis=axis, eps=eps)


def _not_over(m: Match, parameter: Value) -> Refused | None:
    """Why a parameter is not one of the normalized axes, as a scale or a bias is."""
    shape = m.x.tensor.shape
    axis = m.axis % len(shape)
    if parameter.tensor.shape != shape[axis:]:
        return refuse("its shape is not that of the normalized axes", parameter)
    return None


@rule
def layer_norm_scale(p: Any, x: Any, scale: Any, *, axis: Any, eps: Any) -> Any:
    """A layer norm without parameters, times a scale."""
    return p.layer_norm(x, axis=axis, eps=eps) * scale


@layer_norm_scale.becomes
def _(b: Builder, m: Match) -> Any:
    return _not_over(m, m.scale) or b.layer_norm(m.x, m.scale, axis=m.axis, eps=m.eps)


@rule
def layer_norm_bias(p: Any, x: Any, bias: Any, scale: Any = None, *, axis: Any, eps: Any) -> Any:
    """A layer norm without a bias, plus one."""
    return p.layer_norm(x, scale, axis=axis, eps=eps) + bias


@layer_norm_bias.becomes
def _(b: Builder, m: Match) -> Any:
    return _not_over(m, m.bias) or b.layer_norm(m.x, m.scale, m.bias, axis=m.axis, eps=m.eps)


@rule
def rms_norm_scale(p: Any, x: Any, scale: Any, *, axis: Any, eps: Any) -> Any:
    """An RMS norm without parameters, times a scale."""
    return p.rms_norm(x, axis=axis, eps=eps) * scale


@rms_norm_scale.becomes
def _(b: Builder, m: Match) -> Any:
    return _not_over(m, m.scale) or b.rms_norm(m.x, m.scale, axis=m.axis, eps=m.eps)


NORMALIZATION: Final = (layer_norm, rms_norm, layer_norm_scale, layer_norm_bias, rms_norm_scale)
