"""Quantized models: every granularity and element type, and arithmetic on small integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx_models import agrees, f32, model, node, same, text

import isthmus

_F8 = ml_dtypes.float8_e4m3fn
TYPES = {"uint8": np.uint8, "int8": np.int8, "uint16": np.uint16, "int16": np.int16}


def _whole(*shape: int, dtype: Any = np.uint8, seed: int = 1) -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_to_integers_and_back(dtype: str, axis: int | None) -> None:
    opset = 21 if "16" in dtype else 13
    count = {None: 0, 0: 3, 1: 4, -1: 5}[axis]
    many = f"[{count}]" if count else ""
    way = f"axis = {axis}" if count else ""
    made = model(f"(float[3, 4, 5] x, float{many} s, {dtype}{many} z) => ({dtype} y, float back) "
                 f"{{ y = {node('QuantizeLinear', 'x, s, z', way)}  back = {node('DequantizeLinear', 'y, s, z', way)} }}",
                 opset)
    scale = np.random.default_rng(0).uniform(0.1, 0.9, (count,) if count else ()).astype(np.float32)
    agrees(made, [f32(3, 4, 5) * 50, scale, _whole(*scale.shape, dtype=TYPES[dtype])])


@pytest.mark.parametrize("size", [(6, 4), (7, 4)])
def test_blocks(size: tuple[int, int]) -> None:
    made = model("(float[N, 4] x, float[K, 4] s, int8[K, 4] z) => (int8 y, float back) "
                 "{ y = QuantizeLinear<axis = 0, block_size = 3>(x, s, z)  back = DequantizeLinear<axis = 0, block_size = "
                 "3>(y, s, z) }",
                 21)  # fmt: skip
    count = -(-size[0] // 3)
    scale = np.random.default_rng(0).uniform(0.1, 0.9, (count, 4)).astype(np.float32)
    agrees(made, [f32(*size) * 30, scale, _whole(count, 4, dtype=np.int8)])


def test_a_scale_for_all_may_be_a_vector_of_one() -> None:
    made = model("(float[N, 4] x, float[1] s, uint8[1] z) => (uint8 y) { y = QuantizeLinear(x, s, z) }", 13)
    agrees(made, [f32(3, 4) * 50, np.array([0.3], np.float32), np.array([100], np.uint8)])


def test_without_a_zero_point() -> None:
    made = model("(float[N] x, float s) => (uint8 y, int8 w, float z) { y = QuantizeLinear(x, s)  z = DequantizeLinear(y, s) "
                 "w = QuantizeLinear<output_dtype = 3>(x, s) }", 21)  # fmt: skip
    agrees(made, [f32(9) * 100, np.float32(0.5)])


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("number", [17, 19])
def test_small_floats(saturate: int, number: int) -> None:
    made = model(f"(float[N] x, float s) => (float z) {{ y = QuantizeLinear<output_dtype = {number}, saturate = "
            f"{saturate}>(x, s) "
                 "z = DequantizeLinear(y, s) }", 21)  # fmt: skip
    agrees(made, [np.array([0.3, 1000, -1e6, 1e9, 448, 57344, 70000], np.float32), np.float32(1)])


def test_the_product_is_in_the_type_that_is_asked_for() -> None:
    made = model("(int8[N] x, float16 s) => (float y, float16 z) { y = DequantizeLinear<output_dtype = 1>(x, s)  z = "
            "DequantizeLinear(x, s) }",
                 23)  # fmt: skip
    x, scale = _whole(9, dtype=np.int8), np.float16(0.1)
    wanted = x * np.float32(scale)
    for mine, theirs in zip(isthmus.compile(made, target="reference")(x, scale).values(), (wanted, wanted.astype(np.float16)),
            strict=True):
        same(mine, theirs)


def test_halves_are_rounded_to_even() -> None:
    made = model("(float[N] x, float s, int8 z) => (int8 y) { y = QuantizeLinear(x, s, z) }", 10)
    agrees(made, [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9, -1e9], np.float32), np.float32(1), np.int8(1)])


def test_a_range_is_found() -> None:
    made = model("(float[N, M] x) => (uint8 y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }", 11)
    assert "dynamic_quantize(" in text(made)
    agrees(made, [f32(3, 4)], [np.abs(f32(2, 5)) + 1], [np.zeros((2, 2), np.float32)])


@pytest.mark.parametrize(("left", "right"), [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
def test_products_of_integers(left: str, right: str) -> None:
    made = model(f"({left}[N, M, 4] x, {right}[4, 3] y, {left} a, {right} b) => (int32 z) {{ z = MatMulInteger(x, y, a, b) }}")
    x, y = _whole(2, 5, 4, dtype=TYPES[left]), _whole(4, 3, dtype=TYPES[right])
    agrees(made, [x, y, TYPES[left](7), TYPES[right](3)], [x[:, :1], y, TYPES[left](0), TYPES[right](100)])


def test_zero_points_of_rows_and_columns() -> None:
    made = model("(uint8[2, 3, 4] x, int8[4, 5] y, uint8[3] a, int8[5] b) => (int32 z) { z = MatMulInteger(x, y, a, b) }")
    x, y, a, b = _whole(2, 3, 4), _whole(4, 5, dtype=np.int8), _whole(3, seed=2), _whole(5, dtype=np.int8, seed=3)
    agrees(made, [x, y, a, b], wanted=[(x.astype(np.int32) - a[:, None]) @ (y.astype(np.int32) - b)])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantized_products(dtype: str) -> None:
    made = model(f"({dtype}[N, 4] x, float xs, {dtype} xz, {dtype}[4, 3] y, float[3] ys, {dtype}[3] yz, float s, {dtype} "
            f"z) => ({dtype} r) "
                 "{ r = QLinearMatMul(x, xs, xz, y, ys, yz, s, z) }")  # fmt: skip
    kind = TYPES[dtype]
    columns = np.array([0.01, 0.02, 0.03], np.float32)
    rest = [np.float32(0.02), kind(9), _whole(4, 3, dtype=kind), columns, _whole(3, dtype=kind, seed=2), np.float32(0.4),
            kind(20)]
    agrees(made, [_whole(5, 4, dtype=kind), *rest], [_whole(1, 4, dtype=kind), *rest])


@pytest.mark.parametrize("attributes", ["", "strides = [2, 1], pads = [1, 0, 1, 2]", "auto_pad = \"SAME_UPPER\", strides "
        "= [2, 2]"])
@pytest.mark.parametrize("bias", [False, True])
def test_quantized_convolutions(attributes: str, bias: bool) -> None:
    more = ", int32[3] b" if bias else ""
    made = model("(uint8[N, 2, H, W] x, float xs, uint8 xz, int8[3, 2, 2, 3] w, float[3] ws, int8[3] wz, float s, uint8 z"
                 f"{more}) => (uint8 y) {{ y = "
                 f"{node('QLinearConv', 'x, xs, xz, w, ws, wz, s, z' + (', b' if bias else ''), attributes)} }}")
    scales = np.array([0.01, 0.02, 0.03], np.float32)
    rest = [np.float32(0.02), np.uint8(120), _whole(3, 2, 2, 3, dtype=np.int8), scales, np.zeros(3, np.int8), np.float32(0.7),
            np.uint8(99)]
    rest += [np.array([500, -700, 30], np.int32)] * bias
    agrees(made, [_whole(1, 2, 5, 6), *rest], [_whole(2, 2, 4, 7), *rest])


@pytest.mark.parametrize("to", ["", "[2, 3, 1]"])
def test_quantized_products_of_scales_by_matrix(to: str) -> None:
    made = model(f"(uint8[2, 3, 4] x, float[2, 3, 1] xs, uint8[2, 3, 1] xz, uint8[2, 4, 5] y, float[2, 1, 5] ys, "
                 f"uint8[2, 1, 5] yz, float{to} s, uint8{to} z) => (uint8 r) {{ r = QLinearMatMul(x, xs, xz, y, ys, yz, "
                 f"s, z) }}",
                 21)  # fmt: skip
    draws = np.random.default_rng(0)
    x, y, x_zero, y_zero = _whole(2, 3, 4), _whole(2, 4, 5, seed=2), _whole(2, 3, 1, seed=3), _whole(2, 1, 5, seed=4)
    x_scale, y_scale = (draws.uniform(0.01, 0.1, shape).astype(np.float32) for shape in ((2, 3, 1), (2, 1, 5)))
    shape = (2, 3, 1) if to else ()
    scale, zero = np.full(shape, 0.7, np.float32), np.full(shape, 99, np.uint8)
    total = (x.astype(np.int64) - x_zero) @ (y.astype(np.int64) - y_zero)
    wanted = np.clip(np.rint(total * (x_scale * y_scale / scale)) + zero, 0, 255).astype(np.uint8)
    agrees(made, [x, x_scale, x_zero, y, y_scale, y_zero, scale, zero], wanted=[wanted])


def test_quantized_products_of_small_floats() -> None:
    made = model("(float[N, 4] x, float[4, 3] y, float s) => (float r) { a = Cast<to = 17>(x)  b = Cast<to = 17>(y)  z = "
            "Cast<to = 17>(n) "
                 "q = QLinearMatMul(a, s, z, b, s, z, s, z)  r = Cast<to = 1>(q) }".replace("(float[N", "(float n, float[N"),
                 21)
    x, y = np.array([[1, 2, -4, 0.5]], np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
    found = isthmus.compile(made, target="reference")(np.float32(0), x, y, np.float32(0.5))
    same(*found.values(), np.asarray((x @ y * 0.5), np.float32).astype(_F8).astype(np.float32))


def test_products_less_one_zero_or_one_for_each_row() -> None:
    made = model("(uint8[M, K] x, int8[K, N] y, uint8[A] a, int8[B] b) => (int32 z) { z = MatMulInteger(x, y, a, b) }")
    x, y = _whole(3, 4), _whole(4, 5, dtype=np.int8)
    for rows, columns in ((1, 1), (3, 5), (3, 1)):
        a, b = _whole(rows, seed=2), _whole(columns, dtype=np.int8, seed=3)
        wanted = (x.astype(np.int32) - a[:, None]) @ (y.astype(np.int32) - b)
        agrees(made, [x, y, a, b], wanted=[wanted])


def test_quantized_products_with_one_scale_or_one_for_each_row() -> None:
    made = model("(uint8[M, K] x, float[A] xs, uint8[C] xz, uint8[K, N] y, float[B] ys, uint8[D] yz, float[E] s, uint8[F] z) "
                 "=> (uint8 r) { r = QLinearMatMul(x, xs, xz, y, ys, yz, s, z) }", 21)  # fmt: skip
    x, y, draws = _whole(3, 4), _whole(4, 5, seed=2), np.random.default_rng(0)
    for rows, columns in ((1, 1), (3, 5)):
        x_scale, y_scale, scale = (draws.uniform(0.01, 0.1, n).astype(np.float32) for n in (rows, columns, rows))
        x_zero, y_zero, zero = _whole(rows, seed=3), _whole(columns, seed=4), _whole(rows, seed=5)
        total = (x.astype(np.int64) - x_zero[:, None]) @ (y.astype(np.int64) - y_zero)
        real = np.rint(total * (x_scale[:, None] * y_scale / scale[:, None])) + zero[:, None]
        feed = [x, x_scale, x_zero, y, y_scale, y_zero, scale, zero]
        agrees(made, feed, wanted=[np.clip(real, 0, 255).astype(np.uint8)])


def test_one_zero_for_all_that_a_convolution_takes() -> None:
    made = model("(uint8[N, 1, H, W] x, uint8[1, 1, 2, 2] w, uint8[A] a) => (int32 y) "
                 "{ y = ConvInteger<pads = [1, 1, 1, 1]>(x, w, a) }")  # fmt: skip
    agrees(made, [_whole(1, 1, 3, 4), _whole(1, 1, 2, 2), np.array([7], np.uint8)])


def test_one_scale_or_one_for_each_channel() -> None:
    made = model("(float[N, C] x, float[A] s, uint8[B] z) => (float y) { q = QuantizeLinear(x, s, z) "
                 "y = DequantizeLinear(q, s, z) }", 21)  # fmt: skip
    for count in (1, 3):
        scale, zero = np.linspace(0.01, 0.03, count, dtype=np.float32), _whole(count)
        x = f32(2, 3)
        wanted = (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale
        agrees(made, [x, scale, zero], wanted=[wanted.astype(np.float32)])
