"""Convolutions and pools place by place of their window, for targets that have no kernel for an element type or a setting.

For every place of the window the elements that stand there are one strided slice of the padded input; what is then left to
do is a product of matrices, a sum or a maximum. All of it is exact for integers, and takes sizes that are not numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from math import prod
from typing import Any, Final

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import f32
from isthmus.ir.graph import Node, Value
from isthmus.ir.ops.conv import offsets
from isthmus.ir.ops.numerics import lowest

MOST: Final = 256
"""Windows of more places than this are not taken apart: each is a node or more."""


def _wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering, or for floats of less than 32 bits the same op in float32, which is then legal or lowered in its turn."""

    @wraps(function)
    def lower(b: Builder, node: Node, x: Value, *rest: Value | None) -> Any:
        narrow = x.tensor.dtype
        if not narrow.is_float or narrow.bits >= 32:
            return function(b, node, x, *rest)
        operands = [None if value is None else b.cast(value, dtype=f32) for value in (x, *rest)]
        made = b.emit(node.op, operands, node.attrs).results
        return tuple(b.cast(each, dtype=narrow) if each.tensor.dtype is f32 else each for each in made)

    return lower


@_wide
def conv(b: Builder, node: Node, x: Value, weight: Value, bias: Value | None) -> Value | None:
    """A convolution as one product of the kernel with all places of its windows."""
    attrs, groups = node.attrs, node.attrs["groups"]
    outputs, inner, *kernel = weight.tensor.shape or ()
    count, sizes = _known(kernel), _windows(node)
    if count is None or not isinstance(outputs, int) or not isinstance(inner, int):
        return None
    batch, total = (x.tensor.shape or ())[0], product(sizes)
    x = _padded(b, x, 0, attrs["pads"][: len(sizes)], attrs["pads"][len(sizes) :])
    parts = [
        b.reshape(part, shape=[batch, groups, inner, total])
        for _, part in _taps(b, x, kernel, sizes, attrs["strides"], attrs["dilations"])
    ]
    columns = parts[0] if count == 1 else b.concat(parts, axis=2)
    scale = b.reshape(weight, shape=[groups, outputs // groups, inner, count])
    scale = b.reshape(b.permute(scale, perm=[0, 1, 3, 2]), shape=[groups, outputs // groups, count * inner])
    found = b.reshape(b.matmul(scale, columns), shape=[batch, outputs, *sizes])
    return found if bias is None else b.add(found, b.reshape(bias, shape=[outputs, *(1 for _ in sizes)]))  # type: ignore[no-any-return]


@_wide
def conv_transpose(b: Builder, node: Node, x: Value, weight: Value, bias: Value | None) -> Value | None:
    """A convolution with the kernel turned round, over the input with zeros between its elements."""
    attrs, groups = node.attrs, node.attrs["groups"]
    inputs, outputs, *kernel = weight.tensor.shape or ()
    rank = len(kernel)
    if _known(kernel) is None or not isinstance(inputs, int) or not isinstance(outputs, int):
        return None
    for axis, stride in enumerate(attrs["strides"], 2):
        x = _spread(b, x, axis, stride)
    reach = [(int(k) - 1) * d for k, d in zip(kernel, attrs["dilations"], strict=True)]  # type: ignore[arg-type]
    begins = [reach[axis] - attrs["pads"][axis] for axis in range(rank)]
    ends = [reach[axis] - attrs["pads"][axis + rank] + attrs["output_padding"][axis] for axis in range(rank)]
    x = _padded(b, x, 0, begins, ends)
    turned = b.reshape(weight, shape=[groups, inputs // groups, outputs, *kernel])
    turned = b.permute(turned, perm=[0, 2, 1, *range(3, 3 + rank)])
    turned = b.reshape(turned, shape=[groups * outputs, inputs // groups, *kernel])
    turned = b.flip(turned, axes=range(2, 2 + rank))
    ones = [1] * rank
    return b.conv(  # type: ignore[no-any-return]
        x, turned, bias, strides=ones, pads=[0] * 2 * rank, dilations=attrs["dilations"], groups=groups
    )


@_wide
def max_pool(b: Builder, node: Node, x: Value) -> Value | None:
    """The greatest of all places of the window."""
    parts = _pooled(b, node, x)
    if parts is None:
        return None
    best, *rest = [part for _, part in parts]
    for part in rest:
        best = b.maximum(best, part)
    return b.identity(best) if not rest else best


@_wide
def max_pool_with_index(b: Builder, node: Node, x: Value) -> tuple[Value, Value] | None:
    """The greatest of all places of the window, and the first place that has it."""
    parts, attrs = _pooled(b, node, x), node.attrs
    if parts is None:
        return None
    batch, channels, *sizes = x.tensor.shape or ()
    rank, shape = len(sizes), node.results[0].tensor.shape or ()
    strides: list[Dim] = [product(sizes[axis + 1 :]) for axis in range(rank)]
    corner, first = b.size(0), b.size(0)
    for axis, windows in enumerate(shape[2:]):
        dilation, scale = attrs["dilations"][axis], b.size(strides[axis])
        start = b.sub(b.mul(b.arange(stop=windows), attrs["strides"][axis]), attrs["pads"][axis])
        # The first place that is not in the padding, where the search begins.
        short = b.maximum(b.add(b.neg(start), dilation - 1), 0)
        inside = b.add(start, b.mul(b.div(short, dilation), dilation))
        along = [-1 if other == axis else 1 for other in range(rank)]
        to = [windows if each == -1 else 1 for each in along]
        corner = b.add(corner, b.reshape(b.mul(start, scale), shape=to))
        first = b.add(first, b.reshape(b.mul(inside, scale), shape=to))
    dtype = x.tensor.dtype
    best = b.expand(b.constant(lowest(np.dtype(dtype.numpy)), dtype), shape=shape)
    index = b.expand(first, shape=shape)
    for offset, part in parts:
        better = b.gt(part, best)
        if dtype.is_float:
            better = b.logical_or(better, b.is_nan(part))
        step: Dim = 0
        for place, dilation, stride in zip(offset, attrs["dilations"], strides, strict=True):
            step = step + stride * (place * dilation)
        best = b.where(better, part, best)
        index = b.where(better, b.add(corner, b.size(step)), index)
    if attrs["convention"] == "flat":
        planes = b.reshape(b.arange(stop=batch * channels), shape=[batch, channels, *(1 for _ in sizes)])
        index = b.add(index, b.mul(planes, b.size(product(sizes))))
    return best, index


@_wide
def avg_pool(b: Builder, node: Node, x: Value) -> Value | None:
    """The sum of all places of the window, by how many of them count."""
    parts, attrs = _pooled(b, node, x, 0), node.attrs
    if parts is None:
        return None
    total = _sum(b, [part for _, part in parts])
    dtype, rank = x.tensor.dtype, len(attrs["kernel"])
    known = attrs["divisor"]
    if known is None and not attrs["ceil_mode"] and (attrs["count_include_pad"] or not any(attrs["pads"])):
        known = prod(attrs["kernel"])
    if known is not None:
        return b.div(total, b.constant(known, dtype))  # type: ignore[no-any-return]
    ones = b.expand(b.constant(1, dtype), shape=[1, 1, *(x.tensor.shape or ())[2:]])
    if attrs["count_include_pad"] and any(attrs["pads"]):
        ones = _padded(b, ones, 1, attrs["pads"][:rank], attrs["pads"][rank:])
        counted = _pooled(b, node, ones, 0, [0] * 2 * rank)
    else:
        counted = _pooled(b, node, ones, 0)
    assert counted is not None
    return b.div(total, _sum(b, [part for _, part in counted]))  # type: ignore[no-any-return]


def _sum(b: Builder, parts: Sequence[Value]) -> Value:
    total = parts[0]
    for part in parts[1:]:
        total = b.add(total, part)
    return total


def _known(kernel: Sequence[Dim]) -> int | None:
    """The number of places of a window; None where it is not known or too great."""
    count = product(list(kernel))
    return count if isinstance(count, int) and 0 < count <= MOST else None


def _windows(node: Node) -> list[Dim]:
    return list((node.results[0].tensor.shape or ())[2:])


def _pooled(
    b: Builder, node: Node, x: Value, fill: Any = None, pads: Sequence[int] | None = None
) -> list[tuple[tuple[int, ...], Value]] | None:
    """The slices of a pool's input, padded with the least number or with a given one."""
    attrs, kernel = node.attrs, node.attrs["kernel"]
    if _known(kernel) is None:
        return None
    rank = len(kernel)
    pads = attrs["pads"] if pads is None else pads
    # With ceil_mode a last window reaches behind the padding, by less than a stride.
    more = [pads[axis + rank] + (attrs["strides"][axis] - 1 if attrs["ceil_mode"] else 0) for axis in range(rank)]
    fill = lowest(np.dtype(x.tensor.dtype.numpy)) if fill is None else fill
    x = _padded(b, x, fill, pads[:rank], more)
    dilations = attrs.get("dilations", (1,) * rank)
    return list(_taps(b, x, kernel, _windows(node), attrs["strides"], dilations))


def _taps(
    b: Builder, x: Value, kernel: Sequence[Any], sizes: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Value]]:
    """Each place of the window with what stands there in all windows, ``[N, C, windows...]``."""
    axes = range(2, 2 + len(sizes))
    for offset in offsets(kernel):
        starts = [place * dilation for place, dilation in zip(offset, dilations, strict=True)]
        ends = [start + (n - 1) * stride + 1 for start, n, stride in zip(starts, sizes, strides, strict=True)]
        yield offset, b.slice(x, axes=axes, starts=starts, ends=ends, steps=strides)


def _padded(b: Builder, x: Value, fill: Any, begins: Sequence[int], ends: Sequence[int]) -> Value:
    """The spatial axes padded with a number; where a pad is negative, cut."""
    rank = len(ends)
    if any(pad > 0 for pad in (*begins, *ends)):
        before, after = ([0, 0, *(max(pad, 0) for pad in side)] for side in (begins, ends))
        x = b.pad(x, b.constant(fill, x.tensor.dtype), before=before, after=after)
    if any(pad < 0 for pad in (*begins, *ends)):
        sizes = (x.tensor.shape or ())[2:]
        starts = [max(-pad, 0) for pad in begins]
        stops = [size + min(pad, 0) for size, pad in zip(sizes, ends, strict=True)]
        x = b.slice(x, axes=range(2, 2 + rank), starts=starts, ends=stops, steps=[1] * rank)
    return x


def _spread(b: Builder, x: Value, axis: int, stride: int) -> Value:
    """Zeros between the elements along an axis: each becomes a row of its own, padded, and the rows are joined."""
    shape = x.tensor.shape or ()
    if stride == 1 or shape[axis] == 1:
        return x
    size, rank = shape[axis], len(shape)
    rows = b.unsqueeze(x, axes=[axis + 1])
    rows = b.pad(rows, b.constant(0, x.tensor.dtype), before=[0] * (rank + 1), after=[
        stride - 1 if place == axis + 1 else 0 for place in range(rank + 1)
    ])  # fmt: skip
    joined = b.reshape(rows, shape=[*shape[:axis], size * stride, *shape[axis + 1 :]])
    return b.slice(joined, axes=[axis], starts=[0], ends=[(size - 1) * stride + 1], steps=[1])  # type: ignore[no-any-return]
