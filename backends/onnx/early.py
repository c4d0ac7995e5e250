"""Lowerings to what early opsets have: arithmetic, comparisons and functions that came after opset 7."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.backends import formulas
from isthmus.backends.onnx.early_places import element_numbers
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import lowers
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import minimum, product, same
from isthmus.ir.graph import Node, Value

# ---- comparisons


@lowers("le", "ge", below=12)
def _or_equal(b: Builder, node: Node, x: Value, y: Value) -> Any:
    strict = b.lt if node.op.name == "le" else b.gt
    return b.logical_or(strict(x, y), b.eq(x, y))


@lowers("eq", below=11)
def _equal_floats(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """Neither less nor greater, and both numbers."""
    if not x.tensor.dtype.is_float:
        return None
    same = b.logical_not(b.logical_or(b.lt(x, y), b.gt(x, y)))
    return b.logical_and(same, b.logical_and(_is_number(b, x), _is_number(b, y)))


def _is_number(b: Builder, x: Value) -> Value:
    found: Value = b.logical_or(b.lt(x, math.inf), b.gt(x, -math.inf))
    return found


@lowers("is_nan", below=9)
def _is_nan(b: Builder, node: Node, x: Value) -> Any:
    return b.logical_not(_is_number(b, x)) if x.tensor.dtype in (dtypes.f32, dtypes.f64) else None


@lowers("is_inf", below=10)
def _is_inf(b: Builder, node: Node, x: Value) -> Any:
    return b.eq(b.abs(x), math.inf) if x.tensor.dtype in (dtypes.f32, dtypes.f64) else None


@lowers("lt", "gt", below=9)
def _compare_integers(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """In f64, where those of up to 32 bits are exact; longer ones in two halves. Of bools by logic."""
    dtype, compare = x.tensor.dtype, getattr(b, node.op.name)
    if dtype is dtypes.bool_:
        return b.logical_and(b.logical_not(x), y) if node.op.name == "lt" else b.logical_and(x, b.logical_not(y))
    if not dtype.is_integer:
        return None
    if dtype.bits <= 32:
        return compare(b.cast(x, dtype=dtypes.f64), b.cast(y, dtype=dtypes.f64))
    if not dtype.is_signed:
        return None
    (high, low), (other_high, other_low) = (_halves(b, each) for each in (x, y))
    tie = b.logical_not(b.logical_or(compare(high, other_high), compare(other_high, high)))
    return b.logical_or(compare(high, other_high), b.logical_and(tie, compare(low, other_low)))


def _halves(b: Builder, x: Value) -> tuple[Value, Value]:
    """An i64 as a multiple of 2^32 and the rest of the same sign, both in f64."""
    high = b.div(x, 1 << 32)
    return b.cast(high, dtype=dtypes.f64), b.cast(b.sub(x, b.mul(high, 1 << 32)), dtype=dtypes.f64)


# ---- choosing


@lowers("where", below=9)
def _where(b: Builder, node: Node, cond: Value, x: Value, y: Value) -> Any:
    """Of bools by logic; of floats, which may be infinite or nan, each element is gathered from both, laid end to end."""
    dtype, shape = node.result.tensor.dtype, node.result.tensor.shape or ()
    if dtype is dtypes.bool_:
        return b.logical_or(b.logical_and(cond, x), b.logical_and(b.logical_not(cond), y))
    if dtype.is_integer:
        return None
    if 0 in shape:
        return b.expand(b.constant(np.zeros((), dtype.numpy), dtype), shape=shape)
    count, chosen = product(shape), b.cast(cond, dtype=dtypes.i64)
    single = [same(product(each.tensor.shape or ()), 1) is True for each in (x, y)]
    flat = [
        b.reshape(each if one else b.expand(each, shape=shape), shape=[1 if one else count])
        for each, one in zip((x, y), single, strict=True)
    ]
    both = b.concat(flat, axis=0)
    first = 1 if single[0] else count
    if all(single):
        found = b.gather(both, b.sub(1, chosen), axis=0)
        missing = len(shape) - len(cond.tensor.shape or ())
        return b.expand(b.unsqueeze(found, axes=list(range(missing))), shape=shape)
    place = element_numbers(b, shape)
    left, right = 0 if single[0] else place, b.size(first) if single[1] else b.add(place, b.size(first))
    return b.gather(both, b.add(b.mul(chosen, b.sub(left, right)), right), axis=0)


@lowers("maximum", "minimum", below=8)
def _extreme_of_doubles(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """By comparing; nan is what a nan and anything else give."""
    if x.tensor.dtype is not dtypes.f64:
        return None
    better = b.gt(x, y) if node.op.name == "maximum" else b.lt(x, y)
    return b.where(b.logical_or(better, b.is_nan(x)), x, y)


@lowers("maximum", "minimum", below=12)
def _extreme(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """Of bools by logic, of integers by comparing; before opset 8 both have one shape."""
    if x.tensor.dtype is dtypes.bool_:
        return b.logical_or(x, y) if node.op.name == "maximum" else b.logical_and(x, y)
    if x.tensor.dtype.is_integer:
        return b.where(b.gt(x, y) if node.op.name == "maximum" else b.lt(x, y), x, y)
    shape = node.result.tensor.shape
    if shape_of(node, 0) == shape_of(node, 1) == shape:
        return None
    return getattr(b, node.op.name)(b.expand(x, shape=shape), b.expand(y, shape=shape))


@lowers("expand", below=8)
def _expand(b: Builder, node: Node, x: Value) -> Any:
    """Repeated along axes of one element."""
    shape, target = shape_of(node), node.attrs["shape"]
    missing = len(target) - len(shape)
    sizes = (*[1] * missing, *shape)
    repeats = [1 if same(old, new) is True else new for old, new in zip(sizes, target, strict=True)]
    x = b.unsqueeze(x, axes=list(range(missing))) if missing else x
    for axis, (old, new) in enumerate(zip(sizes, target, strict=True)):
        if repeats[axis] != 1 and same(old, 1) is not True:  # one element or all of them: which, is seen at run time
            repeats[axis] = 1
            x = b.gather(x, b.mul(b.arange(stop=new), b.size(minimum(old - 1, 1))), axis=axis)
    return x if repeats == [1] * len(repeats) else b.tile(x, repeats=repeats)


# ---- functions


@lowers("sign", below=9)
def _sign(b: Builder, node: Node, x: Value) -> Any:
    dtype = x.tensor.dtype
    found = b.sub(b.cast(b.gt(x, 0), dtype=dtype), b.cast(b.lt(x, 0), dtype=dtype))
    if dtype.is_integer:
        return found
    # Nothing is added but for nan, of which there is no sign.
    return b.add(found, b.mul(b.reciprocal(b.add(b.abs(x), 1.0)), 0.0))


@lowers("round", below=11)
def _round(b: Builder, node: Node, x: Value) -> Any:
    """To the even one of two that are equally near."""
    if not x.tensor.dtype.is_float:
        return None
    below = b.floor(x)
    over = b.sub(x, below)
    odd = b.eq(b.sub(below, b.mul(b.floor(b.mul(below, 0.5)), 2.0)), 1.0)
    up = b.logical_or(b.gt(over, 0.5), b.logical_and(b.eq(over, 0.5), odd))
    return b.add(below, b.cast(up, dtype=x.tensor.dtype))


@lowers("sinh", below=9)
def _sinh(b: Builder, node: Node, x: Value) -> Any:
    """Half of expm1(x) - expm1(-x), which loses nothing for small x."""
    return b.mul(b.sub(b.expm1(x), b.expm1(b.neg(x))), 0.5)


@lowers("cosh", below=9)
def _cosh(b: Builder, node: Node, x: Value) -> Any:
    half = math.log(2)
    return b.add(b.exp(b.sub(x, half)), b.exp(b.sub(b.neg(x), half)))


@lowers("asinh", below=9)
def _asinh(b: Builder, node: Node, x: Value) -> Any:
    """sign(x) log1p(a + a^2 / (1 + sqrt(1 + a^2))) of a = |x|; from where a^2 would overflow, log(2a)."""
    a = b.abs(x)
    square = b.mul(a, a)
    small = b.log1p(b.add(a, b.div(square, b.add(b.sqrt(b.add(square, 1.0)), 1.0))))
    large = b.add(b.log(a), math.log(2))
    return b.mul(b.sign(x), b.where(b.lt(a, 1e9), small, large))


@lowers("acosh", below=9)
def _acosh(b: Builder, node: Node, x: Value) -> Any:
    """log1p(t + sqrt(2t + t^2)) of t = x - 1; from where t^2 would overflow, log(2x)."""
    t = b.sub(x, 1.0)
    small = b.log1p(b.add(t, b.sqrt(b.add(b.mul(t, 2.0), b.mul(t, t)))))
    return b.where(b.lt(x, 1e9), small, b.add(b.log(x), math.log(2)))


@lowers("atanh", below=9)
def _atanh(b: Builder, node: Node, x: Value) -> Any:
    a = b.abs(x)
    return b.mul(b.sign(x), b.mul(b.log1p(b.div(b.mul(a, 2.0), b.sub(1.0, a))), 0.5))


_ERF_ABOVE: Final = (
    -1.60960333262415e-02, -2.95459980854025e-03, -7.34990630326855e-04, -5.69250639462346e-05, -2.10102402082508e-06,
    2.77068142495902e-08, -2.72614225801306e-10,
)  # fmt: skip
_ERF_BELOW: Final = (
    -1.42647390514189e-02, -7.37332916720468e-03, -1.68282697438203e-03, -2.13374055278905e-04, -1.45660718464996e-05,
)  # fmt: skip
"""x P(x^2) / Q(x^2), which is erf to the precision of f32 up to 4; beyond, erf is 1."""


@lowers("erf", below=9)
def _erf(b: Builder, node: Node, x: Value) -> Any:
    if x.tensor.dtype is dtypes.f16:
        return b.cast(b.erf(b.cast(x, dtype=dtypes.f32)), dtype=dtypes.f16)
    if x.tensor.dtype is not dtypes.f32:
        return None
    near = b.clip(x, -4.0, 4.0)
    square = b.mul(near, near)
    above, below = (formulas.polynomial(b, square, factors) for factors in (_ERF_ABOVE, _ERF_BELOW))
    return b.div(b.mul(near, above), below)


lowers("log1p", below=9)(formulas.log1p)


# ---- bits


@lowers("bit_not", below=18)
def _bit_not(b: Builder, node: Node, x: Value) -> Any:
    dtype = x.tensor.dtype
    if not dtype.is_integer:
        return None
    return b.sub(b.constant(-1 if dtype.is_signed else (1 << dtype.bits) - 1, dtype), x)


@lowers("bit_and", "bit_or", "bit_xor", below=18)
def _bits(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """In i64, each bit by itself along a further axis, and that of the sign."""
    dtype, name = x.tensor.dtype, node.op.name
    if not dtype.is_integer:
        return None

    def combined(left: Value, right: Value) -> Value:
        both = b.mul(left, right)
        if name == "bit_and":
            return both  # type: ignore[no-any-return]
        return b.sub(b.add(left, right), both if name == "bit_or" else b.mul(both, 2))  # type: ignore[no-any-return]

    places = min(dtype.bits - dtype.is_signed, 63)
    lowest, powers = -1 << places, 1 << np.arange(places, dtype=np.int64)
    signs, bits = [], []
    for each in (x, y):
        each = each if each.tensor.dtype is dtypes.i64 else b.cast(each, dtype=dtypes.i64)
        sign = b.cast(b.lt(each, 0), dtype=dtypes.i64)
        rest = b.sub(each, b.mul(sign, lowest))
        halves = b.div(b.unsqueeze(rest, axes=[len(rest.tensor.shape or ())]), b.constant(powers))
        signs.append(sign)
        bits.append(b.sub(halves, b.mul(b.div(halves, 2), 2)))
    together = combined(*bits)
    found = b.mul(combined(*signs), lowest)
    for first in range(0, places, 32):  # onnxruntime adds up in f64
        part = b.constant(np.where(np.arange(places) // 32 == first // 32, powers >> first, 0))
        total = b.reduce_sum(b.mul(together, part), axes=[len(together.tensor.shape or ()) - 1], keepdims=False)
        found = b.add(found, b.mul(total, 1 << first) if first else total)
    return found if dtype is dtypes.i64 else b.cast(found, dtype=dtype)
