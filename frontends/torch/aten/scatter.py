"""Writing to places that are data; each gives a new tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from isthmus.frontends.torch.aten.arithmetic import limits, mul
from isthmus.frontends.torch.aten.common import Number, broadcast, expand, full, index, inverse, permute, reshape, truth
from isthmus.frontends.torch.aten.indexing import behind, is_mask, places, shortened
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers
from isthmus.ir.dims import Dim, maximum, minimum, product
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value

# ---- along an axis

_REDUCTIONS: Final = {
    "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min", "mean": "add",
}  # fmt: skip


def _scatter(w: Lowering, x: Value, dim: int, index: Value, src: Value, reduction: str) -> Any:
    """The index may be shorter than the source, and than `x` along other axes."""
    shape = w.dims(x)
    if not shape:
        x, index, src = (w.b.reshape(each, shape=[1]) for each in (x, index, src))
    elif not w.rank(index):
        index, src = (w.b.reshape(each, shape=[1]) for each in (index, src))
    axis = w.axis(x, dim)
    src = shortened(w, src, index, -1)
    return reshape(w, w.b.scatter_elements(x, index, src, axis=axis, reduction=reduction), shape)


@lowers("aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter(w: Lowering, x: Value, dim: int, index: Value, src: Number, reduce: str | None = None) -> Any:
    dtype = x.tensor.dtype
    source = w.cast(src, dtype) if isinstance(src, Value) else full(w, w.dims(index), src, dtype)
    return _scatter(w, x, dim, index, source, "none" if reduce is None else _REDUCTIONS[reduce])


@lowers("aten.scatter_add")
def scatter_add(w: Lowering, x: Value, dim: int, index: Value, src: Value) -> Any:
    return _scatter(w, x, dim, index, src, "add")


def _reduced(
    w: Lowering, x: Value, write: Callable[[Value, Value, str], Value], source: Value, reduce: str, include_self: bool
) -> Any:  # fmt: skip
    """Sources combined with each other and, when it is to be included, with what is there.

    Args:
        w: builds the nodes.
        x: what is written to.
        write: puts a source into a tensor like `x`, with a reduction.
        source: what is written.
        reduce: torch's name of the reduction.
        include_self: whether what is there takes part.
    """
    dtype = x.tensor.dtype

    def filled(number: Any) -> Value:
        return full(w, w.dims(source), number, dtype)

    least, greatest = (-float("inf"), float("inf")) if dtype.is_float else limits(x)
    if not include_self:
        neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": least, "amin": greatest}[reduce]
        x = write(x, filled(neutral), "none")
    found = write(x, source, _REDUCTIONS[reduce])
    if reduce != "mean":
        return found
    start = full(w, w.dims(x), 1, dtype)
    start = start if include_self else write(start, filled(0), "none")
    counts = w.b.maximum(write(start, filled(1), "add"), 1)
    return w.b.div(found, counts) if dtype.is_float else w.b.floor_div(found, counts)


@lowers("aten.scatter_reduce.two")
def scatter_reduce(
    w: Lowering, x: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Any:
    def write(x: Value, source: Value, reduction: str) -> Any:
        return _scatter(w, x, dim, index, source, reduction)

    source = shortened(w, src, index, -1) if w.rank(src) == w.rank(index) else src
    return _reduced(w, x, write, source, reduce, include_self)


# ---- slices along an axis


def _along(w: Lowering, x: Value, dim: int, index_: Value, source: Value, reduction: str) -> Any:
    """`source[i]` goes to the slice `index_[i]` of `x` along a dim."""
    shape = w.dims(x)
    if not shape:
        x, source = w.b.reshape(x, shape=[1]), w.b.reshape(source, shape=[1])
    axis = w.axis(x, dim)
    order = [axis, *(other for other in range(w.rank(x)) if other != axis)]
    rows = reshape(w, index(w, index_), [product(w.dims(index_)), 1])
    source = permute(w, source, order) if w.rank(source) == w.rank(x) else w.b.unsqueeze(source, axes=[0])
    written = w.b.scatter_nd(permute(w, x, order), rows, source, reduction=reduction)
    return reshape(w, permute(w, written, inverse(order)), shape)


@lowers("aten.index_add")
def index_add(w: Lowering, x: Value, dim: int, index: Value, source: Value, alpha: Scalar = 1) -> Any:
    if alpha != 1:
        source = mul(w, source, w.tensor(alpha, source.tensor.dtype))
    return _along(w, x, dim, index, w.cast(source, x.tensor.dtype), "add")


@lowers("aten.index_copy")
def index_copy(w: Lowering, x: Value, dim: int, index: Value, source: Value) -> Any:
    return _along(w, x, dim, index, source, "none")


@lowers("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(w: Lowering, x: Value, dim: int, index: Value, value: Number) -> Any:
    shape = list(w.dims(x)) or [1]
    shape[w.axis(x, dim)] = product(w.dims(index))
    return _along(w, x, dim, index, full(w, shape, value, x.tensor.dtype), "none")


@lowers("aten.index_reduce")
def index_reduce(
    w: Lowering, x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool = True
) -> Any:
    def write(x: Value, source: Value, reduction: str) -> Any:
        return _along(w, x, dim, index, source, reduction)

    return _reduced(w, x, write, source, reduce, include_self)


# ---- anywhere


@lowers("aten.index_put", "aten.index_put.hacked_twin", "aten._unsafe_index_put")
def index_put(w: Lowering, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Any:
    """``x[indices] = values``; `values` broadcasts to the shape that ``x[indices]`` has."""
    given = [each for each in indices if each is not None]
    values = w.cast(values, x.tensor.dtype)
    if len(given) == 1 and is_mask(given[0]) and not accumulate and all(dim == 1 for dim in w.dims(values)):
        mask = truth(w, given[0])
        before = next(number for number, each in enumerate(indices) if each is not None)
        behind_mask = w.rank(x) - before - w.rank(mask)
        mask = reshape(w, mask, (*w.dims(mask), *[1] * behind_mask))
        return w.b.where(mask, reshape(w, values, []), x)
    found = places(w, x, indices)
    rank, shape = w.rank(x), found.shape(w)
    kept = [axis for axis in range(rank) if axis not in found.axes]
    order = behind(len(shape), found, rank)
    whole = (*shape, *(w.dims(x)[axis] for axis in kept))
    updates = permute(w, expand(w, values, [whole[axis] for axis in order]), inverse(order))
    written = w.b.scatter_nd(
        permute(w, x, found.axes + kept), found.matrix(w), updates, reduction="add" if accumulate else "none"
    )
    return permute(w, written, inverse(found.axes + kept))


@lowers("aten.put")
def put(w: Lowering, x: Value, index: Value, source: Value, accumulate: bool = False) -> Any:
    """Places count over the flattened tensor."""
    rows = w.b.reshape(index, shape=[product(w.dims(index)), 1])
    flat, updates = (reshape(w, each, [product(w.dims(each))]) for each in (x, source))
    return reshape(w, w.b.scatter_nd(flat, rows, updates, reduction="add" if accumulate else "none"), w.dims(x))


@lowers("aten.masked_scatter")
def masked_scatter(w: Lowering, x: Value, mask: Value, source: Value) -> Any:
    """The elements of `source`, one after the other, where the mask holds."""
    shape = broadcast(w, w.dims(x), w.dims(mask))
    x, mask = expand(w, x, shape), expand(w, truth(w, mask), shape)
    flat = reshape(w, w.cast(mask, i64), [product(shape)])
    number = w.b.maximum(w.b.sub(w.b.cumsum(flat, axis=0), 1), 0)
    size = product(w.dims(source))
    number = w.b.minimum(number, w.tensor(size - 1, i64))  # behind the last true element nothing is taken
    taken = w.b.gather(reshape(w, source, [size]), number, axis=0)
    return w.b.where(mask, reshape(w, taken, shape), x)


# ---- diagonals


def with_diagonal(w: Lowering, x: Value, src: Value, offset: int, first: int, second: int) -> Value:
    """`x` with `src`, whose last axis runs along the diagonal, written there."""
    shape = w.dims(x)
    length = maximum(0, minimum(shape[first] + min(offset, 0), shape[second] - max(offset, 0)))
    rest = [axis for axis in range(len(shape)) if axis not in (first, second)]
    order = [first, second, *rest]
    starts = (max(0, -offset), max(0, offset))
    columns = [w.b.arange(start=start, stop=length + start, dtype=i64) for start in starts]
    matrix = w.b.concat([w.b.unsqueeze(column, axes=[1]) for column in columns], axis=1)
    front = permute(w, src, [len(rest), *range(len(rest))])
    written = w.b.scatter_nd(permute(w, x, order), matrix, front, reduction="none")
    return permute(w, written, inverse(order))


@lowers("aten.diagonal_scatter")
def diagonal_scatter(w: Lowering, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return with_diagonal(w, x, w.cast(src, x.tensor.dtype), offset, w.axis(x, dim1), w.axis(x, dim2))


@lowers("aten.diag_embed")
def diag_embed(w: Lowering, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The last axis becomes the diagonal of two new axes."""
    *rest, length = w.dims(x)
    first, second = (w.axis_in(len(rest) + 2, dim) for dim in (dim1, dim2))
    size = length + abs(offset)
    shape: list[Dim] = list(rest)
    for axis in sorted((first, second)):
        shape.insert(axis, size)
    return with_diagonal(w, full(w, shape, 0, x.tensor.dtype), x, offset, first, second)


@lowers("aten.diag")
def diag(w: Lowering, x: Value, diagonal: int = 0) -> Any:
    if w.rank(x) == 1:
        return diag_embed(w, x, diagonal)
    return w.b.diagonal(x, offset=diagonal, axis1=0, axis2=1)


@lowers("aten.trace")
def trace(w: Lowering, x: Value) -> Any:
    found = w.b.diagonal(x, offset=0, axis1=0, axis2=1)
    dtype = found.tensor.dtype
    return w.b.reduce_sum(found if dtype.is_float or dtype.is_complex else w.cast(found, i64), axes=[0])
