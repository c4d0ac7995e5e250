"""Small integer tensors read as dims: what a shape computed in the model comes to."""

from __future__ import annotations

from typing import Final

from isthmus.ir.dims import Dim, known_product
from isthmus.ir.errors import InferError
from isthmus.ir.graph import Value
from isthmus.ir.ops.numerics import FOLLOWED, MAX_FOLLOWED
from isthmus.ir.ops.whole import Whole, told
from isthmus.ir.types import Tensor

LIMIT: Final = 256
"""How many ops are looked at for one value; who asks about every value keeps the answers as the graph is built."""


def elements(value: Value | None, known: dict[Value, tuple[Dim, ...] | None] | None = None) -> tuple[Dim, ...] | None:
    """The elements of a tensor of i64, i32 or bool (0 and 1) in row-major order, as dims; None where that is not known.

    Args:
        value: the tensor.
        known: what is known of values so far; what is found of others is added.
    """
    if value is None:
        return None
    known = {} if known is None else known
    stack = [value]
    most = len(known) + LIMIT
    while stack and len(known) < most:
        top = stack[-1]
        node = top.producer
        if top in known:
            stack.pop()
        elif node is not None and isinstance(node.op, Whole) and _is_small(top):
            inner = node.regions[0].outputs[top.index]
            if inner in known:
                known[top] = told(node, top.index, known.get)
            else:
                stack.append(inner)
        elif node is None or node.regions or not _is_small(top):
            known[top] = None
        elif pending := [operand for operand in node.operands if operand is not None and operand not in known]:
            stack += pending
        else:
            operands = [None if operand is None else known[operand] for operand in node.operands]
            try:
                found = node.op.infer_value(node.call(), *operands)
            except InferError:  # it comes to an expression that is too large
                found = None
            for result in node.results:
                known[result] = None if found is None else found[result.index]
    return known.get(value)


def _is_small(value: Value) -> bool:
    type = value.type
    if not isinstance(type, Tensor) or type.shape is None or type.dtype not in FOLLOWED:
        return False
    number = known_product(type.shape)
    return number is not None and number <= MAX_FOLLOWED
