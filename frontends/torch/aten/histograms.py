"""Histograms: how many elements lie in each interval, in one dimension and in several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.frontends.torch.aten.common import Number, full, integer, reshape
from isthmus.frontends.torch.aten.creation import linspace
from isthmus.frontends.torch.aten.indexing import bucketize
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import bool_, i64
from isthmus.ir.graph import Value


@lowers("aten.histc")
def histc(w: Lowering, x: Value, bins: int = 100, min: Number = 0, max: Number = 0) -> Any:
    """How many elements lie in each of equal intervals; between the least and the greatest where no ends are given.

    The number of the interval is worked out as torch does it (`LINEAR_INTERPOLATION`); the last one holds its end.
    """
    dtype = x.tensor.dtype
    flat = reshape(w, x, [product(w.dims(x))])
    least, greatest = w.tensor(min, dtype), w.tensor(max, dtype)
    if min == max:
        least, greatest = _ends(w, flat, 1.0)
    inside = w.b.logical_and(w.b.ge(flat, least), w.b.le(flat, greatest))
    place = w.b.floor(w.b.div(w.b.mul(w.b.sub(flat, least), float(bins)), w.b.sub(greatest, least)))
    place = w.b.where(inside, w.b.minimum(place, float(bins - 1)), -1.0)
    numbers = w.cast(w.b.arange(start=0, stop=bins, dtype=i64), dtype)
    return w.b.reduce_sum(w.cast(w.b.eq(w.b.unsqueeze(place, axes=[1]), numbers), dtype), axes=[0])


def _ends(w: Lowering, x: Value, apart: float) -> tuple[Value, Value]:
    """The least and the greatest element of a vector, moved apart where they are the same; 0 and 1 of nothing."""
    if w.dims(x)[0] == 0:
        return w.tensor(0, x.tensor.dtype), w.tensor(1, x.tensor.dtype)
    least, greatest = w.b.reduce_min(x, axes=[0]), w.b.reduce_max(x, axes=[0])
    alike = w.b.eq(least, greatest)
    return w.b.where(alike, w.b.sub(least, apart), least), w.b.where(alike, w.b.add(greatest, apart), greatest)


def _edges(w: Lowering, columns: Sequence[Value], bins: Sequence[int], range: Sequence[float] | None) -> list[Value]:
    """Equally spaced ends of intervals for each dimension; `range` has two numbers for each."""
    found = []
    for axis, (column, count) in enumerate(zip(columns, bins, strict=True)):
        if range is None:
            first, last = _ends(w, column, 0.5)
        else:
            low, high = range[2 * axis : 2 * axis + 2]
            low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
            first, last = (w.tensor(end, column.tensor.dtype) for end in (low, high))
        found.append(linspace(w, first, last, count + 1, column.tensor.dtype))
    return found


def _columns(w: Lowering, x: Value) -> list[Value]:
    """The coordinates of points that stand in the last axis."""
    *rest, last = w.dims(x)
    depth = integer(w, last, "the number of dimensions")
    flat = reshape(w, x, [product(rest), depth])
    return [w.b.squeeze(part(w, flat, 1, axis, axis + 1), axes=[1]) for axis in range(depth)]


def _count(w: Lowering, columns: Sequence[Value], edges: Sequence[Value], weight: Value | None, density: bool) -> Any:
    """How many points lie in each box, or what they weigh; the last box along each axis holds its end."""
    dtype = columns[0].tensor.dtype
    points = w.dims(columns[0])
    shape: list[Dim] = [w.dims(edge)[0] - 1 for edge in edges]
    total = product(shape)
    place, inside = w.tensor(0, i64), w.tensor(True, bool_)
    for column, edge, size in zip(columns, edges, shape, strict=True):
        ends = [w.b.squeeze(part(w, edge, 0, at, at + 1), axes=[0]) for at in (0, size)]
        inside = w.b.logical_and(inside, w.b.logical_and(w.b.ge(column, ends[0]), w.b.le(column, ends[1])))
        number = w.b.minimum(w.b.sub(bucketize(w, column, edge, right=True), 1), w.tensor(size - 1, i64))
        place = w.b.add(w.b.mul(place, w.tensor(size, i64)), number)
    place = w.b.where(inside, place, w.tensor(total, i64))  # behind the last box
    weights = full(w, points, 1, dtype) if weight is None else reshape(w, w.cast(weight, dtype), points)
    counted = w.b.scatter_elements(full(w, [total + 1], 0, dtype), place, weights, axis=0, reduction="add")
    found = reshape(w, part(w, counted, 0, 0, total), shape)
    if not density:
        return found
    found = w.b.div(found, w.b.reduce_sum(found, axes=list(range(len(shape)))))
    for axis, (edge, size) in enumerate(zip(edges, shape, strict=True)):
        widths = w.b.sub(part(w, edge, 0, 1, size + 1), part(w, edge, 0, 0, size))
        found = w.b.div(found, reshape(w, widths, [size, *[1] * (len(shape) - axis - 1)]))
    return found


@lowers("aten.histogram.bin_ct")
def histogram(
    w: Lowering, x: Value, bins: int = 100, range: Sequence[float] | None = None, weight: Value | None = None,
    density: bool = False,
) -> Any:  # fmt: skip
    column = reshape(w, x, [product(w.dims(x))])
    edges = _edges(w, [column], [bins], range)
    return _count(w, [column], edges, weight, density), edges[0]


@lowers("aten.histogram.bins_tensor")
def histogram_of_edges(w: Lowering, x: Value, bins: Value, weight: Value | None = None, density: bool = False) -> Any:
    return _count(w, [reshape(w, x, [product(w.dims(x))])], [bins], weight, density), bins


@lowers("aten._histogramdd_bin_edges")
def histogramdd_edges(
    w: Lowering, x: Value, bins: Sequence[int], range: Sequence[float] | None = None, weight: Value | None = None,
    density: bool = False,
) -> Any:  # fmt: skip
    return _edges(w, _columns(w, x), bins, range)


@lowers("aten._histogramdd_from_bin_cts")
def histogramdd(
    w: Lowering, x: Value, bins: Sequence[int], range: Sequence[float] | None = None, weight: Value | None = None,
    density: bool = False,
) -> Any:  # fmt: skip
    columns = _columns(w, x)
    return _count(w, columns, _edges(w, columns, bins, range), weight, density)


@lowers("aten._histogramdd_from_bin_tensors")
def histogramdd_of_edges(
    w: Lowering, x: Value, bins: Sequence[Value], weight: Value | None = None, density: bool = False
) -> Any:  # fmt: skip
    return _count(w, _columns(w, x), bins, weight, density)
