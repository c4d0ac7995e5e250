"""Bessel functions of orders 0 and 1, and Airy's: power series near 0 (NIST DLMF 10.8, 10.31, 9.4), and beyond them
polynomials in ``1 / x`` times what grows and turns (10.17, 10.40, 9.6, 9.7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from isthmus.frontends.torch.aten.approximation import approximation, polynomial, series, wide
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.graph import Value

_TURNING: Final = 5.0
"""Up to where power series of oscillating functions lose few digits."""
_FALLING: Final = 2.0
"""The same, of those that fall while the terms rise."""
_GROWING: Final = 8.0
"""From where growing functions are told by ``1 / x``."""


def _beyond(order: float, z: Any) -> Any:
    """``sqrt(2 * z / pi) * exp(z) * K(order, z)`` of complex z with a real part not below 0, not near 0.

    The integral over t of ``exp(-z * (cosh(t) - 1)) * cosh(order * t)``, with ``s = sqrt(2 * z) * sinh(t / 2)`` for t, by the
    trapezoidal rule, which converges geometrically. At ``-1j * x`` it is P + 1j * Q of Hankel's expansions of J and Y.
    """
    step = 0.16
    s = np.arange(-40, 41) * step
    wave = s / np.sqrt(2 * np.asarray(z)[..., None])
    terms = np.exp(-s * s) * np.cosh(2 * order * np.arcsinh(wave)) / np.sqrt(1 + wave * wave)
    return terms.sum(-1) * step / math.sqrt(math.pi)


@cache
def _of_inverse(kind: str, order: float) -> Callable[[Any], Any]:
    """A function of ``1 / x``: what K falls with, P of J's and Y's waves, ``Q * x`` of them, or what I grows with.

    The last is the integral over a circle of ``exp(x * cos(t)) * cos(order * t)``, again by the trapezoidal rule.
    """
    angle = np.linspace(0, 2 * np.pi, 8192, endpoint=False)

    def growth(inverse: Any) -> Any:
        means = [np.mean(np.exp((np.cos(angle) - 1) / each) * np.cos(order * angle)) for each in inverse]
        return np.array(means) * np.sqrt(2 * np.pi / inverse)

    return {
        "fall": lambda inverse: _beyond(order, 1 / inverse),
        "even": lambda inverse: _beyond(order, -1j / inverse).real,
        "odd": lambda inverse: _beyond(order, -1j / inverse).imag / inverse,
        "growth": growth,
    }[kind]


def _regular(w: Lowering, x: Value, order: int, sign: int, most: float, error: float) -> Value:
    """The power series of J (for the sign -1) or I (for 1)."""
    terms = series(lambda k: sign**k / (math.factorial(k) * math.factorial(k + order)), most * most / 4, error)
    half = w.b.mul(x, 0.5)
    found = polynomial(w, w.b.mul(half, half), terms)
    return w.b.mul(found, half) if order else found


def _singular(w: Lowering, x: Value, order: int, sign: int, most: float, error: float) -> Value:
    """The series of ``pi / 2 * Y`` (for the sign -1) or ``(-1) ** (order + 1) * K`` (for 1), with a logarithm and a pole."""

    def psi(n: int) -> float:
        return sum(1 / k for k in range(1, n)) - float(np.euler_gamma)

    def term(k: int) -> float:
        return float(sign) ** k * (psi(k + 1) + psi(k + order + 1)) / (2 * math.factorial(k) * math.factorial(k + order))

    half = w.b.mul(x, 0.5)
    rest = polynomial(w, w.b.mul(half, half), series(term, most * most / 4, error))
    found = w.b.mul(w.b.log(half), _regular(w, x, order, sign, most, error))
    if not order:
        return w.b.sub(found, rest)  # type: ignore[no-any-return]
    pole = w.b.div(float(sign), x)
    whole = w.b.add(w.b.sub(found, w.b.mul(rest, half)), pole)
    return w.b.where(w.b.eq(x, 0.0), sign * math.inf, whole)  # type: ignore[no-any-return]


def _waves(w: Lowering, x: Value, order: float, error: float, angle: Value, second: bool = False) -> Value:
    """``P * cos(t) - Q * sin(t)``, or the second kind's ``P * sin(t) + Q * cos(t)``, at ``t = angle - pi / 4``.

    For order 1 the angle is turned by another quarter.
    """
    inverse = w.b.reciprocal(x)
    even = approximation(w, inverse, _of_inverse("even", order), 0.0, 1 / _TURNING, error)
    odd = w.b.mul(approximation(w, inverse, _of_inverse("odd", order), 0.0, 1 / _TURNING, error), inverse)
    sine, cosine = w.b.sin(angle), w.b.cos(angle)
    cosine, sine = w.b.add(cosine, sine), w.b.sub(sine, cosine)
    if order == 1:
        cosine, sine = sine, w.b.neg(cosine)
    if second:
        cosine, sine = sine, w.b.neg(cosine)
    return w.b.mul(w.b.sub(w.b.mul(even, cosine), w.b.mul(odd, sine)), math.sqrt(0.5))  # type: ignore[no-any-return]


def _first(order: int) -> None:
    def lowering(w: Lowering, x: Value, error: float) -> Value:
        size = w.b.abs(x)
        amplitude = w.b.sqrt(w.b.div(2 / math.pi, size))
        far = w.b.mul(amplitude, _waves(w, size, order, error, size))
        far = w.b.mul(far, w.b.sign(x)) if order else far
        return w.b.where(w.b.lt(size, _TURNING), _regular(w, x, order, -1, _TURNING, error), far)  # type: ignore[no-any-return]

    wide(f"special_bessel_j{order}")(lowering)


def _second(order: int) -> None:
    def lowering(w: Lowering, x: Value, error: float) -> Value:
        amplitude = w.b.sqrt(w.b.div(2 / math.pi, x))
        far = w.b.mul(amplitude, _waves(w, x, order, error, x, second=True))
        near = w.b.mul(_singular(w, x, order, -1, _TURNING, error), 2 / math.pi)
        return w.b.where(w.b.lt(x, _TURNING), near, far)  # type: ignore[no-any-return]

    wide(f"special_bessel_y{order}")(lowering)


def _modified_first(order: int, scaled: bool, *names: str) -> None:
    def lowering(w: Lowering, x: Value, error: float) -> Value:
        size = w.b.abs(x)
        grown = approximation(w, w.b.reciprocal(size), _of_inverse("growth", order), 0.0, 1 / _GROWING, error)
        far = w.b.div(w.b.mul(grown, math.sqrt(0.5 / math.pi)), w.b.sqrt(size))
        far = w.b.mul(far, w.b.sign(x)) if order else far
        near = _regular(w, x, order, 1, _GROWING, error)
        if scaled:
            near = w.b.mul(near, w.b.exp(w.b.neg(size)))
        else:
            far = w.b.mul(far, w.b.exp(size))
        return w.b.where(w.b.lt(size, _GROWING), near, far)  # type: ignore[no-any-return]

    wide(*names)(lowering)


def _modified_second(order: int, scaled: bool, name: str) -> None:
    def lowering(w: Lowering, x: Value, error: float) -> Value:
        fallen = approximation(w, w.b.reciprocal(x), _of_inverse("fall", order), 0.0, 1 / _FALLING, error)
        far = w.b.mul(fallen, w.b.sqrt(w.b.div(math.pi / 2, x)))
        near = _singular(w, x, order, 1, _FALLING, error)
        near = near if order else w.b.neg(near)
        if scaled:
            near = w.b.mul(near, w.b.exp(x))
        else:
            far = w.b.mul(far, w.b.exp(w.b.neg(x)))
        return w.b.where(w.b.lt(x, _FALLING), near, far)  # type: ignore[no-any-return]

    wide(name)(lowering)


for _order in (0, 1):
    _first(_order)
    _second(_order)
    _modified_second(_order, False, f"special_modified_bessel_k{_order}")
    _modified_second(_order, True, f"special_scaled_modified_bessel_k{_order}")
    _modified_first(_order, True, f"special_i{_order}e")
_modified_first(0, False, "i0", "special_i0", "special_modified_bessel_i0")
_modified_first(1, False, "special_i1", "special_modified_bessel_i1")


@lowers("aten.special_spherical_bessel_j0")
def spherical_bessel_j0(w: Lowering, x: Value) -> Any:
    x = w.floating(x)
    waves = w.b.where(w.b.eq(x, 0.0), 1.0, w.b.div(w.b.sin(x), x))
    return w.b.where(w.b.is_inf(x), 0.0, waves)


_AIRY: Final = (1 / (3 ** (2 / 3) * math.gamma(2 / 3)), 1 / (3 ** (1 / 3) * math.gamma(1 / 3)))
"""Airy's function at 0, and its slope's size there."""


def _airy_terms(more: int) -> Callable[[int], float]:
    return lambda k: 1 / math.prod(3 * n * (3 * n + more) for n in range(1, k + 1))


@wide("special_airy_ai")
def airy_ai(w: Lowering, x: Value, error: float) -> Value:
    """Of order 1/3, beyond 0 as K and below it as J, in the angle ``2 / 3 * abs(x) ** 1.5``."""
    low, high = -((1.5 * _TURNING) ** (2 / 3)), (1.5 * _FALLING) ** (2 / 3)
    cube = w.b.mul(w.b.mul(x, x), x)
    even, odd = (polynomial(w, cube, series(_airy_terms(more), -(low**3), error)) for more in (-1, 1))
    near = w.b.sub(w.b.mul(even, _AIRY[0]), w.b.mul(w.b.mul(odd, x), _AIRY[1]))
    root = w.b.sqrt(w.b.abs(x))
    angle = w.b.mul(w.b.mul(root, w.b.abs(x)), 2 / 3)
    amplitude = w.b.div(math.sqrt(1 / math.pi), w.b.sqrt(root))
    below = _waves(w, angle, 1 / 3, error, angle)
    beyond = approximation(w, w.b.reciprocal(angle), _of_inverse("fall", 1 / 3), 0.0, 1 / _FALLING, error)
    beyond = w.b.mul(w.b.mul(beyond, 0.5), w.b.exp(w.b.neg(angle)))
    far = w.b.mul(amplitude, w.b.where(w.b.lt(x, 0.0), below, beyond))
    inside = w.b.logical_and(w.b.gt(x, low), w.b.lt(x, high))
    return w.b.where(w.b.is_inf(x), math.nan, w.b.where(inside, near, far))  # type: ignore[no-any-return]
