"""Constants of constants: an op whose operands are all weights becomes a weight, computed while it is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Expr
from isthmus.ir.errors import EvaluationError
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Call, Trait
from isthmus.ir.types import Tensor
from isthmus.ir.weights import LazyWeight, Weight, weight

SMALL = 1024
"""Results of up to so many elements are computed at once."""


def fold(b: Builder, node: Node) -> Value | None:
    """The result of a pure node of constants, as a constant; None where it is no such node."""
    weights = [operand.weight for operand in node.operands if operand is not None]
    if not weights or node.regions or len(node.results) != 1 or not node.has(Trait.PURE) or node.has(Trait.RANDOM):
        return None
    held = [each for each in weights if each is not None]
    type = node.result.type
    if len(held) != len(weights) or not isinstance(type, Tensor) or type.shape is None:
        return None
    if any(isinstance(dim, Expr) for dim in type.shape) or any(True for _ in node.symbols()):
        return None
    places = [operand is not None for operand in node.operands]
    call = Call(node.op, [None if operand is None else operand.type for operand in node.operands], node.attrs)

    def compute(*arrays: Any) -> Any:
        given = iter(arrays)
        found = node.op.evaluate(call, *node.op.group([next(given) if there else None for there in places]))
        return np.asarray(found)

    shape = tuple(int(dim) for dim in type.shape)  # type: ignore[arg-type]
    signature = ("fold", node.op.name, repr(node.attrs), tuple(places))
    made: Weight = LazyWeight(type.dtype, shape, compute, held, signature)
    if made.size <= SMALL:
        try:
            made = weight(made.array())
        except EvaluationError:
            return None
    return b.constant(made, name=node.result.name)
