"""Norms recovered from means and roots: first the bare form, then its scale and bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import f32
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Trait
from isthmus.passes.chains import lossless
from isthmus.passes.matcher import Match
from isthmus.passes.rules import Refused, Replacement, Rewrite, Rule, constant_number, on, refuse, rule, sole_producer

# ---- the bare form


def _trailing(m: Match, axes: tuple[int, ...]) -> int | Refused:
    """The first of the axes, when they are all the last ones."""
    if m.x.tensor.shape is None:
        return refuse("the rank is unknown", m.x)
    rank: int = m.x.tensor.rank
    found: list[int] = sorted(axis % rank for axis in axes)
    if found != list(range(rank - len(found), rank)) or not found:
        return refuse("the axes are not the last ones", m.x)
    return found[0]


def _over_trailing(m: Match, build: Callable[..., Value]) -> Replacement:
    axis, eps = _trailing(m, m.axes), constant_number(m.eps)
    if isinstance(axis, Refused):
        return axis
    return eps if isinstance(eps, Refused) else build(m.x, axis=axis, eps=eps)


@rule
def layer_norm(p: Any, x: Any, eps: Any, *, axes: Any) -> Any:
    """``(x - mean(x)) / sqrt(var(x) + eps)`` over the last axes, by the mean of squares or the variance."""
    centred = x - p.reduce_mean(x, axes=axes, keepdims=True)
    squares = p.reduce_mean(centred**2, axes=axes, keepdims=True)
    variance = p.reduce_var(x, axes=axes, keepdims=True, correction=0.0)
    of_centred = p.reduce_var(centred, axes=axes, keepdims=True, correction=0.0)
    return [
        form for spread in (squares, variance, of_centred)
        for form in (centred / p.sqrt(spread + eps), centred * p.rsqrt(spread + eps))
    ]  # fmt: skip


@layer_norm.becomes
def _(b: Builder, m: Match) -> Any:
    return _over_trailing(m, b.layer_norm)


@rule
def rms_norm(p: Any, x: Any, eps: Any, *, axes: Any) -> Any:
    """``x / sqrt(mean(x ** 2) + eps)`` over the last axes."""
    spread = p.reduce_mean(x**2, axes=axes, keepdims=True) + eps
    return [x / p.sqrt(spread), x * p.rsqrt(spread)]


@rms_norm.becomes
def _(b: Builder, m: Match) -> Any:
    return _over_trailing(m, b.rms_norm)


_GROUPED: Final = ("layer_norm", "instance_norm")


@on(Trait.LAYOUT, behind=_GROUPED)
def group_norm(b: Builder, node: Node) -> Replacement:
    """``x[N, C, ...]`` as ``[N, G, ...]``, normalized over all axes from the third on, and brought back to its shape."""
    norm = sole_producer(node.operands[0])
    grouping = None if norm is None or norm.op.name not in _GROUPED else sole_producer(norm.operands[0])
    if norm is None or grouping is None or Trait.LAYOUT not in grouping.op.traits:
        return None
    x, grouped = grouping.operands[0], grouping.results[0].tensor.shape
    shape = None if x is None else x.tensor.shape
    if x is None or shape is None or grouped is None or any(norm.operands[1:]):
        return None
    if len(grouped) < 3 or norm.attrs.get("axis", 2) % len(grouped) != 2:
        return refuse("it is not normalized over all axes from the third on", norm.results[0])
    same, groups = b.graph.symbols.same, grouped[1]
    if len(shape) < 2 or same(grouped[0], shape[0]) is not True:
        return refuse("the batch is not kept", grouping.results[0])
    if not isinstance(groups, int) or not isinstance(shape[1], int) or groups < 1 or shape[1] % groups:
        return refuse("the channels are not divided into a known number of groups", grouping.results[0])
    return b.group_norm(x, groups=groups, eps=norm.attrs["eps"])  # type: ignore[no-any-return]


# ---- in a wider type


def _narrow(name: str) -> Rule:
    def pattern(p: Any, x: Any, *, wide: Any, narrow: Any, attrs: Any) -> Any:
        inner = getattr(p, name)(p.cast(x, dtype=wide), attrs=attrs)
        return p.cast(inner, dtype=narrow)

    pattern.__name__ = f"narrow_{name}"
    pattern.__doc__ = f"{name} of a half, computed in f32 and rounded back, which is how {name} of a half is meant."
    made = rule(pattern)

    @made.becomes
    def _(b: Builder, m: Match) -> Any:
        source = m.x.tensor.dtype
        if m.narrow is not source or not source.is_float or source.bits >= 32:
            return refuse("it is not rounded back to a narrower type that it came from", m.x)
        if m.wide is not f32 or not lossless(source, f32):
            return refuse("it is not computed in f32", m.x)
        return getattr(b, name)(m.x, **m.attrs)

    return made


# ---- scale and bias


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


def per_channel(b: Builder, x: Value, parameter: Value, channels: Dim) -> Value | Refused:
    """A constant that broadcasts along axis 1 of `x` alone, as a vector."""
    held, rank = parameter.weight, x.tensor.rank
    if held is None:
        return refuse("it is not a constant", parameter)
    shape = (1,) * (rank - len(held.shape)) + held.shape
    if shape != (1, channels, *(1,) * (rank - 2)):
        return refuse("it is not one number a channel", parameter)
    return b.reshape(parameter, shape=[channels])  # type: ignore[no-any-return]


@rule
def instance_norm(p: Any, x: Any, scale: Any, *, axis: Any, eps: Any) -> Any:
    """A norm over all axes from the third on, times a scale a channel."""
    return p.layer_norm(x, axis=axis, eps=eps) * scale


@instance_norm.becomes
def _(b: Builder, m: Match) -> Any:
    rank = m.x.tensor.rank
    if rank < 3 or m.axis % rank != 2:
        return refuse("it is not normalized over all axes from the third on", m.x)
    scale = per_channel(b, m.x, m.scale, m.x.tensor.shape[1])
    return scale if isinstance(scale, Refused) else b.instance_norm(m.x, scale, eps=m.eps)


def _affine(name: str, operand: str) -> Rule:
    def pattern(p: Any, x: Any, found: Any, scale: Any = None, *, attrs: Any) -> Any:
        if operand == "scale":
            return getattr(p, name)(x, attrs=attrs) * found
        return getattr(p, name)(x, scale, attrs=attrs) + found

    pattern.__name__ = f"{name}_{operand}"
    pattern.__doc__ = f"{name} without a {operand}, and one a channel."
    made = rule(pattern)

    @made.becomes
    def _(b: Builder, m: Match) -> Any:
        vector = per_channel(b, m.x, m.found, m.x.tensor.shape[1])
        if isinstance(vector, Refused):
            return vector
        scale, bias = (vector, None) if operand == "scale" else (m.scale, vector)
        return getattr(b, name)(m.x, scale, bias, **m.attrs)

    return made


NORMALIZATION: Final[tuple[Rewrite, ...]] = (
    layer_norm, rms_norm, group_norm, *map(_narrow, ("layer_norm", "rms_norm", "softmax", "log_softmax")),
    layer_norm_scale, layer_norm_bias, rms_norm_scale, instance_norm,
    *(_affine(name, operand) for name in ("instance_norm", "group_norm") for operand in ("scale", "bias")),
)  # fmt: skip
