"""Lists of sizes that a model computes, written as all lists of sizes are: not put together from single ones."""

from __future__ import annotations

from typing import Final

from isthmus.ir import dtypes
from isthmus.ir.dims import Dim
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.types import Tensor

ONE_MORE: Final = ("reshape", "unsqueeze")
"""Ops that make a list of one size."""
LONGEST: Final = 64
"""Constants of more numbers are no sizes."""


def sizes_in(value: Value | None) -> tuple[Dim, ...] | None:
    """The elements of an i64 list that is made of sizes and of numbers alone; None of another."""
    node = None if value is None else value.producer
    if node is None or value is None or not isinstance(value.type, Tensor):
        return None
    if value.type.dtype is not dtypes.i64 or len(value.type.shape or ()) != 1:
        return None
    if (weight := value.weight) is not None:
        return tuple(map(int, weight.array())) if weight.size <= LONGEST else None
    if node.op.name in ONE_MORE and (x := node.operands[0]) is not None and x.producer is not None:
        return (x.producer.attrs["dim"],) if x.producer.op.name == "size" else None
    if node.op.name != "concat":
        return None
    found: list[Dim] = []
    for part in node.operands:
        inner = sizes_in(part)
        if inner is None:
            return None
        found += inner
    return tuple(found)


def is_of_sizes(node: Node) -> bool:
    """Whether a node gives a size, or a list of sizes."""
    return node.op.name == "size" or (node.op.name in ("concat", *ONE_MORE) and sizes_in(node.result) is not None)


def read_at_once(graph: Graph) -> set[Node]:
    """The nodes whose results nothing needs but lists of sizes, which are written without them."""
    found: set[Node] = set()
    for node in graph.reversed_nodes():
        if is_of_sizes(node):
            users = [user for user, _ in node.result.uses]
            if users and all(isinstance(user, Node) and sizes_in(user.results[0]) is not None for user in users):
                found.add(node)
    return found
