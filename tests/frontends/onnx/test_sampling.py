"""Sampling, boxes, Fourier transforms and losses: sizes and parameters that are data, and the forms of old opsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import agrees, f32, i64, model, node, same, text

import isthmus


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("opset", "mode"), [(16, "bilinear"), (16, "nearest"), (16, "bicubic"), (20, "linear"), (22, "cubic")])
@pytest.mark.parametrize("corners", [0, 1])
def test_grids(opset: int, mode: str, padding: str, corners: int) -> None:
    made = model("(float[N, 2, H, W] x, float[N, A, B, 2] g) => (float y) "
                 f"{{ y = GridSample<mode = \"{mode}\", padding_mode = \"{padding}\", align_corners = {corners}>(x, g) }}",
                 opset)
    assert "grid_sample(" in text(made)
    agrees(made, [f32(2, 2, 4, 5), f32(2, 3, 4, 2, seed=1)], [f32(1, 2, 3, 3), f32(1, 2, 2, 2, seed=1)])


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_grids_of_volumes(mode: str) -> None:
    made = model(f"(float[N, 1, D, H, W] x, float[N, A, B, C, 3] g) => (float y) {{ y = GridSample<mode = "
            f"\"{mode}\">(x, g) }}", 20)
    agrees(made, [f32(2, 1, 3, 4, 5), f32(2, 2, 3, 2, 3, seed=1)])


def test_grids_of_integers() -> None:
    made = model("(int32[1, 1, 3, 3] x, float[1, 2, 2, 2] g) => (int32 y) { y = GridSample<mode = \"nearest\">(x, g) }", 20)
    x, grid = np.arange(9, dtype=np.int32).reshape(1, 1, 3, 3), np.array([[[[-1, -1], [0, 0]], [[1, 1], [-1, 1]]]], np.float32)
    same(*isthmus.compile(made, target="reference")(x, grid * 0.9).values(), np.array([[[[0, 4], [8, 6]]]], np.int32))


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_affine_grids(size: tuple[int, ...], corners: int) -> None:
    count = len(size) - 2
    made = model(f"(float[N, {count}, {count + 1}] t, int64[{count + 2}] s) => (float y) "
                 f"{{ y = AffineGrid<align_corners = {corners}>(t, s) }}", 20)  # fmt: skip
    feed = [f32(size[0], count, count + 1), i64(*size)]
    agrees(made, feed, wanted=ReferenceEvaluator(made).run(None, {"t": feed[0], "s": feed[1]}))


# ---- boxes


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("given", ["b, s", "b, s, n", "b, s, n, o", "b, s, n, o, t"])
def test_boxes_are_sorted_out(given: str, centred: int) -> None:
    types = {"b": "float[N, M, 4]", "s": "float[N, C, M]", "n": "int64[1]", "o": "float[1]", "t": "float"}
    names = given.split(", ")
    made = model(f"({', '.join(f'{types[name]} {name}' for name in names)}) => (int64 y) "
                 f"{{ y = NonMaxSuppression<center_point_box = {centred}>({given}) }}", 11)  # fmt: skip
    draws = np.random.default_rng(0)
    for batch, count in ((2, 7), (1, 9)):
        corner, size = draws.uniform(0, 6, (batch, count, 2)), draws.uniform(0.5, 5, (batch, count, 2))
        boxes = np.concatenate([corner, size if centred else corner + size], 2).astype(np.float32)
        scores = draws.random((batch, 3, count)).astype(np.float32)
        feed = {"b": boxes, "s": scores, "n": i64(4), "o": np.array([0.3], np.float32), "t": np.float32(0.4)}
        agrees(made, [feed[name] for name in names])


@pytest.mark.parametrize(("opset", "attributes"), [
    (10, ""), (10, "sampling_ratio = 2, output_height = 2, output_width = 3, spatial_scale = 0.5"), (16, "sampling_ratio = 2"),
    (16, "coordinate_transformation_mode = \"output_half_pixel\", output_height = 3, output_width = 2"),
    (16, "mode = \"max\", sampling_ratio = 1, output_height = 2"),
])  # fmt: skip
def test_what_is_in_boxes(opset: int, attributes: str) -> None:
    made = model(f"(float[N, 2, H, W] x, float[M, 4] r, int64[M] b) => (float y) {{ y = "
            f"{node('RoiAlign', 'x, r, b', attributes)} }}", opset)
    rois = np.array([[0, 0, 5, 4], [1.5, 2, 7, 3], [3, 3, 3.5, 9]], np.float32)
    agrees(made, [f32(2, 2, 6, 8), rois, i64(0, 1, 1)], [f32(1, 2, 5, 5), rois[:1], i64(0)])


def test_the_greatest_in_boxes() -> None:
    made = model("(float[N, 2, H, W] x, float[M, 4] r, int64[M] b) => (float y) "
                 "{ y = RoiAlign<mode = \"max\", output_height = 2, output_width = 2>(x, r, b) }", 22)  # fmt: skip
    feed = {"x": f32(2, 2, 6, 8), "r": np.array([[0, 0, 5, 4], [1.5, 2, 7, 3]], np.float32), "b": i64(0, 1)}
    agrees(made, list(feed.values()), wanted=ReferenceEvaluator(made).run(None, feed))


# ---- transforms


@pytest.mark.parametrize("length", [None, 4, 6, 9])
@pytest.mark.parametrize(("opset", "parts", "attributes"), [
    *((opset, *how) for opset in (17, 20) for how in ((1, ""), (2, ""), (2, "inverse = 1"), (1, "onesided = 1"))),
    (20, 2, "inverse = 1, onesided = 1"),
])  # fmt: skip
def test_transforms(opset: int, parts: int, attributes: str, length: int | None) -> None:
    inputs = "x" if length is None else "x, n"
    more = "" if length is None else f"<int64 n = {{{length}}}>"
    made = model(f"(float[N, 6, {parts}] x) => (float y) {more} {{ y = {node('DFT', inputs, attributes)} }}", opset)
    x = f32(2, 6, parts)
    signal = x[..., 0] + 1j * x[..., 1] if parts == 2 else x[..., 0]
    if "inverse = 1, onesided" in attributes:
        wanted: Any = np.fft.irfft(signal, length, axis=1)[..., None]
    else:
        how = np.fft.rfft if "onesided" in attributes else np.fft.ifft if "inverse" in attributes else np.fft.fft
        found = how(signal, length, axis=1)
        wanted = np.stack([found.real, found.imag], -1)
    agrees(made, [x], wanted=[wanted.astype(np.float32)])


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("inverse", [0, 1])
def test_transforms_of_what_may_be_real(opset: int, inverse: int) -> None:
    how = np.fft.ifft if inverse else np.fft.fft
    for onesided in (0, 1) if inverse else (0,):
        made = model(f"(float[N, 6, P] x) => (float y) {{ y = DFT<inverse = {inverse}, onesided = {onesided}>(x) }}", opset)
        for parts in (1, 2):
            x = f32(2, 6, parts)
            signal = x[..., 0] + 1j * x[..., 1] if parts == 2 else x[..., 0]
            found = np.fft.irfft(signal, axis=1) if onesided else how(signal, axis=1)
            agrees(made, [x], wanted=[np.stack([found] if onesided else [found.real, found.imag], -1).astype(np.float32)])
    made = model("(float[N, 6, P] x) => (float y) { y = DFT<onesided = 1>(x) }", opset)
    found = np.fft.rfft(f32(2, 6), axis=1)
    agrees(made, [f32(2, 6)[..., None]], wanted=[np.stack([found.real, found.imag], -1).astype(np.float32)])


@pytest.mark.parametrize("onesided", [0, 1])
def test_short_transforms_of_what_may_be_real(onesided: int) -> None:
    made = model("(float[N, T, P] x, float[6] w) => (float y) <int64 hop = {2}> "
                 f"{{ y = STFT<onesided = {onesided}>(x, hop, w) }}", 17)  # fmt: skip
    window = np.hanning(6).astype(np.float32)
    for parts in (1,) if onesided else (1, 2):
        x = f32(2, 11, parts)
        signal = x[..., 0] + 1j * x[..., 1] if parts == 2 else x[..., 0]
        windows = np.lib.stride_tricks.sliding_window_view(signal, 6, 1)[:, ::2] * window
        found = (np.fft.rfft if onesided else np.fft.fft)(windows)
        agrees(made, [x, window], wanted=[np.stack([found.real, found.imag], -1).astype(np.float32)])


def test_a_transform_along_an_axis_that_is_data() -> None:
    made = model("(float[4, 5, 6, 1] x, int64 a) => (float y) { y = DFT(x, , a) }", 20)
    x = f32(4, 5, 6, 1)
    for axis in (0, 1, 2, -2, -4):
        found = np.fft.fft(x[..., 0], axis=axis % 4)
        agrees(made, [x, np.int64(axis)], wanted=[np.stack([found.real, found.imag], -1).astype(np.float32)])


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("windowed", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_short_transforms(onesided: int, windowed: bool, known: bool) -> None:
    inputs = f"float[N, T, 1] x{', float[6] w' if windowed else ''}{'' if known else ', int64 hop'}"
    constants = [*["int64 hop = {2}"] * known, *["int64 n = {6}"] * (not windowed)]
    made = model(f"({inputs}) => (float y) {f'<{chr(44).join(constants)}>' if constants else ''} "
                 f"{{ y = STFT<onesided = {onesided}>(x, hop, {'w' if windowed else ', n'}) }}", 17)  # fmt: skip
    window = np.hanning(6).astype(np.float32)
    for batch, time in ((2, 16), (1, 11)):
        x = f32(batch, time, 1)
        parts = np.lib.stride_tricks.sliding_window_view(x[..., 0], 6, 1)[:, ::2] * (window if windowed else 1)
        found = (np.fft.rfft if onesided else np.fft.fft)(parts)
        agrees(made, [x, *[window] * windowed, *[np.int64(2)] * (not known)], wanted=[np.stack([found.real, found.imag],
                -1).astype(np.float32)])


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows(op: str, periodic: int) -> None:
    agrees(model(f"(int64 n) => (float y) {{ y = {op}<periodic = {periodic}>(n) }}", 17), [np.int64(10)], [np.int64(7)])


def test_mel_weights() -> None:
    made = model("(int64 b, int64 n, int64 r, float lo, float hi) => (float y) { y = MelWeightMatrix(b, n, r, lo, hi) }", 17)
    for bins, length, rate, low, high in ((8, 16, 8192, 0, 4096), (5, 64, 16000, 20, 8000)):
        feed = dict(zip("bnr", map(np.int64, (bins, length, rate)), strict=True)) | {"lo": np.float32(low),
                "hi": np.float32(high)}
        agrees(made, list(feed.values()), wanted=ReferenceEvaluator(made).run(None, feed))


# ---- losses


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("attributes", ["", "reduction = \"none\"", "reduction = \"sum\", ignore_index = 2",
        "ignore_index = -1"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses(op: str, attributes: str, weighted: bool) -> None:
    more, given = (", float[4] w", "x, t, w") if weighted else ("", "x, t")
    made = model(f"(float[N, 4, H] x, int64[N, H] t{more}) => (float y) {{ y = {node(op, given, attributes)} }}", 13)
    target = np.array([[0, 2, 1], [3, 1, -1 if "-1" in attributes else 2]])
    agrees(made, [f32(2, 4, 3), target, *[np.abs(f32(4, seed=1)) + 0.1] * weighted])
