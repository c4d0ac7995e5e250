"""Ops that were kept whole, spelt out where that is better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from isthmus.ir.builder import decompose
from isthmus.ir.graph import Graph, Node
from isthmus.ir.ops.whole import Whole, needed
from isthmus.ir.symbols import Symbols
from isthmus.ir.types import Tensor, Type
from isthmus.passes.replace import disagreement, settle

Question: TypeAlias = Callable[[Node], bool]


class SpellOut:
    """Puts the bodies of ops that were kept whole in place of them: of those that come to one node by now, and of those that a
    target has not.

    Args:
        stays: whether a target has the op of a `whole`; all by default.
        takes: whether it takes a node as it is, so that one need not stay whole which comes to it alone; all by default.
    """

    name = "spell_out"

    def __init__(self, stays: Question = lambda node: True, takes: Question = lambda node: True) -> None:
        self.stays = stays
        self.takes = takes
        self.counts: Counter[str] = Counter()

    def apply(self, graph: Graph) -> None:
        """Spells out, in nested graphs too."""
        changed = False
        for node in graph.walk():
            if isinstance(node.op, Whole) and not (self.stays(node) and self._is_long(node)) and spelt(node):
                self.counts[node.attrs["name"]] += 1
                changed = True
        if changed:
            settle(graph)

    def _is_long(self, node: Node) -> bool:
        (body,) = node.regions
        ends = [value for value, result in zip(body.outputs, node.results, strict=True) if result.uses]
        nodes = needed(body.nodes, ends)
        sized = len(ends) > 1 and any(True for each in nodes for _ in each.symbols())  # nodes more, for the sizes
        return len(nodes) > 1 or sized or not all(map(self.takes, nodes))


def spelt(node: Node) -> list[Node]:
    """Puts the body in the place of a node, where the types agree, and gives its nodes."""
    assert node.graph is not None
    graph, previous = node.graph, node.previous
    values = decompose(node)
    assert values is not None
    for old, new in zip(node.results, values, strict=True):
        agree = disagreement(old, new) is None or _same_sizes(node.graph.symbols, old.type, new.type)
        if old.uses and not agree:  # of one without uses a size may be used
            graph.erase_between(previous, node)
            return []
    made = graph.between(previous, node)
    node.replace_by(values)
    return made


def _same_sizes(symbols: Symbols, old: Type, new: Type) -> bool:
    """Lets the sizes of a result be those that the body finds out: they are of the same tensor."""
    if not isinstance(old, Tensor) or not isinstance(new, Tensor) or old.dtype is not new.dtype:
        return False
    if old.shape is None or new.shape is None or len(old.shape) != len(new.shape):
        return False
    return all(symbols.know(mine, theirs) for mine, theirs in zip(new.shape, old.shape, strict=True))
