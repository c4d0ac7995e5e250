"""Quantization, and arithmetic on quantized numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.ops.normalization import cast
from isthmus.frontends.onnx.ops.windows import kernel_of, windows
from isthmus.frontends.onnx.sizes import repeated
from isthmus.frontends.onnx.table import converts
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim
from isthmus.ir.graph import Value

Ints = Sequence[int] | None


@converts("QuantizeLinear")
def quantize_linear(
    c: Conversion, x: Value, scale: Value, zero: Value | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    """To small integers or floats: of the zero point's element type, or the one asked for, or u8."""
    if output_dtype:
        dtype = dtype_of(output_dtype, "the result")
    else:
        dtype = dtypes.u8 if zero is None else zero.tensor.dtype
    real = dtype_of(precision, "precision") if precision else scale.tensor.dtype
    (scale, zero), how = _granularity(c, x, scale, zero, axis, block_size)
    return c.b.quantize(cast(c, x, real), cast(c, scale, real), zero, dtype=dtype, saturate=bool(saturate), **how)


@converts("DequantizeLinear")
def dequantize_linear(
    c: Conversion, x: Value, scale: Value, zero: Value | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Any:  # fmt: skip
    """Back, to the scale's element type or the one asked for."""
    (scale, zero), how = _granularity(c, x, scale, zero, axis, block_size)
    if output_dtype:
        scale = cast(c, scale, dtype_of(output_dtype, "the result"))
    return c.b.dequantize(x, scale, zero, **how)


def _granularity(
    c: Conversion, x: Value, scale: Value, zero: Value | None, axis: int, block: int
) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """Scale and zero point in the row's form, and its attributes: one for all, for each place along an axis, or for blocks."""
    shape = c.shape(scale)
    if block:
        return (scale, zero), {"axis": c.axis(axis, c.rank(x)), "block": block}
    if not shape or shape == (1,):
        return (c.scalar(scale), zero and c.scalar(zero)), {}
    if len(shape) > 1:
        raise c.malformed("has scales for blocks, and no block_size")
    axis = c.axis(axis, c.rank(x))
    if zero is not None and zero.tensor.dtype.bits < 8:  # of which nothing picks elements
        return (scale, zero), {"axis": axis}
    count = c.shape(x)[axis]
    return (repeated(c, scale, 0, count), zero and repeated(c, zero, 0, count)), {"axis": axis}


@converts("DynamicQuantizeLinear")
def dynamic_quantize_linear(c: Conversion, x: Value) -> Any:
    """To u8 with the scale and the zero point that fit."""
    return c.b.dynamic_quantize(x)


@converts("MatMulInteger")
def matmul_integer(c: Conversion, x: Value, y: Value, x_zero: Value | None = None, y_zero: Value | None = None) -> Any:
    """Products of small integers less their zero points."""
    zeros = _short(c, x_zero, _rows(c, x)), _short(c, y_zero, c.shape(y)[-1])
    if all(each is None or c.rank(each) < 2 for each in zeros):
        return c.b.matmul_integer(x, y, *zeros)
    return c.b.matmul(_less(c, x, x_zero, 1, dtypes.i32), _less(c, y, y_zero, 0, dtypes.i32))


def _rows(c: Conversion, x: Value) -> Dim:
    return c.shape(x)[-2] if c.rank(x) > 1 else 1


def _short(c: Conversion, value: Value | None, count: Dim) -> Any:
    """A scalar in place of a vector of one element; as many as `count` in place of one that may have one or so many."""
    if value is None or c.rank(value) != 1:
        return value
    return c.scalar(value) if 1 in (*c.shape(value), count) else repeated(c, value, 0, count)


def _less(c: Conversion, x: Value, zero: Value | None, behind: int, dtype: dtypes.DType) -> Any:
    """Small numbers less a zero point for all, for rows or columns, or one that broadcasts anyway."""
    x = cast(c, x, dtype)
    return x if zero is None else c.b.sub(x, _beside(c, cast(c, zero, dtype), behind))


def _beside(c: Conversion, value: Value, behind: int) -> Any:
    return c.b.unsqueeze(value, axes=[1]) if behind and c.rank(value) == 1 else value


@converts("ConvInteger")
def conv_integer(
    c: Conversion, x: Value, weight: Value, x_zero: Value | None = None, weight_zero: Value | None = None, *,
    auto_pad: str = "NOTSET", dilations: Ints = None, group: int = 1, kernel_shape: Ints = None, pads: Ints = None,
    strides: Ints = None,
) -> Any:  # fmt: skip
    """A convolution of small integers less their zero points; what is around the input is of these."""
    found = windows(c, x, kernel_of(c, weight, kernel_shape), strides, pads, dilations, auto_pad)
    zeros = _short(c, x_zero, 1), _short(c, weight_zero, c.shape(weight)[0])
    x, numbers = found.fixed(c, x, zeros[0])
    return c.b.conv_integer(x, weight, *zeros, strides=found.strides, pads=numbers, dilations=found.dilations, groups=group)


@converts("QLinearMatMul")
def qlinear_matmul(
    c: Conversion, x: Value, x_scale: Value, x_zero: Value, y: Value, y_scale: Value, y_zero: Value, scale: Value, zero: Value,
) -> Any:  # fmt: skip
    """A product of quantized matrices, quantized."""
    rows, columns = _rows(c, x), c.shape(y)[-1]
    sizes = ((x_scale, rows), (x_zero, rows), (y_scale, columns), (y_zero, columns), (scale, rows), (zero, rows))
    parameters = [_short(c, *each) for each in sizes]
    given = [x, *parameters[:2], y, *parameters[2:]]
    whole = all(each.tensor.dtype in (dtypes.i8, dtypes.u8) for each in (x, y, zero))
    if whole and all(c.rank(each) < 2 for each in parameters):
        return c.b.qlinear_matmul(*given)
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = given
    real = dtypes.f32
    total = c.b.matmul(_less(c, x, x_zero, 1, real), _less(c, y, y_zero, 0, real))
    scales = [_beside(c, cast(c, each, real), behind) for each, behind in ((x_scale, 1), (y_scale, 0), (scale, 1))]
    total = c.b.mul(total, c.b.div(c.b.mul(*scales[:2]), scales[2]))
    if c.rank(zero) == 0:
        return c.b.quantize(total, 1.0, zero, dtype=zero.tensor.dtype)
    moved = c.b.add(c.b.round(total), _beside(c, cast(c, zero, real), 1))
    return c.b.quantize(moved, 1.0, None, dtype=zero.tensor.dtype)


@converts("QLinearConv")
def qlinear_conv(
    c: Conversion, x: Value, x_scale: Value, x_zero: Value, weight: Value, weight_scale: Value, weight_zero: Value,
    scale: Value, zero: Value, bias: Value | None = None, *, auto_pad: str = "NOTSET", dilations: Ints = None, group: int = 1,
    kernel_shape: Ints = None, pads: Ints = None, strides: Ints = None,
) -> Any:  # fmt: skip
    """A convolution of quantized numbers, quantized."""
    found = windows(c, x, kernel_of(c, weight, kernel_shape), strides, pads, dilations, auto_pad)
    outputs = c.shape(weight)[0]
    sizes = ((x_scale, 1), (x_zero, 1), (weight_scale, outputs), (weight_zero, outputs), (scale, 1), (zero, 1))
    own = [_short(c, *each) for each in sizes]
    x, numbers = found.fixed(c, x, own[1])
    return c.b.qlinear_conv(
        x, *own[:2], weight, *own[2:], bias, strides=found.strides, pads=numbers, dilations=found.dilations, groups=group
    )
