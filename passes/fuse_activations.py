"""Activations recovered from the arithmetic that people spell them with."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.passes.matcher import Match
from isthmus.passes.rules import Refused, constant_number, refuse, rule


@rule
def relu(p: Any, x: Any) -> Any:
    """``max(x, 0)``."""
    return p.maximum(x, 0.0)


@relu.or_
def _(p: Any, x: Any) -> Any:
    return p.clip(x, 0.0)


@relu.becomes
def _(b: Builder, m: Match) -> Any:
    return b.relu(m.x)


@rule
def silu(p: Any, x: Any) -> Any:
    """``x * sigmoid(x)``."""
    return x * p.sigmoid(x)


@silu.or_
def _(p: Any, x: Any) -> Any:
    return [x / (p.exp(-x) + 1.0), x * p.reciprocal(p.exp(-x) + 1.0)]


@silu.becomes
def _(b: Builder, m: Match) -> Any:
    return b.silu(m.x)


@rule
def hard_sigmoid(p: Any, x: Any) -> Any:
    """``clip(x + 3, 0, 6) / 6``."""
    return p.clip(x + 3.0, 0.0, 6.0) / 6.0


@hard_sigmoid.or_
def _(p: Any, x: Any) -> Any:
    return p.clip(x / 6.0 + 0.5, 0.0, 1.0)


@hard_sigmoid.becomes
def _(b: Builder, m: Match) -> Any:
    return b.hard_sigmoid(m.x) if m.x.tensor.dtype.is_float else refuse("integers are rounded by the division", m.x)


@rule
def hard_sigmoid_line(p: Any, x: Any, slope: Any, offset: Any) -> Any:
    """``clip(alpha * x + beta, 0, 1)``."""
    return p.clip(x * slope + offset, 0.0, 1.0)


@hard_sigmoid_line.becomes
def _(b: Builder, m: Match) -> Any:
    alpha, beta = constant_number(m.slope), constant_number(m.offset)
    if isinstance(alpha, Refused) or isinstance(beta, Refused):
        return alpha if isinstance(alpha, Refused) else beta
    if not alpha:
        return refuse("a slope of zero makes a number of infinity, and nan as it is spelt", m.slope)
    return b.hard_sigmoid(m.x, alpha=alpha, beta=beta)


@rule
def hard_swish(p: Any, x: Any) -> Any:
    """``x * clip(x + 3, 0, 6) / 6``."""
    return x * p.clip(x + 3.0, 0.0, 6.0) / 6.0


@hard_swish.or_
def _(p: Any, x: Any) -> Any:
    return [x / 6.0 * p.clip(x + 3.0, 0.0, 6.0), x * p.hard_sigmoid(x)]


@hard_swish.becomes
def _(b: Builder, m: Match) -> Any:
    return b.hard_swish(m.x) if m.x.tensor.dtype.is_float else refuse("integers are rounded by the division", m.x)


@rule
def mish(p: Any, x: Any) -> Any:
    """``x * tanh(softplus(x))``."""
    return x * p.tanh(p.softplus(x))


@mish.or_
def _(p: Any, x: Any) -> Any:
    return [x * p.tanh(p.log1p(p.exp(x))), x * p.tanh(p.log(p.exp(x) + 1.0))]


@mish.becomes
def _(b: Builder, m: Match) -> Any:
    return b.mish(m.x)


def _halved(x: Any, bend: Any) -> list[Any]:
    """``x * bend / 2`` in each order of the factors."""
    return [(x * 0.5) * bend, (x * bend) * 0.5, x * (bend * 0.5)]


@rule
def gelu(p: Any, x: Any) -> Any:
    """``0.5 * x * (1 + erf(x / sqrt(2)))``, in each order of the factors, or with the half inside."""
    bend = p.erf(x / math.sqrt(2))
    return [*_halved(x, bend + 1.0), x * (bend * 0.5 + 0.5)]


@gelu.becomes
def _(b: Builder, m: Match) -> Any:
    return b.gelu(m.x)


def _bent(x: Any, factor: float) -> list[Any]:
    """``factor * (x + 0.044715 * x ** 3)`` as people write it."""
    return [
        (x + x**3 * 0.044715) * factor,
        (x * factor) * (x * 0.044715 * x + 1.0),
        (x * factor) * (x**2 * 0.044715 + 1.0),
        (x * (x**2 * 0.044715 + 1.0)) * factor,
    ]


@rule
def gelu_tanh(p: Any, x: Any) -> Any:
    """``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``, in each order of the factors.

    Half of one and a tanh is the sigmoid of twice the number.
    """
    factor = math.sqrt(2 / math.pi)
    by_tanh = [form for bent in _bent(x, factor) for form in _halved(x, p.tanh(bent) + 1.0)]
    return by_tanh + [x * p.sigmoid(bent) for bent in _bent(x, 2 * factor)]


@gelu_tanh.becomes
def _(b: Builder, m: Match) -> Any:
    return b.gelu(m.x, approximate="tanh")


@rule
def softmax(p: Any, x: Any, *, axes: Any) -> Any:
    """``exp(x - max(x)) / sum(exp(x - max(x)))`` along one axis."""
    powers = p.exp(x - p.reduce_max(x, axes=axes, keepdims=True))
    return powers / p.reduce_sum(powers, axes=axes, keepdims=True)


@softmax.becomes
def _(b: Builder, m: Match) -> Any:
    return b.softmax(m.x, axis=m.axes[0]) if len(m.axes) == 1 else refuse("softmax runs along one axis", m.x)


@rule
def reduce_l2(p: Any, x: Any, *, axes: Any, keepdims: Any) -> Any:
    """The square root of a sum of squares."""
    return p.sqrt(p.reduce_sum(x**2, axes=axes, keepdims=keepdims))


@reduce_l2.becomes
def _(b: Builder, m: Match) -> Any:
    if m.x.tensor.dtype.bits < 32:
        return refuse("the squares of a narrow type overflow, and the length does not", m.x)
    return b.reduce_l2(m.x, axes=m.axes, keepdims=m.keepdims)


ACTIVATIONS: Final = (
    relu, silu, hard_sigmoid, hard_swish, mish, gelu, gelu_tanh, softmax, hard_sigmoid_line, reduce_l2,
)  # fmt: skip
