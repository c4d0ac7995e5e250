"""The lowering of last resort: where a target lacks an element type, compute in a wider one.

Nothing is lost: each wider type holds every value of the narrower one, and integers that wrap do so when cast back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import InferError
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Call, Operand
from isthmus.ir.scratch import Scratch
from isthmus.ir.types import Tensor

# In these, what a number means depends on its element type.
_DEPENDS: Final = {"bit_not", "shift_left", "shift_right", "cast", "quantize", "dequantize", "constant", "bind"}


def lower(
    legal: Callable[[Node], str | None], wider: Mapping[DType, Sequence[DType]], b: Builder, node: Node
) -> Sequence[Value] | None:
    """The node in a wider element type, between casts; None where no wider one is legal either.

    Args:
        legal: the target's judgement of a node.
        wider: for each element type the wider ones to try, in order.
        b: builds in front of the node.
        node: the node.
    """
    if node.op.name in _DEPENDS or node.regions or not all(isinstance(result.type, Tensor) for result in node.results):
        return None
    slots = _slots(node)
    for group in dict.fromkeys(operand.group for operand in slots if operand is not None):
        members = [index for index, operand in enumerate(slots) if operand is not None and operand.group == group]
        found = {node.operands[index].type.dtype for index in members}  # type: ignore[union-attr]
        for wide in wider.get(found.pop(), ()) if len(found) == 1 else ():
            operands = [value if index not in members else _as(value, wide) for index, value in enumerate(node.operands)]
            like = _like(node, operands)
            if like is not None and legal(like) is None:
                return _cast(b, node, members, wide)
    return None


def _slots(node: Node) -> list[Operand | None]:
    """The row's operand for each flat operand that is a tensor in a group."""
    found: list[Operand | None] = []
    for row, value in zip(node.op.operands, node.op.group(node.operands), strict=True):
        for item in value if isinstance(value, list) else [value]:
            tensor = item is not None and isinstance(item.type, Tensor)
            found.append(row if tensor else None)
    return found


def _as(value: Value | None, dtype: DType) -> Value | None:
    return None if value is None else Value(Tensor(dtype, value.tensor.shape), None, None, 0)


def _like(node: Node, operands: Sequence[Value | None]) -> Node | None:
    """A node on other operands, in no graph; None where the op does not take them."""
    assert node.graph is not None
    given = [None if value is None else value.type for value in operands]
    call = Call(node.op, given, node.attrs, (), Scratch(node.graph.symbols), operands)
    try:
        return Node(node.op, operands, node.attrs, node.op.infer(call))
    except InferError:
        return None


def _cast(b: Builder, node: Node, members: Sequence[int], wide: DType) -> list[Value]:
    operands: list[Any] = list(node.operands)
    for index in members:
        operands[index] = b.cast(operands[index], dtype=wide)
    made = b.emit(node.op, operands, node.attrs)
    return [
        new if new.tensor.dtype is old.tensor.dtype else b.cast(new, dtype=old.tensor.dtype)
        for new, old in zip(made.results, node.results, strict=True)
    ]
