"""Emitters of what detectors are made of: boxes, convolutions that look elsewhere, and images in files."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.neural import ints, shape_of
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value


@lowers("nms", since=10)
def _nms(b: Builder, node: Node, boxes: Value, scores: Value) -> Any:
    """ONNX's takes batches and classes, and gives a row of three numbers a box, of which the last is its index."""
    if boxes.tensor.dtype is not dtypes.f32:
        return None
    wide = b.unsqueeze(boxes, axes=[0]), b.unsqueeze(scores, axes=[0, 1])
    threshold = b.constant(node.attrs["iou_threshold"], dtypes.f32)
    rows = b.nms_per_class(*wide, b.size(shape_of(node)[0]), threshold)
    return b.gather(rows, b.constant(np.int64(2)), axis=1)


@emits("nms_per_class")
def _nms_per_class(
    e: Emitter, node: Node, boxes: str, scores: str, most: str | None, overlap: str | None, score: str | None
) -> Any:  # fmt: skip
    return e.op("NonMaxSuppression", boxes, scores, most, overlap, score, center_point_box=int(node.attrs["centred"]) or None)


@emits("roi_align")
def _roi_align_at_corners(e: Emitter, node: Node, x: str, rois: str, batch: str) -> Any:
    if node.attrs["aligned"]:
        refuse("aligned boxes need opset 16")
    return _roi_align(e, node, x, rois, batch)


@emits("roi_align", since=16)
def _roi_align_by_mode(e: Emitter, node: Node, x: str, rois: str, batch: str) -> Any:
    mode = "half_pixel" if node.attrs["aligned"] else "output_half_pixel"
    return _roi_align(e, node, x, rois, batch, coordinate_transformation_mode=mode)


def _roi_align(e: Emitter, node: Node, x: str, rois: str, batch: str, **more: Any) -> Any:
    attrs, index = node.attrs, node.operands[2]
    high, wide = attrs["output_size"]
    if index is not None and index.tensor.dtype is not dtypes.i64:
        batch = e.op("Cast", batch, to=opsets.enum(dtypes.i64))
    return e.op(
        "RoiAlign", x, rois, batch, output_height=high, output_width=wide, spatial_scale=attrs["scale"],
        sampling_ratio=attrs["sampling_ratio"], mode="max" if attrs["mode"] == "max" else None, **more,
    )  # fmt: skip


@emits("deform_conv", since=19)
def _deform_conv(
    e: Emitter, node: Node, x: str, weight: str, offset: str, mask: str | None, bias: str | None
) -> Any:  # fmt: skip
    attrs = node.attrs
    return e.op(
        "DeformConv", x, weight, offset, bias, mask, kernel_shape=ints(shape_of(node, 1)[2:]), strides=attrs["strides"],
        pads=attrs["pads"], dilations=attrs["dilations"], group=attrs["groups"], offset_group=attrs["offset_groups"],
    )  # fmt: skip


@emits("image_decode", since=20)
def _image_decode(e: Emitter, node: Node, content: str) -> Any:
    pixels = node.attrs["pixels"]
    return e.op("ImageDecoder", content, pixel_format=pixels.upper() if pixels != "grayscale" else "Grayscale")
