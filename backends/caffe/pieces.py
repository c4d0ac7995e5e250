"""Pieces that lowerings are made of: views, windows of one number, cuts and picks along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from isthmus.backends.caffe.layers import build, length, sizes
from isthmus.backends.caffe.weights import full
from isthmus.ir.builder import Builder
from isthmus.ir.dims import product
from isthmus.ir.graph import Value

PIECES = 64
"""Into so many pieces at most a rearrangement cuts an axis."""

CHANNELS = 1024
"""So many channels at most are put in another order: their kernel has the square of that many elements."""

NEUTRAL = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1]}


def view(b: Builder, x: Value, first: int, last: int, work: Callable[[Value], Value]) -> Value:
    """Works on the axes from `first` to `last` of x as if they were the height of ``[N, channels, height, width]``.

    Axis 0 stays the batch unless it is one of them.
    """
    shape: tuple[Any, ...] = sizes(x)
    lead = (shape[0], product(shape[1:first])) if first else (1, 1)
    seen = build(b, "reshape", x, shape=[*lead, product(shape[first : last + 1]), product(shape[last + 1 :])])
    made = work(seen)
    height = sizes(made)[2]
    middle = [1] * (last - first) + [height] if last > first else [height]
    return build(b, "reshape", made, shape=[*shape[:first], *middle, *shape[last + 1 :]])


def depthwise(b: Builder, x: Value, kernel: Sequence[int], number: float, **attrs: Any) -> Value:
    """Each channel of x by itself, convolved with a kernel that is the same number all over."""
    channels = sizes(x)[1]
    weight = b.constant(full((channels, 1, *kernel), number))
    return build(b, "conv", x, weight, None, groups=channels, **(NEUTRAL | attrs))


def repeat(b: Builder, x: Value, factors: Sequence[int]) -> Value:
    """Each element as a block."""
    channels = sizes(x)[1]
    weight = b.constant(full((channels, 1, *factors), 1.0))
    attrs = {"strides": list(factors), "pads": [0] * 4, "output_padding": [0, 0], "dilations": [1, 1]}
    return build(b, "conv_transpose", x, weight, None, groups=channels, **attrs)


def cut(b: Builder, x: Value, cuts: Sequence[tuple[int, int]]) -> Value:
    """The spatial axes from a place on, so many elements each."""
    for axis, (start, count) in enumerate(cuts, 2):
        if (start, count) != (0, sizes(x)[axis]):
            x = build(b, "slice", x, axes=[axis], starts=[start], ends=[start + count], steps=[1])
    return x


def picked(b: Builder, x: Value, axis: int, indices: Sequence[int]) -> Value | None:
    """The elements of an axis at these places, by runs; None where they are too many pieces."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    if not runs or len(runs) > PIECES:
        return None
    size = length(x, axis)
    cut: dict[tuple[int, int], Value] = {(0, size): x}
    for start, end in runs:
        if (start, end) not in cut:
            cut[start, end] = build(b, "slice", x, axes=[axis], starts=[start], ends=[end], steps=[1])
    parts = [cut[run] for run in runs]
    return build(b, "concat", parts, axis=axis) if len(parts) > 1 else parts[0]
