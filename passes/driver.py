"""Runs passes one after the other and writes down what each did."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from isthmus.ir.graph import Graph
from isthmus.ir.verifier import verify as verify_graph


class Pass(Protocol):
    """A transformation of a graph, in place.

    Attributes:
        name: short and unique in its pipeline.

    A pass that counts what it does keeps a ``counts: Counter[str]``, by rule. Whether it changed anything is never told
    by hand: it is read off the graph's version.
    """

    @property
    def name(self) -> str: ...

    def apply(self, graph: Graph) -> None:
        """Transforms the graph and leaves it valid."""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one run of a pass did.

    Attributes:
        name: the pass.
        seconds: wall time.
        nodes_before: nodes before it, nested ones counted, constants not.
        nodes_after: the same afterwards.
        counts: how often each of its rules fired.
        changed: whether the graph is another than before.
    """

    name: str
    seconds: float
    nodes_before: int
    nodes_after: int
    counts: dict[str, int] = field(default_factory=dict)
    changed: bool = False


Listener: TypeAlias = Callable[[PassRecord, Graph], None]


def count_nodes(graph: Graph) -> int:
    """The nodes of a graph and of those nested in it; constants are not counted."""
    count = 0
    for node in graph.walk():
        count += not node.op.is_constant
    return count


def run_pass(graph: Graph, step: Pass, nodes: int | None = None) -> PassRecord:
    """Applies one pass and tells what it did. `nodes`: how many nodes the graph has, where that is known already."""
    told = Counter(_counts(step))
    before, version = count_nodes(graph) if nodes is None else nodes, graph.version
    start = time.perf_counter()
    step.apply(graph)
    seconds = time.perf_counter() - start
    counts = dict(_counts(step) - told)
    changed = graph.version != version
    return PassRecord(step.name, seconds, before, count_nodes(graph) if changed else before, counts, changed)


def _counts(step: Pass) -> Counter[str]:
    counts: Counter[str] | None = getattr(step, "counts", None)
    return Counter() if counts is None else counts


def run_passes(
    graph: Graph, passes: Iterable[Pass], verify: bool = False, listener: Listener | None = None
) -> list[PassRecord]:  # fmt: skip
    """Applies passes in order, in place.

    Args:
        graph: a graph at the top.
        passes: what to apply.
        verify: check the graph after each pass that changed it.
        listener: called with each record and the graph as the pass left it.

    Returns:
        A record for each pass.

    Raises:
        VerifyError: a pass left the graph invalid (with `verify`).
    """
    records: list[PassRecord] = []
    for step in passes:
        record = run_pass(graph, step, records[-1].nodes_after if records else None)
        if verify and record.changed:
            verify_graph(graph)
        records.append(record)
        if listener is not None:
            listener(record, graph)
    return records


@dataclass(frozen=True, slots=True)
class Phase:
    """Passes that belong together, and what may be relied on around them.

    Attributes:
        name: short name.
        passes: in order.
        before: what must hold of the graph when the phase starts.
        after: what holds when it has ended.
    """

    name: str
    passes: tuple[Pass, ...]
    before: str
    after: str


Pipeline: TypeAlias = Sequence[Phase]


def flatten(pipeline: Pipeline) -> list[Pass]:
    """The passes of all phases, in order."""
    return [step for phase in pipeline for step in phase.passes]
