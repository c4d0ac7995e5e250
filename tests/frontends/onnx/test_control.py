"""Control flow, sequences and functions of ONNX files: nested, with outer values, with what changes from turn to turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import agrees, f32, i64, imported, model

import isthmus
from isthmus.errors import FileError
from isthmus.frontends.onnx import conversion
from isthmus.frontends.onnx.importing import import_model
from isthmus.ir import Tensor, verify
from isthmus.ir.dtypes import f32 as FLOAT


def loop_of(body: str, carried: str = "x", results: str = "y") -> Any:
    return model(f"""(int64 n, bool go, float[N, 3] x) => (float {results.split(',')[0]})
        <float[1] one = {{1}}, int64[1] zero = {{0}}>
        {{ {results} = Loop(n, go, {carried}) <body = body {body}> }}""")


def test_a_loop_with_carried_and_stacked_values() -> None:
    proto = loop_of("(int64 i, bool c, float[N, 3] v) => (bool keep, float[N, 3] t, float[N, 3] s) { keep = Identity(c) "
                    "t = Add(v, one) s = Mul(t, x) }", results="y, z")  # fmt: skip
    agrees(proto, [np.int64(3), np.True_, f32(2, 3)], [np.int64(1), np.True_, f32(4, 3)], [np.int64(5), np.False_, f32(1, 3)])
    (node,) = (node for node in imported(proto).nodes if node.op.name == "loop")
    assert node.results[0].type == node.operands[2].type  # its size stays from turn to turn


def test_a_carried_value_that_grows() -> None:
    """Its size is a new one in the body; the axis that stays is known after it."""
    proto = loop_of("(int64 i, bool c, float[M, 3] v) => (bool keep, float[K, 3] t) { keep = Identity(c) "
                    "t = Concat<axis = 0>(v, x) }")  # fmt: skip
    agrees(proto, [np.int64(3), np.True_, f32(2, 3)], [np.int64(0), np.True_, f32(4, 3)])
    (node,) = (node for node in imported(proto).nodes if node.op.name == "loop")
    assert node.results[0].tensor.shape[1] == 3
    assert node.results[0].tensor.shape[0] != node.operands[2].tensor.shape[0]


def test_a_carried_value_that_gains_a_rank() -> None:
    proto = loop_of("(int64 i, bool c, float v) => (bool keep, float t) { keep = Identity(c) t = Unsqueeze(v, zero) }")
    graph = import_model(proto).graph
    verify(graph)
    (node,) = (node for node in graph.nodes if node.op.name == "loop")
    assert node.results[0].type == Tensor(FLOAT, None)


def test_loops_without_a_count_or_a_condition() -> None:
    """The body's own word counts in either case, as onnxruntime has it."""
    for first in ('"", go', 'n, ""'):
        proto = loop_of("(int64 i, bool c, float[N, 3] v) => (bool keep, float[N, 3] t) { t = Add(v, one) "
                        "s = ReduceMax<keepdims = 0>(t) most = Constant<value_float = 5.0>() keep = Less(s, most) }")
        proto.graph.node[0].input[:2] = [name.strip(' "') for name in first.split(",")]
        agrees(proto, [np.int64(20), np.True_, f32(2, 3)])


def test_what_is_stacked_is_as_long_as_a_size_says() -> None:
    proto = model("""(float[N, 3] x) => (float y) <bool go = {1}, int64[1] first = {0}> {
        s = Shape(x) t = Gather(s, first) n = Squeeze(t)
        r = Loop(n, go) <body = body (int64 i, bool c) => (bool keep, float f) { keep = Identity(go) f = Cast<to = 1>(i) }>
        u = Unsqueeze(r, first) p = Transpose(x) y = Add(p, u) }""")
    graph = imported(proto)
    assert str(graph.outputs[0].tensor.shape) == "(3, N)"
    assert "u0" not in graph.symbols.by_name
    agrees(proto, [f32(4, 3)], [f32(1, 3)])


def test_loops_in_loops_with_outer_values() -> None:
    proto = loop_of("""(int64 i, bool c, float[N, 3] v) => (bool keep, float[N, 3] t) { keep = Identity(c)
        t = Loop(n, c, v) <body = inner (int64 j, bool d, float[N, 3] w) => (bool more, float[N, 3] u) {
            more = Identity(d) k = Add(i, j) f = Cast<to = 1>(k) m = Mul(x, f) u = Add(w, m) }> }""")
    agrees(proto, [np.int64(3), np.True_, f32(2, 3)])


def test_an_if_whose_branches_differ_in_size() -> None:
    proto = model("""(bool c, float[N, 3] x) => (float y) <int64[1] zero = {0}, int64[1] one = {1}> {
        y = If(c) <then_branch = yes () => (float t) { t = Slice(x, zero, one) },
                   else_branch = no () => (float e) { e = Neg(x) }> }""")
    agrees(proto, [np.True_, f32(4, 3)], [np.False_, f32(2, 3)])


def test_a_branch_that_does_not_fit_is_not_looked_at_where_it_is_never_taken() -> None:
    """What exporters of PyTorch write for ``squeeze``."""
    proto = model("""(float[2, 3] x) => (float y) <int64 axis = {1}, int64[1] axes = {1}, int64 one = {1}> {
        s = Shape(x) d = Gather(s, axis) c = Equal(d, one)
        y = If(c) <then_branch = yes () => (float t) { t = Squeeze(x, axes) },
                   else_branch = no () => (float e) { e = Identity(x) }> }""")
    agrees(proto, [f32(2, 3)])
    assert "if" not in {node.op.name for node in imported(proto).walk()}


def test_what_a_branch_takes_for_granted_holds_in_it_alone() -> None:
    proto = model("""(float[N, M] x) => (float y) <int64 axis = {1}, int64[1] axes = {1}, int64 one = {1}> {
        s = Shape(x) d = Gather(s, axis) c = Equal(d, one)
        y = If(c) <then_branch = yes () => (float t) { q = Squeeze(x, axes) t = Unsqueeze(q, axes) },
                   else_branch = no () => (float e) { e = Neg(x) }> }""")
    assert not imported(proto).symbols.assumptions
    net = isthmus.compile(proto, target="reference")
    assert net(f32(2, 3))["y"].shape == (2, 3)
    assert net(f32(2, 1))["y"].shape == (2, 1)


def test_branches_that_hand_on_outer_values() -> None:
    agrees(model("""(bool c, float[2] x, float[2] w) => (float y) {
        y = If(c) <then_branch = yes () => (float x) { }, else_branch = no () => (float e) { e = Add(x, w) }> }"""),
        [np.True_, f32(2), f32(2)], [np.False_, f32(2), f32(2)])  # fmt: skip


def test_scans_along_other_axes_and_backwards() -> None:
    proto = model("""(float[3] a, float[3, N] x, float[N, 3] w) => (float last, float rows, float columns) {
        last, rows, columns = Scan<num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0],
            scan_output_axes = [0, -1], scan_output_directions = [0, 1],
            body = body (float[3] s, float[3] p, float[3] q) => (float[3] t, float[3] u, float[3] v) {
                m = Mul(p, q) t = Add(s, m) u = Identity(t) v = Sub(s, p) }>(a, x, w) }""")
    agrees(proto, [f32(3), f32(3, 4, seed=1), f32(4, 3, seed=2)], [f32(3), f32(3, 1, seed=1), f32(1, 3, seed=2)])


def test_scans_of_batches_have_lengths() -> None:
    """Scan-8, which no runtime here has: by the words of the standard."""
    proto = model("""(int64[2] lengths, float[2, 1] a, float[2, 3, 1] x) => (float last, float sums) {
        last, sums = Scan<num_scan_inputs = 1, body = body (float[1] s, float[1] p) => (float[1] t, float[1] u) {
            t = Add(s, p) u = Identity(t) }>(lengths, a, x) }""", opset=8)
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3, 1)
    net = isthmus.compile(proto, target="reference", verify_ir=True)
    last, sums = net(i64(3, 2), np.zeros((2, 1), np.float32), x).values()
    assert last.tolist() == [[6], [9]]
    assert sums[..., 0].tolist() == [[1, 3, 6], [4, 9, 0]]


def test_sequences_that_a_loop_carries() -> None:
    proto = model("""(int64 n, float[N, 3] x) => (float y, int64 count) <bool go = {1}, int64[1] zero = {0}> {
        empty = SequenceEmpty<dtype = 1>()
        items = Loop(n, go, empty) <body = body (int64 i, bool c, seq(float) s) => (bool keep, seq(float) t) {
            keep = Identity(c) one = Constant<value_int = 1>() e = Add(i, one) w = Unsqueeze(e, zero)
            part = Slice(x, zero, w) t = SequenceInsert(s, part) }>
        y = ConcatFromSequence<axis = 0>(items) count = SequenceLength(items) }""")
    agrees(proto, [np.int64(3), f32(4, 3)], [np.int64(1), f32(1, 3)])


@pytest.mark.parametrize("attributes", ["axis = 0", "axis = 1, keepdims = 0", "axis = -1, keepdims = 0"])
def test_splitting_and_stacking(attributes: str) -> None:
    agrees(model(f"""(float[N, 3] x) => (float y, int64 n) {{
        s = SplitToSequence<{attributes}>(x) n = SequenceLength(s) m = Constant<value_int = -1>()
        t = SequenceErase(s, m) u = SequenceInsert(t, x) y = SequenceAt(t, m) }}"""), [f32(4, 3)], [f32(2, 3)])


@pytest.mark.parametrize("parts", ["int64 p = {2}", "int64 p = {3}", "int64[2] p = {1, 3}"])
@pytest.mark.parametrize("size", ["4", "N"])
def test_splitting_by_sizes(parts: str, size: str) -> None:
    agrees(model(f"""(float[{size}, 3] x) => (float y, int64 n) <{parts}, int64 last = {{-1}}> {{
        s = SplitToSequence<axis = 0>(x, p) n = SequenceLength(s) y = SequenceAt(s, last) }}"""), [f32(4, 3)])


FUNCTIONS = """<ir_version: 10, opset_import: ["" : 18, "mine" : 1]> main (float[N] x) => (float[N] y, float[N] z)
    { y = mine.Twice<by = 3.0>(x) z = mine.Twice(y) }
    <opset_import: ["" : 18, "mine" : 1], domain: "mine"> Scaled<by>(a) => (b) {
        f = Constant<value_float: float = @by>() b = Mul(a, f) }
    <opset_import: ["" : 11, "mine" : 1], domain: "mine"> Twice<by: float = 2.0>(a) => (b) {
        t = mine.Scaled<by: float = @by>(a) u = Unsqueeze<axes = [0]>(t) s = Squeeze<axes = [0]>(u)
        c = Constant<value = bool {1}>() d = Identity(c)
        b = If(d) <then_branch = yes () => (float r) { r = mine.Scaled<by: float = @by>(s) },
                   else_branch = no () => (float q) { q = Identity(a) }>
    }"""


def test_functions_with_attributes_opsets_and_graphs_of_their_own() -> None:
    proto = onnx.parser.parse_model(FUNCTIONS)
    x = f32(3)
    for target in ("onnx", "reference"):
        net = isthmus.compile(proto, target=target, verify_ir=True)
        y, z = net(x).values()
        np.testing.assert_allclose(y, x * 9, rtol=1e-6)
        np.testing.assert_allclose(z, x * 36, rtol=1e-6)


def test_a_function_that_calls_itself_is_refused() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18, "mine" : 1]> main (float[N] x) => (float[N] y)
        { y = mine.A(x) }
        <opset_import: ["mine" : 1], domain: "mine"> A(a) => (b) { b = mine.B(a) }
        <opset_import: ["mine" : 1], domain: "mine"> B(a) => (b) { b = mine.A(a) }""")
    with pytest.raises(FileError, match="calls itself"):
        isthmus.compile(proto)


def test_functions_that_double_and_double_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "FEW", 100)
    monkeypatch.setattr(conversion, "MOST", 1000)
    functions = "\n".join(
        f'<opset_import: ["mine" : 1], domain: "mine"> F{n}(a) => (c) {{ b = mine.F{n + 1}(a) c = mine.F{n + 1}(b) }}'
        for n in range(40)
    )
    proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18, "mine" : 1]> main (float[N] x) => (float[N] y)
        {{ y = mine.F0(x) }} {functions}
        <opset_import: ["" : 18], domain: "mine"> F40(a) => (b) {{ b = Neg(a) }}""")
    with pytest.raises(FileError, match="more than"):
        isthmus.compile(proto)


def test_functions_in_functions_without_end_are_cut_short() -> None:
    functions = "\n".join(
        f'<opset_import: ["mine" : 1], domain: "mine"> F{n}(a) => (b) {{ b = mine.F{n + 1}(a) }}' for n in range(2000)
    )
    proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18, "mine" : 1]> main (float[N] x) => (float[N] y)
        {{ y = mine.F0(x) }} {functions}""")
    with pytest.raises(FileError, match="levels deep"):
        isthmus.compile(proto)


@pytest.mark.parametrize(("length", "options", "op"), [
    ("5", {}, "Scan"), ("5", {"opset": 8}, "Loop"), ("N", {}, "Loop"), ("N", {"keep_ops": True}, "Scan"),
    ("5", {"profile": "tensorrt-parser"}, "Loop"),
])  # fmt: skip
def test_what_turns_over_slices_is_a_scan_where_that_is_sure_to_run(length: str, options: dict[str, Any], op: str) -> None:
    """onnxruntime has no Scan over nothing, and the standard none before opset 9 without batches."""
    proto = model(f"""(float[{length}, M] x, float[M] s) => (float[M] t, float[{length}, M] y) {{
        t, y = Scan<num_scan_inputs = 1, body = turn (float[M] i, float[M] e) => (float[M] o, float[M] r) {{
            o = Add(i, e) r = Identity(o) }}>(s, x)
    }}""")
    net = isthmus.compile(proto, **options)
    assert net.artefact.op_counts[op] == 1  # type: ignore[attr-defined]
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    found = net(x, np.zeros(2, np.float32))
    np.testing.assert_array_equal(found["y"], np.cumsum(x, axis=0))
    np.testing.assert_array_equal(found["t"], x.sum(axis=0))
