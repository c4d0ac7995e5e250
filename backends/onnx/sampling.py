"""Emitters of sampling at places that are data."""

from __future__ import annotations

from typing import Any, Final

from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import emits, refuse
from isthmus.ir.graph import Node

OLDER: Final = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
"""What modes are called before opset 20."""


@emits("grid_sample", since=16)
def _grid_sample_of_images(e: Emitter, node: Node, x: str, grid: str) -> Any:
    return _sampled(e, node, x, grid, OLDER[node.attrs["mode"]], axes=(2,))


@emits("grid_sample", since=20)
def _grid_sample(e: Emitter, node: Node, x: str, grid: str) -> Any:
    return _sampled(e, node, x, grid, node.attrs["mode"], axes=(2, 3))


def _sampled(e: Emitter, node: Node, x: str, grid: str, mode: str, axes: tuple[int, ...]) -> Any:
    attrs = node.attrs
    if len(shape_of(node)) - 2 not in axes:
        refuse(f"onnxruntime samples over {' or '.join(map(str, axes))} axes at this opset")
    if attrs["mode"] == "cubic" and len(shape_of(node)) != 4:
        refuse("onnxruntime samples cubically over two axes only")
    corners = int(attrs["align_corners"])
    return e.op("GridSample", x, grid, mode=mode, padding_mode=attrs["padding"], align_corners=corners)
