"""Sizes times floats that are no small ratios, as scale factors are."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, hint, symbols
from isthmus.ir.dtypes import f64, i64
from isthmus.ir.graph import Value

_DENOMINATOR: Final = 1 << 20


class Product:
    """A float: a size that is not negative, times a positive number.

    Attributes:
        size: the size.
        factor: the number.
    """

    __slots__ = ("factor", "size")

    def __init__(self, size: Dim, factor: float) -> None:
        self.size = size
        self.factor = factor

    def __str__(self) -> str:
        return f"{self.factor} * ({self.size})"

    def value(self, b: Builder) -> Value:
        """A scalar of f64."""
        found: Value = b.mul(b.cast(b.size(self.size), dtype=f64), self.factor)
        return found

    def dims(self) -> tuple[Dim, ...]:
        """The sizes that it is computed of."""
        return (self.size,)

    def at(self, size: Callable[[Dim], int]) -> float:
        """The number, where sizes are these."""
        return size(self.size) * self.factor

    def floor(self, b: Builder) -> Dim:
        """The integer below, as floats find it; where no expression of the size is that, the graph computes it."""
        size, factor = self.size, self.factor
        if isinstance(size, int):
            return int(float(size) * factor)
        exact = Fraction(factor)
        ratio = exact if exact.denominator <= _DENOMINATOR else exact.limit_denominator(1000)
        # At sizes that the ratio takes to no whole number, the float product is not near one either. At the others it is
        # rounded to the whole number, or above it, unless the factor lies more than a quarter of a float's step below.
        if -ratio / (1 << 54) <= exact - ratio <= ratio / (1 << 53):
            return (size * ratio.numerator) // ratio.denominator
        guess = hint(size)
        guess = None if guess is None else int(float(guess) * factor)
        (symbol,) = symbols(b.graph.symbols.fresh("scaled", lo=0, hint=guess))
        b.bind(b.cast(b.floor(self.value(b)), dtype=i64), symbol=symbol)
        return symbol.dim
