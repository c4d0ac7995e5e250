"""Activations recovered from the arithmetic that people spell them with."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.passes.matcher import Match
from isthmus.passes.rules import refuse, rule


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
    return x / (p.exp(-x) + 1.0)


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
def hard_swish(p: Any, x: Any) -> Any:
    """``x * clip(x + 3, 0, 6) / 6``."""
    return x * p.clip(x + 3.0, 0.0, 6.0) / 6.0


@hard_swish.or_
def _(p: Any, x: Any) -> Any:
    return x * p.hard_sigmoid(x)


@hard_swish.becomes
def _(b: Builder, m: Match) -> Any:
    return b.hard_swish(m.x) if m.x.tensor.dtype.is_float else refuse("integers are rounded by the division", m.x)


@rule
def mish(p: Any, x: Any) -> Any:
    """``x * tanh(softplus(x))``."""
    return x * p.tanh(p.softplus(x))


@mish.or_
def _(p: Any, x: Any) -> Any:
    return x * p.tanh(p.log1p(p.exp(x)))


@mish.becomes
def _(b: Builder, m: Match) -> Any:
    return b.mish(m.x)


@rule
def gelu(p: Any, x: Any) -> Any:
    """``0.5 * x * (1 + erf(x / sqrt(2)))``, in each order of the factors."""
    return (x * 0.5) * (p.erf(x / math.sqrt(2)) + 1.0)


@gelu.or_
def _(p: Any, x: Any) -> Any:
    return (x * (p.erf(x / math.sqrt(2)) + 1.0)) * 0.5


@gelu.or_
def _(p: Any, x: Any) -> Any:
    return x * ((p.erf(x / math.sqrt(2)) + 1.0) * 0.5)


@gelu.becomes
def _(b: Builder, m: Match) -> Any:
    return b.gelu(m.x)


def _bend(p: Any, x: Any, cube: Any) -> Any:
    return p.tanh((x + cube * 0.044715) * math.sqrt(2 / math.pi)) + 1.0


@rule
def gelu_tanh(p: Any, x: Any) -> Any:
    """``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``, in each order of the factors."""
    return (x * 0.5) * _bend(p, x, x**3)


@gelu_tanh.or_
def _(p: Any, x: Any) -> Any:
    return (x * 0.5) * _bend(p, x, x * x * x)


@gelu_tanh.or_
def _(p: Any, x: Any) -> Any:
    return (x * _bend(p, x, x**3)) * 0.5


@gelu_tanh.or_
def _(p: Any, x: Any) -> Any:
    return (x * _bend(p, x, x * x * x)) * 0.5


@gelu_tanh.or_
def _(p: Any, x: Any) -> Any:
    return x * (_bend(p, x, x**3) * 0.5)


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
def log_softmax(p: Any, x: Any, *, axis: Any) -> Any:
    """``log(softmax(x))``."""
    return p.log(p.softmax(x, axis=axis))


@log_softmax.becomes
def _(b: Builder, m: Match) -> Any:
    return b.log_softmax(m.x, axis=m.axis)


ACTIVATIONS: Final = (relu, silu, hard_sigmoid, hard_swish, mish, gelu, gelu_tanh, softmax, log_softmax)
