"""Sizes that cannot be 0, though the file does not say so: with an empty tensor the model itself would fail.

A `Reshape` keeps the number of elements, so what it makes something of is not empty; and what -1 stands for is told only where
no other size is 0. Only nodes at the top say something of every run.
"""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.ir.dims import Dim, bounds, product, simplify
from isthmus.ir.graph import Graph


def filled(graph: Graph, dims: Iterable[Dim]) -> bool:
    """Takes for granted that none of these sizes is 0; says whether that was news."""
    if graph.parent is not None:
        return False
    empty = [dim for dim in dims if not isinstance(dim, int) and graph.symbols.span(simplify(dim))[0] < 1]
    for dim in empty:
        graph.symbols.constrain(">=", dim, 1)
    return bool(empty)


def fill(graph: Graph) -> None:
    """Finds such sizes from those that were found, and shows all sizes as what they come to then."""
    reshapes = [node for node in graph.nodes if node.op.name == "reshape"]
    news = True
    while news:
        news = False
        for node in reshapes:
            source, target = (value.tensor.shape for value in (node.operands[0], node.results[0]) if value is not None)
            if source is not None and target is not None and bounds(simplify(product(target)))[0] >= 1:
                news = filled(graph, source) or news
    if graph.symbols.assumptions:
        graph.settle()
