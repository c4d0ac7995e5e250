"""Arithmetic of complex numbers in terms of pairs: real tensors with the two parts along the last axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Value
from isthmus.ir.op import Trait

Formula: TypeAlias = "Callable[..., Value]"


class Pairs:
    """Builds pairs.

    Attributes:
        b: builds nodes.
    """

    def __init__(self, b: Builder) -> None:
        self.b = b

    def part(self, x: Value, index: int) -> Value:
        """One of the parts; the last axis stays, of size 1."""
        found: Value = self.b.slice(x, axes=[x.tensor.rank - 1], starts=[index], ends=[index + 1], steps=[1])
        return found

    def parts(self, x: Value) -> tuple[Value, Value]:
        """Both parts; the last axis stays, of size 1."""
        return self.part(x, 0), self.part(x, 1)

    def real(self, x: Value) -> Value:
        """The real part, without the last axis."""
        return self.single(self.part(x, 0))

    def imag(self, x: Value) -> Value:
        """The imaginary part, without the last axis."""
        return self.single(self.part(x, 1))

    def single(self, x: Value) -> Value:
        """A part without the last axis."""
        found: Value = self.b.squeeze(x, axes=[x.tensor.rank - 1])
        return found

    def pair(self, real: Value, imag: Value) -> Value:
        """Pairs of parts that have the last axis, of size 1."""
        found: Value = self.b.concat([real, imag], axis=real.tensor.rank - 1)
        return found

    def of_real(self, x: Value) -> Value:
        """Pairs of reals, without imaginary parts."""
        rank = x.tensor.rank
        found: Value = self.b.pad(self.b.unsqueeze(x, axes=[rank]), None, before=[0] * (rank + 1), after=[0] * rank + [1])
        return found

    def like(self, x: Value, real: Value) -> Value:
        """Reals with a last axis of size 1, to be computed with pairs."""
        found: Value = self.b.unsqueeze(real, axes=[real.tensor.rank])
        return found

    def signs(self, x: Value, real: int, imag: int) -> Value:
        """The pairs with their parts multiplied by these."""
        found: Value = self.b.mul(x, self.b.constant(np.array([real, imag]), x.tensor.dtype))
        return found

    def turned(self, x: Value) -> Value:
        """The pairs times i."""
        return self.signs(self.b.flip(x, axes=[x.tensor.rank - 1]), -1, 1)

    def square(self, x: Value) -> Value:
        """The squared modulus, without the last axis."""
        found: Value = self.b.reduce_sum(self.b.mul(x, x), axes=[x.tensor.rank - 1])
        return found

    def modulus(self, x: Value) -> Value:
        """The modulus, without the last axis."""
        found: Value = self.b.reduce_l2(x, axes=[x.tensor.rank - 1])
        return found

    def any(self, x: Value) -> Value:
        """Whether something holds for one of the parts."""
        found: Value = self.b.reduce_any(x, axes=[x.tensor.rank - 1])
        return found

    def moved(self, x: Value, source: int, destination: int) -> Value:
        """One axis at another place."""
        rank = x.tensor.rank
        order = list(range(rank))
        order.insert(destination % rank, order.pop(source % rank))
        found: Value = self.b.permute(x, perm=order)
        return found


def is_constant(value: Value) -> bool:
    """Whether a value is made of constants alone."""
    stack, seen = [value], {value}
    while stack:
        node = stack.pop().producer
        if node is None or node.regions or not node.has(Trait.PURE):
            return False
        more = {each for each in node.operands if each is not None} - seen
        seen |= more
        stack += more
    return True


def _product(p: Pairs, x: Value, y: Value) -> Value:
    """``x.real * y + x.imag * (i * y)``; a constant is the one to be taken apart, which makes it no larger."""
    if is_constant(y):
        x, y = y, x
    real, imag = p.parts(x)
    found: Value = p.b.add(p.b.mul(real, y), p.b.mul(imag, p.turned(y)))
    return found


def _conj(p: Pairs, x: Value) -> Value:
    return p.signs(x, 1, -1)


def _inverse(p: Pairs, y: Value) -> tuple[Value, Value]:
    """Two factors whose product is ``1 / y``. The divisor is scaled, so that its square neither overflows nor vanishes."""
    b, last = p.b, y.tensor.rank - 1
    scale = b.reduce_max(b.abs(y), axes=[last], keepdims=True)
    y = b.div(y, scale)
    return b.div(_conj(p, y), b.reduce_sum(b.mul(y, y), axes=[last], keepdims=True)), b.reciprocal(scale)


def _reciprocal(p: Pairs, x: Value) -> Value:
    found: Value = p.b.mul(*_inverse(p, x))
    return found


def _exp(p: Pairs, x: Value) -> Value:
    real, imag = p.parts(x)
    size = p.b.exp(real)
    return p.pair(p.b.mul(size, p.b.cos(imag)), p.b.mul(size, p.b.sin(imag)))


def _exp2(p: Pairs, x: Value) -> Value:
    return _exp(p, p.b.mul(x, math.log(2)))


def _expm1(p: Pairs, x: Value) -> Value:
    """``expm1(a) * cos(b) - 2 * sin(b / 2) ** 2``, and the imaginary part of the exponential."""
    b = p.b
    real, imag = p.parts(x)
    half = b.sin(b.mul(imag, 0.5))
    small = b.sub(b.mul(b.expm1(real), b.cos(imag)), b.mul(b.mul(half, half), 2))
    return p.pair(small, b.mul(b.exp(real), b.sin(imag)))


def _log1p(p: Pairs, x: Value) -> Value:
    """Half of ``log1p(2 * a + a ** 2 + b ** 2)``, and the angle of ``1 + x``."""
    b = p.b
    real, imag = p.parts(x)
    more = b.add(b.mul(real, b.add(real, 2)), b.mul(imag, imag))
    return p.pair(b.mul(b.log1p(more), 0.5), b.atan2(imag, b.add(real, 1)))


def _log(p: Pairs, x: Value) -> Value:
    real, imag = p.parts(x)
    return p.pair(p.like(x, p.b.log(p.modulus(x))), p.b.atan2(imag, real))


def _log_to(base: float) -> Formula:
    def formula(p: Pairs, x: Value) -> Value:
        found: Value = p.b.mul(_log(p, x), 1 / math.log(base))
        return found

    return formula


def _sqrt(p: Pairs, x: Value) -> Value:
    """The root with a real part not below 0; the sign of the imaginary part is that of `x`."""
    b = p.b
    real, imag = p.parts(x)
    size = b.sqrt(b.mul(b.add(p.like(x, p.modulus(x)), b.abs(real)), 0.5))
    other = b.where(b.eq(size, 0), 0, b.div(imag, b.mul(size, 2)))
    right = b.ge(real, 0)
    return p.pair(b.where(right, size, b.abs(other)), b.where(right, other, b.where(b.lt(imag, 0), b.neg(size), size)))


def _waves(first: tuple[str, str], second: tuple[str, str], sign: int = 1) -> Formula:
    """``f(real) * g(imag) + i * sign * h(real) * k(imag)``, as sines and cosines are."""

    def formula(p: Pairs, x: Value) -> Value:
        real, imag = p.parts(x)
        left, right = (p.b.mul(getattr(p.b, f)(real), getattr(p.b, g)(imag)) for f, g in (first, second))
        return p.pair(left, right if sign > 0 else p.b.neg(right))

    return formula


def _tangent(hyperbolic: int) -> Formula:
    """``(sinh(2a) + i * sin(2b)) / (cosh(2a) + cos(2b))``, and the other way round; beyond 20 the result stays the same."""

    def formula(p: Pairs, x: Value) -> Value:
        b, parts = p.b, list(p.parts(x))
        parts[hyperbolic] = b.clip(parts[hyperbolic], -20.0, 20.0)
        twice = [b.mul(part, 2) for part in parts]
        waves = [(b.sinh(part), b.cosh(part)) if place == hyperbolic else (b.sin(part), b.cos(part))
                 for place, part in enumerate(twice)]  # fmt: skip
        found: Value = b.div(p.pair(waves[0][0], waves[1][0]), b.add(waves[0][1], waves[1][1]))
        return found

    return formula


def _same(p: Pairs, x: Value, y: Value) -> Value:
    equal = p.b.eq(x, y)
    found: Value = p.b.reduce_all(equal, axes=[equal.tensor.rank - 1])
    return found


def _different(p: Pairs, x: Value, y: Value) -> Value:
    return p.any(p.b.ne(x, y))


def _matmul(p: Pairs, x: Value, y: Value) -> Value:
    """One product of real matrices, of which one holds each number in four places; that is not the one that is constant."""
    b = p.b
    row, column = x.tensor.rank == 2, y.tensor.rank == 2
    x = b.unsqueeze(x, axes=[0]) if row else x
    y = b.unsqueeze(y, axes=[1]) if column else y
    *x_batch, rows, inner, _ = x.tensor.shape  # type: ignore[misc]
    *y_batch, _, columns, _ = y.tensor.shape  # type: ignore[misc]
    if is_constant(y):  # a row of x becomes its conjugate and i times that, a row of y two, of real and of imaginary parts
        conj = _conj(p, x)
        left = b.reshape(_stacked(p, conj, p.turned(conj), x.tensor.rank - 2), shape=[*x_batch, rows * 2, inner * 2])
        right = b.reshape(p.moved(y, -1, -2), shape=[*y_batch, inner * 2, columns])
        found = b.matmul(left, right)
        found = p.moved(b.reshape(found, shape=[*found.tensor.shape[:-2], rows, 2, columns]), -2, -1)
    else:  # rows of x hold real and imaginary parts in turn, a row of y becomes itself and i times itself
        left = b.reshape(x, shape=[*x_batch, rows, inner * 2])
        right = b.reshape(_stacked(p, y, p.turned(y), y.tensor.rank - 2), shape=[*y_batch, inner * 2, columns * 2])
        found = b.matmul(left, right)
        found = b.reshape(found, shape=[*found.tensor.shape[:-1], columns, 2])
    gone = [axis for axis, is_gone in ((found.tensor.rank - 3, row), (found.tensor.rank - 2, column)) if is_gone]
    result: Value = b.squeeze(found, axes=gone) if gone else found
    return result


def _stacked(p: Pairs, first: Value, second: Value, axis: int) -> Value:
    found: Value = p.b.concat([p.b.unsqueeze(each, axes=[axis]) for each in (first, second)], axis=axis)
    return found


FORMULAS: Final[dict[str, Formula]] = {
    "conj": _conj, "real": Pairs.real, "imag": Pairs.imag, "reciprocal": _reciprocal, "exp": _exp, "exp2": _exp2,
    "expm1": _expm1, "log": _log, "log1p": _log1p,
    "log2": _log_to(2), "log10": _log_to(10), "sqrt": _sqrt, "rsqrt": lambda p, x: _reciprocal(p, _sqrt(p, x)),
    "sin": _waves(("sin", "cosh"), ("cos", "sinh")), "cos": _waves(("cos", "cosh"), ("sin", "sinh"), -1),
    "sinh": _waves(("sinh", "cos"), ("cosh", "sin")), "cosh": _waves(("cosh", "cos"), ("sinh", "sin")),
    "tanh": _tangent(0), "tan": _tangent(1), "eq": _same, "ne": _different, "matmul": _matmul,
}  # fmt: skip
"""Ops of pairs: ``formula(p, *pairs)``."""


# ---- where an operand may be real

Operands: TypeAlias = "Sequence[Value]"
Reals: TypeAlias = "Sequence[Value | None]"


def _mul(p: Pairs, operands: Operands, reals: Reals) -> Value:
    x, y = operands
    for factor, other in ((reals[1], x), (reals[0], y)):
        if factor is not None:
            found: Value = p.b.mul(other, p.like(other, factor))
            return found
    return _product(p, x, y)


def _div(p: Pairs, operands: Operands, reals: Reals) -> Value:
    x, y = operands
    found: Value
    if reals[1] is not None:
        found = p.b.div(x, p.like(x, reals[1]))
    else:
        first, second = _inverse(p, y)
        found = p.b.mul(_mul(p, [x, first], [reals[0], None]), second)
    return found


def _pow(p: Pairs, operands: Operands, reals: Reals) -> Value:
    """By products, where the exponent is a small integer; else ``exp(y * log(x))``, and 0 of 0."""
    b, (x, y) = p.b, operands
    weight = None if reals[1] is None else reals[1].weight
    if weight is not None and weight.size == 1:
        exponent = weight.array().item()
        if exponent == 0.5:
            return _sqrt(p, x)
        if exponent.is_integer() and 0 < abs(exponent) <= _LARGEST_POWER:
            found = _power(p, x, int(abs(exponent)))
            return found if exponent > 0 else _reciprocal(p, found)
    whole = _exp(p, _mul(p, [_log(p, x), y], [None, reals[1]]))
    nothing = b.eq(b.reduce_max(b.abs(x), axes=[x.tensor.rank - 1], keepdims=True), 0)
    result: Value = b.where(nothing, 0, whole)
    return result


_LARGEST_POWER: Final = 8


def _power(p: Pairs, x: Value, exponent: int) -> Value:
    if exponent == 1:
        return x
    half = _power(p, x, exponent // 2)
    square = _product(p, half, half)
    return _product(p, square, x) if exponent % 2 else square


WITH_REALS: Final[dict[str, Callable[[Pairs, Operands, Reals], Value]]] = {"mul": _mul, "div": _div, "pow": _pow}
"""Ops of pairs that are simpler for reals: ``formula(p, pairs, reals)``, where `reals` holds those operands that are real."""
