"""Convolutions that look at places which are data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isthmus.ir import dims
from isthmus.ir.attributes import INT, INTS
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.conv import offsets, spatial, vector, window_count
from isthmus.ir.ops.sampling import Axis, looked_up
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder


@register
class DeformConv(Op):
    """A convolution of ``x[N, C, H, W]`` with ``weight[O, C / groups, kernel...]`` whose elements are looked at elsewhere:
    each moved by ``offset[N, offset_groups * kernel * 2, windows...]``, y before x for each place of the kernel, linearly
    between the elements of x and 0 outside; and weighed by ``mask[N, offset_groups * kernel, windows...]``.

    The channels fall into `offset_groups` groups that are moved alike. The rest is as in `conv`.
    """

    name = "deform_conv"
    operands = operands("x: float T, weight: float T, offset: float T, mask?: float T, bias?: float T")
    attributes = {"strides": INTS, "pads": INTS, "dilations": INTS, "groups": INT(1), "offset_groups": INT(1)}
    traits = Trait.PURE | Trait.COARSE
    source = "torchvision.ops.deform_conv2d; ONNX DeformConv-22"

    def infer(self, call: Call) -> Sequence[Type]:
        x, weight, offset = spatial(call, "strides", "pads", "dilations"), call.shape(1), call.shape(2)
        if not len(x) == len(weight) == len(offset) == 4:
            raise call.error("x, weight and offset must have rank 4")
        groups, apart = call["groups"], call["offset_groups"]
        known = [(weight[0], groups), (x[1], groups), (x[1], apart)]
        if any(count < 1 or (isinstance(size, int) and size % count) for size, count in known):
            raise call.error(f"the channels do not divide into {groups} groups and {apart} that are moved")
        call.unify(x[1], weight[1] * groups, "the channels of x and weight")
        strides, pads, dilations = call["strides"], call["pads"], call["dilations"]
        windows = [
            window_count(call, x[i + 2], weight[i + 2], strides[i], pads[i], pads[i + 2], dilations[i]) for i in range(2)
        ]
        places = dims.product(weight[2:]) * apart
        for index, channels in ((2, places * 2), (3, places)):
            if call.types[index] is not None:
                wanted = (x[0], channels, *windows)
                if len(call.shape(index)) != 4:
                    raise call.error(f"{self.operand_name(index)} must have rank 4", found=str(call.types[index]))
                for size, other in zip(call.shape(index), wanted, strict=True):
                    call.unify(size, other, f"the sizes of {self.operand_name(index)} and of the result")
        if call.types[4] is not None:
            call.unify(vector(call, 4)[0], weight[0], "the sizes of bias and weight")
        return (Tensor(call.dtype(0), (x[0], weight[0], *windows)),)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, weight, offset, mask, bias = operands
        (batch, channels, *sizes), outputs = call.shape(0), call.shape(1)[0]
        groups, apart, dtype = call["groups"], call["offset_groups"], call.dtype(0)
        kernel = [size for size in call.shape(1)[2:] if isinstance(size, int)]
        if len(kernel) != 2:
            return NotImplemented
        windows, count = call.shape(2)[2:], math.prod(kernel)
        # Where each element of the kernel is looked at: [batch * apart, kernel, 2, windows]
        moved = b.reshape(offset, shape=[batch * apart, count, 2, *windows])
        inside = np.array(list(offsets(kernel))) * call["dilations"] - np.array(call["pads"][:2])
        moved = b.add(moved, b.constant(inside.reshape(1, count, 2, 1, 1), dtype))
        axes = []
        for axis, size in enumerate(sizes):
            first = b.cast(b.mul(b.arange(stop=windows[axis]), call["strides"][axis]), dtype=dtype)
            at = b.squeeze(b.slice(moved, axes=[2], starts=[axis], ends=[axis + 1], steps=[1]), axes=[2])
            at = b.add(at, b.unsqueeze(first, axes=[1]) if axis == 0 else first)
            axes.append(Axis(b, dtype, size).beside(b.reshape(at, shape=[batch * apart, count * dims.product(windows), 1])))
        x = b.reshape(x, shape=[batch * apart, channels // apart, *sizes])
        values = looked_up(b, x, axes, [count, *windows])
        values = b.reshape(values, shape=[batch, apart, channels // apart, count, *windows])
        if mask is not None:
            values = b.mul(values, b.unsqueeze(b.reshape(mask, shape=[batch, apart, count, *windows]), axes=[2]))
        values = b.reshape(values, shape=[batch, groups, channels // groups * count, dims.product(windows)])
        found = b.matmul(b.reshape(weight, shape=[groups, outputs // groups, channels // groups * count]), values)
        found = b.reshape(found, shape=[batch, outputs, *windows])
        return found if bias is None else b.add(found, b.unsqueeze(bias, axes=[1, 2]))

    def samples(self) -> Iterable[Sample]:
        def made(*more: str, note: str, kernel: tuple[int, int] = (3, 2), apart: int = 1, **attrs: Any) -> Sample:
            draws = rng()
            base: dict[str, Any] = {"strides": [1, 1], "pads": [1, 1, 1, 0], "dilations": [1, 1]} | attrs
            count, windows = kernel[0] * kernel[1], []
            for axis, size in enumerate((5, 6)):
                span = (kernel[axis] - 1) * base["dilations"][axis] + 1
                windows.append((size + base["pads"][axis] + base["pads"][axis + 2] - span) // base["strides"][axis] + 1)
            shapes = {
                "x": (2, 4, 5, 6), "weight": (6, 4 // base.get("groups", 1), *kernel),
                "offset": (2, apart * count * 2, *windows), "mask": (2, apart * count, *windows), "bias": (6,),
            }  # fmt: skip
            arrays = [
                (draws.standard_normal(shape) * 1.5).astype(np.float32) if name in ("x", "weight", "offset", *more) else None
                for name, shape in shapes.items()
            ]
            return sample(*arrays, note=note, symbolic=("x",), offset_groups=apart, **base)

        yield made(note="plain")
        yield made("mask", "bias", note="mask-and-bias")
        yield made("bias", note="groups", groups=2, apart=4, strides=[2, 1])
        yield made("mask", note="dilated", dilations=[1, 3], pads=[0, 2, 1, 3], apart=2)
