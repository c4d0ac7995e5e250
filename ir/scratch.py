"""Symbols to infer with a second time: they answer from what a graph knows, and write nothing into it."""

from __future__ import annotations

from isthmus.ir.dims import INF, Bound, Dim, Expr, Symbol, occurrences, resolve, symbols
from isthmus.ir.symbols import ENDS, Symbols


class Scratch(Symbols):
    """Stands in for a graph's symbols.

    New symbols are not entered into the table; they may turn out to stand for anything. Equalities and inequalities must
    be provable, or among what the graph assumes already.

    Attributes:
        missing: what was needed and the graph does not assume, since `start`.
        lenient: whether what is needed is taken to hold, as in a branch that is run only where it does.
    """

    def __init__(self, known: Symbols) -> None:
        super().__init__()
        self.known = known
        self.by_name = known.by_name
        self.joins = known.joins
        self.assumptions = known.assumptions
        self.missing: list[str] = []
        self.lenient = False
        self._assumed = {(a.relation, resolve(a.left), resolve(a.right)) for a in known.assumptions}
        self._made: set[Symbol] = set()

    def start(self) -> None:
        """Begins with another node."""
        self.missing.clear()
        self._made.clear()

    def declare(self, name: str, lo: Bound = 1, hi: Bound = INF, hint: int | None = None) -> Symbol:
        found = self.by_name.get(name)
        if found is None:
            found = Symbol(name, lo, hi, hint)
            self._made.add(found)
        return found

    def fresh(self, prefix: str = "u", lo: Bound = 0, hi: Bound = INF, hint: int | None = None) -> Dim:
        symbol = Symbol(f"{prefix}?{len(self._made)}", lo, hi, hint)
        self._made.add(symbol)
        return symbol.dim

    def same(self, left: Dim, right: Dim) -> bool | None:
        return self.known.same(left, right)

    def stands_for(self, left: Dim, right: Dim) -> bool:
        """Makes two dims the same by saying what a new symbol in them stands for; False when none can."""
        difference = resolve(left) - resolve(right)
        for monomial, coefficient in difference.terms if isinstance(difference, Expr) else ():
            if len(monomial) == 1 and abs(coefficient) == 1:
                symbol = monomial[0]
                if isinstance(symbol, Symbol) and symbol in self._made and occurrences(difference, symbol) == 1:
                    symbol.joined = symbol.dim - difference if coefficient == 1 else symbol.dim + difference
                    return True
        return False

    def unify(self, left: Dim, right: Dim) -> bool:
        answer = self.same(left, right)
        if answer is not None:
            return answer
        if self.stands_for(left, right):
            return True
        answer = self._as_inequality(resolve(left), resolve(right))
        return self._known("==", left, right) if answer is None else answer

    def assume(self, relation: str, left: Dim, right: Dim) -> None:
        self._known(relation, left, right)

    def constrain(self, relation: str, left: Dim, right: Dim) -> bool:
        lo, hi = self.known.span(resolve(left) - resolve(right))
        least, most = ENDS[relation]
        if lo > most or hi < least:
            return False
        return (least <= lo and hi <= most) or self._known(relation, left, right)

    def narrow(self, symbol: Symbol, lo: Bound = -INF, hi: Bound = INF) -> None:
        if symbol in self._made:
            super().narrow(symbol, lo, hi)
        elif symbol.lo < lo or symbol.hi > hi:
            self.missing.append(f"{symbol} in [{lo}, {hi}]")

    def _known(self, relation: str, left: Dim, right: Dim) -> bool:
        if self.lenient:
            return True
        left, right = resolve(left), resolve(right)
        if (relation, left, right) in self._assumed or (relation == "==" and (relation, right, left) in self._assumed):
            return True
        # What was assumed of a symbol that is new here cannot be told from here.
        if any(symbol in self._made for dim in (left, right) for symbol in symbols(dim)):
            return True
        self.missing.append(f"{left} {relation} {right}")
        return False
