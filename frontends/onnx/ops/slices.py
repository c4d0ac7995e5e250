"""Tensors joined, taken apart, cut and padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from isthmus.frontends.onnx import axes_by_data
from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.sizes import places, sizes, vector
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, bounds, ceildiv, maximum, minimum
from isthmus.ir.graph import Value


@converts("Concat")
def concat(c: Conversion, *xs: Value, axis: int = 1) -> Any:
    """One behind the other along an axis."""
    return c.b.concat(xs, axis=c.axis(axis, c.rank(xs[0])))


# ---- parts


def _split(c: Conversion, x: Value, axis: int, parts: Sequence[Dim] | None, count: int) -> Any:
    """Parts of these sizes; by default `count` of one size, the last of which has what is left, since opset 18."""
    axis = c.axis(axis, c.rank(x))
    size = c.shape(x)[axis]
    if parts is None:
        each = ceildiv(size, count)
        if isinstance(size, int) and isinstance(each, int):
            parts = [max(0, min(each, size - each * place)) for place in range(count)]
        elif c.opset >= 18:
            parts = [each] * (count - 1)
            parts.append(size - each * (count - 1))
        else:
            parts = [size // count] * count
            c.b.graph.symbols.unify(size // count * count, size)
    if len(parts) != count:
        raise c.malformed(f"names {len(parts)} sizes and {count} results")
    return c.b.split(x, axis=axis, sizes=parts)


@converts("Split", since=13)
def split(
    c: Conversion, x: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None,
) -> Any:  # fmt: skip
    """Parts along an axis, of equal sizes by default."""
    parts = None if split is None else sizes(c, split, "parts", lo=0)
    return _split(c, x, axis, parts, len(c.proto.output))


@converts("Split")
def split_old(
    c: Conversion, x: Value, given: Value | None = None, *, axis: int = 0, split: tuple[int, ...] | None = None,
) -> Any:  # fmt: skip
    """The sizes are an attribute, or an input."""
    parts = split if given is None else sizes(c, given, "parts", lo=0)
    return _split(c, x, axis, parts, len(c.proto.output))


@converts("Slice", since=10)
def slice_(
    c: Conversion, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None,
) -> Any:  # fmt: skip
    """Python's slices along some axes."""
    named = range(axes_by_data.counted(c, starts)) if axes is None else c.numbers(axes)
    strides = [1] * axes_by_data.counted(c, starts) if steps is None else c.numbers(steps)
    walk = [step for step in strides or () if isinstance(step, int)]
    if named is None or strides is None or len(walk) != len(strides):
        return axes_by_data.cut(c, x, starts, ends, axes, steps)
    along = places(c, named, c.rank(x))
    if 0 in walk or len(walk) != len(along) or len(set(along)) != len(along):
        raise c.malformed(f"has the axes {along} and the steps {walk}")
    lows, highs = c.numbers(starts), c.numbers(ends)
    if c.follows and lows is not None and highs is not None:
        if not len(lows) == len(highs) == len(along):
            raise c.malformed(f"has {len(along)} axes, {len(lows)} starts and {len(highs)} ends")
        bounded = [
            (_clamped(low, c.shape(x)[axis], step, start=True), _clamped(high, c.shape(x)[axis], step))
            for axis, low, high, step in zip(along, lows, highs, walk, strict=True)
        ]
        known = [(low, high) for low, high in bounded if low is not None and high is not None]
        if len(known) == len(bounded):
            return _cut(c, x, along, known, walk)
    wide = [each if each.tensor.dtype is dtypes.i64 else c.b.cast(each, dtype=dtypes.i64) for each in (starts, ends)]
    return c.b.dynamic_slice(x, *wide, axes=along, steps=walk)


@converts("Slice")
def slice_old(
    c: Conversion, x: Value, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None = None,
) -> Any:  # fmt: skip
    """The bounds are attributes."""
    return slice_(c, x, vector(c, starts), vector(c, ends), None if axes is None else vector(c, axes))


_FAR: Final = (1 << 31) - 1
"""A bound that is as far from 0 says "to the end", as exporters write it for an end that they do not know."""


def _clamped(bound: Dim, size: Dim, step: int, start: bool = False) -> Dim | None:
    """A bound as Python reads it, from 0 to the size, or walking backwards one less; None where its sign is not known.

    Unlike Python, ONNX does not begin to walk backwards before the first element.
    """
    least, most = (0, size) if step > 0 else (minimum(0, size - 1) if start else -1, size - 1)
    if isinstance(bound, int) and abs(bound) >= _FAR:
        return most if bound > 0 else least
    lo, hi = bounds(bound)
    if lo >= 0:
        return minimum(bound, most)
    return maximum(least, bound + size) if hi < 0 else None


def _cut(c: Conversion, x: Value, axes: list[int], ends: list[tuple[Dim, Dim]], steps: list[int]) -> Any:
    b = c.b
    lows, highs = [], []
    for (start, end), step in zip(ends, steps, strict=True):
        first, last = (start, end) if step > 0 else (end + 1, start + 1)
        lows.append(first)
        # Walking backwards, the size is written so that it is never below 0 as it stands: what turns it round counts it.
        highs.append(maximum(first, last) if step > 0 else first + maximum(last - first, 0))
    back = [axis for axis, step in zip(axes, steps, strict=True) if step < 0]
    if not back:
        return b.slice(x, axes=axes, starts=lows, ends=highs, steps=steps)
    # What is walked through backwards is cut out, turned round, and then every so manieth is taken.
    forward = [max(step, 1) for step in steps]
    x = b.flip(b.slice(x, axes=axes, starts=lows, ends=highs, steps=forward), axes=back)
    wide = [(axis, -step) for axis, step in zip(axes, steps, strict=True) if step < -1]
    if not wide:
        return x
    left = [c.shape(x)[axis] for axis, _ in wide]
    return b.slice(x, axes=[axis for axis, _ in wide], starts=[0] * len(wide), ends=left, steps=[step for _, step in wide])


# ---- borders


@converts("Pad", since=11)
def pad(
    c: Conversion, x: Value, pads: Value, value: Value | None = None, axes: Value | None = None, *, mode: str = "constant",
) -> Any:  # fmt: skip
    """With elements added before and after, or, by negative numbers, taken away."""
    rank = c.rank(x)
    named = range(rank) if axes is None else c.numbers(axes)
    if named is None:
        assert axes is not None
        half = axes_by_data.counted(c, axes)
        parts = [c.b.slice(pads, axes=[0], starts=[at], ends=[at + half], steps=[1]) for at in (0, half)]
        low, high = (sizes(c, axes_by_data.spread(c, axes, rank, part, 0), "pads") for part in parts)
        return padded(c, x, low, high, mode, value)
    amounts = sizes(c, pads, "pads")
    along = places(c, named, rank)
    if len(amounts) != 2 * len(along) or len(set(along)) != len(along):
        raise c.malformed(f"has {len(amounts)} pads for the axes {along}")
    before, after = _spread(rank, along, amounts[: len(along)]), _spread(rank, along, amounts[len(along) :])
    return padded(c, x, before, after, mode, value)


@converts("Pad", since=2)
def pad_old(c: Conversion, x: Value, *, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Any:
    """The pads are an attribute."""
    rank = c.rank(x)
    if len(pads) != 2 * rank:
        raise c.malformed(f"has {len(pads)} pads for {rank} axes")
    return padded(c, x, pads[:rank], pads[rank:], mode, c.same_type(value, x) if value else None)


@converts("Pad")
def pad_oldest(c: Conversion, x: Value, *, paddings: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Any:
    """The attribute has another name."""
    return pad_old(c, x, pads=paddings, mode=mode, value=value)


def _spread(rank: int, axes: Sequence[int], amounts: Sequence[Dim]) -> list[Dim]:
    result: list[Dim] = [0] * rank
    for axis, amount in zip(axes, amounts, strict=True):
        result[axis] = amount
    return result


def padded(
    c: Conversion, x: Value, before: Sequence[Dim], after: Sequence[Dim], mode: str, value: Value | None = None,
) -> Any:  # fmt: skip
    """A pad whose amounts may be negative: what these take away is cut off first."""
    dims = c.shape(x)
    cuts = [
        (axis, maximum(0, -low), dim - maximum(0, -high))
        for axis, (dim, low, high) in enumerate(zip(dims, before, after, strict=True))
        if bounds(low)[0] < 0 or bounds(high)[0] < 0
    ]
    if cuts:
        axes, starts, ends = zip(*cuts, strict=True)
        x = c.b.slice(x, axes=axes, starts=starts, ends=ends, steps=[1] * len(axes))
    low, high = ([maximum(0, amount) for amount in side] for side in (before, after))
    return c.b.pad(x, None if value is None else c.scalar(value), before=low, after=high, mode=mode)
