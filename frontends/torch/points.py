"""A graph where some sizes are single numbers, with nothing in it that does nothing there.

A branch such as ``if batch != ids.shape[0]: ids = ids.expand(batch, -1)`` makes one node more or fewer; at a batch of 1 both
graphs compute the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.ir.attributes import DIMLESS, substituted
from isthmus.ir.dims import Dim, Symbol
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Trait


def at_points(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """A copy of a graph with numbers in place of some symbols, for a comparison.

    Args:
        graph: of symbols that were joined to nothing.
        sizes: the numbers, by the symbols' names.
    """
    copy, known = graph.clone(), graph.symbols.by_name
    numbers: dict[Symbol, Dim] = {known[name]: size for name, size in sizes.items() if name in known}

    def settle(value: Value) -> None:
        value.type = substituted(value.type, numbers)

    for each in copy.graphs():
        for value in each.inputs:
            settle(value)
        for node in each.nodes:
            for result in node.results:
                settle(result)
            for name, attr in node.attrs.items():
                if attr.__class__ not in DIMLESS:
                    node.attrs[name] = substituted(attr, numbers)
    for node in list(copy.walk()):
        if node.op.name == "attention" and _of_one(node):
            node.set_attrs(causal=False)
        operand = node.operands[0] if Trait.IDENTITY in node.op.traits else None
        if operand is not None and operand.type == node.result.type:
            node.replace_by(operand)
    return copy


def _of_one(node: Node) -> bool:
    """Whether an attention is of one query and one key, for which causal or not is the same."""
    queries, keys, *_ = node.operands
    return all(each is not None and each.tensor.shape is not None and each.tensor.shape[-2] == 1 for each in (queries, keys))
