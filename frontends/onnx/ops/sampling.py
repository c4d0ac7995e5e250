"""Sampling at places that are data."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.ops.normalization import cast
from isthmus.frontends.onnx.sizes import sizes
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim
from isthmus.ir.graph import Value

_MODES: Final = {"bilinear": "linear", "bicubic": "cubic"}
"""What modes were called before opset 20."""


@converts("GridSample")
def grid_sample(
    c: Conversion, x: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros",
) -> Any:  # fmt: skip
    """Images and volumes looked at where a grid says; what is no float is looked at as floats."""
    dtype = x.tensor.dtype
    real = dtype if dtype.is_float and dtype.bits >= 32 else dtypes.f32
    y = c.b.grid_sample(
        cast(c, x, real), cast(c, grid, real), mode=_MODES.get(mode, mode), padding=padding_mode,
        align_corners=bool(align_corners),
    )  # fmt: skip
    return cast(c, y, dtype)


@converts("AffineGrid")
def affine_grid(c: Conversion, theta: Value, size: Value, *, align_corners: int = 0) -> Any:
    """A grid for `grid_sample`: the places of an image or a volume, turned and moved by a matrix of their own each."""
    b, dtype = c.b, theta.tensor.dtype
    batch, _, *spatial = sizes(c, size, "sizes of the grid", 0)
    count = len(spatial)
    if count not in (2, 3):
        raise c.malformed(f"has a size of {count + 2} numbers")
    columns = []
    for axis, length in enumerate(spatial):
        line = _line(c, length, bool(align_corners), dtype)
        line = b.unsqueeze(line, axes=[each for each in range(count) if each != axis])
        columns.append(b.expand(line, shape=spatial))
    ones = b.expand(b.constant(np.asarray(1, dtype.numpy)), shape=spatial)
    # The coordinate along the last axis comes first.
    places = b.concat([b.unsqueeze(each, axes=[count]) for each in (*reversed(columns), ones)], axis=count)
    flat = b.reshape(places, shape=[_volume(spatial), count + 1])
    turned = b.matmul(flat, b.permute(theta, perm=[0, 2, 1]))
    return b.reshape(turned, shape=[batch, *spatial, count])


def _line(c: Conversion, length: Dim, corners: bool, dtype: dtypes.DType) -> Any:
    """The coordinates of the elements along an axis: from -1 to 1, of their middles or with `corners` of the outermost ones."""
    b = c.b
    at = b.cast(b.arange(stop=length), dtype=dtype)
    size = b.cast(b.size(length), dtype=dtype)
    if corners:
        return b.sub(b.div(b.mul(at, 2.0), b.maximum(b.sub(size, 1.0), 1.0)), 1.0)
    return b.sub(b.div(b.add(b.mul(at, 2.0), 1.0), size), 1.0)


def _volume(spatial: list[Dim]) -> Dim:
    found: Dim = 1
    for size in spatial:
        found = found * size
    return found


@converts("ImageDecoder")
def image_decoder(c: Conversion, content: Value, *, pixel_format: str = "RGB") -> Any:
    """Files of images."""
    return c.b.image_decode(content, pixels=pixel_format.lower())
