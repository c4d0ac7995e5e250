"""The second watch: the model runs again at other sizes, and both graphs must be equal.

Where the first watch took an inequality for granted that splits the range of a declared size in two, the model is watched
in the other part as well. When the graph is the same there, the inequality says nothing about the model and is dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from torch.utils import _pytree as pytree

from isthmus.frontends.torch.points import at_points
from isthmus.frontends.torch.texts import TEXT
from isthmus.frontends.torch.watcher import Watcher
from isthmus.ir import dims
from isthmus.ir.dims import Bound, Symbol, symbols
from isthmus.ir.equality import difference
from isthmus.ir.errors import CaptureError, IsthmusError
from isthmus.ir.graph import Graph, Value
from isthmus.ir.location import Location
from isthmus.ir.symbols import Assumption

if TYPE_CHECKING:
    from isthmus.frontends.torch.residues import Multiples

_Cell: TypeAlias = "tuple[Bound, Bound]"
Cells: TypeAlias = "Mapping[str, _Cell]"
"""The range of each of some symbols, or a part of it, by name."""


class Once(Protocol):
    """Watches the model at some sizes, with some questions left open and some taken for granted; see `Sizes`."""

    def __call__(
        self, hints: Mapping[str, int], cells: Cells, granted: Collection[str], multiples: Sequence[Multiples] = (), /
    ) -> Watch: ...


MOST_SPLIT: Final = 3
"""The number of sizes whose both parts are watched: every combination of parts takes a watch."""


@dataclass
class Watch:
    """One finished watch.

    Attributes:
        graph: what was written down.
        watcher: the watcher.
        spec: the structure of the model's result.
        leaves: its leaves.
        written: parameters and buffers that the model wrote to, with their last value.
        dropped: assumptions that were found to say nothing about the model.
        limits: sizes that were not looked at: a symbol, the least size that was, and the line that asked.
        perhaps_empty: sizes that the graph was found to hold for down to 0, though nobody said so.
        never_empty: why a size cannot be 0, by its name.
    """

    graph: Graph
    watcher: Watcher
    spec: pytree.TreeSpec
    leaves: list[Any]
    written: dict[str, Value]
    dropped: list[Assumption] = field(default_factory=list)
    limits: list[tuple[Symbol, int, Location]] = field(default_factory=list)
    perhaps_empty: list[Symbol] = field(default_factory=list)
    never_empty: dict[str, str] = field(default_factory=dict)

    def limit(self) -> None:
        """Writes down the limits."""
        for symbol, least, location in self.limits:
            self.graph.symbols.location = location
            self.graph.symbols.constrain(">=", symbol.dim, least)


def confirm(first: Watch, once: Once, ranges: Cells, unbounded: Mapping[str, bool]) -> None:
    """Watches the model at other sizes, and drops what it takes for granted about sizes for nothing.

    Args:
        first: the first watch; assumptions and ranges of its graph may become fewer and wider.
        once: watches again.
        ranges: what each size was declared to be within.
        unbounded: sizes that may be 0 where the graph is the same then, and whether they are said to; of these it is told
            where they may not.

    Raises:
        CaptureError: the model computes something else at other sizes; the first difference is in the message.
    """
    table = first.graph.symbols
    taken = list(table.assumptions)
    split: dict[str, tuple[_Cell, _Cell]] = {}
    for symbol, cell in () if first.dropped else _splits(first, ranges):  # their combinations are not watched
        if symbol.name in split or len(split) == MOST_SPLIT:
            continue
        declared = ranges[symbol.name]
        kept = [a for a in table.assumptions if _bounded(a) is not symbol or _ruled_out(a, *declared) != cell]
        if _same_within(first, once, kept, split, {symbol.name: cell}):
            split[symbol.name] = (symbol.lo, symbol.hi), cell
            table.assumptions = kept
            symbol.lo, symbol.hi = _narrowed(symbol, kept, *declared)
    hints = _other_sizes(first, [*taken, *first.dropped], {})
    sizes = first.watcher.sizes.declared
    if hints is not None and any(symbol.hint != hints.get(symbol.name) for symbol in sizes):
        dropped = {*map(str, taken)} - {*map(str, table.assumptions)}
        reached = (not split or any(unbounded.values())) and _reach_0(first, once, hints, unbounded, dropped)
        if not split and not reached:
            _compare(first, once, hints)
    for symbol in sorted(sizes, key=lambda symbol: symbol.name):
        if unbounded.get(symbol.name) and symbol.joined is None and symbol.lo == 1:
            why = first.never_empty.get(symbol.name, "the model was not watched there")
            first.watcher.sizes.notes.append(f"{symbol.name} is 1 at least, though it was declared to go down to 0: {why}")


def _splits(watch: Watch, ranges: Cells) -> dict[tuple[Symbol, _Cell], None]:
    """The parts of ranges that the watch ruled out, those without end left out: a limit is mostly the length of a table."""
    found: dict[tuple[Symbol, _Cell], None] = {}
    for assumption in watch.graph.symbols.assumptions:
        symbol = _bounded(assumption)
        if symbol is not None and symbol in watch.watcher.sizes.declared and symbol.joined is None:
            cell = _ruled_out(assumption, *ranges[symbol.name])
            if cell[1] != dims.INF:
                found[symbol, cell] = None
    return found


def _narrowed(symbol: Symbol, kept: list[Assumption], lo: Bound, hi: Bound) -> _Cell:
    """A range without what assumptions rule out at its ends."""
    for assumption in kept:
        if _bounded(assumption) is symbol:
            least, greatest = _ruled_out(assumption, lo, hi)
            if least <= lo <= greatest:
                lo = greatest + 1
            if least <= hi <= greatest:
                hi = least - 1
    return lo, hi


def _bounded(assumption: Assumption) -> Symbol | None:
    """The symbol that an assumption compares with a number; None for other assumptions."""
    left = assumption.left
    alone = not isinstance(left, int) and isinstance(assumption.right, int) and assumption.relation != "=="
    return left.symbol if alone and not isinstance(left, int) else None


def _not_empty(assumption: Assumption) -> Symbol | None:
    """The symbol of which an assumption says that it is not 0, and no more."""
    symbol = _bounded(assumption)
    return symbol if symbol is not None and _ruled_out(assumption, 0, symbol.hi) == (0, 0) else None


def _ruled_out(assumption: Assumption, lo: Bound, hi: Bound) -> _Cell:
    """The part of a range in which an assumption does not hold."""
    number = assumption.right
    assert isinstance(number, int), "compared with a number"
    return {
        "<": (number, hi), "<=": (number + 1, hi), ">": (lo, number), ">=": (lo, number - 1), "!=": (number, number),
    }[assumption.relation]  # fmt: skip


def _same_within(
    first: Watch, once: Once, kept: list[Assumption], split: Mapping[str, tuple[_Cell, _Cell]], new: Cells,
) -> bool:  # fmt: skip
    """Whether the graph is the same in a part of a size's range that the first watch ruled out.

    Args:
        kept: what may be taken for granted.
        split: both parts of the ranges of sizes of which both were watched before; they are watched in every combination.
        new: the part of one more size.
    """
    allowed = {str(assumption) for assumption in kept}
    for chosen in itertools.product(*split.values()):
        cells = {**new, **dict(zip(split, chosen, strict=True))}
        hints = _other_sizes(first, kept, cells)
        if hints is None:
            return False
        try:
            other = once(hints, cells, allowed)
        except IsthmusError:  # the model says no to such sizes, or fixes them: then what was taken for granted stands
            return False
        points = {name: int(lo) for name, (lo, hi) in cells.items() if lo == hi}
        numbers = {other.graph.symbols.by_name[name]: size for name, size in points.items()}
        taken = [each for each in other.graph.symbols.assumptions if not _so_at(each, numbers)]
        if not {*map(str, taken)} <= allowed:
            return False
        other.graph.symbols.assumptions = taken
        with _in_the_place_of(first, other):
            found = _difference(first, other, points)
        if found is not None:
            return False
    return True


@contextmanager
def _in_the_place_of(first: Watch, other: Watch) -> Iterator[None]:
    """Lets a watch have another one's assumptions and ranges for a while, so that a comparison is about the rest."""
    table, sizes = first.graph.symbols, first.watcher.sizes.declared
    assumptions, ranges = table.assumptions, [(symbol, symbol.lo, symbol.hi) for symbol in sizes]
    table.assumptions = other.graph.symbols.assumptions
    for symbol in sizes:
        theirs = other.graph.symbols.by_name[symbol.name]
        symbol.lo, symbol.hi = theirs.lo, theirs.hi
    try:
        yield
    finally:
        table.assumptions = assumptions
        for symbol, lo, hi in ranges:
            symbol.lo, symbol.hi = lo, hi


def _so_at(assumption: Assumption, sizes: Mapping[Symbol, int]) -> bool:
    """Whether an assumption is about these sizes alone, and holds."""
    return {*symbols(assumption.left), *symbols(assumption.right)} <= sizes.keys() and assumption.holds(sizes)


def _difference(first: Watch, other: Watch, points: Mapping[str, int] | None = None) -> str | None:
    """The first difference between two watches, apart from hints.

    Args:
        first: one watch.
        other: the other one.
        points: sizes at which alone they are compared.
    """
    for name, symbol in other.graph.symbols.by_name.items():
        mine = first.graph.symbols.by_name.get(name)
        if mine is not None:
            symbol.hint = mine.hint
    found = difference(first.graph, other.graph)
    if found and points:
        found = difference(at_points(first.graph, points), at_points(other.graph, points))
    return found or _told_apart(first, other)


def _told_apart(first: Watch, other: Watch) -> str | None:
    """The first difference between numbers and texts that are no part of the graph."""
    for mine, theirs in zip(_plain(first), _plain(other), strict=False):
        if mine != theirs:
            return f"{theirs!r} there in place of {mine!r}"
    return None


def _plain(watch: Watch) -> list[Any]:
    """What is the model's result besides tensors, and the keys of its dicts."""
    found, specs = [leaf for leaf in watch.leaves if leaf.__class__ in (bool, int, float, str)], [watch.spec]
    while specs:
        spec = specs.pop()
        found += [key for key in spec.context if key.__class__ is str] if isinstance(spec.context, list) else ()
        specs += spec.children()
    return found


def _reach_0(
    first: Watch, once: Once, hints: Mapping[str, int], unbounded: Mapping[str, bool], dropped: Collection[str]
) -> bool:
    """Lets sizes be 0 when the graph is the same at other sizes where nothing is taken for granted about their least.

    Args:
        first: the first watch.
        once: watches again.
        hints: the other sizes.
        unbounded: the sizes, and whether they are said to go down to 0.
        dropped: assumptions that were found to say nothing about the model.

    Returns:
        Whether the model was found to compute the same at the other sizes.
    """
    table = first.graph.symbols
    sizes = [s for s in first.watcher.sizes.declared if s.name in unbounded and s.joined is None and s.lo == 1]
    if not sizes or first.dropped:
        return False
    try:
        other = once(hints, {symbol.name: (0, symbol.hi) for symbol in sizes}, ())
    except IsthmusError as error:  # the model says no to what may be empty
        first.never_empty = dict.fromkeys(unbounded, f"{error.message} ({error.location})")
        return False
    mine, theirs = set(map(str, table.assumptions)), other.graph.symbols
    new = [each for each in theirs.assumptions if str(each) not in mine]
    needed = {each: symbol.name for each in new if (symbol := _not_empty(each)) is not None and symbol.name in unbounded}
    first.never_empty = {name: f"the model needs {each} ({each.location})" for each, name in needed.items()}
    said = {*map(str, needed), *dropped} - mine
    theirs.assumptions = [each for each in theirs.assumptions if str(each) not in said]
    sizes = [symbol for symbol in sizes if symbol.name not in first.never_empty]
    wider = list(sizes)
    for name, symbol in table.by_name.items():  # sizes from data, such as how many values there are
        other_one = theirs.by_name.get(name)
        if symbol not in first.watcher.sizes.declared and symbol.lo == 1 and other_one is not None and other_one.lo == 0:
            wider.append(symbol)
    for symbol in wider:
        symbol.lo = 0
    table.remember()
    found = _difference(first, other)
    if found is None:
        first.perhaps_empty = [symbol for symbol in sizes if not unbounded[symbol.name]]
        return True
    first.never_empty = {**dict.fromkeys(unbounded, f"the model computes something else there: {found}"), **first.never_empty}
    for symbol in wider:
        symbol.lo = 1
    table.remember()
    return False


def _compare(first: Watch, once: Once, hints: Mapping[str, int]) -> None:
    sizes = ", ".join(f"{name}={size}" for name, size in hints.items())
    other = once(hints, {}, ())
    dropped = set(map(str, first.dropped))
    table = other.graph.symbols
    table.assumptions = [assumption for assumption in table.assumptions if str(assumption) not in dropped]
    found = _difference(first, other)
    if found is not None:
        before = ", ".join(f"{symbol.name}={symbol.hint}" for symbol in first.watcher.sizes.declared)
        raise CaptureError(
            f"the model computes something else at {sizes} than at {before}: {found}",
            found="; ".join(note for note in first.watcher.notes if TEXT in note) or None,
            remedy="Python code that depends on sizes (a counter, a cache, a branch on a number, a text) was decided by the "
            "example; make it independent of the sizes, or declare them static",
        )


def _other_sizes(first: Watch, kept: list[Assumption], cells: Cells) -> dict[str, int] | None:
    """Sizes for another watch: within the ranges, such that all that is kept of what was assumed holds.

    Args:
        first: the first watch.
        kept: assumptions that must hold.
        cells: where some sizes must lie, by name.

    Returns:
        A size for each declared symbol; None when there is none in a cell.
    """
    declared = [symbol for symbol in first.watcher.sizes.declared if symbol.joined is None]
    current = {symbol: int(symbol.hint or 1) for symbol in declared}

    def holds(values: dict[Symbol, int]) -> bool:
        for assumption in kept:
            left, right = dims.resolve(assumption.left), dims.resolve(assumption.right)
            known = all(symbol in values for symbol in (*symbols(left), *symbols(right)))
            if known and not assumption.holds(values):
                return False
        return True

    for symbol in declared:
        size = current[symbol]
        lo, hi = cells.get(symbol.name, (max(symbol.lo, 2), symbol.hi))
        digits = (size * 13 + 7,) if symbol in first.watcher.sizes.shown else ()  # more of them, and another last one
        steps = (*digits, size * 2, size * 3, *(size + step for step in (32, 16, 8, 4, 2, 1, -1)), size // 2)
        ends = [int(end) for end in (hi, lo) if symbol.name in cells and end != dims.INF]
        taken = {dim for other, dim in current.items() if other is not symbol}
        for candidate in (*steps, *ends):
            fits = lo <= candidate <= hi and (candidate not in taken or candidate in ends)
            if fits and holds({**current, symbol: candidate}):
                current[symbol] = candidate
                break
        else:
            if symbol.name in cells:
                return None
    every = {symbol.name: dims.resolve(symbol.dim) for symbol in first.watcher.sizes.declared}
    return {name: dims.evaluate(dim, current) for name, dim in every.items() if all(s in current for s in symbols(dim))}
