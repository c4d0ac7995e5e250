"""Convolutions: what their attributes leave open, sizes that only a run tells, and the forms of old opsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import agrees, f32, i64, imported, model, node, same, text

import isthmus
from isthmus.errors import FileError

OTHER = [(1, 4, 9, 8), (2, 4, 6, 11), (3, 4, 7, 7)]
"""Sizes of images; none may be told from the others."""


def _u8(*shape: int, dtype: Any = np.uint8) -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng(1).integers(info.min, info.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("opset", [7, 11, 22])
@pytest.mark.parametrize("attributes", [
    "", "strides = [2, 3], pads = [1, 0, 2, 1]", "auto_pad = \"VALID\", strides = [2, 1]", "auto_pad = \"SAME_UPPER\"",
    "auto_pad = \"SAME_LOWER\", group = 2", "auto_pad = \"SAME_UPPER\", strides = [2, 3]",
    "auto_pad = \"SAME_LOWER\", strides = [3, 2]", "group = 2, kernel_shape = [3, 2]",
])  # fmt: skip
def test_conv(opset: int, attributes: str) -> None:
    channels = 2 if "group" in attributes else 4
    made = model(f"(float[N, 4, H, W] x, float[6, {channels}, 3, 2] w, float[6] b) => (float y) "
                 f"{{ y = {node('Conv', 'x, w, b', attributes)} }}", opset)  # fmt: skip
    agrees(made, *([f32(*shape), f32(6, channels, 3, 2), f32(6)] for shape in OTHER))


def test_windows_fit_into_what_they_slide_over() -> None:
    """A size of which three windows of three leave two more at least, so that what is cut off there is a part of it."""
    proto = model("(float[N, 1, H] x, float[1, 1, 3] w) => (float y) {"
                  " a = Conv(x, w) b = MaxPool<kernel_shape = [3]>(a) c = AveragePool<kernel_shape = [3]>(b)"
                  " s = Shape<start = 2>(c) t = Constant<value_ints = [0]>() u = Constant<value_ints = [2]>()"
                  " d = Slice(a, t, s, u) y = Add(c, d) }")  # fmt: skip
    graph = imported(proto)
    assert graph.symbols.by_name["H"].lo == 6
    assert str(graph.outputs[0].tensor.shape) == "(N, 1, H - 6)"
    assert not graph.symbols.assumptions
    agrees(proto, *([f32(*shape), f32(1, 1, 3)] for shape in ((1, 1, 7), (2, 1, 9))))


def test_same_padding_of_a_stride_of_one_stays_with_the_conv() -> None:
    assert "pad(" not in text(model("(float[N, 1, H] x, float[2, 1, 3] w) => (float y) { y = Conv<auto_pad = "
            "\"SAME_LOWER\">(x, w) }"))


@pytest.mark.parametrize("attributes", [
    "", "strides = [2, 3], pads = [1, 0, 1, 1], output_padding = [1, 2]", "auto_pad = \"SAME_UPPER\", strides = [2, 3]",
    "auto_pad = \"SAME_LOWER\", strides = [2, 2]", "auto_pad = \"VALID\", group = 2", "dilations = [2, 1], group = 2",
])  # fmt: skip
@pytest.mark.parametrize("opset", [7, 11, 22])
def test_conv_transpose(opset: int, attributes: str) -> None:
    made = model(f"(float[N, 4, H, W] x, float[4, 3, 3, 2] w, float[B] b) => (float y) "
                 f"{{ y = {node('ConvTranspose', 'x, w, b', attributes)} }}", opset)  # fmt: skip
    bias = f32(6 if "group" in attributes else 3)
    agrees(made, *([f32(*shape), f32(4, 3, 3, 2), bias] for shape in ((1, 4, 3, 5), (2, 4, 4, 3))))


def test_conv_transpose_by_a_kernel_of_open_size() -> None:
    made = model("(float[N, 2, L] x, float[2, 1, K] w) => (float y) "
                 "{ y = ConvTranspose<auto_pad = \"SAME_UPPER\", strides = [2]>(x, w) }")  # fmt: skip
    agrees(made, *([f32(1, 2, 4), f32(2, 1, kernel)] for kernel in (2, 3, 5)))


@pytest.mark.parametrize(("size", "wanted"), [("3, 4", [7, 9]), ("3, 4", [6, 8]), ("3, 4", [8, 10]), ("H, W", [6, 8])])
@pytest.mark.parametrize("auto", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_conv_transpose_to_a_shape(size: str, wanted: list[int], auto: str) -> None:
    made = model(f"(float[N, 2, {size}] x, float[2, 3, 3, 3] w) => (float y) "
                 f"{{ y = ConvTranspose<strides = [2, 2], output_shape = {wanted}, auto_pad = \"{auto}\">(x, w) }}")
    agrees(made, [f32(1, 2, 3, 4), f32(2, 3, 3, 3)])


def test_conv_transpose_to_a_shape_wider_than_it_reaches_has_its_bias_everywhere() -> None:
    made = model("""(float[N, 1, L] x, float[1, 1, 2] w, float[1] b) => (float y) {
        y = ConvTranspose<strides = [2], output_shape = [9]>(x, w, b)
    }""")
    agrees(made, [np.ones((1, 1, 3), np.float32), np.ones((1, 1, 2), np.float32), f32(1)],
           wanted=[np.array([[[1, 1, 1, 1, 1, 1, 0, 0, 0]]], np.float32) + f32(1)])  # fmt: skip


@pytest.mark.parametrize("attributes", ["", "strides = [2, 1], pads = [1, 0, 1, 2]", "auto_pad = \"SAME_UPPER\", "
        "strides = [2, 2]"])
def test_conv_integer(attributes: str) -> None:
    made = model(f"(uint8[N, 2, H, W] x, uint8[3, 2, 3, 2] w, uint8 a, uint8 b) => (int32 y) "
                 f"{{ y = {node('ConvInteger', 'x, w, a, b', attributes)} }}")  # fmt: skip
    agrees(made, *([_u8(*shape), _u8(3, 2, 3, 2), np.uint8(120), np.uint8(7)] for shape in ((1, 2, 5, 6), (2, 2, 7, 4))))


def test_conv_integer_of_signed_numbers_and_zero_points_by_output() -> None:
    made = model("(int8[1, 2, 4, 4] x, int8[3, 2, 2, 2] w, int8 a, int8[3] b) => (int32 y) { y = ConvInteger(x, w, a, b) }")
    x, w, a, b = _u8(1, 2, 4, 4, dtype=np.int8), _u8(3, 2, 2, 2, dtype=np.int8), np.int8(-5), np.array([1, -2, 3], np.int8)
    left, right = x.astype(np.int32) - a, w.astype(np.int32) - b.reshape(3, 1, 1, 1).astype(np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(left, (2, 2), (2, 3))
    agrees(made, [x, w, a, b], targets=("reference",), wanted=[np.einsum("nchwij,ocij->nohw", windows, right)])


def test_deform_conv() -> None:
    made = model("""(float[N, 4, H, W] x, float[4, 2, 3, 3] w, float[N, 36, H, W] o, float[4] b,
                    float[N, 18, H, W] m) => (float y) {
        y = DeformConv<pads = [1, 1, 1, 1], group = 2, offset_group = 2>(x, w, o, b, m)
    }""", 19)
    for size in ((2, 5, 6), (1, 7, 4)):
        n, h, w = size
        agrees(made, [f32(n, 4, h, w), f32(4, 2, 3, 3), f32(n, 36, h, w, seed=1), f32(4), f32(n, 18, h, w, seed=2)])


def test_col2im() -> None:
    made = model("""(float[N, 12, L] x) => (float y) <int64[2] image = {5, 6}, int64[2] block = {2, 3}> {
        y = Col2Im<strides = [2, 1], pads = [1, 0, 0, 1]>(x, image, block)
    }""")
    agrees(made, [f32(2, 12, 15)], [f32(1, 12, 15)])
    net = isthmus.compile(model("(float[N, C, L] x, int64[2] image) => (float y) <int64[2] block = {1, 5}> { y = "
            "Col2Im(x, image, block) }"),
                          target="reference")  # fmt: skip
    x = f32(1, 5, 5)
    same(*net(x, i64(5, 5)).values(), x.transpose(0, 2, 1).reshape(1, 1, 5, 5))


@pytest.mark.parametrize(("attributes", "words"), [
    ("strides = [1]", "do not fit"), ("pads = [1, 1]", "do not fit"), ("auto_pad = \"SAME\"", "there is no auto_pad SAME"),
    ("kernel_shape = [3]", "is not that of the weight"), ("group = 3", "the channels of x and weight"),
])  # fmt: skip
def test_what_breaks_the_standard(attributes: str, words: str) -> None:
    made = model(f"(float[1, 4, 5, 5] x, float[6, 4, 3, 2] w) => (float y) {{ y = {node('Conv', 'x, w', attributes)} }}")
    with pytest.raises(FileError, match=words):
        isthmus.compile(made, target="reference")


@pytest.mark.parametrize("sizes", [
    "[2, 3, 5] x, float[3, 1, 4] w", "[N, 3, T] x, float[3, 1, K] w", "[N, C, T] x, float[D, E, K] w",
])  # fmt: skip
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_windows_that_end_at_each_place(sizes: str, state: bool, activation: str) -> None:
    shape = "[2, 3, 3]" if "2" in sizes else "[N, 3, P]" if "3" in sizes else "[N, C, P]"
    more = f", float[{3 if '3' in sizes else 'B'}] b, float{shape} p" if state else ""
    call = node("CausalConvWithState", f"x, w{', b, p' if state else ''}", f'activation = "{activation}"')
    made = model(f"(float{sizes}{more}) => (float y, float s) {{ y, s = {call} }}", 27)
    for batch, time, size in ((2, 5, 4), *(() if "2" in sizes else ((1, 2, 4), (3, 7, 1 if state else 2)))):
        x, weight, bias, before = f32(batch, 3, time), f32(3, 1, size, seed=1), f32(3, seed=2), f32(batch, 3, size - 1, seed=3)
        whole = np.concatenate([before if state else np.zeros_like(before), x], 2)
        found = (np.lib.stride_tricks.sliding_window_view(whole, size, 2) * weight).sum(-1) + (bias[:, None] if state else 0)
        found = found / (1 + np.exp(-found)) if activation == "silu" else found
        agrees(made, [x, weight, *[bias, before] * state], wanted=[found.astype(np.float32), whole[:, :, time:]])
