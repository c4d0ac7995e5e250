"""The optimization profile: from which size to which each symbol goes, and the one that engines are tuned for.

TensorRT must be told least, likeliest and greatest size of every dynamic axis. They come from the symbols: their range and
their hint. A symbol without an upper bound goes up to `GROWTH` times its likeliest size; one that may be 0 starts at 1.
Bounds that nobody gave are moved inwards until what the graph assumes of the symbol holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from isthmus.ir.dims import INF, Symbol, evaluate, resolve, symbols
from isthmus.ir.errors import UsageError
from isthmus.ir.graph import Graph
from isthmus.ir.symbols import Assumption

GROWTH: Final = 4
"""How many times the likeliest size the greatest is, where nothing bounds it."""

GREATEST: Final = 2**31 - 1
"""TensorRT's profiles count in 32 bits; what is beyond wraps around unsaid."""


class Range(NamedTuple):
    """The sizes of one symbol."""

    min: int
    opt: int
    max: int


Given = Mapping[str, int]


def ranges(
    graph: Graph, least: Given, likeliest: Given, greatest: Given, note: Callable[[str], None]
) -> dict[Symbol, Range]:
    """The sizes of every symbol in the types of a graph's inputs.

    Args:
        graph: a graph at the top.
        least: least sizes by symbol name, in place of the symbol's own.
        likeliest: likeliest sizes.
        greatest: greatest sizes.
        note: told what was chosen without being said.

    Raises:
        UsageError: a name is of no symbol, or sizes contradict each other, the symbol's range or an assumption.
    """
    free = [symbol for value in graph.inputs for dim in value.tensor.shape or () for symbol in symbols(resolve(dim))]
    free = list(dict.fromkeys(free))
    names = {symbol.name for symbol in free}
    for option, given in (("min", least), ("opt", likeliest), ("max", greatest)):
        unknown = sorted(given.keys() - names)
        if unknown:
            known = ", ".join(sorted(names)) or "none, all sizes are fixed"
            raise UsageError(f"the option {option} is about {', '.join(unknown)}", expected=f"sizes of the inputs: {known}")
    found = {}
    for symbol in free:
        assumptions = [each for each in graph.symbols.assumptions if _about(each) == {symbol}]
        found[symbol] = _range(symbol, least.get(symbol.name), likeliest.get(symbol.name), greatest.get(symbol.name),
                               assumptions, note)  # fmt: skip
    return found


def _range(
    symbol: Symbol, least: int | None, likeliest: int | None, greatest: int | None, assumptions: Sequence[Assumption],
    note: Callable[[str], None],
) -> Range:  # fmt: skip
    name = symbol.name
    low = max(1, int(symbol.lo)) if symbol.lo > -INF else 1
    start = low if least is None else least
    middle = likeliest
    if middle is None:
        wanted = symbol.hint if symbol.hint is not None else start
        middle = max(start, min(wanted, greatest if greatest is not None else wanted))
    if greatest is not None:
        end = greatest
    elif symbol.hi < INF:
        end = int(symbol.hi)
    else:
        end = max(GROWTH * middle, start)
    if not start <= middle <= end:
        raise UsageError(f"the sizes of {name} contradict each other", expected="min <= opt <= max",
                         found=f"min {start}, opt {middle}, max {end}")  # fmt: skip
    for size in (start, middle, end):
        if not (symbol.lo <= size <= symbol.hi):
            raise UsageError(f"{name} cannot be {size}", expected=f"{symbol.lo} <= {name} <= {symbol.hi}, as the model has it")
    if least is None:
        start = next((size for size in range(start, middle + 1) if _hold(assumptions, symbol, size)), middle)
    if greatest is None:
        end = next((size for size in range(end, middle - 1, -1) if _hold(assumptions, symbol, size)), middle)
        if symbol.hi == INF:
            note(f"{name} has no upper bound: the engine takes up to {end}; the option max={{{name!r}: ...}} sets another")
    for size in (start, middle, end):
        for assumption in assumptions:
            if not _hold([assumption], symbol, size):
                raise UsageError(f"{name} cannot be {size}", expected=f"{assumption.told}, as the model assumes",
                                 remedy=f"choose other sizes of {name} by min, opt and max")  # fmt: skip
    return Range(start, middle, end)


def _about(assumption: Assumption) -> set[Symbol]:
    return {*symbols(resolve(assumption.left)), *symbols(resolve(assumption.right))}


def _hold(assumptions: Sequence[Assumption], symbol: Symbol, size: int) -> bool:
    return all(each.holds({symbol: size}) for each in assumptions)


def shapes(shape: Sequence[Any], sizes: Mapping[Symbol, Range]) -> tuple[tuple[int, ...], ...]:
    """The least, likeliest and greatest shape of an input. An expression may shrink as its symbols grow.

    Raises:
        UsageError: a size is more than TensorRT counts to, or divides by 0.
    """
    points = [_at(shape, {symbol: size[which] for symbol, size in sizes.items()}) for which in range(3)]
    for dim, size in zip(shape, map(max, *points), strict=True):
        if size > GREATEST:
            raise UsageError(f"{dim} would be {size}", expected=f"at most {GREATEST}, as TensorRT counts in 32 bits",
                             remedy="choose a smaller size by the option max")  # fmt: skip
    least, likeliest, greatest = points
    ends = list(zip(least, greatest, strict=True))
    return tuple(min(pair) for pair in ends), tuple(likeliest), tuple(max(pair) for pair in ends)


def _at(shape: Sequence[Any], values: Mapping[Symbol, int]) -> list[int]:
    try:
        return [evaluate(resolve(dim), values) for dim in shape]
    except ZeroDivisionError:
        told = ", ".join(f"{symbol}={size}" for symbol, size in values.items())
        raise UsageError(f"the shape [{', '.join(map(str, shape))}] divides by 0", found=told,
                         remedy="choose other sizes by min, opt and max") from None  # fmt: skip
