"""Tensors joined, taken apart, repeated and turned round along their axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import BOOL, DIM, DIMS, INT, INTS, choice
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, maximum, minimum, mod
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.numerics import FOLLOWED, MAX_FOLLOWED, Elements, follow
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array


def _x(*shape: int) -> Array:
    return rng().standard_normal(shape).astype(np.float32)


@register
class Concat(Op):
    """Tensors one behind the other along an axis; their other sizes agree."""

    name = "concat"
    operands = operands("xs*: any T")
    attributes = {"axis": INT}
    source = "numpy.concatenate"

    def infer(self, call: Call) -> Sequence[Type]:
        if not call.types:
            raise call.error("needs at least one operand")
        first = call.tensor(0)
        result = list(first.shape)  # type: ignore[arg-type]
        axis = call.axis(call["axis"], len(result))
        for index in range(1, len(call.types)):
            shape = call.shape(index)
            if len(shape) != len(result):
                raise call.error(f"operand {index} has another rank")
            for place, dim in enumerate(shape):
                if place == axis:
                    result[axis] = result[axis] + dim
                elif dim is not result[place]:
                    result[place] = call.unify(result[place], dim, f"sizes of axis {place}")
        return (Tensor(first.dtype, tuple(result)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.concatenate(operands[0], call["axis"])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        if any(known is None for known in operands):
            return None
        if len(call.shape(0)) == 1 and call.dtype(0) in FOLLOWED:
            joined = tuple(chain.from_iterable(operands))  # type: ignore[arg-type]
            return (joined if len(joined) <= MAX_FOLLOWED else None,)
        return follow(call, lambda *xs: np.concatenate(xs, call["axis"]), operands)

    def samples(self) -> Iterable[Sample]:
        yield sample([_x(2, 3), _x(4, 3)], axis=0)
        yield sample([_x(2, 3), _x(2, 1), _x(2, 2)], axis=-1, note="negative")
        yield sample([np.arange(3)], axis=0, note="one-i64")
        yield sample([np.arange(3), -np.arange(2)], axis=0, note="i64")
        yield sample([_x(2, 0), _x(2, 3)], axis=1, note="empty-part")
        yield sample([_x(2) > 0, _x(3) > 0], axis=0, note="bool")
        yield sample([_x(2).astype(ml_dtypes.bfloat16)] * 2, axis=0, note="bf16")


@register
class Split(Op):
    """Parts along an axis, one behind the other; `sizes` add up to the axis."""

    name = "split"
    operands = operands("x: any T")
    attributes = {"axis": INT, "sizes": DIMS}
    source = "torch.split"

    def infer(self, call: Call) -> Sequence[Type]:
        x, sizes = call.tensor(0), call["sizes"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        axis = call.axis(call["axis"], len(shape))
        total: Dim = 0
        for size in sizes:
            if isinstance(size, int) and size < 0:
                raise call.error(f"a size is negative: {list(sizes)}")
            total = total + size
        call.unify(shape[axis], total, "the size of the axis and the sum of the parts")
        before, after = shape[:axis], shape[axis + 1 :]
        return [Tensor(x.dtype, (*before, size, *after)) for size in sizes]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        axis, sizes = call["axis"], call["sizes"]
        if sum(sizes) != operands[0].shape[axis]:
            raise ValueError(f"the parts {list(sizes)} do not add up to {operands[0].shape[axis]}")
        return tuple(np.split(operands[0], np.cumsum(sizes)[:-1], axis)) if sizes else ()

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        parts = []
        start: Dim = 0
        for size in call["sizes"]:
            end = start + size
            parts.append(b.slice(operands[0], axes=[call["axis"]], starts=[start], ends=[end], steps=[1]))
            start = end
        return tuple(parts)

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        (known,) = operands
        sizes = call["sizes"]
        if known is None or len(call.shape(0)) != 1 or any(size.__class__ is not int for size in sizes):
            return None
        ends = np.cumsum(sizes).tolist()
        return [known[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 6), axis=1, sizes=[1, 2, 3])
        yield sample(_x(4, 2), axis=-2, sizes=[2, 2], note="negative")
        yield sample(np.arange(3), axis=0, sizes=[3], note="one")
        yield sample(np.arange(5), axis=0, sizes=[2, 3], note="i64")
        yield sample(_x(2, 3), axis=1, sizes=[0, 3], note="empty-part")


@register
class Tile(Op):
    """`x` repeated along each of its axes, as often as `repeats` says."""

    name = "tile"
    operands = operands("x: any T")
    attributes = {"repeats": DIMS}
    traits = Trait.PURE | Trait.COARSE | Trait.IDENTITY
    source = "numpy.tile"

    def infer(self, call: Call) -> Sequence[Type]:
        x, repeats = call.tensor(0), call["repeats"]
        if len(repeats) != len(x.shape):  # type: ignore[arg-type]
            raise call.error("needs one repeat an axis", found=str(list(repeats)))
        if any(isinstance(repeat, int) and repeat < 0 for repeat in repeats):
            raise call.error(f"a repeat is negative: {list(repeats)}")
        return (Tensor(x.dtype, tuple([dim * repeat for dim, repeat in zip(x.shape, repeats, strict=True)])),)  # type: ignore[arg-type]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.tile(operands[0], call["repeats"])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        if any(repeat.__class__ is not int for repeat in call["repeats"]):
            return None
        return follow(call, lambda x: np.tile(x, call["repeats"]), operands)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        shape, repeats = call.shape(0), call["repeats"]
        axes = [axis for axis, repeat in enumerate(repeats) if repeat != 1]
        apart: list[Dim] = []
        new = []
        for axis, dim in enumerate(shape):
            if axis in axes:
                new.append(len(apart))
                apart.append(repeats[axis])
            apart.append(dim)
        if not axes:
            return b.identity(operands[0])
        wide = b.expand(b.unsqueeze(operands[0], axes=new), shape=apart)
        return b.reshape(wide, shape=[dim * repeat for dim, repeat in zip(shape, repeats, strict=True)])

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 3), repeats=[2, 1])
        yield sample(_x(2, 3), repeats=[3, 2], note="both")
        yield sample(_x(2), repeats=[0], note="empty")
        yield sample(np.int64(2), repeats=[], note="scalar")


@register
class Flip(Op):
    """The elements along `axes` in reverse."""

    name = "flip"
    operands = operands("x: any T")
    attributes = {"axes": INTS}
    traits = Trait.PURE | Trait.INVOLUTION
    source = "numpy.flip"

    def infer(self, call: Call) -> Sequence[Type]:
        for axis in call["axes"]:
            call.axis(axis, len(call.shape(0)))
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.flip(operands[0], tuple(call["axes"]))

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return follow(call, lambda x: np.flip(x, tuple(call["axes"])), operands)

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 3), axes=[1])
        yield sample(_x(2, 3), axes=[0, -1], note="both")
        yield sample(np.arange(3), axes=[0], note="i64")
        yield sample(_x(2, 0), axes=[1], note="empty")


@register
class Roll(Op):
    """The elements moved along `axes` by `shifts`; what leaves at one end comes in at the other."""

    name = "roll"
    operands = operands("x: any T")
    attributes = {"shifts": DIMS, "axes": INTS}
    traits = Trait.PURE | Trait.COARSE
    source = "numpy.roll"

    def infer(self, call: Call) -> Sequence[Type]:
        if len(call["shifts"]) != len(call["axes"]):
            raise call.error("needs one shift an axis")
        for axis in call["axes"]:
            call.axis(axis, len(call.shape(0)))
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.roll(operands[0], call["shifts"], call["axes"])

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        value = operands[0]
        for shift, axis in zip(call["shifts"], call["axes"], strict=True):
            size = call.shape(0)[axis]
            split = mod(-shift, maximum(size, 1))  # nothing is rolled where there is nothing
            if split.__class__ is int and split == 0:
                continue
            tail = b.slice(value, axes=[axis], starts=[split], ends=[size], steps=[1])
            head = b.slice(value, axes=[axis], starts=[0], ends=[split], steps=[1])
            value = b.concat([tail, head], axis=axis)
        return value if value is not operands[0] else b.identity(value)

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 5), shifts=[2], axes=[1])
        yield sample(_x(2, 5), shifts=[-1, 7], axes=[0, -1], note="both")
        yield sample(_x(2, 3), shifts=[0], axes=[0], note="not-at-all")
        yield sample(np.arange(4), shifts=[1, 1], axes=[0, 0], note="twice-i64")
        yield sample(_x(2, 0), shifts=[1], axes=[1], note="empty")


class Blocks(Op):
    """Base of the ops between channels and blocks of places."""

    operands = operands("x: any T")
    attributes = {"block": INT, "order": choice("crd", "dcr")("crd")}
    traits = Trait.PURE | Trait.COARSE

    def steps(self, call: Call) -> tuple[list[Dim], list[int], list[Dim]]:
        """The shape with every axis by itself, the order that they come in, and the shape in the end."""
        raise NotImplementedError

    def fits(self, call: Call) -> None:
        """Holds what the blocks must divide against them."""
        raise NotImplementedError

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        if len(call.shape(0)) < 3 or call["block"] < 1:
            raise call.error("needs channels, two axes of places and a positive block", found=str(x))
        self.fits(call)
        return (Tensor(x.dtype, tuple(self.steps(call)[2])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        apart, perm, whole = self.steps(call)
        return operands[0].reshape(apart).transpose(perm).reshape(whole)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        apart, perm, whole = self.steps(call)
        return b.reshape(b.permute(b.reshape(operands[0], shape=apart), perm=perm), shape=whole)


@register
class DepthToSpace(Blocks):
    """Channels become blocks of places: ``[..., C * b * b, H, W]`` becomes ``[..., C, H * b, W * b]``.

    The channels are read as ``[C, b, b]`` in the order `crd`, as ``[b, b, C]`` in the order `dcr`.
    """

    name = "depth_to_space"
    source = "torch.pixel_shuffle; ONNX DepthToSpace-13"

    def steps(self, call: Call) -> tuple[list[Dim], list[int], list[Dim]]:
        *lead, channels, height, width = call.shape(0)
        block, n = call["block"], len(lead)
        kept = channels // (block * block)
        crd = call["order"] == "crd"
        parts: list[Dim] = [kept, block, block] if crd else [block, block, kept]
        places = (n, n + 3, n + 1, n + 4, n + 2) if crd else (n + 2, n + 3, n, n + 4, n + 1)
        return [*lead, *parts, height, width], [*range(n), *places], [*lead, kept, height * block, width * block]

    def fits(self, call: Call) -> None:
        channels, squares = call.shape(0)[-3], call["block"] ** 2
        call.unify(channels // squares * squares, channels, f"the channels and a multiple of {squares}")

    def samples(self) -> Iterable[Sample]:
        x = _x(2, 8, 3, 5)
        yield sample(x, block=2, symbolic=False)
        yield sample(x, block=2, order="dcr", note="dcr", symbolic=False)
        yield sample(x[0], block=1, note="3d", symbolic=False)
        yield sample(np.arange(36).reshape(1, 9, 2, 2), block=3, note="i64", symbolic=False)


@register
class SpaceToDepth(Blocks):
    """Blocks of places become channels: ``[..., C, H * b, W * b]`` becomes ``[..., C * b * b, H, W]``.

    The channels are written as ``[C, b, b]`` in the order `crd`, as ``[b, b, C]`` in the order `dcr`.
    """

    name = "space_to_depth"
    source = "torch.pixel_unshuffle; ONNX SpaceToDepth-28"

    def steps(self, call: Call) -> tuple[list[Dim], list[int], list[Dim]]:
        *lead, channels, height, width = call.shape(0)
        block, n = call["block"], len(lead)
        rows, columns = height // block, width // block
        places = (n, n + 2, n + 4) if call["order"] == "crd" else (n + 2, n + 4, n)
        apart = [*lead, channels, rows, block, columns, block]
        return apart, [*range(n), *places, n + 1, n + 3], [*lead, channels * block * block, rows, columns]

    def fits(self, call: Call) -> None:
        block = call["block"]
        for dim in call.shape(0)[-2:]:
            call.unify(dim // block * block, dim, f"an axis of places and a multiple of {block}")

    def samples(self) -> Iterable[Sample]:
        x = _x(2, 3, 4, 6)
        yield sample(x, block=2, symbolic=False)
        yield sample(x, block=2, order="dcr", note="dcr", symbolic=False)
        yield sample(x[0], block=2, note="3d", symbolic=False)
        yield sample(np.arange(36).reshape(1, 1, 6, 6), block=3, order="dcr", note="i64", symbolic=False)


@register
class Diagonal(Op):
    """The elements ``x[..., i, i + offset]`` of the two axes, as a last axis instead of them."""

    name = "diagonal"
    operands = operands("x: any T")
    attributes = {"offset": INT(0), "axis1": INT(0), "axis2": INT(1)}
    source = "numpy.diagonal"

    def infer(self, call: Call) -> Sequence[Type]:
        x, offset = call.tensor(0), call["offset"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        first, second = (call.axis(call[name], len(shape)) for name in ("axis1", "axis2"))
        if first == second:
            raise call.error("needs two axes")
        rest = tuple(dim for axis, dim in enumerate(shape) if axis not in (first, second))
        length = maximum(0, minimum(shape[first] + min(offset, 0), shape[second] - max(offset, 0)))
        return (Tensor(x.dtype, (*rest, length)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.diagonal(operands[0], call["offset"], call["axis1"], call["axis2"])

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(3, 4))
        yield sample(_x(2, 3, 4), offset=-1, axis1=-2, axis2=-1, note="below")
        yield sample(_x(3, 4, 2), offset=2, note="above")
        yield sample(np.arange(6).reshape(2, 3), offset=5, note="outside-i64")


@register
class Trilu(Op):
    """The upper or lower triangle of the last two axes; the rest is zero.

    `upper` keeps the elements with ``column - row >= diagonal``, its opposite those with ``column - row <= diagonal``.
    """

    name = "trilu"
    operands = operands("x: number T")
    attributes = {"upper": BOOL, "diagonal": DIM(0)}
    traits = Trait.PURE | Trait.COARSE | Trait.IDEMPOTENT
    source = "numpy.triu, numpy.tril"

    def infer(self, call: Call) -> Sequence[Type]:
        if len(call.shape(0)) < 2:
            raise call.error("needs two axes")
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x = operands[0]
        distance = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
        keep = distance >= call["diagonal"] if call["upper"] else distance <= call["diagonal"]
        return np.where(keep, x, np.zeros((), x.dtype))

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        rows, columns = call.shape(0)[-2:]
        row = b.unsqueeze(b.arange(start=0, stop=rows), axes=[1])
        # The diagonal goes into the columns' numbers: column - diagonal is compared with the row.
        column = b.arange(start=-call["diagonal"], stop=columns - call["diagonal"])
        keep = b.ge(column, row) if call["upper"] else b.le(column, row)
        return b.where(keep, operands[0], b.constant(0, call.dtype(0)))

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(3, 4), upper=True)
        yield sample(_x(2, 4, 3), upper=False, diagonal=-1, note="lower")
        yield sample(np.arange(9).reshape(3, 3), upper=True, diagonal=2, note="i64")
        yield sample(_x(3, 3) < 9, upper=False, note="bool")
        yield sample(_x(0, 3), upper=True, note="empty")
