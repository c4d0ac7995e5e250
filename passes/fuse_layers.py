"""Layers recovered from products: linear layers, biases of convolutions, attention."""

from __future__ import annotations

from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Value
from isthmus.passes.extent import leaves_something
from isthmus.passes.matcher import Match
from isthmus.passes.rules import refuse, rule


@rule
def linear(p: Any, x: Any, weight: Any, bias: Any) -> Any:
    """``x @ weight + bias`` with a constant matrix and a constant vector."""
    return p.matmul(x, weight) + bias


@linear.becomes
def _(b: Builder, m: Match) -> Any:
    held, offset = m.weight.weight, m.bias.weight
    if held is None or len(held.shape) != 2:
        return refuse("the weight is not a constant matrix", m.weight)
    if len(m.weight.uses) != 1:
        return refuse("the weight is used elsewhere and would be doubled", m.weight)
    if offset is None or offset.shape != held.shape[1:]:
        return refuse("the bias is not a constant vector with an element a column", m.bias)
    return b.linear(m.x, b.permute(m.weight, perm=[1, 0]), m.bias)


@rule
def linear_bias(p: Any, x: Any, weight: Any, bias: Any) -> Any:
    """A linear layer without a bias, plus one."""
    return p.linear(x, weight) + bias


@linear_bias.becomes
def _(b: Builder, m: Match) -> Any:
    if m.bias.weight is None or m.bias.weight.shape != m.weight.tensor.shape[:1]:
        return refuse("the bias is not a constant vector with an element a row of the weight", m.bias)
    return b.linear(m.x, m.weight, m.bias)


@rule
def conv_bias(p: Any, x: Any, weight: Any, bias: Any, *, attrs: Any) -> Any:
    """A convolution without a bias, plus one constant a channel."""
    return p.conv(x, weight, attrs=attrs) + bias


@conv_bias.becomes
def _(b: Builder, m: Match) -> Any:
    held, channels = m.bias.weight, m.weight.tensor.shape[0]
    spatial = (1,) * (m.weight.tensor.rank - 2)
    if held is None or held.shape not in ((channels, *spatial), (1, channels, *spatial)):
        return refuse("the bias is not one constant a channel", m.bias)
    return b.conv(m.x, m.weight, b.reshape(m.bias, shape=[channels]), **m.attrs)


def _scores(p: Any, q: Any, k: Any, perm: Any) -> Any:
    return p.matmul(q, p.permute(k, perm=perm))


@rule
def attention(p: Any, q: Any, k: Any, v: Any, scale: Any, mask: Any, *, perm: Any, axis: Any) -> Any:
    """``softmax(q @ k.T * scale + mask) @ v``, with the scale, the mask or both left out."""
    return p.matmul(p.softmax(_scores(p, q, k, perm) * scale + mask, axis=axis), v)


@attention.or_
def _(p: Any, q: Any, k: Any, v: Any, divisor: Any, mask: Any, *, perm: Any, axis: Any) -> Any:
    return p.matmul(p.softmax(_scores(p, q, k, perm) / divisor + mask, axis=axis), v)


@attention.or_
def _(p: Any, q: Any, k: Any, v: Any, scale: Any, *, perm: Any, axis: Any) -> Any:
    return p.matmul(p.softmax(_scores(p, q, k, perm) * scale, axis=axis), v)


@attention.or_
def _(p: Any, q: Any, k: Any, v: Any, divisor: Any, *, perm: Any, axis: Any) -> Any:
    return p.matmul(p.softmax(_scores(p, q, k, perm) / divisor, axis=axis), v)


@attention.becomes
def _(b: Builder, m: Match) -> Any:
    rank = m.q.tensor.rank
    if m.axis % rank != rank - 1:
        return refuse("the softmax does not run along the last axis", m.q)
    if any(value.tensor.rank != rank for value in (m.k, m.v)):
        return refuse("q, k and v have different ranks", m.k)
    factor = m.divisor if m.scale is None else m.scale
    held = factor.weight
    if held is None or held.size != 1:
        return refuse("the scale is not a constant number", factor)
    if m.mask is not None and m.mask.tensor.rank > rank:
        return refuse("the mask has more axes than the scores", m.mask)
    if m.mask is not None and not leaves_something(m.mask):
        return refuse("the mask may leave nothing of a row: a softmax gives nan there, and attention zeros", m.mask)
    number = float(held.array().item())
    if m.divisor is not None and not number:
        return refuse("the scores are divided by zero", factor)
    return b.attention(m.q, _keys(b, m.k, m.perm), m.v, m.mask, scale=number if m.divisor is None else 1.0 / number)


def _keys(b: Builder, k: Value, perm: tuple[int, ...]) -> Value:
    """The keys as attention takes them, whatever permutation their transpose was merged with."""
    swapped = [*perm[:-2], perm[-1], perm[-2]]
    keys: Value = k if swapped == sorted(swapped) else b.permute(k, perm=swapped)
    return keys


LAYERS: Final = (linear, linear_bias, conv_bias, attention)
