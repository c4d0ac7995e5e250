"""What to do about what a target does not take, in the words of where the model comes from: a file, or code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from isthmus.ir.dims import Dim, Symbol, evaluate, symbols
from isthmus.ir.graph import Graph, Value, type_symbols
from isthmus.ir.interface import KEY
from isthmus.ir.types import Tensor

PICTURE: Final = 224
SERIES: Final = 16
"""What stands for a size in an example, behind the first axis."""


def open_sizes(values: Iterable[Value]) -> list[Symbol]:
    """The symbols that the sizes of values are made of, by name."""
    return sorted({symbol for value in values for symbol in type_symbols(value.type)}, key=lambda symbol: symbol.name)


def fix_sizes(graph: Graph, found: Sequence[Symbol]) -> str | None:
    """How numbers come in the place of sizes that inputs leave open; None where some are no sizes of inputs.

    Args:
        graph: the model, or a graph in it.
        found: the symbols of these sizes.
    """
    inputs = graph.root.inputs
    if not found or not {symbol for value in inputs for symbol in type_symbols(value.type)}.issuperset(found):
        return None
    names = _listed([symbol.name for symbol in found])
    if not _from_file(graph):
        return f"leave {names} out of dynamic_shapes, and compile once for each size that you need"
    specs = {value.name: _spec(value, set(found)) for value in inputs if not set(type_symbols(value.type)).isdisjoint(found)}
    python = ", ".join(f"{name!r}: isthmus.spec({text!r})" for name, text in specs.items())
    shell = " ".join(f"--input {name}={text}" for name, text in specs.items())
    example = f"isthmus.compile(path, {{{python}}}), or {shell}"
    return f"give numbers for {names}, once for each size that you need, such as {example}"


def in_floats(graph: Graph) -> str:
    """How a model comes to compute in float32."""
    return "export the model in float32" if _from_file(graph) else "give the model and its inputs in float32: model.float()"


def _from_file(graph: Graph) -> bool:
    return KEY in graph.root.metadata


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _spec(value: Value, fixed: set[Symbol]) -> str:
    """The type of an input with numbers in place of these symbols, and of what `isthmus.spec` has no form for."""
    assert isinstance(value.type, Tensor)
    shape = value.type.shape or ()
    sizes = [_size(dim, fixed, 1 if axis == 0 else PICTURE if len(shape) > 3 else SERIES) for axis, dim in enumerate(shape)]
    return f"{value.type.dtype}[{','.join(map(str, sizes))}]"


def _size(dim: Dim, fixed: set[Symbol], example: int) -> int | str:
    if isinstance(dim, int):
        return dim
    stays = dim.symbol is not None and dim.symbol not in fixed and re.fullmatch(r"[^\W\d]\w*", dim.symbol.name)
    return str(dim) if stays else evaluate(dim, {symbol: symbol.hint or example for symbol in symbols(dim)})
