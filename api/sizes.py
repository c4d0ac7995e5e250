"""Other sizes to try a compiled model at: valid under every range and assumption of its graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isthmus.ir.dims import Symbol, evaluate, resolve, symbols
from isthmus.ir.graph import Graph, type_symbols
from isthmus.ir.symbols import Assumption

_REACH = 128
"""How many values of one symbol are tried."""


def free_symbols(graph: Graph) -> list[Symbol]:
    """The symbols that the inputs' sizes are made of, in the order in which they appear."""
    found: dict[Symbol, None] = {}
    for value in graph.inputs:
        found.update(dict.fromkeys(type_symbols(value.type)))
    return list(found)


def other_sizes(graph: Graph, count: int) -> Iterator[dict[str, int]]:
    """Sizes by symbol name: first the least, then the example's, then some that differ from these and from each other.

    Args:
        graph: its inputs' symbols get sizes; so do symbols that were joined to them.
        count: how many assignments to give. A graph without symbols gives as many empty ones.
    """
    free = free_symbols(graph)
    # What a symbol was joined to must have a value: a divisor in it may be 0 at some sizes.
    joined = [Assumption("==", s.joined, s.joined) for s in graph.symbols.by_name.values() if s.joined is not None]
    for turn in range(count):
        wanted = [_wanted(symbol, turn, index) for index, symbol in enumerate(free)]
        values = _search(free, wanted, [*graph.symbols.assumptions, *joined])
        sizes = {symbol.name: size for symbol, size in values.items()}
        for symbol in graph.symbols.by_name.values():
            if symbol.joined is not None and set(symbols(resolve(symbol.joined))) <= set(values):
                sizes[symbol.name] = evaluate(resolve(symbol.joined), values)
        yield sizes


def _wanted(symbol: Symbol, turn: int, index: int) -> int:
    """The least size first, then the example's; then near that, but another one, and another one for each symbol."""
    hint = symbol.hint or 2
    return (1, hint, hint + 1 + index, 2 * hint + 1 + index)[turn] if turn < 4 else hint + turn + 2 * index


def _candidates(symbol: Symbol, wanted: int) -> list[int]:
    hint = symbol.hint or 2
    lo = int(max(symbol.lo, 1))
    hi = int(min(symbol.hi, max(wanted, hint, lo) + _REACH))
    near = sorted(range(max(lo, wanted - _REACH), hi + 1), key=lambda size: (abs(size - wanted), size == hint))
    return list(dict.fromkeys([*near[:_REACH], hint]))


def _search(free: Sequence[Symbol], wanted: Sequence[int], assumptions: Sequence[Assumption]) -> dict[Symbol, int]:
    """The sizes nearest to the wanted ones that keep every assumption; the example's where none are found.

    Depth first, on a stack of its own: each symbol in turn takes its candidates, and an assumption is checked as soon
    as all its symbols have a size.
    """
    watching: list[list[Assumption]] = [[] for _ in free]
    for assumption in assumptions:
        used = {*symbols(resolve(assumption.left)), *symbols(resolve(assumption.right))}
        if used and used <= set(free):
            watching[max(free.index(symbol) for symbol in used)].append(assumption)
    values: dict[Symbol, int] = {}
    options = [iter(_candidates(symbol, size)) for symbol, size in zip(free, wanted, strict=True)]
    depth = 0
    while 0 <= depth < len(free):
        symbol = free[depth]
        for size in options[depth]:
            values[symbol] = size
            if all(assumption.holds(values) for assumption in watching[depth]):
                depth += 1
                break
        else:
            options[depth] = iter(_candidates(symbol, wanted[depth]))
            values.pop(symbol, None)
            depth -= 1
    return values if depth == len(free) else {symbol: symbol.hint or 1 for symbol in free}
