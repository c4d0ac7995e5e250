"""Ops of a file that are kept whole: spelt out where a target lacks them, or one node is left of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import model

import isthmus
from isthmus.frontends.onnx.importing import import_model
from isthmus.ir import parse
from isthmus.ir.equality import difference
from isthmus.ir.graph import Graph
from isthmus.ir.interpreter import run
from isthmus.ir.verifier import verify
from isthmus.passes import SpellOut, default_passes, run_passes

PAD = "(float[N, 3] x, int64[4] p) => (float[A, B] y) { y = Pad(x, p) }"
X, PADS = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 0, 0, -1])
WANTED = [[0, 0], [0, 1], [3, 4]]


def ops(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def test_a_node_that_becomes_several_is_one() -> None:
    graph = import_model(model(PAD)).graph
    assert ops(graph) == ["whole"]
    verify(graph)
    assert run(graph, [X, PADS])[0].tolist() == WANTED
    assert difference(parse(str(graph)), graph) is None


def test_a_body_is_put_in_its_place() -> None:
    graph = import_model(model(PAD)).graph
    SpellOut(lambda node: False).apply(graph)
    assert "pad" in ops(graph)
    verify(graph)
    assert run(graph, [X, PADS])[0].tolist() == WANTED


def test_what_comes_to_one_node_is_no_more_whole() -> None:
    text = "(float[N, 3] x) => (float y) <int64[1] a = {-1}> { b = Neg(a) c = Neg(b) y = ReduceSum(x, c) }"
    graph = import_model(model(text)).graph
    run_passes(graph, default_passes(0.0), verify=True)
    assert ops(graph) == ["reduce_sum"]


@pytest.mark.parametrize("opset", [18, 14, 13])
def test_an_op_is_written_again_where_it_is_the_same(opset: int) -> None:
    written = isthmus.compile(model("(float[N] x, int64 k) => (float y) { y = CumSum(x, k) }", 14), opset=opset).artefact
    assert (written.op_counts == {"CumSum": 1}) == (opset >= 14)  # type: ignore[attr-defined]


def test_other_targets_get_the_body() -> None:
    net = isthmus.compile(model(PAD), target="reference")
    assert "whole" not in str(net.graph)
    assert net(X, PADS)["y"].tolist() == WANTED


def test_what_the_runtime_lacks_stays_only_where_that_is_asked_for() -> None:
    proto: Any = model("(bfloat16[2, 3, 4, 8] q) => (bfloat16 y) { y = Attention(q, q, q) }", 24)
    assert isthmus.compile(proto).artefact.node_count > 1
    assert isthmus.compile(proto, keep_ops=True).artefact.op_counts == {"Attention": 1}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("text", "given", "wanted"), [
    ("(float[N] x) => (int64[2] y) { v = NonZero(x)  y = Shape(v) }", np.float32([0, 1, 2]), [1, 2]),
    ("(float[N] x) => (int64 y) { v = Unique(x)  y = Size(v) }", np.float32([1, 2, 1]), 2),
])  # fmt: skip
@pytest.mark.parametrize("options", [{}, {"keep_ops": True}, {"target": "reference"}])
def test_a_size_alone_of_what_is_found_in_the_run_is_used(text: str, given: Any, wanted: Any, options: Any) -> None:
    assert np.array_equal(isthmus.compile(model(text), **options)(given)["y"], wanted)
