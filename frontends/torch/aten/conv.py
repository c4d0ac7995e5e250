"""Convolutions and their transposes, and the columns that make them matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from isthmus.frontends.torch.aten.common import integer, listed, per_axis, reshape
from isthmus.frontends.torch.aten.slicing import pad, windows
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, Expr, product
from isthmus.ir.graph import Value

Sizes = int | Sequence[Dim]


def batched(w: Lowering, x: Value, rank: int, build: Callable[[Value], Any]) -> Any:
    """`build(x)` for ``x[N, C, spatial...]``; an input without the batch axis gets one for the while."""
    if w.rank(x) == rank:
        return build(x)
    found = build(w.b.unsqueeze(x, axes=[0]))
    return tuple(w.b.squeeze(each, axes=[0]) for each in found) if isinstance(found, tuple) else w.b.squeeze(found, axes=[0])


@lowers(*(f"aten.conv{count}d{suffix}" for count in (1, 2, 3) for suffix in (".default", ".padding")))
def conv(
    w: Lowering, x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: Dim = 1,
) -> Any:  # fmt: skip
    count = w.rank(weight) - 2
    strides, dilations = per_axis(w, stride, count, "a stride"), per_axis(w, dilation, count, "a dilation")
    if padding == "same":
        reach = [d * (integer(w, k, "a kernel size") - 1) for d, k in zip(dilations, w.dims(weight)[2:], strict=True)]
        pads = [total // 2 for total in reach] + [total - total // 2 for total in reach]
    else:
        pads = per_axis(w, 0 if isinstance(padding, str) else padding, count, "a padding") * 2
    attrs = {"strides": strides, "pads": pads, "dilations": dilations}
    if isinstance(groups, Expr):
        return batched(w, x, count + 2, lambda x: _conv_of_any_groups(w, x, weight, bias, groups, attrs))
    return batched(w, x, count + 2, lambda x: w.b.conv(x, weight, bias, groups=groups, **attrs))


@lowers("aten.conv_transpose1d", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(
    w: Lowering, x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: Dim = 1, dilation: Sizes = 1,
) -> Any:  # fmt: skip
    count = w.rank(weight) - 2
    attrs = {
        "strides": per_axis(w, stride, count, "a stride"),
        "pads": per_axis(w, padding, count, "a padding") * 2,
        "output_padding": per_axis(w, output_padding, count, "an output padding"),
        "dilations": per_axis(w, dilation, count, "a dilation"),
    }
    if isinstance(groups, Expr):
        return batched(w, x, count + 2, lambda x: _conv_transpose_of_any_groups(w, x, weight, bias, groups, attrs))
    return batched(w, x, count + 2, lambda x: w.b.conv_transpose(x, weight, bias, groups=groups, **attrs))


@lowers("aten.convolution", "aten._convolution", "aten._convolution.deprecated", "aten.convolution_overrideable")
def convolution(
    w: Lowering, x: Value, weight: Value, bias: Value | None, stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool,
    output_padding: Sizes, groups: Dim, benchmark: bool = False, deterministic: bool = False, cudnn_enabled: bool = True,
    allow_tf32: bool = True,
) -> Any:  # fmt: skip
    if transposed:
        return conv_transpose(w, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(w, x, weight, bias, stride, padding, dilation, groups)


# ---- as many groups as a size says: those of a batch whose examples have weights of their own


def _conv_of_any_groups(w: Lowering, x: Value, weight: Value, bias: Value | None, groups: Dim, attrs: dict[str, Any]) -> Any:
    """The windows of every channel as columns, by a convolution that gives each element of a window its own tap; then the
    matrix product of every group."""
    batch, _, *spatial = w.dims(x)
    channels, kernel = _kernel(w, weight)
    outputs, taps = w.dims(weight)[0] // groups, math.prod(kernel)
    x = reshape(w, x, [batch * groups * channels, 1, *spatial])
    x = w.b.conv(x, w.b.constant(_one_tap_each(kernel), x.tensor.dtype), None, groups=1, **attrs)
    spatial = list(w.dims(x)[2:])
    columns = w.b.reshape(x, shape=[batch, groups, channels * taps, product(spatial)])
    found = w.b.matmul(w.b.reshape(weight, shape=[groups, outputs, channels * taps]), columns)
    return _with_bias(w, w.b.reshape(found, shape=[batch, groups * outputs, *spatial]), bias)


def _conv_transpose_of_any_groups(
    w: Lowering, x: Value, weight: Value, bias: Value | None, groups: Dim, attrs: dict[str, Any]
) -> Any:
    """The matrix product of every group gives columns, which a transposed convolution adds where their windows are."""
    batch, _, *spatial = w.dims(x)
    outputs, kernel = _kernel(w, weight)
    channels, taps = w.dims(weight)[0] // groups, math.prod(kernel)
    x = w.b.reshape(x, shape=[batch, groups, channels, product(spatial)])
    weight = w.b.permute(w.b.reshape(weight, shape=[groups, channels, outputs * taps]), perm=[0, 2, 1])
    columns = w.b.reshape(w.b.matmul(weight, x), shape=[batch * groups * outputs, taps, *spatial])
    found = w.b.conv_transpose(columns, w.b.constant(_one_tap_each(kernel), x.tensor.dtype), None, groups=1, **attrs)
    return _with_bias(w, w.b.reshape(found, shape=[batch, groups * outputs, *w.dims(found)[2:]]), bias)


def _kernel(w: Lowering, weight: Value) -> tuple[Dim, list[int]]:
    """A weight's sizes but for the first, those of the kernel as numbers."""
    _, channels, *kernel = w.dims(weight)
    return channels, [integer(w, each, "a kernel size") for each in kernel]


def _with_bias(w: Lowering, x: Value, bias: Value | None) -> Value:
    return x if bias is None else w.b.add(x, w.b.unsqueeze(bias, axes=range(1, w.rank(x) - 1)))


# ---- columns


@lowers("aten.im2col")
def im2col(w: Lowering, x: Value, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Any:
    """Every window as a column: ``[N, C * kernel, windows]``."""
    kernel, gaps, border, steps = (per_axis(w, each, 2, "a size") for each in (kernel_size, dilation, padding, stride))

    def build(x: Value) -> Any:
        batch, channels, *_ = w.dims(x)
        x = pad(w, x, [border[1], border[1], border[0], border[0]])
        counts: list[Dim] = []
        for number in range(2):
            axis = 2 + 2 * number
            size = w.dims(x)[axis]
            counts.append((size - gaps[number] * (kernel[number] - 1) - 1) // steps[number] + 1)
            x = w.b.gather(x, windows(w, counts[number], kernel[number], steps[number], gaps[number]), axis=axis)
        x = w.b.permute(x, perm=[0, 1, 3, 5, 2, 4])
        return w.b.reshape(x, shape=[batch, channels * math.prod(kernel), product(counts)])

    return batched(w, x, 4, build)


@lowers("aten.col2im")
def col2im(
    w: Lowering, x: Value, output_size: Sequence[Dim], kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes,
) -> Any:  # fmt: skip
    """Every column added where its window was: a transposed convolution that gives each element of a window its own tap."""
    kernel, gaps, border, steps = (per_axis(w, each, 2, "a size") for each in (kernel_size, dilation, padding, stride))
    sizes = listed(output_size)

    def build(x: Value) -> Any:
        batch, columns, _ = w.dims(x)
        channels = columns // math.prod(kernel)
        padded = [size + 2 * each for size, each in zip(sizes, border, strict=True)]
        counts = [
            (size - gap * (k - 1) - 1) // step + 1 for size, gap, k, step in zip(padded, gaps, kernel, steps, strict=True)
        ]
        x = w.b.reshape(x, shape=[batch * channels, math.prod(kernel), *counts])
        taps = w.b.constant(_one_tap_each(kernel), x.tensor.dtype)
        reach = [(n - 1) * step + gap * (k - 1) + 1 for n, step, gap, k in zip(counts, steps, gaps, kernel, strict=True)]
        x = w.b.conv_transpose(x, taps, None, strides=steps, pads=[0] * 4, output_padding=[0, 0], dilations=gaps, groups=1)
        x = w.b.reshape(x, shape=[batch, channels, *reach])
        left = [size - each for size, each in zip(padded, reach, strict=True)]
        return pad(w, x, [-border[1], left[1] - border[1], -border[0], left[0] - border[0]])

    return batched(w, x, 3, build)


def _one_tap_each(kernel: Sequence[int]) -> Any:
    count = int(np.prod(kernel))
    return np.eye(count, dtype=np.float32).reshape(count, 1, *kernel)
