"""Elementwise arithmetic, comparison and logic: numpy's semantics, one element type, no hidden promotion.

Floats of fewer than 32 bits are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from isthmus.ir import attributes, dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import bool_
from isthmus.ir.op import OPS, Call, Op, Operand, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops import numerics
from isthmus.ir.ops.numerics import Elements, compute, follow, held, unless_integer
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

Function = Callable[..., Any]

_SAMPLED: Final = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "i64": np.int64, "i8": np.int8,
    "u8": np.uint8, "bool": np.bool_, "c64": np.complex64,
}  # fmt: skip


class Elementwise(Op):
    """The family: operands broadcast, and the result has their element type (or bool).

    Args:
        name: the op's name.
        signature: its operands, as for `operands`.
        function: the numpy function.
        meaning: what it does, for its documentation.
        traits: further traits.
        to_bool: the result is bool.
        source: where the semantics are defined.
        dims: the same function on arrays of dims, where small integer tensors are followed through it.
        domain: the range that float samples are drawn from.
    """

    def __init__(
        self, name: str, signature: str, function: Function, meaning: str, traits: Trait = Trait.NONE, *,
        to_bool: bool = False, source: str = "", dims: Function | None = None, domain: tuple[float, float] = (-3.0, 3.0),
    ) -> None:  # fmt: skip
        self.name = name
        self.operands: tuple[Operand, ...] = operands(signature)
        self.function = function
        self.traits = Trait.PURE | Trait.ELEMENTWISE | traits
        self.to_bool = to_bool
        self.source = source or f"numpy.{getattr(function, '__name__', name)}"
        self.dims = dims
        self.domain = domain
        self.__doc__ = f"{meaning}. Operands broadcast as in numpy; the result's elements are {'bool' if to_bool else 'T'}."

    def infer(self, call: Call) -> Sequence[Type]:
        first = call.tensor(0)
        if len(call.types) == 1:
            return (Tensor(bool_, first.shape) if self.to_bool else first,)
        if len(call.types) == 2:
            shape = call.broadcast(first.shape, call.tensor(1).shape)  # type: ignore[arg-type]
        else:
            shape = call.broadcast(*(call.shape(index) for index in range(len(call.types))))
        return (Tensor(bool_ if self.to_bool else first.dtype, shape),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return compute(self.function, *operands, dtype=bool_.numpy if self.to_bool else None)

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return None if self.dims is None else held(call.dtype(0), follow(call, self.dims, operands))

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        allowed = self.operands[0].dtypes or frozenset()
        lo, hi = self.domain

        def draw(dtype: str, *shape: int) -> Array:
            if dtype == "bool":
                return np.asarray(draws.random(shape) < 0.5)
            if dtypes.dtype(dtype).is_integer:
                return draws.integers(0 if dtype == "u8" else -5, 6, shape).astype(_SAMPLED[dtype])
            real = draws.random(shape) * (hi - lo) + lo
            values = real + 1j * draws.random(shape) if dtype == "c64" else real
            return np.asarray(values).astype(_SAMPLED[dtype])

        def several(dtype: str, *shapes: tuple[int, ...]) -> Sample:
            note = f"{dtype}-{'-'.join('x'.join(map(str, shape)) or 'scalar' for shape in shapes[: len(self.operands)])}"
            return sample(*(draw(dtype, *s) for s, _ in zip(shapes, self.operands, strict=False)), note=note)

        names = [name for name in _SAMPLED if dtypes.dtype(name) in allowed]
        for name in names:
            yield several(name, (2, 3), (2, 3), (2, 3))
        yield several(names[0], (2, 1, 3), (4, 1), ())
        yield several(names[0], (), (), ())
        yield several(names[0], (0, 3), (1, 3), (3,))
        if "f32" in names:
            special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
            yield sample(*(np.roll(special, 3 * n) for n in range(len(self.operands))), note="special")
        if dtypes.string in allowed:
            yield sample(np.array(["a", "b"], object), np.array(["a", "c"], object), note="str")
        if "i64" in names and len(self.operands) == 2:
            yield sample(np.array([-7, 7, -7, 7, 5, 0, 1, -1]), np.array([2, -2, -2, 2, 0, 0, -3, -3]), note="signs")


def _row(name: str, signature: str, function: Function, meaning: str, traits: Trait = Trait.NONE, **more: Any) -> None:
    OPS.register(Elementwise(name, signature, function, meaning, traits, **more))


def _unary() -> None:
    none, once, back = Trait.NONE, Trait.IDEMPOTENT, Trait.INVOLUTION
    for name, function, meaning, domain in (
        ("exp", np.exp, "e to the power x", (-3.0, 3.0)),
        ("log", np.log, "The natural logarithm", (0.1, 3.0)),
        ("sqrt", np.sqrt, "The square root", (0.0, 3.0)),
        ("rsqrt", lambda x: 1 / np.sqrt(x), "1 divided by the square root", (0.1, 3.0)),
        ("reciprocal", lambda x: 1 / x, "1 divided by x", (0.1, 3.0)),
        ("sin", np.sin, "The sine", (-3.0, 3.0)),
        ("cos", np.cos, "The cosine", (-3.0, 3.0)),
        ("tan", np.tan, "The tangent", (-1.0, 1.0)),
        ("asin", np.arcsin, "The inverse sine", (-1.0, 1.0)),
        ("acos", np.arccos, "The inverse cosine", (-1.0, 1.0)),
        ("atan", np.arctan, "The inverse tangent", (-3.0, 3.0)),
        ("sinh", np.sinh, "The hyperbolic sine", (-3.0, 3.0)),
        ("cosh", np.cosh, "The hyperbolic cosine", (-3.0, 3.0)),
        ("tanh", np.tanh, "The hyperbolic tangent", (-3.0, 3.0)),
        ("asinh", np.arcsinh, "The inverse hyperbolic sine", (-3.0, 3.0)),
        ("acosh", np.arccosh, "The inverse hyperbolic cosine", (1.1, 3.0)),
        ("atanh", np.arctanh, "The inverse hyperbolic tangent", (-0.9, 0.9)),
        ("log1p", np.log1p, "The natural logarithm of 1 + x", (-0.9, 3.0)),
        ("expm1", np.expm1, "e to the power x, minus 1", (-3.0, 3.0)),
        ("log2", np.log2, "The logarithm to base 2", (0.1, 3.0)),
        ("log10", np.log10, "The logarithm to base 10", (0.1, 3.0)),
        ("exp2", np.exp2, "2 to the power x", (-3.0, 3.0)),
    ):
        source = "" if isinstance(function, np.ufunc) else {"rsqrt": "torch.rsqrt", "reciprocal": "torch.reciprocal"}[name]
        _row(name, "x: inexact T", function, meaning, domain=domain, source=source)
    _row("neg", "x: numeric T", np.negative, "The negative; integers wrap", back, dims=np.negative)
    _row("abs", "x: real T", np.absolute, "The absolute value", once)
    _row("sign", "x: real T", np.sign, "-1, 0 or 1; nan of nan", once)
    _row("erf", "x: float T", numerics.erf, "The error function", none, source="math.erf")
    _row("sigmoid", "x: float T", numerics.sigmoid, "The logistic function 1 / (1 + exp(-x))", none, source="torch.sigmoid")
    _row("floor", "x: real T", unless_integer(np.floor), "The greatest integer not above x", once)
    _row("ceil", "x: real T", unless_integer(np.ceil), "The least integer not below x", once)
    _row("round", "x: real T", unless_integer(np.rint), "The nearest integer, halves to the even one", once)
    _row("trunc", "x: real T", unless_integer(np.trunc), "The integer part, rounded towards zero", once)
    _row("relu", "x: real T", lambda x: np.maximum(x, 0), "The greater of x and 0; nan of nan", once, source="torch.relu")
    _row("is_nan", "x: float T", np.isnan, "Whether x is nan", to_bool=True)
    _row("is_inf", "x: float T", np.isinf, "Whether x is infinite, of either sign", to_bool=True)
    _row("is_finite", "x: float T", np.isfinite, "Whether x is neither nan nor infinite", to_bool=True)
    _row("logical_not", "x: bool T", np.logical_not, "Not x", back, dims=lambda x: 1 - x)
    _row("bit_not", "x: bits T", np.invert, "All bits flipped", back)


def _binary() -> None:
    swap, wider = Trait.COMMUTATIVE, Trait.WIDER
    numeric, real, ordered = "x: numeric T, y: numeric T", "x: real T, y: real T", "x: ordered T, y: ordered T"
    _row("add", numeric, np.add, "The sum; integers wrap", swap, dims=np.add)
    _row("sub", numeric, np.subtract, "The difference; integers wrap", dims=np.subtract)
    _row("mul", numeric, np.multiply, "The product; integers wrap", swap, dims=np.multiply)
    _row("div", numeric, numerics.divide, "The quotient; of integers, rounded towards zero, and 0 when divided by 0", wider,
         source="numpy.true_divide; torch.div(rounding_mode='trunc') for integers", dims=numerics.div_dims)  # fmt: skip
    _row("floor_div", real, np.floor_divide, "The quotient rounded down; of integers, 0 when divided by 0",
         dims=numerics.floor_div_dims)  # fmt: skip
    _row("mod", real, np.remainder, "The remainder with the sign of y, as Python's %; of integers, 0 when divided by 0", wider,
         dims=numerics.mod_dims)  # fmt: skip
    _row("fmod", real, np.fmod, "The remainder with the sign of x, as C's fmod; of integers, 0 when divided by 0", wider)
    _row("pow", numeric, numerics.power, "x to the power y; an integer to a negative power is rounded towards zero", wider,
         source="numpy.power; torch.pow for integers", domain=(0.1, 3.0))  # fmt: skip
    _row("maximum", ordered, np.maximum, "The greater one; nan when either is", swap | wider, dims=numerics.maximum_dims)
    _row("minimum", ordered, np.minimum, "The lesser one; nan when either is", swap | wider, dims=numerics.minimum_dims)
    _row("atan2", "x: float T, y: float T", np.arctan2, "The angle of the point (y, x), so atan2(1, 0) is half of pi")
    _row("eq", "x: any T, y: any T", np.equal, "Whether x and y are equal", swap, to_bool=True,
         dims=lambda x, y: 1 - numerics.differ_dims(x, y))  # fmt: skip
    _row("ne", "x: any T, y: any T", np.not_equal, "Whether x and y differ", swap, to_bool=True, dims=numerics.differ_dims)
    _row("lt", ordered, np.less, "Whether x is less than y", to_bool=True, dims=numerics.less_dims)
    _row("le", ordered, np.less_equal, "Whether x is at most y", to_bool=True, dims=lambda x, y: 1 - numerics.less_dims(y, x))
    _row("gt", ordered, np.greater, "Whether x is greater than y", to_bool=True, dims=lambda x, y: numerics.less_dims(y, x))
    _row("ge", ordered, np.greater_equal, "Whether x is at least y", to_bool=True,
         dims=lambda x, y: 1 - numerics.less_dims(x, y))  # fmt: skip
    logic, bits, ints = "x: bool T, y: bool T", "x: bits T, y: bits T", "x: int T, y: int T"
    _row("logical_and", logic, np.logical_and, "x and y", swap, dims=np.bitwise_and)
    _row("logical_or", logic, np.logical_or, "x or y", swap, dims=np.bitwise_or)
    _row("logical_xor", logic, np.logical_xor, "Either x or y", swap, dims=np.bitwise_xor)
    _row("bit_and", bits, np.bitwise_and, "And of the bits", swap)
    _row("bit_or", bits, np.bitwise_or, "Or of the bits", swap)
    _row("bit_xor", bits, np.bitwise_xor, "Exclusive or of the bits", swap)
    _row("shift_left", ints, np.left_shift, "x times 2 to the power y; 0 when y is no less than the number of bits",
         wider)  # fmt: skip
    _row("shift_right", ints, np.right_shift, "x divided by 2 to the power y, rounded down (the sign is kept)", wider)


_unary()
_binary()


@register
class Where(Op):
    """``x`` where ``cond`` holds, else ``y``; the three broadcast."""

    name = "where"
    operands = operands("cond: bool, x: any T, y: any T")
    traits = Trait.PURE | Trait.ELEMENTWISE
    source = "numpy.where"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(call.dtype(1), call.broadcast(call.shape(0), call.shape(1), call.shape(2))),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.where(*operands)

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return follow(call, lambda cond, x, y: np.where(cond.astype(bool), x, y), operands)

    def samples(self) -> Iterable[Sample]:
        cond = rng().random((2, 3)) < 0.5
        x, y = rng().standard_normal((2, 2, 3)).astype(np.float32)
        yield sample(cond, x, y)
        yield sample(cond[:, :1], x[0], y, note="broadcast")
        yield sample(cond, np.int64(1), np.int64(0), note="scalars")
        yield sample(cond, x.astype(ml_dtypes.bfloat16), y.astype(ml_dtypes.bfloat16), note="bf16")
        yield sample(cond, cond, ~cond, note="bool")
        yield sample(cond[:0], x[:0], y[0], note="empty")


@register
class Clip(Op):
    """``minimum(maximum(x, lo), hi)``: bounds are scalars, an absent one does not bind, nan stays nan."""

    name = "clip"
    operands = operands("x: real T, lo?: real T, hi?: real T")
    traits = Trait.PURE | Trait.ELEMENTWISE | Trait.IDEMPOTENT
    source = "numpy.clip"

    def infer(self, call: Call) -> Sequence[Type]:
        for index in (1, 2):
            if call.types[index] is not None and call.shape(index) != ():
                raise call.error(f"operand {self.operand_name(index)} must be a scalar", found=str(call.types[index]))
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, lo, hi = operands
        found = x if lo is None else compute(np.maximum, x, lo)
        return found if hi is None else compute(np.minimum, found, hi)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3)).astype(np.float32)
        yield sample(x, np.float32(-0.5), np.float32(0.5))
        yield sample(x, np.float32(0), None, note="no-hi")
        yield sample(x, None, np.float32(0), note="no-lo")
        yield sample(np.array([np.nan, 9, -9], np.float16), np.float16(-1), np.float16(1), note="nan-f16")
        yield sample(np.arange(5), np.int64(3), np.int64(1), note="crossed-i64")
        yield sample(np.uint8(9), np.uint8(0), np.uint8(6), note="scalar-u8")


@register
class Cast(Op):
    """The same values in another element type.

    Numbers become bool by comparison with 0, floats integers by truncation; integers wrap; complex numbers lose their
    imaginary part. An integer of nan or of a float out of its range is undefined. Small floats that lack a value become
    infinite or nan, or with `saturate` their greatest or least one. `rounding` is that of f8e8m0, which has powers of two
    alone; it is undefined of negative numbers. Strings are read and written as Python does, or with `notation` c as C's
    ``%.8g`` does, where infinities are INF.
    """

    name = "cast"
    operands = operands("x: any")
    attributes = {
        "dtype": attributes.DTYPE, "saturate": attributes.BOOL(False),
        "rounding": attributes.choice("nearest", "up", "down")("nearest"),
        "notation": attributes.choice("python", "c")("python"),
    }  # fmt: skip
    traits = Trait.PURE | Trait.ELEMENTWISE | Trait.IDEMPOTENT | Trait.IDENTITY
    source = "numpy.ndarray.astype; ONNX Cast-28"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(call["dtype"], call.shape(0)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        target = call["dtype"]
        x = operands[0]
        if target.kind == "string":
            texts = numerics.texts(x) if call["notation"] == "c" and x.dtype != object else numerics.wide(x).astype(str)
            return np.asarray(texts.astype(object), object).reshape(x.shape)
        if x.dtype == object and target.is_integer and call["notation"] == "c":
            x = np.array([int(float(text)) if "." in text else int(text) for text in x.flat], object).reshape(x.shape)
        if x.dtype == object and target.is_float:
            x = x.astype(np.float64)
        if x.dtype == target.numpy:
            return x
        if x.dtype.kind == "c" and not target.is_complex and target is not bool_:
            x = x.real
        if target is bool_ and x.dtype != object:
            return compute(lambda x: x != 0, x, dtype=np.bool_)
        if target is dtypes.f8e8m0:
            return numerics.powers_of_two(x, call["saturate"], call["rounding"])
        small = target.bits < 8 or (target.bits == 8 and target.is_float)
        with np.errstate(all="ignore"):
            if small and target.is_float and call["saturate"]:
                most = float(ml_dtypes.finfo(target.numpy).max)
                x = np.clip(numerics.wide(x), -most, most)
            return numerics.wide(x).astype(target.numpy) if small or x.dtype in numerics.SMALL else x.astype(target.numpy)

    def infer_value(self, call: Call, *operands: tuple[Dim, ...] | None) -> Sequence[tuple[Dim, ...] | None] | None:
        if call["dtype"] is bool_:
            return follow(call, lambda x: numerics.differ_dims(x, 0), operands)
        return held(call["dtype"], operands) if call["dtype"] in dtypes.INDEX else None

    def samples(self) -> Iterable[Sample]:
        x = np.array([[-1.5, 0.0, 2.5], [7.25, -0.25, 1e-3]], np.float32)
        for target in (dtypes.f16, dtypes.bf16, dtypes.f64, dtypes.i64, bool_, dtypes.c64, dtypes.f8e4m3fn, dtypes.f4e2m1):
            yield sample(x, dtype=target, note=f"f32-{target}")
        for target in (dtypes.i32, dtypes.i8, dtypes.i4, dtypes.f32, dtypes.u8, dtypes.string):
            yield sample(np.array([-7, 0, 5, 300]), dtype=target, note=f"i64-{target}")
        yield sample(x.astype(ml_dtypes.bfloat16), dtype=dtypes.f32, note="bf16-f32")
        yield sample(np.array([True, False]), dtype=dtypes.f32, note="bool-f32")
        yield sample(np.array(["1.5", "2"], object), dtype=dtypes.f32, note="str-f32")
        yield sample(np.array(["1.5", "-inf"], object), dtype=dtypes.bf16, note="str-bf16")
        z = np.array([1 + 2j, 3, 1j, 0], np.complex64)
        for target in (dtypes.f32, bool_, dtypes.c128):
            yield sample(z, dtype=target, note=f"c64-{target}")
        y = np.array([0.0, 1e30, -1e30, np.nan, np.inf, 0.3], np.float32)
        for target in (dtypes.f8e4m3fn, dtypes.f8e4m3fnuz, dtypes.f8e5m2, dtypes.f8e5m2fnuz, dtypes.f8e8m0):
            signed = y if target is not dtypes.f8e8m0 else np.abs(y)
            yield sample(signed, dtype=target, saturate=True, note=f"saturated-{target}")
        yield sample(y, dtype=dtypes.f8e5m2, note="overflowing-f8e5m2")
        for rounding in ("up", "down"):
            yield sample(np.array([0.3, 3, 4], np.float16), dtype=dtypes.f8e8m0, rounding=rounding, note=f"{rounding}-f8e8m0")
        yield sample(np.array([-7, 300]), dtype=dtypes.string, notation="c", note="c-i64-str")
        yield sample(np.array(["7", "-1"], object), dtype=dtypes.i32, notation="c", note="c-str-i32")
        yield sample(y, dtype=dtypes.string, notation="c", note="c-f32-str")
        yield sample(x, dtype=dtypes.f32, note="same")
        yield sample(np.float32(3), dtype=dtypes.i64, note="scalar")
        yield sample(x[:0], dtype=dtypes.i64, note="empty")


@register
class Bitcast(Op):
    """The same bits, low ones first, read as another element type of as many."""

    name = "bitcast"
    operands = operands("x: any")
    attributes = {"dtype": attributes.DTYPE}
    traits = Trait.PURE | Trait.ELEMENTWISE | Trait.IDEMPOTENT | Trait.WIDER
    source = "ONNX BitCast-26; numpy.ndarray.view"

    def infer(self, call: Call) -> Sequence[Type]:
        source, target = call.dtype(0), call["dtype"]
        if not source.bits == target.bits > 0:
            raise call.error(f"{source} has not as many bits as {target}")
        return (Tensor(target, call.shape(0)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.ascontiguousarray(operands[0]).view(call["dtype"].numpy).reshape(operands[0].shape)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        source, target = call.dtype(0), call["dtype"]
        if source is target:
            return b.identity(operands[0])
        whole = source.is_integer or source is bool_
        return b.cast(operands[0], dtype=target) if whole and target.is_integer else NotImplemented

    def samples(self) -> Iterable[Sample]:
        x = np.array([[-1.5, 0.0, 2.5]], np.float32)
        for target in (dtypes.i32, dtypes.u32):
            yield sample(x, dtype=target, note=f"f32-{target}")
        yield sample(x.astype(np.float16), dtype=dtypes.bf16, note="f16-bf16")
        yield sample(np.array([-1, 0, 7]), dtype=dtypes.u64, note="i64-u64")
        yield sample(np.array([-1, 0, 7]), dtype=dtypes.f64, note="i64-f64")
        yield sample(np.array([200, 3], np.uint8), dtype=dtypes.i8, note="u8-i8")
        yield sample(np.array([True, False]), dtype=dtypes.u8, note="bool-u8")
        yield sample(np.array([-1, 3], dtypes.i4.numpy), dtype=dtypes.u4, note="i4-u4")
        yield sample(np.float32(1), dtype=dtypes.f32, note="same-scalar")
