"""Activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import bounds
from isthmus.ir.graph import Value
from isthmus.ir.ops.activations import SELU_ALPHA, SELU_SCALE


@converts("LeakyRelu")
def leaky_relu(c: Conversion, x: Value, *, alpha: float = 0.01, consumed_inputs: Any = ()) -> Any:
    """x where it is positive, else alpha * x."""
    return c.b.leaky_relu(x, alpha=alpha)


@converts("Elu")
def elu(c: Conversion, x: Value, *, alpha: float = 1.0, consumed_inputs: Any = ()) -> Any:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return c.b.elu(x, alpha=alpha)


@converts("Selu", since=6)
def selu(c: Conversion, x: Value, *, alpha: float = SELU_ALPHA, gamma: float = SELU_SCALE) -> Any:
    """Gamma times `elu`; by default that which keeps mean and variance."""
    if np.float32(alpha) == np.float32(SELU_ALPHA) and np.float32(gamma) == np.float32(SELU_SCALE):
        return c.b.selu(x)
    return c.b.mul(c.b.elu(x, alpha=alpha), c.same_type(gamma, x))


@converts("Selu")
def selu_old(c: Conversion, x: Value, *, alpha: float = 1.6732, gamma: float = 1.0507, consumed_inputs: Any = ()) -> Any:
    """The defaults have fewer digits."""
    return selu(c, x, alpha=alpha, gamma=gamma)


@converts("Celu")
def celu(c: Conversion, x: Value, *, alpha: float = 1.0) -> Any:
    """x where it is positive, else alpha * (exp(x / alpha) - 1)."""
    return c.b.celu(x, alpha=alpha)


@converts("Gelu")
def gelu(c: Conversion, x: Value, *, approximate: str = "none") -> Any:
    """x times the normal distribution function."""
    return c.b.gelu(x, approximate=approximate)


@converts("HardSigmoid")
def hard_sigmoid(c: Conversion, x: Value, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = ()) -> Any:
    """A line cut off at 0 and 1."""
    return c.b.hard_sigmoid(x, alpha=alpha, beta=beta)


@converts("HardSwish")
def hard_swish(c: Conversion, x: Value) -> Any:
    """x times the line through -3 and 3, cut off at 0 and 1."""
    return c.b.hard_swish(x)


@converts("Mish")
def mish(c: Conversion, x: Value) -> Any:
    """x * tanh(softplus(x))."""
    return c.b.mish(x)


@converts("Softplus")
def softplus(c: Conversion, x: Value) -> Any:
    """log(1 + exp(x)); above the threshold that is x to the last digit."""
    return c.b.softplus(x, threshold=40.0 if x.tensor.dtype is dtypes.f64 else 20.0)


@converts("Softsign")
def softsign(c: Conversion, x: Value) -> Any:
    """x / (1 + |x|)."""
    return c.b.softsign(x)


@converts("Swish")
def swish(c: Conversion, x: Value, *, alpha: float = 1.0) -> Any:
    """x * sigmoid(alpha * x)."""
    if alpha == 1:
        return c.b.silu(x)
    return c.b.mul(x, c.b.sigmoid(c.b.mul(x, c.same_type(alpha, x))))


@converts("ThresholdedRelu")
def thresholded_relu(c: Conversion, x: Value, *, alpha: float = 1.0) -> Any:
    """x where it is more than alpha, else 0."""
    return c.b.where(c.b.gt(x, c.same_type(alpha, x)), x, c.same_type(0, x))


@converts("Shrink")
def shrink(c: Conversion, x: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """x moved towards 0 by the bias where it is beyond lambd on either side, else 0."""
    dtype = x.tensor.dtype
    if dtype.is_integer:  # the limits need not be whole
        return c.b.cast(shrink(c, c.b.cast(x, dtype=dtypes.f64), bias=bias, lambd=lambd), dtype=dtype)
    shift, zero = c.same_type(bias, x), c.same_type(0, x)
    low = c.b.where(c.b.lt(x, c.same_type(-lambd, x)), c.b.add(x, shift), zero)
    return c.b.where(c.b.gt(x, c.same_type(lambd, x)), c.b.sub(x, shift), low)


@converts("PRelu", since=7)
def prelu(c: Conversion, x: Value, slope: Value) -> Any:
    """x where it is positive, else slope * x; slope broadcasts to x, and not the other way round."""
    for own, size in zip(reversed(c.shape(slope)), reversed(c.shape(x)), strict=False):
        fits = c.b.graph.symbols.unify(own, size) if bounds(own)[0] > 1 else c.b.graph.symbols.constrain("<=", own, size)
        if not (own == 1 or fits):
            raise c.malformed(f"the slope {slope.type} does not broadcast to {x.type}")
    if x.tensor.dtype.is_float:
        return c.b.prelu(x, slope)
    return c.b.where(c.b.lt(x, c.same_type(0, x)), c.b.mul(x, slope), x)


@converts("PRelu")
def prelu_old(c: Conversion, x: Value, slope: Value, *, consumed_inputs: Any = ()) -> Any:
    """A slope of its own for each channel, axis 1."""
    rank = c.rank(x)
    if c.rank(slope) == 1 and c.shape(slope) != (1,) and rank > 2:
        slope = c.b.unsqueeze(slope, axes=list(range(1, rank - 1)))
    return prelu(c, x, slope)
