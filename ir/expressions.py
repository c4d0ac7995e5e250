"""Expressions over named symbols, in normal form: their arithmetic, and the ranges that it consults to round.

An `Expr` is a sum of terms, each a coefficient times a product of atoms; an atom is a `Symbol` or one of floordiv, mod, min,
max. An expression that is constant is always an `int`. Other rooms see all of this in `isthmus.ir.dims`.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from isthmus.ir.dtypes import is_dtype
from isthmus.ir.errors import SizeLimitError
from isthmus.ir.intervals import INF, Bound, floor, plus, times

T = TypeVar("T")
MOST_TERMS: Final = 1 << 10
"""No expression has more terms, and no product more factors."""
MOST_TEXT: Final = 1 << 14
"""No quotient, remainder, least or greatest is longer when it is written out."""


_remembered: list[dict[Any, Any]] = []
"""What was worked out from the ranges of symbols and from what they were joined to; forgotten when one changes."""
_REMEMBERED: Final = 1 << 14
"""The number of expressions for which that is kept."""


def remember(function: Callable[[Dim], T]) -> Callable[[Dim], T]:
    """Decorator: works out once what depends on a dim and on what is known of symbols."""
    known: dict[Expr, T] = {}
    _remembered.append(known)

    @functools.wraps(function)
    def remembering(dim: Dim) -> T:
        if isinstance(dim, int):
            return function(dim)
        found = known.get(dim)
        if found is None:
            found = function(dim)
            if len(known) >= _REMEMBERED:
                known.clear()
            known[dim] = found
        return found

    return remembering


def remember_pairs(function: Callable[[Dim, Dim], T]) -> Callable[[Dim, Dim], T]:
    """The same of two dims."""
    known: dict[tuple[Dim, Dim], T] = {}
    _remembered.append(known)

    @functools.wraps(function)
    def remembering(left: Dim, right: Dim) -> T:
        found = known.get((left, right))
        if found is None:
            found = function(left, right)
            if len(known) >= _REMEMBERED:
                known.clear()
            known[left, right] = found
        return found

    return remembering


class Symbol:
    """A named size, equal only to itself.

    Attributes:
        name: unique in its graph.
        lo: least value that it may take.
        hi: greatest value that it may take; infinity when there is none.
        hint: a value known to be valid, such as the size in the example input; None when there is none.
        joined: the dim that this symbol was found to be equal to, once it was.
        dim: this symbol as a dim.
    """

    __slots__ = ("dim", "hi", "hint", "joined", "key", "lo", "name")

    def __init__(self, name: str, lo: Bound = 1, hi: Bound = INF, hint: int | None = None) -> None:
        self.name = name
        self.key = _spelling(name)
        self.lo = lo
        self.hi = hi
        self.hint = hint
        self.joined: Dim | None = None
        self.dim = Expr((((self,), 1),))

    def __setattr__(self, name: str, value: Any) -> None:
        changed = name != "hint" and getattr(self, name, value) != value  # nothing is known yet of one that is being made
        object.__setattr__(self, name, value)
        if changed:
            for known in _remembered:
                known.clear()

    def __repr__(self) -> str:
        return self.key


_PLAIN: Final = re.compile(r"[^\W\d]\w*")
_RESERVED: Final = frozenset(("true", "false", "none", "inf", "nan", "min", "max", "seq", "opt", "weight"))


def _spelling(name: str) -> str:
    """The name as the text form spells it: between backquotes where it is not a plain word."""
    if _PLAIN.fullmatch(name) and name.isidentifier() and name not in _RESERVED and not is_dtype(name):
        return name
    return "`" + json.dumps(name)[1:-1].replace("`", "\\u0060") + "`"


class Function:
    """An atom that no sum of products can state: `floordiv`, `mod`, `min` or `max` of dims."""

    __slots__ = ("_hash", "args", "key", "kind")

    def __init__(self, kind: str, args: tuple[Dim, ...]) -> None:
        self.kind = kind
        self.args = args
        self._hash = hash((kind, args))
        if kind in ("min", "max"):
            self.key = f"{kind}({', '.join(map(str, args))})"
        else:
            sign = "//" if kind == "floordiv" else " % "
            self.key = sign.join(_factor(arg) for arg in args)
        if len(self.key) > MOST_TEXT:
            raise _too_large()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Function) and self._hash == other._hash and self.kind == other.kind and self.args == other.args

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.key


Atom: TypeAlias = Symbol | Function
Monomial: TypeAlias = tuple[Atom, ...]
Dim: TypeAlias = "int | Expr"


class Expr:
    """An expression over symbols that is not a plain integer. Immutable, hashable, in normal form."""

    __slots__ = ("_hash", "_symbols", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._symbols: tuple[Symbol, ...] | None = None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms)

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            sign = ("-" if coefficient < 0 else "") if not text else (" - " if coefficient < 0 else " + ")
            factors = [] if abs(coefficient) == 1 and monomial else [str(abs(coefficient))]
            # A quotient or remainder is bracketed behind a factor or a leading minus, which bind more tightly.
            bracket = len(monomial) + len(factors) > 1 or sign == "-"
            factors += map(_factor if bracket else str, monomial)
            text += sign + "*".join(factors)
        return text

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of the dim {self} is not known; use isthmus.ir.dims.same, bounds or hint")

    def __add__(self, other: Dim) -> Dim:
        return _sum(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _sum(self, other, -1)

    def __rsub__(self, other: Dim) -> Dim:
        return _sum(-self, other, 1)

    def __neg__(self) -> Dim:
        return Expr(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            if other in (0, 1):
                return self if other else 0
            return Expr(tuple((monomial, coefficient * other) for monomial, coefficient in self.terms))
        if len(self.terms) == len(other.terms) == 1:
            (left, a), (right, b) = self.terms[0], other.terms[0]
            if len(left) + len(right) > MOST_TERMS:
                raise _too_large()
            return Expr(((tuple(sorted((*left, *right), key=_key)), a * b),))
        if len(self.terms) * len(other.terms) > MOST_TERMS or _degree(self) + _degree(other) > MOST_TERMS:
            raise _too_large()
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted((*left, *right), key=_key))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _normal(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    @property
    def symbol(self) -> Symbol | None:
        """The symbol, when this expression is exactly one."""
        if len(self.terms) == 1:
            monomial, coefficient = self.terms[0]
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
                return monomial[0]
        return None


def _degree(dim: Expr) -> int:
    return max(len(monomial) for monomial, _ in dim.terms)


def _too_large() -> SizeLimitError:
    return SizeLimitError(f"a size is an expression of more than {MOST_TERMS} terms", op="size")


def _key(atom: Atom) -> str:
    return atom.key


def _factor(part: Dim | Atom) -> str:
    """The text of an operand of a product, bracketed where it needs to be."""
    if isinstance(part, Expr) and part.symbol is None:
        single = len(part.terms) == 1 and part.terms[0][1] == 1 and len(part.terms[0][0]) == 1
        atom = part.terms[0][0][0] if single else None
        return str(part) if isinstance(atom, Function) and atom.kind in ("min", "max") else f"({part})"
    if isinstance(part, Function) and part.kind in ("floordiv", "mod"):
        return f"({part})"
    return str(part) if not isinstance(part, int) or part >= 0 else f"({part})"


def _normal(terms: Mapping[Monomial, int]) -> Dim:
    kept = [(monomial, coefficient) for monomial, coefficient in terms.items() if coefficient]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    if len(kept) > MOST_TERMS:
        raise _too_large()
    if len(kept) == 1:
        return Expr(tuple(kept))
    # Longer products first, constants last, then by name: the order in which people write polynomials.
    kept.sort(key=lambda term: (-len(term[0]), [atom.key for atom in term[0]]))
    return Expr(tuple(kept))


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, int):
        return (((), dim),) if dim else ()
    return dim.terms


def _sum(left: Dim, right: Dim, sign: int) -> Dim:
    if isinstance(left, Expr) and isinstance(right, int) and not any(map(_is_remainder, left.terms)):
        return _shifted(left, sign * right)
    terms = dict(_terms(left))
    for monomial, coefficient in _terms(right):
        terms[monomial] = terms.get(monomial, 0) + sign * coefficient
    alone = [(m[0], c) for m, c in terms.items() if c and len(m) == 1]
    for remainder, factor in alone:  # x - x % k is x//k*k
        if not isinstance(remainder, Function) or remainder.kind != "mod":
            continue
        dividend, divisor = remainder.args
        if isinstance(divisor, int) and all(terms.get(m, 0) == -factor * c for m, c in _terms(dividend) if m):
            rest = _normal(terms) - _normal({(remainder,): factor}) + factor * dividend
            return rest - floordiv(dividend, divisor) * (factor * divisor)
    return _normal(terms)


def _is_remainder(term: tuple[Monomial, int]) -> bool:
    (monomial, _) = term
    return len(monomial) == 1 and isinstance(monomial[0], Function) and monomial[0].kind == "mod"


def _shifted(dim: Expr, number: int) -> Dim:
    """A dim more a number, which is the last of its terms."""
    rest = dim.terms if dim.terms[-1][0] else dim.terms[:-1]
    if len(rest) < len(dim.terms):
        number += dim.terms[-1][1]
    if not number:
        return dim if len(rest) == len(dim.terms) else Expr(rest)
    if len(rest) >= MOST_TERMS:
        raise _too_large()
    return Expr((*rest, ((), number)))


def _atom(kind: str, *args: Dim) -> Dim:
    found = _atoms.get((kind, args))
    if found is None:
        if len(_atoms) >= _REMEMBERED:
            _atoms.clear()
        found = _atoms[kind, args] = Expr((((Function(kind, args),), 1),))
    return found


_atoms: dict[tuple[str, tuple[Dim, ...]], Expr] = {}
"""One object for what is the same: equality is then mostly identity."""


def exact_quotient(dividend: Dim, divisor: Dim) -> Dim | None:
    """`q` with `q * divisor == dividend` as polynomials, or None when there is none."""
    if isinstance(dividend, int) and isinstance(divisor, int):
        return dividend // divisor if divisor and dividend % divisor == 0 else None
    if divisor == 0:
        return None
    lead, lead_coefficient = _terms(divisor)[0]
    quotient: Dim = 0
    rest = dividend
    # Each round removes the leading term; a quotient has no more terms than the dividend.
    for _ in range(len(_terms(dividend)) + 1):
        if rest == 0:
            return quotient
        monomial, coefficient = _terms(rest)[0]
        remaining = list(monomial)
        for atom in lead:
            if atom not in remaining:
                return None
            remaining.remove(atom)
        if coefficient % lead_coefficient:
            return None
        term = _normal({tuple(remaining): coefficient // lead_coefficient})
        quotient = quotient + term
        rest = rest - term * divisor
    return None


def floordiv(dividend: Dim, divisor: Dim) -> Dim:
    """`dividend // divisor`, rounded towards minus infinity as Python does.

    Raises:
        ZeroDivisionError: the divisor is the integer 0.
    """
    if isinstance(dividend, int) and isinstance(divisor, int):
        return dividend // divisor
    if divisor == 0:
        raise ZeroDivisionError(f"{dividend} // 0")
    if not isinstance(divisor, int):
        quotient = exact_quotient(dividend, divisor)
        return _atom("floordiv", dividend, divisor) if quotient is None else quotient
    if divisor < 0:
        return floordiv(-dividend, -divisor)
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in _terms(dividend):
        if monomial and coefficient % divisor:
            rest[monomial] = coefficient
        else:  # a constant leaves its remainder inside: (N - 1)//2 and (N + 1)//2 - 1 become one form
            whole[monomial] = coefficient // divisor
            if coefficient % divisor:
                rest[monomial] = coefficient % divisor
    remainder = _normal(rest)
    lo, hi = bounds(remainder)
    if lo >= 0 and hi < divisor:
        return _normal(whole)
    if _terms(remainder)[0][1] < 0:  # one form for a quotient that is rounded up: -(-x//k) is (x + k - 1)//k
        return _normal(whole) - floordiv(divisor - 1 - remainder, divisor)
    common = math.gcd(divisor, *rest.values())
    if common > 1:
        remainder = _normal({monomial: coefficient // common for monomial, coefficient in rest.items()})
        divisor //= common
    inner = [m[0] for m in rest if len(m) == 1 and isinstance(m[0], Function) and m[0].kind == "floordiv"]
    if len(inner) == 1 and set(rest) <= {(inner[0],), ()} and rest[(inner[0],)] == common:
        numerator, denominator = inner[0].args
        if isinstance(denominator, int) and denominator > 0:
            # (x//a + c)//b == (x + c*a)//(a*b) for positive a and b
            shift = rest.get((), 0) // common
            return _normal(whole) + floordiv(numerator + shift * denominator, denominator * divisor)
    return _normal(whole) + _atom("floordiv", remainder, divisor)


def mod(dividend: Dim, divisor: Dim) -> Dim:
    """`dividend % divisor`, with the sign of the divisor as in Python.

    Raises:
        ZeroDivisionError: the divisor is the integer 0.
    """
    if isinstance(dividend, int) and isinstance(divisor, int):
        return dividend % divisor
    if divisor == 0:
        raise ZeroDivisionError(f"{dividend} % 0")
    if not isinstance(divisor, int) or divisor < 0:
        return 0 if exact_quotient(dividend, divisor) is not None else _atom("mod", dividend, divisor)
    rest: Dim = 0
    for monomial, coefficient in _terms(dividend):
        if monomial and coefficient % divisor:
            inner = monomial[0] if len(monomial) == 1 else None
            whole = isinstance(inner, Function) and inner.kind == "mod" and mod(inner.args[1], divisor) == 0
            rest = rest + (inner.args[0] * coefficient if whole else _normal({monomial: coefficient}))  # type: ignore[union-attr]
        else:
            rest = rest + coefficient % divisor
    if rest != dividend:
        return mod(rest, divisor)
    lo, hi = bounds(rest)
    return rest if lo >= 0 and hi < divisor else _atom("mod", rest, divisor)


def ceildiv(dividend: Dim, divisor: Dim) -> Dim:
    """`dividend / divisor` rounded towards plus infinity."""
    return -floordiv(-dividend, divisor)


def _extreme(kind: str, dims: tuple[Dim, ...]) -> Dim:
    parts: list[Dim] = []
    for dim in dims:
        inner = extreme(dim)
        if inner is not None and inner[0] == kind:
            parts += inner[1]
        else:
            parts.append(dim)
    kept: list[Dim] = []
    for part in dict.fromkeys(parts):
        if any(_beats(kind, other, part) for other in kept):
            continue
        kept = [other for other in kept if not _beats(kind, part, other)] + [part]
    return kept[0] if len(kept) == 1 else _atom(kind, *sorted(kept, key=str))


def _beats(kind: str, winner: Dim, loser: Dim) -> bool:
    lo, hi = bounds(winner - loser)
    return lo >= 0 if kind == "max" else hi <= 0


def minimum(*dims: Dim) -> Dim:
    """The least of some dims."""
    return _extreme("min", dims)


def maximum(*dims: Dim) -> Dim:
    """The greatest of some dims."""
    return _extreme("max", dims)


# ---- what is known about a dim


def _atom_bounds(atom: Atom) -> tuple[Bound, Bound]:
    if isinstance(atom, Symbol):
        return bounds(atom.joined) if atom.joined is not None else (atom.lo, atom.hi)
    pairs = [bounds(arg) for arg in atom.args]
    if atom.kind == "min":
        return min(lo for lo, _ in pairs), min(hi for _, hi in pairs)
    if atom.kind == "max":
        return max(lo for lo, _ in pairs), max(hi for _, hi in pairs)
    (lo, hi), (dlo, dhi) = pairs
    if dlo < 0:
        return -INF, INF
    dlo = max(dlo, 1)  # by 0 there is no quotient
    if dhi < 1:
        return -INF, INF
    if atom.kind == "mod":
        return 0, min(dhi - 1, hi) if lo >= 0 else dhi - 1
    corners = [floor(a, b) for a in (lo, hi) for b in (dlo, dhi)]
    return min(corners), max(corners)


@remember
def bounds(dim: Dim) -> tuple[Bound, Bound]:
    """An interval that holds every value the dim can take, by interval arithmetic over the ranges of its symbols."""
    if isinstance(dim, int):
        return dim, dim
    lo: Bound = 0
    hi: Bound = 0
    plain = True  # there are symbols alone
    for monomial, coefficient in dim.terms:
        a: Bound = coefficient
        b: Bound = coefficient
        for atom in monomial:
            plain = plain and atom.__class__ is Symbol
            c, d = _atom_bounds(atom)
            if a == b:
                a, b = (times(a, c), times(a, d)) if a > 0 else (times(a, d), times(a, c))
            else:
                corners = (times(a, c), times(a, d), times(b, c), times(b, d))
                a, b = min(corners), max(corners)
        lo, hi = plus(lo, a), plus(hi, b)
    if plain or len(dim.terms) == 1:
        return lo, hi
    extremes = [(m[0], c) for m, c in dim.terms if len(m) == 1 and isinstance(m[0], Function) and m[0].kind in ("min", "max")]
    if len(extremes) == 1:
        # min(a, b) - x is the least of a - x and b - x, which may say more than the ranges of both sides by themselves
        atom, factor = extremes[0]
        rest = dim - _normal({(atom,): factor})
        los, his = zip(*(bounds(rest + factor * arg) for arg in atom.args), strict=True)
        which = min if (atom.kind == "min") == (factor > 0) else max
        lo, hi = max(lo, which(los)), min(hi, which(his))
    for monomial, coefficient in dim.terms:
        quotient = monomial[0] if len(monomial) == 1 else None
        if isinstance(quotient, Function) and quotient.kind == "mod" and bounds(quotient.args[1])[0] > 0:
            # a remainder is less than its divisor, which may say more where that is a size that stands beside it
            least, most = bounds(dim - _normal({monomial: coefficient}) + (quotient.args[1] - 1) * coefficient)
            lo, hi = (lo, min(hi, most)) if coefficient > 0 else (max(lo, least), hi)
        if isinstance(quotient, Function) and quotient.kind == "floordiv":
            # x//k*k is less than k below x, which may say more where x stands beside it
            for dividend, divisor in _divisions(quotient, dim):
                if divisor > 0 and coefficient % divisor == 0:
                    factor = coefficient // divisor
                    rest = dim - _normal({monomial: coefficient}) + dividend * factor
                    if len(_terms(rest)) < len(dim.terms):
                        (least, most), below = bounds(rest), (divisor - 1) * factor
                        lo, hi = max(lo, plus(least, min(-below, 0))), min(hi, plus(most, max(-below, 0)))
    return lo, hi


def _divisions(quotient: Function, dim: Expr) -> Iterator[tuple[Dim, int]]:
    """Dividends and divisors of a quotient: its own, and x//6 is also x//2//3, where x//2 stands beside it."""
    dividend, divisor = quotient.args
    if not isinstance(divisor, int):
        return
    yield dividend, divisor
    for monomial, _ in dim.terms:
        other = monomial[0] if len(monomial) == 1 else None
        if isinstance(other, Function) and other.kind == "floordiv" and other is not quotient:
            start, step = other.args
            ahead = dividend - start
            if not isinstance(step, int) or not 0 < step < divisor or divisor % step:
                continue
            if isinstance(ahead, int) and ahead % step == 0:
                yield _normal({monomial: 1}) + ahead // step, divisor // step


def extreme(dim: Dim) -> tuple[str, tuple[Dim, ...]] | None:
    """What the dim is the minimum or maximum of: ``("min", dims)`` or ``("max", dims)``; None where it is neither."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        monomial, coefficient = dim.terms[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Function):
            return (monomial[0].kind, monomial[0].args) if monomial[0].kind in ("min", "max") else None
    return None
