"""Division and its remainders: what onnxruntime leaves undefined of integers, and the op that ONNX lacks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.backends.formulas import SEARCHED, float_mod, never
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value


@emits("div")
def _div(e: Emitter, node: Node, x: str, y: str) -> Any:
    _defined(node)
    return e.op("Div", x, y)


@emits("fmod")
def _fmod(e: Emitter, node: Node, x: str, y: str) -> Any:
    _defined(node)
    return e.op("Mod", x, y, fmod=1)


@emits("mod")
def _mod(e: Emitter, node: Node, x: str, y: str) -> Any:
    if node.result.tensor.dtype.is_float:
        refuse("ONNX's Mod of floats has the sign of x")
    _defined(node)
    return e.op("Mod", x, y)


def _defined(node: Node) -> None:
    x, y = node.operands
    if x is not None and y is not None and x.tensor.dtype.is_integer and not _is_defined(x, y):
        refuse("the divisor may be 0 or -1, and integer division by 0, or of the least integer by -1, stops the process")


def _is_defined(x: Value, y: Value) -> bool:
    """Whether the processor divides these integers: not by 0, nor the least one by -1 where it is not computed in i32."""
    dtype = y.tensor.dtype
    if not never(y, 0):
        return False
    return not dtype.is_signed or dtype.bits < 32 or never(y, -1) or never(x, int(np.iinfo(dtype.numpy).min))


@lowers("div", "mod", "fmod", "floor_div")
def _of_integers(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """By 0 it is 0, as the op table has it; the least integer by -1 is itself. Of floats, see below."""
    dtype, name = y.tensor.dtype, node.op.name
    if not dtype.is_integer:
        return _OF_FLOATS[name](b, x, y) if name in _OF_FLOATS else None
    if dtype.bits < 32:
        return b.cast(getattr(b, name)(b.cast(x, dtype=dtypes.i32), b.cast(y, dtype=dtypes.i32)), dtype=dtype)
    if name == "floor_div" and not dtype.is_signed:
        return b.div(x, y)
    if _is_defined(x, y):
        return _floor_div(b, x, y) if name == "floor_div" else None
    # Of -1, 0 and 1 as divisors the product is the quotient, and the remainder is that of 1.
    return _choose(b, name, x, y, b.eq(b.clip(y, -1 if dtype.is_signed else 0, 1), y))


@lowers("div", "mod", "fmod", "floor_div", below=12)
def _of_integers_early(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """The same, where integers are not clipped."""
    dtype = y.tensor.dtype
    if not dtype.is_integer or dtype.bits < 32 or _is_defined(x, y):
        return None
    few = b.eq(y, 0)
    for number in (1, -1)[: 1 + dtype.is_signed]:
        few = b.logical_or(few, b.eq(y, number))
    return _choose(b, node.op.name, x, y, few)


@lowers("mod", "fmod", below=10)
def _rest_of_quotient(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """Of integers; what is left over of floats is not exact when computed so, but some bits at a time."""
    if y.tensor.dtype in _EXPONENTS and node.op.name == "fmod":
        return _rest_by_bits(b, x, y)
    if not y.tensor.dtype.is_integer or not _is_defined(x, y):
        return None
    quotient = b.div(x, y) if node.op.name == "fmod" else b.floor_div(x, y)
    return b.sub(x, b.mul(quotient, y))


_EXPONENTS: Final = {dtypes.f16: (16, 24), dtypes.f32: (128, 149)}
"""Floats are below 2 to the first number, and multiples of 2 to minus the second."""

_BITS: Final = 28
"""A quotient of so many bits times 24 bits of a divisor is exact in f64."""


def _rest_by_bits(b: Builder, x: Value, y: Value) -> Value:
    """In f64, long division: each step takes off so many times a multiple of the divisor, once too often at most."""
    dtype = x.tensor.dtype
    above, below = _EXPONENTS[dtype]
    rest, divisor = (b.abs(b.cast(each, dtype=dtypes.f64)) for each in (x, y))
    divisor = b.where(b.gt(divisor, 2.0**above), 2.0 ** (above + 1), divisor)  # of infinity everything is left over
    for shift in range((above + below) // _BITS * _BITS, -1, -_BITS):
        part = b.mul(divisor, 2.0**shift) if shift else divisor
        rest = b.sub(rest, b.mul(b.floor(b.div(rest, part)), part))
        rest = b.add(rest, b.mul(part, b.cast(b.lt(rest, 0.0), dtype=dtypes.f64)))
    sign = b.sub(1.0, b.mul(b.cast(b.lt(x, 0.0), dtype=dtypes.f64), 2.0))
    return b.cast(b.mul(rest, sign), dtype=dtype)  # type: ignore[no-any-return]


def _choose(b: Builder, name: str, x: Value, y: Value, few: Value) -> Value:
    """Of the divisors where `few` holds, what is said above; of the others what the op says."""
    others = b.maximum(y, 1) if y.tensor.dtype is dtypes.u64 else b.where(few, 1, y)  # onnxruntime has no Where of u64
    found: Value = getattr(b, name)(x, others)
    return found if name in ("mod", "fmod") else b.where(few, b.mul(x, y), found)


def _floor_div(b: Builder, x: Value, y: Value) -> Value:
    """Rounded towards zero, minus one where the signs differ and something is left over. Nothing here overflows."""
    rest = b.fmod(x, y)
    weight = y.weight
    if weight is None or weight.size > SEARCHED or np.any(weight.array() < 0):
        rest = b.mul(rest, b.sign(y))
    found: Value = b.add(b.div(x, y), b.clip(rest, -1, 0))
    return found


def _floor_div_of_floats(b: Builder, x: Value, y: Value) -> Value:
    """As numpy does: what is left over taken off, the division is whole but for an error of rounding."""
    rest = b.fmod(x, y)
    quotient = b.div(b.sub(x, rest), y)
    below = b.logical_and(b.ne(rest, 0), b.ne(b.lt(rest, 0), b.lt(y, 0)))
    whole = b.round(b.where(below, b.sub(quotient, 1), quotient))
    found: Value = b.where(b.eq(y, 0), b.div(x, y), whole)
    return found


_OF_FLOATS = {"mod": float_mod, "floor_div": _floor_div_of_floats}
