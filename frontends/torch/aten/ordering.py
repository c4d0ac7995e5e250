"""Sorting, and what depends on order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isthmus.frontends.torch.aten.common import Number, moved, permute, reshape
from isthmus.frontends.torch.aten.running import changes, counting, running
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value


def _of_scalars(w: Lowering, x: Value, build: Callable[[Value, int], Any], dim: int) -> Any:
    """Along a dim; a 0-d tensor is treated as one of a single element."""
    if w.rank(x):
        return build(x, w.axis(x, dim))
    return tuple(w.b.reshape(each, shape=[]) for each in build(w.b.reshape(x, shape=[1]), 0))


@lowers("aten.topk")
def topk(w: Lowering, x: Value, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return _of_scalars(w, x, lambda x, axis: w.b.topk(x, k=k, axis=axis, largest=largest, sorted=sorted), dim)


@lowers("aten.sort", "aten.sort.stable")
def sort(w: Lowering, x: Value, dim: int = -1, descending: bool = False, stable: bool | None = True) -> Any:
    order = {"descending": descending, "stable": bool(stable)}
    return _of_scalars(w, x, lambda x, axis: w.b.sort(x, axis=axis, **order), dim)


@lowers("aten.argsort", "aten.argsort.stable")
def argsort(w: Lowering, x: Value, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    return sort(w, x, dim, descending, stable)[1]


@lowers("aten.msort")
def msort(w: Lowering, x: Value) -> Any:
    return sort(w, x, 0)[0]


@lowers("aten.kthvalue")
def kthvalue(w: Lowering, x: Value, k: Dim, dim: int = -1, keepdim: bool = False) -> Any:
    values, indices = sort(w, x, dim)
    if not w.rank(x):
        return values, indices
    axis, place = w.axis(x, dim), k - 1
    found = [w.b.slice(each, axes=[axis], starts=[place], ends=[k], steps=[1]) for each in (values, indices)]
    return tuple(each if keepdim else w.b.squeeze(each, axes=[axis]) for each in found)


def _one(w: Lowering, x: Value, axis: int, place: Dim, keepdim: bool) -> Value:
    """The element at a place along an axis."""
    found = part(w, x, axis, place, place + 1)
    return found if keepdim else w.b.squeeze(found, axes=[axis])


def _middle(w: Lowering, x: Value, dim: int, keepdim: bool, ignore_nan: bool) -> Any:
    """The lower of two middle elements and its place, along a dim.

    Nan is sorted behind all numbers: the first one stands for the whole where there is one, or they are left out.
    """
    if not w.rank(x):
        return x, w.tensor(0, i64)
    axis = w.axis(x, dim)
    size = w.dims(x)[axis]
    ordered = sort(w, x, axis)
    if not x.tensor.dtype.is_float:
        return tuple(_one(w, each, axis, (size - 1) // 2, keepdim) for each in ordered)
    numbers = w.b.reduce_sum(w.cast(w.b.logical_not(w.b.is_nan(x)), i64), axes=[axis], keepdims=True)
    if ignore_nan:
        place = w.b.div(w.b.maximum(w.b.sub(numbers, 1), 0), 2)
    else:
        all_ = w.tensor(size, i64)
        place = w.b.where(w.b.lt(numbers, all_), numbers, w.tensor((size - 1) // 2, i64))
    found = [w.b.gather_elements(each, place, axis=axis) for each in ordered]
    return tuple(each if keepdim else w.b.squeeze(each, axes=[axis]) for each in found)


def _median(name: str, ignore_nan: bool) -> None:
    def along(w: Lowering, x: Value, dim: int, keepdim: bool = False) -> Any:
        return _middle(w, x, dim, keepdim, ignore_nan)

    def of_all(w: Lowering, x: Value) -> Any:
        """Of nothing it is nan, or the least integer."""
        size = product(w.dims(x))
        if size == 0:
            dtype = x.tensor.dtype
            return w.tensor(np.nan if dtype.is_float else np.iinfo(dtype.numpy).min, dtype)
        return _middle(w, reshape(w, x, [size]), 0, False, ignore_nan)[0]

    lowers(f"aten.{name}.dim")(along)
    lowers(f"aten.{name}")(of_all)


_median("median", False)
_median("nanmedian", True)


@lowers("aten.mode")
def mode(w: Lowering, x: Value, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element, the least of several, and its last place: the end of the longest run when sorted."""
    if not w.rank(x):
        return x, w.tensor(0, i64)
    axis = w.axis(x, dim)
    ordered = sort(w, x, axis)
    place = counting(w, ordered[0], axis)
    starts = w.b.where(changes(w, ordered[0], axis), place, 0)
    end = w.b.argmax(w.b.sub(place, running(w, starts, axis, "maximum")), axis=axis, keepdims=True)
    found = [w.b.gather_elements(each, end, axis=axis) for each in ordered]
    return tuple(each if keepdim else w.b.squeeze(each, axes=[axis]) for each in found)


def _quantile(
    w: Lowering, x: Value, q: Number, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Any:  # fmt: skip
    """Along a dim, or of all elements; the axis of `q` stands in front."""
    rank = w.rank(x)
    x = reshape(w, x, [product(w.dims(x))]) if dim is None or not rank else x
    axis = 0 if dim is None else w.axis(x, dim)
    last = w.rank(x) - 1
    x = permute(w, x, moved(last + 1, [axis], [last]))
    ordered = w.b.sort(x, axis=last)[0]
    dtype = x.tensor.dtype
    fraction = w.tensor(q, dtype)
    listed = w.rank(fraction)
    fraction = fraction if listed else w.b.reshape(fraction, shape=[1])
    if ignore_nan:
        numbers = w.b.reduce_sum(w.cast(w.b.logical_not(w.b.is_nan(x)), dtype), axes=[last], keepdims=True)
        place, take = w.b.mul(fraction, w.b.maximum(w.b.sub(numbers, 1), 0)), w.b.gather_elements
    else:
        place, take = w.b.mul(fraction, w.tensor(w.dims(x)[last] - 1, dtype)), w.b.gather
    low, high = w.b.floor(place), w.b.ceil(place)
    if interpolation in ("lower", "higher", "nearest"):
        low = high = {"lower": low, "higher": high, "nearest": w.b.round(place)}[interpolation]
    below, above = (take(ordered, w.cast(each, i64), axis=last) for each in (low, high))
    share = w.tensor(0.5, dtype) if interpolation == "midpoint" else w.b.sub(place, low)
    found = below if low is high else w.b.add(below, w.b.mul(w.b.sub(above, below), share))
    if not ignore_nan:
        found = w.b.where(w.b.reduce_any(w.b.is_nan(x), axes=[last], keepdims=True), w.tensor(np.nan, dtype), found)
    found = permute(w, found, [last, *range(last)]) if listed else w.b.squeeze(found, axes=[last])
    if not keepdim or not rank:
        return found
    return w.b.unsqueeze(found, axes=[listed + each for each in (range(rank) if dim is None else [axis])])


def _quantiles(name: str, ignore_nan: bool) -> None:
    def lowering(
        w: Lowering, x: Value, q: Number, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear"
    ) -> Any:  # fmt: skip
        return _quantile(w, x, q, dim, keepdim, interpolation, ignore_nan)

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}", f"aten.{name}.scalar")(lowering)


_quantiles("quantile", False)
_quantiles("nanquantile", True)
