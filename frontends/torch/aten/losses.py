"""Losses that torch has as ops of their own: connectionist temporal classification, and cross entropy by chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from isthmus.frontends.torch.aten.common import expand, full, reshape
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import DType, bool_, i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor

# ---- cross entropy


def _row_losses(
    w: Lowering, input: Value, linear_weight: Value, target: Value, linear_bias: Value | None, weight: Value | None,
    ignore_index: int, acc_dtype: DType,
) -> tuple[Value, Value]:  # fmt: skip
    """The weighted loss of each row, and its weight: that of its class, 0 where it is to be ignored."""
    dtype = acc_dtype if input.tensor.dtype.bits < acc_dtype.bits else input.tensor.dtype
    bias = None if linear_bias is None else w.cast(linear_bias, dtype)
    scores = w.b.log_softmax(w.b.linear(w.cast(input, dtype), w.cast(linear_weight, dtype), bias), axis=1)
    ignored = w.b.eq(target, w.tensor(ignore_index, target.tensor.dtype))
    place = w.b.where(ignored, w.tensor(0, target.tensor.dtype), target)
    one = w.tensor(1.0, dtype) if weight is None else w.b.gather(w.cast(weight, dtype), place, axis=0)
    factor = w.b.where(ignored, w.tensor(0.0, dtype), one)
    chosen = w.b.gather_elements(scores, w.b.unsqueeze(place, axes=[1]), axis=1)
    return w.b.neg(w.b.mul(w.b.squeeze(chosen, axes=[1]), factor)), factor


@lowers("torch_nn._linear_cross_entropy_batch_chunked")
def linear_cross_entropy(
    w: Lowering, input: Value, linear_weight: Value, target: Value, linear_bias: Value | None, weight: Value | None,
    reduction: str, ignore_index: int, label_smoothing: float, batch_chunk_size: Dim, acc_policy: str, acc_dtype: DType,
    allow_retain_graph: bool, compute_input_grad: bool, compute_linear_weight_grad: bool, compute_linear_bias_grad: bool,
) -> Any:  # fmt: skip
    """The loss of all chunks at once; gradients that are not asked for have no elements."""
    if compute_input_grad or compute_linear_weight_grad or compute_linear_bias_grad:
        w.unsupported("gradients are computed along with the loss", "run the model without gradients")
    if label_smoothing or target.tensor.dtype.is_float:
        w.unsupported("only targets that are classes, without smoothing, go by chunks", "leave out the options")
    losses, factor = _row_losses(w, input, linear_weight, target, linear_bias, weight, ignore_index, acc_dtype)
    total = w.b.reduce_sum(losses, axes=[0])
    if reduction == "mean":
        total = w.b.div(total, w.b.reduce_sum(factor, axes=[0]))
    dtype = input.tensor.dtype
    return w.cast(total, dtype), *(full(w, shape, 0, dtype) for shape in ([0, 0], [0, 0], [0]))


@lowers("torch_nn._linear_cross_entropy_batch_chunked_no_reduction")
def linear_cross_entropy_rows(
    w: Lowering, input: Value, linear_weight: Value, target: Value, linear_bias: Value | None, weight: Value | None,
    ignore_index: int, batch_chunk_size: Dim, acc_policy: str, acc_dtype: DType,
) -> Any:  # fmt: skip
    losses = _row_losses(w, input, linear_weight, target, linear_bias, weight, ignore_index, acc_dtype)[0]
    return w.cast(losses, input.tensor.dtype)


# ---- connectionist temporal classification (Graves et al. 2006)


@lowers("aten.ctc_loss.IntList", "aten.ctc_loss.Tensor")
def ctc_loss(
    w: Lowering, log_probs: Value, targets: Value, input_lengths: Value | Sequence[int],
    target_lengths: Value | Sequence[int], blank: int = 0, reduction: int = 1, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """The mean is of losses divided by the numbers of labels."""
    one = w.rank(log_probs) == 2
    log_probs = w.b.unsqueeze(log_probs, axes=[1]) if one else log_probs
    found = ctc_forward(w, log_probs, targets, input_lengths, target_lengths, blank)[0]
    if zero_infinity:
        found = w.b.where(w.b.eq(found, math.inf), 0.0, found)
    if reduction == 1:
        letters = w.cast(w.b.maximum(_lengths(w, target_lengths), 1), found.tensor.dtype)
        return w.b.reduce_mean(w.b.div(found, letters), axes=[0])
    if reduction == 2:
        return w.b.reduce_sum(found, axes=[0])
    return w.b.squeeze(found, axes=[0]) if one else found


@lowers("aten._ctc_loss", "aten._ctc_loss.Tensor")
def ctc_forward(
    w: Lowering, log_probs: Value, targets: Value, input_lengths: Value | Sequence[int],
    target_lengths: Value | Sequence[int], blank: int = 0, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """Of ``[time, batch, classes]``: the negative logarithm of each probability, and those of all prefixes.

    The latter, ``[batch, time, 2 * longest + 1]``, are of all times; torch leaves open what is beyond a sequence's end.
    `zero_infinity` is about gradients only.
    """
    dtype = log_probs.tensor.dtype
    time, batch, classes = w.dims(log_probs)
    if w.rank(targets) == 1:
        targets = w.b.unsqueeze(targets, axes=[0]) if batch == 1 else _padded(w, targets, target_lengths)
    frames, letters = (_lengths(w, each) for each in (input_lengths, target_lengths))
    longest = w.dims(targets)[1]
    count = longest * 2 + 1
    # A blank in front of each label, and one behind the last.
    wide = w.b.unsqueeze(w.b.clip(w.cast(targets, i64), lo=0, hi=w.tensor(classes - 1, i64)), axes=[2])
    labels = reshape(w, w.b.concat([full(w, [batch, longest, 1], blank, i64), wide], axis=2), [batch, longest * 2])
    labels = w.b.concat([labels, full(w, [batch, 1], blank, i64)], axis=1)
    before = w.b.pad(labels, w.tensor(blank, i64), before=[0, 2], after=[0, 0], mode="constant")
    before = w.b.slice(before, axes=[1], starts=[0], ends=[count], steps=[1])
    skips = w.b.logical_and(w.b.ne(labels, blank), w.b.ne(labels, before))
    emitted = w.b.gather_elements(log_probs, expand(w, w.b.unsqueeze(labels, axes=[0]), [time, batch, count]), axis=2)

    def frame(b: Builder, number: Value, alpha: Value, here: Value) -> list[Value]:
        behind = b.pad(alpha, b.constant(-math.inf, dtype), before=[0, 2], after=[0, 0], mode="constant")
        one, two = (b.slice(behind, axes=[1], starts=[start], ends=[count + start], steps=[1]) for start in (1, 0))
        two = b.where(skips, two, -math.inf)
        most = b.maximum(b.maximum(alpha, one), two)
        most = b.where(b.eq(most, -math.inf), 0.0, most)
        shares = [b.exp(b.sub(each, most)) for each in (alpha, one, two)]
        total = b.add(b.add(b.log(b.add(b.add(*shares[:2]), shares[2])), most), here)
        return [b.constant(True), total, total]

    start = w.b.where(w.b.eq(w.b.arange(start=0, stop=count, dtype=i64), 0), w.tensor(0.0, dtype), -math.inf)
    start = expand(w, start, [batch, count])
    body = w.b.subgraph([Tensor(i64, ()), start.tensor, Tensor(dtype, (batch, count))], frame)
    _, alphas = w.b.loop(None, None, [start, emitted], carried=1, regions=[body])
    alphas = w.b.permute(alphas, perm=[1, 0, 2])

    # The sequence ends with the last label, or with the blank behind it.
    last = w.b.maximum(w.b.sub(frames, 1), 0)
    ends = [w.b.mul(letters, 2), w.b.maximum(w.b.sub(w.b.mul(letters, 2), 1), 0)]
    pairs = [w.b.concat([w.b.reshape(each, shape=[batch, 1, 1]) for each in (last, end)], axis=2) for end in ends]
    found = w.b.gather_nd(alphas, w.b.concat(pairs, axis=1), batch_dims=1)
    none = w.b.unsqueeze(w.b.eq(letters, 0), axes=[1])
    second = w.b.concat([full(w, [batch, 1], False, bool_), none], axis=1)
    loss = w.b.neg(w.b.logsumexp(w.b.where(second, w.tensor(-math.inf, dtype), found), axes=[1]))
    without = w.b.where(w.b.eq(letters, 0), w.tensor(0.0, dtype), math.inf)
    return w.b.where(w.b.eq(frames, 0), without, loss), alphas


def _lengths(w: Lowering, given: Value | Sequence[int]) -> Value:
    if not isinstance(given, Value):
        return w.b.constant(np.array(given, np.int64))
    found = w.cast(given, i64)
    return found if w.rank(found) else reshape(w, found, [1])


def _padded(w: Lowering, targets: Value, lengths: Value | Sequence[int]) -> Value:
    """Targets that stand one behind the other, as ``[batch, longest]``."""
    known = w.known(lengths) if isinstance(lengths, Value) else np.array(lengths, np.int64)
    if known is None:
        w.unsupported("targets one behind the other need lengths that are numbers", "pad the targets")
    ends = np.cumsum(known)
    places = (ends - known)[:, None] + np.arange(known.max(initial=0))
    found: Value = w.b.gather(targets, np.minimum(places, max(0, int(ends[-1]) - 1)), axis=0)
    return found
