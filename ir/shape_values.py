"""Small integer tensors read as dims: what a shape computed in the model comes to."""

from __future__ import annotations

from typing import Final

from isthmus.ir.dims import Dim
from isthmus.ir.graph import Value

DEPTH: Final = 16
"""How many ops back a value is followed; who follows more keeps the elements of each value as it is built."""


def elements(value: Value | None, depth: int = DEPTH) -> tuple[Dim, ...] | None:
    """The elements of an integer tensor in row-major order, as dims; None where that is not known."""
    node = None if value is None else value.producer
    if value is None or node is None or depth == 0 or node.regions:
        return None
    known = [elements(operand, depth - 1) for operand in node.operands]
    found = node.op.infer_value(node.call(), *known)
    return None if found is None else found[value.index]
