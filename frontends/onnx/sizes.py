"""Sizes as values and values as sizes: lists of dims as tensors, and the elements of a tensor as dims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.ir import dtypes
from isthmus.ir.dims import INF, Bound, Dim
from isthmus.ir.graph import Value

MOST: Final = 1 << 12
"""No op has more sizes, axes or parts that only a run tells: each becomes nodes of its own."""


def vector(c: Conversion, dims: Sequence[Dim]) -> Value:
    """An i64 list of dims: a constant where they are numbers."""
    parts: list[Any] = []
    numbers: list[int] = []
    for dim in dims:
        if isinstance(dim, int):
            numbers.append(dim)
            continue
        if numbers:
            parts.append(c.b.constant(np.array(numbers)))
            numbers = []
        parts.append(c.b.reshape(c.b.size(dim), shape=[1]))
    if numbers or not parts:
        parts.append(c.b.constant(np.array(numbers, np.int64)))
    made: Value = c.b.concat(parts, axis=0) if len(parts) > 1 else parts[0]
    return made


def sizes(c: Conversion, value: Value, what: str, lo: Bound = -INF) -> tuple[Dim, ...]:
    """The elements of a short list of integers, or of a 0-d one, as dims; those that are data as new symbols, bound to them.

    Args:
        c: the conversion.
        value: the integers.
        what: what they are, for the reason.
        lo: the least that they may be.

    Raises:
        Opaque: how many there are is not known.
    """
    known = c.numbers(value)
    if known is not None:
        return known
    shape = c.shape(value)
    node = value.producer
    if node is not None and node.op.name == "concat" and len(shape) == 1:
        return tuple(dim for part in node.operands if part is not None for dim in sizes(c, part, what, lo))
    if len(shape) > 1 or not all(isinstance(dim, int) for dim in shape):
        c.opaque(f"how many {what} there are depends on data")
    value = value if value.tensor.dtype is dtypes.i64 else c.b.cast(value, dtype=dtypes.i64)
    return tuple(_bound(c, item, lo) for item in items(c, value))


def items(c: Conversion, value: Value) -> list[Value]:
    """The elements of a list of known length, or of a 0-d tensor, as 0-d tensors.

    Raises:
        FileError: the list is longer than any that an op takes.
    """
    shape = c.shape(value)
    if not shape:
        return [value]
    assert isinstance(shape[0], int)
    if shape[0] > MOST:
        raise c.malformed(f"has a list of {shape[0]:,} numbers where it takes one a size, an axis or a part")
    b = c.b
    places = range(shape[0])
    return [b.squeeze(b.slice(value, axes=[0], starts=[at], ends=[at + 1], steps=[1]), axes=[0]) for at in places]


def places(c: Conversion, axes: Iterable[Dim], rank: int) -> list[int]:
    """Axes counted from the front.

    Raises:
        FileError: there is no such axis.
        Opaque: an axis is a size that is not known.
    """
    return [c.axis(axis if isinstance(axis, int) else c.opaque("an axis is a size"), rank) for axis in axes]


def _bound(c: Conversion, item: Value, lo: Bound) -> Dim:
    found = c.b.graph.symbols.fresh("n", lo)
    assert not isinstance(found, int)
    c.b.bind(item, symbol=found.symbol)
    return found


def before_cast(counts: Value) -> Value:
    """Counts or numbers of places, which any element type of indices holds: what they were before such a cast."""
    node = counts.producer
    source = node.operands[0] if node is not None and node.op.name == "cast" else None
    indices = source is not None and {source.tensor.dtype, counts.tensor.dtype} <= dtypes.INDEX
    return source if source is not None and indices else counts


def repeated(c: Conversion, value: Value, axis: int, count: Dim) -> Value:
    """What has 1 or `count` elements along an axis, with `count` of them where it is not known to have 1."""
    own = c.shape(value)[axis]
    if isinstance(own, int) or c.b.graph.symbols.same(own, count) is True:
        return value
    b = c.b
    made: Value = b.gather(value, b.mod(b.arange(stop=count), b.size(own)), axis=axis)
    return made
