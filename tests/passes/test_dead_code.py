"""Dead code goes; what outputs, effects and sizes need stays."""

from __future__ import annotations

from isthmus.ir import Builder, Graph, Tensor
from isthmus.ir.dtypes import bool_, f32
from isthmus.passes import DeadCode


def ops(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.walk()]


def test_unused_chain_goes_and_inputs_stay() -> None:
    g = Graph()
    b = Builder(g)
    x, y = g.add_input(Tensor(f32, (2,)), "x"), g.add_input(Tensor(f32, (2,)), "y")
    b.exp(b.add(y, 1.0))
    g.set_outputs([b.neg(x)])
    DeadCode().apply(g)
    assert ops(g) == ["neg"]
    assert len(g.inputs) == 2
    assert not y.uses


def test_effects_stay_with_what_they_need() -> None:
    g = Graph()
    b = Builder(g)
    x, c = g.add_input(Tensor(f32, (2,))), g.add_input(Tensor(bool_, ()))
    b.check(b.logical_not(c), message="no")
    b.logical_not(c)
    g.set_outputs([x])
    DeadCode().apply(g)
    assert ops(g) == ["logical_not", "check"]


def test_binder_of_a_used_symbol_stays() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (4,)))
    found = b.nonzero(x)
    (count, _) = found.tensor.shape or ()
    g.set_outputs([b.size(count)])
    DeadCode().apply(g)
    assert ops(g) == ["nonzero", "size"]


def test_nested_dead_code_and_captures() -> None:
    g = Graph()
    b = Builder(g)
    x, c = g.add_input(Tensor(f32, (2,))), g.add_input(Tensor(bool_, ()))
    outer = b.exp(x)
    dead = b.sin(x)

    def then(inner: Builder) -> object:
        inner.cos(dead)
        return inner.neg(outer)

    y = b.if_(c, regions=[b.subgraph([], then), b.subgraph([], lambda inner: inner.abs(x))])  # type: ignore[arg-type]
    b.if_(c, regions=[b.subgraph([], then), b.subgraph([], lambda inner: inner.abs(x))])  # type: ignore[arg-type]
    g.set_outputs([y])
    DeadCode().apply(g)
    assert ops(g) == ["exp", "if", "neg", "abs"]


def test_effect_inside_a_region_keeps_the_node_around_it() -> None:
    g = Graph()
    b = Builder(g)
    x, c = g.add_input(Tensor(f32, (2,))), g.add_input(Tensor(bool_, ()))

    def then(inner: Builder) -> object:
        inner.print(x, message="x")
        return inner.neg(x)

    b.if_(c, regions=[b.subgraph([], then), b.subgraph([], lambda inner: inner.abs(x))])  # type: ignore[arg-type]
    g.set_outputs([x])
    DeadCode().apply(g)
    assert ops(g) == ["if", "print", "neg", "abs"] or ops(g) == ["if", "neg", "print", "abs"]
