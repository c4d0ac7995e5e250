"""Elementwise arithmetic, comparison, logic and selection. Element types follow torch's promotion throughout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

from isthmus.frontends.torch.aten.common import Number, default_float, expand, full, truth
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers
from isthmus.ir import dtypes
from isthmus.ir.dtypes import bool_
from isthmus.ir.graph import Value

# ---- maps of one tensor

_FLOATING: Final = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "reciprocal": "reciprocal", "sin": "sin", "cos": "cos",
    "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "erf": "erf", "special_erf": "erf", "sigmoid": "sigmoid",
    "special_expit": "sigmoid", "log1p": "log1p", "special_log1p": "log1p", "expm1": "expm1", "special_expm1": "expm1",
    "log2": "log2", "log10": "log10", "exp2": "exp2", "special_exp2": "exp2",
}  # fmt: skip
"""Integers and bools go to the default float type first."""

_KEEPING: Final = {"neg": "neg", "negative": "neg", "relu": "relu"}
_ROUNDING: Final = {
    "floor": "floor", "ceil": "ceil", "round": "round", "special_round": "round", "trunc": "trunc", "fix": "trunc",
}  # fmt: skip
"""Integers are what they are."""


def _unary(name: str, op: str, prepare: Callable[[Lowering, Value], Value | None]) -> None:
    def lowering(w: Lowering, x: Value) -> Any:
        prepared = prepare(w, x)
        return x if prepared is None else getattr(w.b, op)(prepared)

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}")(lowering)


for _name, _op in _FLOATING.items():
    _unary(_name, _op, lambda w, x: w.floating(x))
for _name, _op in _KEEPING.items():
    _unary(_name, _op, lambda w, x: x)
for _name, _op in _ROUNDING.items():
    _unary(_name, _op, lambda w, x: x if x.tensor.dtype.is_float else None)


@lowers("aten.abs", "aten.absolute")
def abs_(w: Lowering, x: Value) -> Any:
    if x.tensor.dtype.is_complex:
        return w.b.modulus(x)
    return w.b.abs(x) if x.tensor.dtype.is_signed else x


@lowers("aten.sign", "aten.sgn")
def sign(w: Lowering, x: Value) -> Any:
    """Of complex numbers: those of the same angle at the distance 1 from 0."""
    if x.tensor.dtype.is_complex:
        size = w.b.modulus(x)
        return w.b.div(x, w.cast(w.b.where(w.b.eq(size, 0), 1, size), x.tensor.dtype))
    return x if x.tensor.dtype is bool_ else w.b.sign(x)


@lowers("aten.square")
def square(w: Lowering, x: Value) -> Any:
    return pow_(w, x, 2)


@lowers("aten.frac")
def frac(w: Lowering, x: Value) -> Any:
    return w.b.sub(x, w.b.trunc(x))


@lowers("aten.deg2rad")
def deg2rad(w: Lowering, x: Value) -> Any:
    return w.b.mul(w.floating(x), math.pi / 180)


@lowers("aten.rad2deg")
def rad2deg(w: Lowering, x: Value) -> Any:
    return w.b.mul(w.floating(x), 180 / math.pi)


@lowers("aten.round.decimals")
def round_decimals(w: Lowering, x: Value, decimals: int) -> Any:
    """torch scales with a power of ten, rounds halves to even, and scales back."""
    if not x.tensor.dtype.is_float:
        return x
    scale = 10.0 ** abs(decimals)
    scaled, back = (w.b.mul, w.b.div) if decimals >= 0 else (w.b.div, w.b.mul)
    return back(w.b.round(scaled(x, scale)), scale)


@lowers("aten.logit", "aten.special_logit")
def logit(w: Lowering, x: Value, eps: float | None = None) -> Any:
    """Where the bounds ``eps`` and ``1 - eps`` cross, what is below the first one becomes it, also if above the other."""
    x = w.floating(x)
    if eps is not None:
        x = w.b.clip(x, eps, 1 - eps) if eps <= 0.5 else w.b.where(w.b.lt(x, eps), eps, w.b.minimum(x, 1 - eps))
    return w.b.log(w.b.div(x, w.b.sub(1, x)))


def _class_of_floats(name: str, build: Callable[[Lowering, Value], Any], of_integers: bool) -> None:
    def lowering(w: Lowering, x: Value) -> Any:
        if x.tensor.dtype.is_complex:
            both = w.b.logical_and if of_integers else w.b.logical_or
            return both(build(w, w.b.real(x)), build(w, w.b.imag(x)))
        return build(w, x) if x.tensor.dtype.is_float else full(w, w.dims(x), of_integers, bool_)

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}")(lowering)


for _name, _build, _of_integers in (
    ("isnan", lambda w, x: w.b.is_nan(x), False),
    ("isinf", lambda w, x: w.b.is_inf(x), False),
    ("isfinite", lambda w, x: w.b.is_finite(x), True),
    ("isposinf", lambda w, x: w.b.eq(x, math.inf), False),
    ("isneginf", lambda w, x: w.b.eq(x, -math.inf), False),
):
    _class_of_floats(_name, _build, _of_integers)


@lowers("aten.nan_to_num")
def nan_to_num(
    w: Lowering, x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    if x.tensor.dtype.is_complex:
        return w.b.complex(*(nan_to_num(w, part, nan, posinf, neginf) for part in (w.b.real(x), w.b.imag(x))))
    if not x.tensor.dtype.is_float:
        return x
    least, greatest = limits(x)
    for found, number in (
        (w.b.is_nan(x), 0.0 if nan is None else nan),
        (w.b.eq(x, math.inf), greatest if posinf is None else posinf),
        (w.b.eq(x, -math.inf), least if neginf is None else neginf),
    ):
        x = w.b.where(found, number, x)
    return x


def limits(x: Value) -> tuple[Any, Any]:
    """The least and the greatest finite number of the value's element type."""
    dtype = x.tensor.dtype
    if dtype is bool_:
        return False, True
    info = ml_dtypes.finfo(dtype.numpy) if dtype.is_float else np.iinfo(dtype.numpy)
    return dtype.numpy.type(info.min), dtype.numpy.type(info.max)


# ---- two tensors, or a tensor and a number


def _scaled(w: Lowering, x: Value, alpha: Scalar) -> Value:
    if isinstance(alpha, (int, float)) and alpha == 1:
        return x
    scaled: Value = w.b.mul(x, w.tensor(alpha, x.tensor.dtype))
    return scaled


@lowers("aten.add.Tensor", "aten.add.Scalar")
def add(w: Lowering, x: Value, other: Number, alpha: Scalar = 1) -> Any:
    x, y = w.promote(x, other)
    if x.tensor.dtype is bool_:
        return w.b.logical_or(x, y) if alpha else w.b.identity(x)
    return w.b.add(x, _scaled(w, y, alpha))


@lowers("aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor", "aten.subtract.Scalar")
def sub(w: Lowering, x: Value, other: Number, alpha: Scalar = 1) -> Any:
    x, y = w.promote(x, other)
    return w.b.sub(x, _scaled(w, y, alpha))


@lowers("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(w: Lowering, x: Value, other: Number, alpha: Scalar = 1) -> Any:
    x, y = w.promote(x, other)
    return w.b.sub(y, _scaled(w, x, alpha))


@lowers("aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor", "aten.multiply.Scalar")
def mul(w: Lowering, x: Number, other: Number) -> Any:
    x, y = w.promote(x, other)
    return (w.b.logical_and if x.tensor.dtype is bool_ else w.b.mul)(x, y)


_DIVISIONS: Final = ("aten.div", "aten.divide", "aten.true_divide")


@lowers(*(f"{name}.{kind}" for name in _DIVISIONS for kind in ("Tensor", "Scalar")))
@lowers(*(f"{name}.{kind}_mode" for name in _DIVISIONS[:2] for kind in ("Tensor", "Scalar")))
def div(w: Lowering, x: Value, other: Number, rounding_mode: str | None = None) -> Any:
    x, y = w.promote(x, other, floating=rounding_mode is None)
    if rounding_mode == "floor":
        return w.b.floor_div(x, y)
    quotient = w.b.div(x, y)  # of integers, truncated
    return w.b.trunc(quotient) if rounding_mode == "trunc" and x.tensor.dtype.is_float else quotient


@lowers("aten.floor_divide", "aten.floor_divide.Scalar")
def floor_divide(w: Lowering, x: Value, other: Number) -> Any:
    return div(w, x, other, "floor")


def _binary(op: str, *names: str, floating: bool = False, of_bools: str = "") -> None:
    def lowering(w: Lowering, x: Number, other: Number) -> Any:
        x, y = w.promote(x, other, floating=floating)
        return getattr(w.b, of_bools if of_bools and x.tensor.dtype is bool_ else op)(x, y)

    lowering.__qualname__ = lowering.__name__ = op
    lowers(*(f"aten.{name}" for name in names))(lowering)


_binary("mod", "remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
_binary("fmod", "fmod.Tensor", "fmod.Scalar")
_binary("atan2", "atan2", "arctan2", floating=True)
_binary("maximum", "maximum", "max.other", of_bools="logical_or")
_binary("minimum", "minimum", "min.other", of_bools="logical_and")
for _op, _words in {
    "eq": ("eq",), "ne": ("ne", "not_equal"), "lt": ("lt", "less"), "le": ("le", "less_equal"),
    "gt": ("gt", "greater"), "ge": ("ge", "greater_equal"),
}.items():  # fmt: skip
    _binary(_op, *(f"{word}.{kind}" for word in _words for kind in ("Tensor", "Scalar")))
for _op in ("and", "or", "xor"):
    _kinds = [f"bitwise_{_op}.{kind}" for kind in ("Tensor", "Scalar", "Scalar_Tensor")]
    _kinds += [f"__{_op}__.{kind}" for kind in ("Tensor", "Scalar")]
    _binary(f"bit_{_op}", *_kinds, of_bools=f"logical_{_op}")
for _op, _side in (("shift_left", "left"), ("shift_right", "right")):
    _kinds = [f"bitwise_{_side}_shift.{kind}" for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")]
    _binary(_op, *_kinds, *(f"__{_side[0]}shift__.{kind}" for kind in ("Tensor", "Scalar")))


def _logical(op: str) -> None:
    def lowering(w: Lowering, x: Value, other: Value) -> Any:
        return getattr(w.b, op)(truth(w, x), truth(w, other))

    lowering.__qualname__ = lowering.__name__ = op
    lowers(f"aten.{op}")(lowering)


for _op in ("logical_and", "logical_or", "logical_xor"):
    _logical(_op)


@lowers("aten.logical_not")
def logical_not(w: Lowering, x: Value) -> Any:
    return w.b.logical_not(truth(w, x))


@lowers("aten.bitwise_not")
def bitwise_not(w: Lowering, x: Value) -> Any:
    return w.b.logical_not(x) if x.tensor.dtype is bool_ else w.b.bit_not(x)


@lowers("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def pow_(w: Lowering, x: Number, exponent: Number) -> Any:
    """Halves are roots, as in torch: of minus infinity NaN, which a power is not."""
    x, y = w.promote(x, exponent)
    if isinstance(exponent, float) and abs(exponent) == 0.5 and x.tensor.dtype.is_float:
        return w.b.sqrt(x) if exponent > 0 else w.b.rsqrt(x)
    return w.b.pow(x, y)


@lowers("aten.float_power.Tensor_Tensor", "aten.float_power.Tensor_Scalar", "aten.float_power.Scalar")
def float_power(w: Lowering, x: Number, exponent: Number) -> Any:
    """Always in double precision."""
    dtype = dtypes.c128 if w.result_type(x, exponent).is_complex else dtypes.f64
    return w.b.pow(w.tensor(x, dtype), w.tensor(exponent, dtype))


@lowers("aten.addcmul")
def addcmul(w: Lowering, x: Value, tensor1: Value, tensor2: Value, value: Scalar = 1) -> Any:
    x, left, right = w.promote(x, tensor1, tensor2)
    return w.b.add(x, w.b.mul(_scaled(w, left, value), right))


@lowers("aten.addcdiv")
def addcdiv(w: Lowering, x: Value, tensor1: Value, tensor2: Value, value: Scalar = 1) -> Any:
    x, left, right = w.promote(x, tensor1, tensor2)
    if not (x.tensor.dtype.is_float or x.tensor.dtype.is_complex):
        w.unsupported("integers cannot be divided here", "divide with torch.div and a rounding mode")
    return w.b.add(x, w.b.div(_scaled(w, left, value), right))


@lowers("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(w: Lowering, x: Value, end: Value, weight: Number) -> Any:
    x, last, factor = w.promote(x, end, weight)
    return w.b.add(x, w.b.mul(factor, w.b.sub(last, x)))


@lowers("aten.clamp", "aten.clip", "aten.clamp.Tensor", "aten.clip.Tensor")
def clamp(w: Lowering, x: Value, min: Number | None = None, max: Number | None = None) -> Any:
    """Where the bounds cross, the upper one wins; nan stays nan, in a bound too."""
    given = [bound for bound in (min, max) if bound is not None]
    x, *bounds = w.promote(x, *given)
    if not any(isinstance(bound, Value) for bound in given):
        lo = None if min is None else bounds[0]
        return w.b.clip(x, lo, None if max is None else bounds[-1])
    if min is not None:
        x = w.b.maximum(x, bounds[0])
    return x if max is None else w.b.minimum(x, bounds[-1])


@lowers("aten.clamp_min", "aten.clamp_min.Tensor")
def clamp_min(w: Lowering, x: Value, min: Number) -> Any:
    return clamp(w, x, min=min)


@lowers("aten.clamp_max", "aten.clamp_max.Tensor")
def clamp_max(w: Lowering, x: Value, max: Number) -> Any:
    return clamp(w, x, max=max)


def _ignoring_nan(name: str, op: str, of_bools: str) -> None:
    def lowering(w: Lowering, x: Value, other: Value) -> Any:
        x, y = w.promote(x, other)
        if not x.tensor.dtype.is_float:
            return getattr(w.b, of_bools if x.tensor.dtype is bool_ else op)(x, y)
        return w.b.where(w.b.is_nan(x), y, w.b.where(w.b.is_nan(y), x, getattr(w.b, op)(x, y)))

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}")(lowering)


_ignoring_nan("fmax", "maximum", "logical_or")
_ignoring_nan("fmin", "minimum", "logical_and")


@lowers("aten.isclose")
def isclose(w: Lowering, x: Value, other: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    same = w.b.eq(x, other)
    if x.tensor.dtype.is_complex and equal_nan:
        w.unsupported("complex nans are not compared", "compare real and imaginary parts")
    if not (x.tensor.dtype.is_float or x.tensor.dtype.is_complex):
        x, other = (w.cast(each, default_float()) for each in (x, other))
    elif equal_nan:
        same = w.b.logical_or(same, w.b.logical_and(w.b.is_nan(x), w.b.is_nan(other)))
    distance = abs_(w, w.b.sub(x, other))
    near = w.b.le(distance, w.b.add(abs_(w, w.b.mul(other, rtol)), atol))
    return w.b.logical_or(same, w.b.logical_and(w.b.is_finite(distance), near))


@lowers("aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self")
@lowers("aten.special_xlogy", "aten.special_xlogy.other_scalar", "aten.special_xlogy.self_scalar")
def xlogy(w: Lowering, x: Number, other: Number) -> Any:
    x, y = w.promote(x, other, floating=True)
    product = w.b.where(w.b.eq(x, 0), 0, w.b.mul(x, w.b.log(y)))
    return w.b.where(w.b.is_nan(y), y, product)


@lowers("aten.special_xlog1py", "aten.special_xlog1py.other_scalar", "aten.special_xlog1py.self_scalar")
def xlog1py(w: Lowering, x: Number, other: Number) -> Any:
    x, y = w.promote(x, other, floating=True)
    product = w.b.where(w.b.eq(x, 0), 0, w.b.mul(x, w.b.log1p(y)))
    return w.b.where(w.b.is_nan(y), y, product)


@lowers("aten.special_entr")
def entropy(w: Lowering, x: Value) -> Any:
    """``-x * log(x)``: 0 of 0, and minus infinity of what is negative."""
    x = w.floating(x)
    inside = w.b.where(w.b.eq(x, 0), 0, w.b.neg(w.b.mul(x, w.b.log(x))))
    return w.b.where(w.b.lt(x, 0), -math.inf, inside)


@lowers("aten.sinc", "aten.special_sinc")
def sinc(w: Lowering, x: Value) -> Any:
    angle = w.b.mul(w.floating(x), math.pi)
    return w.b.where(w.b.eq(angle, 0), 1, w.b.div(w.b.sin(angle), angle))


def _logaddexp(name: str, log: str, exp: str) -> Callable[[Lowering, Value, Value], Any]:
    def lowering(w: Lowering, x: Value, other: Value) -> Any:
        x, y = w.promote(x, other)
        greater = w.b.maximum(x, y)
        share = getattr(w.b, exp)(w.b.neg(w.b.abs(w.b.sub(x, y))))
        total = w.b.add(greater, w.b.log1p(share) if log == "log" else getattr(w.b, log)(w.b.add(share, 1)))
        both_infinite = w.b.logical_and(w.b.is_inf(x), w.b.eq(x, y))
        return w.b.where(both_infinite, x, total)

    lowering.__qualname__ = lowering.__name__ = name
    return lowers(f"aten.{name}")(lowering)


logaddexp = _logaddexp("logaddexp", "log", "exp")
_logaddexp("logaddexp2", "log2", "exp2")


@lowers("aten.huber_loss")
def huber_loss(w: Lowering, x: Value, target: Value, reduction: int = 1, delta: float = 1.0) -> Any:
    """Quadratic near 0 and linear beyond `delta`; `reduction` is torch's: 0 none, 1 mean, 2 sum."""
    x, y = w.promote(x, target)
    error = w.b.abs(w.b.sub(x, y))
    near = w.b.mul(w.b.mul(error, error), 0.5)
    loss = w.b.where(w.b.lt(error, delta), near, w.b.mul(w.b.sub(error, 0.5 * delta), delta))
    axes = list(range(w.rank(loss)))
    return loss if reduction == 0 else (w.b.reduce_mean if reduction == 1 else w.b.reduce_sum)(loss, axes=axes)


@lowers("aten.heaviside")
def heaviside(w: Lowering, x: Value, values: Value) -> Any:
    step = w.cast(w.b.gt(x, 0), x.tensor.dtype)
    return w.b.where(w.b.eq(x, 0), values, step)


@lowers("aten.hypot")
def hypot(w: Lowering, x: Value, other: Value) -> Any:
    """Scaled by the greater leg, so that squares neither overflow nor vanish."""
    x, y = (w.b.abs(each) for each in w.promote(x, other))
    greater = w.b.maximum(x, y)
    safe = w.b.where(w.b.logical_and(w.b.gt(greater, 0), w.b.is_finite(greater)), greater, 1)
    x, y = w.b.div(x, safe), w.b.div(y, safe)
    length = w.b.mul(safe, w.b.sqrt(w.b.add(w.b.mul(x, x), w.b.mul(y, y))))
    return w.b.where(w.b.logical_or(w.b.is_inf(x), w.b.is_inf(y)), math.inf, length)


# ---- selection


@lowers("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(w: Lowering, condition: Value, x: Number, other: Number) -> Any:
    x, y = w.promote(x, other)
    return w.b.where(truth(w, condition), x, y)


@lowers("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(w: Lowering, x: Value, mask: Value, value: Number) -> Any:
    return w.b.where(truth(w, mask), w.tensor(value, x.tensor.dtype), x)


@lowers("aten.fill.Scalar", "aten.fill.Tensor")
def fill(w: Lowering, x: Value, value: Number) -> Any:
    return full(w, w.dims(x), value, x.tensor.dtype)


@lowers("aten.copy")
def copy(w: Lowering, x: Value, src: Number, non_blocking: bool = False) -> Any:
    return expand(w, w.tensor(src, x.tensor.dtype), w.dims(x))
