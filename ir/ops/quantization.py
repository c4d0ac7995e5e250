"""Quantization: floats to small integers or floats and back. Scale and zero point are operands.

Granularity: a scalar scale holds for the whole tensor; with `axis` and no `block` a vector has one scale for each place
along that axis; with `block` the scale has the rank of x and one element for each run of `block` places along the axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.attributes import BOOL, DTYPE, INT
from isthmus.ir.dims import Dim, ceildiv
from isthmus.ir.dtypes import DType
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.numerics import wide
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Value


def _check(call: Call) -> None:
    """Holds the shapes of scale and zero point against x.

    Raises:
        InferError: they do not fit the granularity.
    """
    x, scale, axis, block = call.shape(0), call.shape(1), call["axis"], call["block"]
    expected: tuple[Dim, ...] = ()
    if axis is not None:
        axis = call.axis(axis, len(x))
        expected = (*x[:axis], ceildiv(x[axis], block), *x[axis + 1 :]) if block else (x[axis],)
    elif block:
        raise call.error("attribute block needs an axis")
    for given in (scale, None if call.types[2] is None else call.shape(2)):
        if given is None:
            continue
        if len(given) != len(expected):
            raise call.error("scale and zero point have a wrong rank", expected=str(list(expected)), found=str(list(given)))
        for left, right in zip(given, expected, strict=True):
            call.unify(left, right, "the sizes of x and of scale or zero point")


def _spread(call: Call, parameter: Any, shape: Sequence[int]) -> Any:
    """An array of scales or zero points, broadcastable to x."""
    axis, block = call["axis"], call["block"]
    if axis is None or parameter is None:
        return parameter
    axis %= len(shape)
    if block:
        return parameter.repeat(block, axis).take(np.arange(shape[axis]), axis)
    return parameter.reshape(-1, *(1,) * (len(shape) - 1 - axis))


def _put(b: Builder, call: Call, parameter: Value, dtype: DType) -> Value:
    """The same in finer ops, cast to an element type."""
    x, block = call.shape(0), call["block"]
    if parameter.tensor.dtype is not dtype:
        parameter = b.cast(parameter, dtype=dtype)
    if call["axis"] is None:
        return parameter
    axis = call["axis"] % len(x)
    if block:
        shape = list(call.shape(1))
        spread = b.expand(b.unsqueeze(parameter, axes=[axis + 1]), shape=[*shape[: axis + 1], block, *shape[axis + 1 :]])
        shape[axis] = shape[axis] * block
        whole = b.reshape(spread, shape=shape)
        return b.slice(whole, axes=[axis], starts=[0], ends=[x[axis]], steps=[1])  # type: ignore[no-any-return]
    return b.unsqueeze(parameter, axes=list(range(1, len(x) - axis))) if axis < len(x) - 1 else parameter


def _real(call: Call, index: int) -> DType:
    """The type that is computed in: that of an operand, or float32 where it is smaller."""
    dtype = call.dtype(index)
    return dtypes.f32 if dtype.bits < 32 else dtype


def limits(dtype: DType) -> tuple[float, float]:
    """The least and the greatest finite value of an integer or float type."""
    if dtype.is_float:
        info = ml_dtypes.finfo(dtype.numpy)
        return float(info.min), float(info.max)
    return (-(2.0 ** (dtype.bits - 1)), 2.0 ** (dtype.bits - 1) - 1) if dtype.is_signed else (0.0, 2.0**dtype.bits - 1)


@register
class Quantize(Op):
    """``saturate(round(x / scale) + zero)`` in the element type `dtype`; halves are rounded to the even number.

    Without ``zero`` it is 0. For a float `dtype` nothing is rounded before the cast, and values out of range become the
    greatest finite ones unless `saturate` is false.
    """

    name = "quantize"
    operands = operands("x: float T, scale: float T, zero?: real")
    attributes = {"dtype": DTYPE, "axis": INT.optional(), "block": INT(0), "saturate": BOOL(True)}
    traits = Trait.PURE | Trait.COARSE
    source = "ONNX QuantizeLinear-21"

    def infer(self, call: Call) -> Sequence[Type]:
        dtype = call["dtype"]
        if dtype not in dtypes.REAL or dtype.bits > 32:
            raise call.error("dtype must be an integer or a float of at most 32 bits", found=str(dtype))
        _check(call)
        if call.types[2] is not None and call.dtype(2) is not dtype:
            raise call.error("zero must have the dtype of the result", expected=str(dtype), found=str(call.types[2]))
        return (Tensor(dtype, call.shape(0)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, scale, zero = operands
        dtype = call["dtype"]
        with np.errstate(all="ignore"):
            result = wide(x) / _spread(call, wide(scale), x.shape)
            if dtype.is_integer:
                result = np.rint(result.astype(np.float64))
            if zero is not None:
                result = result + _spread(call, zero.astype(result.dtype), x.shape)
            if dtype.is_integer or call["saturate"]:
                result = np.clip(result, *limits(dtype))
            return np.asarray(result).astype(dtype.numpy)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, scale, zero = operands
        dtype, real = call["dtype"], _real(call, 0)
        if dtype.bits > 16:
            return NotImplemented  # its limits are not floats, so clipping would not be exact
        x = x if x.tensor.dtype is real else b.cast(x, dtype=real)
        result = b.div(x, _put(b, call, scale, real))
        if dtype.is_integer:
            result = b.round(result)
        if zero is not None:
            result = b.add(result, _put(b, call, zero, real))
        if dtype.is_integer or call["saturate"]:
            result = b.clip(result, *limits(dtype))
        return b.cast(result, dtype=dtype)

    def samples(self) -> Iterable[Sample]:
        x = (rng().standard_normal((3, 4)) * 50).astype(np.float32)
        scale = np.array([0.5, 0.25, 2.0], np.float32)
        yield sample(x, np.float32(0.5), np.uint8(100), dtype=dtypes.u8)
        yield sample(x, np.float32(0.5), dtype=dtypes.i8, note="no-zero")
        yield sample(x, scale, np.array([1, -2, 3], np.int8), dtype=dtypes.i8, axis=0, note="axis")
        blocks = np.array([[0.5, 0.25], [1, 2], [3, 4]], np.float32)
        yield sample(x, blocks, np.ones((3, 2), np.int8), dtype=dtypes.i8, axis=1, block=3, note="block")
        yield sample(x, np.float32(20), dtype=dtypes.i4, note="i4")
        yield sample(x, np.float32(0.1), dtype=dtypes.f8e4m3fn, note="f8")
        yield sample(np.array([0.5, 1.5, 2.5, -0.5], np.float32), np.float32(1), dtype=dtypes.i32, note="halves")


@register
class Dequantize(Op):
    """``(x - zero) * scale`` in the element type of ``scale``; without ``zero`` it is 0."""

    name = "dequantize"
    operands = operands("x: real T, scale: float, zero?: real T")
    attributes = {"axis": INT.optional(), "block": INT(0)}
    traits = Trait.PURE | Trait.COARSE
    source = "ONNX DequantizeLinear-21"

    def infer(self, call: Call) -> Sequence[Type]:
        _check(call)
        return (Tensor(call.dtype(1), call.shape(0)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, scale, zero = operands
        real = wide(scale).dtype
        whole = np.dtype(np.int64) if dtypes.from_numpy(x.dtype).is_integer else real
        result = x.astype(whole) if zero is None else x.astype(whole) - _spread(call, zero, x.shape).astype(whole)
        return (result.astype(real) * _spread(call, wide(scale), x.shape)).astype(scale.dtype)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, scale, zero = operands
        real = _real(call, 1)
        if zero is not None and call.dtype(0).bits > 16:
            return NotImplemented  # the difference must be taken before it is rounded to a float
        result = b.cast(x, dtype=real)
        if zero is not None:
            result = b.sub(result, _put(b, call, zero, real))
        result = b.mul(result, _put(b, call, scale, real))
        return result if real is call.dtype(1) else b.cast(result, dtype=call.dtype(1))

    def samples(self) -> Iterable[Sample]:
        x = rng().integers(-100, 100, (3, 4)).astype(np.int8)
        scale = np.array([0.5, 0.25, 2.0], np.float32)
        yield sample(x, np.float32(0.5), np.int8(3))
        yield sample(x, np.float32(0.5), note="no-zero")
        yield sample(x, scale, np.array([1, -2, 3], np.int8), axis=0, note="axis")
        blocks = np.array([[0.5, 0.25], [1, 2], [3, 4]], np.float32)
        yield sample(x, blocks, np.ones((3, 2), np.int8), axis=1, block=3, note="block")
        yield sample(x.view(np.uint8), np.float16(0.25), np.uint8(128), note="f16")
        yield sample(x.astype(np.int32), np.float32(0.5), note="i32")
