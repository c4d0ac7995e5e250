"""Pooling: windows, adaptive windows, and their inverses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as pairs
from typing import Any

import numpy as np

from isthmus.frontends.torch.aten.common import listed, per_axis, reshape
from isthmus.frontends.torch.aten.conv import Sizes, batched
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value


def _window(w: Lowering, count: int, kernel: Sizes, stride: Sizes, padding: Sizes) -> dict[str, Any]:
    """Kernel, strides (those of the kernel by default) and pads as attributes."""
    sizes = per_axis(w, kernel, count, "a kernel size")
    strides = per_axis(w, stride, count, "a stride") if stride != [] and stride != () else sizes
    return {"kernel": sizes, "strides": strides, "pads": per_axis(w, padding, count, "a padding") * 2}


def _max_pool(count: int) -> None:
    def pool(
        w: Lowering, x: Value, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        attrs = _window(w, count, kernel_size, stride, padding)
        attrs |= {"dilations": per_axis(w, dilation, count, "a dilation"), "ceil_mode": ceil_mode}
        return batched(w, x, count + 2, lambda x: w.b.max_pool(x, **attrs))

    def with_indices(
        w: Lowering, x: Value, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        attrs = _window(w, count, kernel_size, stride, padding)
        attrs |= {"dilations": per_axis(w, dilation, count, "a dilation"), "ceil_mode": ceil_mode}
        return batched(w, x, count + 2, lambda x: w.b.max_pool_with_index(x, convention="per_plane", **attrs))

    lowers(f"aten.max_pool{count}d")(pool)
    lowers(f"aten.max_pool{count}d_with_indices")(with_indices)


def _avg_pool(count: int) -> None:
    def pool(
        w: Lowering, x: Value, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Any:  # fmt: skip
        attrs = _window(w, count, kernel_size, stride, padding)
        attrs |= {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "divisor": divisor_override}
        return batched(w, x, count + 2, lambda x: w.b.avg_pool(x, **attrs))

    lowers(f"aten.avg_pool{count}d")(pool)


def _adaptive(count: int) -> None:
    def average(w: Lowering, x: Value, output_size: Sizes) -> Any:
        sizes = _sizes(count, output_size)
        return batched(w, x, count + 2, lambda x: w.b.adaptive_avg_pool(x, output_size=sizes))

    def maximum(w: Lowering, x: Value, output_size: Sizes) -> Any:
        sizes = _sizes(count, output_size)

        def build(x: Value) -> Any:
            values = w.b.adaptive_max_pool(x, output_size=sizes)
            return values, _places(w, x, values, sizes)

        return batched(w, x, count + 2, build)

    lowers(f"aten.adaptive_avg_pool{count}d", *([f"aten._adaptive_avg_pool{count}d"] if count > 1 else []))(average)
    lowers(f"aten.adaptive_max_pool{count}d")(maximum)


def _sizes(count: int, output_size: Sizes) -> list[Dim]:
    sizes = listed(output_size)
    return sizes * count if len(sizes) == 1 else sizes


def _places(w: Lowering, x: Value, values: Value, sizes: Sequence[Dim]) -> Value:
    """Where in its plane each maximum of an adaptive pool stands.

    With one window, the greatest of the plane; else the windows are written out as a table where all sizes are numbers, and
    looked through for the maximum where they are not.
    """
    batch, channels, *space = w.dims(x)
    flat = w.b.reshape(x, shape=[batch, channels, product(space)])
    if all(size == 1 for size in sizes):
        found = w.b.argmax(flat, axis=2, keepdims=True)
        return reshape(w, found, [batch, channels, *sizes])
    if not all(isinstance(size, int) for size in (*space, *sizes)):
        return _searched(w, x, values, space, sizes)
    table = _table(space, sizes)  # type: ignore[arg-type]
    windows = w.b.gather(flat, w.b.constant(table), axis=2)
    best = w.b.argmax(windows, axis=3, keepdims=True)
    wide = w.b.expand(w.b.constant(table), shape=[batch, channels, *table.shape])
    return reshape(w, w.b.gather_elements(wide, best, axis=3), [batch, channels, *sizes])


def _searched(w: Lowering, x: Value, values: Value, space: Sequence[Dim], sizes: Sequence[Dim]) -> Value:
    """The first place in each window that holds its maximum, among all of the plane."""
    b, rank, area = w.b, len(sizes), product(space)
    x = b.unsqueeze(x, axes=range(2, 2 + rank))  # [N, C, 1..., space...]
    held = b.eq(x, b.unsqueeze(values, axes=range(2 + rank, 2 + 2 * rank)))
    if x.tensor.dtype.is_float:
        held = b.logical_or(held, b.is_nan(x))
    for axis, (size, out) in enumerate(zip(space, sizes, strict=True)):
        bins, total, parts = b.unsqueeze(b.arange(stop=out), axes=[1]), w.tensor(size, i64), w.tensor(out, i64)
        starts = b.floor_div(b.mul(bins, total), parts)
        ends = b.neg(b.floor_div(b.neg(b.mul(b.add(bins, 1), total)), parts))
        line = b.arange(stop=size)
        inside = b.logical_and(b.ge(line, starts), b.lt(line, ends))
        others = [each for each in range(2 * rank) if each not in (axis, rank + axis)]
        held = b.logical_and(held, b.unsqueeze(inside, axes=others))
    places = reshape(w, b.arange(stop=area), space)
    found: Value = b.reduce_min(b.where(held, places, w.tensor(area, i64)), axes=range(2 + rank, 2 + 2 * rank))
    return found


def _table(space: Sequence[int], sizes: Sequence[int]) -> Any:
    """The places of each window's elements in a plane, ``[windows, longest]``; the last one fills up shorter windows."""
    spans = [
        [range(n * size // out, -(-(n + 1) * size // out)) for n in range(out)] for size, out in zip(space, sizes, strict=True)
    ]
    rows = [
        [int(np.ravel_multi_index(place, tuple(space))) for place in pairs(*window)] for window in pairs(*spans)
    ]
    longest = max(map(len, rows))
    return np.array([row + row[-1:] * (longest - len(row)) for row in rows], np.int64)


for _count in (1, 2, 3):
    _max_pool(_count)
    _avg_pool(_count)
    _adaptive(_count)


@lowers("aten.max_unpool2d")
def max_unpool2d(w: Lowering, x: Value, indices: Value, output_size: Sequence[Dim]) -> Any:
    return _unpool(w, x, indices, output_size)


@lowers("aten.max_unpool3d")
def max_unpool3d(
    w: Lowering, x: Value, indices: Value, output_size: Sequence[Dim], stride: Sizes = (), padding: Sizes = ()
) -> Any:
    return _unpool(w, x, indices, output_size)


def _unpool(w: Lowering, x: Value, indices: Value, shape: Sequence[Dim]) -> Any:
    rank = len(shape) + 2
    if w.rank(x) == rank:
        return w.b.max_unpool(x, indices, shape=shape, convention="per_plane")
    x, indices = (w.b.unsqueeze(each, axes=[0]) for each in (x, indices))
    return w.b.squeeze(w.b.max_unpool(x, indices, shape=shape, convention="per_plane"), axes=[0])
