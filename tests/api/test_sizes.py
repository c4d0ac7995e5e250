"""Sizes that a compiled model is verified at."""

from __future__ import annotations

import pytest
import torch

import isthmus
from isthmus.ir import Graph, Tensor
from isthmus.ir.dims import INF, Dim
from isthmus.ir.dtypes import f32
from isthmus.sizes import other_sizes


def graph_of(*shapes: tuple[Dim, ...], graph: Graph) -> Graph:
    for shape in shapes:
        graph.add_input(Tensor(f32, shape))
    return graph


def test_the_first_is_the_least_the_second_the_example_and_none_is_repeated() -> None:
    graph = Graph()
    n = graph.symbols.declare("N", hint=4).dim
    sizes = [found["N"] for found in other_sizes(graph_of((n, 3), graph=graph), 5)]
    assert sizes[:2] == [1, 4]
    assert len(set(sizes)) == 5


def test_a_graph_without_symbols_has_empty_sizes() -> None:
    assert list(other_sizes(graph_of((2, 3), graph=Graph()), 2)) == [{}, {}]


def test_ranges_are_kept() -> None:
    graph = Graph()
    n = graph.symbols.declare("N", lo=3, hi=5, hint=4).dim
    assert {found["N"] for found in other_sizes(graph_of((n,), graph=graph), 4)} <= {3, 4, 5}


def test_no_size_divides_by_0() -> None:
    graph = Graph()
    n, m = (graph.symbols.declare(name, hint=6) for name in "NM")
    graph.symbols.assume(">=", 12 // (n.dim - 1), 0)
    assert {found["N"] for found in other_sizes(graph_of((n.dim,), graph=graph), 3)}.isdisjoint({1})
    graph = Graph()
    n, m = (graph.symbols.declare(name, hint=6) for name in "NM")
    m.joined = 12 // (n.dim - 1)
    assert all(found["M"] == 12 // (found["N"] - 1) for found in other_sizes(graph_of((n.dim,), graph=graph), 3))


def test_assumptions_are_kept() -> None:
    graph = Graph()
    h, w = (graph.symbols.declare(name, hint=32) for name in "HW")
    graph_of((1, h.dim, w.dim), graph=graph)
    graph.symbols.assume("==", h.dim % 16, 0)
    graph.symbols.assume("==", w.dim % 16, 0)
    graph.symbols.assume("<=", h.dim, w.dim)
    for found in other_sizes(graph, 4):
        assert found["H"] % 16 == found["W"] % 16 == 0
        assert found["H"] <= found["W"]


def test_symbols_that_were_joined_follow() -> None:
    graph = Graph()
    a, b = (graph.symbols.declare(name, hint=4).dim for name in ("a", "b"))
    graph_of((a,), (b,), graph=graph)
    assert graph.symbols.unify(a, b)
    graph.settle()
    for found in other_sizes(graph, 3):
        assert found["a"] == found["b"]


@pytest.mark.parametrize("hint", [1, 7])
def test_where_nothing_else_holds_the_example_is_left(hint: int) -> None:
    graph = Graph()
    n = graph.symbols.declare("N", hi=INF, hint=hint).dim
    graph_of((n,), graph=graph)
    graph.symbols.assume("==", n * n, hint * hint)
    assert list(other_sizes(graph, 1)) == [{"N": hint}]


def test_a_branch_is_decided_as_in_the_example() -> None:
    def taller(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] >= x.shape[1] else x

    x = torch.randn(8, 8)
    net = isthmus.compile(taller, x, dynamic_shapes={"x": {0: "H", 1: "W"}})
    assert [line.partition(" (")[0] for line in net.report.assumptions] == ["H >= W"]
    assert torch.equal(net(x), x * 2)
    net.verify()


def test_sizes_of_a_dim_without_a_least_one_may_be_0() -> None:
    net = isthmus.compile(lambda x: x + x.sum(), torch.randn(3, 4), dynamic_shapes={"x": {0: torch.export.Dim("N")}})
    assert net(torch.zeros(0, 4)).shape == (0, 4)
