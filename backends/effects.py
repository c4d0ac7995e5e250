"""Checks and prints, for targets that have none: they are left out with a note, and what only they need goes with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from isthmus.ir.dims import Symbol
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Trait


def left_out(graph: Graph, binders: Mapping[Symbol, tuple[Value, Any]]) -> set[Node]:
    """The checks and prints among a graph's own nodes, and the nodes whose results nothing else uses.

    Args:
        graph: the graph.
        binders: what binds each symbol; such a node stays.
    """
    found = {node for node in graph.nodes if node.op.has_effect}
    if not found:
        return found
    binding = {value for value, _ in binders.values()}
    for node in reversed(list(graph.nodes)):
        users = [user for result in node.results for user, _ in result.uses]
        free = Trait.PURE in node.op.traits and not binding.intersection(node.results)
        if free and users and found.issuperset(users):
            found.add(node)
    return found


def notes(nodes: Iterable[Node], target: str) -> list[str]:
    """What the user is told about those among nodes that are checks and prints."""
    found = [(node.op.name, node.attrs["message"] or "without a message", node) for node in nodes if node.op.has_effect]
    return [f"a {name} was left out, since {target} has none: {message} ({node.location})" for name, message, node in found]
