"""The gamma function's relatives, by the formulas of Stirling, Euler and Maclaurin (NIST DLMF 5.11, 5.15, 25.11)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np

from isthmus.frontends.torch.aten.approximation import polynomial, wide
from isthmus.frontends.torch.aten.common import broadcast, expand
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers
from isthmus.ir.builder import Builder
from isthmus.ir.dims import product
from isthmus.ir.dtypes import f64, i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor

AHEAD: Final = 8
"""How far arguments are moved up, to where asymptotic series hold to double precision."""
_TERMS: Final = 10


@cache
def _bernoulli(count: int) -> tuple[float, ...]:
    """The Bernoulli numbers B2, B4, ..."""
    numbers = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        numbers.append(-sum((math.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0)) / (n + 1))
    return tuple(float(number) for number in numbers[2::2])


def steps(w: Lowering, x: Value) -> Value:
    """``x, x + 1, ...`` along a new last axis."""
    return w.b.add(w.b.unsqueeze(x, axes=[w.rank(x)]), [float(k) for k in range(AHEAD)])  # type: ignore[no-any-return]


def _turn(w: Lowering, x: Value) -> tuple[Value, Value]:
    """The sine and cosine of pi * x but for a sign, exact near whole numbers."""
    angle = w.b.mul(w.b.sub(x, w.b.round(x)), math.pi)
    return w.b.sin(angle), w.b.cos(angle)


def stirling(w: Lowering, z: Value) -> Value:
    """What Stirling's formula lacks: the logarithm of ``gamma(z) / (sqrt(2 * pi / z) * (z / e) ** z)``, of z not below 8."""
    inverse = w.b.reciprocal(z)
    terms = [number / (2 * k * (2 * k - 1)) for k, number in enumerate(_bernoulli(_TERMS), 1)]
    return w.b.mul(polynomial(w, w.b.mul(inverse, inverse), terms), inverse)  # type: ignore[no-any-return]


@wide("lgamma", "special_gammaln")
def lgamma(w: Lowering, x: Value, error: float) -> Value:
    """Stirling's series; what is not positive is reflected at one half."""
    positive = w.b.gt(x, 0.0)
    z = w.b.where(positive, x, w.b.sub(1.0, x))
    low = w.b.lt(z, float(AHEAD))
    product = w.b.where(low, w.b.reduce_prod(steps(w, z), axes=[w.rank(z)]), 1.0)
    z = w.b.where(low, w.b.add(z, float(AHEAD)), z)
    whole = w.b.mul(w.b.sub(z, 0.5), w.b.sub(w.b.log(z), 1.0))
    found = w.b.sub(w.b.add(w.b.add(whole, 0.5 * math.log(2 * math.pi) - 0.5), stirling(w, z)), w.b.log(product))
    reflected = w.b.sub(w.b.log(w.b.div(math.pi, w.b.abs(_turn(w, x)[0]))), found)
    found = w.b.where(positive, found, reflected)
    return w.b.where(w.b.is_inf(x), math.inf, found)  # type: ignore[no-any-return]


@lowers("aten.mvlgamma", "aten.special_multigammaln")
def mvlgamma(w: Lowering, x: Value, p: int) -> Any:
    """The sum of lgamma at p places, each one half below the one before."""
    x = w.floating(x)
    places = w.b.sub(w.b.unsqueeze(w.cast(x, f64), axes=[w.rank(x)]), [k / 2 for k in range(p)])
    total = w.b.reduce_sum(lgamma(w, places), axes=[w.rank(x)])
    return w.cast(w.b.add(total, p * (p - 1) / 4 * math.log(math.pi)), x.tensor.dtype)


@wide("digamma", "special_digamma", "special_psi")
def digamma(w: Lowering, x: Value, error: float) -> Value:
    """As `lgamma`. At 0 it is infinite, of the sign opposite to that of the zero, and at other poles not a number."""
    positive = w.b.gt(x, 0.0)
    z = w.b.where(positive, x, w.b.sub(1.0, x))
    before = w.b.reduce_sum(w.b.reciprocal(steps(w, z)), axes=[w.rank(z)])
    inverse = w.b.reciprocal(w.b.add(z, float(AHEAD)))
    square = w.b.mul(inverse, inverse)
    terms = [number / (2 * k) for k, number in enumerate(_bernoulli(_TERMS), 1)]
    rest = w.b.add(w.b.mul(inverse, 0.5), w.b.mul(polynomial(w, square, terms), square))
    found = w.b.sub(w.b.sub(w.b.log(w.b.add(z, float(AHEAD))), rest), before)
    sine, cosine = _turn(w, x)
    reflected = w.b.sub(found, w.b.mul(w.b.where(w.b.eq(sine, 0.0), math.nan, w.b.div(cosine, sine)), math.pi))
    found = w.b.where(positive, found, reflected)
    return w.b.where(w.b.eq(x, 0.0), w.b.neg(w.b.reciprocal(x)), found)  # type: ignore[no-any-return]


# ---- zeta


def _zeta(w: Lowering, s: Value, q: Value) -> Value:
    """Hurwitz' zeta function, the sum of ``(q + k) ** -s``, of s above 1 and q not negative: Euler's and Maclaurin's sum."""
    power = w.b.neg(s)
    last = w.rank(q)
    head = w.b.reduce_sum(w.b.pow(steps(w, q), w.b.unsqueeze(power, axes=[w.rank(s)])), axes=[last])
    a = w.b.add(q, float(AHEAD))
    inverse = w.b.reciprocal(a)
    square = w.b.mul(inverse, inverse)
    bounded = w.b.minimum(s, 1e3)  # the terms of a greater one are all 0
    factor = w.b.mul(bounded, inverse)
    rest: Value = w.b.add(w.b.div(a, w.b.sub(s, 1.0)), 0.5)
    for k, number in enumerate(_bernoulli(_TERMS), 1):
        rest = w.b.add(rest, w.b.mul(factor, number / math.factorial(2 * k)))
        following = w.b.mul(w.b.add(bounded, 2.0 * k - 1), w.b.add(bounded, 2.0 * k))
        factor = w.b.mul(w.b.mul(factor, following), square)
    return w.b.add(head, w.b.mul(w.b.pow(a, power), rest))  # type: ignore[no-any-return]


@lowers("aten.special_zeta", "aten.special_zeta.other_scalar", "aten.special_zeta.self_scalar")
def zeta(w: Lowering, x: Value | Scalar, other: Value | Scalar) -> Any:
    """Below 0 the terms are added up one by one, in as many turns as the least q needs."""
    given = w.promote(x, other, floating=True)
    shape = broadcast(w, *map(w.dims, given))
    s, q = (expand(w, w.cast(value, f64), shape) for value in given)
    whole = w.b.eq(w.b.floor(q), q)
    count = w.b.where(w.b.logical_or(whole, w.b.gt(q, 0.0)), 0.0, w.b.neg(w.b.floor(q)))
    turns = w.cast(w.b.reduce_max(w.b.concat([w.b.reshape(count, shape=[product(shape)]), [0.0]], axis=0), axes=[0]), i64)

    def turn(b: Builder, k: Value, total: Value) -> list[Value]:
        step = b.cast(k, dtype=f64)
        term = b.pow(b.add(q, step), b.neg(s))
        return [b.constant(True), b.add(total, b.where(b.lt(step, count), term, 0.0))]

    total = Tensor(f64, shape)
    zero = expand(w, w.tensor(0.0, f64), shape)
    below = w.b.loop(turns, None, [zero], carried=1, regions=[w.b.subgraph([Tensor(i64, ()), total], turn)])
    found = w.b.add(below, _zeta(w, s, w.b.add(q, count)))
    for holds, number in (
        (w.b.logical_and(w.b.lt(q, 0.0), w.b.ne(w.b.floor(s), s)), math.nan),  # a root of a negative number
        (w.b.logical_and(w.b.le(q, 0.0), whole), math.inf),
        (w.b.lt(s, 1.0), math.nan),
        (w.b.eq(s, 1.0), math.inf),
    ):
        found = w.b.where(holds, number, found)
    return w.cast(found, given[0].tensor.dtype)


# ---- derivatives of digamma


@lowers("aten.polygamma", "aten.special_polygamma")
def polygamma(w: Lowering, n: int, x: Value) -> Any:
    """By Hurwitz' zeta function; what is not positive is reflected at one half, which leaves a derivative of the cotangent."""
    if n == 0:
        return digamma(w, x)
    x = w.floating(x)
    wide, dtype = w.cast(x, f64), x.tensor.dtype
    positive = w.b.gt(wide, 0.0)
    z = w.b.minimum(w.b.where(positive, wide, w.b.sub(1.0, wide)), 1e300)  # infinity would be multiplied by 0
    beyond = _zeta(w, w.tensor(n + 1.0, f64), z)
    if n == 1:
        # torch rounds the angle, so that poles are large numbers
        sine = w.cast(w.b.sin(w.b.mul(x, math.pi)), f64)
        other = w.b.sub(w.b.div(math.pi**2, w.b.mul(sine, sine)), beyond)
        return w.cast(w.b.where(positive, beyond, other), dtype)
    sign, size = (-1.0) ** (n + 1), math.exp(math.lgamma(n + 1))
    sine, cosine = _turn(w, wide)
    derivative = w.b.mul(polynomial(w, w.b.div(cosine, sine), _derivative(n)), math.pi ** (n + 1))
    there = w.b.sub(w.b.mul(beyond, -size), derivative)
    pole = w.b.logical_and(w.b.le(wide, 0.0), w.b.eq(w.b.floor(wide), wide))
    found = w.b.where(positive, w.b.mul(beyond, sign * size), w.b.where(pole, sign * math.inf, there))
    return w.cast(w.b.where(w.b.eq(wide, math.inf), math.nan, found), dtype)


def _derivative(n: int) -> list[float]:
    """The n-th derivative of the cotangent, as a polynomial in it: each follows from the one before, times ``-(1 + c * c)``."""
    found = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        found = -found.deriv() * np.polynomial.Polynomial([1.0, 0.0, 1.0])
    return found.coef.tolist()
