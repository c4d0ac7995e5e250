"""Running extremes, and what else is told by walking along an axis: places, changes, runs of equals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from isthmus.frontends.torch.aten.arithmetic import limits, logaddexp
from isthmus.frontends.torch.aten.common import full, integer, permute, reshape
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, minimum, product
from isthmus.ir.dtypes import bool_, i32, i64, u64
from isthmus.ir.graph import Value

_REDUCTIONS: Final = {"maximum": "reduce_max", "minimum": "reduce_min"}


def counting(w: Lowering, x: Value, axis: int) -> Value:
    """0, 1, ... along an axis, in a shape that broadcasts to that of `x`."""
    size = w.dims(x)[axis]
    return reshape(w, w.b.arange(start=0, stop=size, dtype=i64), [size, *[1] * (w.rank(x) - axis - 1)])


def changes(w: Lowering, x: Value, axis: int) -> Value:
    """Which elements along an axis differ from the one before; the first one does."""
    shape = list(w.dims(x))
    size = shape[axis]
    shape[axis] = first = minimum(size, 1)
    rest = w.b.ne(part(w, x, axis, first, size), part(w, x, axis, 0, size - first))
    found: Value = w.b.concat([full(w, shape, True, bool_), rest], axis=axis)
    return found


def running(w: Lowering, x: Value, axis: int, op: str) -> Value:
    """The `maximum` or `minimum` of each element and those before it; nan from the first nan on."""
    dtype = x.tensor.dtype
    least, greatest = (-math.inf, math.inf) if dtype.is_float else limits(x)
    neutral = w.tensor(least if op == "maximum" else greatest, dtype)
    return scan(w, x, axis, getattr(w.b, op), getattr(w.b, _REDUCTIONS[op]), neutral)


def scan(
    w: Lowering, x: Value, axis: int, combine: Callable[[Value, Value], Value], reduce: Callable[..., Value], neutral: Value
) -> Value:
    """What each element and those before it are together.

    Steps of 1, 2, 4, ... where the size is known; else each element is reduced with all before it.

    Args:
        combine: what two neighbours are together.
        reduce: what all elements along ``axes`` are together.
        neutral: a scalar that changes nothing.
    """
    shape = w.dims(x)
    size = shape[axis]
    if isinstance(size, int):
        reach = 1
        while reach < size:
            before: list[Dim] = [0] * len(shape)
            before[axis] = reach
            behind = w.b.pad(part(w, x, axis, 0, size - reach), neutral, before=before, after=[0] * len(shape), mode="constant")
            x = combine(x, behind)
            reach *= 2
        return x
    order = [*(other for other in range(len(shape)) if other != axis), axis]
    rows = w.b.unsqueeze(permute(w, x, order), axes=[len(shape) - 1])
    place = w.b.arange(start=0, stop=size, dtype=i64)
    reached = w.b.le(place, w.b.unsqueeze(place, axes=[1]))
    found = reduce(w.b.where(reached, rows, neutral), axes=[len(shape)])
    return permute(w, found, [*range(axis), len(shape) - 1, *range(axis, len(shape) - 1)])


def _running(name: str, op: str) -> None:
    def lowering(w: Lowering, x: Value, dim: int) -> Any:
        """The running extreme, and the last place that it stood at up to there."""
        if not w.rank(x):
            return x, w.tensor(0, i64)
        axis, dtype = w.axis(x, dim), x.tensor.dtype
        numbers = w.cast(x, i32) if dtype is bool_ else x
        found = running(w, numbers, axis, op)
        reached = w.b.eq(numbers, found)
        if dtype.is_float:
            reached = w.b.logical_or(reached, w.b.is_nan(x))
        places = w.b.where(reached, counting(w, x, axis), 0)
        return w.cast(found, dtype), running(w, places, axis, "maximum")

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}")(lowering)


_running("cummax", "maximum")
_running("cummin", "minimum")


@lowers("aten.logcumsumexp")
def logcumsumexp(w: Lowering, x: Value, dim: int) -> Any:
    if not w.rank(x):
        return x
    neutral = w.tensor(-math.inf, x.tensor.dtype)
    return scan(w, x, w.axis(x, dim), lambda left, right: logaddexp(w, left, right), w.b.logsumexp, neutral)


@lowers("aten.hash_tensor")
def hash_tensor(w: Lowering, x: Value, dim: Sequence[int] = (), keepdim: bool = False, mode: int = 0) -> Any:
    """The bits of all elements, exclusive or: halves are laid over each other until one element is left."""
    if x.tensor.dtype.is_float:
        w.unsupported("the bits of floats cannot be read", "hash integers")
    axes = w.axes(x, dim)
    kept = [axis for axis in range(w.rank(x)) if axis not in axes]
    shape = w.dims(x)
    size = integer(w, product([shape[axis] for axis in axes]), "the number of elements that are hashed")
    rest = [shape[axis] for axis in kept]
    left = reshape(w, permute(w, w.cast(x, i64), [*kept, *axes]), [*rest, size])
    while size > 1:
        half = size // 2
        pair = w.b.bit_xor(part(w, left, len(rest), 0, half), part(w, left, len(rest), half, 2 * half))
        left = w.b.concat([pair, part(w, left, len(rest), size - 1, size)], axis=len(rest)) if size % 2 else pair
        size = half + size % 2
    held = [1 if axis in axes else shape[axis] for axis in range(len(shape))]
    return w.cast(reshape(w, left, held if keepdim else rest), u64)


@lowers("aten.unique_consecutive")
def unique_consecutive(
    w: Lowering, x: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements, or of equal slices; in which run each one stands; how long the runs are."""
    shape = w.dims(x)
    if dim is None:
        x = reshape(w, x, [product(shape)])
    axis = 0 if dim is None else w.axis(x, dim)
    starts = changes(w, x, axis)
    others = [other for other in range(w.rank(x)) if other != axis]
    if others:
        starts = w.b.reduce_any(starts, axes=others)
    run = w.b.sub(w.b.cumsum(w.cast(starts, i64), axis=0), 1)
    first = w.b.squeeze(w.b.nonzero(starts), axes=[1])
    bounds = w.b.concat([first, reshape(w, w.tensor(w.dims(x)[axis], i64), [1])], axis=0)
    counts = w.b.sub(part(w, bounds, 0, 1, w.dims(bounds)[0]), first)
    return w.b.gather(x, first, axis=axis), run if dim is not None else reshape(w, run, shape), counts
