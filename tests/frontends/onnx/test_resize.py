"""Resizing: every way to place the results, sizes and scales that are numbers, sizes or data, and the forms of old opsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import agrees, f32, i64, model, same, text

import isthmus

COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
SIZES = [(4, 6), (3, 5), (7, 4)]


def _by_scales(attributes: str, scales: str, opset: int = 18, sizes: str = "N, 2, H, W") -> Any:
    return model(f"(float[{sizes}] x) => (float y) <float[4] s = {{1, 1, {scales}}}> "
                 f"{{ y = Resize<{attributes}>(x, , s) }}", opset)  # fmt: skip


def _to_sizes(attributes: str, sizes: str, opset: int = 18) -> Any:
    return model(f"(float[1, 2, 4, 6] x) => (float y) <int64[4] s = {{1, 2, {sizes}}}> "
                 f"{{ y = Resize<{attributes}>(x, , , s) }}", opset)  # fmt: skip


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_modes(mode: str, coordinates: str, opset: int) -> None:
    how = f"mode = \"{mode}\", coordinate_transformation_mode = \"{coordinates}\""
    made = _by_scales(how, "2, 3", opset)
    assert "resize(" in text(made)
    agrees(made, *([f32(1, 2, *size)] for size in SIZES))
    agrees(_to_sizes(how, "7, 3", opset), [f32(1, 2, 4, 6)])


@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_nearest(nearest: str, coordinates: str) -> None:
    how = f"mode = \"nearest\", coordinate_transformation_mode = \"{coordinates}\", nearest_mode = \"{nearest}\""
    for sizes in ("8, 12", "5, 9", "3, 4", "2, 2"):
        agrees(_to_sizes(how, sizes), [f32(1, 2, 4, 6)])


@pytest.mark.parametrize("attributes", ["exclude_outside = 1", "cubic_coeff_a = -0.5", "exclude_outside = 1, "
        "cubic_coeff_a = -0.5"])
@pytest.mark.parametrize("scales", ["2, 1.5", "0.5, 0.75"])
def test_cubic(attributes: str, scales: str) -> None:
    agrees(_by_scales(f"mode = \"cubic\", {attributes}", scales), *([f32(1, 2, *size)] for size in ((4, 8), (6, 4))))


@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(mode: str, exclude: int) -> None:
    """Beyond the edge the outermost elements count again, or nothing does: as the standard's own evaluation has it."""
    how = f"mode = \"{mode}\", antialias = 1, exclude_outside = {exclude}"
    x = f32(1, 1, 9, 8)
    made = model(f"(float[1, 1, H, W] x) => (float y) <float[4] s = {{1, 1, 0.4, 0.5}}> {{ y = Resize<{how}>(x, , s) }}")
    from onnx.reference import ReferenceEvaluator

    agrees(made, [x], wanted=ReferenceEvaluator(made).run(None, {"x": x}))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_cropped(mode: str) -> None:
    how = f"mode = \"{mode}\", coordinate_transformation_mode = \"tf_crop_and_resize\", extrapolation_value = 7.5"
    made = model(f"(float[1, 1, H, W] x, float[8] roi) => (float y) <int64[4] s = {{1, 1, 3, 4}}> {{ y = Resize<{how}>(x, "
            f"roi, , s) }}")
    for roi in ([0, 0, 0.2, 0.3, 1, 1, 0.8, 0.6], [0, 0, 0.5, 0.3, 1, 1, 1.2, 0.9]):
        agrees(made, [f32(1, 1, 5, 6), np.array(roi, np.float32)])


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("size", ["1, 1, 4, 6", "N, 1, H, W"])
def test_kept_aspect_ratio(policy: str, size: str) -> None:
    made = model(f"(float[{size}] x) => (float y) <int64[2] s = {{7, 8}}> {{ y = Resize<mode = \"linear\", axes = [2, 3], "
                 f"keep_aspect_ratio_policy = \"{policy}\">(x, , , s) }}")  # fmt: skip
    agrees(made, [f32(1, 1, 4, 6)])


@pytest.mark.parametrize("axes", [[3, 2], [2, 3], [1], [-1, 0]])
def test_axes(axes: list[int]) -> None:
    sizes = [5, 7][: len(axes)]
    made = model(f"(float[2, 3, 4, 6] x) => (float y) <int64[{len(axes)}] s = {{{', '.join(map(str, sizes))}}}> "
                 f"{{ y = Resize<axes = {axes}, coordinate_transformation_mode = \"asymmetric\", nearest_mode = "
                 f"\"floor\">(x, , , s) }}")
    agrees(made, [f32(2, 3, 4, 6)])


def test_channels_last() -> None:
    made = model("(float[N, H, W, 3] x) => (float y) <float[4] s = {1, 2, 2, 1}> { y = Resize<mode = \"linear\">(x, , s) }")
    assert "resize(" in text(made)
    agrees(made, [f32(1, 4, 5, 3)], [f32(2, 3, 3, 3)])


def test_sizes_of_another_tensor() -> None:
    made = model("""(float[N, 2, H, W] x, float[N, 3, A, B] like) => (float y) <int64[1] two = {2}, int64[1] four = {4}> {
        lead = Shape<start = 0, end = 2>(x)
        wanted = Shape<start = 2, end = 4>(like)
        s = Concat<axis = 0>(lead, wanted)
        y = Resize<mode = "linear">(x, , , s)
    }""")  # fmt: skip
    agrees(made, [f32(1, 2, 4, 5), f32(1, 3, 8, 7)], [f32(1, 2, 3, 6), f32(1, 3, 9, 6)])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_and_scales_that_are_data(mode: str) -> None:
    made = model(f"(float[N, 2, H, W] x, int64[2] s) => (float y) {{ y = Resize<mode = \"{mode}\", axes = [2, 3]>(x, , , s) }}")
    agrees(made, [f32(1, 2, 4, 5), i64(8, 7)], [f32(2, 2, 6, 3), i64(3, 9)])
    made = model(f"(float[N, 2, H, W] x, float[4] s) => (float y) {{ y = Resize<mode = \"{mode}\">(x, , s) }}")
    agrees(made, [f32(1, 2, 4, 6), np.array([1, 1, 2, 1.5], np.float32)], [f32(1, 2, 4, 6), np.array([1, 1, 0.5, 3],
            np.float32)])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 9, 10])
def test_old_forms(mode: str, opset: int) -> None:
    op = "Resize" if opset == 10 else "Upsample"
    given = f"<mode = \"{mode}\", scales = [1.0, 1.0, 2.0, 3.0]>(x)" if opset == 7 else f"<mode = \"{mode}\">(x, s)"
    made = model(f"(float[N, 2, H, W] x) => (float y) <float[4] s = {{1, 1, 2, 3}}> {{ y = {op}{given} }}", opset)
    agrees(made, *([f32(1, 2, *size)] for size in SIZES))


def test_the_first_upsample() -> None:
    made = model("(float[N, 1, H, W] x) => (float y) { y = Upsample<height_scale = 2.0, width_scale = 2.0, mode = "
            "\"nearest\">(x) }", 1)
    x = f32(1, 1, 3, 4)
    agrees(made, [x], wanted=[x.repeat(2, 2).repeat(2, 3)])


def test_scales_by_which_the_standard_divides() -> None:
    made = _by_scales("mode = \"linear\", coordinate_transformation_mode = \"align_corners\"", "0.6, 0.6", sizes="1, 1, 2, 4")
    found = isthmus.compile(made, target="reference")(np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4))
    same(*found.values(), np.array([[[[1, 3.142857]]]], np.float32))


def test_half_pixel_symmetric() -> None:
    how = "mode = \"linear\", coordinate_transformation_mode = \"half_pixel_symmetric\""
    agrees(_by_scales(how, "0.6, 1.3", 19), [f32(1, 2, 4, 6)], [f32(1, 2, 5, 7)])
