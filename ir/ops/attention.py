"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isthmus.ir.attributes import BOOL, FLOAT
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import bool_, i64
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.activations import softmax
from isthmus.ir.ops.numerics import compute
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Value


def shared_by(q: Sequence[Dim], k: Sequence[Dim], v: Sequence[Dim]) -> int:
    """How many heads of the queries share one of the keys and values; 1 where these broadcast as other axes do.

    Args:
        q: the shape of the queries.
        k: the shape of the keys.
        v: the shape of the values.
    """
    if min(map(len, (q, k, v))) < 3:
        return 1
    queries, keys, values = (shape[-3] for shape in (q, k, v))
    if not isinstance(queries, int) or not isinstance(keys, int) or keys != values or keys < 2 or queries % keys:
        return 1
    return queries // keys


def scale_of(width: int) -> float:
    """The factor of the scores where none is given: one over the root of the heads' width.

    Without any width every score is 0, whatever the factor.
    """
    return 1 / math.sqrt(max(width, 1))


def turned(b: Builder, k: Value) -> Value:
    """The last two axes swapped; of something that was permuted already, in one go."""
    rank = k.tensor.rank
    perm = [*range(rank - 2), rank - 1, rank - 2]
    node = k.producer
    if node is not None and node.op.name == "permute" and node.operands[0] is not None:
        earlier = node.attrs["perm"]
        return b.permute(node.operands[0], perm=[earlier[axis] for axis in perm])  # type: ignore[no-any-return]
    return b.permute(k, perm=perm)  # type: ignore[no-any-return]


def _masked(call: Call, size: Dim, own: Dim) -> Dim:
    """A size of the scores once they are masked: as it is where the mask's own is known to be no larger."""
    unknown = not isinstance(size, int) or not isinstance(own, int)
    if unknown and not call.symbols.joins and call.symbols.span(size - own)[0] >= 0:
        return size
    return call.broadcast((size,), (own,))[0]


@register
class Attention(Op):
    """``softmax(q @ k^T * scale + mask) @ v`` for ``q[..., L, E]``, ``k[..., S, E]``, ``v[..., S, Ev]``.

    The axes in front broadcast; the result is ``[..., L, Ev]``. The axis before the last two is that of heads: where keys and
    values have fewer than the queries, a divisor of theirs, each serves as many heads of the queries in a row. `scale` is
    ``1 / sqrt(E)`` by default. `mask` broadcasts to ``[..., L, S]``: a bool one keeps where it is true, a float one is added.
    With `causal`, row i sees columns up to i (the lower triangle of ones(L, S)), besides the mask. A row that sees nothing
    gives zeros.
    """

    name = "attention"
    operands = operands("q: float T, k: float T, v: float T, mask?: ordered")
    attributes = {"scale": FLOAT.optional(), "causal": BOOL(False)}
    traits = Trait.PURE | Trait.COARSE
    source = "torch.nn.functional.scaled_dot_product_attention"

    def infer(self, call: Call) -> Sequence[Type]:
        q, k, v = call.shape(0), call.shape(1), call.shape(2)
        if min(len(q), len(k), len(v)) < 2:
            raise call.error("q, k and v must have at least two axes")
        call.unify(q[-1], k[-1], "the last sizes of q and k")
        keys = call.unify(k[-2], v[-2], "the lengths of k and v")
        heads = 3 if shared_by(q, k, v) > 1 else 2
        lead = (*call.broadcast(*(shape[:-heads] for shape in (q, k, v))), *q[-heads:-2])
        if call.types[3] is not None:
            if call.dtype(3) is not bool_ and call.dtype(3) is not call.dtype(0):
                raise call.error("mask must be bool or of the dtype of q", found=str(call.types[3]))
            scores, mask = (*lead, q[-2], keys), call.shape(3)
            if len(mask) > len(scores):
                raise call.error("mask has more axes than the scores", expected=str(list(scores)), found=str(call.types[3]))
            padded = (*[1] * (len(scores) - len(mask)), *mask)
            whole = [_masked(call, *pair) for pair in zip(scores, padded, strict=True)]
            call.unify(whole[-2], q[-2], "the rows of mask and q")
            call.unify(whole[-1], keys, "the columns of mask and the length of k")
            lead = tuple(whole[:-2])
        return (Tensor(call.dtype(0), (*lead, q[-2], v[-1])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        def function(q: Any, k: Any, v: Any, *masks: Any) -> Any:
            scale = scale_of(q.shape[-1]) if call["scale"] is None else call["scale"]
            if (times := shared_by(q.shape, k.shape, v.shape)) > 1:
                k, v = (np.repeat(each, times, axis=-3) for each in (k, v))
            scores = np.matmul(q * np.asarray(scale, q.dtype), k.swapaxes(-1, -2))
            for mask in masks:
                scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
            if call["causal"]:
                scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
            blind = (scores == -np.inf).all(-1, keepdims=True)
            weights = np.where(blind, 0, softmax(scores, -1)).astype(q.dtype, copy=False)
            return np.matmul(weights, v)

        return compute(function, *(operand for operand in operands if operand is not None))

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        shapes = [call.shape(index) for index in range(3)]
        return (self._by_groups if shared_by(*shapes) > 1 else self._formula)(b, call, *operands)

    def _formula(self, b: Builder, call: Call, q: Value, k: Value, v: Value, mask: Value | None) -> Value:
        left, right, dtype = call.shape(0), call.shape(1), call.dtype(0)
        scaled = q if call["scale"] == 1 else b.mul(q, self._scale(b, call))
        scores = b.matmul(scaled, turned(b, k))
        keep = mask if mask is not None and mask.tensor.dtype is bool_ else None
        if call["causal"]:
            rows = b.unsqueeze(b.arange(start=0, stop=left[-2], dtype=i64), axes=[1])
            below = b.ge(rows, b.arange(start=0, stop=right[-2], dtype=i64))
            keep = below if keep is None else b.logical_and(keep, below)
        added = mask if mask is not None and mask.tensor.dtype is not bool_ else None
        if added is not None:
            scores = b.add(scores, added)
        nothing = b.constant(-math.inf, dtype) if keep is not None or added is not None else None
        if keep is not None:
            scores = b.where(keep, scores, nothing)
        axis = scores.tensor.rank - 1
        weights = b.softmax(scores, axis=axis)
        # Where a row sees nothing, softmax is nan: 0 wherever the mask is false sets that right at no further cost.
        if added is not None:
            blind = b.eq(b.reduce_max(scores, axes=[axis], keepdims=True), nothing)
            weights = b.where(blind, b.constant(0.0, dtype), weights)
        elif mask is not None:
            weights = b.where(keep, weights, b.constant(0.0, dtype))
        return b.matmul(weights, v)  # type: ignore[no-any-return]

    def _by_groups(self, b: Builder, call: Call, q: Value, k: Value, v: Value, mask: Value | None) -> Value:
        """The heads that share keys and values on an axis of their own, along which these broadcast."""
        shape, groups = call.shape(0), (call.shape(1)[-3], shared_by(call.shape(0), call.shape(1), call.shape(2)))
        grouped = b.reshape(q, shape=[*shape[:-3], *groups, *shape[-2:]])
        k, v = (b.unsqueeze(each, axes=[each.tensor.rank - 2]) for each in (k, v))
        if mask is not None and mask.tensor.rank > 2:
            *lead, heads, rows, columns = call.shape(3)
            mask = b.reshape(mask, shape=[*lead, *((1, 1) if heads == 1 else groups), rows, columns])
        found = self._formula(b, call, grouped, k, v, mask)
        *lead, _, _, length, width = found.tensor.shape  # type: ignore[misc]
        return b.reshape(found, shape=[*lead, shape[-3], length, width])  # type: ignore[no-any-return]

    def _scale(self, b: Builder, call: Call) -> Value:
        dtype, width = call.dtype(0), call.shape(0)[-1]
        if call["scale"] is not None:
            return b.constant(call["scale"], dtype)
        if isinstance(width, int):
            return b.constant(scale_of(width), dtype)
        return b.rsqrt(b.cast(b.size(width), dtype=dtype))  # type: ignore[no-any-return]

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        q, k, v = (draws.standard_normal((2, 3, size, 4)).astype(np.float32) for size in (5, 6, 6))
        keep = draws.random((2, 1, 5, 6)) < 0.6
        added = draws.standard_normal((5, 6)).astype(np.float32)
        yield sample(q, k, v)
        yield sample(q, k, v, keep, note="bool-mask")
        yield sample(q, k, v, added, scale=0.3, note="float-mask")
        yield sample(q, k, v, causal=True, note="causal")
        yield sample(q, k, v, keep, causal=True, note="causal-mask")
        yield sample(q, k, v, added, causal=True, note="causal-float-mask")
        yield sample(q, k, v, keep & (np.arange(5) != 2)[:, None], note="blind-row")
        yield sample(q, k, v, np.where(np.arange(5) != 2, 0, -np.inf).astype(np.float32)[:, None], note="blind-row-float")
        yield sample(q[0, 0], k[0, 0], v[0, 0, :, :3], note="2d")
        yield sample(q[:, :1], k, v[:1], note="broadcast")
        yield sample(*(array.astype(np.float16) for array in (q, k, v)), note="f16")
        pairs = np.concatenate([q, -q], 1)[:, [0, 3, 1, 4, 2, 5]]
        yield sample(pairs, k, v, keep, causal=True, note="shared-heads", symbolic=("mask",))
        yield sample(pairs, k, v, np.concatenate([keep] * 6, 1), scale=1.0, note="shared-heads-whole", symbolic=("mask",))
