"""The arithmetic of dims in values of a target: what backends share whose targets compute sizes as they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from isthmus.ir.dims import Atom, Dim, Expr, Function, Monomial, bounds

T = TypeVar("T")


class SizeArithmetic(ABC, Generic[T]):
    """Sums, products and quotients of sizes, each an i64 list of one element."""

    ADD: ClassVar[str]
    SUB: ClassVar[str]
    MUL: ClassVar[str]

    @abstractmethod
    def _binary(self, op: str, x: T, y: T) -> T:
        """The result of one of the target's ops."""

    @abstractmethod
    def _number(self, number: int) -> T:
        """A number."""

    @abstractmethod
    def _atom(self, atom: Atom) -> T:
        """A symbol, or a quotient, remainder, least or greatest."""

    @abstractmethod
    def _quotient(self, dividend: Dim, divisor: Dim) -> T:
        """A quotient, rounded down."""

    def _sum(self, dim: Expr) -> T:
        added: list[T] = []
        taken: list[T] = []
        constant = 0
        for monomial, coefficient in dim.terms:
            if not monomial:
                constant = coefficient
            elif coefficient < 0 and (rounded := _rounded_up(monomial)) is not None:
                added.append(self._scaled(self._quotient(*rounded), -coefficient))
            else:
                (added if coefficient > 0 else taken).append(self._scaled(self._product(monomial), abs(coefficient)))
        if constant > 0 or (constant and not added):
            added.append(self._number(constant))
        elif constant:
            taken.append(self._number(-constant))
        total = added[0] if added else self._number(0)
        for part in added[1:]:
            total = self._binary(self.ADD, total, part)
        for part in taken:
            total = self._binary(self.SUB, total, part)
        return total

    def _scaled(self, size: T, factor: int) -> T:
        return size if factor == 1 else self._binary(self.MUL, size, self._number(factor))

    def _product(self, monomial: Monomial) -> T:
        total = self._atom(monomial[0])
        for atom in monomial[1:]:
            total = self._binary(self.MUL, total, self._atom(atom))
        return total


def _rounded_up(monomial: Monomial) -> tuple[Dim, Dim] | None:
    """Of ``-((-a) // b)``, which is how `a / b` rounded up is written, ``(a + b - 1, b)`` where `a` is not negative."""
    if len(monomial) != 1 or not isinstance(monomial[0], Function) or monomial[0].kind != "floordiv":
        return None
    dividend, divisor = monomial[0].args
    if bounds(dividend)[1] > 0 or bounds(divisor)[0] <= 0:
        return None
    return -dividend + divisor - 1, divisor
