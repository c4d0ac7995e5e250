"""What floats are made of: signs, exponents, neighbours."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from isthmus.frontends.torch.aten.common import Number, full
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dtypes import bool_, f64, i32
from isthmus.ir.graph import Value


@lowers("aten.signbit")
def signbit(w: Lowering, x: Value) -> Any:
    """The sign of 0 is that of its reciprocal; a nan counts as positive."""
    dtype = x.tensor.dtype
    if not dtype.is_signed:
        return full(w, w.dims(x), False, bool_)
    below = w.b.lt(x, 0)
    return w.b.logical_or(below, w.b.lt(w.b.reciprocal(x), 0)) if dtype.is_float else below


@lowers("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(w: Lowering, x: Value, other: Number) -> Any:
    x, sign = w.promote(x, other, floating=True)
    size = w.b.abs(x)
    return w.b.where(signbit(w, sign), w.b.neg(size), size)


@lowers("aten.angle")
def angle(w: Lowering, x: Value) -> Any:
    """Of real numbers: pi of negative ones, 0 of others, nan of nan."""
    if x.tensor.dtype.is_complex:
        return w.b.atan2(w.b.imag(x), w.b.real(x))
    x = w.floating(x)
    return w.b.where(w.b.is_nan(x), x, w.b.where(w.b.lt(x, 0), math.pi, w.tensor(0, x.tensor.dtype)))


@lowers("aten.nextafter")
def nextafter(w: Lowering, x: Value, other: Value) -> Any:
    """In double precision, moved towards `other` by what rounds to the neighbour.

    That is more than half of the distance to a neighbour, and less than half of that to the one behind it: 0.6 times the
    distance that the least number of the same exponent has to the next, as large as x is; and nearly the least number of all.
    """
    start, end = w.promote(x, other)
    dtype = start.tensor.dtype
    if dtype is f64:
        w.unsupported("neighbours are found by rounding a wider float, and there is none", "use float32")
    limits = ml_dtypes.finfo(dtype.numpy)
    wide, overflow = w.cast(start, f64), 2.0**limits.maxexp
    wide = w.b.clip(wide, -overflow, overflow)
    size = w.b.maximum(w.b.mul(w.b.abs(wide), 0.6 * float(limits.eps)), 0.9 * float(limits.smallest_subnormal))
    moved = w.cast(w.b.add(wide, w.b.where(w.b.lt(start, end), size, w.b.neg(size))), dtype)
    nan = w.b.where(w.b.is_nan(end), end, moved)
    return w.b.where(w.b.eq(start, end), end, nan)


@lowers("aten.frexp.Tensor")
def frexp(w: Lowering, x: Value) -> Any:
    """A part from one half to 1, and the power of 2 to multiply it with; the logarithm is put right where it was rounded."""
    dtype = x.tensor.dtype
    wide = w.cast(x, f64)
    usual = w.b.logical_and(w.b.is_finite(wide), w.b.ne(wide, 0.0))
    size = w.b.where(usual, w.b.abs(wide), 0.5)
    exponent = w.b.floor(w.b.mul(w.b.log(size), 1 / math.log(2)))  # at most one off
    part = w.b.mul(w.b.div(size, w.b.pow(2.0, exponent)), 0.5)
    exponent = w.b.add(exponent, 1.0)
    for wrong, factor, step in ((w.b.ge(part, 1.0), 0.5, 1.0), (w.b.lt(part, 0.5), 2.0, -1.0)):
        part, exponent = w.b.where(wrong, w.b.mul(part, factor), part), w.b.where(wrong, w.b.add(exponent, step), exponent)
    signed = w.b.mul(part, w.b.sign(wide))
    return w.cast(w.b.where(usual, signed, wide), dtype), w.cast(w.b.where(usual, exponent, 0.0), i32)
