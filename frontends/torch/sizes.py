"""Sizes that the model sees: one policy for the questions that it asks about them.

One policy answers the questions that the model asks about them (`Sizes.decide`). What can be proved is answered and
leaves no trace. What cannot is answered from the sizes that the capture runs at, and then:

* a size that the user declared dynamic may not become a number: refused, with the line that asked;
* an inequality narrows the range of a declared size and is recorded, an (in)equality is recorded as an assumption;
* a question about a size that only the data can tell is recorded or refused, as `on_size_branch` says.

Questions of torch's own C++ that have a safe answer (`guard_or_false` and its kind) are answered from proof alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch

from isthmus.frontends.torch import leaving
from isthmus.frontends.torch.asking import asking
from isthmus.frontends.torch.relations import HOLDS, NEGATED, Relation, contiguous, prove
from isthmus.frontends.torch.shadows import look_again
from isthmus.frontends.torch.size_nodes import SizeNode
from isthmus.ir import dims
from isthmus.ir.dims import Bound, Dim, Expr, Symbol, bounds, resolve, symbols
from isthmus.ir.errors import CaptureError
from isthmus.ir.symbols import MIRRORED, Question

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher


class Sizes:
    """The dims of one capture, and what is decided about them.

    Args:
        watcher: knows the graph's symbols and the user's line.
        on_size_branch: ``record`` or ``refuse``, for sizes that depend on data.
        question: what the model's code asks, given the answer that it gets.

    Attributes:
        declared: symbols that the user declared dynamic.
        auto: those of them that may become a number.
        notes: what the user should know about sizes.
        cells: parts of the ranges of some symbols. A question that has one answer in all of the part is answered and not
            recorded: another watch has the other parts.
        read: symbols that stand for integers which the model has read from data.
        granted: what may be assumed in spite of that, in words: the other watch assumed it too, and builds on it.
        ended: symbols of branches and bodies that are over.
        turning: symbols that differ from turn to turn of a scripted loop, so that no one answer holds.
        shown: symbols that a text was made of.
        asking: the size or truth that Python wants to know now; None while it does not ask.
    """

    STAND_IN: Final = 61
    """The size at which a capture runs where only the data can tell."""

    def __init__(
        self, watcher: Watcher, on_size_branch: str = "record",
        question: Callable[[bool], Question | None] = lambda answer: None,
    ) -> None:  # fmt: skip
        self.watcher = watcher
        self.symbols = watcher.graph.symbols
        self.where = watcher.provenance.here
        self.on_size_branch = on_size_branch
        self.question = question
        self.asking: SizeNode | None = None
        self.declared: set[Symbol] = set()
        self.auto: set[Symbol] = set()
        self.read: set[Symbol] = set()
        self.notes: list[str] = []
        self.cells: dict[Symbol, tuple[Bound, Bound]] = {}
        self.granted: Collection[str] = ()
        self.ended: set[Symbol] = set()
        self.turning: set[Symbol] = set()
        self.shown: set[Symbol] = set()
        self._ints: dict[Expr, torch.SymInt] = {}
        self._facts: set[Relation] = set()
        self._proved: dict[Relation, bool | None] = {}
        self._resolved: dict[Expr, Dim] = {}
        self._layouts: dict[tuple[Dim, ...], tuple[list[Any], list[Any] | None]] = {}
        self.nodes: dict[tuple[Any, ...], SizeNode] = {}
        """Results of arithmetic on sizes, which C++ does over and over for the strides of every tensor."""
        self.symbols.listener = self._listen

    # ---- handing sizes out and taking them back

    def give(self, dim: Dim) -> Any:
        """A dim as the model sees it: an int, or a SymInt."""
        if dim.__class__ is int:
            return dim
        found = self._ints.get(dim)  # type: ignore[arg-type]
        if found is None:
            dim = self.resolve(dim)
            if isinstance(dim, int):
                return dim
            found = self._ints[dim] = torch.SymInt(SizeNode(self, dim, int))
        return found

    def layout(self, shape: tuple[Dim, ...]) -> tuple[list[Any], list[Any] | None]:
        """A shape as the model sees it, and the strides of a contiguous tensor; None where all sizes are ints."""
        found = self._layouts.get(shape)
        if found is None:
            sizes = [self.give(dim) for dim in shape]
            known = all(size.__class__ is int for size in sizes)
            strides = None if known else [self.give(s) for s in contiguous(tuple([self.resolve(dim) for dim in shape]))]
            found = self._layouts[shape] = sizes, strides
        return found

    def take(self, size: Any) -> Dim:
        """A size that comes back from the model, as a dim.

        Raises:
            CaptureError: it is of another capture.
        """
        if size.__class__ is int:
            return size
        node = size.node
        if not isinstance(node, SizeNode):
            constant = node.maybe_as_int()
            if constant is None:
                self.refuse("a symbolic size of another tracer", "capture outside torch.export and torch.compile")
            return int(constant)
        if node.sizes is not self:
            self.refuse("a size of an earlier capture", "do not keep sizes on the model between calls")
        dim = self.resolve(node.expr)
        if self.ended and not self.ended.isdisjoint(symbols(dim)):
            self.refuse("a size that a branch or the body of a loop found is used outside of it", "return it from there")
        return dim

    def resolve(self, dim: Dim) -> Dim:
        """The dim with joined symbols replaced; remembered until the next assumption."""
        if isinstance(dim, int):
            return dim
        found = self._resolved.get(dim)
        if found is None:
            found = self._resolved[dim] = resolve(dim)
        return found

    # ---- what the capture runs at

    def hint(self, dim: Dim) -> int:
        """The number that a dim has in this run."""
        if isinstance(dim, int):
            return dim
        dim = resolve(dim)
        return dims.evaluate(dim, {symbol: self.hint_of(symbol) for symbol in symbols(dim)})

    def hint_of(self, symbol: Symbol) -> int:
        """The number that a symbol stands for in this run."""
        if symbol.hint is not None:
            return symbol.hint
        lo, hi = symbol.lo, symbol.hi
        return int(min(max(self.STAND_IN, lo), hi))

    @contextmanager
    def supposing(self, expr: Any) -> Iterator[None]:
        """Answers as they are where a relation of sizes holds, for a while; the run has such sizes then, if there are any.

        Args:
            expr: what a `SizeNode` holds for a bool.
        """
        relations = list(_all_of(expr))
        supposed = {fact for word, left, right in relations for fact in ((word, left, right), (MIRRORED[word], right, left))}
        supposed -= self._facts
        nodes, hints = self.nodes, [(symbol, symbol.hint) for symbol in _within(expr)]
        self.nodes = {}
        self._facts |= supposed
        self._fit(expr)
        self._forget()
        try:
            with self.symbols.supposing(relations):
                yield
        finally:
            self.nodes = nodes
            self._facts -= supposed
            for symbol, hint in hints:
                symbol.hint = hint
            self._forget()

    def _fit(self, expr: Any) -> None:
        """Lets the run have sizes at which a relation holds, if there are any near by."""
        for symbol in _within(expr):
            hint = self.hint_of(symbol)
            lo, hi = (int(end) if abs(end) != dims.INF else hint for end in (symbol.lo, symbol.hi))
            for size in (hint, hint * 2, hint * 3, *range(hint + 1, hint + 32), *range(lo, lo + 32), *range(hi - 32, hi + 1)):
                symbol.hint = size
                if symbol.lo <= size <= symbol.hi and SizeNode(self, expr, bool).hint:
                    return
            symbol.hint = hint

    # ---- deciding

    def decide(self, relation: str, left: Dim, right: Dim) -> bool:
        """Whether a relation holds; an unknown is answered from this run's sizes and recorded, or refused."""
        known = self.known(relation, left, right)
        if known is not None:
            return known
        left, right = resolve(left), resolve(right)
        try:
            answer = HOLDS[relation](self.hint(left), self.hint(right))
        except ZeroDivisionError:
            self.refuse(f"{left} {relation} {right} divides by zero at this run's sizes", "give a larger example input")
        self.take_for_granted(relation if answer else NEGATED[relation], left, right)
        return answer

    def known(self, relation: str, left: Dim, right: Dim) -> bool | None:
        """Whether a relation holds, where that is proved or the same in all of the cells; None when not known."""
        answer = self.prove(relation, left, right)
        if answer is None and self.cells:
            left, right = resolve(left), resolve(right)
            answer = self._in_cells(relation, left, right)
            holds = relation if answer else NEGATED[relation]
            if answer is not None and {f"{left} {holds} {right}", f"{right} {MIRRORED[holds]} {left}"} & set(self.granted):
                self.take_for_granted(holds, left, right)
        return answer

    def prove(self, relation: str, left: Dim, right: Dim) -> bool | None:
        """Whether a relation holds, from ranges and from what is assumed already; None when not known."""
        if left.__class__ is int and right.__class__ is int:
            return HOLDS[relation](left, right)
        question = (relation, left, right)
        if question not in self._proved:
            self._proved[question] = self._prove(relation, left, right)
        return self._proved[question]

    def _prove(self, relation: str, left: Dim, right: Dim) -> bool | None:
        known = prove(relation, left, right, self.symbols.same)
        if known is None and self._facts:
            left, right = self.resolve(left), self.resolve(right)
            if (relation, left, right) in self._facts:
                return True
            if (NEGATED[relation], left, right) in self._facts:
                return False
        return known

    def _in_cells(self, relation: str, left: Dim, right: Dim) -> bool | None:
        """Whether a relation holds for every size in the cells; None when that depends on them."""
        ranges = {symbol: (symbol.lo, symbol.hi) for symbol in self.cells}
        for symbol, cell in self.cells.items():
            symbol.lo, symbol.hi = cell
        try:
            lo, hi = bounds(left - right)
        finally:
            for symbol, (least, greatest) in ranges.items():
                symbol.lo, symbol.hi = least, greatest
        return {
            "<": _all(hi < 0, lo >= 0), "<=": _all(hi <= 0, lo > 0), ">": _all(lo > 0, hi <= 0), ">=": _all(lo >= 0, hi < 0),
            "==": _all(lo == hi == 0, lo > 0 or hi < 0), "!=": _all(lo > 0 or hi < 0, lo == hi == 0),
        }[relation]  # fmt: skip

    def take_for_granted(self, relation: str, left: Dim, right: Dim) -> None:
        """Records a relation that is not known to hold, or refuses it."""
        where = self.symbols.location = self.where()
        if isinstance(left, Expr) and right == 0:
            reduced = dims.exact_quotient(left, math.gcd(*(factor for _, factor in left.terms)))
            left = left if reduced is None else reduced
        question = None
        if self.asking is not None and not self.symbols.asker:
            question = self.question(bool(self.asking.hint))
            if question is not None:
                look_again(self.watcher.provenance.frame(), question.text)
        involved = {*symbols(left), *symbols(right)}
        if not self.turning.isdisjoint(involved):
            self._turns(f"{left} {relation} {right}")
        data = sorted(symbol.name for symbol in involved - self.declared)
        if data and self.on_size_branch == "refuse":
            error = CaptureError(
                f"the model branches on {left} {relation} {right}, and {', '.join(data)} depends on data",
                location=where,
                found=None if question is None else str(question),
                remedy="make the code independent of that size, or set on_size_branch='record' to take this for granted",
            )
            self.watcher.fail(error)
        self._facts.add((relation, left, right))
        self._forget()
        self.symbols.question = question
        try:
            self._assume(relation, left, right)
        finally:
            self.symbols.question = None
        self._forget()
        for symbol in involved & self.declared:
            if symbol.lo == symbol.hi and symbol.joined is None:
                self.fix(symbol.dim, int(symbol.lo))

    def _assume(self, relation: str, left: Dim, right: Dim) -> None:
        if relation == "==":
            self.symbols.unify(left, right)
        elif relation == "!=":
            self.symbols.assume("!=", left, right)
            self._exclude(left, right)
        else:
            if isinstance(left, int):  # so that the symbol stands on the left, where its range is narrowed
                relation, left, right = MIRRORED[relation], right, left
            self.symbols.constrain(relation, left, right)

    def _exclude(self, left: Dim, right: Dim) -> None:
        """Takes an excluded end off a symbol's range."""
        if isinstance(left, int):
            left, right = right, left
        symbol = left.symbol if isinstance(left, Expr) else None
        if symbol is not None and isinstance(right, int):
            if right == symbol.lo:
                self.symbols.narrow(symbol, lo=right + 1)
            elif right == symbol.hi:
                self.symbols.narrow(symbol, hi=right - 1)

    def _listen(self, assumption: Any) -> None:
        """Refuses an equality that makes a number of a declared size, wherever it comes from."""
        self._forget()
        if self.turning and any(
            not self.turning.isdisjoint(monomial)
            for side in (assumption.left, assumption.right) if isinstance(side, Expr)
            for monomial, _ in side.terms
        ):  # fmt: skip
            self._turns(str(assumption))
        if assumption.relation == "==":
            self._note_repeated(assumption.left, assumption.right)
            for dim, other in ((assumption.left, assumption.right), (assumption.right, assumption.left)):
                if isinstance(other, int) and isinstance(dim, Expr):
                    symbol = _only_symbol(dim)
                    if symbol is not None and symbol in self.declared and symbol not in self.auto:
                        self._fixed(dim, other)

    def _note_repeated(self, left: Dim, right: Dim) -> None:
        """Notes that an op would repeat a size of 1, where that is now left out."""
        asker = self.symbols.asker
        both = isinstance(left, Expr) and isinstance(right, Expr) and min(bounds(left)[0], bounds(right)[0]) <= 1
        if both and asker and _is_pointwise(asker):
            self.notes.append(f"{left} == {right} leaves out that one alone is 1, which {asker} repeats ({self.where()})")

    def _forget(self) -> None:
        self._proved.clear()
        self._resolved.clear()
        self._layouts.clear()

    def fix(self, dim: Dim, number: int) -> int:
        """Makes a dim a number, where that is allowed.

        Raises:
            CaptureError: it is not.
        """
        involved = set(symbols(dim))
        if not involved or not involved <= self.auto:
            if (question := self.question(True)) is not None:
                look_again(self.watcher.provenance.frame(), question.text)
            self._fixed(dim, number)
        for symbol in involved:
            self.notes.append(f"{symbol.name} is fixed to {self.hint_of(symbol)} at {self.where()}")
            self.symbols.location = self.where()
            self.symbols.unify(symbol.dim, self.hint_of(symbol))
        return number

    def _fixed(self, dim: Dim, number: int) -> NoReturn:
        involved = set(symbols(dim))
        if not involved & self.declared:
            leaving.number(self.watcher, dim)
        names = ", ".join(sorted(symbol.name for symbol in involved & self.declared))
        self.refuse(
            f"the model fixes the size {dim} to {number}, but {names} was declared dynamic",
            f"declare {names} static, or change the code so that it works for every size "
            "(for example x.numel() in place of x.shape.numel(), // in place of int(x / y), torch.tensor([...]) in place of "
            "torch.LongTensor([...]), no range over a size)",
        )

    def _turns(self, told: str) -> NoReturn:
        self.refuse(
            f"a scripted loop needs {told} to hold or not, which may change from turn to turn",
            "write it so that no shape depends on that, or branch on it with an if in the script",
        )

    def refuse(self, what: str, remedy: str) -> NoReturn:
        """An error about a size, at the user's line.

        Raises:
            CaptureError: always.
        """
        text = asking(self.watcher.provenance).text
        found = f"`{text}`" if text else None
        self.watcher.fail(CaptureError(what, location=self.where(), found=found, remedy=remedy))


def _is_pointwise(name: str) -> bool:
    """Whether an op broadcasts its arguments."""
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(torch.Tag.pointwise in getattr(packet, each).tags for each in packet.overloads())


def _all_of(expr: Any) -> Iterator[tuple[str, Dim, Dim]]:
    """The relations that hold where a bool of a `SizeNode` does."""
    if isinstance(expr, tuple) and expr[0] in HOLDS:
        yield expr
    elif isinstance(expr, tuple) and expr[0] == "and":
        yield from (*_all_of(expr[1]), *_all_of(expr[2]))


def _within(expr: Any) -> dict[Symbol, None]:
    """The symbols in a bool of a `SizeNode`."""
    parts = expr[1:] if isinstance(expr, tuple) else ()
    return {symbol: None for part in parts for symbol in (_within(part) if isinstance(part, tuple) else symbols(resolve(part)))}


def _all(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def _only_symbol(dim: Expr) -> Symbol | None:
    """The symbol of a linear expression in one; an equation with a number would fix it."""
    found = {atom for monomial, _ in dim.terms for atom in monomial}
    (atom,) = found if len(found) == 1 else (None,)
    return atom if isinstance(atom, Symbol) and all(len(monomial) < 2 for monomial, _ in dim.terms) else None
