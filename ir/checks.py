"""Whether contents fit the types that a graph gives them, and sizes what it takes for granted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from isthmus.ir.dims import Dim, Expr, Symbol, evaluate, resolve
from isthmus.ir.dtypes import from_numpy
from isthmus.ir.errors import EvaluationError, IsthmusError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.symbols import Symbols
from isthmus.ir.types import Tensor

Raise = type[IsthmusError]
"""The kind of error that says that something does not fit."""
_REMEDY: Final = "call it where that holds, or compile the model again with an example where it does not"


NOTHING: Final[Mapping[Symbol, int]] = MappingProxyType({})
ASSUMPTIONS: Final = "isthmus.assumptions"
"""The key of a graph's metadata, and of a file's, that tells what it takes for granted, one thing a line."""


def assumptions(graph: Graph) -> list[str]:
    """What a graph takes for granted, in words; that of the file that it was read from first."""
    told = graph.metadata.get(ASSUMPTIONS, "").splitlines()
    stated = {line.partition(" (at ")[0].partition(", which ")[0] for line in told}  # by that file of another one
    found = [assumption.in_full for assumption in graph.symbols.assumptions if assumption.plain not in stated]
    return list(dict.fromkeys([*told, *found]))


def read_integers(graph: Graph) -> dict[Symbol, int]:
    """The symbols that a graph binds to an integer that is an input of one element, and the place of that input.

    Passes remove what binds a symbol once nothing uses it, and keep what is assumed about it: ask before they run.
    """
    places = {value: place for place, value in enumerate(graph.inputs)}
    found = {}
    for node in graph.nodes:
        if node.op.name == "bind":
            value = node.operands[0]
            while value is not None and value.producer is not None and _same_integer(value.producer):
                value = value.producer.operands[0]
            if value in places and value is not None and value.tensor.dtype.is_integer:
                found[node.attrs["symbol"]] = places[value]
    return found


_SAME: Final = ("cast", "reshape", "squeeze", "identity")


def _same_integer(node: Node) -> bool:
    """Whether a node hands an integer of one element on."""
    return node.op.name in _SAME and node.result.tensor.dtype.is_integer
"""Ops that leave an only element what it is."""


def check_inputs(
    graph: Graph, inputs: Sequence[Any], error: Raise = EvaluationError, integers: Mapping[Symbol, int] = NOTHING,
) -> dict[Symbol, int]:  # fmt: skip
    """Holds inputs against their types, and their sizes against the graph's assumptions and its symbols' ranges.

    Args:
        graph: a graph at the top.
        inputs: an array for each tensor input; others are not looked into.
        error: the kind to raise.
        integers: symbols that are the integers in some inputs, by these inputs' places: see `read_integers`.

    Returns:
        The size or integer that each symbol is bound to.

    Raises:
        error: an input has another dtype, rank or size; or a size or integer breaks an assumption or leaves a range.
    """
    if len(inputs) != len(graph.inputs):
        raise error(f"{graph.name} takes {len(graph.inputs)} inputs, got {len(inputs)}")
    sizes: dict[Symbol, int] = {}
    bind_inputs(graph, inputs, sizes, error)
    read = {symbol: int(inputs[place].reshape(-1)[0]) for symbol, place in integers.items()}
    sizes |= {symbol: number for symbol, number in read.items() if symbol.joined is None}
    check_sizes(graph.symbols, sizes, error)
    for symbol, number in read.items():
        _check_joined(graph.symbols, symbol, number, sizes, error)
    return sizes


def _check_joined(symbols: Symbols, symbol: Symbol, number: int, sizes: Mapping[Symbol, int], error: Raise) -> None:
    """Raises where an integer is another than that with which it was assumed to be the same."""
    try:
        expected = evaluate(resolve(symbol.dim), sizes)
    except KeyError:
        return
    except ZeroDivisionError:
        expected = None
    if expected != number:
        equal = (each for each in symbols.assumptions if each.relation == "==" and symbol.dim in (each.left, each.right))
        made = next(equal, None)
        known = ", ".join(f"{each}={size}" for each, size in {**sizes, symbol: number}.items())
        told = f"{symbol} == {resolve(symbol.dim)}" if made is None else made.told
        location = None if made is None else made.location
        raise error(f"the graph holds only for {told}", location=location, found=known, remedy=_REMEDY)


def bind_inputs(graph: Graph, inputs: Sequence[Any], sizes: dict[Symbol, int], error: Raise = EvaluationError) -> None:
    """Holds inputs against their types, and adds what their sizes bind."""
    later = []
    for value, content in zip(graph.inputs, inputs, strict=True):
        if isinstance(value.type, Tensor) and isinstance(content, np.ndarray):
            check_type(value, content, error)
            if value.type.shape is not None:
                for dim, size in zip(value.type.shape, content.shape, strict=True):
                    if isinstance(dim, Expr) and dim.symbol is not None:
                        sizes.setdefault(dim.symbol, size)
                later.append((value, value.type.shape, content.shape))
    for value, shape, actual in later:  # a dim over several symbols may stand in front of those that bind them
        check_shape(value, shape, actual, sizes, error)


def check_type(value: Value, array: np.ndarray[Any, Any], error: Raise = EvaluationError) -> None:
    """Raises where an array has another dtype or rank than its value."""
    type = value.type
    assert isinstance(type, Tensor)
    try:
        dtype = str(from_numpy(array.dtype))
    except KeyError:  # none of ours
        dtype = str(array.dtype)
    if dtype != str(type.dtype) or (type.shape is not None and len(type.shape) != array.ndim):
        what = f"{value.name or 'a value'} has another type"
        raise error(what, expected=str(type), found=f"{dtype}{list(array.shape)}", location=value.location)


def check_shape(
    value: Value, shape: Sequence[Dim], actual: Sequence[int], sizes: dict[Symbol, int], error: Raise = EvaluationError
) -> None:
    """Binds symbols that stand alone, and holds every other dim against the actual size."""
    for dim, size in zip(shape, actual, strict=True):
        if dim.__class__ is int:
            expected = dim
        elif (symbol := dim.symbol) is not None and symbol not in sizes:  # type: ignore[union-attr]
            sizes[symbol] = size
            continue
        else:
            try:
                expected = evaluate(resolve(dim), sizes)
            except KeyError:
                continue  # binds no symbol and uses one that nothing binds before
            except ZeroDivisionError:
                expected = None
        if expected != size:
            what = f"{value.name or 'a value'} has another size than its type says"
            known = ", ".join(f"{symbol}={number}" for symbol, number in sizes.items())
            found = f"{list(actual)}{f' with {known}' if known else ''}"
            raise error(what, expected=str(value.type), found=found, location=value.location)


def check_sizes(symbols: Symbols, sizes: Mapping[Symbol, int], error: Raise = EvaluationError) -> None:
    """Raises where sizes break an assumption or leave a range; what is about sizes that are known later is left."""
    known = ", ".join(f"{symbol}={number}" for symbol, number in sizes.items())
    for assumption in symbols.assumptions:
        try:
            holds = assumption.holds(sizes)
        except KeyError:
            continue
        if not holds:
            found = "; ".join(filter(None, (known, str(assumption.question or ""))))
            told = f"the graph holds only for {assumption.told}"
            raise error(told, location=assumption.location, found=found or None, remedy=_REMEDY)
    for symbol in symbols.by_name.values():
        try:
            size = evaluate(resolve(symbol.dim), sizes)
        except KeyError:
            continue
        except ZeroDivisionError:
            what = f"the size {symbol} = {resolve(symbol.dim)} divides by 0"
            raise error(what, expected=f"{symbol.lo} to {symbol.hi}", found=known) from None
        if not symbol.lo <= size <= symbol.hi:
            raise error(f"the size {symbol} is out of its range", expected=f"{symbol.lo} to {symbol.hi}", found=str(size))
