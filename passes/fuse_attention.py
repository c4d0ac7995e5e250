"""Attention recovered from products and softmax: the scores in every spelling, then what scales, hides and repeats."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import bool_
from isthmus.ir.graph import Node, Value
from isthmus.ir.ops.attention import scale_of
from isthmus.passes.equations import SCORES, VALUES, of_scores, of_values, turned
from isthmus.passes.extent import MAX_BYTES, leaves_something
from isthmus.passes.matcher import Match
from isthmus.passes.rules import Refused, Replacement, Rewrite, constant_number, on, refuse, rule


@rule
def attention(
    p: Any, q: Any, k: Any, v: Any, scale: Any, divisor: Any, mask: Any, keep: Any, hide: Any, low: Any, *,
    perm: Any, axis: Any, scores_by: Any, values_by: Any,
) -> Any:  # fmt: skip
    """``softmax(q @ k.T * scale + mask) @ v``.

    The scores may be scaled or divided or neither, a mask may be added or choose between them and minus infinity, and the
    keys may be turned already; either product may be an einsum.
    """
    products = [p.matmul(q, p.permute(k, perm=perm)), p.matmul(q, k), p.einsum([q, k], equation=scores_by)]
    scaled = [form for product in products for form in (product, product * scale, product / divisor)]
    masked = [
        form for scores in scaled
        for form in (scores, scores + mask, p.where(keep, scores, low), p.where(hide, low, scores))
    ]  # fmt: skip
    weights = [p.softmax(scores, axis=axis) for scores in masked]
    return [form for each in weights for form in (p.matmul(each, v), p.einsum([each, v], equation=values_by))]


@attention.becomes
def _(b: Builder, m: Match) -> Any:
    rank = m.q.tensor.rank
    if m.axis % rank != rank - 1:
        return refuse("the softmax does not run along the last axis", m.q)
    if any(value.tensor.rank != rank for value in (m.k, m.v)):
        return refuse("q, k and v have different ranks", m.k)
    scores, values = of_scores(m.scores_by or SCORES, rank), of_values(m.values_by or VALUES, rank)
    if scores is None or values is None:
        return refuse("the equation is not that of scores, or of what they weigh", m.q)
    scale = _scale(m)
    if isinstance(scale, Refused):
        return scale
    mask = _mask(b, m)
    if isinstance(mask, Refused):
        return mask
    if mask is not None and mask.tensor.rank > rank:
        return refuse("the mask has more axes than the scores", mask)
    k = _keys(b, m.k, m.perm) if m.scores_by is None else turned(b, m.k, scores.right)
    q, v = turned(b, m.q, scores.left), turned(b, m.v, values.right)
    sizes = [x.tensor.shape or () for x in (q, k, v)]
    if not all(b.graph.symbols.same(x, y) is True for x, y in ((sizes[0][-1], sizes[1][-1]), (sizes[1][-2], sizes[2][-2]))):
        return refuse("an axis of size 1 may stand for a longer one", m.k)
    return turned(b, b.attention(q, k, v, mask, scale=scale), values.result)


def _scale(m: Match) -> float | Refused:
    if m.scale is None and m.divisor is None:
        return 1.0
    number = constant_number(m.divisor if m.scale is None else m.scale)
    if isinstance(number, Refused):
        return number
    if m.divisor is None:
        return number
    return 1.0 / number if number else refuse("the scores are divided by zero", m.divisor)


def _mask(b: Builder, m: Match) -> Value | Refused | None:
    """The mask as attention takes it, when it surely leaves something of each row."""
    mask: Value | None = next((each for each in (m.mask, m.keep, m.hide) if each is not None), None)
    if mask is None:
        return None
    if m.low is not None:
        least = constant_number(m.low)
        if least != -math.inf:
            return least if isinstance(least, Refused) else refuse("what is hidden is not minus infinity", m.low)
    if mask.tensor.shape is None or not leaves_something(mask, hidden=m.hide is not None):
        return refuse("the mask may leave nothing of a row: a softmax gives nan there, and attention zeros", mask)
    if m.hide is None:
        return mask
    return b.logical_not(mask) if mask.weight is None else b.constant(~mask.weight.array())


def _keys(b: Builder, k: Value, perm: tuple[int, ...] | None) -> Value:
    """The keys as attention takes them, whatever permutation their transpose was merged with."""
    rank = k.tensor.rank
    if perm is None:
        perm = tuple(range(rank))
    swapped = [*perm[:-2], perm[-1], perm[-2]]
    keys: Value = k if swapped == sorted(swapped) else b.permute(k, perm=swapped)
    return keys


@rule
def scaled_operand(
    p: Any, q: Any, k: Any, v: Any, scale: Any, divisor: Any, mask: Any = None, *, perm: Any, attrs: Any
) -> Any:
    """Attention whose queries or keys are multiplied or divided by a number before."""
    forms = [p.attention(each, k, v, mask, attrs=attrs) for each in (q * scale, q / divisor)]
    for each in (k * scale, k / divisor):
        forms += [p.attention(q, each, v, mask, attrs=attrs), p.attention(q, p.permute(each, perm=perm), v, mask, attrs=attrs)]
    return forms


@scaled_operand.becomes
def _(b: Builder, m: Match) -> Any:
    if not m.q.tensor.shape or not m.k.tensor.shape:
        return refuse("it is the other factor that is the number", m.q)
    width, own = m.q.tensor.shape[-1], m.attrs["scale"]
    if own is None and not isinstance(width, int):
        return refuse("the scale depends on a size that is not known", m.q)
    factor = _scale(m)
    if isinstance(factor, Refused):
        return factor
    scale = factor * (scale_of(width) if own is None else own)
    k = m.k if m.perm is None else b.permute(m.k, perm=m.perm)
    return b.attention(m.q, k, m.v, m.mask, **{**m.attrs, "scale": scale})


@on("attention")
def causal(b: Builder, node: Node) -> Replacement:
    """A constant mask that hides from each row the columns behind its own place, and nothing else."""
    mask = node.operands[3]
    held = mask.weight if mask is not None else None
    if held is None or node.attrs["causal"] or len(held.shape) < 2 or held.nbytes > MAX_BYTES:
        return None
    array = held.array()
    shown = array if held.dtype is bool_ else array == 0
    rows, columns = held.shape[-2:]
    lengths = node.operands[0].tensor.shape, node.operands[1].tensor.shape  # type: ignore[union-attr]
    if (lengths[0][-2], lengths[1][-2]) != (rows, columns):  # type: ignore[index]
        return refuse("the mask is broadcast along the scores", mask)
    if not np.array_equal(shown, np.broadcast_to(np.tri(rows, columns, dtype=bool), shown.shape)):
        return refuse("the mask does not hide what is behind each place, and that alone", mask)
    if held.dtype is not bool_ and not np.all(np.isneginf(array[~shown].astype(np.float64))):
        return refuse("what is hidden is not minus infinity", mask)
    return b.attention(*node.operands[:3], **{**node.attrs, "causal": True})  # type: ignore[no-any-return]


@on("attention")
def shared_heads(b: Builder, node: Node) -> Replacement:
    """Keys and values of which each head is repeated for several heads of the queries."""
    sources = [_unrepeated(b, value) for value in node.operands[1:3]]
    if None in sources:
        return None
    k, v = sources
    if k.tensor.shape[-3] != v.tensor.shape[-3]:  # type: ignore[union-attr,index]
        return refuse("keys and values have different numbers of heads", node.operands[1])
    return b.attention(node.operands[0], k, v, node.operands[3], **node.attrs)  # type: ignore[no-any-return]


def _unrepeated(b: Builder, value: Value | None) -> Value | None:
    """``x[..., H, S, E]`` of a value that is that with each head several times in a row."""
    joined = value.producer if value is not None else None
    source = joined.operands[0] if joined is not None and joined.op.name == "reshape" else None
    repeated = source.producer if source is not None else None
    thin = repeated.operands[0] if repeated is not None and repeated.op.name == "expand" else None
    if joined is None or repeated is None or thin is None:
        return None
    narrow, wide, whole = (each.tensor.shape for each in (thin, repeated.results[0], joined.results[0]))
    if narrow is None or wide is None or whole is None or len(whole) < 3 or {len(narrow), len(wide)} != {len(whole) + 1}:
        return None
    heads, place = len(whole) - 3, len(whole) - 2  # `place` is the axis along which they are repeated, behind that of heads
    same = b.graph.symbols.same
    only = all(axis == place or same(old, new) is True for axis, (old, new) in enumerate(zip(narrow, wide, strict=True)))
    joins = (*wide[:heads], wide[heads] * wide[place], *wide[place + 1 :])
    if not only or narrow[place] != 1 or not all(same(old, new) is True for old, new in zip(joins, whole, strict=True)):
        return None
    return b.squeeze(thin, axes=[place])  # type: ignore[no-any-return]


ATTENTION: Final[tuple[Rewrite, ...]] = (attention, scaled_operand, causal, shared_heads)
