"""Activations: coarse names for formulas of a few elementwise ops, and softmax.

Floats of fewer than 32 bits are computed in float32 and rounded once, in the decompositions too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import FLOAT, INT, Attribute, choice
from isthmus.ir.dtypes import f32
from isthmus.ir.op import OPS, Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops import numerics
from isthmus.ir.ops.numerics import compute
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Value

SELU_ALPHA: Final = 1.6732632423543772848170429916717
SELU_SCALE: Final = 1.0507009873554804934193349852946

Formula = Callable[..., Any]


def in_float32(b: Builder, call: Call, formula: Formula, *operands: Any) -> Value:
    """`formula(b, call, *operands)`, with small floats cast to float32 before and back after."""
    dtype = call.dtype(0)
    if dtype.bits >= 32:
        return formula(b, call, *operands)  # type: ignore[no-any-return]
    found = formula(b, call, *(None if value is None else b.cast(value, dtype=f32) for value in operands))
    return b.cast(found, dtype=dtype)  # type: ignore[no-any-return]


class Activation(Op):
    """The family: one operand, a result of the same type.

    Args:
        name: the op's name.
        meaning: what it does, for its documentation.
        function: the numpy function of the attributes and the array.
        formula: builds it from finer ops, given the builder, the call and the value.
        attributes: its attributes.
        source: where the semantics are defined.
        variants: attributes for further samples.
    """

    operands = operands("x: float T")
    traits = Trait.PURE | Trait.ELEMENTWISE | Trait.COARSE

    def __init__(
        self, name: str, meaning: str, function: Formula, formula: Formula, attributes: dict[str, Attribute] | None = None,
        *, source: str = "", variants: Sequence[dict[str, Any]] = (),
    ) -> None:  # fmt: skip
        self.name = name
        self.function = function
        self.formula = formula
        self.attributes = attributes or {}
        self.source = source or f"torch.nn.functional.{name}"
        self.variants = variants
        self.__doc__ = f"{meaning}. Elementwise; the result has the type of x."

    def infer(self, call: Call) -> Sequence[Type]:
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return compute(lambda x: self.function(call, x), *operands)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        return in_float32(b, call, self.formula, *operands)

    def samples(self) -> Iterable[Sample]:
        x = (rng().standard_normal((2, 5)) * 3).astype(np.float32)
        yield sample(x)
        yield sample(x[0].astype(np.float16), note="f16")
        yield sample(x.astype(ml_dtypes.bfloat16), note="bf16")
        yield sample(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 30.0, -30.0], np.float32), note="special")
        yield sample(np.float32(0.75), note="scalar")
        for attrs in self.variants:
            yield sample(x, note="-".join(f"{name}={value}" for name, value in attrs.items()), **attrs)


def _row(*row: Any, **more: Any) -> None:
    OPS.register(Activation(*row, **more))


def _gelu(call: Call, x: Any) -> Any:
    if call["approximate"] == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + numerics.erf(x / math.sqrt(2)))


def _gelu_formula(b: Builder, call: Call, x: Value) -> Value:
    if call["approximate"] == "tanh":
        inner = b.mul(b.add(x, b.mul(b.mul(b.mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        curve = b.tanh(inner)
    else:
        curve = b.erf(b.mul(x, math.sqrt(0.5)))
    return b.mul(b.mul(x, b.add(curve, 1.0)), 0.5)  # type: ignore[no-any-return]


def _softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def _softplus_formula(b: Builder, call: Call, x: Value) -> Value:
    scaled = b.mul(x, call["beta"])
    soft = b.div(b.log1p(b.exp(scaled)), call["beta"])
    return b.where(b.gt(scaled, call["threshold"]), x, soft)  # type: ignore[no-any-return]


_row(
    "leaky_relu", "x where it is positive, else alpha * x",
    lambda c, x: np.where(x > 0, x, c["alpha"] * x),
    lambda b, c, x: b.where(b.gt(x, 0.0), x, b.mul(x, c["alpha"])),
    {"alpha": FLOAT(0.01)}, variants=[{"alpha": 1.5}],
)  # fmt: skip
_row(
    "elu", "x where it is positive, else alpha * (exp(x) - 1)",
    lambda c, x: np.where(x > 0, x, c["alpha"] * np.expm1(x)),
    lambda b, c, x: b.where(b.gt(x, 0.0), x, b.mul(b.expm1(x), c["alpha"])),
    {"alpha": FLOAT(1.0)}, variants=[{"alpha": 0.5}],
)  # fmt: skip
_row(
    "selu", "elu with the fixed alpha and scale that keep mean and variance",
    lambda c, x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
    lambda b, c, x: b.mul(b.where(b.gt(x, 0.0), x, b.mul(b.expm1(x), SELU_ALPHA)), SELU_SCALE),
)  # fmt: skip
_row(
    "celu", "x where it is positive, else alpha * (exp(x / alpha) - 1)",
    lambda c, x: np.where(x > 0, x, c["alpha"] * np.expm1(x / c["alpha"])),
    lambda b, c, x: b.where(b.gt(x, 0.0), x, b.mul(b.expm1(b.div(x, c["alpha"])), c["alpha"])),
    {"alpha": FLOAT(1.0)}, variants=[{"alpha": 2.0}],
)  # fmt: skip
_row(
    "gelu", "x times the normal distribution function of x, exactly or by the formula with tanh",
    _gelu, _gelu_formula, {"approximate": choice("none", "tanh")("none")}, variants=[{"approximate": "tanh"}],
)  # fmt: skip
_row(
    "silu", "x * sigmoid(x), also called swish",
    lambda c, x: x * numerics.sigmoid(x),
    lambda b, c, x: b.mul(x, b.sigmoid(x)),
)  # fmt: skip
_row(
    "mish", "x * tanh(log(1 + exp(x)))",
    lambda c, x: x * np.tanh(_softplus(x)),
    lambda b, c, x: b.mul(x, b.tanh(b.log1p(b.exp(x)))),
)  # fmt: skip
_row(
    "hard_swish", "x * clip(x + 3, 0, 6) / 6",
    lambda c, x: x * np.clip(x + 3, 0, 6) / 6,
    lambda b, c, x: b.div(b.mul(x, b.clip(b.add(x, 3.0), 0.0, 6.0)), 6.0),
    source="torch.nn.functional.hardswish",
)  # fmt: skip
_row(
    "hard_sigmoid", "clip(alpha * x + beta, 0, 1)",
    lambda c, x: np.clip(c["alpha"] * x + c["beta"], 0, 1),
    lambda b, c, x: b.clip(b.add(b.mul(x, c["alpha"]), c["beta"]), 0.0, 1.0),
    {"alpha": FLOAT(1 / 6), "beta": FLOAT(0.5)}, source="ONNX HardSigmoid-22; torch.nn.functional.hardsigmoid",
    variants=[{"alpha": 0.2}],
)  # fmt: skip
_row(
    "softplus", "log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold",
    lambda c, x: np.where(c["beta"] * x > c["threshold"], x, _softplus(c["beta"] * x) / c["beta"]),
    _softplus_formula, {"beta": FLOAT(1.0), "threshold": FLOAT(20.0)}, variants=[{"beta": 2.0, "threshold": 1.0}],
)  # fmt: skip
_row(
    "softsign", "x / (1 + |x|)",
    lambda c, x: x / (1 + np.abs(x)),
    lambda b, c, x: b.div(x, b.add(b.abs(x), 1.0)),
)  # fmt: skip


@register
class Prelu(Op):
    """``x`` where it is positive, else ``slope * x``; the two broadcast."""

    name = "prelu"
    operands = operands("x: float T, slope: float T")
    traits = Trait.PURE | Trait.ELEMENTWISE | Trait.COARSE
    source = "ONNX PRelu-16"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(call.dtype(0), call.broadcast(call.shape(0), call.shape(1))),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return compute(lambda x, slope: np.where(x > 0, x, slope * x), *operands)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        return in_float32(b, call, lambda b, c, x, slope: b.where(b.gt(x, 0.0), x, b.mul(x, slope)), *operands)

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x = draws.standard_normal((2, 3, 4)).astype(np.float32)
        yield sample(x, draws.random((3, 1)).astype(np.float32), note="channels")
        yield sample(x, np.float32(0.25), note="scalar")
        yield sample(x.astype(np.float16), np.full(4, 0.25, np.float16), note="f16")


class Softmax(Op):
    """The family: `softmax` and its logarithm, computed after subtracting the greatest element."""

    operands = operands("x: float T")
    attributes = {"axis": INT}
    traits = Trait.PURE | Trait.COARSE

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        call.axis(call["axis"], x.rank)
        return (x,)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return compute(lambda x: self.function(x, call["axis"]), *operands)

    def function(self, x: Any, axis: int) -> Any:
        """The result on an array."""
        raise NotImplementedError

    def samples(self) -> Iterable[Sample]:
        x = (rng().standard_normal((2, 3, 4)) * 3).astype(np.float32)
        yield sample(x, axis=2)
        yield sample(x, axis=1, note="middle")
        yield sample(x * 100, axis=0, note="large")
        yield sample(np.where(x > 0, x, -np.inf).astype(np.float32), axis=2, note="infinite")
        yield sample(x.astype(np.float16), axis=2, note="f16")
        yield sample(x.astype(ml_dtypes.bfloat16), axis=2, note="bf16")


@register
class SoftmaxRow(Softmax):
    """exp(x) divided by its sum along an axis; nan where all are minus infinity."""

    name = "softmax"
    source = "torch.softmax"

    def function(self, x: Any, axis: int) -> Any:
        return softmax(x, axis)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        def formula(b: Builder, call: Call, x: Value) -> Value:
            axes = [call["axis"]]
            powers = b.exp(b.sub(x, b.reduce_max(x, axes=axes, keepdims=True)))
            return b.div(powers, b.reduce_sum(powers, axes=axes, keepdims=True))  # type: ignore[no-any-return]

        return in_float32(b, call, formula, *operands)


@register
class LogSoftmaxRow(Softmax):
    """The logarithm of softmax, exact where softmax itself rounds to 0."""

    name = "log_softmax"
    source = "torch.log_softmax"

    def function(self, x: Any, axis: int) -> Any:
        shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
        return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        def formula(b: Builder, call: Call, x: Value) -> Value:
            axes = [call["axis"]]
            shifted = b.sub(x, b.reduce_max(x, axes=axes, keepdims=True))
            return b.sub(shifted, b.log(b.reduce_sum(b.exp(shifted), axes=axes, keepdims=True)))  # type: ignore[no-any-return]

        return in_float32(b, call, formula, *operands)


def softmax(x: Any, axis: int) -> Any:
    """Softmax of an array of float32 or wider."""
    powers = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)
