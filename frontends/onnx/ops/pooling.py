"""Pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.ops.windows import Windows, check_fit, lowest, slid, windows
from isthmus.frontends.onnx.sizes import sizes as sizes_of
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, product
from isthmus.ir.graph import Value

Ints = Sequence[int] | None


@converts("MaxPool")
def max_pool(
    c: Conversion, x: Value, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints = None, kernel_shape: Ints,
    pads: Ints = None, storage_order: int = 0, strides: Ints = None,
) -> Any:  # fmt: skip
    """The greatest element of each window and, where asked for, its index among all of the input's elements."""
    found = windows(c, x, list(kernel_shape or ()), strides, pads, dilations, auto_pad)
    check_fit(c, x, found, bool(ceil_mode))
    shape, begins = c.shape(x), found.begins
    x, numbers = found.fixed(c, x, lowest(x))
    more: dict[str, Any] = {
        "kernel": found.kernel, "strides": found.strides, "pads": numbers, "dilations": found.dilations,
        "ceil_mode": bool(ceil_mode),
    }  # fmt: skip
    if len(c.wanted) < 2 or not c.wanted[1]:
        return slid(c, c.b.max_pool(x, **more))
    if shape == c.shape(x) and not storage_order:
        return c.b.max_pool_with_index(x, convention="flat", **more)
    values, indices = c.b.max_pool_with_index(x, convention="per_plane", **more)
    padded = None if shape == c.shape(x) else (begins, c.shape(x)[2:])
    return values, _renumbered(c, indices, shape, padded, bool(storage_order))


def _renumbered(
    c: Conversion, indices: Value, shape: Sequence[Dim], padded: tuple[Sequence[Dim], Sequence[Dim]] | None, by_columns: bool
) -> Any:
    """Indices in each plane of something, which may be wider by what is before and behind, as indices over the whole shape.

    `by_columns`, they count the spatial axes the other way round, the first one fastest.
    """
    b, count = c.b, len(shape) - 2
    sizes = list(shape[2:])
    begins, wide = padded or ([0] * count, sizes)
    planes = b.reshape(b.arange(stop=shape[0] * shape[1]), shape=[*shape[:2], *[1] * count])
    found: Any = b.mul(planes, b.size(product(sizes)))
    for axis in reversed(range(count)):
        at = b.sub(b.mod(indices, b.size(wide[axis])), b.size(begins[axis]))
        indices = b.div(indices, b.size(wide[axis]))
        found = b.add(found, b.mul(at, b.size(product(sizes[:axis] if by_columns else sizes[axis + 1 :]))))
    return found


@converts("AveragePool")
def average_pool(
    c: Conversion, x: Value, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Ints = None, kernel_shape: Ints, pads: Ints = None, strides: Ints = None,
) -> Any:  # fmt: skip
    """The mean of each window; the padding counts where that is asked for."""
    found = windows(c, x, list(kernel_shape or ()), strides, pads, dilations, auto_pad)
    check_fit(c, x, found, bool(ceil_mode))
    plain = set(found.dilations) == {1}
    if plain and all(isinstance(pad, int) for pad in found.pads):
        count_include_pad = count_include_pad or found.pads == [0] * len(found.pads)
        pooled = c.b.avg_pool(x, kernel=found.kernel, strides=found.strides, pads=found.pads, ceil_mode=bool(ceil_mode),
                              count_include_pad=bool(count_include_pad))  # fmt: skip
        return slid(c, pooled)
    ones = c.b.expand(c.same_type(1, x), shape=[1, 1, *c.shape(x)[2:]])
    within = found
    if count_include_pad:
        ones = c.b.pad(ones, c.same_type(1, x), before=[0, 0, *found.begins], after=[0, 0, *found.ends])
        within = Windows(found.kernel, found.strides, found.dilations, [0 for _ in found.pads])
    return c.b.div(_sums(c, x, found, bool(ceil_mode)), _sums(c, ones, within, bool(ceil_mode)))


def _sums(c: Conversion, x: Value, found: Windows, ceil_mode: bool) -> Any:
    """The sum of each window."""
    x, pads = Windows(found.kernel, found.strides, found.dilations, list(found.pads)).fixed(c, x)
    if set(found.dilations) == {1}:
        return c.b.avg_pool(x, kernel=found.kernel, strides=found.strides, pads=pads, ceil_mode=ceil_mode, divisor=1)
    batch, channels, *sizes = c.shape(x)
    if ceil_mode:  # room for the last windows, which start within the input or what is before it
        for axis, (span, stride) in enumerate(zip(found.spans(), found.strides, strict=True), found.count):
            assert isinstance(span, int)
            pads[axis] = min(pads[axis] + stride - 1, span - 1)
    flat = c.b.reshape(x, shape=[batch * channels, 1, *sizes])
    ones = c.b.expand(c.same_type(1, x), shape=[1, 1, *found.kernel])
    y = c.b.conv(flat, ones, None, strides=found.strides, pads=pads, dilations=found.dilations, groups=1)
    return c.b.reshape(y, shape=[batch, channels, *c.shape(y)[2:]])


@converts("LpPool")
def lp_pool(
    c: Conversion, x: Value, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints = None,
    kernel_shape: Ints = None, p: float = 2, pads: Ints = None, strides: Ints = None,
) -> Any:  # fmt: skip
    """The p-norm of each window."""
    found = windows(c, x, list(kernel_shape or ()), strides, pads, dilations, auto_pad)
    check_fit(c, x, found, bool(ceil_mode))
    return _root(c, _sums(c, _power(c, x, p), found, bool(ceil_mode)), p)


def _power(c: Conversion, x: Value, p: float) -> Any:
    """|x| to the p."""
    if p == 2:
        return c.b.mul(x, x)
    return c.b.abs(x) if p == 1 else c.b.pow(c.b.abs(x), c.same_type(p, x))


def _root(c: Conversion, x: Value, p: float) -> Any:
    """The p-th root."""
    if p == 2:
        return c.b.sqrt(x)
    return x if p == 1 else c.b.pow(x, c.same_type(1 / p, x))


@converts("GlobalLpPool")
def global_lp_pool(c: Conversion, x: Value, *, p: float = 2) -> Any:
    """The p-norm of each channel."""
    axes = list(range(2, c.rank(x)))
    if p == 2:
        return c.b.reduce_l2(x, axes=axes, keepdims=True)
    return _root(c, c.b.reduce_sum(_power(c, x, p), axes=axes, keepdims=True), p)


@converts("GlobalAveragePool")
def global_average_pool(c: Conversion, x: Value) -> Any:
    """The mean of each channel."""
    return c.b.adaptive_avg_pool(x, output_size=[1] * (c.rank(x) - 2))


@converts("GlobalMaxPool")
def global_max_pool(c: Conversion, x: Value) -> Any:
    """The greatest element of each channel."""
    return c.b.adaptive_max_pool(x, output_size=[1] * (c.rank(x) - 2))


@converts("MaxUnpool")
def max_unpool(
    c: Conversion, x: Value, indices: Value, output_shape: Value | None = None, *, kernel_shape: Ints, pads: Ints = None,
    strides: Ints = None,
) -> Any:  # fmt: skip
    """Zeros with each element where its index says, in what the pool looked at; with a wanted shape, more zeros behind."""
    found = windows(c, x, list(kernel_shape or ()), strides, pads, None, "NOTSET")
    lead, sizes = list(c.shape(x)[:2]), c.shape(x)[2:]
    axes = zip(sizes, found.strides, found.kernel, found.begins, found.ends, strict=True)
    inner = [(size - 1) * stride + kernel - begin - end for size, stride, kernel, begin, end in axes]
    y = c.b.max_unpool(x, indices, shape=inner, convention="flat")
    if output_shape is None:
        return y
    wanted = sizes_of(c, output_shape, "wanted sizes", 0)
    spare = [size - own for size, own in zip(wanted, [*lead, *inner], strict=True)]
    return y if spare == [0] * len(spare) else c.b.pad(y, before=[0] * len(spare), after=spare)


@converts("MaxRoiPool")
def max_roi_pool(c: Conversion, x: Value, rois: Value, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Any:
    """The greatest element of each bin of boxes whose corners are rounded to whole elements; 0 where a bin has none."""
    b, dtype = c.b, dtypes.f32 if x.tensor.dtype.bits < 32 else x.tensor.dtype
    count, sizes = c.shape(rois)[0], c.shape(x)[2:]
    columns = [b.cast(b.slice(rois, axes=[1], starts=[i], ends=[i + 1], steps=[1]), dtype=dtype) for i in range(5)]
    batch = b.squeeze(b.cast(columns[0], dtype=dtypes.i64), axes=[1])
    # Halves are rounded away from 0.
    corners = [b.mul(each, c.same_type(spatial_scale, columns[0])) for each in columns[1:]]
    corners = [b.mul(b.sign(each), b.floor(b.add(b.abs(each), 0.5))) for each in corners]
    masks = []
    for axis, (bins, size) in enumerate(zip(pooled_shape, sizes, strict=True)):
        start, end = corners[1 - axis], corners[3 - axis]  # [boxes, 1]
        step = b.div(b.maximum(b.add(b.sub(end, start), 1.0), 1.0), float(bins))
        places = b.constant(np.arange(bins), dtype)
        first = b.add(b.floor(b.mul(places, step)), start)
        last = b.add(b.ceil(b.mul(b.add(places, 1.0), step)), start)  # [boxes, bins]
        line = b.cast(b.arange(stop=size), dtype=dtype)
        masks.append(b.logical_and(b.ge(line, b.unsqueeze(first, axes=[2])), b.lt(line, b.unsqueeze(last, axes=[2]))))
    least = c.same_type(-np.inf, x)
    images = b.gather(x, batch, axis=0)  # [boxes, C, H, W]
    rows = b.where(b.unsqueeze(masks[1], axes=[1, 2]), b.unsqueeze(images, axes=[3]), least)  # [boxes, C, H, bins, W]
    rows = b.permute(b.reduce_max(rows, axes=[4]), perm=[0, 1, 3, 2])  # [boxes, C, bins, H]
    found = b.where(b.unsqueeze(masks[0], axes=[1, 3]), b.unsqueeze(rows, axes=[2]), least)  # [boxes, C, bins, bins, H]
    found = b.reduce_max(found, axes=[4])
    found = b.where(b.eq(found, least), c.same_type(0, x), found)
    return b.reshape(found, shape=[count, c.shape(x)[1], *pooled_shape])
