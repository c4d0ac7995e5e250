"""Large and deep graphs are ordinary work: no recursion limit, nothing that grows faster than the graph."""

from __future__ import annotations

import sys

import pytest

from isthmus.ir import Builder, Graph, Location, Tensor, Value, difference, parse, print_graph, verify
from isthmus.ir.dtypes import bool_, f32

LENGTH = 100_000
DEPTH = 1_000


@pytest.fixture(scope="module")
def chain() -> Graph:
    graph = Graph()
    b = Builder(graph)
    value = graph.add_input(Tensor(f32, (graph.symbols.declare("N").dim, 4)), "x")
    for number in range(LENGTH):
        b.location = Location("model.py", number % 500, "forward", f"layers.{number // 10}")
        value = b.add(value, value) if number % 2 else b.neg(value)
    graph.set_outputs([value])
    return graph


def test_a_chain_of_a_hundred_thousand_nodes(chain: Graph) -> None:
    assert 10 * sys.getrecursionlimit() < LENGTH
    text = print_graph(chain)
    assert text.count("\n") == LENGTH + 4
    again = parse(text)
    verify(again)
    copy = again.clone()
    assert difference(chain, copy, locations=True) is None
    copy.settle()
    for node in copy.nodes:  # the chain is taken apart from the front
        (operand, *_) = node.operands
        assert operand is not None
        node.replace_by(operand)
    assert len(copy) == 0
    assert copy.outputs == (copy.inputs[0],)


def nested() -> Graph:
    """An `if` in an `if` in an `if`..., built from the inside out."""
    graph = Graph()
    x, c = graph.add_input(Tensor(f32, (4,)), "x"), graph.add_input(Tensor(bool_, ()), "c")

    def plain(name: str) -> Graph:
        region = Graph(name, graph.symbols)
        region.set_outputs([x])
        return region

    def around(inner: list[Graph], target: Graph) -> Value:
        value: Value = Builder(target).if_(c, regions=inner)
        target.set_outputs([value])
        return value

    regions = [plain("then"), plain("else")]
    for _ in range(DEPTH - 1):
        then = Graph("then", graph.symbols)
        around(regions, then)
        regions = [then, plain("else")]
    around(regions, graph)
    return graph


def test_a_nest_of_a_thousand_regions() -> None:
    graph = nested()
    assert len(list(graph.walk())) == DEPTH
    text = print_graph(graph)
    again = parse(text)
    assert difference(graph, again) is None
    verify(again)
    copy = again.clone()
    verify(copy)
    assert print_graph(copy) == text
    assert copy.to_dot().count("subgraph") == 2 * DEPTH + 1
    copy.settle()
    (outermost,) = copy.nodes
    outermost.replace_by(copy.inputs[0])
    assert not copy.inputs[1].uses
    verify(copy)


def test_a_hundred_thousand_uses_of_one_value() -> None:
    graph = Graph()
    b = Builder(graph)
    x, y = (graph.add_input(Tensor(f32, (4,)), name) for name in "xy")
    for _ in range(LENGTH // 2):
        b.add(x, x)
    x.replace_by(y)
    assert (len(x.uses), len(y.uses)) == (0, LENGTH)
    for node in graph.nodes:
        node.erase()
    assert (len(graph), len(y.uses)) == (0, 0)


def test_many_symbols() -> None:
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input(Tensor(f32, (4,)), "x")
    for _ in range(5_000):
        found = b.nonzero(x)
        b.add(found, b.constant([0]))
    verify(graph)
    again = parse(print_graph(graph))
    assert len(again.symbols.by_name) == 5_000
    assert difference(graph, again) is None
