"""Emitters of quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.neural import ints, shape_of
from isthmus.backends.onnx.table import emits, refuse
from isthmus.ir import dtypes
from isthmus.ir.graph import Node


@emits("quantize")
def _quantize(e: Emitter, node: Node, x: str, scale: str, zero: str | None) -> Any:
    attrs = node.attrs
    target = attrs["dtype"]
    more = _granularity(e, node)
    if zero is None and target is not dtypes.u8:
        zero = _zeros(e, node, target) if e.opset < 21 else None
        if zero is None:
            more["output_dtype"] = opsets.enum(target)
    return e.op("QuantizeLinear", x, scale, zero, **more)


@emits("dequantize")
def _dequantize(e: Emitter, node: Node, x: str, scale: str, zero: str | None) -> Any:
    return e.op("DequantizeLinear", x, scale, zero, **_granularity(e, node))


def _granularity(e: Emitter, node: Node) -> dict[str, Any]:
    attrs = node.attrs
    if attrs["block"] and e.opset < 21:
        refuse("scales for blocks need opset 21")
    return {"axis": attrs["axis"], "block_size": attrs["block"] or None}


def _zeros(e: Emitter, node: Node, dtype: dtypes.DType) -> str:
    shape = ints(shape_of(node, 1))
    if shape is None:
        refuse("the number of scales is not known, and ONNX needs as many zero points")
    return e.constant(np.zeros(shape), dtype)
