"""Arithmetic, comparisons, logic and functions, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.graph import Value

UNARY: Final = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor", "IsNaN": "is_nan", "Log": "log",
    "Neg": "neg", "Not": "logical_not", "BitwiseNot": "bit_not", "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
BINARY: Final = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
    "Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le", "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or", "BitwiseXor": "bit_xor",
}  # fmt: skip
VARIADIC: Final = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def _unary(op: str) -> Callable[..., Value]:
    def convert(c: Conversion, x: Value, *, consumed_inputs: tuple[int, ...] = ()) -> Value:
        made: Value = getattr(c.b, op)(x)
        return made

    return convert


def _binary(op: str) -> Callable[..., Value]:
    def convert(c: Conversion, x: Value, y: Value) -> Value:
        made: Value = getattr(c.b, op)(x, y)
        return made

    return convert


def _binary_old(op: str) -> Callable[..., Value]:
    def convert(
        c: Conversion, x: Value, y: Value, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = (),
    ) -> Value:  # fmt: skip
        if broadcast and axis is not None:
            after = c.rank(x) - c.axis(axis, c.rank(x)) - c.rank(y)
            rank = c.rank(y)
            y = c.b.unsqueeze(y, axes=list(range(rank, rank + after))) if after else y
        made: Value = getattr(c.b, op)(x, y)
        return made

    return convert


def _variadic(op: str) -> Callable[..., Value]:
    def convert(c: Conversion, *xs: Value, consumed_inputs: tuple[int, ...] = ()) -> Value:
        made = xs[0] if len(xs) > 1 else c.b.identity(xs[0])
        for x in xs[1:]:
            made = getattr(c.b, op)(made, x)
        return made

    return convert


for _name, _op in UNARY.items():
    converts(_name)(_unary(_op))
for _name, _op in BINARY.items():
    converts(_name, since=7)(_binary(_op))
    converts(_name)(_binary_old(_op))
for _name, _op in VARIADIC.items():
    converts(_name)(_variadic(_op))


@converts("Mean")
def mean(c: Conversion, *xs: Value, consumed_inputs: tuple[int, ...] = ()) -> Value:
    """The sum divided by the number of inputs."""
    total = _variadic("add")(c, *xs)
    made: Value = c.b.div(total, c.same_type(len(xs), total))
    return made


@converts("Pow", since=12)
def power(c: Conversion, x: Value, y: Value) -> Any:
    """The result has the base's element type; the exponent may have another, and a float one of an integer is taken as such."""
    base, exponent = x.tensor.dtype, y.tensor.dtype
    if exponent.is_float and (base.is_integer or base.bits < exponent.bits):
        wide = dtypes.f64 if base.is_integer else exponent
        return c.b.cast(c.b.pow(c.b.cast(x, dtype=wide), c.b.cast(y, dtype=wide)), dtype=base)
    return c.b.pow(x, y if exponent is base else c.b.cast(y, dtype=base))


converts("Pow", since=7)(_binary("pow"))
converts("Pow")(_binary_old("pow"))


@converts("Where")
def where(c: Conversion, cond: Value, x: Value, y: Value) -> Value:
    """`numpy.where`."""
    made: Value = c.b.where(cond, x, y)
    return made


@converts("Mod")
def mod(c: Conversion, x: Value, y: Value, *, fmod: int = 0) -> Value:
    """The sign is the divisor's, or with ``fmod`` the dividend's."""
    made: Value = c.b.fmod(x, y) if fmod else c.b.mod(x, y)
    return made


@converts("Identity")
def identity(c: Conversion, x: Value) -> Value:
    """The input."""
    made: Value = c.b.identity(x)
    return made


@converts("Clip", since=11)
def clip(c: Conversion, x: Value, lo: Value | None = None, hi: Value | None = None) -> Value:
    """Where the least is above the greatest, the greatest."""
    made: Value = c.b.clip(x, lo and c.scalar(lo), hi and c.scalar(hi))
    return made


@converts("Clip")
def clip_old(
    c: Conversion, x: Value, *, min: float = -3.402823e38, max: float = 3.402823e38, consumed_inputs: tuple[int, ...] = (),
) -> Value:  # fmt: skip
    """The bounds are attributes."""
    made: Value = c.b.clip(x, c.same_type(min, x), c.same_type(max, x))
    return made


@converts("IsInf")
def is_inf(c: Conversion, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Infinities of the wanted signs."""
    made: Value = c.b.is_inf(x)
    if not (detect_negative and detect_positive):
        zero = c.same_type(0, x)
        side: Any = c.b.gt(x, zero) if detect_positive else c.b.lt(x, zero)
        made = c.b.logical_and(made, side if detect_negative or detect_positive else c.b.logical_not(made))
    return made


@converts("BitShift")
def bit_shift(c: Conversion, x: Value, y: Value, *, direction: str) -> Value:
    """Logical shifts of unsigned integers."""
    made: Value = c.b.shift_left(x, y) if direction == "LEFT" else c.b.shift_right(x, y)
    return made
