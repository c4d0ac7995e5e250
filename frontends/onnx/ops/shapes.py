"""The same elements under another shape, repeated, or with their axes in another order; and shapes as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.frontends.onnx import axes_by_data
from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.filled import filled
from isthmus.frontends.onnx.sizes import places, sizes, vector
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, product, resolve
from isthmus.ir.graph import Value
from isthmus.ir.ops.shape import expanded


@converts("Shape", seen_through=True)
def shape(c: Conversion, x: Value, *, start: int = 0, end: int | None = None) -> Any:
    """The sizes of the axes from `start` up to `end`, as Python slices."""
    return vector(c, c.shape(x)[start:end])


@converts("Size", seen_through=True)
def size(c: Conversion, x: Value) -> Any:
    """The number of elements."""
    return c.b.size(product(c.shape(x)))


# ---- the same elements under another shape


@converts("Reshape", since=5)
def reshape(c: Conversion, x: Value, shape: Value, *, allowzero: int = 0) -> Any:
    """0 stands for the size at the same place, unless zeros are allowed; -1 for what is left."""
    wanted = c.numbers(shape)
    if wanted is not None:
        return c.b.reshape(x, shape=completed(c, c.shape(x), wanted, bool(allowzero)))
    return c.b.dynamic_reshape(x, shape, keep=not allowzero)


@converts("Reshape")
def reshape_old(c: Conversion, x: Value, *, shape: tuple[int, ...] = (), consumed_inputs: Any = ()) -> Any:
    """The shape is an attribute."""
    return c.b.reshape(x, shape=completed(c, c.shape(x), shape, False))


def completed(c: Conversion, source: Sequence[Dim], wanted: Sequence[Dim], allow_zero: bool) -> list[Dim]:
    """A wanted shape with what 0 and -1 stand for put in.

    Raises:
        FileError: that is not determined.
    """
    result = list(wanted)
    for axis, dim in enumerate(wanted):
        if dim.__class__ is int and dim == 0 and not allow_zero:
            if axis >= len(source):
                raise c.malformed(f"the shape {list(wanted)} keeps axis {axis} of {len(source)}")
            result[axis] = source[axis]
    holes = [axis for axis, dim in enumerate(wanted) if dim.__class__ is int and dim == -1]
    if holes:
        rest = product([dim for axis, dim in enumerate(result) if axis not in holes])
        if len(holes) > 1 or (rest.__class__ is int and rest == 0):
            raise c.malformed(f"what -1 stands for in the shape {list(wanted)} is not determined")
        filled(c.b.graph, (dim for axis, dim in enumerate(result) if axis not in holes))
        result[holes[0]] = product(list(source)) // rest
    return result


@converts("Flatten")
def flatten(c: Conversion, x: Value, *, axis: int = 1) -> Any:
    """A matrix: the axes in front of one are its rows, the others its columns."""
    dims = c.shape(x)
    if not -len(dims) <= axis <= len(dims):
        raise c.malformed(f"axis {axis} is not within the rank {len(dims)}")
    at = axis + len(dims) if axis < 0 else axis
    return c.b.reshape(x, shape=[product(dims[:at]), product(dims[at:])])


@converts("Squeeze", since=13)
def squeeze(c: Conversion, x: Value, axes: Value | None = None) -> Any:
    """Without axes of size 1: the named ones, by default all. A symbolic size is taken not to be 1 by default."""
    named = None if axes is None else c.numbers(axes)
    if axes is not None and named is None:
        return axes_by_data.squeeze(c, x, axes)
    dims = [resolve(dim) for dim in c.shape(x)]
    if named is not None:
        return c.b.squeeze(x, axes=places(c, named, len(dims)))
    for dim in dims:
        if not isinstance(dim, int):
            c.b.graph.symbols.constrain(">=", dim, 2)
    return c.b.squeeze(x, axes=[axis for axis, dim in enumerate(dims) if dim.__class__ is int and dim == 1])


@converts("Squeeze")
def squeeze_old(c: Conversion, x: Value, *, axes: tuple[int, ...] | None = None) -> Any:
    """The axes are an attribute."""
    return squeeze(c, x, None if axes is None else vector(c, axes))


@converts("Unsqueeze", since=13)
def unsqueeze(c: Conversion, x: Value, axes: Value) -> Any:
    """With axes of size 1 put in, at places of the result."""
    named = c.numbers(axes)
    if named is None:
        return axes_by_data.unsqueeze(c, x, axes)
    return c.b.unsqueeze(x, axes=places(c, named, c.rank(x) + len(named)))


@converts("Unsqueeze")
def unsqueeze_old(c: Conversion, x: Value, *, axes: tuple[int, ...]) -> Any:
    """The axes are an attribute."""
    return unsqueeze(c, x, vector(c, axes))


# ---- other orders, repeated


@converts("Transpose")
def transpose(c: Conversion, x: Value, *, perm: tuple[int, ...] | None = None) -> Any:
    """The axes in another order; in reverse by default."""
    return c.b.permute(x, perm=range(c.rank(x))[::-1] if perm is None else perm)


@converts("Expand")
def expand(c: Conversion, x: Value, shape: Value) -> Any:
    """Broadcast with a tensor of that shape: a size of 1 in it leaves what is there."""
    wanted = c.numbers(shape)
    target = None if wanted is None else expanded(c.shape(x), wanted)
    return c.b.dynamic_expand(x, shape) if target is None else c.b.expand(x, shape=target)


@converts("Tile", since=6)
def tile(c: Conversion, x: Value, repeats: Value) -> Any:
    """Repeated along each axis."""
    return c.b.tile(x, repeats=sizes(c, repeats, "repeats", lo=0))


@converts("Tile")
def tile_old(c: Conversion, x: Value, tiles: Value, axis: Value) -> Any:
    """Repeated along one axis; both numbers are of the input's element type."""
    at, count = c.known(axis), c.known(tiles)
    repeats: list[Dim] = [1] * c.rank(x)
    if at is None:
        c.opaque("the axis depends on data")
    place = c.axis(int(at.item()), len(repeats))
    if count is None:
        (repeats[place],) = sizes(c, c.b.cast(tiles, dtype=dtypes.i64), "repeats", lo=0)
    else:
        repeats[place] = int(count.item())
    return c.b.tile(x, repeats=repeats)
