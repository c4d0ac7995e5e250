"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.ops.windows import halves, kernel_of, windows
from isthmus.frontends.onnx.sizes import sizes as sizes_of
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, bounds, product
from isthmus.ir.graph import Value

Ints = Sequence[int] | None


@converts("Conv")
def conv(
    c: Conversion, x: Value, weight: Value, bias: Value | None = None, *, auto_pad: str = "NOTSET", dilations: Ints = None,
    group: int = 1, kernel_shape: Ints = None, pads: Ints = None, strides: Ints = None,
) -> Any:  # fmt: skip
    """Cross-correlation."""
    found = windows(c, x, kernel_of(c, weight, kernel_shape), strides, pads, dilations, auto_pad)
    x, numbers = found.fixed(c, x)
    return c.b.conv(x, weight, bias, strides=found.strides, pads=numbers, dilations=found.dilations, groups=group)


@converts("ConvInteger")
def conv_integer(
    c: Conversion, x: Value, weight: Value, x_zero: Value | None = None, weight_zero: Value | None = None, *,
    auto_pad: str = "NOTSET", dilations: Ints = None, group: int = 1, kernel_shape: Ints = None, pads: Ints = None,
    strides: Ints = None,
) -> Any:  # fmt: skip
    """Of small integers less their zero points, in i32; the padding is of zero points."""
    x = whole(c, x, x_zero)
    weight = whole(c, weight, weight_zero, along=0)
    return conv(c, x, weight, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
                strides=strides)  # fmt: skip


def whole(c: Conversion, x: Value, zero: Value | None, along: int | None = None) -> Any:
    """Small integers as i32, less their zero point: one for all, or one for each place along an axis."""
    x = c.b.cast(x, dtype=dtypes.i32)
    if zero is None:
        return x
    zero = c.b.cast(zero, dtype=dtypes.i32)
    behind = 0 if along is None else c.rank(x) - 1 - along
    if c.rank(zero) == 1 and behind:
        zero = c.b.unsqueeze(zero, axes=list(range(1, behind + 1)))
    return c.b.sub(x, zero)


@converts("ConvTranspose")
def conv_transpose(
    c: Conversion, x: Value, weight: Value, bias: Value | None = None, *, auto_pad: str = "NOTSET", dilations: Ints = None,
    group: int = 1, kernel_shape: Ints = None, output_padding: Ints = None, output_shape: Ints = None, pads: Ints = None,
    strides: Ints = None,
) -> Any:  # fmt: skip
    """The gradient of a convolution. A wanted shape or `auto_pad` says how much of the whole result is cut off at the ends."""
    kernel = kernel_of(c, weight, kernel_shape)
    found = windows(c, x, kernel, strides, pads, dilations, auto_pad if auto_pad == "VALID" else "NOTSET")
    count = found.count
    extra = list(output_padding or [0] * count)
    if output_shape or auto_pad.startswith("SAME"):
        sizes = c.shape(x)[2:]
        axes = zip(sizes, found.strides, found.spans(), extra, strict=True)
        wholes = [(size - 1) * stride + span + more for size, stride, span, more in axes]
        wanted = list(output_shape or [size * stride for size, stride in zip(sizes, found.strides, strict=True)])[-count:]
        totals = [full - size for full, size in zip(wholes, wanted, strict=True)]
        if not output_shape:
            totals = [total if bounds(total)[0] >= 0 else 0 for total in totals]
        found.pads = _shared(totals, auto_pad == "SAME_UPPER")
    numbers = [pad for pad in found.pads if isinstance(pad, int) and pad >= 0]
    more: dict[str, Any] = {"strides": found.strides, "dilations": found.dilations, "groups": group}
    if len(numbers) == 2 * count:
        return c.b.conv_transpose(x, weight, bias, pads=numbers, output_padding=extra, **more)
    y = c.b.conv_transpose(x, weight, None, pads=[0] * 2 * count, output_padding=extra, **more)
    y = _trimmed(c, y, found.begins, found.ends)
    return y if bias is None else c.b.add(y, c.b.unsqueeze(bias, axes=list(range(1, count + 1))))


def _shared(totals: Sequence[Dim], upper: bool) -> list[Dim]:
    """As `halves`; what is below 0, and widens the result, is halved towards 0, as in C."""
    pads = halves(totals, upper)
    count = len(totals)
    for axis, total in enumerate(totals):
        if bounds(total)[1] < 0:
            half = -(-total // 2)
            pads[axis], pads[axis + count] = (half, total - half) if upper else (total - half, half)
    return pads


def _trimmed(c: Conversion, y: Value, begins: Sequence[Dim], ends: Sequence[Dim]) -> Any:
    """Cut off at the ends of the spatial axes, or widened with zeros where that is below 0."""
    before, after = [[-pad if bounds(pad)[1] < 0 else 0 for pad in pads] for pads in (begins, ends)]
    if any(not isinstance(pad, int) or pad for pad in (*before, *after)):
        y = c.b.pad(y, before=[0, 0, *before], after=[0, 0, *after])
    shape = c.shape(y)[2:]
    starts = [0 if bounds(pad)[1] < 0 else pad for pad in begins]
    stops = [size if bounds(pad)[1] < 0 else size - pad for size, pad in zip(shape, ends, strict=True)]
    return c.b.slice(y, axes=list(range(2, 2 + len(shape))), starts=starts, ends=stops, steps=[1] * len(shape))


@converts("DeformConv")
def deform_conv(
    c: Conversion, x: Value, weight: Value, offset: Value, bias: Value | None = None, mask: Value | None = None, *,
    dilations: Ints = None, group: int = 1, kernel_shape: Ints = None, offset_group: int = 1, pads: Ints = None,
    strides: Ints = None,
) -> Any:  # fmt: skip
    """A convolution that looks at places which are data."""
    found = windows(c, x, kernel_of(c, weight, kernel_shape), strides, pads, dilations, "NOTSET")
    return c.b.deform_conv(
        x, weight, offset, mask, bias, strides=found.strides, pads=found.pads, dilations=found.dilations, groups=group,
        offset_groups=offset_group,
    )  # fmt: skip


@converts("Col2Im")
def col2im(
    c: Conversion, x: Value, image_shape: Value, block_shape: Value, *, dilations: Ints = None, pads: Ints = None,
    strides: Ints = None,
) -> Any:  # fmt: skip
    """Every column added where its block was: a transposed convolution that gives each element of a block its own tap."""
    sizes = sizes_of(c, image_shape, "sizes of the image", 0)
    kernel = sizes_of(c, block_shape, "sizes of the block", 1)
    count = len(sizes)
    if len(kernel) != count:
        raise c.malformed(f"has {len(kernel)} sizes of the block for {count} of the image")
    steps, gaps, border = list(strides or [1] * count), list(dilations or [1] * count), list(pads or [0] * 2 * count)
    batch, columns, _ = c.shape(x)
    block = product(list(kernel))
    channels = columns // block
    reach = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
    padded = [size + border[axis] + border[axis + count] for axis, size in enumerate(sizes)]
    counts = [(size - span) // step + 1 for size, span, step in zip(padded, reach, steps, strict=True)]
    x = c.b.reshape(x, shape=[batch * channels, block, *counts])
    places = c.b.arange(stop=block)
    own = c.b.cast(c.b.eq(c.b.unsqueeze(places, axes=[1]), places), dtype=x.tensor.dtype)
    taps = c.b.reshape(own, shape=[block, 1, *kernel])
    y = c.b.conv_transpose(
        x, taps, None, strides=steps, pads=[0] * 2 * count, output_padding=[0] * count, dilations=gaps, groups=1
    )
    y = c.b.reshape(y, shape=[batch, channels, *c.shape(y)[2:]])
    # The last blocks need not reach the end of the image.
    spare = [size - own for size, own in zip(padded, c.shape(y)[2:], strict=True)]
    y = y if spare == [0] * count else c.b.pad(y, before=[0] * (count + 2), after=[0, 0, *spare])
    if not any(border):
        return y
    starts = border[:count]
    stops = [start + size for start, size in zip(starts, sizes, strict=True)]
    return c.b.slice(y, axes=list(range(2, count + 2)), starts=starts, ends=stops, steps=[1] * count)
