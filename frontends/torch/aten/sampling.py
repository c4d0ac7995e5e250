"""Sampling at places that are data, and the grids for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, maximum, product
from isthmus.ir.dtypes import DType, i64
from isthmus.ir.graph import Value

MODES: Final = ("linear", "nearest", "cubic")
PADDINGS: Final = ("zeros", "border", "reflection")
"""What torch's numbers stand for."""


@lowers("aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d")
def grid_sampler(
    w: Lowering, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    attrs = {"mode": MODES[interpolation_mode], "padding": PADDINGS[padding_mode], "align_corners": align_corners}
    return w.b.grid_sample(input, grid, **attrs)


@lowers("aten.affine_grid_generator")
def affine_grid_generator(w: Lowering, theta: Value, size: Sequence[Dim], align_corners: bool) -> Any:
    """Each place in homogeneous coordinates, the last axis first, times the matrices."""
    dtype, (batch, _, *sizes) = theta.tensor.dtype, size
    axes = len(sizes)
    columns = []
    for axis in reversed(range(axes)):
        others = [each for each in range(axes) if each != axis]
        line = w.b.unsqueeze(_middles(w, sizes[axis], dtype, align_corners), axes=others)
        columns.append(w.b.expand(line, shape=sizes))
    columns.append(w.b.expand(w.tensor(1, dtype), shape=sizes))
    base = w.b.concat([w.b.unsqueeze(column, axes=[axes]) for column in columns], axis=axes)
    base = w.b.reshape(base, shape=[product(sizes), axes + 1])
    content = w.known(base)
    places = w.b.matmul(base if content is None else w.b.constant(content), w.b.permute(theta, perm=[0, 2, 1]))
    return w.b.reshape(places, shape=[batch, *sizes, axes])


def _middles(w: Lowering, size: Dim, dtype: DType, corners: bool) -> Value:
    """The coordinates of the elements of an axis, from -1 to 1; that of a single one is 0."""
    number = w.b.sub(w.b.mul(w.b.arange(stop=size, dtype=i64), 2), w.tensor(size - 1, i64))
    count = maximum(size - 1, 1) if corners else size
    return w.b.div(w.cast(number, dtype), w.tensor(count, dtype))  # type: ignore[no-any-return]
