"""Arithmetic on quantized numbers: products of small integers less their zero points, and what runtimes fuse with them.

Zero points and scales are scalars, or vectors for the rows of a first matrix, the columns of a second one, or the outputs of a
convolution. Sums of products are whole; in the finer ops they are added up as f32, which holds them exactly up to 2**24.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.attributes import INT, INTS
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import f32, i32
from isthmus.ir.op import OPS, Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Value

_COARSE: Final = Trait.PURE | Trait.COARSE
_WINDOWS: Final = {"strides": INTS, "pads": INTS, "dilations": INTS, "groups": INT(1)}
_SMALL: Final = (dtypes.i8, dtypes.u8)


def _shape(call: Call, op: str, x: int, y: int) -> tuple[Dim, ...]:
    """The shape of a product of two operands, as another row has it."""
    for index in (x, y):
        if call.dtype(index) not in _SMALL:
            raise call.error(f"operand {call.op.operand_name(index)} must be of 8 bits", found=str(call.types[index]))
    types = [Tensor(i32, call.shape(x)), Tensor(i32, call.shape(y))]
    row = OPS[op]
    inner = Call(row, [*types, None] if op == "conv" else types, row.normalize(dict(call.attrs)), (), call.symbols)
    (found,) = row.infer(inner)
    return found.shape  # type: ignore[union-attr,return-value]


def _agree(call: Call, index: int, size: Dim, dtype: dtypes.DType | None = None) -> None:
    """Holds a zero point or a scale against what it belongs to.

    Raises:
        InferError: it is neither a scalar nor a vector of this size, or of another element type.
    """
    if call.types[index] is None:
        return
    name, shape = call.op.operand_name(index), call.shape(index)
    if len(shape) > 1:
        raise call.error(f"{name} must be a scalar or a vector", found=str(call.types[index]))
    if shape:
        call.unify(shape[0], size, f"the sizes of {name} and of what it belongs to")
    if dtype is not None and call.dtype(index) is not dtype:
        raise call.error(f"{name} has another element type", expected=str(dtype), found=str(call.types[index]))


def _put(b: Builder, value: Value, behind: int) -> Any:
    """A vector with so many axes behind it; a scalar as it is."""
    return b.unsqueeze(value, axes=list(range(1, behind + 1))) if behind and value.tensor.rank else value


def _less(b: Builder, x: Value, zero: Value | None, behind: int, dtype: dtypes.DType) -> Any:
    """Small integers less their zero point, in a wider element type."""
    wide = b.cast(x, dtype=dtype)
    return wide if zero is None else b.sub(wide, _put(b, b.cast(zero, dtype=dtype), behind))


def _rounded(b: Builder, total: Value, factor: Value, zero: Value) -> Any:
    """Whole sums times a factor, rounded, in the element type of a zero point."""
    if zero.tensor.rank:
        total = b.round(b.mul(total, factor))
        total, dtype = b.add(total, b.unsqueeze(b.cast(zero, dtype=f32), axes=[1])), zero.tensor.dtype
        return b.cast(b.clip(total, *map(float, dtype.limits)), dtype=dtype)
    return b.quantize(b.mul(total, factor), 1.0, zero, dtype=zero.tensor.dtype)


def _ints(dtype: Any, *shapes: tuple[int, ...]) -> list[Any]:
    draws, limits = rng(), np.iinfo(dtype)
    return [draws.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype) for shape in shapes]


@register
class MatMulInteger(Op):
    """``(x - x_zero) @ (y - y_zero)`` as i32, of integers of 8 bits; a zero point that is not given is 0."""

    name = "matmul_integer"
    operands = operands("x: int X, y: int Y, x_zero?: int X, y_zero?: int Y")
    traits = _COARSE
    source = "ONNX MatMulInteger-10"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = _shape(call, "matmul", 0, 1)
        _agree(call, 2, call.shape(0)[-2] if len(call.shape(0)) > 1 else 1)
        _agree(call, 3, call.shape(1)[-1])
        return (Tensor(i32, shape),)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, y, x_zero, y_zero = operands
        return b.matmul(_less(b, x, x_zero, 1, i32), _less(b, y, y_zero, 0, i32))

    def samples(self) -> Iterable[Sample]:
        x, rows = _ints(np.uint8, (2, 3, 4), (3,))
        y, columns = _ints(np.int8, (4, 5), (5,))
        yield sample(x, y)
        yield sample(x, y, np.uint8(130), np.int8(-3), note="zero")
        yield sample(x, y, rows, columns, note="by-row-and-column")
        yield sample(y.T, y, np.int8(7), note="i8")


@register
class ConvInteger(Op):
    """`conv` of ``x - x_zero`` with ``weight - weight_zero`` as i32, of integers of 8 bits. The padding is of zero points."""

    name = "conv_integer"
    operands = operands("x: int X, weight: int W, x_zero?: int X, weight_zero?: int W")
    attributes = _WINDOWS
    traits = _COARSE
    source = "ONNX ConvInteger-10"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = _shape(call, "conv", 0, 1)
        _agree(call, 2, 1)
        _agree(call, 3, call.shape(1)[0])
        return (Tensor(i32, shape),)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, weight, x_zero, weight_zero = operands
        weight = _less(b, weight, weight_zero, len(call.shape(1)) - 1, i32)
        return b.conv(_less(b, x, x_zero, 0, i32), weight, None, **call.attrs)

    def samples(self) -> Iterable[Sample]:
        x, weight = _ints(np.uint8, (1, 2, 5, 4), (4, 1, 3, 2))
        signed, zeros = _ints(np.int8, (4, 1, 3, 2), (4,))
        some: dict[str, Any] = {"strides": [1, 1], "pads": [1, 0, 1, 1], "dilations": [1, 1], "groups": 2}
        yield sample(x, weight, **some)
        yield sample(x, weight, np.uint8(100), np.uint8(9), note="zero", **some)
        yield sample(x, signed, np.uint8(100), zeros, note="by-output", **some)


@register
class DynamicQuantize(Op):
    """A tensor as u8, with the scale and the zero point that fit its own range and 0: what is quantized, scale and zero point.

    The scale is the range by 255, or 1 where there is none.
    """

    name = "dynamic_quantize"
    operands = operands("x: f32")
    traits = _COARSE
    source = "ONNX DynamicQuantizeLinear-11"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(dtypes.u8, call.shape(0)), Tensor(f32, ()), Tensor(dtypes.u8, ()))

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        (x,) = operands
        axes = list(range(len(call.shape(0))))
        least, most = b.minimum(b.reduce_min(x, axes=axes), 0.0), b.maximum(b.reduce_max(x, axes=axes), 0.0)
        span = b.sub(most, least)
        scale = b.where(b.eq(span, 0.0), 1.0, b.div(span, 255.0))
        zero = b.quantize(b.neg(least), scale, dtype=dtypes.u8)
        return b.quantize(x, scale, zero, dtype=dtypes.u8), scale, zero

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((3, 4)).astype(np.float32)
        yield sample(x)
        yield sample(np.abs(x) + 1, note="positive")
        yield sample(-np.abs(x) - 1, note="negative")
        yield sample(x * 0, note="zeros")


@register
class QLinearMatMul(Op):
    """A product of quantized matrices, quantized: ``(x - x_zero) @ (y - y_zero)`` times ``x_scale * y_scale / scale``, rounded
    to even, plus `zero`, cut off at the limits of its element type.
    """

    name = "qlinear_matmul"
    operands = operands(
        "x: int X, x_scale: float S, x_zero: int X, y: int Y, y_scale: float S, y_zero: int Y, scale: float S, zero: int"
    )
    traits = _COARSE
    source = "ONNX QLinearMatMul-21"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = _shape(call, "matmul", 0, 3)
        rows, columns = call.shape(0)[-2] if len(call.shape(0)) > 1 else 1, call.shape(3)[-1]
        for index, size in ((1, rows), (2, rows), (4, columns), (5, columns), (6, rows), (7, rows)):
            _agree(call, index, size)
        if call.dtype(7) not in _SMALL:
            raise call.error("zero must be of 8 bits", found=str(call.types[7]))
        return (Tensor(call.dtype(7), shape),)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = operands
        total = b.matmul(_less(b, x, x_zero, 1, f32), _less(b, y, y_zero, 0, f32))
        scales = (x_scale, y_scale, scale)
        x_scale, y_scale, scale = scales if call.dtype(1) is f32 else (b.cast(each, dtype=f32) for each in scales)
        factor = b.div(b.mul(_put(b, x_scale, 1), y_scale), _put(b, scale, 1))
        return _rounded(b, total, factor, zero)

    def samples(self) -> Iterable[Sample]:
        x, x_zeros = _ints(np.uint8, (2, 3, 4), (3,))
        y, y_zeros = _ints(np.int8, (4, 5), (5,))
        scales = rng().uniform(0.01, 0.1, 8).astype(np.float32)
        some = np.float32(0.013), np.uint8(120), y, np.float32(0.021), np.int8(3), np.float32(0.37)
        yield sample(x, *some, np.uint8(110))
        yield sample(x, *some, np.int8(-4), note="to-i8")
        yield sample(x, scales[:3], x_zeros, y, scales[3:], y_zeros, np.float32(1.7), np.uint8(90), note="by-row-and-column")
        halves = [each.astype(np.float16) if each.dtype == np.float32 else each for each in some]
        yield sample(x, *halves, np.uint8(110), note="f16")


@register
class QLinearConv(Op):
    """A convolution of quantized numbers, quantized: `conv` of ``x - x_zero`` with ``weight - weight_zero``, plus the whole
    `bias`, times ``x_scale * weight_scale / scale``, rounded to even, plus `zero`, cut off at the limits of its element type.
    """

    name = "qlinear_conv"
    operands = operands(
        "x: int X, x_scale: f32, x_zero: int X, weight: int W, weight_scale: f32, weight_zero: int W, scale: f32, zero: int,"
        "bias?: i32"
    )
    attributes = _WINDOWS
    traits = _COARSE
    source = "ONNX QLinearConv-10"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = _shape(call, "conv", 0, 3)
        outputs = call.shape(3)[0]
        for index, size in ((1, 1), (2, 1), (4, outputs), (5, outputs), (8, outputs)):
            _agree(call, index, size)
        if call.shape(6) or call.shape(7) or call.dtype(7) not in _SMALL:
            raise call.error("scale and zero must be scalars, and zero of 8 bits")
        return (Tensor(call.dtype(7), shape),)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, x_scale, x_zero, weight, weight_scale, weight_zero, scale, zero, bias = operands
        behind = len(call.shape(3)) - 2
        bias = bias if bias is None else b.cast(bias, dtype=f32)
        weight = _less(b, weight, weight_zero, behind + 1, f32)
        total = b.conv(_less(b, x, x_zero, 0, f32), weight, bias, **call.attrs)
        factor = b.div(b.mul(x_scale, weight_scale), scale)
        return _rounded(b, total, _put(b, factor, behind), zero)

    def samples(self) -> Iterable[Sample]:
        x, weight = _ints(np.uint8, (1, 2, 5, 4), (4, 1, 3, 2))
        (signed,) = _ints(np.int8, (4, 1, 3, 2))
        bias = np.array([100, -2000, 0, 5000], np.int32)
        scales = rng().uniform(0.01, 0.1, 4).astype(np.float32)
        window: dict[str, Any] = {"strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 1], "groups": 2}
        first, last = (x, np.float32(0.013), np.uint8(120)), (np.float32(0.9), np.uint8(110))
        yield sample(*first, weight, np.float32(0.021), np.uint8(99), *last, **window)
        yield sample(*first, signed, scales, np.zeros(4, np.int8), *last, bias, note="by-output-and-bias", **window)
