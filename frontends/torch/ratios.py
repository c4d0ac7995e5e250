"""Floats that are ratios of sizes, as floats round them, and square roots of such."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from isthmus.frontends.torch.computed import Computed
from isthmus.frontends.torch.products import Product
from isthmus.ir import dims
from isthmus.ir.dims import Dim, Expr, floordiv
from isthmus.ir.dtypes import f64

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Value

EXACT: Final = 1 << 20
"""Numerators and denominators up to here keep floats exact for every size below 2**32."""


def _exact(x: Fraction) -> bool:
    """Whether sizes times this number are exact as floats."""
    return abs(x.numerator) <= EXACT and x.denominator <= EXACT and x.denominator & (x.denominator - 1) == 0


class Ratio:
    """A float computed from sizes: ``num / den``.

    Attributes:
        num: a dim.
        den: a dim, positive.
        exact: no rounding has happened: `den` is a small power of two. Rounding down or up is right even when one
            has, since a quotient that is no integer is at least ``1/den`` away from the next one.
        root: this is the square root of the quotient.
    """

    __slots__ = ("den", "num", "root")

    def __init__(self, num: Dim, den: Dim = 1, root: bool = False) -> None:
        common = math.gcd(den, *(c for _, c in num.terms)) if isinstance(num, Expr) and isinstance(den, int) else 1
        quotient = dims.exact_quotient(num, common) if common > 1 else None
        if quotient is not None:
            num, den = quotient, den // common
        elif isinstance(den, Expr):
            whole = dims.exact_quotient(num, den)
            if whole is not None:
                num, den = whole, 1
        self.num = num
        self.den = den
        self.root = root

    @property
    def exact(self) -> bool:
        """Whether no rounding has happened."""
        return not self.root and isinstance(self.den, int) and self.den <= EXACT and self.den & (self.den - 1) == 0

    def __str__(self) -> str:
        text = str(self.num) if self.den.__class__ is int and self.den == 1 else f"({self.num})/({self.den})"
        return f"sqrt({text})" if self.root else text

    def value(self, b: Builder) -> Value:
        """A scalar of f64."""
        num, den = (b.cast(b.size(dim), dtype=f64) if isinstance(dim, Expr) else float(dim) for dim in (self.num, self.den))
        found: Value = b.div(num, den)
        return b.sqrt(found) if self.root else found

    def dims(self) -> tuple[Dim, ...]:
        """The sizes that it is computed of."""
        return self.num, self.den

    def at(self, size: Callable[[Dim], int]) -> float:
        """The number, where sizes are these."""
        found = size(self.num) / size(self.den)
        return math.sqrt(found) if self.root else found

    def floor(self) -> Dim | None:
        """The integer below."""
        return None if self.root else floordiv(self.num, self.den)

    def ceil(self) -> Dim | None:
        """The integer above."""
        return None if self.root else dims.ceildiv(self.num, self.den)

    def round(self) -> Dim | None:
        """The nearest integer, ties to even."""
        if self.root:
            return None
        doubled: Dim = 2 * self.num + self.den
        nearest = floordiv(doubled, 2 * self.den)
        if isinstance(self.den, int) and self.den % 2:
            return nearest
        tie = 1 - dims.minimum(1, dims.mod(doubled, 2 * self.den))
        return nearest - tie * dims.mod(nearest, 2)


def ratio(x: Any) -> Ratio | None:
    """A number or float as a ratio of dims; None where floats would round differently."""
    if isinstance(x, Ratio):
        return x
    if isinstance(x, (Product, Computed)):
        return None
    if isinstance(x, float):
        if not math.isfinite(x):
            return None
        fraction = Fraction(x)
        return Ratio(fraction.numerator, fraction.denominator) if _exact(fraction) else None
    return Ratio(x)


def square_root(x: Dim) -> Dim | None:
    """The dim whose square this is; None when there is none."""
    if isinstance(x, int):
        root = math.isqrt(x) if x >= 0 else 0
        return root if root * root == x else None
    if len(x.terms) != 1:
        return None
    monomial, coefficient = x.terms[0]
    number = square_root(coefficient)
    if number is None or any(monomial.count(atom) % 2 for atom in monomial):
        return None
    root_dim: Dim = number
    for atom in sorted(set(monomial), key=lambda atom: atom.key):
        root_dim = root_dim * Expr((((atom,) * (monomial.count(atom) // 2), 1),))
    return root_dim
