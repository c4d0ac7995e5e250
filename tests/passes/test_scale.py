"""Work grows with the size of the graph and no more, and no depth meets a recursion limit."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
from fake_target import Fine

from isthmus.ir import Builder, Graph, Tensor, verify
from isthmus.ir.dtypes import f32
from isthmus.passes import CommonSubexpressions, Rewriting, cleanup_passes, default_passes, legalize, run_passes
from isthmus.passes.canonicalize import Canonicalize


def mixed(count: int) -> Graph:
    """A chain in which every pass finds something now and then."""
    g = Graph()
    b = Builder(g)
    n = g.symbols.declare("N").dim
    x = y = g.add_input(Tensor(f32, (n, 4)), "x")
    steps: list[Callable[[], object]] = [
        lambda: b.add(y, x), lambda: b.mul(y, 1.0), lambda: b.sigmoid(y), lambda: b.neg(b.neg(y)),
        lambda: b.mul(y, b.sigmoid(y)),
        lambda: b.reshape(b.reshape(y, shape=[n, 2, 2]), shape=[n, 4]), lambda: b.layer_norm(y, axis=1), lambda: b.exp(y),
        lambda: b.add(y, b.mul(b.constant(np.ones(4, np.float32)), 2.0)),
    ]  # fmt: skip
    while len(g) < count:
        y = steps[len(g) % len(steps)]()  # type: ignore[assignment]
        b.cos(x)
    g.set_outputs([y])
    return g


def chain(count: int, op: str) -> Graph:
    g = Graph()
    b = Builder(g)
    y = g.add_input(Tensor(f32, (4,)))
    for _ in range(count):
        y = getattr(b, op)(y)
    g.set_outputs([y])
    return g


def calls(graph: Graph) -> int:
    """How many functions all passes call: the same number in every run, unlike seconds."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run_passes(graph, default_passes())
        legalize(graph, Fine())
        run_passes(graph, cleanup_passes())
    finally:
        sys.setprofile(None)
    return count


def test_ten_times_the_nodes_are_about_ten_times_the_work() -> None:
    large = mixed(10_000)
    assert calls(large) < 10.5 * calls(mixed(1_000))
    verify(large)


@pytest.mark.parametrize("op", ["neg", "relu", "identity"])
def test_chains_that_vanish(op: str) -> None:
    g = chain(50_000, op)
    record = run_passes(g, [Canonicalize()])[0]
    assert record.nodes_after <= 1
    verify(g)


def test_many_equal_nodes_become_one() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (4,)))
    g.set_outputs([b.exp(x) for _ in range(20_000)])
    run_passes(g, [CommonSubexpressions()])
    assert len(g) == 1


def test_deep_nesting() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (4,)))
    body = b.subgraph([Tensor(f32, (4,))], lambda b, y: b.neg(b.neg(b.relu(y))))
    for _ in range(1_000):
        inner = body

        def wrap(b: Builder, y: object, inner: Graph = inner) -> object:
            return b.composite([y], regions=[inner], name="block")

        body = b.subgraph([Tensor(f32, (4,))], wrap)  # type: ignore[arg-type]
    g.set_outputs([b.composite([x], regions=[body], name="block")])
    run_passes(g, default_passes())
    legalize(g, Fine())
    run_passes(g, cleanup_passes())
    assert [node.op.name for node in g.walk()] == ["relu"]


def test_a_rewriting_without_rules_changes_nothing() -> None:
    g = chain(10, "neg")
    (record,) = run_passes(g, [Rewriting("none", [])])
    assert not record.changed
