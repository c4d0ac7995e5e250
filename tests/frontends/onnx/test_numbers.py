"""Constants, casts, random numbers, products, and arithmetic of old opsets."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx_models import agrees, f32, i64, imported, model, same, text

import isthmus
from isthmus.errors import FileError

# ---- constants


@pytest.mark.parametrize(("attribute", "wanted"), [
    ("value = float[2] {1, 2}", np.array([1, 2], np.float32)), ("value_float = 1.5", np.float32(1.5)),
    ("value_floats = [1.5, 2.5]", np.array([1.5, 2.5], np.float32)), ("value_int = 3", np.int64(3)),
    ("value_ints = [3, -4]", i64(3, -4)), ("value_string = \"a\"", np.array("a", object)),
    ("value_strings = [\"a\", \"bc\"]", np.array(["a", "bc"], object)),
])  # fmt: skip
def test_constants_of_every_form(attribute: str, wanted: Any) -> None:
    proto = model(f"() => (float y) {{ y = Constant<{attribute}>() }}")
    proto.graph.output[0].type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(wanted.dtype)
    agrees(proto, [], wanted=[wanted])


def test_a_sparse_constant() -> None:
    values = onnx.helper.make_tensor("v", TensorProto.FLOAT, [2], [5, 7])
    places = onnx.helper.make_tensor("i", TensorProto.INT64, [2, 2], [0, 1, 1, 2])
    proto = model("() => (float y) { y = Constant<value_int = 1>() }")
    (attribute,) = proto.graph.node[0].attribute
    attribute.CopyFrom(onnx.helper.make_attribute("sparse_value", onnx.helper.make_sparse_tensor(values, places, [2, 3])))
    agrees(proto, [], wanted=[np.array([[0, 5, 0], [0, 0, 7]], np.float32)])


def test_constants_that_are_none_are_told() -> None:
    for attributes in ("", "<value_int = 1, value_float = 2.0>"):
        with pytest.raises(FileError, match="contents"):
            imported(model(f"() => (float y) {{ y = Constant{attributes}() }}"))


def test_one_number_everywhere() -> None:
    agrees(model("(float[N, 3] x) => (float y) { s = Shape(x) y = ConstantOfShape(s) }"), [f32(2, 3)], [f32(0, 3)])
    agrees(model("(int64[2] s) => (int64 y) { y = ConstantOfShape<value = int64[1] {7}>(s) }"), [i64(2, 3)], [i64(0, 3)])
    agrees(model("(int64[0] s) => (float y) { y = ConstantOfShape(s) }"), [i64()])


@pytest.mark.parametrize("k", [-1, 0, 2, 9])
def test_ones_on_a_diagonal(k: int) -> None:
    agrees(model(f"(float[N, M] x) => (float y, int64 z) {{ y = EyeLike<k = {k}>(x) z = EyeLike<k = {k}, dtype = 7>(x) }}"),
           [f32(3, 4)])  # fmt: skip


def test_ranges() -> None:
    data = model("(int64 a, int64 b, int64 c) => (int64 y) { y = Range(a, b, c) }")
    agrees(data, *([np.int64(each) for each in ends] for ends in ((0, 5, 2), (5, -1, -2), (3, 3, 1))))
    agrees(model("(float a, float b, float c) => (float y) { y = Range(a, b, c) }"),
           [np.float32(1), np.float32(2), np.float32(0.25)])  # fmt: skip
    proto = model("""(float[N, 3] x) => (int64 y) <int64 zero = {0}, int64 one = {1}> {
        s = Shape(x)
        n = Gather(s, zero)
        y = Range(zero, n, one)
    }""")
    assert "arange() {stop=N}" in text(proto)
    agrees(proto, [f32(4, 3)], [f32(0, 3)])


# ---- casts


@pytest.mark.parametrize("target", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_small_floats_saturate_unless_told_otherwise(target: str, saturate: int) -> None:
    number = int(getattr(TensorProto, target))
    proto = model(f"(float[N] x) => (float y) {{ s = Cast<to = {number}, saturate = {saturate}>(x) y = Cast<to = 1>(s) }}", 19)
    agrees(proto, [np.array([0.3, -1e6, 1e6, np.inf, -np.inf, np.nan, 460, -0.0], np.float32)])


def test_texts_are_written_as_onnxruntime_does() -> None:
    proto = model("(float[N] x, double[N] d, int32[N] i) => (string a, string b, string c)"
                  " { a = Cast<to = 8>(x) b = Cast<to = 8>(d) c = Cast<to = 8>(i) }")  # fmt: skip
    x = np.array([0.1, 1e10, -2.5, np.inf, -np.inf, np.nan, 1 / 3], np.float32)
    agrees(proto, [x, x.astype(np.float64) / 3, np.arange(7, dtype=np.int32) - 3])
    proto = model("(string[N] x) => (float y) { y = Cast<to = 1>(x) }")
    agrees(proto, [np.array(["1.5", "-INF", "1e3", "NaN"], object)])
    agrees(model("(string[N] x) => (int64 y) { y = Cast<to = 7>(x) }"), [np.array(["15", "-3"], object)])


@pytest.mark.parametrize("kind", ["uint4", "int4", "int2", "uint2"])
def test_integers_of_few_bits(kind: str) -> None:
    number, opset = int(getattr(TensorProto, kind.upper())), 25
    proto = model(f"(float[N] x) => (float y) {{ s = Cast<to = {number}>(x) y = Cast<to = 1>(s) }}", opset)
    agrees(proto, [np.array([0, 1, 1, 0], np.float32)])


def test_casts_of_opset_1() -> None:
    agrees(model("(float[N] x) => (int64 y) { y = Cast<to = \"INT64\">(x) }", 5), [f32(3) * 9],
           wanted=[(f32(3) * 9).astype(np.int64)])  # fmt: skip
    with pytest.raises(FileError, match="no element type"):
        imported(model("(float[N] x) => (int64 y) { y = Cast<to = \"NUMBER\">(x) }", 5))


def test_bits_as_another_type() -> None:
    proto = model("(float[N] x) => (int32 y, uint32 z) { y = BitCast<to = 6>(x) z = BitCast<to = 12>(y) }", 26)
    agrees(proto, [f32(3)], wanted=[f32(3).view(np.int32), f32(3).view(np.uint32)])


# ---- random numbers


def test_a_seed_is_kept() -> None:
    proto = model("(float[N, 3] x) => (float y, float z)"
                  " { y = RandomUniformLike<seed = 3.0>(x) z = RandomNormal<shape = [4]>() }")  # fmt: skip
    written = text(proto)
    assert "random_uniform() {shape=[N, 3], dtype=f32, seed=3.0}" in written
    assert "random_normal() {shape=[4], dtype=f32}" in written
    net = isthmus.compile(proto)
    (seed,) = [each.f for node in net.artefact.model.graph.node for each in node.attribute if each.name == "seed"]  # type: ignore[attr-defined]
    assert seed == 3
    reference = isthmus.compile(proto, target="reference")
    x = f32(2, 3)
    same(reference(x)["y"], reference(x)["y"])
    assert not np.array_equal(reference(x)["z"], reference(x)["z"])


@pytest.mark.parametrize("target", ["reference", "onnx"])
def test_classes_are_drawn_as_often_as_told(target: str) -> None:
    proto = model("(float[B, 3] x) => (int64 y) { y = Multinomial<sample_size = 4000, dtype = 7>(x) }")
    found = isthmus.compile(proto, target=target)(np.log(np.array([[0.1, 0.2, 0.7], [1, 1e-30, 1e-30]], np.float32)))["y"]
    assert (found.dtype, found.shape) == (np.int64, (2, 4000))
    np.testing.assert_allclose(np.bincount(found[0], minlength=3) / 4000, [0.1, 0.2, 0.7], atol=0.05)
    assert not found[1].any()


def test_bernoulli_of_certainties() -> None:
    proto = model("(float[N] p) => (int64 y) { y = Bernoulli<dtype = 7>(p) }")
    agrees(proto, [np.array([0, 1, 1], np.float32)], wanted=[i64(0, 1, 1)])


def test_dropout_at_inference() -> None:
    agrees(model("(float[N] x) => (float y, bool m) { y, m = Dropout(x) }"), [f32(3)])
    agrees(model("(float[N] x) => (float y) <float r = {0.9}, bool t = {0}> { y = Dropout(x, r, t) }"), [f32(3)])
    agrees(model("(float[N] x) => (float y, float m) { y, m = Dropout<ratio = 0.9>(x) }", 7), [f32(3)],
           wanted=[f32(3), np.ones(3, np.float32)])  # fmt: skip
    agrees(model("(float[N] x) => (float y) { y = Dropout<is_test = 1>(x) }", 6), [f32(3)], wanted=[f32(3)])
    agrees(model("(float[N] x, bool t) => (float y, bool m) <float r = {0.5}> { y, m = Dropout(x, r, t) }"),
           [f32(3), np.array(False)])  # fmt: skip


@pytest.mark.parametrize("source", [
    ("(float[N] x) => (float y, bool m) <float r = {0.25}, bool t = {1}> { y, m = Dropout(x, r, t) }", 18),
    ("(float[N] x) => (float y, float m) { y, m = Dropout<ratio = 0.25>(x) }", 6),
])
def test_dropout_in_training(source: tuple[str, int]) -> None:
    x = np.ones(4000, np.float32)
    found = isthmus.compile(model(*source), target="reference")(x)
    kept = found["m"].astype(bool)
    assert 0.7 < kept.mean() < 0.8
    same(found["y"], np.where(kept, x / np.float32(0.75), 0).astype(np.float32))


# ---- products


@pytest.mark.parametrize(("flags", "a", "b"), [
    ("", "N, 3", "3, 4"), ("transB = 1", "N, 3", "4, 3"), ("transA = 1, alpha = 0.5", "3, N", "3, 4"),
    ("transA = 1, transB = 1, beta = 2.0", "3, N", "4, 3"), ("beta = 0.0", "N, 3", "3, 4"),
])  # fmt: skip
@pytest.mark.parametrize("c", ["", "4", "1, 4", "N, 4", "1, 1", "N, 1"])
def test_gemm(flags: str, a: str, b: str, c: str) -> None:
    attributes = f"<{flags}>" if flags else ""
    extra = f", float[{c}] c" if c else ""
    proto = model(f"(float[{a}] a, float[{b}] b{extra}) => (float y) {{ y = Gemm{attributes}(a, b{', c' if c else ''}) }}")
    feeds = [f32(*(int(d) if d != "N" else 2 for d in each.split(", ")), seed=seed)
             for seed, each in enumerate([a, b, *([c] if c else [])])]  # fmt: skip
    agrees(proto, feeds)


def test_a_gemm_with_a_bias_is_a_linear_layer() -> None:
    proto = model("(float[N, 3] x) => (float y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[2] b = {7, 8}>"
                  " { y = Gemm<transB = 1>(x, w, b) }")  # fmt: skip
    assert "= linear(%x, %w, %b)" in text(proto)
    old = model("(float[N, 3] x, float[3, 2] w, float[2] b) => (float y) { y = Gemm<broadcast = 1>(x, w, b) }", 6)
    agrees(old, [f32(4, 3), f32(3, 2), f32(2)], wanted=[f32(4, 3) @ f32(3, 2) + f32(2)])


def test_products_and_determinants() -> None:
    agrees(model("(float[B, N, 3] x, float[3, M] y) => (float z) { z = MatMul(x, y) }"), [f32(2, 3, 3), f32(3, 4)])
    agrees(model("(int64[N, 3] x, int64[3] y) => (int64 z) { z = MatMul(x, y) }"), [np.arange(6).reshape(2, 3), i64(1, 2, 3)])
    agrees(model("(float[B, N, N] x) => (float y) { y = Det(x) }"), [f32(2, 3, 3)])
    agrees(model("(float[B, I, J] x, float[B, J, K] y) => (float z) { z = Einsum<equation = \"bij, bjk -> bk\">(x, y) }"),
           [f32(2, 3, 4), f32(2, 4, 5)])  # fmt: skip
    agrees(model("(float[B, I, I] x) => (float z) { z = Einsum<equation = \"...ii->...i\">(x) }"), [f32(2, 3, 3)])


# ---- arithmetic


def test_broadcasting_of_old_opsets() -> None:
    x, y = f32(2, 3, 4), f32(3)
    proto = model("(float[2, 3, 4] x, float[3] y) => (float z) { z = Add<broadcast = 1, axis = 1>(x, y) }", 6)
    agrees(proto, [x, y], wanted=[x + y[:, None]])
    proto = model("(float[2, 3, 4] x, float[4] y) => (float z) { z = Mul<broadcast = 1>(x, y) }", 6)
    agrees(proto, [x, f32(4)], wanted=[x * f32(4)])


def test_clips() -> None:
    agrees(model("(float[N] x, float hi) => (float y) { y = Clip(x, , hi) }"), [f32(5), np.float32(0.1)])
    agrees(model("(float[N] x) => (float y) { y = Clip<min = -0.5, max = 0.5>(x) }", 9), [f32(5)])
    agrees(model("(float[N] x) => (float y) { y = Clip<max = 0.5>(x) }", 5), [f32(5)],
           wanted=[np.minimum(f32(5), np.float32(0.5))])  # fmt: skip
    agrees(model("(int64[N] x) => (int64 y) <int64 lo = {3}, int64 hi = {1}> { y = Clip(x, lo, hi) }"), [i64(0, 2, 5)])


@pytest.mark.parametrize("dtype", [
    "float16", "double", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
])  # fmt: skip
def test_arithmetic_in_every_type(dtype: str) -> None:
    kind = np.dtype({"double": "float64"}.get(dtype, dtype))
    x, y = np.array([7, 5, 9, 3]).astype(kind), np.array([2, 5, 4, 1]).astype(kind)
    names = ["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"]
    wanted = [x + y, x - y, x * y, x // y if kind.kind in "iu" else x / y, np.maximum(x, y), np.minimum(x, y), x**y]
    for name, result in zip(names, wanted, strict=True):
        agrees(model(f"({dtype}[N] x, {dtype}[N] y) => ({dtype} z) {{ z = {name}(x, y) }}"), [x, y], wanted=[result])


def test_the_power_has_the_type_of_the_base() -> None:
    agrees(model("(float[N] x, int32[N] y) => (float z) { z = Pow(x, y) }"), [f32(3), np.array([2, 3, -1], np.int32)])
    agrees(model("(int32[N] x, float[N] y) => (int32 z) { z = Pow(x, y) }"),
           [np.array([2, 3, 4], np.int32), np.array([2, 0.5, 1.5], np.float32)])  # fmt: skip


@pytest.mark.parametrize("attributes", [
    "detect_negative = 0", "detect_positive = 0", "detect_negative = 0, detect_positive = 0",
])  # fmt: skip
def test_infinities(attributes: str) -> None:
    proto = model(f"(float[N] x) => (bool y) {{ y = IsInf<{attributes}>(x) }}")
    agrees(proto, [np.array([1, np.inf, -np.inf, np.nan], np.float32)])


def test_shifts() -> None:
    for direction, wanted in (("LEFT", np.array([16, 6], np.uint8)), ("RIGHT", np.array([1, 1], np.uint8))):
        proto = model(f"(uint8[N] x, uint8[N] y) => (uint8 z) {{ z = BitShift<direction = \"{direction}\">(x, y) }}")
        agrees(proto, [np.array([4, 3], np.uint8), np.array([2, 1], np.uint8)], wanted=[wanted])


def test_remainders() -> None:
    agrees(model("(int64[N] x, int64[N] y) => (int64 z, int64 w) { z = Mod(x, y) w = Mod<fmod = 1>(x, y) }"),
           [i64(-7, 7, -7, 7), i64(2, -2, -2, 2)])  # fmt: skip
    agrees(model("(bfloat16[N] x) => (bfloat16 z) { z = Add(x, x) }"), [f32(3).astype(ml_dtypes.bfloat16)],
           wanted=[(f32(3).astype(ml_dtypes.bfloat16) * 2)])  # fmt: skip
