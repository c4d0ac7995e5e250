"""From the sizes that the user states once to TensorRT's profile."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import isthmus
from isthmus.backends.tensorrt.profiles import Range, ranges, shapes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import INF, Expr, symbols
from isthmus.ir.dtypes import f32
from isthmus.ir.errors import UsageError
from isthmus.ir.graph import Graph
from isthmus.ir.types import Tensor


def graph(lo: float = 1, hi: float = INF, hint: int | None = 2) -> tuple[Graph, Expr]:
    """A graph with one input of size N."""
    made = Graph()
    n = made.symbols.declare("N", lo, hi, hint).dim
    x = made.add_input(Tensor(f32, (n, 3)), "x")
    made.set_outputs([Builder(made).relu(x)])
    return made, n


def of(made: Graph, **given: dict[str, int]) -> tuple[Range, list[str]]:
    notes: list[str] = []
    found = ranges(made, given.get("min", {}), given.get("opt", {}), given.get("max", {}), notes.append)
    return next(iter(found.values())), notes


def test_without_an_upper_bound_it_is_four_times_the_example() -> None:
    found, notes = of(graph()[0])
    assert found == (1, 2, 8)
    assert len(notes) == 1
    assert "N has no upper bound: the engine takes up to 8" in notes[0]


@pytest.mark.parametrize(
    ("lo", "hi", "hint", "given", "expected"),
    [
        (2, 6, 3, {}, (2, 3, 6)),
        (0, INF, 3, {}, (1, 3, 12)),
        (0, INF, 3, {"min": {"N": 0}}, (0, 3, 12)),
        (1, INF, None, {}, (1, 1, 4)),
        (1, INF, 2, {"opt": {"N": 16}}, (1, 16, 64)),
        (1, INF, 2, {"max": {"N": 32}}, (1, 2, 32)),
        (1, INF, 9, {"max": {"N": 4}}, (1, 4, 4)),
        (1, INF, 2, {"min": {"N": 5}}, (5, 5, 20)),
        (1, INF, 2, {"min": {"N": 2}, "opt": {"N": 4}, "max": {"N": 8}}, (2, 4, 8)),
    ],
)
def test_ranges(lo: float, hi: float, hint: int | None, given: dict[str, dict[str, int]], expected: Any) -> None:
    assert of(graph(lo, hi, hint)[0], **given)[0] == expected


def test_sizes_that_divide_by_0_are_refused() -> None:
    made, n = graph(hint=4)
    made.symbols.assume("==", 6 // (n - 1), 2)
    assert of(made)[0] == (4, 4, 4)
    with pytest.raises(UsageError, match=r"N cannot be 1\n  expected: 6//\(N - 1\) == 2"):
        of(made, min={"N": 1})
    with pytest.raises(UsageError, match=r"the shape \[6//\(N - 1\)\] divides by 0\n  found: N=1"):
        shapes((6 // (n - 1),), {n.symbol: Range(1, 2, 3)})  # type: ignore[dict-item]


def test_bounds_move_to_where_the_assumptions_hold() -> None:
    made, n = graph(hint=32)
    made.symbols.assume("==", n % 16, 0)
    assert of(made)[0] == (16, 32, 128)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"min": {"N": 9}, "max": {"N": 4}}, ["contradict", "min 9", "max 4"]),
        ({"min": {"N": 4}, "opt": {"N": 2}}, ["contradict", "min 4", "opt 2"]),
        ({"max": {"M": 4}}, ["max is about M", "sizes of the inputs: N"]),
        ({"max": {"N": 12}}, ["N cannot be 12", "1 <= N <= 10"]),
        ({"opt": {"N": 3}}, ["N cannot be 3", "as the model assumes"]),
    ],
)
def test_contradictions(given: dict[str, dict[str, int]], words: list[str]) -> None:
    made, n = graph(1, 10, 4)
    made.symbols.assume("==", n % 2, 0)
    with pytest.raises(UsageError) as caught:
        of(made, **given)
    for word in words:
        assert word in str(caught.value)


def test_contradictions_reach_the_user_of_compile() -> None:
    model, x, sizes = torch.nn.Linear(3, 4), torch.randn(2, 3), {"input": {0: "N"}}
    with pytest.raises(UsageError, match="the sizes of N contradict each other"):
        isthmus.compile(model, x, target="tensorrt", dynamic_shapes=sizes, min={"N": 8}, max={"N": 4})
    with pytest.raises(UsageError, match="the option max is about batch"):
        isthmus.compile(model, x, target="tensorrt", dynamic_shapes=sizes, max={"batch": 4})
    with pytest.raises(UsageError, match="none, all sizes are fixed"):
        isthmus.compile(model, x, target="tensorrt", max={"N": 4})


def test_the_note_is_in_the_report() -> None:
    net = isthmus.compile(torch.nn.Linear(3, 4), torch.randn(2, 3), target="tensorrt", dynamic_shapes={"input": {0: "N"}})
    assert any("N has no upper bound" in note for note in net.report.notes)


def test_sizes_that_tensorrt_cannot_count_to() -> None:
    made, n = graph(2, 1_500_000_000)
    (symbol,) = symbols(n)
    with pytest.raises(UsageError, match=r"2\*N would be 3000000000") as caught:
        shapes((3, 2 * n), {symbol: of(made)[0]})
    assert "the option max" in str(caught.value)
