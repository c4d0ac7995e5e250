"""Sequences and optionals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.ops.control import COUNT, turning
from isthmus.frontends.onnx.table import converts
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir.builder import Builder
from isthmus.ir.graph import Value
from isthmus.ir.types import Optional, Tensor
from isthmus.ir.types import Sequence as SequenceType


@converts("SequenceConstruct")
def construct(c: Conversion, *xs: Value) -> Value:
    """A list of tensors."""
    made: Value = c.b.sequence_construct(list(xs))
    return made


@converts("SequenceEmpty")
def empty(c: Conversion, *, dtype: int = 1) -> Value:
    """A list of nothing."""
    made: Value = c.b.sequence_empty(type=Tensor(dtype_of(dtype, "the sequence"), None))
    return made


@converts("SequenceAt")
def at(c: Conversion, items: Value, index: Value) -> Value:
    """An element."""
    made: Value = c.b.sequence_at(items, c.scalar(index))
    return made


@converts("SequenceInsert")
def insert(c: Conversion, items: Value, x: Value, index: Value | None = None) -> Value:
    """The list with one more."""
    made: Value = c.b.sequence_insert(items, x, index and c.scalar(index))
    return made


@converts("SequenceErase")
def erase(c: Conversion, items: Value, index: Value | None = None) -> Value:
    """The list with one less, the last by default."""
    made: Value = c.b.sequence_erase(items, index and c.scalar(index))
    return made


@converts("SequenceLength")
def length(c: Conversion, items: Value) -> Value:
    """How many elements there are."""
    made: Value = c.b.sequence_length(items)
    return made


@converts("ConcatFromSequence")
def concat(c: Conversion, items: Value, *, axis: int, new_axis: int = 0) -> Value:
    """The elements joined."""
    element = items.type.element if isinstance(items.type, SequenceType) else None
    if axis < 0 and (not isinstance(element, Tensor) or element.shape is None):
        c.opaque(f"the rank of what the sequence holds is not known, and axis {axis} is counted from the end")
    if axis < 0:
        assert isinstance(element, Tensor)
        axis = c.axis(axis, element.rank + bool(new_axis))
    made: Value = c.b.sequence_concat(items, axis=axis, new_axis=bool(new_axis))
    return made


MOST_PIECES: Final = 1 << 12
"""A tensor that is split into more pieces stays one op."""


@converts("SplitToSequence")
def split(c: Conversion, x: Value, parts: Value | None = None, *, axis: int = 0, keepdims: int = 1) -> Value:
    """Pieces of a tensor as a list: of one each (with the axis or without), of equal size but the last, or of given sizes."""
    axis = c.axis(axis, c.rank(x))
    size = c.shape(x)[axis]
    if parts is None:
        return _split(c, x, axis, None, bool(keepdims))
    sizes = c.numbers(parts)
    if c.shape(parts) == () and sizes is not None:
        (chunk,) = sizes
        if isinstance(size, int) and isinstance(chunk, int):
            if chunk < 1:
                raise c.malformed(f"splits into pieces of {chunk}")
            starts = range(0, size, chunk)
            sizes = tuple(min(chunk, size - start) for start in starts) if len(starts) <= MOST_PIECES else None
        else:
            sizes = None
    if sizes is None:
        return _split(c, x, axis, parts, True)
    if not sizes:
        made: Value = c.b.sequence_empty(type=x.type)
        return made
    pieces: Any = c.b.split(x, axis=axis, sizes=list(sizes))
    return c.b.sequence_construct([pieces] if isinstance(pieces, Value) else list(pieces))  # type: ignore[no-any-return]


def _split(c: Conversion, x: Value, axis: int, parts: Value | None, keepdims: bool) -> Value:
    made: Value = c.b.sequence_split(x, parts, axis=axis, keepdims=keepdims)
    return made


@converts("SequenceMap")
def map_(c: Conversion, *inputs: Value, body: Any) -> tuple[Value, ...]:
    """A graph applied to each element of lists, and to tensors that stay the same: a loop that carries lists."""
    if not inputs or len(inputs) != len(body.input):
        raise c.malformed(f"has {len(inputs)} inputs, and a body with {len(body.input)}")
    trips: Value = c.b.sequence_length(inputs[0])
    empties = []
    for each in body.output:
        told = each.type.tensor_type.elem_type
        if not told:
            c.opaque(f"the element type of {each.name!r} is not told")
        empties.append(c.b.sequence_empty(type=Tensor(dtype_of(told, f"the output {each.name!r}"), None)))

    def enter(b: Builder, arguments: list[Value]) -> list[Value]:
        return [b.sequence_at(x, arguments[0]) if isinstance(x.type, SequenceType) else x for x in inputs]

    def build(types: Any) -> Any:
        lists: list[Value] = []

        def keep(b: Builder, arguments: list[Value]) -> list[Value]:
            lists[:] = arguments[1:]
            return enter(b, arguments)

        def leave(b: Builder, outputs: list[Value]) -> list[Value]:
            longer = [b.sequence_insert(items, value, None) for items, value in zip(lists, outputs, strict=True)]
            return [b.constant(True), *longer]

        return c.region(body, [COUNT, *types], "body", keep, leave)

    region = turning(c, [value.type for value in empties], build)
    made: Any = c.b.loop(trips, None, empties, carried=len(empties), regions=[region])
    return (made,) if isinstance(made, Value) else tuple(made)


@converts("Optional")
def optional(c: Conversion, x: Value | None = None, *, type: Any = None) -> Value:
    """Something that may be absent."""
    if x is not None:
        made: Value = c.b.optional_some(x)
        return made
    element = None if type is None else c.model.dims.type(type, "the optional", inside=True)
    if element is None:
        raise c.malformed("has neither an input nor a type")
    return c.b.optional_none(type=element)  # type: ignore[no-any-return]


@converts("OptionalGetElement")
def get(c: Conversion, x: Value) -> Value:
    """What an optional holds; anything else as it is."""
    made: Value = c.b.optional_get(x) if isinstance(x.type, Optional) else x
    return made


@converts("OptionalHasElement")
def has(c: Conversion, x: Value | None = None) -> Value:
    """Whether there is something."""
    made: Value = c.b.optional_has(x) if x is None or isinstance(x.type, Optional) else c.b.constant(np.asarray(True))
    return made
