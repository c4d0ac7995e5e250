"""Emitters of sampling at places that are data."""

from __future__ import annotations

from typing import Any, Final

from isthmus.backends.tensorrt.emitter import Emitter
from isthmus.backends.tensorrt.table import emits, refuse
from isthmus.ir.graph import Node

_OUTSIDE: Final = {"zeros": "FILL", "border": "CLAMP", "reflection": "REFLECT"}


@emits("grid_sample")
def _grid_sample(e: Emitter, node: Node, x: Any, grid: Any) -> Any:
    attrs = node.attrs
    if len(x.shape) not in (4, 5):
        refuse("TensorRT samples over two or three axes")
    if attrs["mode"] == "cubic" and len(x.shape) != 4:
        refuse("TensorRT samples cubically over two axes only")
    settings = {
        "interpolation_mode": getattr(e.trt.InterpolationMode, attrs["mode"].upper()),
        "sample_mode": getattr(e.trt.SampleMode, _OUTSIDE[attrs["padding"]]),
        "align_corners": attrs["align_corners"],
    }
    return e.add("grid_sample", x, grid, **settings)
