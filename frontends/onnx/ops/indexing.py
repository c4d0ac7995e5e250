"""Reading and writing at places that are data, and finding places."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.table import converts
from isthmus.ir.dims import product
from isthmus.ir.graph import Value

# ---- reading


@converts("Gather")
def gather(c: Conversion, x: Value, indices: Value, *, axis: int = 0) -> Any:
    """The parts along an axis that indices name."""
    return c.b.gather(x, indices, axis=c.axis(axis, c.rank(x)))


@converts("GatherElements")
def gather_elements(c: Conversion, x: Value, indices: Value, *, axis: int = 0) -> Any:
    """One element for each index."""
    return c.b.gather_elements(x, indices, axis=c.axis(axis, c.rank(x)))


@converts("GatherND")
def gather_nd(c: Conversion, x: Value, indices: Value, *, batch_dims: int = 0) -> Any:
    """The parts at points."""
    return c.b.gather_nd(x, indices, batch_dims=batch_dims)


@converts("Compress")
def compress(c: Conversion, x: Value, condition: Value, *, axis: int | None = None) -> Any:
    """The parts along an axis where a condition holds; without an axis, the elements."""
    b = c.b
    if axis is None:
        x = b.reshape(x, shape=[product(c.shape(x))])
    return b.gather(x, b.squeeze(b.nonzero(condition), axes=[1]), axis=c.axis(axis or 0, c.rank(x)))


# ---- writing


@converts("Scatter", "ScatterElements")
def scatter_elements(
    c: Conversion, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none",
) -> Any:  # fmt: skip
    """One element written for each index."""
    return c.b.scatter_elements(x, indices, updates, axis=c.axis(axis, c.rank(x)), reduction=reduction)


@converts("ScatterND")
def scatter_nd(c: Conversion, x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Any:
    """Parts written at points."""
    return c.b.scatter_nd(x, indices, updates, reduction=reduction)


@converts("TensorScatter")
def tensor_scatter(
    c: Conversion, cache: Value, update: Value, places: Value | None = None, *, axis: int = -2, mode: str = "linear",
) -> Any:  # fmt: skip
    """An update written into a cache along one axis, for each of a batch from a place of its own on; `circular` wraps round."""
    b = c.b
    dims, length = c.shape(cache), c.shape(update)
    axis = c.axis(axis, len(dims))

    def along(value: Value, at: int) -> Any:
        return b.unsqueeze(value, axes=[other for other in range(len(dims)) if other != at])

    place = along(b.arange(stop=length[axis]), axis)
    if places is not None:
        place = b.add(place, along(places, 0))
    if mode == "circular":
        place = b.mod(place, b.size(dims[axis]))
    return b.scatter_elements(cache, b.expand(place, shape=length), update, axis=axis)


# ---- finding


@converts("NonZero")
def nonzero(c: Conversion, x: Value) -> Any:
    """The places of what is not zero: a row for each axis."""
    return c.b.permute(c.b.nonzero(x), perm=[1, 0])


@converts("Unique")
def unique(c: Conversion, x: Value, *, axis: int | None = None, sorted: int = 1) -> Any:
    """The distinct elements, or slices along an axis; where each first stands, its place among them, and how often it stands.

    Unsorted they come in the order in which they first stand.
    """
    b = c.b
    axis = None if axis is None else c.axis(axis, c.rank(x))
    values, inverse, counts = b.unique(x, axis=axis)
    _, wants_first, *_ = [*c.wanted, False]
    if sorted and not wants_first:
        return values, None, inverse, counts
    _, order = b.sort(inverse, axis=0)
    first = b.gather(order, b.cumsum(counts, axis=0, exclusive=True))
    if not sorted:
        first, places = b.sort(first, axis=0)
        _, back = b.sort(places, axis=0)
        values, counts = b.gather(values, places, axis=axis or 0), b.gather(counts, places)
        inverse = b.gather(back, inverse)
    return values, first, inverse, counts
