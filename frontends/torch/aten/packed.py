"""Packed sequences: the elements of a padded batch one behind the other, time by time, without those behind the ends.

Recurrent layers work on the padded batch with its lengths, so how a packed sequence came about is remembered; what was
packed only to be taken apart again then leaves no trace in the graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers
from isthmus.ir.dims import Dim, symbols
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value


class Packing(NamedTuple):
    """How sequences are packed.

    Attributes:
        lengths: of each sequence, i64, in decreasing order.
        places: time and sequence of each element, i64 ``[elements, 2]``.
        longest: the greatest length.
        batch: the number of sequences.
    """

    lengths: Value
    places: Value
    longest: Dim
    batch: Dim


class Padded(NamedTuple):
    """What packed elements are those of.

    Attributes:
        x: ``[time, sequences, ...]``, perhaps longer than the longest sequence.
        clean: whether it is 0 behind the ends.
    """

    x: Value
    clean: bool


def packing(w: Lowering, batch_sizes: Value) -> Packing:
    """How sequences with these batch sizes were packed.

    Raises:
        Refusal: they were not, in this model.
    """
    found = w.packings.get(batch_sizes)
    if found is None:
        w.unsupported("how these sequences were packed is not known", "pack them in the model, by pack_padded_sequence")
    return found  # type: ignore[no-any-return]


def padded(w: Lowering, data: Value, packing: Packing) -> Padded:
    """Packed elements as a padded batch."""
    found = w.padded.get(data)
    if found is None:
        nothing = w.b.expand(w.tensor(0, data.tensor.dtype), shape=[packing.longest, packing.batch, *w.dims(data)[1:]])
        found = w.padded[data] = Padded(w.b.scatter_nd(nothing, packing.places, data), True)
    return found


def pack(w: Lowering, x: Padded, packing: Packing) -> Value:
    """A padded batch as packed elements."""
    data: Value = w.b.gather_nd(x.x, packing.places)
    w.padded[data] = x
    return data


def _inside(w: Lowering, lengths: Value, time: Dim) -> Value:
    """Where there are elements: bool ``[time, sequences]``."""
    turns = w.b.unsqueeze(w.b.arange(stop=time, dtype=i64), axes=[1])
    return w.b.lt(turns, w.b.unsqueeze(lengths, axes=[0]))  # type: ignore[no-any-return]


def _longest(w: Lowering, lengths: Value, time: Dim) -> Dim:
    content = w.known(lengths)
    if content is not None:
        return int(content.max())
    greatest = w.b.reduce_max(lengths, axes=[0])
    guess = w.knowledge.guess(greatest)
    (symbol,) = symbols(w.b.graph.symbols.fresh("longest", lo=1, hint=None if guess is None else int(guess)))
    w.b.bind(greatest, symbol=symbol)
    w.b.graph.symbols.assume("<=", symbol.dim, time)
    return symbol.dim


@lowers("aten._pack_padded_sequence")
def pack_padded_sequence(w: Lowering, input: Value, lengths: Value, batch_first: bool) -> Any:
    x = w.b.permute(input, perm=[1, 0, *range(2, w.rank(input))]) if batch_first else input
    time, count, *_ = w.dims(x)
    lengths = w.cast(lengths, i64)
    longest = _longest(w, lengths, time)
    inside = _inside(w, lengths, longest)
    content = w.known(inside)
    places = w.b.nonzero(inside) if content is None else w.b.constant(np.argwhere(content))
    # The first of the batch sizes is that of the batch, as no sequence is empty.
    later = w.b.reduce_sum(w.cast(part(w, inside, 0, 1, longest), i64), axes=[1])
    batch_sizes = w.b.concat([w.b.unsqueeze(w.b.size(count), axes=[0]), later], axis=0)
    how = w.packings[batch_sizes] = Packing(lengths, places, longest, count)
    return pack(w, Padded(x, False), how), batch_sizes


@lowers("aten._pad_packed_sequence")
def pad_packed_sequence(
    w: Lowering, data: Value, batch_sizes: Value, batch_first: bool, padding_value: Scalar, total_length: Dim
) -> Any:
    how = packing(w, batch_sizes)
    x, clean = padded(w, data, how)
    if w.same(w.dims(x)[0], total_length) is not True:
        x = part(w, x, 0, 0, how.longest)
        if w.same(how.longest, total_length) is not True:
            rest = [0] * (w.rank(x) - 1)
            x = w.b.pad(x, before=[0, *rest], after=[total_length - how.longest, *rest])
    if not clean or padding_value != 0:
        rank = w.rank(x)
        inside = w.b.unsqueeze(_inside(w, how.lengths, total_length), axes=list(range(2, rank)))
        x = w.b.where(inside, x, w.tensor(padding_value, x.tensor.dtype))
    if batch_first:
        x = w.b.permute(x, perm=[1, 0, *range(2, w.rank(x))])
    return x, how.lengths
