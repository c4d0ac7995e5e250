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


@pytest.mark.parametrize(("opset", "text"), [
    (17, "(float[N] x) => (float[M] y) { y = Unique(x) }"),
    (10, '(float[B, 3, H, W] x) => (float y) <float[4] s = {1.0, 1.0, 1.5, 1.5}> { y = Resize<mode = "nearest">(x, s) }'),
    (9, '(float[B, 3, H, W] x) => (float y) <float[4] s = {1.0, 1.0, 1.5, 1.5}> { y = Upsample<mode = "nearest">(x, s) }'),
    (13, "(float[B, 3, H, W] x) => (int64 y) { y = Size(x) }"),
    (13, "(float[N, M] x, int64[1] a) => (float y) { y = ReduceSum(x, a) }"),
    (13, "(float[N, M] x, int64[2] a) => (float[P, Q] y) { y = Tile(x, a) }"),
    (13, "(int64[N] x, int64[N] y) => (int64[N] z) { z = Div(x, y) }"),
    (9, "(float[A, B, C] x) => (float y) { y = Flatten<axis = 2>(x) }"),
    (7, "(float[A, B, C] x) => (float y) <float[3, 1] s = {0.5, 0.25, 0.1}> { y = PRelu(x, s) }"),
    (7, "(float[A, B] x) => (float y, float z) { y, z = Split<axis = 1>(x) }"),
    (13, "(float[A, B] x) => (float y, float z) { y, z = Split<axis = 1>(x) }"),
    (18, "(float[A, B] x) => (float y, float z) { y, z = Split<axis = 1, num_outputs = 2>(x) }"),
])  # fmt: skip
def test_an_op_of_open_sizes_is_one_node_for_a_reader_that_has_it(opset: int, text: str) -> None:
    assert isthmus.compile(model(text, opset), keep_ops=True).artefact.node_count == 1


def test_a_number_of_elements_is_told_by_the_tensor() -> None:
    text = "(float[A, 3, B] x, float[C] y) => (float p) { n = Size(x) k = Cast<to = 1>(n) p = Mul(y, k) }"
    net = isthmus.compile(model(text, 17), profile="onnxruntime")
    assert net.artefact.op_counts["Size"] == 1  # type: ignore[attr-defined]
    x, y = np.zeros((2, 3, 4), np.float32), np.ones(1, np.float32)
    assert net(x, y)["p"].tolist() == [24]


@pytest.mark.parametrize(("text", "shapes"), [
    # To the shape of another tensor; in a known number of heads, whose size is what is left.
    ("""(float[N, C, H, W] x) => (float z) <int64[3] r = {0, 0, -1}> {
        y = Reshape(x, r) e = Softmax<axis = 2>(y) s = Shape(x) z = Reshape(e, s) }""", [(2, 3, 4, 5)]),
    ("""(float[N, S, E] x, float[A, B, C] y) => (float z) <int64[1] b = {0}, int64[1] e = {2}, int64[2] h = {4, -1}> {
        s = Shape(x) t = Slice(s, b, e) r = Concat<axis = 0>(t, h) z = Reshape(y, r) }""", [(2, 3, 8), (2, 3, 8)]),
])  # fmt: skip
@pytest.mark.parametrize("opset", [15, 18])
def test_a_shape_is_said_in_few_nodes(text: str, shapes: list[tuple[int, ...]], opset: int) -> None:
    proto = model(text, opset)
    net = isthmus.compile(proto)
    assert net.artefact.node_count <= 4
    inputs = [np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 100 for shape in shapes]
    np.testing.assert_allclose(net(*inputs)["z"], isthmus.compile(proto, target="reference")(*inputs)["z"], rtol=1e-6)


@pytest.mark.parametrize(("text", "runs"), [
    ("(float[N] x) => (float[M] y) { y = Unique(x) }", [[3, np.nan, 1, 3]]),
    ("(float[N] x) => (float[K] y) <int64[2] s = {1, 3}> { , y = Split<axis = 0>(x, s) }", [[1, 2, 3, 4]]),
])  # fmt: skip
def test_what_onnxruntime_has_otherwise_is_spelt_out(text: str, runs: list[list[float]]) -> None:
    proto = model(text, 17)
    for each in runs:
        x = np.array(each, np.float32)
        wanted = isthmus.compile(proto, target="reference")(x)["y"]
        np.testing.assert_array_equal(isthmus.compile(proto)(x)["y"], wanted)


PADDED = """(float[N, 5] x) => (float[N, M] y) <
    int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[3] zeros = {0, 0, 0}, float half = {0.5}
> {
    s = Shape(x) w = Slice(s, one, two) f = Cast<to = 1>(w) m = ReduceMax<keepdims = 0>(f, zero) h = Mul(m, half) c = Ceil(h)
    i = Cast<to = 7>(c) u = Unsqueeze(i, zero) p = Concat<axis = 0>(zeros, u) z = Pad(x, p)
    t = Shape(z) e = Exp(z) y = Reshape(e, t)
}"""


def test_a_size_that_is_worked_out_in_floats_is_a_number_once_that_is_folded() -> None:
    net = isthmus.compile(model(PADDED, 18), keep_ops=True)
    assert net.artefact.op_counts == {"Pad": 1, "Exp": 1}  # type: ignore[attr-defined]
    assert str(net.graph.outputs[0].type) == "f32[N, 8]"
    assert isthmus.compile(net.artefact.model, keep_ops=True).artefact.node_count == 2  # type: ignore[attr-defined]


def test_two_of_the_same_are_one() -> None:
    text = "(float[A, B] x) => (int64[2, C] y, int64[2, D] z) { p = NonZero(x) q = NonZero(x) y = Neg(p) z = Abs(q) }"
    assert isthmus.compile(model(text)).artefact.op_counts["NonZero"] == 1  # type: ignore[attr-defined]


def test_two_draws_stay_two() -> None:
    text = "(float[A, B] x) => (float y, float z) { p = RandomNormalLike(x) q = RandomNormalLike(x) y = Neg(p) z = Abs(q) }"
    counts = isthmus.compile(model(text), keep_ops=True).artefact.op_counts  # type: ignore[attr-defined]
    assert counts["RandomNormalLike"] == 2


@pytest.mark.parametrize("folds", [True, False])
def test_constants_grow_by_no_more_than_what_went(folds: bool) -> None:
    """A table is worked out where many nodes are gone, by which the file had more to lose."""
    chain = " ".join(f"x{place + 1} = Identity(x{place})" for place in range(60 if folds else 1))
    size = 24 if folds else 240
    text = f"""(float[N, {size}] x0) => (float[N, {size}] y) <float[1] one = {{1.0}}, int64[1] n = {{{size}}}> {{
        {chain} t = Expand(one, n) u = CumSum(t, zero) v = Sin(u) y = Add(x{60 if folds else 1}, v) }}"""
    proto = model(text.replace("<float[1] one", "<int64 zero = {0}, float[1] one"), 18)
    net = isthmus.compile(proto, keep_ops=True)
    assert (net.artefact.node_count == 1) == folds
    assert not folds or net.artefact.model.ByteSize() <= proto.ByteSize()  # type: ignore[attr-defined]


def test_one_node_that_needs_sizes_stays_whole_beside_another_result() -> None:
    proto = model("(float[N, 3] x) => (float y, bool m) { y, m = Dropout(x) }", 22)
    assert isthmus.compile(proto, keep_ops=True).artefact.op_counts == {"Dropout": 1}  # type: ignore[attr-defined]
    alone = model("(float[N, 3] x) => (float y) { z, m = Dropout(x) y = Neg(z) }", 22)
    assert isthmus.compile(alone, keep_ops=True).artefact.op_counts == {"Neg": 1}  # type: ignore[attr-defined]
