"""Lists of tensors and values that may be absent.

Content: a sequence is a Python list of arrays; an optional is its content, or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from isthmus.ir.attributes import BOOL, INT, TYPE
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import bool_, f32, i64
from isthmus.ir.op import Call, Op, Sample, Typed, operands, register, rng, sample
from isthmus.ir.ops.control import merge
from isthmus.ir.types import Optional, Tensor, Type
from isthmus.ir.types import Sequence as SequenceType


def element(call: Call) -> Type:
    """The type of the elements of operand 0.

    Raises:
        InferError: it is not a sequence.
    """
    outer = call.types[0]
    if not isinstance(outer, SequenceType):
        raise call.error(f"operand {call.op.operand_name(0)} must be a sequence", found=str(outer))
    return outer.element


def taken_out(call: Call, type: Type) -> Type:
    """The type of something taken out: its open dims become new symbols."""
    if not isinstance(type, Tensor) or type.shape is None:
        return type
    return Tensor(type.dtype, tuple(call.fresh() if dim is None else dim for dim in type.shape))


def _place(call: Call, index: int) -> None:
    if call.shape(index) != ():
        raise call.error("index must be a scalar", found=str(call.types[index]))


def _matrices() -> list[Any]:
    draws = rng()
    return [draws.standard_normal((size, 3)).astype(np.float32) for size in (2, 2, 2)]


@register
class SequenceConstruct(Op):
    """A list of the operands: one or more tensors of one element type."""

    name = "sequence_construct"
    operands = operands("xs*: any T")
    source = "ONNX SequenceConstruct-11"

    def infer(self, call: Call) -> Sequence[Type]:
        types = [type for type in call.types if type is not None]
        if not types:
            raise call.error("needs at least one tensor; sequence_empty makes an empty list")
        joint = types[0]
        for type in types[1:]:
            joint = merge(call, joint, type, "the element", nested=True)
        return (SequenceType(joint),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return list(operands[0])

    def samples(self) -> Iterable[Sample]:
        yield sample(_matrices())
        yield sample([np.zeros((2, 3), np.float32), np.ones((4, 3), np.float32)], note="sizes-differ")
        yield sample([np.zeros(2), np.zeros((2, 2))], note="ranks-differ")


@register
class SequenceEmpty(Op):
    """A list of nothing, for elements of `type`."""

    name = "sequence_empty"
    attributes = {"type": TYPE}
    source = "ONNX SequenceEmpty-11"

    def infer(self, call: Call) -> Sequence[Type]:
        return (SequenceType(call["type"]),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return []

    def samples(self) -> Iterable[Sample]:
        yield sample(type=Tensor(f32, (2, 3)))


@register
class SequenceAt(Op):
    """The element at ``index``, counted from the end when negative."""

    name = "sequence_at"
    operands = operands("seq: type, index: index")
    source = "ONNX SequenceAt-11"

    def infer(self, call: Call) -> Sequence[Type]:
        _place(call, 1)
        return (taken_out(call, element(call)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        items, index = operands
        return items[int(index)]

    def samples(self) -> Iterable[Sample]:
        yield sample(_matrices(), np.int64(1))
        yield sample(_matrices(), np.int32(-1), note="from-the-end")
        yield sample([np.zeros((2, 3), np.float32), np.ones((4, 3), np.float32)], np.int64(1), note="sizes-differ")


@register
class SequenceInsert(Op):
    """The list with ``x`` put in front of position ``index`` (of the list as it was), or at the end."""

    name = "sequence_insert"
    operands = operands("seq: type, x: any, index?: index")
    source = "ONNX SequenceInsert-11"

    def infer(self, call: Call) -> Sequence[Type]:
        if call.types[2] is not None:
            _place(call, 2)
        return (SequenceType(merge(call, element(call), call.types[1], "the element", nested=True)),)  # type: ignore[arg-type]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        items, x, index = operands
        place = len(items) if index is None else int(index)
        if not -len(items) <= place <= len(items):
            raise IndexError(f"index {place} is out of range for a sequence of {len(items)}")
        place %= len(items) + (place >= 0)
        return [*items[:place], x, *items[place:]]

    def samples(self) -> Iterable[Sample]:
        x = np.ones((2, 3), np.float32)
        yield sample(_matrices(), x)
        yield sample(_matrices(), x, np.int64(1), note="index")
        yield sample(_matrices(), x, np.int64(-1), note="from-the-end")
        yield sample(_matrices(), x[:1], note="sizes-differ")


@register
class SequenceErase(Op):
    """The list without the element at ``index``, counted from the end when negative; without the last by default."""

    name = "sequence_erase"
    operands = operands("seq: type, index?: index")
    source = "ONNX SequenceErase-11"

    def infer(self, call: Call) -> Sequence[Type]:
        if call.types[1] is not None:
            _place(call, 1)
        return (SequenceType(element(call)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        items, index = operands
        kept = list(items)
        del kept[-1 if index is None else int(index)]
        return kept

    def samples(self) -> Iterable[Sample]:
        yield sample(_matrices())
        yield sample(_matrices(), np.int64(0), note="index")
        yield sample(_matrices(), np.int64(-2), note="from-the-end")


@register
class SequenceSplit(Op):
    """The pieces of a tensor along an axis, as a list.

    They are of the size ``parts`` and a smaller last one where that is a scalar, of these sizes where it is a list, of 1 where
    it is absent; then `keepdims` says whether the axis stays.
    """

    name = "sequence_split"
    operands = operands("x: any, parts?: index")
    attributes = {"axis": INT, "keepdims": BOOL(True)}
    source = "ONNX SplitToSequence-11"

    def infer(self, call: Call) -> Sequence[Type]:
        shape: list[Dim | None] = list(call.shape(0))
        axis = call.axis(call["axis"], len(shape))
        if call.types[1] is not None and len(call.shape(1)) > 1:
            raise call.error("parts must be a scalar or a list", found=str(call.types[1]))
        if call.types[1] is not None and not call["keepdims"]:
            raise call.error("the axis stays where parts is given")
        if not call["keepdims"]:
            del shape[axis]
        else:
            shape[axis] = 1 if call.types[1] is None else None
        return (SequenceType(Tensor(call.dtype(0), tuple(shape))),)  # type: ignore[arg-type]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, parts = operands
        axis = call["axis"]
        if parts is None:
            pieces = (np.take(x, [index], axis) for index in range(x.shape[axis]))
            return [piece if call["keepdims"] else piece.squeeze(axis) for piece in pieces]
        if parts.ndim == 0:
            if parts < 1:
                raise ValueError(f"pieces of {parts} cannot be split off")
            return np.split(x, range(int(parts), x.shape[axis], int(parts)), axis)
        if parts.sum() != x.shape[axis] or (parts < 0).any():
            raise ValueError(f"{parts.tolist()} do not add up to the size {x.shape[axis]}")
        return np.split(x, np.cumsum(parts)[:-1], axis)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((5, 3)).astype(np.float32)
        yield sample(x, None, axis=0)
        yield sample(x, None, axis=1, keepdims=False, note="without-the-axis")
        yield sample(x, np.int64(2), axis=0, note="pieces")
        yield sample(x, np.array([1, 4]), axis=0, note="sizes")


@register
class SequenceLength(Op):
    """The number of elements, as an i64 scalar."""

    name = "sequence_length"
    operands = operands("seq: type")
    source = "ONNX SequenceLength-11"

    def infer(self, call: Call) -> Sequence[Type]:
        element(call)
        return (Tensor(i64, ()),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.int64(len(operands[0]))

    def samples(self) -> Iterable[Sample]:
        yield sample(_matrices())


@register
class SequenceConcat(Op):
    """The elements joined along an existing axis, or stacked along a new one; at least one element."""

    name = "sequence_concat"
    operands = operands("seq: type")
    attributes = {"axis": INT, "new_axis": BOOL(False)}
    source = "ONNX ConcatFromSequence-11; torch.cat, torch.stack"

    def infer(self, call: Call) -> Sequence[Type]:
        inner = element(call)
        if not isinstance(inner, Tensor):
            raise call.error("the elements must be tensors", found=str(inner))
        if inner.shape is None:
            return (inner,)
        shape: list[Dim | None] = list(inner.shape)
        axis = call.axis(call["axis"], len(shape) + call["new_axis"])
        if call["new_axis"]:
            shape.insert(axis, None)
        shape[axis] = None  # how many elements there are, only running tells
        return (taken_out(call, Tensor(inner.dtype, tuple(shape))),)  # type: ignore[arg-type]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        join = np.stack if call["new_axis"] else np.concatenate
        return join(operands[0], axis=call["axis"])

    def samples(self) -> Iterable[Sample]:
        yield sample(_matrices(), axis=0)
        yield sample(_matrices(), axis=1, new_axis=True, note="stack")
        yield sample([np.zeros((2, 3), np.float32), np.ones((4, 3), np.float32)], axis=0, note="sizes-differ")


@register
class OptionalSome(Op):
    """An optional that holds ``x``."""

    name = "optional_some"
    operands = operands("x: type")
    source = "ONNX Optional-15"

    def infer(self, call: Call) -> Sequence[Type]:
        (inner,) = call.types
        assert inner is not None
        return (Optional(inner),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return operands[0]

    def samples(self) -> Iterable[Sample]:
        yield sample(np.ones((2, 3), np.float32))


@register
class OptionalNone(Op):
    """An optional that holds nothing, where it could hold a `type`."""

    name = "optional_none"
    attributes = {"type": TYPE}
    source = "ONNX Optional-15"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Optional(call["type"]),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return None

    def samples(self) -> Iterable[Sample]:
        yield sample(type=Tensor(f32, (2, 3)))


@register
class OptionalGet(Op):
    """What an optional holds; fails when it holds nothing. Anything else is given back as it is."""

    name = "optional_get"
    operands = operands("o: type")
    source = "ONNX OptionalGetElement-18"

    def infer(self, call: Call) -> Sequence[Type]:
        (outer,) = call.types
        assert outer is not None
        return (taken_out(call, outer.element if isinstance(outer, Optional) else outer),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        if operands[0] is None:
            raise ValueError("the optional holds nothing")
        return operands[0]

    def samples(self) -> Iterable[Sample]:
        yield sample(Typed(Optional(Tensor(f32, (2, 3))), np.ones((2, 3), np.float32)))
        yield sample(np.ones((2, 3), np.float32), note="tensor")


@register
class OptionalHas(Op):
    """Whether an optional holds something, as a bool scalar; false for an absent operand, true for anything else."""

    name = "optional_has"
    operands = operands("o?: type")
    source = "ONNX OptionalHasElement-18"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(bool_, ()),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.bool_(operands[0] is not None)

    def samples(self) -> Iterable[Sample]:
        yield sample(Typed(Optional(Tensor(f32, (2, 3))), np.ones((2, 3), np.float32)))
        yield sample(Typed(Optional(Tensor(f32, (2, 3))), None), note="nothing")
        yield sample(np.ones((2, 3), np.float32), note="tensor")
        yield sample(None, note="absent")
