"""Boxes: which of them to keep, and what is in them."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.ops.normalization import cast
from isthmus.frontends.onnx.sizes import before_cast
from isthmus.frontends.onnx.table import converts
from isthmus.ir.graph import Value


@converts("NonMaxSuppression")
def non_max_suppression(
    c: Conversion, boxes: Value, scores: Value, most: Value | None = None, overlap: Value | None = None,
    score: Value | None = None, *, center_point_box: int = 0,
) -> Any:  # fmt: skip
    """By classes, in each member of a batch."""
    numbers = [None if each is None or c.shape(each) == (0,) else c.scalar(each) for each in (most, overlap, score)]
    return c.b.nms_per_class(boxes, scores, *numbers, centred=bool(center_point_box))


@converts("RoiAlign", since=16)
def roi_align(
    c: Conversion, x: Value, rois: Value, batch: Value, *, coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """Bins of boxes, whose coordinates are of the elements' edges or of their middles."""
    if mode not in ("avg", "max") or coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        raise c.malformed(f"has the mode {mode} and coordinates {coordinate_transformation_mode}")
    return c.b.roi_align(
        x, cast(c, rois, x.tensor.dtype), before_cast(batch), output_size=[output_height, output_width], scale=spatial_scale,
        sampling_ratio=sampling_ratio, aligned=coordinate_transformation_mode == "half_pixel",
        mode="max" if mode == "max" else "mean",
    )  # fmt: skip


@converts("RoiAlign")
def roi_align_of_middles(
    c: Conversion, x: Value, rois: Value, batch: Value, *, mode: str = "avg", output_height: int = 1, output_width: int = 1,
    sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """The coordinates are of the elements' middles."""
    return roi_align(
        c, x, rois, batch, coordinate_transformation_mode="output_half_pixel", mode=mode, output_height=output_height,
        output_width=output_width, sampling_ratio=sampling_ratio, spatial_scale=spatial_scale,
    )  # fmt: skip
