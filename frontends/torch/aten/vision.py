"""torchvision's own ops: what detectors are made of."""

from __future__ import annotations

import math
from typing import Any

from isthmus.frontends.torch.aten.common import integer
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import i32, i64
from isthmus.ir.graph import Value


@lowers("torchvision.nms")
def nms(w: Lowering, dets: Value, scores: Value, iou_threshold: float) -> Any:
    return w.b.nms(dets, scores, iou_threshold=iou_threshold)


@lowers("torchvision.roi_align")
def roi_align(
    w: Lowering, input: Value, rois: Value, spatial_scale: float, pooled_height: Dim, pooled_width: Dim,
    sampling_ratio: int, aligned: bool,
) -> Any:  # fmt: skip
    """The first number of each box is that of its image."""
    batch = w.cast(w.b.squeeze(part(w, rois, 1, 0, 1), axes=[1]), i64)
    size = [integer(w, each, "the size of a pooled box") for each in (pooled_height, pooled_width)]
    return w.b.roi_align(
        input, part(w, rois, 1, 1, 5), batch, output_size=size, scale=spatial_scale, sampling_ratio=max(sampling_ratio, 0),
        aligned=aligned,
    )  # fmt: skip


@lowers("torchvision.ps_roi_align")
def ps_roi_align(
    w: Lowering, input: Value, rois: Value, spatial_scale: float, pooled_height: Dim, pooled_width: Dim, sampling_ratio: int
) -> Any:
    """Each bin of a result looks at a channel of its own: of all bins of all channels those are kept; and which they are."""
    count, channels = w.dims(rois)[0], w.dims(input)[1]
    bins = [integer(w, each, "the size of a pooled box") for each in (pooled_height, pooled_width)]
    outputs, area = channels // math.prod(bins), math.prod(bins)
    every = roi_align(w, input, rois, spatial_scale, *bins, sampling_ratio, aligned=True)
    every = w.b.reshape(every, shape=[count, outputs, area, area])
    found = w.b.reshape(w.b.diagonal(every, offset=0, axis1=2, axis2=3), shape=[count, outputs, *bins])
    channel = w.b.reshape(w.b.arange(start=0, stop=outputs * area, dtype=i32), shape=[outputs, *bins])
    return found, w.b.expand(channel, shape=[count, outputs, *bins])


@lowers("torchvision.deform_conv2d")
def deform_conv2d(
    w: Lowering, input: Value, weight: Value, offset: Value, mask: Value, bias: Value, stride_h: int, stride_w: int,
    pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Any:  # fmt: skip
    return w.b.deform_conv(
        input, weight, offset, mask if use_mask else None, bias, strides=[stride_h, stride_w], pads=[pad_h, pad_w] * 2,
        dilations=[dilation_h, dilation_w], groups=groups, offset_groups=offset_groups,
    )  # fmt: skip
