"""Resizing at sizes that are not known, against torch: by Resize where that is right at all of them, else by elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from emitted import Model, f
from torch.nn.functional import interpolate

from isthmus.ir import dtypes as T

STYLES: dict[str, dict[str, Any]] = {
    "nearest": {"mode": "nearest", "coordinates": "asymmetric", "nearest": "floor"},
    "nearest-exact": {"mode": "nearest", "coordinates": "half_pixel", "nearest": "round_prefer_ceil"},
    "bilinear": {"mode": "linear"},
    "bicubic": {"mode": "cubic"},
}
SHAPES = [(13, 17), (10, 47), (28, 9)]


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("factor", "nodes"), [(2.0, 1), (0.5, 1), (2.5, 1), (3.3, 80), (0.34, 80)])
def test_by_a_scale(factor: float, nodes: int, style: str, opset: int) -> None:
    m = Model()
    h, w = m.dim("H"), m.dim("W")
    x = m.input(1, 2, h, w)
    above, below = {0.34: (17, 50), 3.3: (33, 10)}.get(factor, factor.as_integer_ratio())
    sizes = [size * above // below for size in (h, w)]
    artefact = m.emit(m.b.resize(x, sizes=sizes, scales=[factor, factor], **STYLES[style]), opset=opset)
    assert artefact.node_count <= nodes
    for shape in SHAPES:
        given = f(1, 2, *shape)
        wanted = interpolate(torch.from_numpy(given), scale_factor=factor, mode=style).numpy()
        np.testing.assert_allclose(artefact.run([given])[0], wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("ratio", [(1, 2), (3, 2), (5, 4)])
def test_a_ratio_of_sizes_is_written_as_a_scale(ratio: tuple[int, int], style: str) -> None:
    """No size needs to be computed where one is always the same part of the other."""
    m = Model()
    h, w = m.dim("H"), m.dim("W")
    shuffled = m.b.depth_to_space(m.input(1, 16, h, w), block=4, order="crd")
    above, below = ratio
    artefact = m.emit(m.b.resize(shuffled, sizes=[4 * h * above // below, 4 * w * above // below], **STYLES[style]))
    assert artefact.node_count == 2
    for shape in SHAPES:
        given = f(1, 16, *shape)
        wanted = interpolate(torch.pixel_shuffle(torch.from_numpy(given), 4), scale_factor=above / below, mode=style).numpy()
        np.testing.assert_allclose(artefact.run([given])[0], wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("style", STYLES)
def test_to_sizes(style: str, aligned: bool) -> None:
    """Among them a seventh, where division by the scale rounds to another element than multiplication by the ratio."""
    if aligned and "nearest" in style:
        pytest.skip("there is no such thing")
    m = Model()
    names = [m.dim(name) for name in ("H", "W", "h", "w")]
    x, like = m.input(1, 2, *names[:2]), m.input(*names[2:], name="like")
    more = STYLES[style] | ({"coordinates": "align_corners"} if aligned else {})
    artefact = m.emit(m.b.resize(x, sizes=names[2:], **more), m.b.identity(like))
    for shape, size in (((28, 14), (4, 2)), ((3, 5), (123, 7)), ((1, 6), (1, 1)), ((2, 9), (82, 1))):
        given = f(1, 2, *shape)
        how = {} if "nearest" in style else {"align_corners": aligned}
        wanted = interpolate(torch.from_numpy(given), size, mode=style, **how).numpy()
        np.testing.assert_allclose(artefact.run([given, f(*size)])[0], wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("style", ["bilinear", "bicubic"])
@pytest.mark.parametrize("opset", [13, 18])
def test_with_antialias(style: str, opset: int) -> None:
    """torch cuts the kernel off at the edges where an axis grows, too, and onnxruntime does not."""
    m = Model()
    names = [m.dim(name) for name in ("H", "W")]
    more = STYLES[style] | {"cubic_coefficient": -0.5}
    artefact = m.emit(m.b.resize(m.input(1, 2, *names), sizes=[9, 12], antialias=True, **more), opset=opset)
    for shape in ((20, 5), (9, 31), (4, 12)):
        given = f(1, 2, *shape)
        wanted = interpolate(torch.from_numpy(given), (9, 12), mode=style, antialias=True).numpy()
        np.testing.assert_allclose(artefact.run([given])[0], wanted, 1e-4, 1e-5)


def test_a_size_that_stays_is_looked_at_with_the_scale() -> None:
    m = Model()
    x = m.input(1, 2, 3, 3)
    artefact = m.emit(m.b.resize(x, sizes=[3, 3], scales=[1.3, 1.3], **STYLES["bicubic"]))
    given = f(1, 2, 3, 3)
    np.testing.assert_allclose(
        artefact.run([given])[0], interpolate(torch.from_numpy(given), scale_factor=1.3, mode="bicubic").numpy(), 1e-4, 1e-5
    )


def test_integers_are_rounded() -> None:
    m = Model()
    size = m.dim("N")
    y = m.b.resize(m.input(1, 1, size, dtype=T.i32), sizes=[size * 13 // 10], scales=[1.3], mode="linear")
    given = np.array([[[0, 10, 40, 7]]], np.int32)
    wanted = interpolate(torch.from_numpy(given).double(), scale_factor=1.3, mode="linear").round().numpy()
    assert m.emit(y).run([given])[0].tolist() == wanted.tolist()
