"""Equations of einsum that are the two products of attention, with their axes in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Value

SCORES: Final = "...ij,...kj->...ik"
VALUES: Final = "...ij,...jk->...ik"
"""How the products are written where nothing is turned."""


NOTHING: Final = ("", "", "")
"""The terms of what is neither."""


@dataclass(frozen=True)
class Turns:
    """How operands and result of a product lie, as permutations.

    Attributes:
        left: brings the first operand to ``[..., rows, summed]``.
        right: brings the second operand to ``[..., columns, summed]``, or to ``[..., summed, columns]``.
        result: brings ``[..., rows, columns]`` to what the equation gives.
    """

    left: list[int]
    right: list[int]
    result: list[int]


def of_scores(equation: str, rank: int) -> Turns | None:
    """``q @ k.T`` of operands of so many axes, such as ``bihd,bjhd->bhij`` (without spaces); None for another equation."""
    x, y, out = _terms(equation, rank) or NOTHING
    batch, row, column = out[:-2], out[-2:-1], out[-1:]
    summed = [letter for letter in x if letter not in out]
    if len(summed) != 1 or {*x} != {*batch, *row, *summed} or {*y} != {*batch, *column, *summed}:
        return None
    return Turns(_perm(x, [*batch, *row, *summed]), _perm(y, [*batch, *column, *summed]), list(range(rank)))


def of_values(equation: str, rank: int) -> Turns | None:
    """``weights @ v``, such as ``bhij,bjhd->bihd``, of weights whose last axis is summed; None for another equation."""
    x, y, out = _terms(equation, rank) or NOTHING
    batch, row, summed = x[:-2], x[-2:-1], x[-1:]
    column = [letter for letter in y if letter not in x]
    if len(column) != 1 or {*y} != {*batch, *summed, *column} or {*out} != {*batch, *row, *column}:
        return None
    made = [*batch, *row, *column]
    return Turns(list(range(rank)), _perm(y, [*batch, *summed, *column]), _perm(made, out))


def turned(b: Builder, x: Value, perm: Sequence[int]) -> Value:
    """A value with its axes in another order, if it is another."""
    return x if list(perm) == sorted(perm) else b.permute(x, perm=perm)


def _terms(equation: str, rank: int) -> list[str] | None:
    """The letters of two operands and of the result, an ellipsis as digits; None where these do not all have `rank` of them,
    each once."""
    terms = equation.replace("->", ",").split(",")
    digits = "0123456789"
    spelt = [term.replace("...", digits[: max(0, rank - len(term) + 3)]) for term in terms]
    fits = "->" in equation and len(spelt) == 3 and rank >= 2
    return spelt if fits and all(len({*term}) == len(term) == rank for term in spelt) else None


def _perm(given: Sequence[str], wanted: Sequence[str]) -> list[int]:
    return [given.index(letter) for letter in wanted]
