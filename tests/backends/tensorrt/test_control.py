"""Loops and branches: the network read back and evaluated equals the reference, and engines build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tensorrt_reader import evaluate

import isthmus
from isthmus.backends.tensorrt import TensorRTBackend
from isthmus.backends.tensorrt.artefact import TensorRTArtefact
from isthmus.ir import interpreter
from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import bool_, f32, i64
from isthmus.ir.errors import UnsupportedError
from isthmus.ir.graph import Graph, Value
from isthmus.ir.testing import agree
from isthmus.ir.types import Tensor
from isthmus.passes.legalize import legalize
from isthmus.verification import verify

COUNT, FLAG, ROW = Tensor(i64, ()), Tensor(bool_, ()), Tensor(f32, (3,))
rows = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


def emitted(graph: Graph) -> TensorRTArtefact:
    copy = graph.clone()
    legalize(copy, TensorRTBackend())
    return TensorRTBackend().emit(copy)


def check(graph: Graph, *calls: list[Any]) -> None:
    """Compares with the reference on each call, and builds."""
    artefact = emitted(graph)
    for inputs in calls:
        wanted, got = interpreter.run(graph, inputs), evaluate(artefact, inputs)
        assert all(map(agree, got, wanted)), (got, wanted)
    assert len(memoryview(artefact.build(["sm86"]))) > 1000


def loop(body: Callable[..., list[Value]], carried: int, *operands: Value | None, b: Builder, types: list[Tensor]) -> Any:
    return b.loop(operands[0], operands[1], list(operands[2:]), regions=[b.subgraph([COUNT, *types], body)], carried=carried)


def test_a_number_of_turns_that_is_a_size() -> None:
    graph = Graph()
    n = graph.symbols.declare("N", hint=4).dim
    x, start = graph.add_input(Tensor(f32, (n, 3)), "x"), graph.add_input(ROW, "start")
    b = Builder(graph)

    def body(b: Builder, turn: Value, total: Value) -> list[Value]:
        total = b.add(total, b.gather(x, turn, axis=0))
        return [b.constant(True), total, b.mul(total, 2.0)]

    graph.set_outputs(loop(body, 1, b.size(n), None, start, b=b, types=[ROW]))
    check(graph, [rows, rows[0]], [rows[:1], rows[1]], [np.concatenate([rows] * 4), rows[1]])


def test_scanned_inputs_and_stacked_outputs() -> None:
    graph = Graph()
    n = graph.symbols.declare("N", hint=4).dim
    x, start = graph.add_input(Tensor(f32, (n, 3)), "x"), graph.add_input(ROW, "start")

    def body(b: Builder, turn: Value, total: Value, row: Value) -> list[Value]:
        total = b.add(total, row)
        return [b.constant(True), total, total, b.cast(turn, dtype=f32)]

    graph.set_outputs(loop(body, 1, None, None, start, x, b=Builder(graph), types=[ROW, ROW]))
    check(graph, [rows, rows[0]], [rows[:1], rows[1]])


@pytest.mark.parametrize("trip", [True, False])
def test_an_end_that_data_decides(trip: bool) -> None:
    graph = Graph()
    x = graph.add_input(ROW, "x")
    limit = graph.add_input(COUNT, "limit") if trip else None
    first = graph.add_input(FLAG, "first")

    def body(b: Builder, turn: Value, total: Value) -> list[Value]:
        total = b.add(total, b.abs(total))
        return [b.lt(b.reduce_sum(total, axes=[0]), 50.0), total]

    graph.set_outputs([loop(body, 1, limit, first, x, b=Builder(graph), types=[ROW])])
    values = [np.float32([1, 2, 3]), np.float32([9, 9, 90])]
    flags = [np.bool_(True), np.bool_(False)]
    check(graph, *(
        [value, *([np.int64(turns)] if trip else []), flag] for value in values for flag in flags for turns in (0, 2, 9)
    ))  # fmt: skip


def test_a_branch_in_a_loop_and_a_loop_in_a_branch() -> None:
    graph = Graph()
    x, cond = graph.add_input(Tensor(f32, (4, 3)), "x"), graph.add_input(FLAG, "cond")
    b = Builder(graph)

    def body(b: Builder, turn: Value, total: Value, row: Value) -> list[Value]:
        positive = b.gt(b.reduce_sum(row, axes=[0]), 0.0)
        then = b.subgraph([], lambda b: b.add(total, row))
        other = b.subgraph([], lambda b: total)
        return [b.constant(True), b.if_(positive, regions=[then, other])]

    def inside(b: Builder) -> Value:
        found: Value = loop(body, 1, None, None, b.constant(np.zeros(3, np.float32)), x, b=b, types=[ROW, ROW])
        return found

    then, other = b.subgraph([], inside), b.subgraph([], lambda b: b.reduce_sum(x, axes=[0]))
    graph.set_outputs([b.if_(cond, regions=[then, other])])
    check(graph, [rows, np.bool_(True)], [rows, np.bool_(False)], [-rows, np.bool_(True)])


def test_a_branch_that_hands_on_what_is_outside() -> None:
    graph = Graph()
    x, y, cond = graph.add_input(ROW, "x"), graph.add_input(ROW, "y"), graph.add_input(FLAG, "cond")
    b = Builder(graph)
    then = b.subgraph([], lambda b: (x, b.constant(np.ones(3, np.float32))))
    other = b.subgraph([], lambda b: (y, x))
    graph.set_outputs(b.if_(cond, regions=[then, other]))
    check(graph, [rows[0], rows[1], np.bool_(True)], [rows[0], rows[1], np.bool_(False)])


def test_what_stacks_an_unknown_number_is_refused() -> None:
    graph = Graph()
    x = graph.add_input(ROW, "x")

    def body(b: Builder, turn: Value, total: Value) -> list[Value]:
        total = b.mul(total, 2.0)
        return [b.lt(b.reduce_sum(total, axes=[0]), 50.0), total, total]

    graph.set_outputs(loop(body, 1, None, None, x, b=Builder(graph), types=[ROW]))
    with pytest.raises(UnsupportedError, match="how often it turns depends on data"):
        emitted(graph)


# ---- from models


class Recurrent(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(torch.nn, kind)(3, 5, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind: str) -> None:
    torch.manual_seed(0)
    sizes = {"x": {0: "N", 1: "S"}}
    net = isthmus.compile(Recurrent(kind).eval(), torch.randn(2, 4, 3), target="tensorrt", dynamic_shapes=sizes)
    artefact: Any = net.artefact
    assert verify(net.captured, lambda inputs: evaluate(artefact, inputs)).ok
    assert len(memoryview(artefact.build(["sm86"]))) > 1000


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


def test_a_branch_of_a_model() -> None:
    net = isthmus.compile(Branching(), torch.randn(2, 3), target="tensorrt")
    artefact: Any = net.artefact
    calls: list[Any] = [((torch.ones(2, 3),), {}), ((-torch.ones(2, 3),), {})]
    assert verify(net.captured, lambda inputs: evaluate(artefact, inputs), calls).ok
