"""Emitters of elementwise ops and activations."""

from __future__ import annotations

from typing import Any, Final

from isthmus.backends import formulas
from isthmus.backends.tensorrt.emitter import Emitter
from isthmus.backends.tensorrt.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import alike
from isthmus.ir.graph import Node, Value

_UNARY: Final = {
    "exp": "EXP", "log": "LOG", "sqrt": "SQRT", "reciprocal": "RECIP", "abs": "ABS", "neg": "NEG", "sin": "SIN", "cos": "COS",
    "tan": "TAN", "sinh": "SINH", "cosh": "COSH", "asin": "ASIN", "acos": "ACOS", "atan": "ATAN", "asinh": "ASINH",
    "acosh": "ACOSH", "atanh": "ATANH", "ceil": "CEIL", "floor": "FLOOR", "erf": "ERF", "logical_not": "NOT", "sign": "SIGN",
    "round": "ROUND", "is_inf": "ISINF", "is_nan": "ISNAN",
}  # fmt: skip

_BINARY: Final = {
    "add": "SUM", "sub": "SUB", "mul": "PROD", "pow": "POW", "maximum": "MAX", "minimum": "MIN", "eq": "EQUAL", "lt": "LESS",
    "gt": "GREATER", "logical_and": "AND", "logical_or": "OR", "logical_xor": "XOR",
}  # fmt: skip

_ACTIVATION: Final = {
    "sigmoid": "SIGMOID", "tanh": "TANH", "relu": "RELU", "selu": "SELU", "softsign": "SOFTSIGN",
}  # fmt: skip


@emits(*_UNARY)
def _unary(e: Emitter, node: Node, x: Any) -> Any:
    return e.unary(_UNARY[node.op.name], x)


@emits(*_BINARY)
def _binary(e: Emitter, node: Node, x: Any, y: Any) -> Any:
    return e.binary(_BINARY[node.op.name], x, y)


@emits(*_ACTIVATION)
def _activation(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation(_ACTIVATION[node.op.name], x)


@emits("le", "ge")
def _or_equal(e: Emitter, node: Node, x: Any, y: Any) -> Any:
    return e.binary("OR", e.binary("LESS" if node.op.name == "le" else "GREATER", x, y), e.binary("EQUAL", x, y))


@emits("ne")
def _ne(e: Emitter, node: Node, x: Any, y: Any) -> Any:
    return e.unary("NOT", e.binary("EQUAL", x, y))


@emits("rsqrt")
def _rsqrt(e: Emitter, node: Node, x: Any) -> Any:
    return e.unary("RECIP", e.unary("SQRT", x))


for _op in ("log1p", "expm1", "log2", "log10", "exp2", "is_finite", "atan2"):
    lowers(_op)(getattr(formulas, _op))
lowers("bit_not", "bit_and", "bit_or", "bit_xor")(formulas.bits_of_bool)


@lowers("floor", "ceil", "round", "trunc")
def _rounding(b: Builder, node: Node, x: Value) -> Any:
    if x.tensor.dtype.is_integer:
        return b.identity(x)
    return formulas.trunc(b, node, x) if node.op.name == "trunc" else None


# ---- division


@emits("div", "floor_div", "mod", "fmod")
def _divide(e: Emitter, node: Node, x: Any, y: Any) -> Any:
    name, divisor = node.op.name, node.operands[1]
    assert divisor is not None
    if divisor.tensor.dtype.is_integer:
        if not formulas.never_zero(divisor):
            refuse("the divisor may be 0, and TensorRT leaves division of integers by 0 undefined")
    elif name in ("mod", "fmod"):
        refuse("TensorRT has no remainder of floats")
    quotient = e.binary("FLOOR_DIV" if name in ("floor_div", "mod") else "DIV", x, y)
    return e.binary("SUB", x, e.binary("PROD", quotient, y)) if name in ("mod", "fmod") else quotient


@lowers("div", "floor_div", "mod", "fmod")
def _divide_otherwise(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """Of integers: 0 where the divisor is 0, as the op table has it. Of floats: a remainder by the truncated quotient."""
    name, dtype = node.op.name, y.tensor.dtype
    if not dtype.is_integer:
        return formulas.float_mod(b, x, y) if name == "mod" else _fmod(b, x, y) if name == "fmod" else None
    if dtype.bits < 32:
        return b.cast(getattr(b, name)(b.cast(x, dtype=dtypes.i32), b.cast(y, dtype=dtypes.i32)), dtype=dtype)
    if formulas.never_zero(y):
        return None
    zero = b.eq(y, 0)
    return b.where(zero, 0, getattr(b, name)(x, b.where(zero, 1, y)))


def _fmod(b: Builder, x: Value, y: Value) -> Any:
    dtype = x.tensor.dtype
    if dtype.bits < 32:
        return b.cast(b.fmod(b.cast(x, dtype=dtypes.f32), b.cast(y, dtype=dtypes.f32)), dtype=dtype)
    rest = b.sub(x, b.mul(b.trunc(b.div(x, y)), y))
    return b.where(b.logical_and(b.is_inf(y), b.is_finite(x)), x, rest)


@lowers("shift_left", "shift_right")
def _shift(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """As a product or quotient with a power of two; what is shifted out altogether is 0, or -1 to the right of a sign."""
    dtype = x.tensor.dtype
    if dtype.bits < 32 or not dtype.is_signed:
        return None
    most = dtype.bits - 2  # the greatest power of two that there is
    factor = b.pow(b.constant(2, dtype), b.minimum(b.maximum(y, 0), most))
    inside = b.logical_and(b.ge(y, 0), b.le(y, most))
    if node.op.name == "shift_left":
        shifted = b.mul(x, factor)
        return b.where(inside, shifted, b.where(b.eq(y, most + 1), b.mul(shifted, 2), 0))
    beyond = b.where(b.lt(x, 0), b.constant(-1, dtype), 0)
    return b.where(inside, b.floor_div(x, factor), beyond)


@emits("identity")
def _identity(e: Emitter, node: Node, x: Any) -> Any:
    return x


@emits("constant", values=True)
def _constant(e: Emitter, node: Node) -> Any:
    return e.weight(node.attrs["value"])


@emits("size")
def _size(e: Emitter, node: Node) -> Any:
    return e.sizes.scalar(node.attrs["dim"])


@emits("cast")
def _cast(e: Emitter, node: Node, x: Any) -> Any:
    target, operand = node.attrs["dtype"], node.operands[0]
    assert operand is not None
    source = operand.tensor.dtype
    if target in (dtypes.i4, dtypes.f8e4m3fn):
        refuse(f"TensorRT makes {target} by quantization only")
    found = e.cast(x, target)
    if target is not dtypes.u8 or source in (dtypes.u8, dtypes.bool_):
        return found
    # Held as i32; only this keeps it in its range.
    size = e.constant(256, dtypes.i32)
    return e.binary("SUB", found, e.binary("PROD", e.binary("FLOOR_DIV", found, size), size))


@emits("where")
def _where(e: Emitter, node: Node, cond: Any, x: Any, y: Any) -> Any:
    return e.add("select", *e.align(cond, x, y))


@emits("clip")
def _clip(e: Emitter, node: Node, x: Any, lo: Any, hi: Any) -> Any:
    found = x if lo is None else e.binary("MAX", x, lo)
    return found if hi is None else e.binary("MIN", found, hi)


@emits("leaky_relu")
def _leaky_relu(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation("LEAKY_RELU", x, alpha=node.attrs["alpha"])


@emits("elu")
def _elu(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation("ELU", x, alpha=node.attrs["alpha"])


@emits("gelu")
def _gelu(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation("GELU_TANH" if node.attrs["approximate"] == "tanh" else "GELU_ERF", x)


@emits("hard_sigmoid")
def _hard_sigmoid(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation("HARD_SIGMOID", x, alpha=node.attrs["alpha"], beta=node.attrs["beta"])


@emits("silu")
def _silu(e: Emitter, node: Node, x: Any) -> Any:
    return e.binary("PROD", x, e.activation("SIGMOID", x))


@emits("hard_swish")
def _hard_swish(e: Emitter, node: Node, x: Any) -> Any:
    return e.binary("PROD", x, e.activation("HARD_SIGMOID", x, alpha=1 / 6, beta=0.5))


@emits("prelu")
def _prelu(e: Emitter, node: Node, x: Any, slope: Any) -> Any:
    if not alike(node.result.tensor.shape, node.operands[0].tensor.shape if node.operands[0] else None):
        refuse("TensorRT's PReLU broadcasts the slope only")
    return e.add("parametric_relu", *e.align(x, slope))
