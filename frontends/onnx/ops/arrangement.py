"""Elements moved to other places: blocks, triangles, reversed sequences."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.sizes import sizes
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.graph import Value


@converts("DepthToSpace")
def depth_to_space(c: Conversion, x: Value, *, blocksize: int, mode: str = "DCR") -> Any:
    """Channels become blocks of places."""
    return c.b.depth_to_space(x, block=blocksize, order=mode.lower())


@converts("SpaceToDepth")
def space_to_depth(c: Conversion, x: Value, *, blocksize: int, mode: str = "DCR") -> Any:
    """Blocks of places become channels: in front of those that were, or behind them."""
    return c.b.space_to_depth(x, block=blocksize, order=mode.lower())


@converts("Trilu")
def trilu(c: Conversion, x: Value, k: Value | None = None, *, upper: int = 1) -> Any:
    """The upper or lower triangle of matrices."""
    (diagonal,) = (0,) if k is None else sizes(c, k, "diagonals")
    return c.b.trilu(x, upper=bool(upper), diagonal=diagonal)


@converts("ReverseSequence")
def reverse_sequence(c: Conversion, x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """The first so many steps of each sequence in reverse; the rest stays."""
    b = c.b
    dims = c.shape(x)
    batch, time = c.axis(batch_axis, len(dims)), c.axis(time_axis, len(dims))

    def along(value: Value, axis: int) -> Any:
        return b.unsqueeze(value, axes=[other for other in range(len(dims)) if other != axis])

    step = along(b.arange(stop=dims[time]), time)
    length = along(b.cast(lengths, dtype=dtypes.i64), batch)
    place = b.where(b.lt(step, length), b.sub(b.sub(length, 1), step), step)
    return b.gather_elements(x, b.expand(place, shape=dims), axis=time)
