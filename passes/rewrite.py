"""The driver of rules: a worklist to the fixpoint, linear in practice."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, TypeAlias

from isthmus.ir.builder import Builder
from isthmus.ir.errors import InferError, IsthmusError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.location import merge
from isthmus.ir.op import Op
from isthmus.passes.matcher import Match, Trace
from isthmus.passes.replace import attached, disagreement, settle, sweep
from isthmus.passes.rules import SOURCES, Refused, Rewrite

BUDGET: Final = 20
"""Rewrites for each node of the graph after which rules are taken to undo each other."""

RewriteListener: TypeAlias = Callable[[str, Node, Graph], None]


class Rewriting:
    """A pass that applies rules until none applies.

    Args:
        name: the pass's name.
        rules: tried in order at each node.
        listener: called with ``pass.rule``, the root that was replaced and the graph, after each rewrite.

    A value inside a match that is used elsewhere prevents it, unless the rule keeps such values. New nodes stand where the
    root stood, carry the merged locations of all nodes they stand for, their own kind's first, and say which rule made them.
    """

    def __init__(self, name: str, rules: Sequence[Rewrite], listener: RewriteListener | None = None) -> None:
        self.name = name
        self.rules = tuple(rules)
        self.listener = listener
        self.counts: Counter[str] = Counter()
        self._index = _index(self.rules)

    def apply(self, graph: Graph) -> None:
        """Rewrites, in nested graphs too.

        Raises:
            IsthmusError: the rules undo each other for ever.
        """
        rewrites = 0
        budget = 1000 + BUDGET * sum(1 for _ in graph.walk())
        again = True
        while again:  # the worklist holds what a rewrite touched; a further round finds what it could not know of
            again = False
            for _ in self._round(graph):
                again = True
                rewrites += 1
                if rewrites > budget:
                    often = ", ".join(name for name, _ in self.counts.most_common(3))
                    raise IsthmusError(f"the rules of {self.name} undo each other for ever", found=f"most often: {often}")
        if rewrites:
            settle(graph)

    def _round(self, graph: Graph) -> Iterator[Node]:
        concerning = self._index.concerning
        work = deque(node for node in graph.walk() if concerning(node.op))
        queued = set(work)

        def enqueue(node: Node) -> None:
            if node not in queued and concerning(node.op):
                queued.add(node)
                work.appendleft(node)

        while work:
            node = work.popleft()
            queued.discard(node)
            if not attached(node):
                continue
            for rule in self._index.fitting(node):
                touched = attempt(rule, node, self.name)
                if touched is None or isinstance(touched, Refused):
                    continue
                self.counts[rule.name] += 1
                for each in touched:
                    enqueue(each)
                if self.listener is not None:
                    self.listener(f"{self.name}.{rule.name}", node, graph)
                yield node
                break


class _Index:
    """Which of some rules to try at a node, in order; worked out once for each kind of node that is met."""

    def __init__(self, rules: tuple[Rewrite, ...]) -> None:
        self.rules = rules
        self._concerning: dict[Op, tuple[Rewrite, ...]] = {}
        self._fitting: dict[tuple[Op | None, ...], tuple[Rewrite, ...]] = {}

    def concerning(self, op: Op) -> tuple[Rewrite, ...]:
        """The rules for nodes of an op."""
        found = self._concerning.get(op)
        if found is None:
            found = self._concerning[op] = tuple(rule for rule in self.rules if rule.concerns(op))
        return found

    def fitting(self, node: Node) -> tuple[Rewrite, ...]:
        """Those of them that may fit a node, to judge by what makes its first operands."""
        sources = [None if x is None or x.producer is None else x.producer.op for x in node.operands[:SOURCES]]
        key = (node.op, *sources)
        found = self._fitting.get(key)
        if found is None:
            found = self._fitting[key] = tuple(each for each in self.concerning(node.op) if each.fits(node.op, sources))
        return found


_index = cache(_Index)


def attempt(
    rule: Rewrite, root: Node, maker: str, trace: Trace | None = None, dry: bool = False
) -> list[Node] | Refused | None:
    """Tries a rule at a node.

    Args:
        rule: the rule.
        root: the node to replace.
        maker: the pass's name, for locations.
        trace: notes why the pattern does not fit.
        dry: take everything back, and only tell what would have happened.

    Returns:
        The nodes that rules may fit now: what used the root, makes values with fewer uses, or is new, in the order of a stack;
        a refusal; or None where the pattern does not fit.
    """
    refused: Refused | None = None
    for match in rule.find(root, trace):
        assert root.graph is not None
        before = root.previous
        try:
            found = rule.build(Builder(root.graph, root, root.location), match)
        except InferError as error:  # what the rule would put there is not valid here
            found = Refused(f"{error.op}: {error.message}" if error.op else error.message)
        if found is None:
            root.graph.erase_between(before, root)
            continue
        if not isinstance(found, Refused):
            values: list[Value | None] = [found] if isinstance(found, Value) else list(found)
            reason = _mismatch(root, values)
            if reason is None:
                if dry:
                    root.graph.erase_between(before, root)
                    return []
                return _commit(match, values, before, f"{maker}.{rule.name}")
            found = Refused(reason, root.results[0] if root.results else None)
        root.graph.erase_between(before, root)
        refused = refused or found
    return refused


def _mismatch(root: Node, values: Sequence[Value | None]) -> str | None:
    if len(values) != len(root.results):
        return f"{len(values)} values cannot replace {len(root.results)} results"
    for old, new in zip(root.results, values, strict=True):
        if new is None and old.uses:
            return f"result {old.index} is used and has no replacement"
        reason = None if new is None else disagreement(old, new)
        if reason is not None:
            return reason
    return None


def _commit(match: Match, values: list[Value | None], before: Node | None, maker: str) -> list[Node]:
    root = match.root
    users = [user for result in root.results for user, _ in result.uses if isinstance(user, Node)]
    assert root.graph is not None
    new = root.graph.between(before, root)
    producers = [operand.producer for operand in root.operands if operand is not None and operand.producer is not None]
    less_used = [operand for operand in root.operands if operand is not None]
    for old, value in zip(root.results, values, strict=True):
        if value is not None:
            if old.name and not value.name and value.producer is not None:
                value.name = old.name
            old.replace_by(value)
    root.erase()
    gone, freed = sweep([*match.nodes[1:], *producers, *new])
    less_used += freed
    if new:
        stood = dict.fromkeys([*match.nodes, *(node for node in gone if not node.op.is_constant)])
        for node in new:
            if node.location is root.location:  # the rule did not say otherwise
                # What takes the place of a layer goes by the layer's name, not by that of what was folded into it.
                alike = sorted(stood, key=lambda old, op=node.op: old.op is not op)  # type: ignore[misc]
                node.location = merge(old.location for old in alike).by(maker)
    alive = [value.producer for value in dict.fromkeys(less_used) if value.producer is not None]
    return [node for node in (*users, *alive, *reversed(new)) if node.graph is not None]
