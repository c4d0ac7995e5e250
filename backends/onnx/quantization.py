"""Emitters of quantization."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.neural import ints, shape_of
from isthmus.backends.onnx.table import emits, refuse
from isthmus.ir import dtypes
from isthmus.ir.graph import Node

FLOAT8: Final = (dtypes.f8e4m3fn, dtypes.f8e4m3fnuz, dtypes.f8e5m2, dtypes.f8e5m2fnuz)
"""The floats that may be left unsaturated."""


@emits("quantize")
def _quantize(e: Emitter, node: Node, x: str, scale: str, zero: str | None) -> Any:
    attrs = node.attrs
    target = attrs["dtype"]
    more = _granularity(e, node)
    if zero is None and target is not dtypes.u8:
        zero = _zeros(e, node, target) if e.opset < 21 else None
        if zero is None:
            more["output_dtype"] = opsets.enum(target)
    if not attrs["saturate"] and target in FLOAT8:
        more["saturate"] = 0
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


# ---- arithmetic on quantized numbers


@emits("matmul_integer")
def _matmul_integer(e: Emitter, node: Node, x: str, y: str, x_zero: str | None, y_zero: str | None) -> Any:
    _scalars(node, 2)
    return e.op("MatMulInteger", x, y, x_zero, y_zero)


def _scalars(node: Node, *indices: int) -> None:
    if any(node.operands[index] is not None and shape_of(node, index) for index in indices):
        refuse("onnxruntime takes no zero points and scales by row")


@emits("conv_integer")
def _conv_integer(e: Emitter, node: Node, x: str, weight: str, x_zero: str | None, weight_zero: str | None) -> Any:
    _scalars(node, 3)
    return e.op("ConvInteger", x, weight, x_zero, weight_zero, **_windows(node, 1))


def _windows(node: Node, weight: int) -> dict[str, Any]:
    attrs = node.attrs
    return {
        "kernel_shape": ints(shape_of(node, weight)[2:]), "strides": attrs["strides"], "pads": attrs["pads"],
        "dilations": attrs["dilations"], "group": attrs["groups"],
    }  # fmt: skip


@emits("dynamic_quantize")
def _dynamic_quantize(e: Emitter, node: Node, x: str) -> Any:
    return e.op("DynamicQuantizeLinear", x, results=3)


def _same_type(node: Node) -> None:
    x, zero = node.operands[0], node.operands[7]
    if x is not None and zero is not None and x.tensor.dtype is not zero.tensor.dtype:
        refuse("onnxruntime gives what x is of")


@emits("qlinear_matmul")
def _qlinear_matmul(e: Emitter, node: Node, *operands: str) -> Any:
    _scalars(node, 1, 2, 6, 7)
    _same_type(node)
    return e.op("QLinearMatMul", *operands)


@emits("qlinear_conv")
def _qlinear_conv(e: Emitter, node: Node, *operands: str | None) -> Any:
    _same_type(node)
    return e.op("QLinearConv", *operands, **_windows(node, 3))
