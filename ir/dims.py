"""Sizes that may not be known yet: integers and expressions over named symbols.

A dim is an `int` or an `Expr`. Comparing two dims has three answers: the same, different, or not known; an unknown is never
answered either way.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from isthmus.ir.expressions import (
    Atom,
    Dim,
    Expr,
    Function,
    Monomial,
    Symbol,
    bounds,
    ceildiv,
    exact_quotient,
    extreme,
    floordiv,
    maximum,
    minimum,
    mod,
    remember,
    remember_pairs,
)  # fmt: skip
from isthmus.ir.intervals import INF, Bound

__all__ = [
    "INF", "Atom", "Bound", "Dim", "Expr", "Function", "Monomial", "Symbol", "alike", "bounds", "ceildiv", "difference",
    "evaluate", "exact_quotient", "extreme", "floordiv", "hint", "known_product", "maximum", "minimum", "mod", "occurrences",
    "product", "resolve", "same", "simplify", "spread", "substitute", "symbols",
]  # fmt: skip


def spread(*dims: Dim) -> Dim:
    """The size that sizes broadcast to, each of which is 1 or the same as the others: 0 where one is 0."""
    parts = tuple(dict.fromkeys(chain.from_iterable(map(_spread_parts, dims))))
    return maximum(*parts) * minimum(*parts, 1)


def _spread_parts(dim: Dim) -> tuple[Dim, ...]:
    """The sizes that a size was spread from; that one itself where it was from none."""
    found = extreme(dim)
    if found is not None and found[0] == "max" and minimum(*found[1], 1) == 1:
        return found[1]
    if isinstance(dim, Expr) and len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 2:
        for atom in dim.terms[0][0]:
            if isinstance(atom, Function) and atom.kind == "max" and dim == maximum(*atom.args) * minimum(*atom.args, 1):
                return atom.args
    return (dim,)


def product(dims: Sequence[Dim]) -> Dim:
    """The product of some dims; 1 for none."""
    result: Dim = 1
    for dim in dims:
        result = dim * result  # by 1 an expression stays the object that it is
    return result


def known_product(dims: Sequence[Dim]) -> int | None:
    """The product of some dims, where it is known: of numbers, or with a 0 among them."""
    numbers = [dim for dim in dims if isinstance(dim, int)]
    return 0 if 0 in numbers else math.prod(numbers) if len(numbers) == len(dims) else None


def same(left: Dim, right: Dim) -> bool | None:
    """Whether two dims are the same: True, False, or None when that is not known."""
    if left is right or left == right:
        return True
    if isinstance(left, int) and isinstance(right, int):
        return False
    return _vanishes(difference(left, right))[0]


def alike(left: Sequence[Dim] | None, right: Sequence[Dim] | None) -> bool:
    """Whether two shapes are known to be the same; not where a rank (None) is unknown."""
    return left is not None and right is not None and len(left) == len(right) and all(
        same(dim, other) is True for dim, other in zip(left, right, strict=True)
    )  # fmt: skip


@remember_pairs
def difference(left: Dim, right: Dim) -> Dim:
    """The left dim less the right one, joined symbols replaced."""
    return resolve(left) - resolve(right)


@remember
def _vanishes(difference: Dim) -> tuple[bool | None]:
    """Whether a difference of resolved dims is 0; in a tuple, so that not knowing is remembered, too."""
    difference = simplify(difference)
    if isinstance(difference, Expr):
        difference = _without_remainders(difference)
    if isinstance(difference, Expr):
        difference = _without_greatest(difference)
    if isinstance(difference, int):
        return (difference == 0,)
    constant = dict(difference.terms).get((), 0)
    factors = [coefficient for monomial, coefficient in difference.terms if monomial]
    if constant % math.gcd(*factors):
        return (False,)
    lo, hi = bounds(difference)
    return (False if lo > 0 or hi < 0 else None,)


def _without_remainders(dim: Expr) -> Dim:
    """The dim with ``x % k`` as ``x - x//k*k``, which may cancel out with what stands beside it."""
    if not any(isinstance(atom, Function) and "%" in atom.key for monomial, _ in dim.terms for atom in monomial):
        return dim
    return _substitute(dim, {}, {}, {**_FUNCTIONS, "mod": lambda x, k: x - floordiv(x, k) * k})


def _without_greatest(dim: Expr) -> Dim:
    """The number that a dim is, if it is one once ``max(x, y)`` is ``x + y - min(x, y)``; the dim itself otherwise."""
    kinds = {atom.kind for monomial, _ in dim.terms for atom in monomial if isinstance(atom, Function)}
    if not kinds >= {"min", "max"}:
        return dim

    def least(*dims: Dim) -> Dim:
        if len(dims) != 2:
            return minimum(*dims)
        x, y = sorted(dims, key=lambda each: not isinstance(each, int))
        return x + minimum(0, y - x)  # the same for dims that are both greater by as much

    def greatest(*dims: Dim) -> Dim:
        return maximum(*dims) if len(dims) != 2 else dims[0] + dims[1] - least(*dims)

    found = _substitute(dim, {}, {}, {**_FUNCTIONS, "min": least, "max": greatest})
    return found if isinstance(found, int) else dim


def symbols(dim: Dim | None) -> tuple[Symbol, ...]:
    """The symbols in a dim, each once, in the order in which they first stand there."""
    if not isinstance(dim, Expr):
        return ()
    if dim._symbols is None:
        found: dict[Symbol, None] = {}
        for monomial, _ in dim.terms:
            for atom in monomial:
                inside = (atom,) if isinstance(atom, Symbol) else chain.from_iterable(map(symbols, atom.args))
                found.update(dict.fromkeys(inside))
        dim._symbols = tuple(found)
    return dim._symbols


def occurrences(dim: Dim, symbol: Symbol) -> int:
    """How often a symbol stands in a dim."""
    if not isinstance(dim, Expr) or symbol not in symbols(dim):
        return 0
    atoms = [atom for monomial, _ in dim.terms for atom in monomial]
    return sum(
        atom is symbol if isinstance(atom, Symbol) else sum(occurrences(arg, symbol) for arg in atom.args) for atom in atoms
    )


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {"floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum}


def substitute(dim: Dim, values: Mapping[Symbol, Dim]) -> Dim:
    """The dim with symbols replaced; symbols that are not in `values` stay."""
    if isinstance(dim, int):
        return dim
    if (symbol := dim.symbol) is not None:
        return values.get(symbol, dim)
    return _substitute(dim, values, {})


def _substitute(
    dim: Dim, values: Mapping[Symbol, Dim], done: dict[Expr, Dim], functions: Mapping[str, Callable[..., Any]] = _FUNCTIONS,
) -> Dim:  # fmt: skip
    """The same; each part of the dim that stands there several times is rebuilt once."""
    if isinstance(dim, int):
        return dim
    total = done.get(dim)
    if total is not None:
        return total
    total = 0
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
        for atom in monomial:
            if isinstance(atom, Symbol):
                term = term * values.get(atom, atom.dim)
            else:
                term = term * functions[atom.kind](*[_substitute(arg, values, done, functions) for arg in atom.args])
        total = total + term
    done[dim] = total
    return total


@remember
def resolve(dim: Dim) -> Dim:
    """The dim with joined symbols replaced by what they were joined to."""
    while isinstance(dim, Expr):
        joined = {symbol: symbol.joined for symbol in symbols(dim) if symbol.joined is not None}
        if not joined:
            break
        dim = substitute(dim, joined)
    return dim


@remember
def simplify(dim: Dim) -> Dim:
    """The dim with joined symbols replaced, and rebuilt by what the ranges of its symbols say by now."""
    dim = resolve(dim)
    if isinstance(dim, int) or not any(isinstance(atom, Function) for monomial, _ in dim.terms for atom in monomial):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        term: Dim = coefficient
        for atom in monomial:
            term = term * (atom.dim if isinstance(atom, Symbol) else _rebuilt(Expr((((atom,), 1),))))
        total = total + term
    return total


@remember
def _rebuilt(dim: Dim) -> Dim:
    """A dim that is one function alone, of simplified operands: the same ones stand in many dims."""
    assert isinstance(dim, Expr)
    function = dim.terms[0][0][0]
    assert isinstance(function, Function)
    rebuilt: Dim = _FUNCTIONS[function.kind](*map(simplify, function.args))
    return rebuilt


_INTEGER: Final[dict[str, Callable[..., Any]]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "min": min, "max": max,
}  # fmt: skip


def evaluate(dim: Dim, values: Mapping[Symbol, int]) -> int:
    """The number that the dim stands for.

    Raises:
        KeyError: a symbol has no value; the symbol is the error's argument.
        ZeroDivisionError: a divisor is 0 at these values.
    """
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, coefficient in dim.terms:
        term = coefficient
        for atom in monomial:
            if not isinstance(atom, Symbol):
                term *= _INTEGER[atom.kind](*(evaluate(arg, values) for arg in atom.args))
            elif atom in values:
                term *= values[atom]
            elif atom.joined is not None:
                term *= evaluate(atom.joined, values)
            else:
                raise KeyError(atom)
        total += term
    return total


def hint(dim: Dim) -> int | None:
    """The dim at the hints of its symbols, or None when one of them has none."""
    if isinstance(dim, int):
        return dim
    hints = {symbol: symbol.hint for symbol in symbols(resolve(dim))}
    if any(value is None for value in hints.values()):
        return None
    return evaluate(resolve(dim), {symbol: value for symbol, value in hints.items() if value is not None})
