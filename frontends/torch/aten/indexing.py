"""Reading at places that are data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus.frontends.torch.aten.common import Number, broadcast, expand, full, index, permute, places_of, reshape, truth
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import bool_, f64, i32, i64, u8
from isthmus.ir.graph import Value


@dataclass
class Places:
    """What ``x[indices]`` points at: one index for each of some axes.

    Attributes:
        axes: the axes of `x` that are indexed, in order.
        columns: an index tensor for each, not yet broadcast; empty where `rows` is given.
        rows: all of them as ``[u, len(axes)]``, where one bool mask names them all.
    """

    axes: list[int]
    columns: list[Value]
    rows: Value | None = None

    @property
    def adjacent(self) -> bool:
        """Whether the indexed axes are neighbours, so that the result keeps the index's axes in their place."""
        return self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))

    def shape(self, w: Lowering) -> tuple[Dim, ...]:
        """The shape that the index tensors broadcast to."""
        return w.dims(self.rows)[:1] if self.rows is not None else broadcast(w, *map(w.dims, self.columns))

    def matrix(self, w: Lowering) -> Value:
        """All indices in a last axis, as `gather_nd` and `scatter_nd` take them."""
        if self.rows is not None:
            return self.rows
        shape = self.shape(w)
        kind = i32 if all(column.tensor.dtype is i32 for column in self.columns) else i64
        columns = [w.b.unsqueeze(expand(w, w.cast(each, kind), shape), axes=[len(shape)]) for each in self.columns]
        found: Value = columns[0] if len(columns) == 1 else w.b.concat(columns, axis=len(shape))
        return found


def is_mask(value: Value) -> bool:
    """Whether an index tensor says yes or no for each element."""
    return value.tensor.dtype in (bool_, u8)


def places(w: Lowering, x: Value, indices: Sequence[Value | None]) -> Places:
    """What the indices of ``x[indices]`` point at; a mask stands for one index tensor for each of its axes."""
    axes: list[int] = []
    columns: list[Value] = []
    axis = 0
    given = [each for each in indices if each is not None]
    for each in indices:
        if each is None:
            axis += 1
            continue
        if not is_mask(each):
            axes.append(axis)
            columns.append(index(w, each))
            axis += 1
            continue
        rank = w.rank(each)
        named = list(range(axis, axis + rank))
        for own, other in zip(w.dims(x)[axis:], w.dims(each), strict=False):
            if not w.same(own, other):
                w.decide("==", own, other)
        rows = places_of(w, truth(w, each))
        if len(given) == 1 and rank > 1:
            return Places(named, [], rows)
        axes += named
        columns += [w.b.squeeze(part(w, rows, 1, number, number + 1), axes=[1]) for number in range(rank)]
        axis += rank
    if not axes:
        w.unsupported("a mask without dims selects all or nothing", "use torch.where")
    if axes[-1] >= w.rank(x):
        w.unsupported("there are more indices than dims")
    return Places(axes, columns)


@lowers("aten.index.Tensor", "aten.index.Tensor_hacked_twin", "aten._unsafe_index.Tensor")
def index_(w: Lowering, x: Value, indices: Sequence[Value | None]) -> Any:
    """Index tensors broadcast against each other; their axes stand in front unless the indexed axes are neighbours."""
    if all(each is None for each in indices):
        return x
    found = places(w, x, indices)
    if len(found.columns) == 1:
        return w.b.gather(x, found.columns[0], axis=found.axes[0])
    rank, depth = w.rank(x), len(found.axes)
    kept = [axis for axis in range(rank) if axis not in found.axes]
    picked = w.b.gather_nd(permute(w, x, found.axes + kept), found.matrix(w))
    return permute(w, picked, behind(w.rank(picked) - (rank - depth), found, rank))


def behind(count: int, found: Places, rank: int) -> list[int]:
    """The order that brings the index's `count` axes from the front to where ``x[indices]`` has them."""
    total = count + rank - len(found.axes)
    start = found.axes[0] if found.adjacent else 0
    return [*range(count, count + start), *range(count), *range(count + start, total)]


@lowers("aten.masked_select")
def masked_select(w: Lowering, x: Value, mask: Value) -> Any:
    shape = broadcast(w, w.dims(x), w.dims(mask))
    if not shape:
        x, mask, shape = w.b.reshape(x, shape=[1]), w.b.reshape(mask, shape=[1]), (1,)
    return w.b.gather_nd(expand(w, x, shape), places_of(w, expand(w, truth(w, mask), shape)))


@lowers("aten.index_select")
def index_select(w: Lowering, x: Value, dim: int, index: Value) -> Any:
    if not w.rank(x):
        return x
    places = w.b.reshape(index, shape=[1]) if not w.rank(index) else index
    return w.b.gather(x, places, axis=w.axis(x, dim))


@lowers("aten.embedding")
def embedding(
    w: Lowering, weight: Value, indices: Value, padding_idx: Dim = -1, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    """The padding index matters to gradients alone."""
    return w.b.gather(weight, index(w, indices), axis=0)


@lowers("aten.take")
def take(w: Lowering, x: Value, index: Value) -> Any:
    return w.b.gather(reshape(w, x, [product(w.dims(x))]), index, axis=0)


def shortened(w: Lowering, x: Value, like: Value, axis: int) -> Value:
    """The part of `x` that an index of shape `like` walks over: other axes may be shorter there."""
    for other, (size, wanted) in enumerate(zip(w.dims(x), w.dims(like), strict=True)):
        if other != axis and not w.same(size, wanted):
            x = part(w, x, other, 0, wanted)
    return x


@lowers("aten.gather")
def gather(w: Lowering, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Any:
    """An index of no elements may have any rank and element type."""
    if product(w.dims(index)) == 0:
        return full(w, w.dims(index), 0, x.tensor.dtype)
    if not w.rank(x):
        return x if not w.rank(index) else expand(w, x, w.dims(index))
    return w.b.gather_elements(x, index, axis=w.axis(x, dim))


@lowers("aten.take_along_dim")
def take_along_dim(w: Lowering, x: Value, indices: Value, dim: int | None = None) -> Any:
    if dim is None:
        return take(w, x, reshape(w, indices, [product(w.dims(indices))]))
    axis = w.axis(x, dim)
    x_shape, i_shape = list(w.dims(x)), list(w.dims(indices))
    x_shape[axis] = i_shape[axis] = 1
    shape = list(broadcast(w, x_shape, i_shape))
    wide = [expand(w, each, [*shape[:axis], w.dims(each)[axis], *shape[axis + 1 :]]) for each in (x, indices)]
    return w.b.gather_elements(*wide, axis=axis)


# ---- searching


@lowers("aten.nonzero", "aten.argwhere")
def nonzero(w: Lowering, x: Value) -> Any:
    return places_of(w, x)


@lowers("aten.nonzero_numpy", "aten.where")
def nonzero_numpy(w: Lowering, x: Value) -> Any:
    """One index tensor for each axis."""
    rows = places_of(w, x if w.rank(x) else w.b.reshape(x, shape=[1]))
    return [w.b.squeeze(part(w, rows, 1, axis, axis + 1), axes=[1]) for axis in range(max(1, w.rank(x)))]


@lowers("aten._unique2")
def unique(w: Lowering, x: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    known = w.known(x)
    if known is None:
        values, inverted, counts = w.b.unique(x)
    else:
        values, inverted, counts = map(w.b.constant, np.unique(known.reshape(-1), return_inverse=True, return_counts=True))
    return values, reshape(w, inverted, w.dims(x)), counts


@lowers("aten.unique_dim")
def unique_dim(
    w: Lowering, x: Value, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:  # fmt: skip
    return w.b.unique(x, axis=w.axis(x, dim))


@lowers("aten.nonzero_static")
def nonzero_static(w: Lowering, x: Value, size: Dim, fill_value: int = -1) -> Any:
    """The first places, and lines of the fill value where there are fewer."""
    found = places_of(w, x)
    more = full(w, [size, w.rank(x)], fill_value, i64)
    return w.b.slice(w.b.concat([found, more], axis=0), axes=[0], starts=[0], ends=[size], steps=[1])


@lowers("aten.isin.Tensor_Tensor", "aten.isin.Tensor_Scalar", "aten.isin.Scalar_Tensor")
def isin(w: Lowering, x: Number, test: Number, assume_unique: bool = False, invert: bool = False) -> Any:
    elements, wanted = w.promote(x, test)
    wanted = reshape(w, wanted, [product(w.dims(wanted))])
    found = w.b.eq(w.b.unsqueeze(elements, axes=[w.rank(elements)]), wanted)
    any_ = w.b.reduce_any(found, axes=[w.rank(elements)])
    return w.b.logical_not(any_) if invert else any_


@lowers("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(w: Lowering, x: Number, boundaries: Value, out_int32: bool = False, right: bool = False) -> Any:
    """How many boundaries lie below each element (or on it, with `right`); nan is above them all."""
    elements, bounds = w.promote(x, boundaries)
    elements = w.b.unsqueeze(elements, axes=[w.rank(elements)])
    beyond = w.b.logical_not((w.b.gt if right else w.b.ge)(bounds, elements))
    return w.b.reduce_sum(w.cast(beyond, i32 if out_int32 else i64), axes=[w.rank(elements) - 1])


@lowers("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    w: Lowering, sorted_sequence: Value, x: Number, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Value | None = None,
) -> Any:  # fmt: skip
    if sorter is not None:
        sorted_sequence = w.b.gather_elements(sorted_sequence, sorter, axis=w.rank(sorted_sequence) - 1)
    if side is not None:
        right = side == "right"
    if w.rank(sorted_sequence) > 1:
        sorted_sequence = w.b.unsqueeze(sorted_sequence, axes=[w.rank(sorted_sequence) - 1])
    return bucketize(w, x, sorted_sequence, out_int32, right)


# ---- counting out


@lowers("aten.one_hot")
def one_hot(w: Lowering, x: Value, num_classes: Dim = -1) -> Any:
    """Without a number of classes there is one for each number up to the greatest."""
    if num_classes != -1 and w.decide(">=", num_classes, 0):
        return w.b.one_hot(x, depth=num_classes, axis=w.rank(x), dtype=i64)
    return w.cast(w.b.eq(w.b.unsqueeze(x, axes=[w.rank(x)]), _numbers(w, x, 0)), i64)


def _numbers(w: Lowering, x: Value, least: Dim) -> Value:
    """``0, 1, ...`` up to the greatest element, at least `least` of them."""
    count = w.b.add(w.b.reduce_max(x, axes=list(range(w.rank(x)))), 1)
    found: Value = w.b.range(w.tensor(0, i64), w.b.maximum(w.cast(count, i64), w.tensor(least, i64)), w.tensor(1, i64))
    return w.cast(found, x.tensor.dtype)


@lowers("aten.bincount")
def bincount(w: Lowering, x: Value, weights: Value | None = None, minlength: Dim = 0) -> Any:
    found = w.b.eq(w.b.unsqueeze(x, axes=[1]), _numbers(w, x, minlength))
    if weights is None:
        return w.b.reduce_sum(w.cast(found, i64), axes=[0])
    if not weights.tensor.dtype.is_float:
        weights = w.cast(weights, f64)
    return w.b.reduce_sum(w.b.where(found, w.b.unsqueeze(weights, axes=[1]), 0), axes=[0])


@lowers("aten.repeat_interleave.Tensor")
def repeated_places(w: Lowering, repeats: Value, output_size: Dim | None = None) -> Any:
    """Each place as often as its element says: i comes from the first place whose running total of repeats exceeds i."""
    known = w.known(repeats)
    if known is not None:
        return w.b.constant(np.repeat(np.arange(len(known)), known))
    times = w.cast(repeats, i64)
    if output_size is None:
        numbers = w.b.range(w.tensor(0, i64), w.b.reduce_sum(times, axes=[0]), w.tensor(1, i64))
    else:
        numbers = w.b.arange(start=0, stop=output_size, dtype=i64)
    return bucketize(w, numbers, w.b.cumsum(times, axis=0), right=True)


@lowers("aten.repeat_interleave.self_Tensor")
def repeat_interleave_tensor(
    w: Lowering, x: Value, repeats: Value, dim: int | None = None, output_size: Dim | None = None
) -> Any:
    """One number of repeats stands for all."""
    x = reshape(w, x, [product(w.dims(x))]) if dim is None else x
    axis = 0 if dim is None else w.axis(x, dim)
    if w.dims(repeats) in ((), (1,)):
        repeats = expand(w, repeats, [w.dims(x)[axis]])
    return w.b.gather(x, repeated_places(w, repeats, output_size), axis=axis)
