"""Rules for gathers and comparisons whose indices only count: what they pick is a slice, a permutation or all there is.

Models that build masks and positions index with ``arange``; such an index is followed through changes of shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, alike, bounds
from isthmus.ir.graph import Node, Value
from isthmus.ir.ops.numerics import held
from isthmus.ir.symbols import Symbols
from isthmus.passes.rules import on

MAX_BYTES: Final = 1 << 16
"""Constants up to this size are looked into."""
MAX_SHAPERS: Final = 64
"""Changes of shape that an index is followed through."""

_SHAPERS: Final = frozenset(("unsqueeze", "squeeze", "expand", "slice"))


@dataclass(frozen=True, slots=True)
class Counting:
    """An integer tensor whose elements are ``start + i`` with `i` the place along `axis`, and `length` of them."""

    axis: int
    start: Dim
    length: Dim


def counting(symbols: Symbols, value: Value | None) -> Counting | None:
    """What a value counts, where it does: an `arange` or a constant like one, under any shape and broadcast."""
    shapers: list[Node] = []
    node = None if value is None else value.producer
    while node is not None and node.op.name in _SHAPERS and len(shapers) < MAX_SHAPERS:
        shapers.append(node)
        value = node.operands[0]
        node = None if value is None else value.producer
    found = None if value is None else _source(value)
    for node in reversed(shapers):
        found = None if found is None else _shaped(symbols, node, found)
    return found


def _source(value: Value) -> Counting | None:
    node = value.producer
    if node is not None and node.op.name == "arange" and node.attrs["step"] == 1 and node.attrs["dtype"].is_integer:
        start, length = node.attrs["start"], value.tensor.shape[0]  # type: ignore[index]
        # the last one in a type that is too small for it starts again from below
        return Counting(0, start, length) if held(node.attrs["dtype"], [(start, start + length - 1)]) else None
    weight = value.weight
    if weight is None or not weight.dtype.is_integer or not weight.shape or not 1 < weight.nbytes <= MAX_BYTES:
        return None
    axis = max(range(len(weight.shape)), key=lambda axis: weight.shape[axis])
    array = weight.array()
    if weight.size < 2 or weight.size != weight.shape[axis] or not np.all(np.diff(array.reshape(-1).astype(np.int64)) == 1):
        return None
    return Counting(axis, int(array.reshape(-1)[0]), weight.size)


def _shaped(symbols: Symbols, node: Node, found: Counting) -> Counting | None:
    """What the result of a change of shape counts, when its operand counts."""
    x, result = node.operands[0], node.results[0]
    assert x is not None
    old, new = x.tensor.rank, result.tensor.rank
    if node.op.name == "expand":
        axis = found.axis + new - old
        same = symbols.same(result.tensor.shape[axis], found.length) is True  # type: ignore[index]
        return Counting(axis, found.start, found.length) if same else None
    if node.op.name == "slice":
        axes = [axis % old for axis in node.attrs["axes"]]
        if found.axis not in axes:
            return found
        place = axes.index(found.axis)
        start, end, step = (node.attrs[name][place] for name in ("starts", "ends", "steps"))
        return Counting(found.axis, found.start + start, end - start) if step == 1 else None
    axes = sorted(axis % max(old, new) for axis in node.attrs["axes"])
    if node.op.name == "squeeze":
        gone = sum(axis < found.axis for axis in axes)
        return None if found.axis in axes else Counting(found.axis - gone, found.start, found.length)
    kept = [axis for axis in range(new) if axis not in axes]
    return Counting(kept[found.axis], found.start, found.length)


def _cut(b: Builder, x: Value, axis: int, found: Counting) -> Value | None:
    """The part of an axis that is counted, when that surely lies inside."""
    size = x.tensor.shape[axis]  # type: ignore[index]
    end = found.start + found.length
    if found.start.__class__ is int and found.start == 0 and b.graph.symbols.same(end, size) is True:
        return x
    if bounds(found.start)[0] < 0 or bounds(size - end)[0] < 0:
        return None
    part: Value = b.slice(x, axes=[axis], starts=[found.start], ends=[end], steps=[1])
    return part


def _spread(b: Builder, x: Value, axes: list[int], shape: tuple[Dim, ...]) -> Any:
    """`x`, whose axes become these of the result, repeated along the others."""
    if axes != sorted(axes):
        x = b.permute(x, perm=[axes.index(axis) for axis in sorted(axes)])
    missing = [axis for axis in range(len(shape)) if axis not in axes]
    x = b.unsqueeze(x, axes=missing) if missing else x
    return x if alike(x.tensor.shape, shape) else b.expand(x, shape=shape)


@on("gather")
def counted_gather(b: Builder, node: Node) -> Any:
    """A gather of successive places is a slice."""
    x, indices = node.operands
    found = counting(b.graph.symbols, indices)
    if found is None or x is None or indices is None:
        return None
    axis, many = node.attrs["axis"] % x.tensor.rank, indices.tensor.rank
    part = _cut(b, x, axis, found)
    if part is None:
        return None
    axes = [*range(axis), axis + found.axis, *range(axis + many, x.tensor.rank + many - 1)]
    return _spread(b, part, axes, node.results[0].tensor.shape)  # type: ignore[arg-type]


@on("gather_nd", behind="concat")
def counted_gather_nd(b: Builder, node: Node) -> Any:
    """A gather at the points of a grid is a part of the tensor, its axes in another order."""
    x, indices = node.operands
    grid = indices.producer if indices is not None else None
    if x is None or indices is None or grid is None or grid.op.name != "concat" or node.attrs["batch_dims"]:
        return None
    lead = indices.tensor.rank - 1
    if grid.attrs["axis"] % (lead + 1) != lead:
        return None
    axes = []
    for axis, part in enumerate(grid.operands):
        found = counting(b.graph.symbols, part)
        column = part is not None and part.tensor.shape is not None and part.tensor.shape[-1] == 1
        if found is None or not column or found.axis == lead or found.axis in axes:
            return None
        cut = _cut(b, x, axis, found)
        if cut is None:
            return None
        x = cut
        axes.append(found.axis)
    return _spread(b, x, [*axes, *range(lead, lead + x.tensor.rank - len(axes))], node.results[0].tensor.shape)  # type: ignore[arg-type]


@on("gather", behind="expand")
def gather_of_repeated(b: Builder, node: Node) -> Any:
    """A gather with indices that are repeated is repeated itself."""
    x, indices = node.operands
    source = indices.producer if indices is not None else None
    if x is None or source is None or source.op.name != "expand" or node.attrs["axis"] % x.tensor.rank != 0:
        return None
    return b.expand(b.gather(x, source.operands[0], axis=0), shape=node.results[0].tensor.shape)


@on("nonzero")
def every_place(b: Builder, node: Node) -> Any:
    """The places of all elements of a list, none of which is 0: they are counted. In nothing there are none."""
    shape, count = node.operands[0].tensor.shape, node.result.tensor.shape[0]  # type: ignore[index, union-attr]
    if shape is not None and 0 in shape:
        return b.constant(np.zeros((0, len(shape)), np.int64))
    if shape is None or len(shape) != 1 or b.graph.symbols.same(count, shape[0]) is not True:
        return None
    return b.unsqueeze(b.arange(stop=shape[0]), axes=[1])


@on("gather_elements", "gather", "slice", "gather_nd")
def part_of_uniform(b: Builder, node: Node) -> Any:
    """Any part of a constant whose elements are all the same."""
    x = node.operands[0]
    weight = x.weight if x is not None else None
    shape = node.results[0].tensor.shape
    if weight is None or shape is None or weight.dtype.kind == "string" or weight.size < 2 or weight.nbytes > MAX_BYTES:
        return None
    array = weight.array()
    first = np.array(array.flat[0], array.dtype)
    return b.expand(b.constant(first), shape=shape) if array.tobytes() == first.tobytes() * weight.size else None


_RELATIONS: Final = {"lt": (1, False), "le": (1, True), "gt": (-1, False), "ge": (-1, True)}
"""Of a comparison: which way it points, and whether it holds between equals."""


@on(*_RELATIONS)
def known_comparison(b: Builder, node: Node) -> Any:
    """A comparison of counted places and numbers that has the same answer everywhere."""
    sign, zero = _RELATIONS[node.op.name]
    x, y = node.operands[::sign]  # x < y, or x <= y
    less, more = _extent(b.graph.symbols, x), _extent(b.graph.symbols, y)
    shape = node.results[0].tensor.shape
    if less is None or more is None or shape is None:
        return None
    least, most = bounds(more[0] - less[1])[0], bounds(more[1] - less[0])[1]
    margin = 0 if zero else 1
    if least >= margin:
        return b.expand(b.constant(np.True_), shape=shape)
    return b.expand(b.constant(np.False_), shape=shape) if most < margin else None


def _extent(symbols: Symbols, value: Value | None) -> tuple[Dim, Dim] | None:
    """The least and the greatest element of an integer tensor."""
    found = counting(symbols, value)
    if found is not None:
        return found.start, found.start + found.length - 1
    weight = value.weight if value is not None else None
    if weight is None or not weight.dtype.is_integer or not weight.size or weight.nbytes > MAX_BYTES:
        return None
    array = weight.array()
    return int(array.min()), int(array.max())


@on("attention")
def mask_that_broadcasts(b: Builder, node: Node) -> Any:
    """A mask that is expanded to the shape of the scores, which attention does by itself."""
    mask = node.operands[3]
    source = mask.producer if mask is not None else None
    q, k, result = node.operands[0], node.operands[1], node.results[0]
    if source is None or source.op.name != "expand" or q is None or k is None:
        return None
    symbols = b.graph.symbols
    lead = zip(q.tensor.shape[:-2], k.tensor.shape[:-2], result.tensor.shape[:-2], strict=False)  # type: ignore[index]
    complete = q.tensor.rank == k.tensor.rank == result.tensor.rank
    if not complete or not all(symbols.same(a, c) is True or symbols.same(d, c) is True for a, d, c in lead):
        return None
    return b.emit(node.op, [*node.operands[:3], source.operands[0]], node.attrs).results


INDICES: Final = (
    counted_gather, counted_gather_nd, gather_of_repeated, every_place, part_of_uniform, known_comparison,
    mask_that_broadcasts,
)  # fmt: skip
