"""Pools: windows rounded up, padding that depends on sizes, indices, and the forms of old opsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import agrees, f32, model, node, same, text

import isthmus
from isthmus.errors import UnsupportedError

SHAPES = [(1, 2, 7, 9), (2, 2, 6, 8), (1, 2, 5, 12)]
WINDOWS = [
    "kernel_shape = [3, 2]", "kernel_shape = [3, 2], strides = [2, 3], pads = [1, 0, 1, 1]",
    "kernel_shape = [2, 3], auto_pad = \"VALID\", strides = [2, 2]", "kernel_shape = [3, 3], auto_pad = \"SAME_UPPER\"",
    "kernel_shape = [3, 2], auto_pad = \"SAME_LOWER\", strides = [2, 2]",
    "kernel_shape = [2, 4], auto_pad = \"SAME_UPPER\", strides = [2, 3]",
]  # fmt: skip


@pytest.mark.parametrize("opset", [7, 8, 10, 12, 22])
@pytest.mark.parametrize("attributes", WINDOWS)
def test_max_pool(opset: int, attributes: str) -> None:
    made = model(f"(float[N, 2, H, W] x) => (float y) {{ y = {node('MaxPool', 'x', attributes)} }}", opset)
    agrees(made, *([f32(*shape)] for shape in SHAPES))


@pytest.mark.parametrize("opset", [7, 10, 11, 19, 22])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("attributes", WINDOWS)
def test_average_pool(opset: int, include: int, attributes: str) -> None:
    attributes = f"{attributes}, count_include_pad = {include}"
    made = model(f"(float[N, 2, H, W] x) => (float y) {{ y = {node('AveragePool', 'x', attributes)} }}", opset)
    agrees(made, *([f32(*shape)] for shape in SHAPES[: 1 if "SAME" in attributes and include else None]))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("window", ["kernel_shape = [3, 3], strides = [2, 2]", "kernel_shape = [2, 3], strides = [3, 2], "
        "pads = [1, 1, 1, 1]"])
def test_rounded_up(op: str, window: str) -> None:
    made = model(f"(float[N, 2, H, W] x) => (float y) {{ y = {node(op, 'x', window + ', ceil_mode = 1')} }}", 22)
    agrees(made, [f32(1, 2, 8, 8)], [f32(1, 2, 6, 5)], targets=("reference",))
    fixed = model(f"(float[N, 2, 6, 7] x) => (float y) {{ y = {node(op, 'x', window + ', ceil_mode = 1')} }}", 22)
    agrees(fixed, [f32(1, 2, 6, 7)])


@pytest.mark.parametrize("sizes", ["H, 4", "4, W", "H, W"])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_rounded_up_along_axes_of_which_one_is_known(op: str, sizes: str) -> None:
    window = "kernel_shape = [2, 2], pads = [1, 0, 0, 1], strides = [2, 2], ceil_mode = 1"
    made = model(f"(float[1, 1, {sizes}] x) => (float y) {{ y = {node(op, 'x', window)} }}", 18)
    agrees(made, [f32(1, 1, 4, 4)], *([f32(1, 1, *(4 if n == "4" else 7 for n in sizes.split(", ")))],))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("more", ["", ", pads = [1, 2, 1, 1]", ", strides = [2, 1], ceil_mode = 1"])
def test_dilated(op: str, more: str) -> None:
    made = model(f"(float[N, 2, H, W] x) => (float y) {{ y = "
            f"{node(op, 'x', 'kernel_shape = [2, 3], dilations = [2, 2]' + more)} }}", 19)
    agrees(made, *([f32(*shape)] for shape in SHAPES))


def test_dilated_padding_that_counts() -> None:
    window = "kernel_shape = [2, 3], dilations = [2, 2], pads = [1, 1, 1, 1], count_include_pad = 1"
    agrees(model(f"(float[N, 2, H, W] x) => (float y) {{ y = {node('AveragePool', 'x', window)} }}", 19),
            *([f32(*s)] for s in SHAPES))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 6), (1, 2, 4, 3, 5)])
def test_indices(order: int, shape: tuple[int, ...]) -> None:
    count = len(shape) - 2
    window = f"kernel_shape = {[2] * count}, strides = {[2] * count}, storage_order = {order}"
    sizes = ", ".join(["N", "C", "H", "W", "D"][: len(shape)])
    made = model(f"(float[{sizes}] x) => (float y, int64 i) {{ y, i = {node('MaxPool', 'x', window)} }}", 12)
    agrees(made, [f32(*shape)], targets=("reference",))
    fixed = model(f"(float{list(shape)} x) => (float y, int64 i) {{ y, i = {node('MaxPool', 'x', window)} }}", 12)
    agrees(fixed, [f32(*shape)])


@pytest.mark.parametrize("order", [0, 1])
def test_indices_of_what_is_padded_by_its_sizes(order: int) -> None:
    window = f"kernel_shape = [3, 2], strides = [2, 2], auto_pad = \"SAME_LOWER\", storage_order = {order}"
    made = model(f"(float[N, C, H, W] x) => (float y, int64 i) {{ y, i = {node('MaxPool', 'x', window)} }}", 12)
    agrees(made, *([f32(*shape)] for shape in SHAPES))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_of_bytes(dtype: str) -> None:
    made = model(f"({dtype}[N, 1, H] x) => ({dtype} y) {{ y = MaxPool<kernel_shape = [3], pads = [1, 1]>(x) }}", 12)
    agrees(made, [np.arange(-4, 5).astype(dtype).reshape(1, 1, 9)])


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("opset", [7, 11, 18])
def test_norms(p: int, opset: int) -> None:
    made = model(f"""(float[N, 2, H, W] x) => (float y, float z) {{
        y = LpPool<kernel_shape = [2, 3], p = {p}, strides = [2, 1], pads = [1, 0, 1, 1]>(x)
        z = GlobalLpPool<p = {p}>(x)
    }}""", opset)  # fmt: skip
    agrees(made, *([f32(*shape)] for shape in SHAPES))


def test_of_everything_there_is() -> None:
    made = model("(float[N, 2, H, W] x) => (float y, float z) { y = GlobalAveragePool(x)  z = GlobalMaxPool(x) }", 7)
    assert "adaptive_avg_pool" in text(made)
    agrees(made, *([f32(*shape)] for shape in SHAPES))


def test_max_unpool() -> None:
    made = model("""(float[N, 2, 4, 6] x) => (float y) {
        m, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
        y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(m, i)
    }""", 11)  # fmt: skip
    agrees(made, [f32(2, 2, 4, 6)], [f32(1, 2, 4, 6)])
    asked = model("(float[1, 1, 2, 2] x, int64[1, 1, 2, 2] i, int64[4] s) => (float y) "
                  "{ y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i, s) }", 11)  # fmt: skip
    places = np.array([[[[5, 7], [13, 15]]]])
    wanted = np.zeros((1, 1, 5, 5), np.float32)
    wanted[0, 0, 1::2, 1::2] = [[1, 2], [3, 4]]
    found = isthmus.compile(asked, target="reference")(np.array([[[[1, 2], [3, 4]]]], np.float32), places, np.array([1, 1, 5,
            5]))
    same(*found.values(), wanted)


def test_max_roi_pool() -> None:
    made = model("(float[N, 2, H, W] x, float[M, 5] rois) => (float y) "
                 "{ y = MaxRoiPool<pooled_shape = [2, 3], spatial_scale = 0.5>(x, rois) }")  # fmt: skip
    rois = np.array([[0, 0, 0, 13, 9], [1, 3, 2, 8, 8], [0, 5, 5, 4, 4], [1, 12, 10, 30, 30]], np.float32)
    for size in ((6, 8), (5, 9)):
        agrees(made, [f32(2, 2, *size), rois])


def test_symbolic_padding_is_put_around_first() -> None:
    found: Any = text(model("(float[N, 1, H] x) => (float y) { y = MaxPool<kernel_shape = [3], strides = [2], auto_pad = "
            "\"SAME_UPPER\">(x) }"))
    assert "pad(" in found
    assert "max_pool(" in found


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("attributes", ["kernel_shape = [3, 3]", "kernel_shape = [3, 3], strides = [3, 3]",
        "kernel_shape = [5, 3], pads = [1, 1, 1, 1]"])  # fmt: skip
def test_a_window_larger_than_what_it_slides_over(op: str, attributes: str) -> None:
    """The standard allows the file, and its result has no elements or fewer."""
    made = model(f"(float[1, 1, 2, 9] x) => (float y) {{ y = {node(op, 'x', attributes)} }}", 18)
    with pytest.raises(UnsupportedError, match="a window is larger than the padded input"):
        isthmus.compile(made)


def test_a_window_that_is_cut_off() -> None:
    agrees(model("(float[1, 1, 2, 2] x) => (float y) "
                 "{ y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(x) }"), [f32(1, 1, 2, 2)])  # fmt: skip
