"""The symbols of one graph: their names, their ranges, and what was found out about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from isthmus.ir.dims import INF, Bound, Dim, Expr, Symbol, bounds, extreme, hint, resolve, same, symbols
from isthmus.ir.dtypes import is_dtype
from isthmus.ir.location import UNKNOWN, Location


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something that the graph takes for granted about its sizes.

    Attributes:
        relation: ``==``, ``!=``, ``<``, ``<=``, ``>`` or ``>=``.
        left: a dim.
        right: a dim.
        location: the line in the user's model that asked.
    """

    relation: str
    left: Dim
    right: Dim
    location: Location = UNKNOWN

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


class Symbols:
    """Symbols by name, in the order in which they were made, and the assumptions over them.

    Attributes:
        by_name: every symbol.
        assumptions: what was taken for granted, in order, each once.
        location: the place to blame for assumptions made now; builders keep it current.
        listener: called with each new assumption before it takes effect; may raise to refuse it.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Symbol] = {}
        self.assumptions: list[Assumption] = []
        self.location = UNKNOWN
        self.listener: Callable[[Assumption], None] | None = None
        self._equal: set[tuple[Dim, Dim]] = set()
        self._stated: set[tuple[str, Dim, Dim]] = set()
        self._counters: dict[str, int] = {}

    def declare(self, name: str, lo: Bound = 1, hi: Bound = INF, hint: int | None = None) -> Symbol:
        """The symbol of this name, made when there is none yet."""
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = Symbol(name, lo, hi, hint)
        return found

    def fresh(self, prefix: str = "u", lo: Bound = 0, hi: Bound = INF, hint: int | None = None) -> Dim:
        """A new symbol, as a dim, named after `prefix` and a number."""
        number = self._counters.get(prefix, 0)
        while (name := f"{prefix}{number}") in self.by_name or is_dtype(name):  # u8 would read as a dtype
            number += 1
        self._counters[prefix] = number + 1
        return self.declare(name, lo, hi, hint).dim

    def same(self, left: Dim, right: Dim) -> bool | None:
        """Whether two dims are the same, with what was assumed taken into account."""
        answer = same(left, right)
        if answer is None and self._equal:
            pair = (resolve(left), resolve(right))
            return True if pair in self._equal or pair[::-1] in self._equal else None
        return answer

    def assume(self, relation: str, left: Dim, right: Dim) -> None:
        """Take a relation for granted and write it down, unless that was done before."""
        if (relation, left, right) in self._stated:
            return
        assumption = Assumption(relation, left, right, self.location)
        if self.listener is not None:
            self.listener(assumption)
        self._stated.add((relation, left, right))
        self.assumptions.append(assumption)

    def unify(self, left: Dim, right: Dim) -> bool:
        """Take two dims to be the same. False when they cannot be; nothing happens then.

        Where one side can be solved for a symbol, that symbol is joined to the rest, so that later comparisons know.
        """
        answer = self.same(left, right)
        if answer is not None:
            return answer
        left, right = resolve(left), resolve(right)
        if (answer := self._as_inequality(left, right)) is not None:
            return answer
        self.assume("==", left, right)
        solved = self._solve(left, right)
        if solved is None:
            self.remember(left, right)
        else:
            symbol, value = solved
            self._join(symbol, value)
        return True

    def _as_inequality(self, left: Dim, right: Dim) -> bool | None:
        """`min(a, b) == b` says no more than `b <= a`, which can narrow a range: whether that may hold; None for others."""
        for one, other in ((left, right), (right, left)):
            found = extreme(one)
            if found is not None and other in found[1]:
                relation = "<=" if found[0] == "min" else ">="
                return all(self.constrain(relation, other, rest) for rest in found[1] if rest != other)
        return None

    def remember(self, left: Dim, right: Dim) -> None:
        """Lets `same` know of an equality that no symbol can be solved for."""
        self._equal.add((resolve(left), resolve(right)))

    def _solve(self, left: Dim, right: Dim) -> tuple[Symbol, Dim] | None:
        difference = left - right
        assert isinstance(difference, Expr)
        every = list(symbols(difference))
        candidates = {}
        for monomial, coefficient in difference.terms:
            symbol = monomial[0] if len(monomial) == 1 else None
            if isinstance(symbol, Symbol) and abs(coefficient) == 1 and every.count(symbol) == 1:
                candidates[symbol] = coefficient
        if not candidates:
            return None
        # The youngest symbol gives way, so that the names the user knows survive.
        symbol = next((symbol for symbol in reversed(self.by_name.values()) if symbol in candidates), next(iter(candidates)))
        return symbol, symbol.dim - difference if candidates[symbol] == 1 else symbol.dim + difference

    def _join(self, symbol: Symbol, value: Dim) -> None:
        symbol.joined = value
        self._equal = {(resolve(left), resolve(right)) for left, right in self._equal}
        other = value.symbol if isinstance(value, Expr) else None
        if other is not None:
            other.lo, other.hi = max(other.lo, symbol.lo), min(other.hi, symbol.hi)
            if other.hint is None:
                other.hint = symbol.hint

    def narrow(self, symbol: Symbol, lo: Bound = -INF, hi: Bound = INF) -> None:
        """Shrink the range of a symbol."""
        symbol.lo, symbol.hi = max(symbol.lo, lo), min(symbol.hi, hi)

    def constrain(self, relation: str, left: Dim, right: Dim) -> bool:
        """Take an inequality for granted, by narrowing a symbol's range where that says it all, else as an assumption.

        False when it cannot hold; nothing happens then.
        """
        left, right = resolve(left), resolve(right)
        lo, hi = bounds(left - right)
        shift = {"<": 1, ">": -1}.get(relation, 0)
        upper = relation in ("<", "<=")
        if (lo + shift > 0) if upper else (hi + shift < 0):
            return False
        if (hi + shift <= 0) if upper else (lo + shift >= 0):
            return True
        self.assume(relation, left, right)
        symbol = left.symbol if isinstance(left, Expr) else None
        if symbol is not None and isinstance(right, int):
            if upper:
                self.narrow(symbol, hi=right - shift)
            else:
                self.narrow(symbol, lo=right - shift)
        return True


def hint_of(shape: tuple[Dim, ...]) -> tuple[int, ...] | None:
    """The shape at the hints of its symbols, or None when one has none."""
    found = tuple(hint(dim) for dim in shape)
    return None if any(size is None for size in found) else tuple(size for size in found if size is not None)
