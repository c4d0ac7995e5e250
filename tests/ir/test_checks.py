"""What inputs are held against before a graph runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isthmus.ir import Graph, Tensor, dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.checks import check_inputs, read_integers
from isthmus.ir.dims import INF, Dim
from isthmus.ir.dtypes import f32
from isthmus.ir.errors import EvaluationError, UsageError
from isthmus.ir.interpreter import run
from isthmus.ir.location import Location
from isthmus.ir.symbols import RELATIONS


def graph_of(graph: Graph, *shapes: tuple[Dim, ...]) -> Graph:
    values = [graph.add_input(Tensor(f32, shape), f"x{index}") for index, shape in enumerate(shapes)]
    graph.set_outputs(values)
    return graph


def zeros(*shapes: tuple[int, ...]) -> list[Any]:
    return [np.zeros(shape, np.float32) for shape in shapes]


def both(graph: Graph, inputs: list[Any], told: str) -> None:
    """The interpreter and a caller's own kind of error."""
    with pytest.raises(EvaluationError, match=told):
        run(graph, inputs)
    with pytest.raises(UsageError, match=told):
        check_inputs(graph, inputs, UsageError)


def test_sizes_are_bound_wherever_they_stand() -> None:
    graph = Graph()
    n = graph.symbols.declare("N").dim
    graph_of(graph, (2 * n, 3), (n,))
    assert check_inputs(graph, zeros((8, 3), (4,))) == {n.symbol: 4}
    both(graph, zeros((9, 3), (4,)), "x0 has another size")
    both(graph, zeros((8, 4), (4,)), "x0 has another size")


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((3, 1), np.float32), np.zeros(3, object), np.array(["a"] * 3)])
def test_dtype_and_rank(array: Any) -> None:
    graph = graph_of(Graph(), (3,))
    both(graph, [array], r"x0 has another type(.|\n)*expected: f32\[3\]")
    both(graph, [], "takes 1 inputs, got 0")


@pytest.mark.parametrize("relation", RELATIONS)
def test_an_assumption_is_told_with_its_place(relation: str) -> None:
    holds = RELATIONS[relation]
    graph = Graph()
    n = graph.symbols.declare("N").dim
    graph_of(graph, (n,))
    graph.symbols.location = Location("net.py", 7)
    graph.symbols.assume(relation, n % 4, 2)
    for size in (5, 6, 7):
        if holds(size % 4, 2):
            check_inputs(graph, zeros((size,)))
        else:
            both(graph, zeros((size,)), rf"holds only for N % 4 {relation} 2\n  at net.py:7(.|\n)*N={size}")


def test_an_assumption_that_divides_by_0_does_not_hold() -> None:
    graph = Graph()
    n = graph.symbols.declare("N").dim
    graph_of(graph, (n,))
    graph.symbols.location = Location("net.py", 7)
    graph.symbols.assume("==", 6 // (n - 1), 2)
    check_inputs(graph, zeros((4,)))
    both(graph, zeros((1,)), r"holds only for 6//\(N - 1\) == 2\n  at net.py:7(.|\n)*N=1")


def test_integers_that_inputs_are() -> None:
    graph = Graph()
    b = Builder(graph)
    n = graph.symbols.declare("N").dim
    i, j, k = (graph.symbols.fresh("i", -INF, hint=3) for _ in range(3))
    x = graph.add_input(Tensor(f32, (n,)), "x")
    count, other = (graph.add_input(Tensor(dtypes.i32, shape), name) for name, shape in (("count", (1,)), ("other", ())))
    lengths = graph.add_input(Tensor(dtypes.i64, (2,)), "lengths")
    b.bind(b.cast(b.squeeze(count, axes=[0]), dtype=dtypes.i64), symbol=i.symbol)
    b.bind(other, symbol=j.symbol)
    b.bind(b.reduce_max(lengths, axes=[0]), symbol=k.symbol)
    graph.set_outputs([x])
    integers = read_integers(graph)
    assert integers == {i.symbol: 1, j.symbol: 2}
    graph.symbols.constrain(">", i, 0)
    graph.symbols.location = Location("net.py", 7)
    graph.symbols.unify(j, n)

    def check(size: int, first: int, second: int) -> dict[Any, int]:
        found = [np.zeros(size, np.float32), np.array([first], np.int32), np.array(second, np.int32), np.zeros(2, np.int64)]
        return check_inputs(graph, found, UsageError, integers)

    assert check(4, 3, 4) == {n.symbol: 4, i.symbol: 3}
    with pytest.raises(UsageError, match=r"holds only for i0 > 0(.|\n)*i0=0"):
        check(4, 0, 4)
    with pytest.raises(UsageError, match=r"holds only for i1 == N\n  at net.py:7(.|\n)*N=4, i0=3, i1=5"):
        check(4, 3, 5)


def test_sizes_that_divide_by_0_are_told() -> None:
    graph = Graph()
    n, m = (graph.symbols.declare(name) for name in "NM")
    both(graph_of(graph, (n.dim,), (6 // (n.dim - 1),)), zeros((1,), (3,)), r"x1 has another size than its type says(.|\n)*N=1")
    graph = Graph()
    n, m = (graph.symbols.declare(name) for name in "NM")
    graph_of(graph, (n.dim,))
    m.joined = 6 // (n.dim - 1)
    both(graph, zeros((1,)), r"the size M = 6//\(N - 1\) divides by 0(.|\n)*N=1")


def test_what_is_known_only_later_is_left() -> None:
    graph = Graph()
    n = graph.symbols.declare("N").dim
    graph_of(graph, (n,))
    graph.symbols.assume("<", graph.symbols.fresh(), n)
    assert check_inputs(graph, zeros((3,))) == {n.symbol: 3}


@pytest.mark.parametrize(("size", "fits"), [(1, False), (2, True), (6, True), (7, False)])
def test_ranges(size: int, fits: bool) -> None:
    graph = Graph()
    graph_of(graph, (graph.symbols.declare("N", lo=2, hi=6).dim,))
    if fits:
        check_inputs(graph, zeros((size,)))
    else:
        both(graph, zeros((size,)), rf"the size N is out of its range\n  expected: 2 to 6\n  found: {size}")


def test_the_range_of_a_size_that_was_joined_to_another() -> None:
    graph = Graph()
    n, m = graph.symbols.declare("N").dim, graph.symbols.declare("M", hi=6).dim
    graph_of(graph, (n,))
    assert m.symbol is not None
    m.symbol.joined = 2 * n
    check_inputs(graph, zeros((3,)))
    both(graph, zeros((4,)), "the size M is out of its range")
