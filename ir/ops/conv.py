"""Convolutions over any number of spatial axes.

Tensors are ``[N, C, spatial...]``. `pads` lists the begins of all spatial axes, then the ends, as ONNX does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import INT, INTS
from isthmus.ir.dims import Dim
from isthmus.ir.op import HELD, Call, Op, Sample, operands, register, rng, sample
from isthmus.ir.ops.numerics import compute
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array


def spatial(call: Call, *lists: str) -> tuple[Dim, ...]:
    """The shape of operand 0, with a batch, a channel and at least one spatial axis.

    Args:
        call: what is looked at.
        lists: attributes that must have an element for each spatial axis (`pads`: two), none below its least.

    Raises:
        InferError: one of these does not hold.
    """
    shape = call.shape(0)
    count = len(shape) - 2
    if count < 1:
        raise call.error(f"operand {call.op.operand_name(0)} must be [N, C, spatial...]", found=str(call.types[0]))
    for name in lists:
        values = call.attrs[name]
        expected = 2 * count if name == "pads" else count
        if len(values) != expected:
            raise call.error(f"attribute {name} has a wrong length", expected=f"{expected} integers", found=str(list(values)))
        least = 0 if name in ("pads", "output_padding") else 1
        if min(values) < least:
            raise call.error(f"attribute {name} has an element below {least}", found=str(list(values)))
    return shape


def window_count(call: Call, size: Dim, kernel: Dim, stride: int, begin: int, end: int, dilation: int) -> Dim:
    """How many windows fit along an axis.

    Raises:
        InferError: not even one does.
    """
    span = (kernel - 1) * dilation
    spare = begin + end - span
    if stride == 1:  # most often the size stays
        count = size if spare.__class__ is int and spare == 0 else size + spare
    else:
        count = (size + (spare - 1)) // stride + 1
    if isinstance(count, int) and count < 1:
        raise call.error("the window is larger than the padded input", expected=f"at least {span + 1}", found=f"{size}")
    return count


def offsets(kernel: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The places in a window, in row-major order."""
    return product(*map(range, kernel))


def steps(offset: Sequence[int], counts: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> tuple[Any, ...]:
    """The index of one place of all windows: ``array[steps(...)]`` is ``[N, C, counts...]``."""
    parts = zip(offset, counts, strides, dilations, strict=True)
    return (..., *(slice(o * d, o * d + (n - 1) * s + 1, s) for o, n, s, d in parts))


def volume(shape: Sequence[Dim]) -> int:
    """The number of elements of a shape that is known."""
    return math.prod(size for size in shape if isinstance(size, int))


def room(shape: Sequence[Dim], pads: Sequence[int]) -> int:
    """What `padded` adds to the effort of an evaluation."""
    axes = len(pads) // 2
    sizes = [size + pads[axis] + pads[axis + axes] for axis, size in enumerate(shape[len(shape) - axes :])]
    return HELD * volume(shape[: len(shape) - axes]) * volume(sizes)


def padded(x: Array, pads: Sequence[int], fill: Any = 0) -> Array:
    """The array with its spatial axes padded."""
    if not any(pads):
        return x
    count = len(pads) // 2
    widths = [(0, 0)] * (x.ndim - count) + [(pads[axis], pads[axis + count]) for axis in range(count)]
    return np.pad(x, widths, constant_values=fill)


@register
class Conv(Op):
    """Cross-correlation of ``x[N, C, spatial...]`` with ``weight[O, C / groups, kernel...]``, plus ``bias[O]``.

    The result is ``[N, O, windows...]``. Group g of the outputs sees group g of the channels.
    """

    name = "conv"
    operands = operands("x: numeric T, weight: numeric T, bias?: numeric T")
    attributes = {"strides": INTS, "pads": INTS, "dilations": INTS, "groups": INT(1)}
    source = "ONNX Conv-22; torch.nn.functional.conv2d"

    def infer(self, call: Call) -> Sequence[Type]:
        x = spatial(call, "strides", "pads", "dilations")
        weight = call.shape(1)
        rank = len(x)
        groups = call["groups"]
        if len(weight) != rank:
            raise call.error("weight must have the rank of x", found=str(call.types[1]))
        outputs = weight[0]
        if groups < 1 or (isinstance(outputs, int) and outputs % groups):
            raise call.error(f"{outputs} output channels do not divide into {groups} groups")
        call.unify(x[1], weight[1] if groups == 1 else weight[1] * groups, "the channels of x and weight")
        if call.types[2] is not None:
            (bias,) = vector(call, 2)
            call.unify(bias, outputs, "the sizes of bias and weight")
        strides, pads, dilations = call["strides"], call["pads"], call["dilations"]
        count = rank - 2
        windows = [
            window_count(call, x[i + 2], weight[i + 2], strides[i], pads[i], pads[i + count], dilations[i])
            for i in range(count)
        ]
        return (Tensor(call.dtype(0), (x[0], outputs, *windows)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        def function(x: Any, weight: Any, *bias: Any) -> Any:
            return _with_bias(_conv(x, weight, call["strides"], call["pads"], call["dilations"], call["groups"]), bias)

        return compute(function, *(operand for operand in operands if operand is not None))

    def effort(self, call: Call) -> int:
        (result,), weight = self.infer(call), call.shape(1)
        assert isinstance(result, Tensor)
        return room(call.shape(0), call["pads"]) + volume(result.shape or ()) * volume(weight[1:])

    def samples(self) -> Iterable[Sample]:
        def conv(*shapes: tuple[int, ...], note: str, dtype: Any = np.float32, **attrs: Any) -> Sample:
            draws = rng()
            count = len(shapes[0]) - 2
            base = {"strides": [1] * count, "pads": [0] * 2 * count, "dilations": [1] * count}
            arrays = [(draws.standard_normal(shape) * 2).astype(dtype) for shape in shapes]
            return sample(*arrays, note=note, **(base | attrs))

        yield conv((2, 3, 5, 6), (4, 3, 3, 2), (4,), note="2d")
        yield conv((1, 2, 7), (3, 2, 3), note="1d", strides=[2], pads=[1, 0])
        yield conv((1, 2, 4, 3, 4), (2, 2, 2, 3, 2), (2,), note="3d", pads=[1, 1, 0, 0, 1, 1])
        yield conv((2, 4, 5, 5), (6, 2, 3, 3), (6,), note="groups", groups=2, pads=[1, 1, 1, 1])
        yield conv((1, 4, 6, 6), (4, 1, 3, 3), note="depthwise", groups=4, strides=[2, 2], pads=[1, 1, 1, 1])
        yield conv((1, 2, 9, 8), (2, 2, 3, 2), note="dilated", dilations=[2, 3], strides=[2, 1], pads=[0, 2, 1, 0])
        yield conv((1, 3, 4, 4), (2, 3, 1, 1), (2,), note="pointwise")
        yield conv((1, 2, 4, 4), (2, 2, 3, 3), (2,), note="f16", dtype=np.float16)
        yield conv((1, 2, 4, 4), (2, 2, 3, 3), note="bf16", dtype=ml_dtypes.bfloat16)
        yield conv((0, 2, 4, 4), (3, 2, 3, 3), (3,), note="empty")


def _conv(
    x: Array, weight: Array, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], groups: int
) -> Array:
    kernel = weight.shape[2:]
    count = len(kernel)
    x = padded(x, pads)
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, span, tuple(range(2, x.ndim)))
    every: tuple[Any, ...] = tuple(slice(None, None, step) for step in (*strides, *dilations))
    windows = windows[(..., *every)]
    sizes = windows.shape[2 : 2 + count]
    batch, channels = x.shape[:2]
    # [N, C, windows, kernel] -> [C, kernel, windows] for one element at a time: one matmul then does the work, on a copy
    # of its windows that need not stay.
    columns = np.moveaxis(windows, range(2 + count, 2 + 2 * count), range(2, 2 + count))
    inner, total = channels // groups * int(np.prod(kernel)), int(np.prod(sizes))
    weight = weight.reshape(groups, weight.shape[0] // groups, inner)
    result = np.empty((batch, groups, weight.shape[1], total), x.dtype)
    for element, part in zip(result, columns, strict=True):
        np.matmul(weight, part.reshape(groups, inner, total), out=element)
    return result.reshape(batch, groups * weight.shape[1], *sizes)


@register
class ConvTranspose(Op):
    """The gradient of `conv` with respect to its input: each element of x adds a scaled kernel to the result.

    ``x[N, C, spatial...]`` and ``weight[C, O / groups, kernel...]`` give ``[N, O, sizes...]`` with
    ``size = (in - 1) * stride + dilation * (kernel - 1) + 1 + output_padding - pads``; plus ``bias[O]``.
    """

    name = "conv_transpose"
    operands = operands("x: numeric T, weight: numeric T, bias?: numeric T")
    attributes = {"strides": INTS, "pads": INTS, "output_padding": INTS, "dilations": INTS, "groups": INT(1)}
    source = "ONNX ConvTranspose-22; torch.nn.functional.conv_transpose2d"

    def infer(self, call: Call) -> Sequence[Type]:
        x = spatial(call, "strides", "pads", "output_padding", "dilations")
        weight = call.shape(1)
        groups = call["groups"]
        if len(weight) != len(x):
            raise call.error("weight must have the rank of x", found=str(call.types[1]))
        channels = call.unify(x[1], weight[0], "the channels of x and weight")
        if groups < 1 or (isinstance(channels, int) and channels % groups):
            raise call.error(f"{channels} channels do not divide into {groups} groups")
        outputs = weight[1] * groups
        if call.types[2] is not None:
            (bias,) = vector(call, 2)
            call.unify(bias, outputs, "the sizes of bias and weight")
        return (Tensor(call.dtype(0), (x[0], outputs, *self.sizes(call, x[2:], weight[2:]))),)

    def sizes(self, call: Call, inputs: Sequence[Dim], kernel: Sequence[Dim]) -> list[Dim]:
        """The result's spatial sizes."""
        strides, pads, extra, dilations = call["strides"], call["pads"], call["output_padding"], call["dilations"]
        count = len(inputs)
        sizes = [
            (inputs[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + (1 + extra[i] - pads[i] - pads[i + count])
            for i in range(count)
        ]
        if any(isinstance(size, int) and size < 1 for size in sizes):
            raise call.error("the padding leaves nothing of the result", found=f"sizes {sizes}")
        return sizes

    def effort(self, call: Call) -> int:
        (result,), x, weight = self.infer(call), call.shape(0), call.shape(1)
        assert isinstance(result, Tensor)
        return room(result.shape or (), call["pads"]) + HELD * volume(x) * volume(weight[1:])

    def evaluate(self, call: Call, *operands: Any) -> Any:
        def function(x: Any, weight: Any, *bias: Any) -> Any:
            kernel, count, groups = weight.shape[2:], x.ndim - 2, call["groups"]
            strides, dilations, pads, inputs = call["strides"], call["dilations"], call["pads"], x.shape[2:]
            sizes: list[Any] = self.sizes(call, inputs, kernel)
            batch, channels, outputs = x.shape[0], x.shape[1], weight.shape[1] * groups
            grouped = x.reshape(batch, groups, channels // groups, int(np.prod(inputs)))
            scale = weight.reshape(groups, channels // groups, -1).swapaxes(1, 2)  # [g, O/g * kernel, C/g]
            columns = np.matmul(scale, grouped).reshape(batch, outputs, int(np.prod(kernel)), *inputs)
            # Room for every kernel, and for output_padding beyond the last one.
            full = np.zeros((batch, outputs, *(n + pads[i] + pads[i + count] for i, n in enumerate(sizes))), columns.dtype)
            for number, offset in enumerate(offsets(kernel)):
                full[steps(offset, inputs, strides, dilations)] += columns[:, :, number]
            inside: tuple[Any, ...] = tuple(slice(pads[i], pads[i] + n) for i, n in enumerate(sizes))
            return _with_bias(full[(..., *inside)], bias)

        return compute(function, *(operand for operand in operands if operand is not None))

    def samples(self) -> Iterable[Sample]:
        def conv(*shapes: tuple[int, ...], note: str, dtype: Any = np.float32, **attrs: Any) -> Sample:
            draws = rng()
            count = len(shapes[0]) - 2
            base = {"strides": [1] * count, "pads": [0] * 2 * count, "output_padding": [0] * count, "dilations": [1] * count}
            arrays = [(draws.standard_normal(shape) * 2).astype(dtype) for shape in shapes]
            return sample(*arrays, note=note, **(base | attrs))

        yield conv((2, 3, 4, 3), (3, 2, 3, 2), (2,), note="2d")
        yield conv((1, 2, 4), (2, 3, 3), note="1d", strides=[2], pads=[1, 0], output_padding=[1])
        yield conv((1, 2, 2, 3, 2), (2, 1, 2, 2, 3), (1,), note="3d", strides=[1, 2, 1])
        yield conv((1, 4, 3, 3), (4, 3, 2, 2), (6,), note="groups", groups=2, strides=[2, 2])
        yield conv((1, 2, 4, 4), (2, 2, 3, 2), note="dilated", dilations=[2, 3], pads=[1, 0, 2, 1])
        yield conv((1, 2, 3, 3), (2, 2, 2, 2), (2,), note="f16", dtype=np.float16, strides=[2, 2])


def vector(call: Call, index: int) -> tuple[Dim, ...]:
    """The shape of an operand of rank 1.

    Raises:
        InferError: it has another rank.
    """
    shape = call.shape(index)
    if len(shape) != 1:
        raise call.error(f"operand {call.op.operand_name(index)} must have rank 1", found=str(call.types[index]))
    return shape


def _with_bias(result: Array, bias: Sequence[Array]) -> Array:
    return result + bias[0].reshape(-1, *(1,) * (result.ndim - 2)) if bias else result
