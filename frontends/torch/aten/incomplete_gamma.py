"""The regularised incomplete gamma functions: the share below or beyond x of ``t ** (a - 1) * exp(-t)`` (NIST DLMF 8.2)."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.frontends.torch.aten.common import broadcast, expand
from isthmus.frontends.torch.aten.gamma import AHEAD, steps, stirling
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dtypes import f64
from isthmus.ir.graph import Value

_NODES: Final = 40
_DROP: Final = 36.0
"""The integrand is followed to where its logarithm has dropped by so much."""


def _integral(w: Lowering, x: Value, a: Value, sign: Value, span: Value) -> Value:
    """The integral over u of ``exp(a * u - x * (exp(u) - 1))`` from 0 on, up or down, by Gauss' and Legendre's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    last = w.rank(x)
    x, a, reach = (w.b.unsqueeze(value, axes=[last]) for value in (x, a, w.b.mul(sign, span)))
    place = w.b.mul(reach, (nodes + 1) / 2)
    terms = w.b.exp(w.b.sub(w.b.mul(a, place), w.b.mul(x, w.b.expm1(place))))
    return w.b.mul(w.b.reduce_sum(w.b.mul(terms, weights / 2), axes=[last]), span)  # type: ignore[no-any-return]


def _shares(w: Lowering, a: Value, x: Value) -> tuple[Value, Value]:
    """The share below x and that beyond it, of ordinary numbers.

    Beyond what is greater than a and 1, the integral is taken upwards, in the logarithm of t. Elsewhere the first terms of
    the power series are added up, which leaves the integral downwards for an a that is greater by as many.
    """
    last = w.rank(x)
    more = w.b.add(a, float(AHEAD))
    ratio = w.b.div(w.b.sub(x, more), more)
    # x ** a * exp(-x) / gamma(a), for the greater a and for a itself, without the difference of great logarithms
    log = w.b.where(w.b.lt(ratio, -0.5), w.b.log(w.b.div(x, more)), w.b.log1p(ratio))
    body = w.b.sub(w.b.mul(w.b.sub(log, ratio), more), stirling(w, more))
    greater = w.b.add(body, w.b.mul(w.b.log(w.b.mul(more, 0.5 / math.pi)), 0.5))
    logs = w.b.log(w.b.div(steps(w, a), w.b.unsqueeze(x, axes=[last])))
    own = w.b.exp(w.b.add(greater, w.b.reduce_sum(logs, axes=[last])))

    upwards = w.b.ge(x, w.b.maximum(a, 1.0))
    wide = w.b.sqrt(w.b.div(2 * _DROP, x))
    up = w.b.minimum(wide, w.b.log1p(w.b.add(w.b.div(_DROP, x), wide)))
    up = w.b.minimum(up, w.b.div(_DROP, w.b.maximum(w.b.sub(x, a), 1e-9)))
    down = w.b.maximum(w.b.mul(wide, math.sqrt(1.5)), w.b.div(2.72 * _DROP, x))
    down = w.b.minimum(down, w.b.div(_DROP, w.b.maximum(w.b.sub(more, x), 1.0)))
    sign = w.b.where(upwards, w.tensor(1.0, f64), -1.0)
    integral = _integral(w, x, w.b.where(upwards, a, more), sign, w.b.where(upwards, up, down))

    series: Value = w.tensor(1.0, f64)
    for k in range(AHEAD - 1, 0, -1):
        series = w.b.add(w.b.mul(w.b.div(x, w.b.add(a, float(k))), series), 1.0)
    below = w.b.add(w.b.mul(w.b.div(own, a), series), w.b.mul(w.b.exp(greater), integral))
    beyond = w.b.mul(own, integral)
    return w.b.where(upwards, w.b.sub(1.0, beyond), below), w.b.where(upwards, beyond, w.b.sub(1.0, below))


def _incomplete(upper: bool, *names: str) -> None:
    def lowering(w: Lowering, x: Value, other: Value) -> Any:
        """`x` is the exponent a, and `other` the bound."""
        given = w.promote(x, other)
        shape = broadcast(w, *map(w.dims, given))
        a, bound = (expand(w, w.cast(value, f64), shape) for value in given)
        found = _shares(w, a, bound)[upper]
        nothing, whole = (1.0, 0.0) if upper else (0.0, 1.0)
        infinite = w.b.is_inf(bound)
        for holds, number in (
            (infinite, whole),
            (w.b.is_inf(a), w.b.where(infinite, w.tensor(math.nan, f64), nothing)),
            (w.b.eq(bound, 0.0), nothing),
            (w.b.eq(a, 0.0), w.b.where(w.b.gt(bound, 0.0), w.tensor(whole, f64), math.nan)),
            (w.b.logical_or(w.b.lt(a, 0.0), w.b.lt(bound, 0.0)), math.nan),
        ):
            found = w.b.where(holds, number, found)
        return w.cast(found, given[0].tensor.dtype)

    lowering.__qualname__ = lowering.__name__ = names[0]
    lowers(*(f"aten.{name}" for name in names))(lowering)


_incomplete(False, "igamma", "special_gammainc")
_incomplete(True, "igammac", "special_gammaincc")
