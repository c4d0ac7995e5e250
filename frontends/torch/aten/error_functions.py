"""The error function's relatives, and the normal distribution's."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.frontends.torch.aten.approximation import approximation, wide
from isthmus.frontends.torch.lowering import Lowering
from isthmus.ir.graph import Value

_STEEP: Final = 3.75
_ROOT: Final = math.sqrt(0.5)


def _scaled(x: Any) -> Any:
    """``exp(x * x) * erfc(x)`` of an array that is not negative: beyond 1 by the trapezoidal rule for
    x / pi * integral of ``exp(-t * t) / (x * x + t * t)``, which converges geometrically."""
    step = 0.15
    nodes = np.arange(-48, 49) * step
    beyond = np.maximum(x, 1.0)[..., None]
    far = (np.exp(-nodes * nodes) * beyond / (beyond * beyond + nodes * nodes)).sum(-1) * step / np.pi
    near = np.minimum(x, 1.0)
    return np.where(x < 1, np.vectorize(math.erfc)(near) * np.exp(near * near), far)


def _fraction(place: Any) -> Any:
    x = _STEEP * (1 + place) / (1 - place)
    return (1 + 2 * x) * _scaled(x)


def _erfcx(w: Lowering, x: Value, error: float) -> Value:
    """``exp(x * x) * erfc(x)`` of x not below 0: ``1 / (1 + 2 * x)`` times a polynomial in ``(x - 3.75) / (x + 3.75)``.

    The form is M. M. Shepherd's and J. G. Laframboise's (Mathematics of Computation 36, 1981).
    """
    place = w.b.sub(1.0, w.b.div(2 * _STEEP, w.b.add(x, _STEEP)))
    return w.b.div(approximation(w, place, _fraction, -1.0, 1.0, error), w.b.add(w.b.mul(x, 2.0), 1.0))  # type: ignore[no-any-return]


@wide("special_erfcx")
def erfcx(w: Lowering, x: Value, error: float) -> Value:
    scaled = _erfcx(w, w.b.abs(x), error)
    mirrored = w.b.sub(w.b.mul(w.b.exp(w.b.mul(x, x)), 2.0), scaled)
    return w.b.where(w.b.lt(x, 0.0), mirrored, scaled)  # type: ignore[no-any-return]


@wide("erfc", "special_erfc")
def erfc(w: Lowering, x: Value, error: float) -> Value:
    rest = w.b.mul(w.b.exp(w.b.neg(w.b.mul(x, x))), _erfcx(w, w.b.abs(x), error))
    return w.b.where(w.b.lt(x, 0.0), w.b.sub(2.0, rest), rest)  # type: ignore[no-any-return]


@wide("special_log_ndtr")
def log_ndtr(w: Lowering, x: Value, error: float) -> Value:
    """The logarithm of the share of a normal distribution below x."""
    scaled = w.b.mul(_erfcx(w, w.b.mul(w.b.abs(x), _ROOT), error), 0.5)
    half = w.b.mul(w.b.mul(x, x), 0.5)
    share = w.b.mul(scaled, w.b.exp(w.b.neg(half)))  # beyond abs(x)
    below = w.b.log(w.b.where(w.b.lt(x, 0.0), scaled, 1.0))
    left = w.b.sub(below, half)
    right = w.b.log1p(w.b.neg(share))
    return w.b.where(w.b.lt(x, 0.0), left, right)  # type: ignore[no-any-return]


# ---- quantiles

_BREAK: Final = 1.5
"""Where the two forms of quantiles meet: as ``sqrt(-2 * log(p))``, and so at p = 0.32."""
_FARTHEST: Final = 39.0
"""Beyond the tail of the least double."""


def _tail(place: Any) -> Any:
    """How far beyond the middle the share ``exp(-s * s / 2)`` of a normal distribution is, less s; s is given by its place.

    By Newton's method for the logarithm of the share.
    """
    s = _span(place)
    y = np.array(s)
    for _ in range(30):
        scaled = _scaled(y * _ROOT)
        slope = -math.sqrt(2 / math.pi) / scaled
        y = np.maximum(y - (np.log(scaled / 2) - y * y / 2 + s * s / 2) / slope, 0.0)
    return y - s


def _span(place: Any) -> Any:
    return 4 * (1 + place) / (1 - place)


def _place(s: float) -> float:
    return (s - 4) / (s + 4)


def _middle(square: Any) -> Any:
    """A quantile divided by its share's distance from one half, of that distance's square."""
    distance = np.sqrt(np.maximum(square, 1e-300))
    s = np.sqrt(-2 * np.log(0.5 - distance))
    y = np.array(s) * 0.0
    for _ in range(60):
        density = np.exp(-y * y / 2) / math.sqrt(2 * math.pi)
        y = y - (np.vectorize(math.erf)(y * _ROOT) / 2 - distance) / density
    return y / distance


def _quantile(w: Lowering, distance: Value, tail: Value, error: float) -> Value:
    """The place on a normal distribution, given the share's signed distance from one half, and what is beyond it."""
    square = w.b.mul(distance, distance)
    bound = 0.5 - math.exp(-_BREAK * _BREAK / 2)
    middle = w.b.mul(distance, approximation(w, square, _middle, 0.0, bound * bound, error))
    s = w.b.sqrt(w.b.mul(w.b.log(tail), -2.0))
    place = w.b.sub(1.0, w.b.div(8.0, w.b.add(s, 4.0)))
    beyond = w.b.add(s, approximation(w, place, _tail, _place(_BREAK), _place(_FARTHEST), error))
    far = w.b.mul(beyond, w.b.sign(distance))
    return w.b.where(w.b.lt(w.b.abs(distance), bound), middle, far)  # type: ignore[no-any-return]


@wide("special_ndtri")
def ndtri(w: Lowering, x: Value, error: float) -> Value:
    return _quantile(w, w.b.sub(x, 0.5), w.b.minimum(x, w.b.sub(1.0, x)), error)


@wide("erfinv", "special_erfinv")
def erfinv(w: Lowering, x: Value, error: float) -> Value:
    tail = w.b.mul(w.b.sub(1.0, w.b.abs(x)), 0.5)
    return w.b.mul(_quantile(w, w.b.mul(x, 0.5), tail, error), _ROOT)  # type: ignore[no-any-return]
