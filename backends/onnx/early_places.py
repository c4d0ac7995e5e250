"""Lowerings to what early opsets have: slices, padding, gathers and scatters, and what is found by sorting or adding up."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.backends.formulas import never_negative
from isthmus.backends.onnx.early_turns import COUNT, running, turns
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import lowers
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, ceildiv, maximum, product, same
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Node, Value
from isthmus.ir.types import Tensor

COMBINE: Final = {"none": None, "add": "add", "mul": "mul", "min": "minimum", "max": "maximum"}
"""The op that combines what is written with what is there, by reduction."""

_WIDE: Final = {dtypes.f16: dtypes.f32, dtypes.bf16: dtypes.f32, dtypes.bool_: dtypes.i32}

MOST_NUMBERED: Final = 1 << 20
"""Up to so many numbers are written down as a constant."""


@lowers("arange", below=9)
def _arange_by_turns(b: Builder, node: Node) -> Any:
    (length,) = node.result.tensor.shape or (0,)
    return None if _all_known(node) else _spaced(b, node, turns(b, b.size(length)))


@lowers("arange", below=11)
def _arange(b: Builder, node: Node) -> Any:
    """A constant, or the places of as many ones."""
    attrs, (length,) = node.attrs, node.result.tensor.shape or (0,)
    if isinstance(length, int) and length <= MOST_NUMBERED and _all_known(node):
        return b.constant(attrs["start"] + attrs["step"] * np.arange(length), attrs["dtype"])
    return _spaced(b, node, b.reshape(b.nonzero(b.expand(b.constant(np.int64(1)), shape=[length])), shape=[length]))


def _all_known(node: Node) -> bool:
    return all(isinstance(node.attrs[name], int) for name in ("start", "stop", "step"))


def _spaced(b: Builder, node: Node, found: Value) -> Value:
    """The numbers 0, 1, 2 ... in the steps of an arange, from its start on."""
    start, step, dtype = (node.attrs[name] for name in ("start", "step", "dtype"))
    back = same(step, -1) is True
    if back:
        found = b.sub(b.size(start), found)
    elif same(step, 1) is not True:
        found = b.mul(found, b.size(step))
    if not back and same(start, 0) is not True:
        found = b.add(found, b.size(start))
    return found if dtype is dtypes.i64 else b.cast(found, dtype=dtype)


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
            length = ceildiv(end - start, step)
            places = b.reshape(b.arange(stop=length), shape=[length])  # which is not negative, if nobody can tell
            places = places if step == 1 else b.mul(places, step)
            x = b.gather(x, places if same(start, 0) is True else b.add(places, b.size(start)), axis=axis)
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


@lowers("dynamic_reshape", below=14)
def _dynamic_reshape(b: Builder, node: Node, x: Value, shape: Value) -> Any:
    """To sizes that are data and may be 0: what -1 stands for is worked out, then as `_reshape`."""
    sizes, dtype, count = node.result.tensor.shape, x.tensor.dtype, product(x.tensor.shape or ())
    if node.attrs["keep"] or sizes is None:
        return None
    others = b.maximum(b.neg(b.reduce_prod(shape, axes=[0])), 1)
    shape = b.where(b.lt(shape, 0), b.div(b.size(count), others), shape)
    larger = b.maximum(shape, 1)
    missing = b.sub(b.reduce_prod(larger, axes=[0], keepdims=True), b.reduce_prod(shape, axes=[0], keepdims=True))
    nothing = b.dynamic_expand(b.constant(np.zeros(1, dtype.numpy), dtype), missing)
    filled = b.dynamic_reshape(b.concat([b.reshape(x, shape=[count]), nothing], axis=0), larger, keep=True)
    elsewhere = {symbol for symbol, (value, _) in b.graph.root.binders().items() if value is not node.result}
    for axis, dim in enumerate(sizes):
        if not isinstance(dim, int) and dim.symbol is not None and dim.symbol not in elsewhere:
            b.bind(b.gather(shape, b.constant(np.int64(axis))), symbol=dim.symbol)
    return b.slice(filled, axes=range(len(sizes)), starts=[0] * len(sizes), ends=sizes, steps=[1] * len(sizes))


@lowers("reshape", below=14)
def _reshape(b: Builder, node: Node, x: Value) -> Any:
    """To sizes that may be 0, where a 0 says something else: filled up to a size of 1 at least, then cut."""
    shape, dtype = node.attrs["shape"], x.tensor.dtype
    nothing = b.constant(np.zeros((), dtype.numpy), dtype)
    if 0 in shape:
        return b.expand(nothing, shape=shape)
    larger = [maximum(size, 1) for size in shape]
    count = product(shape)
    filled = b.concat([b.reshape(x, shape=[count]), b.expand(nothing, shape=[product(larger) - count])], axis=0)
    odd = [axis for axis, (size, least) in enumerate(zip(shape, larger, strict=True)) if same(size, least) is not True]
    if not odd:
        return None
    return b.slice(
        b.reshape(filled, shape=larger), axes=odd, starts=[0] * len(odd), ends=[shape[axis] for axis in odd],
        steps=[1] * len(odd),
    )  # fmt: skip


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


def element_numbers(b: Builder, shape: tuple[Dim, ...]) -> Value:
    """The number of each element, in their order: i64 of this shape."""
    known = [size for size in shape if isinstance(size, int)]
    if len(known) == len(shape) and math.prod(known) <= MOST_NUMBERED:
        numbers: Value = b.constant(np.arange(math.prod(known)).reshape(known))
        return numbers
    return _linear_of(b, shape)


def _linear_of(b: Builder, shape: tuple[Dim, ...]) -> Value:
    return _linear(b, [_place(b, axis, shape) for axis in range(len(shape))], shape)


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


@lowers("scatter_nd", below=18)
def _scatter_nd_reduced(b: Builder, node: Node, x: Value, indices: Value, updates: Value) -> Any:
    return None if node.attrs["reduction"] == "none" else _scatter_nd(b, node, x, indices, updates)


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


@lowers("scatter_elements", below=18)
def _scatter_reduced(b: Builder, node: Node, x: Value, indices: Value, updates: Value) -> Any:
    """Where one write must find what another left, one by one."""
    return None if node.attrs["reduction"] == "none" else _scatter_in_turns(b, node, x, indices, updates, None)


@lowers("scatter_elements", below=9)
def _scatter_early(b: Builder, node: Node, x: Value, indices: Value, updates: Value) -> Any:
    """One by one: the others are gathered from where they are, and the new one from behind them all."""
    return _scatter_in_turns(b, node, x, indices, updates, element_numbers(b, (product(shape_of(node)),)))


def _scatter_in_turns(b: Builder, node: Node, x: Value, indices: Value, updates: Value, numbers: Value | None) -> Any:
    shape, wanted, axis, dtype = shape_of(node), shape_of(node, 1), node.attrs["axis"], x.tensor.dtype
    combine, wide = COMBINE[node.attrs["reduction"]], _WIDE.get(dtype)
    if not shape:
        return None
    if combine is not None and wide is not None:  # not to round or cast in each turn
        x, updates = (b.cast(each, dtype=wide) for each in (x, updates))
        return b.cast(b.scatter_elements(x, indices, updates, **node.attrs), dtype=dtype)
    axis %= len(shape)
    places = [_place(b, other, wanted) for other in range(len(shape))]
    places[axis] = _from_front(b, indices, shape[axis])
    count, writes = product(shape), product(wanted)
    scanned = [b.reshape(each, shape=[writes]) for each in (_linear(b, places, shape), updates)]

    def body(b: Builder, turn: Value, flat: Value, place: Value, new: Value) -> list[Value]:
        value = new if combine is None else getattr(b, combine)(b.gather(flat, place, axis=0), new)
        value = b.unsqueeze(value, axes=[0])
        if numbers is None:
            found = b.scatter_elements(flat, b.unsqueeze(place, axes=[0]), value, axis=0)
        else:
            moved = b.mul(b.cast(b.eq(numbers, place), dtype=dtypes.i64), b.sub(b.size(count), place))
            found = b.gather(b.concat([flat, value], axis=0), b.add(numbers, moved), axis=0)
        return [b.constant(True), found]

    region = b.subgraph([COUNT, Tensor(dtype, (count,)), COUNT, Tensor(dtype, ())], body)
    flat = b.loop(None, None, [b.reshape(x, shape=[count]), *scanned], carried=1, regions=[region])
    return b.reshape(flat, shape=shape)


# ---- sorting and adding up


@lowers("topk", below=11)
def _topk(b: Builder, node: Node, x: Value) -> Any:
    """Integers go as f64, which holds those of 32 bits; the least, and longer ones, are the first in order."""
    attrs, dtype = node.attrs, x.tensor.dtype
    if not _has_topk(dtype) or (dtype.is_float and not attrs["largest"]):
        return _first_in_order(b, node, x)
    if not dtype.is_integer:
        return None
    values, indices = b.topk(b.cast(x, dtype=dtypes.f64), **attrs)
    return b.cast(values, dtype=dtype), indices


@lowers("topk", below=10)
def _topk_of_sorted(b: Builder, node: Node, x: Value) -> Any:
    """So many that the number is computed, or none: the first of all in order."""
    k = node.attrs["k"]
    return None if isinstance(k, int) and k else _first_in_order(b, node, x)


def _first_in_order(b: Builder, node: Node, x: Value) -> Any:
    attrs, rank = node.attrs, len(shape_of(node))
    if not rank:
        return None
    axis = attrs["axis"] % rank
    found = b.sort(x, axis=axis, descending=attrs["largest"])
    return tuple(b.slice(each, axes=[axis], starts=[0], ends=[attrs["k"]], steps=[1]) for each in found)


def _has_topk(dtype: DType) -> bool:
    return dtype.is_float or dtype.bits <= 32


@lowers("sort", below=11)
def _sort(b: Builder, node: Node, x: Value) -> Any:
    """As the greatest of all. Of any number, and of long integers: a place in order is how many others come before."""
    shape, dtype, descending = shape_of(node), x.tensor.dtype, node.attrs["descending"]
    if not shape:
        return b.identity(x), b.constant(np.int64(0))
    if dtype is dtypes.bool_:
        values, order = b.sort(b.cast(x, dtype=dtypes.i32), **node.attrs)
        return b.cast(values, dtype=dtype), order
    axis = node.attrs["axis"] % len(shape)
    size = shape[axis]
    if size == 0:
        return b.identity(x), b.expand(b.constant(np.int64(0)), shape=shape)
    if not isinstance(size, int) or not _has_topk(dtype):
        return _sort_by_counting(b, x, axis, descending)
    if descending:
        return b.topk(x, k=size, axis=axis)
    # From behind: of what is negated, nan would still come first.
    values, order = b.topk(b.flip(x, axes=[axis]), k=size, axis=axis)
    return b.flip(values, axes=[axis]), b.sub(size - 1, b.flip(order, axes=[axis]))


def _sort_by_counting(b: Builder, x: Value, axis: int, descending: bool) -> tuple[Value, Value]:
    shape, dtype = x.tensor.shape or (), x.tensor.dtype
    rank = len(shape)
    to_end = [*(other for other in range(rank) if other != axis), axis]
    moved = b.permute(x, perm=to_end)
    these, others = b.unsqueeze(moved, axes=[rank]), b.unsqueeze(moved, axes=[rank - 1])
    before = b.gt(others, these) if descending else b.lt(others, these)
    equal = b.eq(others, these)
    if dtype.is_float:  # nan is greater than any number
        odd, other_odd = b.is_nan(these), b.is_nan(others)
        greater, less = (other_odd, odd) if descending else (odd, other_odd)
        before = b.logical_or(before, b.logical_and(greater, b.logical_not(less)))
        equal = b.logical_or(equal, b.logical_and(odd, other_odd))
    number = b.arange(stop=shape[axis])
    earlier = b.lt(number, b.unsqueeze(number, axes=[1]))
    before = b.logical_or(before, b.logical_and(equal, earlier))
    place = b.reduce_sum(b.cast(before, dtype=dtypes.i64), axes=[rank], keepdims=False)
    here = b.cast(b.eq(b.unsqueeze(place, axes=[rank - 1]), b.unsqueeze(number, axes=[1])), dtype=dtypes.i64)
    order = b.reduce_sum(b.mul(here, number), axes=[rank], keepdims=False)
    order = b.permute(order, perm=[to_end.index(other) for other in range(rank)])
    return b.gather_elements(x, order, axis=axis), order


@lowers("cumsum", below=11)
def _cumsum(b: Builder, node: Node, x: Value) -> Any:
    """In a few steps: to what is there, what is one place before is added, then two, four, eight... Of any number, in turns."""
    attrs, shape = node.attrs, shape_of(node)
    if not shape:
        return None
    axis = attrs["axis"] % len(shape)
    size = shape[axis]
    if not isinstance(size, int):
        return running(b, node, x)
    if not size:
        return b.identity(x)

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
