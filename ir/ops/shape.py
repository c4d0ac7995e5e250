"""The same elements under another shape, in another order, or repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import BOOL, DIM, DIMS, INT, INTS
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, floordiv, maximum, minimum, product
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.numerics import Elements, follow
from isthmus.ir.shape_values import elements
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

LAYOUT = Trait.PURE | Trait.LAYOUT


def _x(*shape: int) -> Array:
    return rng().standard_normal(shape).astype(np.float32)


def _same_count(call: Call, left: tuple[Dim, ...], right: tuple[Dim, ...]) -> None:
    if all(dim.__class__ is int for dim in left + right):
        if math.prod(left) != math.prod(right):  # type: ignore[arg-type]
            raise call.error("the shapes have different numbers of elements", expected=str(list(left)), found=str(list(right)))
        return
    rest = list(right)  # what both sides have needs no multiplying
    only = []
    for dim in left:
        if dim in rest:
            rest.remove(dim)
        else:
            only.append(dim)
    if only or rest:
        first, second = product(only), product(rest)
        if first != second:
            call.unify(product(left), product(right), "numbers of elements")


@register
class Reshape(Op):
    """The elements in row-major order under another shape; every size is given (no -1)."""

    name = "reshape"
    operands = operands("x: any T")
    attributes = {"shape": DIMS}
    traits = LAYOUT | Trait.IDEMPOTENT
    source = "numpy.reshape"

    def infer(self, call: Call) -> Sequence[Type]:
        x, shape = call.tensor(0), call["shape"]
        for dim in shape:
            if dim.__class__ is int and dim < 0:
                raise call.error(f"a size is negative: {list(shape)}")
        if x.shape != shape:
            _same_count(call, x.shape, shape)  # type: ignore[arg-type]
        return (Tensor(x.dtype, shape),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return operands[0].reshape(call["shape"])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return operands

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 6), shape=[3, 4])
        yield sample(_x(2, 3, 4), shape=[24], note="flatten")
        yield sample(_x(1, 1), shape=[], note="to-scalar")
        yield sample(np.int64(3), shape=[1, 1], note="from-scalar")
        yield sample(_x(0, 3), shape=[3, 0, 2], note="empty")
        yield sample(_x(2, 3).astype(ml_dtypes.bfloat16), shape=[2, 1, 3], note="bf16")


@register
class Squeeze(Op):
    """`x` without `axes`, each of which has size 1."""

    name = "squeeze"
    operands = operands("x: any T")
    attributes = {"axes": INTS}
    traits = LAYOUT
    source = "numpy.squeeze"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        axes = {call.axis(axis, len(shape)) for axis in call["axes"]}
        for axis in axes:
            if shape[axis].__class__ is not int or shape[axis] != 1:
                call.unify(shape[axis], 1, f"the size of the squeezed axis {axis} and 1")
        return (Tensor(x.dtype, tuple(dim for axis, dim in enumerate(shape) if axis not in axes)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.squeeze(operands[0], tuple(call["axes"]))

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return operands

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(1, 3, 1), axes=[0])
        yield sample(_x(1, 3, 1), axes=[0, -1], note="several")
        yield sample(_x(1), axes=[0], note="to-scalar")
        yield sample(np.zeros((0, 1), np.int64), axes=[1], note="empty")
        yield sample(_x(2, 3), axes=[], note="none")


@register
class Unsqueeze(Op):
    """`x` with axes of size 1 put in; `axes` are their places in the result."""

    name = "unsqueeze"
    operands = operands("x: any T")
    attributes = {"axes": INTS}
    traits = LAYOUT
    source = "numpy.expand_dims"

    def infer(self, call: Call) -> Sequence[Type]:
        x, axes = call.tensor(0), call["axes"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        rank = len(shape) + len(axes)
        new = {call.axis(axis, rank) for axis in axes}
        if len(new) != len(axes):
            raise call.error(f"axes {list(axes)} name an axis twice")
        old = iter(shape)
        return (Tensor(x.dtype, tuple([1 if axis in new else next(old) for axis in range(rank)])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.expand_dims(operands[0], tuple(call["axes"]))

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return operands

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 3), axes=[1])
        yield sample(_x(2, 3), axes=[0, -1], note="several")
        yield sample(np.float32(2), axes=[0, 1], note="scalar")
        yield sample(_x(0), axes=[1], note="empty")


@register
class Permute(Op):
    """The axes in another order: axis `i` of the result is axis ``perm[i]`` of `x`."""

    name = "permute"
    operands = operands("x: any T")
    attributes = {"perm": INTS}
    source = "numpy.transpose"

    def infer(self, call: Call) -> Sequence[Type]:
        x, perm = call.tensor(0), call["perm"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        if len(perm) != len(shape) or sorted(perm) != list(range(len(shape))):
            raise call.error(f"{list(perm)} is not a permutation of {len(shape)} axes")
        return (Tensor(x.dtype, tuple([shape[axis] for axis in perm])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return operands[0].transpose(call["perm"])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return follow(call, lambda x: x.transpose(call["perm"]), operands)

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 3), perm=[1, 0])
        yield sample(_x(2, 3, 4), perm=[2, 0, 1], note="cycle")
        yield sample(np.int64(2), perm=[], note="scalar")
        yield sample(_x(2, 0, 3) > 0, perm=[1, 2, 0], note="empty-bool")


@register
class Expand(Op):
    """`x` broadcast to a shape: new axes in front, and sizes of 1 repeated."""

    name = "expand"
    operands = operands("x: any T")
    attributes = {"shape": DIMS}
    traits = Trait.PURE | Trait.IDEMPOTENT
    source = "numpy.broadcast_to"

    def infer(self, call: Call) -> Sequence[Type]:
        x, target = call.tensor(0), call["shape"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        if len(shape) > len(target):
            raise call.error(f"cannot be expanded to {list(target)}")
        for dim, wanted in zip(shape, target[len(target) - len(shape) :], strict=True):
            if dim is not wanted and not (dim.__class__ is int and dim == 1):
                call.unify(dim, wanted, "expanded sizes")
        return (Tensor(x.dtype, target),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.broadcast_to(operands[0], call["shape"])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        shape = call["shape"]
        if any(dim.__class__ is not int for dim in shape):
            return None
        return follow(call, lambda x: np.broadcast_to(x, shape), operands)

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 1, 3), shape=[2, 4, 3])
        yield sample(_x(3), shape=[2, 3], note="new-axis")
        yield sample(np.float32(1.5), shape=[2, 3], note="scalar")
        yield sample(_x(1, 3), shape=[0, 3], note="empty")
        yield sample(np.arange(2), shape=[2], note="same-i64")


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
        return follow(call, lambda *xs: np.concatenate(xs, call["axis"]), operands)

    def samples(self) -> Iterable[Sample]:
        yield sample([_x(2, 3), _x(4, 3)], axis=0)
        yield sample([_x(2, 3), _x(2, 1), _x(2, 2)], axis=-1, note="negative")
        yield sample([np.arange(3)], axis=0, note="one-i64")
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
        yield sample(np.arange(3), axis=0, sizes=[3], note="one-i64")
        yield sample(_x(2, 3), axis=1, sizes=[0, 3], note="empty-part")


@register
class Tile(Op):
    """`x` repeated along each of its axes, as often as `repeats` says."""

    name = "tile"
    operands = operands("x: any T")
    attributes = {"repeats": DIMS}
    traits = Trait.PURE | Trait.COARSE
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
            split = 0 if size == 0 else (-shift) % size
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
    operands = operands("x: any T")
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


@register
class DynamicReshape(Op):
    """`reshape` to a shape that is data; one size may be -1 and stands for what is left.

    The result's sizes are new symbols, or what is known of them.
    """

    name = "dynamic_reshape"
    operands = operands("x: any T, shape: i64")
    source = "numpy.reshape"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        shape = _shape_operand(call)
        if shape is None:
            return (Tensor(x.dtype, None),)
        holes = [axis for axis, dim in enumerate(shape) if dim is None or (dim.__class__ is int and dim == -1)]
        if holes and shape.count(None) == 0:
            rest = [dim for axis, dim in enumerate(shape) if axis not in holes]
            if len(holes) > 1:
                raise call.error("more than one size is -1")
            known = product(rest)  # type: ignore[arg-type]
            shape[holes[0]] = None if known.__class__ is int and known == 0 else floordiv(product(x.shape), known)  # type: ignore[arg-type]
        return (Tensor(x.dtype, tuple(call.fresh() if dim is None else dim for dim in shape)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return operands[0].reshape(tuple(operands[1].tolist()))

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 6), np.array([3, 4]))
        yield sample(_x(2, 6), np.array([3, -1, 2]), note="rest")
        yield sample(_x(1), np.zeros(0, np.int64), note="to-scalar")


@register
class DynamicExpand(Op):
    """`expand` to a shape that is data. The result's sizes are new symbols, or what is known of them."""

    name = "dynamic_expand"
    operands = operands("x: any T, shape: i64")
    source = "numpy.broadcast_to"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        shape = _shape_operand(call)
        if shape is None:
            return (Tensor(x.dtype, None),)
        own: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        if len(own) > len(shape):
            raise call.error(f"cannot be expanded to {len(shape)} axes")
        aligned = [1] * (len(shape) - len(own)) + list(own)
        result = []
        for dim, wanted in zip(aligned, shape, strict=True):
            settled = bounds(dim)[0] > 1  # only a size of 1 is repeated
            if wanted is None or settled:
                result.append(dim if settled else call.fresh())
            else:
                result.append(wanted)
        return (Tensor(x.dtype, tuple(result)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.broadcast_to(operands[0], tuple(operands[1].tolist()))

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 1), np.array([3, 2, 4]))
        yield sample(np.float32(2), np.array([2, 2]), note="scalar")
        yield sample(_x(1), np.array([0]), note="empty")


def _shape_operand(call: Call) -> list[Dim | None] | None:
    """The sizes in operand 1: those not known are None; None altogether where not even their number is known."""
    shape = call.shape(1)
    if len(shape) != 1:
        raise call.error("the shape must have one axis")
    if shape[0].__class__ is not int:
        return None
    known = elements(call.values[1]) if call.values else None
    return [None] * shape[0] if known is None else list(known)  # type: ignore[operator]
