"""Emitters of elementwise ops and activations, and lowerings of those that ONNX lacks."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.backends import formulas
from isthmus.backends.formulas import SEARCHED
from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import alike
from isthmus.ir.graph import Node, Value
from isthmus.ir.types import Tensor, Unknown

_DIRECT: Final = {
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
    "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "sigmoid": "Sigmoid", "relu": "Relu",
    "is_nan": "IsNaN", "is_inf": "IsInf", "logical_not": "Not", "softsign": "Softsign", "selu": "Selu",
    "add": "Add", "sub": "Sub", "mul": "Mul", "eq": "Equal", "lt": "Less",
    "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "logical_and": "And", "logical_or": "Or",
    "logical_xor": "Xor", "matmul": "MatMul", "det": "Det",
}  # fmt: skip
"""Ops that are one ONNX op of the same operands, without attributes."""

_LATER: Final = {
    "bit_not": ("BitwiseNot", 18), "bit_and": ("BitwiseAnd", 18), "bit_or": ("BitwiseOr", 18), "bit_xor": ("BitwiseXor", 18),
    "hard_swish": ("HardSwish", 14), "mish": ("Mish", 18),
}  # fmt: skip


def _direct(op: str, op_type: str, since: int) -> None:
    @emits(op, since=since)
    def emit(e: Emitter, node: Node, *operands: str) -> Any:
        return e.op(op_type, *operands)


for _op, _type in _DIRECT.items():
    _direct(_op, _type, 7)
for _op, (_type, _since) in _LATER.items():
    _direct(_op, _type, _since)


for _op, _type in {"maximum": "Max", "minimum": "Min"}.items():

    @emits(_op)
    def _extreme(e: Emitter, node: Node, x: str, y: str, op_type: str = _type) -> Any:
        if e.opset < 8 and len({None if v is None else v.tensor.shape for v in (*node.operands, node.result)}) > 1:
            refuse(f"{op_type} broadcasts from opset 8 on")
        return e.op(op_type, x, y)


def _no_integers(e: Emitter, x: str) -> bool:
    dtype = e.dtype(x)
    return dtype is None or not dtype.is_integer


for _op, _type in {"floor": "Floor", "ceil": "Ceil", "round": "Round"}.items():

    @emits(_op)
    def _rounding(e: Emitter, node: Node, x: str, op_type: str = _type) -> Any:
        return e.op(op_type, x) if _no_integers(e, x) else x


@emits("constant")
def _constant(e: Emitter, node: Node) -> Any:
    dtype = node.result.tensor.dtype
    return e.op("Identity", None) if dtype.is_complex else "constant"


@emits("identity")
def _identity(e: Emitter, node: Node, x: str) -> Any:
    if e.opset < 14 and not isinstance(node.result.type, (Tensor, Unknown)):
        refuse("handing on a sequence needs opset 14")
    return x


@emits("bind")
def _bind(e: Emitter, node: Node, x: str) -> Any:
    return x


@emits("size")
def _size(e: Emitter, node: Node) -> Any:
    return e.sizes.scalar(node.attrs["dim"])


@emits("cast")
def _cast(e: Emitter, node: Node, x: str) -> Any:
    source, target, attrs = e.dtype(x), node.attrs["dtype"], node.attrs
    if source is target:
        return x
    written, read = target is dtypes.string, source is dtypes.string
    if attrs["notation"] != "c" and ((written and not (source and source.is_integer)) or (read and not target.is_float)):
        refuse(f"ONNX writes {source} as {target} otherwise than Python does")
    small = target.is_float and target.bits == 8
    return e.op(
        "Cast", x, to=opsets.enum(target), saturate=0 if small and not attrs["saturate"] else None,
        round_mode=attrs["rounding"] if target is dtypes.f8e8m0 and attrs["rounding"] != "up" else None,
    )  # fmt: skip


@emits("bitcast", since=26)
def _bitcast(e: Emitter, node: Node, x: str) -> Any:
    return e.op("BitCast", x, to=opsets.enum(node.attrs["dtype"]))


@emits("where")
def _where(e: Emitter, node: Node, cond: str, x: str, y: str) -> Any:
    """Before opset 9 of integers alone: times 1, plus times 0."""
    dtype = node.result.tensor.dtype
    if e.opset >= 9 or not dtype.is_integer:
        return e.op("Where", cond, x, y)
    chosen = e.op("Cast", cond, to=opsets.enum(dtype))
    return e.op("Add", e.op("Mul", chosen, x), e.op("Mul", e.op("Sub", e.constant(1, dtype), chosen), y))


@lowers("where")
def _where_of_u64(b: Builder, node: Node, cond: Value, x: Value, y: Value) -> Any:
    """onnxruntime chooses no u64: times 1, plus times 0."""
    if x.tensor.dtype is not dtypes.u64:
        return None
    first, second = (b.cast(each, dtype=dtypes.u64) for each in (cond, b.logical_not(cond)))
    return b.add(b.mul(x, first), b.mul(y, second))


@emits("pow")
def _pow(e: Emitter, node: Node, x: str, y: str) -> Any:
    if node.result.tensor.dtype.is_integer:
        refuse("onnxruntime computes powers of integers in f64, but for squares and cubes of several elements")
    return e.op("Pow", x, y)


def _integer_exponent(node: Node) -> int | None:
    """The one power that integers are raised to, if it is known."""
    exponent = node.operands[1]
    weight = exponent.weight if exponent is not None else None
    if weight is None or weight.size != 1 or not weight.dtype.is_integer:
        return None
    return int(weight.array().reshape(-1)[0])


@lowers("pow")
def _pow_by_products(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """Of integers: by squares of squares, which wrap around as products do. A negative power leaves but 1 and -1."""
    if not x.tensor.dtype.is_integer:
        return None
    exponent = _integer_exponent(node)
    if exponent is None:
        return _pow_by_turns(b, node, x, y)
    if not alike(x.tensor.shape, node.result.tensor.shape):  # an exponent of a higher rank
        x = b.expand(x, shape=node.result.tensor.shape)
    if exponent < 0:
        return b.where(b.eq(b.clip(x, -1, 1), x), x if exponent % 2 else b.mul(x, x), 0)
    found, square = None, x
    while exponent:
        if exponent % 2:
            found = square if found is None else b.mul(found, square)
        exponent //= 2
        square = b.mul(square, square) if exponent else square
    if found is None:
        return b.expand(b.constant(1, x.tensor.dtype), shape=x.tensor.shape)
    return b.identity(x) if found is x else found


def _pow_by_turns(b: Builder, node: Node, x: Value, y: Value) -> Value:
    """The same, of exponents that only a run tells: each turn takes one more of their bits, until none is left anywhere."""
    type = node.result.tensor
    shape, dtype = type.shape or (), type.dtype
    axes = list(range(len(shape)))
    x, y = b.expand(x, shape=shape), b.expand(y, shape=shape)
    one = b.expand(b.constant(1, dtype), shape=shape)

    def going(b: Builder, rest: Value) -> Any:
        return b.reduce_any(b.gt(rest, 0), axes=axes)

    def turn(b: Builder, number: Value, found: Value, square: Value, rest: Value) -> list[Value]:
        half = b.div(rest, 2)
        odd = b.ne(b.mul(half, 2), rest)
        return [going(b, half), b.where(odd, b.mul(found, square), found), b.mul(square, square), half]

    body = b.subgraph([Tensor(dtypes.i64, ()), type, type, type], turn)
    exponents = b.maximum(y, 0)
    found: Value = b.loop(None, going(b, exponents), [one, x, exponents], carried=3, regions=[body])[0]
    if not dtype.is_signed:
        return found
    inverse = b.where(b.eq(b.clip(x, -1, 1), x), b.where(b.eq(b.mod(y, 2), 0), b.mul(x, x), x), 0)
    return b.where(b.lt(y, 0), inverse, found)  # type: ignore[no-any-return]


@lowers("relu")
def _relu(b: Builder, node: Node, x: Value) -> Any:
    return b.maximum(x, 0) if x.tensor.dtype.is_integer else None


@lowers("ne")
def _ne(b: Builder, node: Node, x: Value, y: Value) -> Any:
    return b.logical_not(b.eq(x, y))


@lowers("rsqrt")
def _rsqrt(b: Builder, node: Node, x: Value) -> Any:
    return b.reciprocal(b.sqrt(x))


for _op in ("log1p", "expm1", "log2", "log10", "exp2", "trunc", "is_finite", "atan2"):
    lowers(_op)(getattr(formulas, _op))
lowers("erf")(formulas.erf)
lowers("bit_not", "bit_and", "bit_or", "bit_xor")(formulas.bits_of_bool)


@lowers("is_inf")
def _is_inf(b: Builder, node: Node, x: Value) -> Any:
    return b.eq(b.abs(x), math.inf)


@lowers("is_nan")
def _is_nan(b: Builder, node: Node, x: Value) -> Any:
    return b.logical_not(b.eq(x, x))


@emits("shift_left", "shift_right")
def _shift(e: Emitter, node: Node, x: str, y: str) -> Any:
    dtype, amount = node.result.tensor.dtype, node.operands[1]
    known = amount.weight if amount is not None else None
    if known is None or known.size > SEARCHED or not np.all((known.array() >= 0) & (known.array() < dtype.bits)):
        refuse("the amount to shift by may be out of range, which ONNX leaves undefined")
    if dtype.is_signed:
        refuse("ONNX shifts unsigned integers only")
    return e.op("BitShift", x, y, direction=node.op.name.removeprefix("shift_").upper())


@lowers("shift_left", "shift_right")
def _shift_by_product(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """As a product or quotient with a power of two; what is shifted out altogether is 0, or -1 to the right of a sign."""
    dtype = x.tensor.dtype
    largest = dtype.bits - (2 if dtype.is_signed else 1)
    factor = b.cast(b.pow(2.0, b.cast(b.clip(y, 0, largest), dtype=dtypes.f64)), dtype=dtype)
    inside = b.logical_and(b.ge(y, 0), b.le(y, largest))
    if node.op.name == "shift_left":
        # One more place than a signed power of two can say is two products.
        shifted = b.mul(x, factor)
        beyond = b.where(b.eq(y, largest + 1), b.mul(shifted, 2), 0) if dtype.is_signed else 0
        return b.where(inside, shifted, beyond)
    beyond = b.where(b.lt(x, 0), b.constant(-1, dtype), 0) if dtype.is_signed else 0
    return b.where(inside, b.floor_div(x, factor), beyond)


@emits("clip")
def _clip(e: Emitter, node: Node, x: str, lo: str | None, hi: str | None) -> Any:
    if _no_integers(e, x) and bool(lo) != bool(hi):
        refuse("a Clip of floats without a bound takes the greatest finite number for it, and infinity would become that")
    return e.op("Clip", x, lo, hi)


@lowers("clip")
def _clip_by_extremes(b: Builder, node: Node, x: Value, lo: Value | None, hi: Value | None) -> Any:
    found = b.identity(x) if lo is None and hi is None else x if lo is None else b.maximum(x, lo)
    return found if hi is None else b.minimum(found, hi)


# ---- activations


@emits("leaky_relu")
def _leaky_relu(e: Emitter, node: Node, x: str) -> Any:
    return e.op("LeakyRelu", x, alpha=node.attrs["alpha"])


@emits("elu")
def _elu(e: Emitter, node: Node, x: str) -> Any:
    return e.op("Elu", x, alpha=node.attrs["alpha"])


@emits("celu")
def _celu(e: Emitter, node: Node, x: str) -> Any:
    return e.op("Celu", x, alpha=node.attrs["alpha"])


@emits("gelu", since=20)
def _gelu(e: Emitter, node: Node, x: str) -> Any:
    return e.op("Gelu", x, approximate=node.attrs["approximate"] if node.attrs["approximate"] != "none" else None)


@emits("hard_sigmoid")
def _hard_sigmoid(e: Emitter, node: Node, x: str) -> Any:
    return e.op("HardSigmoid", x, alpha=node.attrs["alpha"], beta=node.attrs["beta"])


@emits("softplus")
def _softplus(e: Emitter, node: Node, x: str) -> Any:
    if node.attrs["beta"] != 1 or node.attrs["threshold"] < 15:
        refuse("ONNX's Softplus has no beta, and no threshold")
    return e.op("Softplus", x)


@lowers("softplus")
def _softplus_scaled(b: Builder, node: Node, x: Value) -> Any:
    beta, threshold = node.attrs["beta"], node.attrs["threshold"]
    if beta == 1 and threshold >= 15:
        return None
    scaled = b.mul(x, beta)
    soft = b.mul(b.softplus(scaled), 1 / beta)
    # A large x times a large beta is infinite.
    return soft if threshold >= 15 and beta <= 1 else b.where(b.gt(scaled, threshold), x, soft)


@emits("prelu")
def _prelu(e: Emitter, node: Node, x: str, slope: str) -> Any:
    assert node.operands[0] is not None
    if not alike(node.result.tensor.shape, node.operands[0].tensor.shape):
        refuse("ONNX's PRelu broadcasts the slope only")
    return e.op("PRelu", x, slope)


for _op, _type in {"softmax": "Softmax", "log_softmax": "LogSoftmax"}.items():

    @emits(_op)
    def _softmax(e: Emitter, node: Node, x: str, op_type: str = _type) -> Any:
        axis, rank = node.attrs["axis"], node.result.tensor.rank
        if e.opset < 13 and axis % max(rank, 1) != max(rank, 1) - 1:
            refuse(f"before opset 13 {op_type} is over all axes from one on")
        return e.op(op_type, x, axis=axis % max(rank, 1) if e.opset < 11 else axis)


@lowers("softmax", "log_softmax", below=13)
def _softmax_of_last(b: Builder, node: Node, x: Value) -> Any:
    """The axis is moved to the end and back."""
    rank, axis = node.result.tensor.rank, node.attrs["axis"]
    order = [*(other for other in range(rank) if other != axis % max(rank, 1)), axis % max(rank, 1)]
    if order == list(range(rank)) or not rank:
        return None
    found = getattr(b, node.op.name)(b.permute(x, perm=order), axis=rank - 1)
    return b.permute(found, perm=[order.index(place) for place in range(rank)])


@lowers("mish")
def _mish(b: Builder, node: Node, x: Value) -> Any:
    return b.mul(x, b.tanh(b.softplus(x)))


@lowers("hard_swish")
def _hard_swish(b: Builder, node: Node, x: Value) -> Any:
    return b.mul(x, b.hard_sigmoid(x))
