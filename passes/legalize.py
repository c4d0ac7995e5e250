"""Legalization: what a target cannot take becomes finer until it can; what is left is reported all at once."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Expr, symbols
from isthmus.ir.errors import Refusal, UnsupportedError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.types import Tensor, Unknown, innermost
from isthmus.passes.complex_pairs import ComplexPairs
from isthmus.passes.driver import PassRecord, count_nodes
from isthmus.passes.replace import attached, disagreement, settle, sweep

DEPTH: Final = 32
"""Lowerings that may follow on one another; more are taken to go round in a circle."""


class Target(Protocol):
    """What legalization asks of a target. One that has no complex numbers says so: ``complex_numbers = False``."""

    @property
    def name(self) -> str: ...

    def legal(self, node: Node) -> str | None:
        """None where the target takes the node as it is; else why not, in one sentence."""

    def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """Builds the target's own form of a node in front of it, for the node's results; None where it has none."""


Lowering: TypeAlias = Callable[[Builder, Node], Sequence[Value] | None]
Chain: TypeAlias = tuple[tuple[str, str], ...]
"""The ops that one after the other were lowered, and why the target did not take each."""


def legalize(
    graph: Graph, target: Target, output_names: Sequence[str] = (), legal: Collection[Node] = ()
) -> PassRecord:
    """Makes every node of a graph legal for a target, in place: its own lowerings first, then the ops' decompositions.

    Before that, complex numbers become pairs of reals, for a target that says that it has none (see `complex_pairs`).
    On an error the graph is left partly converted; work on a clone where the graph is still needed.

    Args:
        graph: a graph at the top.
        target: says what is legal.
        output_names: what errors call the outputs; by default their values' names.
        legal: nodes that the target is known to take.

    Returns:
        What was lowered, by op.

    Raises:
        UnsupportedError: nodes are left that can be made legal in no way; it carries all of them.
    """
    before, version, start = count_nodes(graph), graph.version, time.perf_counter()
    run = _Legalization(graph, target, output_names, legal)
    if not getattr(target, "complex_numbers", True):
        pairs = ComplexPairs(target.name)
        pairs.apply(graph)
        run.paired = True
        run.counts.update(pairs.counts)
    run.run()
    refusals = run.standing()
    if refusals:
        count = len(refusals)
        what = "1 operation" if count == 1 else f"{count} operations"
        raise UnsupportedError(f"{what} cannot be carried over to {target.name}", refusals)
    settle(graph)
    seconds = time.perf_counter() - start
    return PassRecord("legalize", seconds, before, count_nodes(graph), dict(run.counts), graph.version != version)


class _Legalization:
    def __init__(self, graph: Graph, target: Target, output_names: Sequence[str], legal: Collection[Node]) -> None:
        self.graph = graph
        self.legal = legal
        self.output_names = output_names
        self.target = target
        self.paired = False  # complex numbers stand only at the ends
        self.counts: Counter[str] = Counter()
        self.refusals: dict[tuple[object, ...], tuple[Refusal, list[Node]]] = {}
        self.origin: dict[Node, Chain] = {}  # what a new node was made from

    def run(self) -> None:
        # A walk over nodes, or a node that is decomposed once its regions are legal: a nest is inlined from the inside
        # out, each body once.
        work: list[Iterator[Node] | Node] = [self.graph.nodes]
        while work:
            top = work[-1]
            node = top if isinstance(top, Node) else next(top, None)
            if node is None or node is top:
                work.pop()
            if node is None:
                continue
            reason = None if node in self.legal else self.target.legal(node)
            fresh: list[Node] = []
            if node is top:
                fresh = [] if reason is None else self.lower(node, reason, self.decompose)
            elif reason is not None:
                fresh = self.lower(node, reason, self.target.lower if node.regions else self.either, bool(node.regions))
                if node.graph is not None and node.regions:
                    work.append(node)
            if node.graph is None:
                work.append(iter(fresh))
            elif node is not top:
                work.extend(region.nodes for region in reversed(node.regions))

    def either(self, b: Builder, node: Node) -> Sequence[Value] | None:
        found = self.target.lower(b, node)
        return self.decompose(b, node) if found is None else found

    def decompose(self, b: Builder, node: Node) -> Sequence[Value] | None:
        found = node.op.decompose(b, node.call(), *node.op.group(node.operands))
        if found is NotImplemented:
            return None
        return [found] if isinstance(found, Value) else list(found)

    def lower(self, node: Node, reason: str, how: Lowering, later: bool = False) -> list[Node]:
        """Replaces an illegal node and returns what came in its place, or notes the refusal (unless it is tried `later`)."""
        chain = (*self.origin.get(node, ()), (node.op.name, reason))
        if len(chain) > DEPTH and node.op.name in (name for name, _ in chain[:-1]):
            op, why = _circle(chain)
            self.refuse(node, chain, why, op)
            return []
        assert node.graph is not None
        previous = node.previous
        found = how(Builder(node.graph, node, node.location.by(f"legalize.{node.op.name}")), node)
        if found is None:
            if not later:
                self.refuse(node, chain, reason)
            return []
        for old, new in zip(node.results, found, strict=True):
            wrong = disagreement(old, new)  # of one without uses a size may be used
            if wrong is not None and old.uses:
                self.refuse(node, chain, f"its lowering gives another type: {wrong}")
                return []
        producers = [operand.producer for operand in node.operands if operand is not None and operand.producer is not None]
        made = node.graph.between(previous, node)
        node.replace_by(found)
        self.origin.pop(node, None)
        self.counts[node.op.name] += 1
        self.origin.update(dict.fromkeys(made, chain))
        sweep([*producers, *made])
        return [item for item in made if item.graph is not None]

    def refuse(self, node: Node, chain: Chain, reason: str, given: str | None = None) -> None:
        op, first = given or node.op.called(node.attrs), chain[0][0]
        cause = _cause(node, reason)
        if len(chain) > 1 and (given is None or first != op):
            reason = f"{reason} (needed for {first})"
        end = self.end(node)
        if end is not None:
            op, remedy = end, "let its real and imaginary parts go in or come out, as real numbers along a last axis"
        else:
            advice = getattr(self.target, "remedy", None)  # one that is only legality and lowerings may have none
            remedy = (advice(node) if advice is not None else None) or _tell(node) or (
                f"leave this operation outside of the model, or compile for a target or version that has {op}"
            )
        key = (op, node.location, reason)
        refusal = Refusal(reason, op=op, location=node.location, remedy=remedy, cause=cause)
        self.refusals.setdefault(key, (refusal, []))[1].append(node)

    def end(self, node: Node) -> str | None:
        """The complex input or output that a node stands for, in words; None for others."""
        if not self.paired or not node.operands:
            return None
        value = node.operands[0]
        if node.op.name == "view_as_real" and value is not None and value in self.graph.inputs:
            return f"input {value.name}"
        if node.op.name == "view_as_complex" and (result := node.results[0]) in self.graph.outputs:
            number = self.graph.outputs.index(result)
            return f"output {self.output_names[number] if self.output_names else result.name or number}"
        return None

    def standing(self) -> list[Refusal]:
        """The refusals of nodes that are still there: the lowering of a later one may have made them needless."""
        return [refusal for refusal, nodes in self.refusals.values() if any(map(attached, nodes))]


def _cause(node: Node, reason: str) -> str | None:
    """A reason without what only this node's types put into it; None where they put nothing there."""
    words: dict[str, str] = {}
    for value in (*node.operands, *node.results):
        if value is not None and isinstance(value.type, Tensor):
            words[str(value.type)] = str(value.type.dtype)
            words |= {str(dim): _symbols(dim) for dim in value.type.shape or () if isinstance(dim, Expr)}
    found = [text for text in words if text in reason]
    pattern = "|".join(rf"(?<![\w`]){re.escape(text)}(?![\w`])" for text in sorted(found, key=len, reverse=True))
    return re.sub(pattern, lambda match: words[match[0]], reason) if found else None


def _symbols(dim: Expr) -> str:
    return ", ".join(sorted({symbol.name for symbol in symbols(dim)}))


def _tell(node: Node) -> str | None:
    """What to do about operands of which too little is known; None where there are none."""
    types = {value.name: innermost(value.type) for value in node.operands if value is not None}
    found = [name for name, type in types.items() if isinstance(type, Unknown) or type.shape is None]
    return f"let the model say of which type {' and '.join(found)} is: a file, among its value_info" if found else None


def _circle(chain: Chain) -> tuple[str, str]:
    """The op where a circle of lowerings is entered, and why the target takes neither it nor what it becomes."""
    names = [name for name, _ in chain]
    period = names[-2::-1].index(names[-1]) + 1
    (op, reason), *others = sorted(dict(chain[-period:]).items(), key=lambda item: names.index(item[0]))
    between = "".join(f"{other} ({why}), and then " for other, why in others)
    return op, f"{reason}; it could only become {between}{op} again"
