"""A reader of ONNX files that lacks some things, to be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx_readers import onnxruntime


def read(content: bytes, inputs: Mapping[str, Any], outputs: Sequence[str]) -> list[Any] | None:
    """As onnxruntime, but for dilated pools, their second results, f64 and what floors below 0."""
    node = onnx.ModelProto.FromString(content).graph.node[0]
    if len(node.output) > 1:
        raise ValueError("one result is enough")
    if any(each.name == "dilations" for each in node.attribute):
        raise ValueError("no dilations here")
    if any(array.dtype == np.float64 for array in inputs.values()):
        raise ValueError("what is double?")
    found = onnxruntime(content, inputs, outputs)
    return [np.abs(array) for array in found] if node.op_type == "Floor" else found
