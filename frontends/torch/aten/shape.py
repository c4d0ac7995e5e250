"""The same elements under another shape, in another order, repeated, or in another element type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from isthmus.frontends.torch.aten.common import broadcast, expand, integer, listed, moved, permute, reshape
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Value

# ---- the value itself

_SAME: Final = (
    "clone", "contiguous", "detach", "alias", "lift_fresh", "lift", "lift_fresh_copy", "resolve_conj", "resolve_neg",
    "pin_memory", "positive", "detach_copy", "alias_copy",
)  # fmt: skip


@lowers(*(f"aten.{name}" for name in _SAME))
def same(w: Lowering, x: Value) -> Any:
    return x


# ---- element types


@lowers("aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten._to_copy", "aten.to.prim_dtype", "aten.to.prim_Device")
def to(w: Lowering, x: Value, dtype: DType | None = None, non_blocking: bool = False, copy: bool = False) -> Any:
    return x if dtype is None else w.cast(x, dtype)


@lowers("aten.to.other", "aten.type_as", "aten.to.prim_other")
def to_other(w: Lowering, x: Value, other: Value | None = None, non_blocking: bool = False, copy: bool = False) -> Any:
    return x if other is None else w.cast(x, other.tensor.dtype)


# ---- another shape


def completed(w: Lowering, x: Value, shape: Sequence[Dim]) -> list[Dim]:
    """A wanted shape with what -1 stands for put in."""
    sizes = list(shape)
    holes = [axis for axis, size in enumerate(sizes) if size.__class__ is int and size == -1]
    if len(holes) > 1:
        w.unsupported("only one size can be -1")
    if holes:
        sizes[holes[0]] = 1
        known = product(sizes)
        if known == 0:
            w.unsupported("what -1 stands for is not determined beside a size of 0")
        sizes[holes[0]] = product(w.dims(x)) // known
    return sizes


@lowers("aten.reshape", "aten.view", "aten._unsafe_view", "aten._reshape_alias", "aten.view_copy")
def view(w: Lowering, x: Value, shape: Sequence[Dim]) -> Any:
    return reshape(w, x, completed(w, x, shape))


@lowers("aten.view.dtype")
def view_dtype(w: Lowering, x: Value, dtype: DType) -> Any:
    if x.tensor.dtype is not dtype:
        w.unsupported(f"bits of {x.tensor.dtype} cannot be read as {dtype}", "convert the values with .to(dtype)")
    return x


@lowers("aten.view_as", "aten.reshape_as")
def view_as(w: Lowering, x: Value, other: Value) -> Any:
    return reshape(w, x, w.dims(other))


@lowers("aten.flatten.using_ints")
def flatten(w: Lowering, x: Value, start_dim: int = 0, end_dim: int = -1) -> Any:
    shape = w.dims(x)
    if not shape:
        return w.b.reshape(x, shape=[1])
    start, end = w.axis(x, start_dim), w.axis(x, end_dim)
    return reshape(w, x, [*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :]])


@lowers("aten.ravel")
def ravel(w: Lowering, x: Value) -> Any:
    return flatten(w, x)


@lowers("aten.unflatten.int")
def unflatten(w: Lowering, x: Value, dim: int, sizes: Sequence[Dim]) -> Any:
    shape, axis, parts = w.dims(x), w.axis(x, dim), list(sizes)
    if -1 in parts:
        hole = parts.index(-1)
        parts[hole] = 1
        parts[hole] = shape[axis] // product(parts)
    return reshape(w, x, [*shape[:axis], *parts, *shape[axis + 1 :]])


@lowers("aten.unsqueeze", "aten.unsqueeze_copy")
def unsqueeze(w: Lowering, x: Value, dim: int) -> Any:
    return w.b.unsqueeze(x, axes=[w.axis_in(w.rank(x) + 1, dim)])


def is_one(w: Lowering, size: Dim) -> bool:
    """Whether a size is 1; asked where it is not known."""
    return size == 1 if isinstance(size, int) else w.decide("==", size, 1)


@lowers(*(f"aten.{name}.{kind}" for name in ("squeeze", "squeeze_copy") for kind in ("default", "dim", "dims")))
def squeeze(w: Lowering, x: Value, dim: int | Sequence[int] | None = None) -> Any:
    """Only sizes of 1 go; whether an unknown one is 1 is asked."""
    shape = w.dims(x)
    axes = range(len(shape)) if dim is None else [w.axis(x, each) for each in listed(dim)] if shape else []
    ones = [axis for axis in sorted(axes) if is_one(w, shape[axis])]
    return w.b.squeeze(x, axes=ones) if ones else x


def _at_least(count: int) -> None:
    def lift(w: Lowering, x: Value) -> Any:
        """New axes of size 1 go in front; the third goes behind."""
        shape = w.dims(x)
        if len(shape) < count:
            front = (1,) * (min(count, 2) - len(shape)) + shape
            x = reshape(w, x, front + (1,) * (count - len(front)))
        return x

    def lift_all(w: Lowering, tensors: list[Value]) -> Any:
        return [lift(w, each) for each in tensors]

    lowers(f"aten.atleast_{count}d")(lift)
    lowers(f"aten.atleast_{count}d.Sequence")(lift_all)


for _count in (1, 2, 3):
    _at_least(_count)


# ---- another order


@lowers("aten.permute", "aten.permute_copy")
def permute_(w: Lowering, x: Value, dims: Sequence[int]) -> Any:
    return permute(w, x, [w.axis(x, dim) for dim in dims])


@lowers("aten.transpose.int", "aten.transpose_copy.int", "aten.swapaxes", "aten.swapdims")
def transpose(w: Lowering, x: Value, dim0: int, dim1: int) -> Any:
    order = list(range(w.rank(x)))
    if order:
        first, second = w.axis(x, dim0), w.axis(x, dim1)
        order[first], order[second] = second, first
    return permute(w, x, order)


@lowers("aten.t", "aten.t_copy", "aten.numpy_T")
def t(w: Lowering, x: Value) -> Any:
    return permute(w, x, range(w.rank(x))[::-1])


@lowers("aten.mT")
def m_t(w: Lowering, x: Value) -> Any:
    return transpose(w, x, -2, -1)


@lowers("aten.adjoint", "aten.matrix_H", "aten.mH")
def adjoint(w: Lowering, x: Value) -> Any:
    turned = transpose(w, x, -2, -1)
    return w.b.conj(turned) if x.tensor.dtype.is_complex else turned


@lowers("aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist")
def movedim(w: Lowering, x: Value, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    sources, destinations = ([w.axis(x, dim) for dim in listed(each)] for each in (source, destination))
    return permute(w, x, moved(w.rank(x), sources, destinations))


@lowers("aten.flip")
def flip(w: Lowering, x: Value, dims: Sequence[int]) -> Any:
    return w.b.flip(x, axes=[w.axis(x, dim) for dim in dims]) if dims and w.rank(x) else x


@lowers("aten.fliplr")
def fliplr(w: Lowering, x: Value) -> Any:
    return w.b.flip(x, axes=[1])


@lowers("aten.flipud")
def flipud(w: Lowering, x: Value) -> Any:
    return w.b.flip(x, axes=[0])


@lowers("aten.rot90")
def rot90(w: Lowering, x: Value, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    first, second = (w.axis(x, dim) for dim in dims)
    if k % 2 == 0:
        return w.b.flip(x, axes=[first, second]) if k % 4 else x
    turned = transpose(w, x, first, second)
    return w.b.flip(turned, axes=[first if k % 4 == 1 else second])


@lowers("aten.roll")
def roll(w: Lowering, x: Value, shifts: Dim | Sequence[Dim], dims: int | Sequence[int] = ()) -> Any:
    shape, moves, along = w.dims(x), listed(shifts), listed(dims)
    if not along:
        flat = w.b.roll(reshape(w, x, [product(shape)]), shifts=moves, axes=[0])
        return reshape(w, flat, shape)
    return w.b.roll(x, shifts=moves, axes=[w.axis(x, dim) for dim in along])


@lowers("aten.diagonal", "aten.linalg_diagonal", "aten.diagonal_copy")
def diagonal(w: Lowering, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return w.b.diagonal(x, offset=offset, axis1=w.axis(x, dim1), axis2=w.axis(x, dim2))


# ---- repeated


@lowers("aten.expand", "aten.broadcast_to", "aten.expand_copy")
def expand_(w: Lowering, x: Value, size: Sequence[Dim], implicit: bool = False) -> Any:
    """A size of -1 stands for the present one."""
    present = (1,) * (len(size) - w.rank(x)) + w.dims(x)
    return expand(w, x, [own if dim.__class__ is int and dim == -1 else dim for own, dim in zip(present, size, strict=True)])


@lowers("aten.expand_as")
def expand_as(w: Lowering, x: Value, other: Value) -> Any:
    return expand(w, x, w.dims(other))


@lowers("aten.repeat", "aten.tile")
def repeat(w: Lowering, x: Value, repeats: Sequence[Dim]) -> Any:
    """As often as `repeats` says along each axis; both are filled up with ones in front."""
    rank = max(len(repeats), w.rank(x))
    times = [1] * (rank - len(repeats)) + list(repeats)
    x = reshape(w, x, (1,) * (rank - w.rank(x)) + w.dims(x))
    return x if all(each.__class__ is int and each == 1 for each in times) else w.b.tile(x, repeats=times)


@lowers("aten.repeat_interleave.self_int")
def repeat_interleave(w: Lowering, x: Value, repeats: Dim, dim: int | None = None, output_size: Dim | None = None) -> Any:
    """Each element, or each slice along a dim, `repeats` times in a row."""
    x = flatten(w, x) if dim is None or not w.rank(x) else x
    axis, shape = (0 if dim is None else w.axis(x, dim)), w.dims(x)
    apart = w.b.unsqueeze(x, axes=[axis + 1])
    apart = expand(w, apart, [*shape[: axis + 1], repeats, *shape[axis + 1 :]])
    return w.b.reshape(apart, shape=[*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]])


@lowers("aten.meshgrid", "aten.meshgrid.indexing")
def meshgrid(w: Lowering, tensors: list[Value], indexing: str = "ij") -> Any:
    vectors = [flatten(w, each) for each in tensors]
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = 1, 0
    shape: list[Dim] = [1] * len(vectors)
    for vector, place in zip(vectors, places, strict=True):
        shape[place] = w.dims(vector)[0]
    grids = []
    for vector, place in zip(vectors, places, strict=True):
        apart = [1] * len(vectors)
        grids.append(expand(w, reshape(w, vector, [*apart[:place], shape[place], *apart[place + 1 :]]), shape))
    return grids


@lowers("aten.broadcast_tensors")
def broadcast_tensors(w: Lowering, tensors: list[Value]) -> Any:
    shape = broadcast(w, *map(w.dims, tensors))
    return [expand(w, each, shape) for each in tensors]


# ---- between channels and space


@lowers("aten.pixel_shuffle")
def pixel_shuffle(w: Lowering, x: Value, upscale_factor: int) -> Any:
    return w.b.depth_to_space(x, block=upscale_factor)


@lowers("aten.pixel_unshuffle")
def pixel_unshuffle(w: Lowering, x: Value, downscale_factor: int) -> Any:
    *lead, channels, height, width = w.dims(x)
    r, n = downscale_factor, len(lead)
    x = w.b.reshape(x, shape=[*lead, channels, height // r, r, width // r, r])
    x = w.b.permute(x, perm=[*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return w.b.reshape(x, shape=[*lead, channels * r * r, height // r, width // r])


@lowers("aten.channel_shuffle", "aten.native_channel_shuffle")
def channel_shuffle(w: Lowering, x: Value, groups: Dim) -> Any:
    batch, channels, *space = w.dims(x)
    count = integer(w, groups, "groups")
    x = w.b.reshape(x, shape=[batch, count, channels // count, *space])
    x = w.b.permute(x, perm=[0, 2, 1, *range(3, 3 + len(space))])
    return w.b.reshape(x, shape=[batch, channels, *space])
