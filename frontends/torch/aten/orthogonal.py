"""Orthogonal polynomials of any degree, by their three-term recurrences (NIST DLMF 18.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from isthmus.frontends.torch.aten.common import Number, broadcast, expand
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.builder import Builder
from isthmus.ir.dims import product
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor

_UNROLLED: Final = 16
"""A known degree up to this is written out without a loop."""

Step = Callable[[Builder, Value, Value, Value, Value], Any]


def _chebyshev(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    return b.sub(b.mul(b.add(x, x), q), p)


def _hermite_h(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    return b.sub(b.mul(b.add(x, x), q), b.mul(b.add(k, k), p))


def _hermite_he(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    return b.sub(b.mul(x, q), b.mul(k, p))


def _laguerre(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    return b.div(b.sub(b.mul(b.add(b.add(k, k), b.sub(1.0, x)), q), b.mul(k, p)), b.add(k, 1.0))


def _legendre(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    return b.div(b.sub(b.mul(b.mul(b.add(b.add(k, k), 1.0), x), q), b.mul(k, p)), b.add(k, 1.0))


_FAMILIES: Final[dict[str, tuple[float, float, Step]]] = {
    "chebyshev_polynomial_t": (1, 0, _chebyshev), "chebyshev_polynomial_u": (2, 0, _chebyshev),
    "chebyshev_polynomial_v": (2, -1, _chebyshev), "chebyshev_polynomial_w": (2, 1, _chebyshev),
    "hermite_polynomial_h": (2, 0, _hermite_h), "hermite_polynomial_he": (1, 0, _hermite_he),
    "laguerre_polynomial_l": (-1, 1, _laguerre), "legendre_polynomial_p": (1, 0, _legendre),
}  # fmt: skip
"""The factor and the summand of x in the polynomial of degree 1, and how a polynomial follows from the two before it."""


def _family(name: str, factor: float, summand: float, step: Step, shifted: bool) -> None:
    def lowering(w: Lowering, x: Number, n: Number) -> Any:
        place, degree = w.promote(x, n, floating=True)
        if shifted:
            place = w.b.sub(w.b.add(place, place), 1.0)
        linear = place if factor == 1 else w.b.mul(place, factor)
        linear = linear if summand == 0 else w.b.add(linear, summand)
        if isinstance(n, (int, float)) and n < _UNROLLED:
            return _written_out(w, place, linear, step, int(n))
        return _looped(w, place, linear, step, degree)

    lowering.__qualname__ = lowering.__name__ = name
    lowers(*(f"aten.special_{name}{overload}" for overload in ("", ".x_scalar", ".n_scalar")))(lowering)


def _written_out(w: Lowering, x: Value, linear: Value, step: Step, degree: int) -> Value:
    p, q = (expand(w, w.tensor(number, x.tensor.dtype), w.dims(x)) for number in (1.0, 0.0))
    if degree <= 0:
        return p if degree == 0 else q
    q = linear
    for k in range(1, degree):
        p, q = q, step(w.b, x, w.tensor(float(k), x.tensor.dtype), p, q)
    return q


def _looped(w: Lowering, x: Value, linear: Value, step: Step, degree: Value) -> Value:
    """As many turns as the greatest degree needs; each element stops at its own, which is rounded towards 0."""
    dtype, shape = x.tensor.dtype, broadcast(w, w.dims(x), w.dims(degree))
    degree = w.b.where(w.b.is_finite(degree), w.b.trunc(degree), -1.0)
    flat = w.b.concat([w.b.reshape(degree, shape=[product(w.dims(degree))]), w.b.constant([1.0], dtype)], axis=0)
    turns = w.b.sub(w.cast(w.b.reduce_max(flat, axes=[0]), i64), 1)

    def turn(b: Builder, number: Value, p: Value, q: Value) -> list[Value]:
        k = b.add(b.cast(number, dtype=dtype), 1.0)
        on = b.lt(k, degree)
        return [b.constant(True), b.where(on, q, p), b.where(on, step(b, x, k, p, q), q)]

    one = expand(w, w.tensor(1.0, dtype), shape)
    kind = Tensor(dtype, shape)
    body = w.b.subgraph([Tensor(i64, ()), kind, kind], turn)
    _, found = w.b.loop(turns, None, [one, expand(w, linear, shape)], carried=2, regions=[body])
    return w.b.where(w.b.lt(degree, 0.0), 0.0, w.b.where(w.b.lt(degree, 1.0), one, found))  # type: ignore[no-any-return]


for _name, (_factor, _summand, _step) in _FAMILIES.items():
    _family(_name, _factor, _summand, _step, shifted=False)
    if _step is _chebyshev:
        _family(f"shifted_{_name}", _factor, _summand, _step, shifted=True)
