"""Functions that targets lack, out of the arithmetic that they have: by polynomials whose coefficients are computed here.

Everything is computed in double precision, also of narrower floats, to the digits that the element type has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dtypes import f64
from isthmus.ir.graph import Value

Function = Callable[[Any], Any]


def precision(x: Value) -> float:
    """The relative error that an approximation of a function of this value may have."""
    return 1e-14 if x.tensor.dtype is f64 else 1e-9


def wide(*names: str) -> Callable[[Callable[[Lowering, Value, float], Value]], Callable[..., Any]]:
    """Decorator: makes ``function(w, x, precision)`` of an f64 value the lowering of these overloads, of any real dtype."""

    def register(function: Callable[[Lowering, Value, float], Value]) -> Callable[..., Any]:
        def lowering(w: Lowering, x: Value) -> Any:
            x = w.floating(x)
            return w.cast(function(w, w.cast(x, f64), precision(x)), x.tensor.dtype)

        lowering.__qualname__ = lowering.__name__ = function.__name__
        lowering.__doc__ = function.__doc__
        return lowers(*(f"aten.{name}" for name in names))(lowering)

    return register


def polynomial(w: Lowering, x: Value, coefficients: Sequence[float]) -> Value:
    """``coefficients[0] + coefficients[1] * x + ...``, by Horner's rule."""
    found = w.tensor(coefficients[-1], x.tensor.dtype)
    for coefficient in reversed(coefficients[:-1]):
        found = w.b.add(w.b.mul(found, x), coefficient)
    return found


def approximation(w: Lowering, x: Value, function: Function, low: float, high: float, error: float) -> Value:
    """A polynomial that is a function between two numbers, up to an error relative to its greatest value."""
    place = w.b.mul(w.b.sub(x, (low + high) / 2), 2 / (high - low))
    return polynomial(w, place, _fitted(function, low, high, error))


@cache
def _fitted(function: Function, low: float, high: float, error: float) -> tuple[float, ...]:
    """The coefficients of a function's Chebyshev series, cut off where they no longer count, as those of powers.

    In powers nothing is lost as long as the coefficients fall faster than those of Chebyshev polynomials rise.
    """
    series = chebyshev.chebinterpolate(lambda t: function((low + high) / 2 + t * (high - low) / 2), 48)
    count = int(np.flatnonzero(np.abs(series) > error * np.abs(series).max())[-1]) + 1
    return tuple(chebyshev.cheb2poly(series[:count]).tolist())


def series(terms: Callable[[int], float], most: float, error: float) -> list[float]:
    """The coefficients of a power series, up to where its terms no longer count for an argument of at most `most`."""
    found = [terms(0)]
    scale = abs(found[0])
    while len(found) < 4 or abs(found[-1]) * most ** (len(found) - 1) > error * scale:
        found.append(terms(len(found)))
        scale = max(scale, abs(found[-1]) * most ** (len(found) - 1))
    return found
