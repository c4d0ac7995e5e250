"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.ops.normalization import cast
from isthmus.frontends.onnx.ops.windows import halves, kernel_of, slid, windows
from isthmus.frontends.onnx.sizes import sizes as sizes_of
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, maximum, minimum, product, resolve
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
    return slid(c, c.b.conv(x, weight, bias, strides=found.strides, pads=numbers, dilations=found.dilations, groups=group))


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
        strided = [size * stride for size, stride in zip(sizes, found.strides, strict=True)]
        wanted: Sequence[Dim] = output_shape[-count:] if output_shape else strided
        totals = [full - size for full, size in zip(wholes, wanted, strict=True)]
        if not output_shape:
            totals = [maximum(0, total) for total in totals]
        found.pads = _shared(totals, auto_pad == "SAME_UPPER")
    numbers = [pad for pad in found.pads if isinstance(pad, int) and pad >= 0]
    more: dict[str, Any] = {"strides": found.strides, "dilations": found.dilations, "groups": group}
    if len(numbers) == 2 * count:
        return c.b.conv_transpose(x, weight, bias, pads=numbers, output_padding=extra, **more)
    y = c.b.conv_transpose(x, weight, None, pads=[0] * 2 * count, output_padding=extra, **more)
    y = _trimmed(c, y, found.begins, found.ends)
    return y if bias is None else c.b.add(y, c.b.unsqueeze(bias, axes=list(range(1, count + 1))))


def _shared(totals: Sequence[Dim], upper: bool) -> list[Dim]:
    """As `halves`; what is below 0 widens the result at its end."""
    pads = halves([maximum(0, total) for total in totals], upper)
    return [*pads[: len(totals)], *(pad + minimum(0, total) for pad, total in zip(pads[len(totals) :], totals, strict=True))]


def _trimmed(c: Conversion, y: Value, begins: Sequence[Dim], ends: Sequence[Dim]) -> Any:
    """Cut off at the ends of the spatial axes; behind, zeros where that is below 0."""
    more = [maximum(0, -pad) for pad in ends]
    count = len(more)
    if more != [0] * count:
        y = c.b.pad(y, before=[0] * (count + 2), after=[0, 0, *more])
    stops = [size - maximum(0, pad) for size, pad in zip(c.shape(y)[2:], ends, strict=True)]
    return c.b.slice(y, axes=list(range(2, 2 + count)), starts=list(begins), ends=stops, steps=[1] * count)


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


@converts("CausalConvWithState")
def causal_conv_with_state(
    c: Conversion, x: Value, weight: Value, bias: Value | None = None, state: Value | None = None, *, activation: str = "none",
) -> Any:  # fmt: skip
    """Each channel along time by a window of its own that ends at each place; what was before is a state, or zeros."""
    b, symbols = c.b, c.b.graph.symbols
    _, channels, length = c.shape(x)
    windows, _, size = c.shape(weight)
    if activation not in ("none", "silu", "swish"):
        raise c.malformed(f"has the activation {activation!r}")
    if not symbols.unify(channels, windows) or (state is not None and not symbols.unify(c.shape(state)[2], size - 1)):
        raise c.malformed("the channels or the state do not fit the weight")
    whole = b.pad(x, before=[0, 0, size - 1], after=[0, 0, 0]) if state is None else b.concat([state, x], axis=2)
    groups = resolve(channels)
    if isinstance(groups, int):
        y = b.conv(whole, weight, bias, strides=[1], pads=[0, 0], dilations=[1], groups=groups)
    else:  # as many groups as only a run tells
        places = b.add(b.unsqueeze(b.arange(stop=length), axes=[1]), b.arange(stop=size))
        y = b.reduce_sum(b.mul(b.gather(whole, places, axis=2), weight), axes=[3])
        y = y if bias is None else b.add(y, b.unsqueeze(bias, axes=[1]))
    if activation != "none":
        dtype = y.tensor.dtype
        y = cast(c, b.silu(cast(c, y, dtypes.f32) if dtype.bits < 32 else y), dtype)
    return y, b.slice(whole, axes=[2], starts=[length], ends=[length + (size - 1)], steps=[1])
