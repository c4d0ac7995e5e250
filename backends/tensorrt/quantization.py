"""Emitters of quantization."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.backends.tensorrt import library
from isthmus.backends.tensorrt.emitter import Emitter
from isthmus.backends.tensorrt.table import emits, refuse
from isthmus.ir import dtypes
from isthmus.ir.graph import Node, Value

_TARGETS: Final = (dtypes.i8, dtypes.f8e4m3fn)


@emits("quantize", values=True)
def _quantize(e: Emitter, node: Node, x: Value, scale: Value, zero: Value | None) -> Any:
    attrs = node.attrs
    if attrs["dtype"] not in _TARGETS:
        refuse(f"TensorRT quantizes to i8 and f8e4m3fn, not to {attrs['dtype']}")
    _check(node, scale, zero)
    arguments = (e.tensor(x), e.tensor(scale), library.enum(e.trt, attrs["dtype"]))
    return e.add("quantize", *arguments, **_axis(node))


@emits("dequantize", values=True)
def _dequantize(e: Emitter, node: Node, x: Value, scale: Value, zero: Value | None) -> Any:
    if x.tensor.dtype not in _TARGETS:
        refuse(f"TensorRT dequantizes i8 and f8e4m3fn, not {x.tensor.dtype}")
    _check(node, scale, zero)
    codes = e.tensor(x) if x.weight is None else e.weight(x.weight, coded=True)
    arguments = (codes, e.tensor(scale), library.enum(e.trt, node.result.tensor.dtype))
    return e.add("dequantize", *arguments, **_axis(node))


def _axis(node: Node) -> dict[str, Any]:
    axis = node.attrs["axis"]
    return {} if axis is None else {"axis": axis % len(node.result.tensor.shape or ())}


def _check(node: Node, scale: Value, zero: Value | None) -> None:
    if node.attrs["block"]:
        refuse("TensorRT has scales for blocks of 4-bit weights only")
    if scale.weight is None:
        refuse("the scale must be known, since TensorRT builds it into the engine")
    if zero is not None and (zero.weight is None or np.any(zero.weight.array())):
        refuse("the zero point must be 0")
