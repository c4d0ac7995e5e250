"""Common subexpressions: of several nodes that compute the same, the first stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from isthmus.ir.dims import Symbol
from isthmus.ir.graph import Graph, Node
from isthmus.ir.location import Location, merge
from isthmus.ir.op import Trait
from isthmus.ir.ops.whole import Whole
from isthmus.passes.keys import attrs_key
from isthmus.passes.replace import disagreement, settle


class CommonSubexpressions:
    """Replaces pure nodes by earlier ones with the same op, operands and attributes.

    Constants are the same when they are handles onto the same data, or small and of equal content. Nested graphs see what
    stands before them in the graphs around; isolated ones do not. Random ops and effects are left alone.
    """

    name = "common_subexpressions"

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def apply(self, graph: Graph) -> None:
        """Merges, in one walk. Locations of merged nodes are merged."""
        merged: dict[Node, list[Location]] = {}
        scopes: list[_Scope] = [_Scope(graph, {}, shared=False)]
        while scopes:
            scope = scopes[-1]
            node = next(scope.nodes, None)
            if node is None:
                scope.close()
                scopes.pop()
                continue
            key = _key(node)
            first = None if key is None else scope.known.get(key)
            if key is not None and first is None:
                scope.add(key, node)
            elif first is not None and not any(
                disagreement(old, new, newer_gives_way=False) for old, new in zip(node.results, first.results, strict=True)
            ):
                merged.setdefault(first, [first.location])
                if not node.op.is_constant:  # a number comes from everywhere where it is written
                    merged[first].append(node.location)
                for old, new in zip(node.results, first.results, strict=True):
                    new.name = new.name or old.name
                    old.replace_by(new)
                for name, value in node.attrs.items():
                    if isinstance(value, Symbol):  # both bind the same number
                        value.joined = first.attrs[name].dim
                node.erase()
                self.counts[node.op.name] += 1
            if node.graph is not None:
                alone = bool(node.regions) and Trait.ISOLATED in node.op.traits
                scopes.extend(_Scope(region, {} if alone else scope.known, not alone) for region in reversed(node.regions))
        for node, locations in merged.items():
            if len(locations) > 1:
                node.location = merge(locations).by(self.name)
        if merged:
            settle(graph)


class _Scope:
    """The nodes of one graph, and what must be forgotten at its end: what it put into a table `shared` with others."""

    def __init__(self, graph: Graph, known: dict[Hashable, Node], shared: bool) -> None:
        self.nodes: Iterator[Node] = graph.nodes
        self.known = known
        self.shared = shared
        self.added: list[Hashable] = []

    def add(self, key: Hashable, node: Node) -> None:
        self.known[key] = node
        if self.shared:
            self.added.append(key)

    def close(self) -> None:
        for key in self.added:
            del self.known[key]


def _is_named(node: Node) -> bool:
    """Whether what the region does follows from the attributes."""
    return isinstance(node.op, Whole) and not any(
        Trait.RANDOM in inner.op.traits or Trait.EFFECT in inner.op.traits for inner in node.regions[0].walk()
    )


def _key(node: Node) -> Hashable | None:
    if not node.op.is_function or (node.regions and not _is_named(node)):
        return None
    operands = [None if operand is None else id(operand) for operand in node.operands]
    if len(operands) > 1 and Trait.COMMUTATIVE in node.op.traits:
        operands[:2] = sorted(operands[:2], key=lambda number: number or 0)
    return (node.op.name, tuple(operands), attrs_key(node.attrs))
