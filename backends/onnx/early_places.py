"""Lowerings to what early opsets have: slices, padding, gathers and scatters, and what is found by sorting or adding up."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.backends.formulas import never_negative
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import lowers
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, ceildiv, product, same
from isthmus.ir.graph import Node, Value


@lowers("arange", below=11)
def _arange(b: Builder, node: Node) -> Any:
    attrs, (length,) = node.attrs, node.result.tensor.shape or (0,)
    found = _counted(b, attrs["start"], attrs["step"], length)
    return found if attrs["dtype"] is dtypes.i64 else b.cast(found, dtype=attrs["dtype"])


def _counted(b: Builder, start: Dim, step: Dim, length: Dim) -> Value:
    """So many numbers from a start on, in steps: a constant, or the places of that many ones."""
    if isinstance(length, int) and isinstance(start, int) and isinstance(step, int):
        return b.constant(start + step * np.arange(length))
    found: Value = b.reshape(b.nonzero(b.expand(b.constant(np.int64(1)), shape=[length])), shape=[length])
    if same(step, 1) is not True:
        found = b.mul(found, b.size(step))
    return found if same(start, 0) is True else b.add(found, b.size(start))


# ---- parts


@lowers("slice", below=10)
def _slice(b: Builder, node: Node, x: Value) -> Any:
    """Steps, and ends that are computed, by gathering."""
    attrs = node.attrs
    plain: list[tuple[int, Dim, Dim]] = []
    for axis, start, end, step in zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True):
        size = shape_of(node)[axis]
        if step == 1 and isinstance(start, int) and (isinstance(end, int) or same(end, size) is True):
            plain.append((axis, start, end))
        else:
            x = b.gather(x, _counted(b, start, step, ceildiv(end - start, step)), axis=axis)
    if len(plain) == len(attrs["axes"]):
        return None
    if not plain:
        return x
    axes, starts, ends = (list(each) for each in zip(*plain, strict=True))
    return b.slice(x, axes=axes, starts=starts, ends=ends, steps=[1] * len(axes))


@lowers("flip", below=10)
def _flip(b: Builder, node: Node, x: Value) -> Any:
    for axis in node.attrs["axes"]:
        size = shape_of(node)[axis]
        x = b.gather(x, b.sub(b.size(size - 1), b.arange(stop=size)), axis=axis)
    return x


@lowers("pad", below=11)
def _pad(b: Builder, node: Node, x: Value, value: Value | None) -> Any:
    """Padding of a constant that is computed, or with computed amounts, or of integers: joined with what is around it."""
    attrs = node.attrs
    if attrs["mode"] != "constant":
        return None
    dtype = x.tensor.dtype
    value = b.constant(np.zeros((), dtype.numpy), dtype) if value is None else value
    for axis, amounts in enumerate(zip(attrs["before"], attrs["after"], strict=True)):
        parts = []
        for amount in amounts:
            shape = list(x.tensor.shape or ())
            shape[axis] = amount
            parts.append(None if same(amount, 0) is True else b.expand(value, shape=shape))
        joined = [part for part in (parts[0], x, parts[1]) if part is not None]
        x = b.concat(joined, axis=axis) if len(joined) > 1 else x
    return x


# ---- places


def _from_front(b: Builder, indices: Value, size: Dim) -> Value:
    """Indices counted from the front, as i64."""
    indices = indices if indices.tensor.dtype is dtypes.i64 else b.cast(indices, dtype=dtypes.i64)
    if never_negative(indices):
        return indices
    found: Value = b.add(indices, b.mul(b.cast(b.lt(indices, 0), dtype=dtypes.i64), b.size(size)))
    return found


def _place(b: Builder, axis: int, shape: tuple[Dim, ...]) -> Value:
    """The number of each element's place along an axis, to be broadcast over the shape."""
    sizes: list[Dim] = [1] * len(shape)
    sizes[axis] = shape[axis]
    found: Value = b.reshape(b.arange(stop=shape[axis]), shape=sizes)
    return found


def _linear(b: Builder, places: list[Value], shape: tuple[Dim, ...]) -> Value:
    """The number of the element that is at these places of a tensor of a shape."""
    total: Value | None = None
    for axis, place in enumerate(places):
        stride = product(shape[axis + 1 :])
        scaled = place if same(stride, 1) is True else b.mul(place, b.size(stride))
        total = scaled if total is None else b.add(total, scaled)
    assert total is not None
    return total


@lowers("gather_elements", below=11)
def _gather_elements(b: Builder, node: Node, x: Value, indices: Value) -> Any:
    shape, wanted, axis = shape_of(node), shape_of(node, 1), node.attrs["axis"]
    if not shape:
        return None
    axis %= len(shape)
    places = [_place(b, other, wanted) for other in range(len(shape))]
    places[axis] = _from_front(b, indices, shape[axis])
    return b.gather(b.reshape(x, shape=[product(shape)]), _linear(b, places, shape), axis=0)


@lowers("gather_nd", below=12)
def _gather_nd(b: Builder, node: Node, x: Value, indices: Value) -> Any:
    """Rows of the tensor with the indexed axes made one."""
    shape, wanted, batch = shape_of(node), shape_of(node, 1), node.attrs["batch_dims"]
    count = wanted[-1]
    if not isinstance(count, int) or not batch + count:
        return None
    head, rest = shape[: batch + count], shape[batch + count :]
    columns = [b.gather(indices, b.constant(np.int64(column)), axis=len(wanted) - 1) for column in range(count)]
    places = [_place(b, axis, wanted[:-1]) for axis in range(batch)]
    places += [_from_front(b, column, head[batch + number]) for number, column in enumerate(columns)]
    return b.gather(b.reshape(x, shape=[product(head), *rest]), _linear(b, places, head), axis=0)


@lowers("scatter_nd", below=11)
def _scatter_nd(b: Builder, node: Node, x: Value, indices: Value, updates: Value) -> Any:
    """Elements of the tensor made flat, each row's under one another."""
    shape, wanted = shape_of(node), shape_of(node, 1)
    count = wanted[-1]
    if not isinstance(count, int) or not count:
        return None
    head, rest = shape[:count], shape[count:]
    columns = [b.gather(indices, b.constant(np.int64(column)), axis=len(wanted) - 1) for column in range(count)]
    row = _linear(b, [_from_front(b, column, size) for column, size in zip(columns, head, strict=True)], head)
    rows, width = product(wanted[:-1]), product(rest)
    place = b.expand(b.reshape(row, shape=[rows, 1]), shape=[rows, width])
    flat = b.scatter_elements(
        b.reshape(x, shape=[product(head), width]), place, b.reshape(updates, shape=[rows, width]), axis=0,
        reduction=node.attrs["reduction"],
    )  # fmt: skip
    return b.reshape(flat, shape=shape)


# ---- sorting and adding up


@lowers("topk", below=11)
def _topk(b: Builder, node: Node, x: Value) -> Any:
    """The smallest are the largest of what has the other sign; integers go as f64, which holds those of 32 bits."""
    attrs, dtype = node.attrs, x.tensor.dtype
    if dtype.is_integer:
        if dtype.bits > 32:
            return None
        values, indices = b.topk(b.cast(x, dtype=dtypes.f64), **attrs)
        return b.cast(values, dtype=dtype), indices
    if attrs["largest"]:
        return None
    values, indices = b.topk(b.neg(x), **{**attrs, "largest": True})
    return b.neg(values), indices


@lowers("cumsum", below=11)
def _cumsum(b: Builder, node: Node, x: Value) -> Any:
    """In a few steps: to what is there, what is one place before is added, then two, four, eight..."""
    attrs, shape = node.attrs, shape_of(node)
    if not shape:
        return None
    axis = attrs["axis"] % len(shape)
    size = shape[axis]
    if not isinstance(size, int) or not size:
        return None

    def shifted(x: Value, by: int) -> Value:
        """Moved on along the axis, zeros in front."""
        amounts = [0] * len(shape)
        kept = b.slice(x, axes=[axis], starts=[0], ends=[size - by], steps=[1])
        found: Value = b.pad(kept, None, before=[*amounts[:axis], by, *amounts[axis + 1 :]], after=amounts, mode="constant")
        return found

    x = b.flip(x, axes=[axis]) if attrs["reverse"] else x
    x = shifted(x, 1) if attrs["exclusive"] else x
    by = 1
    while by < size:
        x = b.add(x, shifted(x, by))
        by *= 2
    return b.flip(x, axes=[axis]) if attrs["reverse"] else x
