"""Sorting, and what depends on order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isthmus.frontends.torch.aten.common import Number, reshape
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


@lowers("aten.median.dim")
def median_dim(w: Lowering, x: Value, dim: int, keepdim: bool = False) -> Any:
    """The lower of two middle elements; nan, which is sorted behind all numbers, where there is one."""
    if not w.rank(x):
        return x, w.tensor(0, i64)
    axis = w.axis(x, dim)
    size = w.dims(x)[axis]
    ordered = sort(w, x, axis)
    found = [_one(w, each, axis, (size - 1) // 2, keepdim) for each in ordered]
    if not x.tensor.dtype.is_float:
        return tuple(found)
    last = [_one(w, each, axis, size - 1, keepdim) for each in ordered]
    lost = w.b.is_nan(last[0])
    return tuple(w.b.where(lost, end, middle) for end, middle in zip(last, found, strict=True))


@lowers("aten.median")
def median(w: Lowering, x: Value) -> Any:
    return median_dim(w, reshape(w, x, [product(w.dims(x))]), 0)[0]


def _quantile(w: Lowering, x: Value, q: Number, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    """Along a dim, or of all elements; the axis of `q` stands in front."""
    rank = w.rank(x)
    x = reshape(w, x, [product(w.dims(x))]) if dim is None or not rank else x
    axis = 0 if dim is None else w.axis(x, dim)
    size = w.dims(x)[axis]
    ordered = w.b.sort(x, axis=axis)[0]
    dtype = x.tensor.dtype
    place = w.b.mul(w.tensor(q, dtype), w.tensor(size - 1, dtype))
    low, high = w.b.floor(place), w.b.ceil(place)
    if interpolation in ("lower", "higher", "nearest"):
        low = high = {"lower": low, "higher": high, "nearest": w.b.round(place)}[interpolation]
    below, above = (w.b.gather(ordered, w.cast(each, i64), axis=axis) for each in (low, high))
    share = w.tensor(0.5, dtype) if interpolation == "midpoint" else w.b.sub(place, low)
    listed = w.rank(place)
    if listed:
        share = reshape(w, share, [*w.dims(share), *[1] * (w.rank(x) - 1 - axis)])
    found = below if low is high else w.b.add(below, w.b.mul(w.b.sub(above, below), share))
    lost = w.b.reduce_any(w.b.is_nan(x), axes=[axis], keepdims=bool(listed))
    found = w.b.where(lost, w.tensor(np.nan, dtype), found)
    if listed and axis:
        found = w.b.permute(found, perm=[axis, *(other for other in range(w.rank(found)) if other != axis)])
    if not keepdim:
        return found
    if dim is None:
        return reshape(w, found, [*w.dims(found), *[1] * rank])
    return w.b.unsqueeze(found, axes=[axis + listed]) if rank else found


@lowers("aten.quantile", "aten.quantile.scalar")
def quantile(
    w: Lowering, x: Value, q: Number, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear"
) -> Any:
    return _quantile(w, x, q, dim, keepdim, interpolation)
