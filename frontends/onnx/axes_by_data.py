"""Ops along axes that only a run tells, in ops along axes that are known.

How many axes are named is known, so the rank of the result is; its sizes are worked out as data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.sizes import items, vector
from isthmus.ir import dtypes
from isthmus.ir.graph import Value

END = np.int64(2**63 - 1)


def counted(c: Conversion, axes: Value) -> int:
    """How many axes are named.

    Raises:
        Opaque: that depends on data, too.
    """
    shape = c.shape(axes)
    count = shape[0] if shape else 1
    if not isinstance(count, int):
        c.opaque("the rank of the result depends on data")
    return count


def from_front(c: Conversion, axes: Value, rank: int) -> Value:
    """The axes as an i64 list, counted from the front."""
    b = c.b
    axes = axes if axes.tensor.dtype is dtypes.i64 else b.cast(axes, dtype=dtypes.i64)
    axes = axes if c.rank(axes) else b.reshape(axes, shape=[1])
    made: Value = b.where(b.lt(axes, 0), b.add(axes, rank), axes)
    return made


def flags(c: Conversion, axes: Value, rank: int) -> Value:
    """Whether each of `rank` axes is named: ``bool[rank]``."""
    b = c.b
    same = b.eq(b.arange(stop=rank), b.unsqueeze(from_front(c, axes, rank), axes=[1]))
    made: Value = b.reduce_any(same, axes=[0])
    return made


def spread(c: Conversion, axes: Value, rank: int, values: Value, other: int) -> Value:
    """A list of `rank` numbers: each named axis has its own of `values`, the rest has the same."""
    b = c.b
    ground = b.constant(np.full(rank, other))
    values = values if values.tensor.dtype is dtypes.i64 else b.cast(values, dtype=dtypes.i64)
    made: Value = b.scatter_elements(ground, from_front(c, axes, rank), values, axis=0)
    return made


def unsqueeze(c: Conversion, x: Value, axes: Value) -> Value:
    """With axes of size 1 put in."""
    b = c.b
    rank = c.rank(x) + counted(c, axes)
    new = flags(c, axes, rank)
    old = b.cast(b.logical_not(new), dtype=dtypes.i64)
    # Each axis that is not new has its number among those; the 1 in front is for the ones that are new.
    place = b.mul(b.cumsum(old, axis=0), old)
    made: Value = b.dynamic_reshape(x, b.gather(vector(c, [1, *c.shape(x)]), place))
    return made


def squeeze(c: Conversion, x: Value, axes: Value) -> Value:
    """Without the named axes."""
    b = c.b
    rank = c.rank(x)
    gone = b.cast(flags(c, axes, rank), dtype=dtypes.i64)
    _, order = b.sort(gone, axis=0)
    kept = b.slice(order, axes=[0], starts=[0], ends=[rank - counted(c, axes)], steps=[1])
    made: Value = b.dynamic_reshape(x, b.gather(vector(c, c.shape(x)), kept))
    return made


def along(c: Conversion, x: Value, axes: Value, change: Callable[[Value, int], Value]) -> Value:
    """`x` after ``change(x, axis)`` for every axis that is named; it leaves the rank and the sizes of other axes."""
    b = c.b
    for axis, flag in enumerate(items(c, flags(c, axes, c.rank(x)))):
        changed = change(x, axis)
        before, size = (vector(c, [c.shape(each)[axis]]) for each in (changed, x))
        both = b.concat([changed, x], axis=axis)
        start = b.where(flag, 0, before)
        x = b.dynamic_slice(both, start, b.add(start, b.where(flag, before, size)), axes=[axis], steps=[1])
    return x


def cut(c: Conversion, x: Value, starts: Value, ends: Value, axes: Value | None, steps: Value | None) -> Value:
    """A slice whose axes or steps are data."""
    b = c.b
    rank = c.rank(x)
    axes = vector(c, range(counted(c, starts))) if axes is None else axes
    ones = vector(c, [1] * counted(c, axes))
    every = zip(
        c.shape(x), items(c, spread(c, axes, rank, starts, 0)), items(c, spread(c, axes, rank, ends, int(END))),
        items(c, spread(c, axes, rank, ones if steps is None else steps, 1)), strict=True,
    )  # fmt: skip
    for axis, (dim, start, end, step) in enumerate(every):
        size = b.size(dim)
        back = b.lt(step, 0)
        # Walking backwards, the place in front of the first element is the end of all, and no start (unlike Python's);
        # forwards the end is the place behind the last.
        most = b.where(back, b.sub(size, 1), size)
        first, last = (
            b.minimum(b.maximum(b.where(b.lt(each, 0), b.add(each, size), each), least), most)
            for each, least in ((start, b.constant(np.int64(0))), (end, b.where(back, -1, 0)))
        )
        x = b.gather(x, b.range(first, last, step), axis=axis)
    return x


def accumulate(c: Conversion, x: Value, axis: Value, change: Callable[[Value, int], Value]) -> Value:
    """``change(x, axis)``, which leaves the shape, along one axis."""
    b = c.b
    found: Any = x
    for at, flag in enumerate(items(c, flags(c, axis, c.rank(x)))):
        found = b.where(flag, change(x, at), found)
    return found  # type: ignore[no-any-return]
