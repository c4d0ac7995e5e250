"""Files with bytes that are wrong: an error that says so, or a model; nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from google.protobuf.message import DecodeError
from loading import module
from onnx_models import model

import isthmus
from isthmus.errors import FileError, IsthmusError, UnsupportedError
from isthmus.frontends.onnx.importing import import_model

MODELS = {
    "loop": """(int64 n, bool go, float[N, 3] x) => (float y, float z) <float[1] one = {1}, int64[1] zero = {0}> {
        y, z = Loop(n, go, x) <body = body (int64 i, bool c, float[N, 3] v) => (bool keep, float[N, 3] t, float[N, 3] s) {
            keep = Identity(c) t = Add(v, one) s = Slice(t, zero, one) }> }""",
    "if": """(bool c, float[N, M] x) => (float y) <int64[2] s = {3, -1}> {
        y = If(c) <then_branch = yes () => (float t) { t = Reshape(x, s) },
                   else_branch = no () => (float e) { e = Transpose<perm = [1, 0]>(x) }> }""",
    "scan": """(float[3] a, float[3, N] x) => (float last, float rows) {
        last, rows = Scan<num_scan_inputs = 1, scan_input_axes = [1],
            body = body (float[3] s, float[3] p) => (float[3] t, float[3] u) { t = Add(s, p) u = Identity(t) }>(a, x) }""",
    "sequence": """(float[N, 3] x) => (float y) <int64 p = {2}, int64 last = {-1}> {
        s = SplitToSequence<axis = 0>(x, p) t = SequenceInsert(s, x) y = ConcatFromSequence<axis = 0>(t) }""",
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_wrong_bytes(name: str) -> None:
    content = model(MODELS[name]).SerializeToString()
    draws = random.Random(0)
    read = refused = 0
    for _ in range(400):
        found = bytearray(content)
        for _ in range(draws.randint(1, 3)):
            found[draws.randrange(len(found))] ^= 1 << draws.randrange(8)
        try:
            proto = onnx.ModelProto.FromString(bytes(found))
        except DecodeError:
            continue
        try:
            import_model(proto)
            read += 1
        except IsthmusError:
            refused += 1
    assert read > 5
    assert refused > 50


@pytest.mark.parametrize("name", MODELS)
def test_changed_models(name: str) -> None:
    """Thousands more are tried by ``fuzz.py``."""
    fuzz = module(Path(__file__).parent / "fuzz.py")
    proto = model(MODELS[name])
    for seed in range(15):
        draws = random.Random(seed)
        assert fuzz.outcome(fuzz.changed(proto, draws), draws) in fuzz.OUTCOMES


def test_an_attribute_of_another_kind() -> None:
    proto = model("(float[2, 3] x) => (float y) { y = Concat<axis = 1.0>(x, x) }")
    with pytest.raises(FileError, match="the attribute axis is of another kind"):
        import_model(proto)


def test_a_name_that_is_no_text() -> None:
    content = model("(float[2, 3] x) => (float y) { name = Neg(x) y = Neg(name) }").SerializeToString()
    with pytest.raises(FileError, match=r"the name b'.*ame' is no text"):
        import_model(onnx.ModelProto.FromString(content.replace(b"name", b"\xffame")))


def test_an_opset_that_is_none() -> None:
    proto = model("(float[2, 3] x) => (float y) { y = Neg(x) }")
    proto.opset_import[0].version = 1 << 40
    with pytest.raises(FileError, match=r"the domain ai\.onnx has the version"):
        import_model(proto)


@pytest.mark.parametrize(("opset", "call"), [(6, "Erf<axis = 1>(x)"), (99, "OfTheFuture(x)")])
def test_a_foreign_node_of_an_opset_that_is_not_written(opset: int, call: str) -> None:
    proto = model(f"(float[2, 3] x) => (float[2, 3] y) {{ y = {call} }}")
    proto.opset_import[0].version = opset
    with pytest.raises(IsthmusError, match=f"opset {opset}, and models are written at opset 7 to "):
        isthmus.compile(proto, target="reference")


def test_a_sequence_of_what_the_runtime_has_no_kernel_for() -> None:
    with pytest.raises(UnsupportedError, match="no kernel for SplitToSequence-11 on u8"):
        isthmus.compile(model("(uint8[6] x) => (seq(uint8) y) { y = SplitToSequence<axis = 0, keepdims = 0>(x) }"))
