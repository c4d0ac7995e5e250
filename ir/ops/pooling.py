"""Pooling over any number of spatial axes.

Tensors are ``[N, C, spatial...]``; `pads` as for convolutions. With `ceil_mode` the number of windows is rounded up, but
the last window must start inside the input or the padding before it, as torch has it (and ONNX since opset 19).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from isthmus.ir import dims
from isthmus.ir.attributes import BOOL, DIMS, INT, INTS, choice
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import i64
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.conv import offsets, padded, room, spatial, steps, volume, window_count
from isthmus.ir.ops.numerics import compute, divide, lowest, wide
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder

CONVENTION: Final = choice("per_plane", "flat")
"""What an index counts: elements of one spatial plane (torch, Caffe), or of the whole ``[N, C, spatial...]`` (ONNX)."""


def pooled(call: Call, *lists: str) -> tuple[Dim, ...]:
    """The shape of a pool's result."""
    x = spatial(call, "kernel", "strides", "pads", *lists)
    kernel, strides, pads = call["kernel"], call["strides"], call["pads"]
    count = len(x) - 2
    dilations = call["dilations"] if "dilations" in lists else (1,) * count
    sizes: list[Dim] = []
    for axis in range(count):
        stride, begin, end = strides[axis], pads[axis], pads[axis + count]
        if call["ceil_mode"]:
            # Rounding up adds stride - 1 before dividing; that the last window starts before the end of the input
            # bounds the same quotient, so the smaller of the two additions gives both.
            end = min(end + stride - 1, (kernel[axis] - 1) * dilations[axis])
        sizes.append(window_count(call, x[axis + 2], kernel[axis], stride, begin, end, dilations[axis]))
    return (*x[:2], *sizes)


def cover(call: Call, x: Array, fill: Any, dilations: Sequence[int]) -> tuple[Array, tuple[int, ...]]:
    """The array padded so that every window lies inside, and the numbers of windows."""
    count = x.ndim - 2
    counts: Any = pooled(call, *(["dilations"] if "dilations" in call.attrs else []))[2:]
    pads = list(call["pads"])
    for axis, (n, k, s, d) in enumerate(zip(counts, call["kernel"], call["strides"], dilations, strict=True)):
        reach = (n - 1) * s + (k - 1) * d + 1
        pads[axis + count] = max(reach - pads[axis] - x.shape[axis + 2], pads[axis + count])
    return padded(x, pads, fill), counts


def windowed(call: Call) -> int:
    """The effort of going through all windows of a pool, each place in them after the other."""
    (result, *_) = call.op.infer(call)
    assert isinstance(result, Tensor)
    kernel, strides, pads = (call[name] for name in ("kernel", "strides", "pads"))
    # Rounding up may take one more stride than the padding has.
    return room(call.shape(0), [*pads[: len(kernel)], *map(sum, zip(pads[len(kernel) :], strides, strict=True))]) + volume(
        result.shape or ()
    ) * volume(kernel)


_WINDOW: Final = {"kernel": INTS, "strides": INTS, "pads": INTS, "dilations": INTS, "ceil_mode": BOOL(False)}


def _pool_samples(indices: bool = False, **more: Any) -> Iterable[Sample]:
    """Samples that suit every pool with dilations."""

    def pool(*shape: int, note: str, dtype: Any = np.float32, **attrs: Any) -> Sample:
        count = len(shape) - 2
        base = {"kernel": [2] * count, "strides": [2] * count, "pads": [0] * 2 * count, "dilations": [1] * count}
        x = rng().permutation(int(np.prod(shape))).reshape(shape) - 5.0  # no ties
        return sample(x.astype(dtype), note=note, **(base | more | attrs))

    yield pool(2, 3, 4, 6, note="2d")
    yield pool(1, 2, 7, note="1d", kernel=[3], pads=[1, 0])
    yield pool(1, 2, 4, 4, 5, note="3d", kernel=[2, 3, 2], strides=[1, 2, 2], pads=[0, 1, 0, 1, 0, 1])
    yield pool(1, 1, 5, 5, note="ceil", ceil_mode=True)
    yield pool(1, 1, 6, 5, note="ceil-drops", kernel=[2, 2], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=True)
    yield pool(1, 2, 7, 6, note="dilated", kernel=[3, 2], strides=[1, 1], dilations=[2, 3], pads=[1, 0, 1, 1],
               larger=True)  # fmt: skip
    yield pool(2, 2, 5, 5, note="overlapping", kernel=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield pool(1, 2, 4, 4, note="f16", dtype=np.float16)
    if not indices:
        yield pool(1, 2, 4, 4, note="bf16", dtype=ml_dtypes.bfloat16)
    yield pool(1, 2, 4, 4, note="i64", dtype=np.int64, larger=True)
    yield pool(1, 2, 3, 6, 5, note="ceil-dilated", kernel=[3] * 3, pads=[1] * 6, dilations=[1, 2, 1], ceil_mode=True)


@register
class MaxPool(Op):
    """The greatest element of each window; padding never wins; nan when one is."""

    name = "max_pool"
    operands = operands("x: real T")
    attributes = _WINDOW
    source = "torch.nn.functional.max_pool2d; ONNX MaxPool-22"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(call.dtype(0), pooled(call, "dilations")),)

    def effort(self, call: Call) -> int:
        return windowed(call)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        def function(x: Any) -> Any:
            full, counts = cover(call, x, lowest(x.dtype), call["dilations"])
            result = None
            for offset in offsets(call["kernel"]):
                part = full[steps(offset, counts, call["strides"], call["dilations"])]
                result = part.copy() if result is None else np.maximum(result, part, out=result)
            return result

        return compute(function, *operands)

    def samples(self) -> Iterable[Sample]:
        return _pool_samples()


@register
class MaxPoolWithIndex(Op):
    """`max_pool`, and where each greatest element stands in the input without padding; the first one on a tie.

    The indices count as `convention` says, in row-major order.
    """

    name = "max_pool_with_index"
    operands = operands("x: real T")
    attributes = _WINDOW | {"convention": CONVENTION}
    source = "torch.nn.functional.max_pool2d_with_indices; ONNX MaxPool-22"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = pooled(call, "dilations")
        return (Tensor(call.dtype(0), shape), Tensor(i64, shape))

    def effort(self, call: Call) -> int:
        return windowed(call)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        (x,) = operands
        sizes, strides, dilations = x.shape[2:], call["strides"], call["dilations"]
        count = len(sizes)
        least = lowest(wide(x[:0]).dtype)
        full, counts = cover(call, x, least, dilations)
        best = np.full((*x.shape[:2], *counts), least, x.dtype)
        index = np.full(best.shape, -1, np.int64)
        for offset in offsets(call["kernel"]):
            # Where this place of the window is in the input: a row, a column, ... and whether that is inside.
            place: Any = np.zeros((1,) * count, np.int64)
            inside: Any = np.ones((1,) * count, bool)
            for axis in range(count):
                at = np.arange(counts[axis]) * strides[axis] + offset[axis] * dilations[axis] - call["pads"][axis]
                at = at.reshape(-1, *(1,) * (count - 1 - axis))
                place = place * sizes[axis] + at
                inside = inside & (at >= 0) & (at < sizes[axis])
            part = full[steps(offset, counts, strides, dilations)]
            better = inside & ((index < 0) | (part > best) | (part != part))
            best = np.where(better, part, best)
            index = np.where(better, place, index)
        if call["convention"] == "flat":
            planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * count)
            index = index + planes * int(np.prod(sizes))
        return best.astype(x.dtype, copy=False), index

    def samples(self) -> Iterable[Sample]:
        yield from _pool_samples(True, convention="per_plane")
        yield from _pool_samples(True, convention="flat")


@register
class MaxUnpool(Op):
    """Zeros with each element of x put where its index says: the partial inverse of `max_pool_with_index`.

    The result is ``[N, C, *shape]``. Where two elements have one index, either may win.
    """

    name = "max_unpool"
    operands = operands("x: real T, indices: index")
    attributes = {"shape": DIMS, "convention": CONVENTION}
    traits = Trait.PURE | Trait.COARSE
    source = "torch.nn.functional.max_unpool2d; ONNX MaxUnpool-22"

    def infer(self, call: Call) -> Sequence[Type]:
        x = spatial(call, "shape") if all(d.__class__ is int for d in call["shape"]) else spatial(call)
        indices = call.shape(1)
        if len(indices) != len(x) or len(call["shape"]) != len(x) - 2:
            raise call.error("x, indices and shape must have the same number of axes")
        for left, right in zip(x, indices, strict=True):
            call.unify(left, right, "the sizes of x and indices")
        return (Tensor(call.dtype(0), (*x[:2], *call["shape"])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, indices = operands
        shape, plane = (*x.shape[:2], *call["shape"]), int(np.prod(call["shape"]))
        flat = indices.reshape(x.shape[0] * x.shape[1], int(np.prod(x.shape[2:])))
        if call["convention"] == "per_plane":
            flat = flat + np.arange(len(flat))[:, None] * plane
        result = np.zeros(len(flat) * plane, x.dtype)
        result[flat.reshape(-1)] = x.reshape(-1)
        return result.reshape(shape)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, indices = operands
        shape = call.shape(0)
        lead = shape[:2] if call["convention"] == "per_plane" else ()
        rest, plane = shape[2 if lead else 0 :], (*(() if lead else shape[:2]), *call["shape"])
        zero = b.expand(b.constant(0, call.dtype(0)), shape=[*lead, dims.product(plane)])
        flat = [*lead, dims.product(rest)]
        x, indices = b.reshape(x, shape=flat), b.reshape(indices, shape=flat)
        filled = b.scatter_elements(zero, indices, x, axis=len(lead), reduction="none")
        return b.reshape(filled, shape=[*shape[:2], *call["shape"]])

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 2, 2, 2)).astype(np.float32)
        places = np.array([[[0, 3], [9, 10]], [[5, 2], [8, 15]]])
        planes = np.arange(4).reshape(2, 2, 1, 1) * 16
        yield sample(x, np.stack([places, places]), shape=[4, 4], convention="per_plane")
        yield sample(x, np.stack([places, places]) + planes, shape=[4, 4], convention="flat", note="flat")
        yield sample(x[:1, :, 0], np.array([[[4, 1], [0, 2]]]), shape=[5], convention="per_plane", note="1d")


@register
class AvgPool(Op):
    """The sum of each window divided by a count.

    The count is `divisor` where given; else, with `count_include_pad`, the size of the window's part inside the padded
    input; else the size of its part inside the input. Integers are divided as `div` does, rounded towards zero.
    """

    name = "avg_pool"
    operands = operands("x: real T")
    attributes = {
        "kernel": INTS, "strides": INTS, "pads": INTS, "ceil_mode": BOOL(False), "count_include_pad": BOOL(True),
        "divisor": INT.optional(),
    }  # fmt: skip
    source = "torch.nn.functional.avg_pool2d; ONNX AveragePool-22"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(call.dtype(0), pooled(call)),)

    def effort(self, call: Call) -> int:
        return windowed(call)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        def function(x: Any) -> Any:
            ones = (1,) * (x.ndim - 2)
            full, counts = cover(call, x, 0, ones)
            total = sum(full[steps(offset, counts, call["strides"], ones)] for offset in offsets(call["kernel"]))
            return divide(total, np.asarray(self.divisor(call, x.shape[2:], counts), x.dtype))

        return compute(function, *operands)

    def divisor(self, call: Call, sizes: Sequence[int], counts: Sequence[int]) -> Any:
        """What the sum of each window is divided by."""
        if call["divisor"] is not None:
            return call["divisor"]
        product: Any = 1
        for axis, (size, n) in enumerate(zip(sizes, counts, strict=True)):
            start = np.arange(n) * call["strides"][axis] - call["pads"][axis]
            end = np.minimum(start + call["kernel"][axis], size + call["pads"][axis + len(sizes)])
            if not call["count_include_pad"]:
                start, end = np.maximum(start, 0), np.minimum(end, size)
            product = product * (end - start).reshape(-1, *(1,) * (len(sizes) - 1 - axis))
        return product

    def samples(self) -> Iterable[Sample]:
        for made in _pool_samples():
            attrs = dict(made.attrs)
            if set(attrs.pop("dilations")) == {1}:
                yield sample(*made.operands, note=made.note, larger=made.larger, **attrs)
                yield sample(*made.operands, note=f"{made.note}-inside", larger=made.larger, count_include_pad=False, **attrs)
        x = rng().standard_normal((1, 2, 4, 4)).astype(np.float32)
        yield sample(x, kernel=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1], divisor=3, note="divisor")


def adaptive_windows(size: int, out: int) -> list[tuple[int, int]]:
    """Where the windows of an adaptive pool begin and end along an axis."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


class Adaptive(Op):
    """The family: window i along an axis goes from ``floor(i * in / out)`` to ``ceil((i + 1) * in / out)``."""

    attributes = {"output_size": DIMS}
    traits = Trait.PURE | Trait.COARSE | Trait.IDENTITY
    reduce: Callable[..., Any]
    reduction: str
    pool: str

    def infer(self, call: Call) -> Sequence[Type]:
        x = spatial(call)
        if len(call["output_size"]) != len(x) - 2:
            raise call.error("output_size must have one size for each spatial axis", found=str(list(call["output_size"])))
        return (Tensor(call.dtype(0), (*x[:2], *call["output_size"])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        def function(x: Any) -> Any:
            # A window is a box, so mean and maximum may go axis by axis.
            for axis, out in enumerate(call["output_size"], 2):
                size = x.shape[axis]
                parts = [x[(slice(None),) * axis + (slice(*pair),)] for pair in adaptive_windows(size, out)]
                x = np.concatenate([self.reduce(part, axis=axis, keepdims=True) for part in parts], axis)
            return x

        return compute(function, *operands)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        """Whole axes are reduced, one pool does the others that divide, and the rest are cut into their windows."""
        (x,) = operands
        reduce = getattr(b, self.reduction)
        whole: list[int] = []
        kernel: list[int] = []
        cut: list[tuple[int, int, int]] = []
        for axis, (size, out) in enumerate(zip(call.shape(0)[2:], call["output_size"], strict=True), 2):
            quotient = dims.exact_quotient(size, out)
            kernel.append(quotient if isinstance(quotient, int) and out != 1 else 1)
            if out == 1 and size != 1:
                whole.append(axis)
            elif not isinstance(quotient, int):
                if not isinstance(size, int) or not isinstance(out, int):
                    return NotImplemented
                cut.append((axis, size, out))
        if whole:
            x = reduce(x, axes=whole, keepdims=True)
        if any(k > 1 for k in kernel):
            more = {"dilations": [1] * len(kernel)} if self.pool == "max_pool" else {}
            x = getattr(b, self.pool)(x, kernel=kernel, strides=kernel, pads=[0] * 2 * len(kernel), **more)
        for axis, size, out in cut:
            parts = [b.slice(x, axes=[axis], starts=[lo], ends=[hi], steps=[1]) for lo, hi in adaptive_windows(size, out)]
            x = b.concat([reduce(part, axes=[axis], keepdims=True) for part in parts], axis=axis)
        return x if x is not operands[0] else b.identity(x)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3, 6, 4)).astype(np.float32)
        yield sample(x, output_size=[1, 1], note="global")
        yield sample(x, output_size=[3, 2], note="divides")
        yield sample(x, output_size=[4, 3], note="uneven")
        yield sample(x, output_size=[1, 2], note="one-axis")
        yield sample(x, output_size=[6, 4], note="same")
        yield sample(x, output_size=[7, 5], note="larger")
        yield sample(x[:, :, 0], output_size=[2], note="1d")
        yield sample(x.reshape(2, 3, 3, 2, 4), output_size=[2, 1, 3], note="3d")
        yield sample(x.astype(np.float16), output_size=[1, 1], note="f16")


@register
class AdaptiveAvgPool(Adaptive):
    """The mean of windows that are chosen so that the result has the wanted spatial sizes.

    Window i along an axis goes from ``floor(i * in / out)`` to ``ceil((i + 1) * in / out)``.
    """

    name = "adaptive_avg_pool"
    operands = operands("x: float T")
    source = "torch.nn.functional.adaptive_avg_pool2d"
    reduce = staticmethod(np.mean)
    reduction = "reduce_mean"
    pool = "avg_pool"


@register
class AdaptiveMaxPool(Adaptive):
    """The greatest element of windows that are chosen so that the result has the wanted spatial sizes.

    Window i along an axis goes from ``floor(i * in / out)`` to ``ceil((i + 1) * in / out)``.
    """

    name = "adaptive_max_pool"
    operands = operands("x: real T")
    source = "torch.nn.functional.adaptive_max_pool2d"
    reduce = staticmethod(np.max)
    reduction = "reduce_max"
    pool = "max_pool"
