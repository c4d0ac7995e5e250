"""Lowerings to loops: what early opsets can only say turn by turn, where the number of turns is data or a size."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import lowers
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import bounds, product
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Node, Value
from isthmus.ir.types import Tensor

COUNT: Final = Tensor(dtypes.i64, ())


def as_dtype(b: Builder, x: Value, dtype: DType) -> Value:
    """Cast, where it is needed."""
    return x if x.tensor.dtype is dtype else b.cast(x, dtype=dtype)


def turns(b: Builder, count: Value) -> Value:
    """The numbers from 0 up to a count, which is an i64 scalar: those of the turns of a loop."""
    body = b.subgraph([COUNT], lambda b, turn: [b.constant(True), b.identity(turn)])
    found: Value = b.loop(count, None, [], carried=0, regions=[body])
    return found


def running(b: Builder, node: Node, x: Value) -> Value:
    """The sums or products of what is on an axis so far."""
    attrs, shape, dtype = node.attrs, shape_of(node), x.tensor.dtype
    axis, rank = attrs["axis"] % len(shape), len(shape)
    combine, neutral = ("add", 0) if node.op.name == "cumsum" else ("mul", 1)
    to_front = [axis, *(other for other in range(rank) if other != axis)]
    rows = b.permute(b.flip(x, axes=[axis]) if attrs["reverse"] else x, perm=to_front)
    size, row = shape[axis], Tensor(dtype, (rows.tensor.shape or ())[1:])
    if bounds(size)[0] < 1:  # one turn more, as runtimes take the other sizes of what is stacked in no turn to be 0
        rows = b.concat([rows, b.expand(b.constant(neutral, dtype), shape=[1, *(row.shape or ())])], axis=0)

    def body(b: Builder, turn: Value, total: Value, row: Value) -> list[Value]:
        found = getattr(b, combine)(total, row)
        return [b.constant(True), found, b.identity(total if attrs["exclusive"] else found)]

    start = b.constant(neutral, dtype)
    start = b.expand(start, shape=row.shape) if row.shape else start
    stacked = b.loop(None, None, [start, rows], carried=1, regions=[b.subgraph([COUNT, row, row], body)])[1]
    stacked = b.slice(stacked, axes=[0], starts=[0], ends=[size], steps=[1])
    found: Value = b.permute(stacked, perm=[to_front.index(other) for other in range(rank)])
    return b.flip(found, axes=[axis]) if attrs["reverse"] else found


@lowers("matmul", below=9)
def _matmul_of_integers(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """The products of a column and a row, added up turn by turn."""
    dtype, ranks = x.tensor.dtype, [len(shape_of(node, index)) for index in range(2)]
    if not dtype.is_integer or min(ranks) < 2:
        return None
    columns = b.permute(x, perm=[ranks[0] - 1, *range(ranks[0] - 1)])
    rows = b.permute(y, perm=[ranks[1] - 2, *range(ranks[1] - 2), ranks[1] - 1])
    scanned = [b.unsqueeze(columns, axes=[ranks[0]]), b.unsqueeze(rows, axes=[ranks[1] - 1])]
    total = node.result.tensor

    def body(b: Builder, turn: Value, total: Value, column: Value, row: Value) -> list[Value]:
        return [b.constant(True), b.add(total, b.mul(column, row))]

    region = b.subgraph([COUNT, total, *(Tensor(dtype, (each.tensor.shape or ())[1:]) for each in scanned)], body)
    start = b.expand(b.constant(0, dtype), shape=total.shape)
    return b.loop(None, None, [start, *scanned], carried=1, regions=[region])


# ---- numbers and parts that data tells


@lowers("range", below=11)
def _range(b: Builder, node: Node, start: Value, limit: Value, delta: Value) -> Any:
    """As many turns as fit in; of floats in f64."""
    dtype = node.result.tensor.dtype
    if dtype.is_float:
        first, last, step = (as_dtype(b, each, dtypes.f64) for each in (start, limit, delta))
        count = b.cast(b.ceil(b.div(b.sub(last, first), step)), dtype=dtypes.i64)
    else:
        first, last, step = (as_dtype(b, each, dtypes.i64) for each in (start, limit, delta))
        way = b.where(b.lt(step, 0), b.constant(np.int64(-1)), 1)
        pace = b.mul(step, way)
        pace = b.where(b.eq(pace, 0), 1, pace)
        count = b.floor_div(b.add(b.mul(b.sub(last, first), way), b.sub(pace, 1)), pace)
    numbers = turns(b, b.where(b.gt(count, 0), count, 0))
    if dtype.is_float:
        numbers = b.cast(numbers, dtype=dtypes.f64)
    return as_dtype(b, b.add(b.mul(numbers, step), first), dtype)


@lowers("dynamic_slice", below=10)
def _dynamic_slice(b: Builder, node: Node, x: Value, starts: Value, ends: Value) -> Any:
    """Gathered at what the rules of `dynamic_slice` make of the bounds."""
    for number, (axis, step) in enumerate(zip(node.attrs["axes"], node.attrs["steps"], strict=True)):
        size = shape_of(node)[axis]
        most = size if step > 0 else size - 1
        bounds = []
        for each, least in ((starts, 0), (ends, 0 if step > 0 else -1)):
            bound = b.gather(each, b.constant(np.int64(number)), axis=0)
            bound = b.add(bound, b.mul(b.cast(b.lt(bound, 0), dtype=dtypes.i64), b.size(size)))
            bounds.append(b.minimum(b.maximum(bound, least), b.size(most)))
        x = b.gather(x, b.range(*bounds, b.constant(np.int64(step))), axis=axis)
    return x


@lowers("nonzero", below=9)
def _nonzero(b: Builder, node: Node, x: Value) -> Any:
    """The number of each element that is not 0 is put behind the others; then places are told from numbers."""
    shape = shape_of(node)
    if not shape:
        return None
    count = product(shape)
    found = x if x.tensor.dtype is dtypes.bool_ else b.ne(x, b.constant(np.zeros((), x.tensor.dtype.numpy), x.tensor.dtype))
    marks = b.reshape(b.cast(found, dtype=dtypes.i64), shape=[count])
    total = b.reduce_sum(marks, axes=[0], keepdims=False)
    # How many there are up to each; the k-th stands where this reaches k, which is how many are below it.
    so_far = b.cumsum(marks, axis=0, exclusive=False, reverse=False)
    wanted = turns(b, total)
    below = b.cast(b.le(b.unsqueeze(so_far, axes=[0]), b.unsqueeze(wanted, axes=[1])), dtype=dtypes.i64)
    numbers = b.reduce_sum(below, axes=[1], keepdims=False)
    columns: list[Value] = []
    for axis in range(len(shape)):
        stride, size = product(shape[axis + 1 :]), shape[axis]
        place = numbers if axis == len(shape) - 1 else b.div(numbers, b.maximum(b.size(stride), 1))
        if axis:
            place = b.sub(place, b.mul(b.div(place, b.maximum(b.size(size), 1)), b.size(size)))
        columns.append(b.unsqueeze(place, axes=[1]))
    return b.concat(columns, axis=1) if len(columns) > 1 else columns[0]
