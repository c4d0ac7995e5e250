"""The symbols of one graph: their names, their ranges, and what was found out about them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, TypeAlias

from isthmus.ir.dims import (
    INF,
    Bound,
    Dim,
    Expr,
    Monomial,
    Symbol,
    bounds,
    difference,
    evaluate,
    extreme,
    hint,
    occurrences,
    resolve,
    same,
    symbols,
)  # fmt: skip
from isthmus.ir.dtypes import is_dtype
from isthmus.ir.location import UNKNOWN, Location

Spans: TypeAlias = "dict[Expr, tuple[Bound, Bound]]"
"""Between what sums of symbols lie that are no symbol by themselves."""
ENDS: Final[dict[str, tuple[Bound, Bound]]] = {
    "==": (0, 0), "<": (-INF, -1), "<=": (-INF, 0), ">": (1, INF), ">=": (0, INF),
}  # fmt: skip
"""Between what the left less the right side of a relation lies."""


RELATIONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", ">=": "<=", "<=": ">=", ">": "<"}
"""The relation with its sides changed over."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the model's own code asked about sizes, and what became of it.

    Attributes:
        text: the expression in the code.
        answer: the answer that it got; None where the code does not branch on it.
        taken: what the code does with that answer: ``goes on at line 7, `keep = nms(boxes)` ``; empty when unknown.
        other: what it would have done with the other one.
    """

    text: str
    answer: bool | None = None
    taken: str = ""
    other: str = ""

    def __str__(self) -> str:
        if self.answer is None:
            return f"asked in `{self.text}`"
        answer, opposite = ("yes", "no") if self.answer else ("no", "yes")
        taken = f" and {self.taken}" if self.taken else ""
        return f"`{self.text}` was answered {answer}{taken}; {opposite} {self.other or 'is not in the graph'}"


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something that the graph takes for granted about its sizes.

    Attributes:
        relation: ``==``, ``!=``, ``<``, ``<=``, ``>`` or ``>=``.
        left: a dim.
        right: a dim.
        location: the line in the user's model that asked; made by the op that did, where it was one.
        question: what was asked there, where it was the model's own code that did.
    """

    relation: str
    left: Dim
    right: Dim
    location: Location = UNKNOWN
    question: Question | None = None

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"

    @property
    def plain(self) -> str:
        """The relation with every term on the side where it is not negative, and a number alone on the right."""
        more: Dim = 0
        less: Dim = 0
        number = 0  # number + more - less is the left less the right
        for monomial, factor in _terms(self.left - self.right):
            if not monomial:
                number = factor
            elif factor > 0:
                more = more + Expr(((monomial, factor),))
            else:
                less = less + Expr(((monomial, -factor),))
        if not isinstance(more, Expr):
            return f"{less} {MIRRORED[self.relation]} {number}"
        if not isinstance(less, Expr):
            return f"{more} {self.relation} {-number}"
        return f"{more + max(number, 0)} {self.relation} {less + max(-number, 0)}"

    @property
    def told(self) -> str:
        """The relation in words for the user: which op needs it, too."""
        makers = self.location.made_by
        return f"{self.plain}, which {makers[0]} needs" if makers else self.plain

    @property
    def in_full(self) -> str:
        """The same, with the line, and with what was asked there and how it was answered."""
        placed = f"{self.told} (at {self.location})" if self.location else self.told
        return placed if self.question is None else f"{placed}: {self.question}"

    def holds(self, sizes: Mapping[Symbol, int]) -> bool:
        """Whether it is true at these sizes; not where a side divides by what is 0 there, and so has no value.

        Raises:
            KeyError: a size is not among them.
        """
        try:
            return RELATIONS[self.relation](evaluate(resolve(self.left), sizes), evaluate(resolve(self.right), sizes))
        except ZeroDivisionError:
            return False


def _terms(dim: Dim) -> Iterable[tuple[Monomial, int]]:
    return dim.terms if isinstance(dim, Expr) else (((), dim),)


class Symbols:
    """Symbols by name, in the order in which they were made, and the assumptions over them.

    Attributes:
        by_name: every symbol.
        assumptions: what was taken for granted, in order, each once.
        location: the place to blame for assumptions made now; builders keep it current.
        asker: the framework's op that is being built, where there is one: what needs the assumptions made now.
        question: what the model's own code asks now, where it does.
        listener: called with each new assumption before it takes effect; may raise to refuse it.
        joins: whether two sizes that broadcast together are taken for granted to be the same, as frameworks do that trace
            a run. Otherwise either may be 1.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Symbol] = {}
        self.assumptions: list[Assumption] = []
        self.location = UNKNOWN
        self.asker = ""
        self.question: Question | None = None
        self.listener: Callable[[Assumption], None] | None = None
        self.joins = True
        self._spans: Spans = {}
        self._stated: set[tuple[str, Dim, Dim]] = set()
        self._counters: dict[str, int] = {}
        self._fresh: set[Symbol] = set()
        self._supposing = False

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
        found = self.declare(name, lo, hi, hint)
        self._fresh.add(found)
        return found.dim

    def same(self, left: Dim, right: Dim) -> bool | None:
        """Whether two dims are the same, with what was assumed taken into account."""
        answer = same(left, right)
        if answer is None:
            lo, hi = self.span(difference(left, right))
            return False if lo > 0 or hi < 0 else True if lo == hi else None
        return answer

    def span(self, dim: Dim) -> tuple[Bound, Bound]:
        """Bounds of a dim, with what was assumed taken into account."""
        lo, hi = bounds(dim)
        if isinstance(dim, Expr) and self._spans:
            form, factor, constant = _form(dim)
            if form in self._spans:
                least, most = (_scaled(end, factor, constant) for end in self._spans[form][:: 1 if factor > 0 else -1])
                return max(lo, least), min(hi, most)
        return lo, hi

    def assume(self, relation: str, left: Dim, right: Dim) -> None:
        """Take a relation for granted and write it down, unless that was done before."""
        if (relation, left, right) in self._stated:
            return
        place = self.location.by(self.asker) if self.asker else self.location
        assumption = Assumption(relation, left, right, place, self.question)
        if self.listener is not None:
            self.listener(assumption)
        self._stated.add((relation, left, right))
        self.assumptions.append(assumption)

    def unify(self, left: Dim, right: Dim) -> bool:
        """Take two dims to be the same. False when they cannot be; nothing happens then.

        Where one side can be solved for a symbol, that symbol is joined to the rest, so that later comparisons know.
        """
        return self._unify(left, right, self.assume)

    def know(self, left: Dim, right: Dim) -> bool:
        """`unify` for dims that are the same whatever the inputs, by what was computed: nothing is assumed."""
        return self._unify(left, right, lambda *_: None)

    def _unify(self, left: Dim, right: Dim, assume: Callable[[str, Dim, Dim], None]) -> bool:
        answer = self.same(left, right)
        if answer is not None:
            return answer
        left, right = resolve(left), resolve(right)
        if (answer := self._as_inequality(left, right)) is not None:
            return answer
        return self._join(left, right, assume)

    def _join(self, left: Dim, right: Dim, assume: Callable[[str, Dim, Dim], None]) -> bool:
        """The rest of `unify`, for dims that are not known to be the same or to differ."""
        solved = self._solve(left, right)
        if solved is None:
            assume("==", left, right)
            self._state(left - right, 0, 0)
            return True
        symbol, value = solved
        spans = self._spans_after(symbol, value)
        if spans is None:
            return False
        assume("==", left, right)
        symbol.joined = value
        self._adopt(spans)
        if isinstance(value, Expr) and value.symbol is not None and value.symbol.hint is None:
            value.symbol.hint = symbol.hint
        return True

    def _as_inequality(self, left: Dim, right: Dim) -> bool | None:
        """`min(a, b) == b` says no more than `b <= a`, which can narrow a range: whether that may hold; None for others."""
        for one, other in ((left, right), (right, left)):
            found = extreme(one)
            if found is not None and other in found[1]:
                relation = "<=" if found[0] == "min" else ">="
                return all(self.constrain(relation, other, rest) for rest in found[1] if rest != other)
        return None

    def remember(self) -> None:
        """Works out anew what the assumptions and the ranges of joined symbols say of sums of symbols."""
        self._spans = {}
        for assumption in self.assumptions:
            if assumption.relation in ENDS:
                _merge(self._spans, resolve(assumption.left) - resolve(assumption.right), *ENDS[assumption.relation])
        for symbol in self.by_name.values():
            if symbol.joined is not None:
                _merge(self._spans, resolve(symbol.dim), symbol.lo, symbol.hi)

    @contextmanager
    def supposing(self, relations: Iterable[tuple[str, Dim, Dim]]) -> Iterator[None]:
        """Knows inequalities for a while, without taking them for granted; what is assumed meanwhile stays assumed."""
        spans, ranges = dict(self._spans), [(symbol, symbol.lo, symbol.hi) for symbol in self.by_name.values()]
        count, supposing = len(self.assumptions), self._supposing
        self._supposing = True
        self._state_all(relations)
        try:
            yield
        finally:
            self._spans, self._supposing = spans, supposing
            for symbol, lo, hi in ranges:
                symbol.lo, symbol.hi = lo, hi
            self._state_all((a.relation, a.left, a.right) for a in self.assumptions[count:])

    def _state_all(self, relations: Iterable[tuple[str, Dim, Dim]]) -> None:
        for relation, left, right in relations:
            if relation in ENDS and relation != "==":
                self._state(resolve(left) - resolve(right), *ENDS[relation])

    def _state(self, dim: Dim, lo: Bound, hi: Bound) -> None:
        spans = dict(self._spans)
        _merge(spans, dim, lo, hi)
        self._adopt(spans)

    def _adopt(self, spans: Spans) -> None:
        """Keeps what is known of sums; of a symbol by itself it is its range."""
        self._spans = {}
        for form, (lo, hi) in spans.items():
            if form.symbol is None:
                self._spans[form] = lo, hi
            else:
                self.narrow(form.symbol, lo, hi)

    def _spans_after(self, symbol: Symbol, value: Dim) -> Spans | None:
        """What will be known once a symbol is joined; None where that contradicts what is known."""
        symbol.joined = value
        try:
            spans: Spans = {}
            known = [*self._spans.items(), (symbol.dim, (symbol.lo, symbol.hi))]
            return spans if all(_merge(spans, resolve(dim), lo, hi) for dim, (lo, hi) in known) else None
        finally:
            symbol.joined = None

    def _solve(self, left: Dim, right: Dim) -> tuple[Symbol, Dim] | None:
        difference = left - right
        assert isinstance(difference, Expr)
        candidates = {}
        for monomial, coefficient in difference.terms:
            symbol = monomial[0] if len(monomial) == 1 else None
            if isinstance(symbol, Symbol) and abs(coefficient) == 1 and occurrences(difference, symbol) == 1:
                candidates[symbol] = coefficient
        if not candidates:
            return None
        # The youngest symbol gives way, so that the names the user knows survive; of those alone, one that is a sum of others.
        found = {
            symbol: symbol.dim - difference if coefficient == 1 else symbol.dim + difference
            for symbol, coefficient in candidates.items()
        }
        young = [symbol for symbol in reversed(self.by_name.values()) if symbol in found] or list(found)
        young = [symbol for symbol in young if not self._told_later(found[symbol], symbol)]
        if not young:
            return None
        sums = [s for s in young if not any(c < 0 for m, c in getattr(found[s], "terms", ()) if m)]
        symbol = sums[0] if sums and young[0] not in self._fresh else young[0]
        return symbol, found[symbol]

    def _told_later(self, value: Dim, symbol: Symbol) -> bool:
        """Whether a dim has sizes that only data tells, later than a symbol: where that is used, they may not be known yet."""
        later = self._fresh.intersection(symbols(value))
        if not later or symbol.name not in self.by_name:
            return False
        return any(each in later for each in takewhile(lambda each: each is not symbol, reversed(self.by_name.values())))

    def mark(self) -> Callable[[], bool]:
        """A way back to here: called later, it forgets what was found out of the symbols there are now, and what was assumed
        since; it tells whether there was any such thing. Symbols made since stay."""
        before = [(symbol, symbol.lo, symbol.hi, symbol.hint, symbol.joined) for symbol in self.by_name.values()]
        assumed, stated, spans = len(self.assumptions), set(self._stated), dict(self._spans)

        def back() -> bool:
            changed = [each for each in before if each[1:] != (each[0].lo, each[0].hi, each[0].hint, each[0].joined)]
            for symbol, *state in changed:
                symbol.lo, symbol.hi, symbol.hint, symbol.joined = state  # type: ignore[assignment]
            found = bool(changed) or len(self.assumptions) > assumed
            del self.assumptions[assumed:]
            self._stated, self._spans = stated, spans
            return found

        return back

    def narrow(self, symbol: Symbol, lo: Bound = -INF, hi: Bound = INF) -> None:
        """Shrink the range of a symbol."""
        symbol.lo, symbol.hi = max(symbol.lo, lo), min(symbol.hi, hi)

    def constrain(self, relation: str, left: Dim, right: Dim) -> bool:
        """Take an inequality for granted, by narrowing a symbol's range where that says it all, else as an assumption.

        False when it cannot hold; nothing happens then.
        """
        return self._constrain(relation, left, right, self.assume)

    def know_bound(self, relation: str, left: Dim, right: Dim) -> bool:
        """`constrain` for what holds wherever the model runs at all: nothing is assumed."""
        return self._constrain(relation, left, right, lambda *_: None)

    def _constrain(self, relation: str, left: Dim, right: Dim, assume: Callable[[str, Dim, Dim], None]) -> bool:
        left, right = resolve(left), resolve(right)
        lo, hi = self.span(left - right)
        least, most = ENDS[relation]
        if lo > most or hi < least:
            return False
        if least <= lo and hi <= most:
            return True
        relation, left, right = _solved(relation, left, right)
        least, most = ENDS[relation]
        assume(relation, left, right)
        self._state(left - right, least, most)
        lo, hi = self.span(left - right)
        if lo == hi and not self._supposing:  # with what was assumed before, this makes them the same
            self._join(left, right + int(lo), lambda *_: None)
        return True


def _form(dim: Expr) -> tuple[Expr, int, int]:
    """`form`, `factor` and `constant` with ``form * factor + constant == dim``, the same form for all such dims."""
    terms = [(monomial, coefficient) for monomial, coefficient in dim.terms if monomial]
    factor = math.gcd(*(coefficient for _, coefficient in terms)) * (1 if terms[0][1] > 0 else -1)
    return Expr(tuple((m, c // factor) for m, c in terms)), factor, dict(dim.terms).get((), 0)


def _scaled(bound: Bound, factor: int, constant: int) -> Bound:
    return (bound if factor > 0 else -bound) if abs(bound) == INF else bound * factor + constant


def _merge(spans: Spans, dim: Dim, lo: Bound, hi: Bound) -> bool:
    """Adds that a dim lies between two bounds. False where it cannot."""
    if isinstance(dim, int):
        return lo <= dim <= hi
    form, factor, constant = _form(dim)
    if factor < 0:
        lo, hi = hi, lo

    def unscaled(end: Bound, up: bool) -> Bound:
        if abs(end) == INF:
            return end if factor > 0 else -end
        return -((constant - end) // factor) if up else (end - constant) // factor

    least, most = spans.get(form) or bounds(form)
    least, most = spans[form] = max(least, unscaled(lo, True)), min(most, unscaled(hi, False))
    return least <= most


_LARGEST: Final = 1 << 40
"""Sizes beyond this are not looked at for where an inequality begins to hold."""


def _solved(relation: str, left: Dim, right: Dim) -> tuple[str, Dim, Dim]:
    """An inequality as one of a single symbol with a number, where it holds from some size on or up to one.

    ``(S + 10)//20 - 1 > 1`` says ``S >= 50``.
    """
    dim = left - right
    if not isinstance(dim, Expr) or len(alone := set(symbols(dim))) != 1 or _form(dim)[0].symbol is not None:
        return relation, left, right
    (symbol,) = alone
    if not _grows(dim):
        dim, relation_of = -dim, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[relation]
    else:
        relation_of = relation
    if not isinstance(dim, Expr) or not _grows(dim) or abs(symbol.lo) == INF:
        return relation, left, right
    wanted = 1 if relation_of in (">", "<=") else 0
    low, high = int(symbol.lo), int(min(symbol.hi, _LARGEST))
    if evaluate(dim, {symbol: high}) < wanted:
        return relation, left, right
    while low < high:  # the least size at which the dim is as much as wanted
        middle = (low + high) // 2
        low, high = (low, middle) if evaluate(dim, {symbol: middle}) >= wanted else (middle + 1, high)
    return (">=", symbol.dim, low) if relation_of in (">", ">=") else ("<=", symbol.dim, low - 1)


def _grows(dim: Dim) -> bool:
    """Whether a dim never falls as its symbols grow."""
    if isinstance(dim, int):
        return True
    for monomial, coefficient in dim.terms:
        if monomial and (coefficient < 0 or len(monomial) > 1):
            return False
        for atom in monomial:
            if isinstance(atom, Symbol):
                continue
            if atom.kind == "mod" or (atom.kind == "floordiv" and not (isinstance(atom.args[1], int) and atom.args[1] > 0)):
                return False
            if not all(map(_grows, atom.args)):
                return False
    return True


def hint_of(shape: tuple[Dim, ...]) -> tuple[int, ...] | None:
    """The shape at the hints of its symbols, or None when one has none."""
    found = tuple(hint(dim) for dim in shape)
    return None if any(size is None for size in found) else tuple(size for size in found if size is not None)
