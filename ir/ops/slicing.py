"""Parts of a tensor, a tensor with a part replaced, and a tensor with a border around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import DIMS, INTS, choice
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, ceildiv, maximum, minimum
from isthmus.ir.graph import Value
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.numerics import Elements, follow
from isthmus.ir.shape_values import elements
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

_SLICE = {"axes": INTS, "starts": DIMS, "ends": DIMS, "steps": INTS}


def _x(*shape: int) -> Array:
    return rng().standard_normal(shape).astype(np.float32)


def _sliced(call: Call, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of the slice that the attributes say."""
    axes, starts, ends, steps = call["axes"], call["starts"], call["ends"], call["steps"]
    if not len(axes) == len(starts) == len(ends) == len(steps):
        raise call.error("axes, starts, ends and steps must have the same length")
    if len(set(axes)) != len(axes):
        raise call.error(f"axes {list(axes)} name an axis twice")
    result = list(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = call.axis(axis, len(shape))
        size = shape[axis]
        if step < 1:
            raise call.error(f"the step {step} is not positive")
        for low, high in ((0, start), (start, end), (end, size)):
            if low.__class__ is int and high.__class__ is int and low > high:
                raise call.error(f"axis {axis} has no part {start}:{end}", expected=f"0 <= start <= end <= {size}")
        length = end - start
        result[axis] = length if step == 1 else ceildiv(length, step)
    return tuple(result)


def _index(call: Call, rank: int) -> tuple[slice, ...]:
    index = [slice(None)] * rank
    for axis, start, end, step in zip(call["axes"], call["starts"], call["ends"], call["steps"], strict=True):
        index[axis] = slice(start, end, step)
    return tuple(index)


@register
class Slice(Op):
    """Every `steps`-th element from `starts` up to, not including, `ends`, along `axes`.

    ``0 <= start <= end <= size`` and ``step >= 1`` hold for each: frontends bring negative and large bounds into this form.
    """

    name = "slice"
    operands = operands("x: any T")
    attributes = _SLICE
    traits = Trait.PURE | Trait.IDENTITY
    source = "numpy basic slicing"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        return (Tensor(x.dtype, _sliced(call, x.shape)),)  # type: ignore[arg-type]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return operands[0][_index(call, operands[0].ndim)]

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        if any(dim.__class__ is not int for dim in call["starts"] + call["ends"]):
            return None
        return follow(call, lambda x: x[_index(call, x.ndim)], operands)

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(4, 5), axes=[1], starts=[1], ends=[4], steps=[1], larger=True)
        yield sample(_x(4, 5), axes=[0, -1], starts=[1, 0], ends=[4, 5], steps=[2, 3], note="steps", larger=True)
        yield sample(_x(4, 5), axes=[0], starts=[2], ends=[2], steps=[1], note="empty", larger=True)
        yield sample(_x(0, 5) > 0, axes=[1], starts=[1], ends=[2], steps=[1], note="of-empty-bool", larger=True)
        yield sample(np.arange(5), axes=[0], starts=[1], ends=[5], steps=[2], note="i64", larger=True)
        yield sample(np.arange(5), axes=[], starts=[], ends=[], steps=[], note="nothing-i64")


@register
class DynamicSlice(Op):
    """`slice` with bounds that are data, one for each of `axes`, read as Python reads them but in one case.

    Negative bounds count from the end, those beyond the ends are brought back, a negative step walks backwards. Then an end
    below ``-size`` is in front of the first element, and a start there is the first element (Python begins in front of it).
    The result's sizes are new symbols, or what is known of them.
    """

    name = "dynamic_slice"
    operands = operands("x: any T, starts: i64, ends: i64")
    attributes = {"axes": INTS, "steps": INTS}
    source = "ONNX Slice-13"

    def infer(self, call: Call) -> Sequence[Type]:
        x, axes, steps = call.tensor(0), call["axes"], call["steps"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        if len(axes) != len(steps) or 0 in steps:
            raise call.error("needs one step an axis, none of them 0")
        known: list[Elements] = [None, None]
        for index in (1, 2):
            bound = call.shape(index)
            if len(bound) != 1:
                raise call.error(f"{self.operand_name(index)} must have one axis")
            call.unify(bound[0], len(axes), f"the lengths of {self.operand_name(index)} and axes")
            known[index - 1] = elements(call.values[index]) if call.values else None
        result = list(shape)
        for place, (axis, step) in enumerate(zip(axes, steps, strict=True)):
            axis = call.axis(axis, len(shape))
            size = shape[axis]
            start, end = (None if each is None else clamped(each[place], size) for each in known)
            if start is None or end is None or step < 0:
                result[axis] = call.fresh("u", 0, bounds(size)[1])
            else:
                result[axis] = ceildiv(maximum(0, end - start), step)
        return (Tensor(x.dtype, tuple(result)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, starts, ends = operands
        index = [slice(None)] * x.ndim
        for axis, start, end, step in zip(call["axes"], starts.tolist(), ends.tolist(), call["steps"], strict=True):
            index[axis] = slice(start if step > 0 else max(start, -x.shape[axis]), end, step)
        return x[tuple(index)]

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(4, 5), np.array([1]), np.array([3]), axes=[1], steps=[1])
        yield sample(_x(4, 5), np.array([-3, 9]), np.array([99, -99]), axes=[0, 1], steps=[2, -2], note="python")
        yield sample(_x(4, 5), np.array([3]), np.array([1]), axes=[0], steps=[1], note="empty")
        yield sample(_x(4, 5), np.array([-9, -9]), np.array([-99, 9]), axes=[0, 1], steps=[-1, 2], note="from-before")


FARTHEST: Final = (1 << 63) - 1
"""Says "to the end", whatever the size."""


def clamped(bound: Dim, size: Dim) -> Dim | None:
    """A bound as Python reads it, between 0 and the size; None where its sign is not known."""
    lo, hi = bounds(bound)
    if lo == FARTHEST:
        return size
    if lo >= 0:
        return minimum(bound, size)
    return maximum(0, bound + size) if hi < 0 else None


@register
class SliceUpdate(Op):
    """`x` with the part that ``slice`` with the same attributes takes replaced by `update`, which has just its shape."""

    name = "slice_update"
    operands = operands("x: any T, update: any T")
    attributes = _SLICE
    traits = Trait.PURE | Trait.COARSE
    source = "numpy assignment to a basic slice"

    def infer(self, call: Call) -> Sequence[Type]:
        x, update = call.tensor(0), call.shape(1)
        part = _sliced(call, x.shape)  # type: ignore[arg-type]
        if len(update) != len(part):
            raise call.error("the update has another rank", expected=str(list(part)), found=str(list(update)))
        for wanted, dim in zip(part, update, strict=True):
            call.unify(wanted, dim, "sizes of the slice and the update")
        return (x,)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        result = operands[0].copy()
        result[_index(call, result.ndim)] = operands[1]
        return result

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        parts = list(zip(call["axes"], call["starts"], call["ends"], call["steps"], strict=True))
        return _updated(b, operands[0], operands[1], parts)

    def samples(self) -> Iterable[Sample]:
        x = _x(4, 5)
        yield sample(x, -x[:, 1:3], axes=[1], starts=[1], ends=[3], steps=[1], larger=True)
        yield sample(x, -x[1:4:2, 0:5:3], axes=[0, 1], starts=[1, 0], ends=[4, 5], steps=[2, 3], note="steps", larger=True)
        yield sample(x, -x[:2, 3:], axes=[0, 1], starts=[0, 3], ends=[2, 5], steps=[1, 1], note="corner", larger=True)
        yield sample(x, x[:, :0], axes=[1], starts=[2], ends=[2], steps=[1], note="nothing", larger=True)
        yield sample(x, -x, axes=[0], starts=[0], ends=[4], steps=[1], note="everything", larger=True)
        yield sample(np.arange(4), np.array([9]), axes=[0], starts=[3], ends=[4], steps=[1], note="last-i64", larger=True)


def _updated(b: Builder, x: Value, update: Value, parts: list[tuple[int, Dim, Dim, int]]) -> Value:
    """Axis by axis: the part along the first axis is cut out, updated along the others, and put back."""
    result: Value
    if not parts:
        result = b.identity(update)
        return result
    (axis, start, end, step), rest = parts[0], parts[1:]
    shape: tuple[Dim, ...] = x.tensor.shape  # type: ignore[assignment]
    size = shape[axis]
    if rest:
        update = _updated(b, b.slice(x, axes=[axis], starts=[start], ends=[end], steps=[step]), update, rest)
    if step != 1:
        places = b.arange(start=start, stop=end, step=step)
        places = b.unsqueeze(places, axes=[other for other in range(len(shape)) if other != axis % len(shape)])
        places = b.expand(places, shape=update.tensor.shape)
        result = b.scatter_elements(x, places, update, axis=axis)
        return result
    pieces = [update]
    if start.__class__ is not int or start != 0:
        pieces.insert(0, b.slice(x, axes=[axis], starts=[0], ends=[start], steps=[1]))
    if end != size:
        pieces.append(b.slice(x, axes=[axis], starts=[end], ends=[size], steps=[1]))
    result = b.concat(pieces, axis=axis) if len(pieces) > 1 else b.identity(update)
    return result


@register
class Pad(Op):
    """`x` with `before` and `after` elements added to each axis.

    They are `value` (0 when absent), or with `mode` reflect the mirrored inside without the edge, with edge the edge,
    with wrap the other end.
    """

    name = "pad"
    operands = operands("x: number T, value?: number T")
    attributes = {"before": DIMS, "after": DIMS, "mode": choice("constant", "reflect", "edge", "wrap")("constant")}
    traits = Trait.PURE | Trait.IDENTITY
    source = "numpy.pad"

    def infer(self, call: Call) -> Sequence[Type]:
        x, before, after = call.tensor(0), call["before"], call["after"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        if not len(before) == len(after) == len(shape):
            raise call.error("needs one pad an axis on either side")
        if any(dim.__class__ is int and dim < 0 for dim in before + after):
            raise call.error(f"a pad is negative: {list(before)}, {list(after)}")
        if call.types[1] is not None and call.shape(1) != ():
            raise call.error("the value must be a scalar", found=str(call.types[1]))
        return (Tensor(x.dtype, tuple([low + dim + high for low, dim, high in zip(before, shape, after, strict=True)])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, value = operands
        pads = list(zip(call["before"], call["after"], strict=True))
        if call["mode"] == "constant":
            shape = [low + size + high for (low, high), size in zip(pads, x.shape, strict=True)]
            result = np.full(shape, np.zeros((), x.dtype) if value is None else value, x.dtype)
            result[tuple(slice(low, low + size) for (low, _), size in zip(pads, x.shape, strict=True))] = x
            return result
        for axis, pad in enumerate(pads):
            x = np.take(x, np.pad(np.arange(x.shape[axis]), pad, call["mode"]), axis)
        return x

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 3), None, before=[1, 0], after=[0, 2])
        yield sample(_x(2, 3), np.float32(7), before=[0, 1], after=[1, 1], note="value")
        for mode in ("reflect", "edge", "wrap"):
            yield sample(_x(2, 4), None, before=[0, 2], after=[1, 3], mode=mode, note=mode)
        yield sample(np.arange(3), np.int64(-1), before=[1], after=[1], note="i64")
        yield sample(_x(2) > 0, None, before=[1], after=[1], note="bool")
        yield sample(_x(2).astype(ml_dtypes.bfloat16), None, before=[1], after=[1], note="bf16")
        yield sample(_x(0, 2), None, before=[1, 0], after=[1, 0], note="empty")
        yield sample(np.float32(2), None, before=[], after=[], note="scalar")
