"""Common divisors and multiples of integers, by Euclid's algorithm."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.torch.aten.common import broadcast, expand
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor


@lowers("aten.gcd")
def gcd(w: Lowering, x: Value, other: Value) -> Any:
    """Not negative; each turn replaces two numbers by the second and the remainder, until every remainder is 0."""
    given = w.promote(x, other)
    shape, dtype = broadcast(w, *map(w.dims, given)), given[0].tensor.dtype
    axes = list(range(len(shape)))
    left, right = (w.b.abs(expand(w, value, shape)) if dtype.is_signed else expand(w, value, shape) for value in given)

    def unfinished(b: Builder, value: Value) -> Any:
        return b.reduce_any(b.ne(value, 0), axes=axes)

    def turn(b: Builder, number: Value, left: Value, right: Value) -> list[Value]:
        done = b.eq(right, 0)
        rest = b.where(done, right, b.fmod(left, b.where(done, 1, right)))
        return [unfinished(b, rest), b.where(done, left, right), rest]

    kind = Tensor(dtype, shape)
    body = w.b.subgraph([Tensor(i64, ()), kind, kind], turn)
    return w.b.loop(None, unfinished(w.b, right), [left, right], carried=2, regions=[body])[0]


@lowers("aten.lcm")
def lcm(w: Lowering, x: Value, other: Value) -> Any:
    """Not negative, 0 where both are; what does not fit wraps, in C's arithmetic, which is of 32 bits or more."""
    left, right = w.promote(x, other)
    dtype = left.tensor.dtype
    if dtype.is_signed:
        left, right = w.b.abs(left), w.b.abs(right)
    divisor = gcd(w, left, right)
    product = w.b.mul(w.b.div(left, w.b.where(w.b.eq(divisor, 0), 1, divisor)), right)
    return w.b.abs(product) if dtype.is_signed and dtype.bits >= 32 else product
