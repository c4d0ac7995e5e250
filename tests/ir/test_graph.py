"""Graphs, nodes, values: editing, uses, nesting, copies."""

from __future__ import annotations

from typing import Any

import pytest

from isthmus.ir import Builder, Graph, Location, Tensor, Value, difference, verify
from isthmus.ir.dtypes import bool_, f32
from isthmus.ir.errors import IsthmusError
from isthmus.ir.location import merge

VECTOR = Tensor(f32, (4,))


def chain(length: int) -> tuple[Graph, Builder]:
    graph = Graph()
    builder = Builder(graph)
    value = graph.add_input(VECTOR, "x")
    for _ in range(length):
        value = builder.neg(value)
    graph.set_outputs([value])
    return graph, builder


def branch() -> tuple[Graph, Value, Value]:
    """`y = if c: x + x else: x`, with x from outside."""
    graph = Graph()
    builder = Builder(graph)
    x, c = graph.add_input(VECTOR, "x"), graph.add_input(Tensor(bool_, ()), "c")
    then = builder.subgraph([], lambda b: b.add(x, x), "then")
    other = builder.subgraph([], lambda b: x, "else")
    graph.set_outputs([builder.if_(c, regions=[then, other])])
    return graph, x, c


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def test_a_value_counts_each_use() -> None:
    graph, b = chain(0)
    (x,) = graph.inputs
    node = b.add(x, x).producer
    assert node is not None
    assert list(x.uses) == [(graph, 0), (node, 0), (node, 1)]
    node.set_operand(0, Builder(graph, node).neg(x))
    assert (node, 0) not in x.uses
    assert (node, 1) in x.uses
    verify(graph)


def test_erasing_while_walking() -> None:
    graph, _ = chain(9)
    visited = 0
    for node in graph.nodes:
        visited += 1
        if node.next is not None:
            node.next.replace_by(node.result)
    assert (visited, len(graph)) == (5, 5)
    verify(graph)


def test_erasing_the_node_that_the_walk_stands_on_and_the_next() -> None:
    graph, _ = chain(4)
    seen = []
    for node in graph.nodes:
        seen.append(node)
        if len(seen) == 1:
            second = node.next
            assert second is not None
            (operand,) = node.operands
            assert operand is not None
            node.replace_by(operand)
            second.replace_by(operand)
    assert len(seen) == 3
    assert len(graph) == 2
    verify(graph)


def test_nodes_put_ahead_of_the_walk_are_visited_and_those_behind_are_not() -> None:
    graph, _ = chain(2)
    seen = []
    for node in graph.nodes:
        seen.append(node.op.name)
        if node.op.name == "neg":
            Builder(graph, node).exp(node.operands[0])
            Builder(graph, node.next).log(node.result)
    assert seen == ["neg", "log", "neg", "log"]
    assert names(graph) == ["exp", "neg", "log", "exp", "neg", "log"]
    assert [node.op.name for node in graph.reversed_nodes()] == names(graph)[::-1]
    verify(graph)


@pytest.mark.parametrize("erased", [1, 2, 3])
def test_nodes_put_at_the_end_after_the_last_ones_were_erased_are_visited(erased: int) -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (2,)), "x")
    old = [b.neg(x).producer for _ in range(3)]
    visited = []
    for node in g.nodes:
        visited.append(node.op.name)
        if node is old[-1]:
            for gone in old[3 - erased :]:
                gone.erase()
            b.exp(x)
    assert visited == ["neg", "neg", "neg", "exp"]


def test_what_is_no_value_or_operand_is_told() -> None:
    g = Graph()
    x = g.add_input(Tensor(f32, (2,)), "x")
    y = Builder(g).neg(x)
    g.set_outputs([y])
    outputs: Any = [x, None]
    with pytest.raises(IsthmusError, match="output 1 of graph main is not a value"):
        g.set_outputs(outputs)
    assert g.outputs == (y,)
    for index in (7, 1, -1):
        with pytest.raises(IsthmusError, match=f"neg: has no operand {index}"):
            y.producer.set_operand(index, x)
    verify(g)


def test_a_used_node_cannot_be_erased() -> None:
    graph, _ = chain(2)
    first = next(graph.nodes)
    with pytest.raises(IsthmusError, match="a result is still used"):
        first.erase()
    with pytest.raises(IsthmusError, match="2 values cannot replace 1 results"):
        first.replace_by([graph.inputs[0], graph.inputs[0]])
    with pytest.raises(IsthmusError, match="input x is used"):
        graph.remove_input(0)
    verify(graph)


def test_replacing_reaches_outputs_and_hands_on_names() -> None:
    graph, b = chain(1)
    (old,) = graph.outputs
    old.name = "y"
    new = b.exp(graph.inputs[0])
    assert old.producer is not None
    old.producer.replace_by(new)
    assert graph.outputs == (new,)
    assert new.name == "y"
    verify(graph)


def test_moving() -> None:
    graph, b = chain(1)
    late = b.exp(graph.inputs[0])
    assert late.producer is not None
    graph.move(late.producer, next(graph.nodes))
    assert names(graph) == ["exp", "neg"]
    graph.move(late.producer, None)
    assert names(graph) == ["neg", "exp"]
    verify(graph)


def test_uses_in_regions_are_uses() -> None:
    graph, x, c = branch()
    assert len(x.uses) == 3
    (node,) = graph.nodes
    assert set(node.walk_values()) == {x, c}
    assert list(node.regions[0].captured()) == [x]
    assert node.regions[0].root is graph
    assert [inner.op.name for inner in graph.walk()] == ["if", "add"]
    assert list(graph.graphs()) == [graph, *node.regions]
    y = graph.add_input(VECTOR, "y")
    x.replace_by(y)
    assert not x.uses
    verify(graph)
    node.replace_by(y)
    assert list(y.uses) == [(graph, 0)]  # the regions let go of what they used
    assert not c.uses
    verify(graph)


def test_the_version_counts_changes_in_regions() -> None:
    graph, x, _ = branch()
    (node,) = graph.nodes
    before = graph.version
    Builder(node.regions[1]).neg(x)
    assert graph.version > before
    before = graph.version
    list(graph.walk())
    assert graph.version == before


def test_a_clone_is_equal_and_separate() -> None:
    graph, x, _ = branch()
    graph.metadata["model"] = "test"
    mapping: dict[Value, Value] = {}
    copy = graph.clone(mapping)
    assert difference(graph, copy, locations=True) is None
    assert mapping[x] is copy.inputs[0]
    assert len(x.uses) == 3
    verify(copy)
    (node,) = copy.nodes
    node.replace_by(mapping[x])
    assert len(graph) == 1
    assert difference(graph, copy) == "graph main: the number of nodes: 1 in one, 0 in the other"


def test_a_region_is_cloned_with_its_outer_values() -> None:
    graph, x, _ = branch()
    (node,) = graph.nodes
    copy = node.regions[0].clone()
    assert list(copy.captured()) == [x]
    other = graph.add_input(VECTOR, "other")
    moved = node.regions[0].clone({x: other})
    assert list(moved.captured()) == [other]


def test_settling_replaces_joined_symbols() -> None:
    graph = Graph()
    b = Builder(graph)
    n, m = graph.symbols.declare("N").dim, graph.symbols.declare("M").dim
    x, y = graph.add_input(Tensor(f32, (n,)), "x"), graph.add_input(Tensor(f32, (m,)), "y")
    total = b.add(x, y)
    size = b.size(m * 2)
    graph.set_outputs([total, size])
    verify(graph)
    graph.settle()
    assert y.tensor.shape == (n,)
    assert size.producer is not None
    assert size.producer.attrs["dim"] == 2 * n
    verify(graph)
    assert set(graph.binders()) == {graph.symbols.by_name["N"]}


def test_binders() -> None:
    graph = Graph()
    b = Builder(graph)
    n = graph.symbols.declare("N")
    x = graph.add_input(Tensor(f32, (2, n.dim)), "x")
    found = b.nonzero(x)
    u = found.tensor.shape[0].symbol
    binders = graph.binders()
    assert binders == {n: (x, 1), u: (found, 0)}


def test_locations() -> None:
    here, there = Location("a.py", 1, "f", "m.0"), Location("b.py", 2)
    made = here.by("fold").by("fold").by("fuse")
    assert made.made_by == ("fold", "fuse")
    both = merge([here, there, here])
    assert both == Location("a.py", 1, "f", "m.0", (), (there,))
    assert merge([both, Location("c.py", 3)]).merged == (there, Location("c.py", 3))
    assert str(here) == "a.py:1 in f (m.0)"
    assert not Location()
    assert merge([Location(), there]) == there
