"""The text form of a graph, for people and for golden tests. `isthmus.ir.parser` reads it back.

::

    symbol N in [1, 64] hint 3
    assume N == M   # model.py:12 in forward
    graph @main(%x: f32[N, 3, 224, 224], %w: f32[64, 3, 11, 11]) {
      metadata framework = "torch 2.9"
      %0: f32[N, 64, 55, 55] = conv(%x, %w, none) {strides=[4, 4], pads=[2, 2, 2, 2]}   # features.0  model.py:31 in forward
      %y: f32[N, 64, 55, 55] = if(%c) then {
        return %0
      } else {
        %1: f32[N, 64, 55, 55] = neg(%0)
        return %1
      }
      return %y
    }

A value is written under its own name, with ``~1`` behind it where the name is taken, and under a number when it has
none. Attributes at their default are left out. A weight of a few elements stands there in full, in row-major order
(complex ones as real and imaginary parts in turn); any other is a reference into `weight_table`. ``default x = weight<...>``
is the content that an input has where a call leaves it out. ``either may be 1`` says that nothing is taken for granted there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from isthmus.ir import nested
from isthmus.ir.attributes import REQUIRED
from isthmus.ir.dims import INF, Bound, Expr, Symbol
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.location import Location
from isthmus.ir.op import Op
from isthmus.ir.types import Map, Optional, Sequence, Tensor, Type, Unknown
from isthmus.ir.weights import Weight

INLINE: Final = 16
"""The most elements of a weight that are written out."""


def print_graph(graph: Graph, locations: bool = True, inline: int = INLINE) -> str:
    """The text form of a graph.

    Args:
        graph: the graph; a nested one is printed without what is around it.
        locations: whether to say where each node comes from.
        inline: weights of up to this many elements are written out, others by reference.

    Raises:
        TypeError: an attribute has no text form.
    """
    writer = _Writer(locations, inline)
    writer.write(graph)
    return "\n".join(writer.lines) + "\n"


def weight_table(graph: Graph, inline: int = INLINE) -> dict[str, Weight]:
    """The weights that `print_graph` writes by reference, by the names it gives them."""
    writer = _Writer(False, inline)
    writer.write(graph)
    return writer.weights


def excerpt(graph: Graph, node: Node | None, count: int = 10) -> str:
    """About `count` lines of the text form around a node, its own line marked; the first ones for None. Never fails."""
    writer = _Writer(True, INLINE, strict=False)
    writer.write(graph)
    line = writer.line_of.get(node, 0) if node is not None else 0
    start = max(0, min(line - count // 2, len(writer.lines) - count))
    numbered = enumerate(writer.lines[start : start + count], start)
    return "\n".join(f"{'>' if node is not None and number == line else ' '} {text}" for number, text in numbered)


def attribute_text(value: object, inline: int = INLINE) -> str:
    """The text form of an attribute's value.

    Raises:
        TypeError: it has none.
    """
    return _Writer(False, inline).value(value)


def quote(text: str) -> str:
    """The text as a string literal on one line."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


_WORD: Final = re.compile(r"[^\W\d][\w.]*")


def word(text: str) -> str:
    """The text bare, or as a string literal where it is not a plain word."""
    return text if _WORD.fullmatch(text) else quote(text)


_PLACE: Final = re.compile(r'[^\s"()]+')


def _place(text: str, is_file: bool = False) -> str:
    bare = _PLACE.fullmatch(text) and text.isprintable() and text not in ("in", "by", "+")
    return text if bare and (is_file or not re.search(r":\d+$", text)) else quote(text)


def location_text(location: Location) -> str:
    """A location in full, on one line; empty for an unknown one."""
    parts = [_place(location.module)] if location.module else []
    line = [f"{_place(location.file, is_file=True)}:{location.line}"] if location.file or location.line else []
    if location.function:
        line.append(f"in {_place(location.function)}")
    if line:
        parts.append(" ".join(line))
    parts += [f"by {_place(maker)}" for maker in location.made_by]
    parts += [f"+ ({location_text(other)})" for other in location.merged]
    return "  ".join(parts)


def _bound(bound: Bound) -> str:
    return str(bound) if abs(bound) == INF else str(int(bound))


def symbol_text(symbol: Symbol) -> str:
    """A symbol with its range and hint."""
    text = symbol.key
    if (symbol.lo, symbol.hi) != (1, INF):
        text += f" in [{_bound(symbol.lo)}, {_bound(symbol.hi)}]"
    return text if symbol.hint is None else f"{text} hint {symbol.hint}"


def _float(element: Any) -> str:
    """A float of any dtype in the fewest digits that give it back; a nan of unusual bits as its bits."""
    if element != element:
        bits = np.asarray(element).view(f"u{element.dtype.itemsize}")
        usual = np.asarray(np.nan, element.dtype).view(bits.dtype)
        return "nan" if bits == usual else f"{int(bits):#x}"
    short = str(element)
    return short if element.dtype.type(float(short)) == element else repr(float(element))


_ELEMENT: Final[dict[str, Callable[[Any], str]]] = {
    "float": _float,
    "int": lambda element: str(int(element)),
    "uint": lambda element: str(int(element)),
    "bool": lambda element: "true" if element else "false",
    "string": quote,
}


def _elements(weight: Weight) -> str:
    flat = np.ascontiguousarray(weight.array()).reshape(-1)
    if weight.dtype.is_complex:
        flat, kind = flat.view(f"f{flat.dtype.itemsize // 2}"), "float"
    else:
        kind = weight.dtype.kind
    return ", ".join(map(_ELEMENT[kind], flat))


class _Writer:
    def __init__(self, locations: bool, inline: int, strict: bool = True) -> None:
        self.locations = locations
        self.strict = strict
        self.inline = inline
        self.lines: list[str] = []
        self.line_of: dict[Node, int] = {}
        self.weights: dict[str, Weight] = {}
        self._references: dict[int, str] = {}
        self._names: dict[Value, str] = {}
        self._repeats: dict[str, int] = {}
        self._numbered = 0
        self._types: dict[Type, str] = {}
        self._places: dict[Location, str] = {}
        self._rows: dict[Op, tuple[int | None, dict[str, str]]] = {}

    def write(self, graph: Graph) -> None:
        table = graph.symbols
        for symbol in table.by_name.values():
            self.lines.append(f"symbol {symbol_text(symbol)}")
        for symbol in table.by_name.values():
            if symbol.joined is not None:
                self.lines.append(f"join {symbol} = {symbol.joined}")
        if not table.joins:
            self.lines.append("either may be 1")
        for assumption in table.assumptions:
            self.lines.append(f"assume {assumption}{self.place(assumption.location)}")
        self.lines.append(f"graph @{word(graph.name)}{self.arguments(graph, '()')} {{")
        nested.run(self.body(graph, "  "))
        self.lines.append("}")

    def body(self, graph: Graph, indent: str) -> nested.Steps:
        lines = self.lines
        lines.extend(f"{indent}metadata {word(key)} = {quote(text)}" for key, text in graph.metadata.items())
        lines.extend(f"{indent}default {word(name)} = {self.weight(given)}" for name, given in graph.defaults.items())
        for node in graph.nodes:
            self.line_of[node] = len(lines)
            line = indent + self.head(node)
            for number, region in enumerate(node.regions):
                slot = node.op.regions[number] if number < len(node.op.regions) else "region"
                name = "" if region.name == slot else f" @{word(region.name)}"
                lines.append(f"{line} {slot}{name}{self.arguments(region, '')} {{")
                yield self.body(region, indent + "  ")
                line = indent + "}"
            lines.append(line + self.place(node.location))
        if graph.outputs:
            lines.append(f"{indent}return {', '.join(map(self.name, graph.outputs))}")

    def arguments(self, graph: Graph, none: str) -> str:
        return f"({', '.join(map(self.definition, graph.inputs))})" if graph.inputs else none

    def head(self, node: Node) -> str:
        variadic, defaults = self.row(node.op)
        names = ["none" if operand is None else self.name(operand) for operand in node.operands]
        if variadic is not None:
            stop = variadic + len(names) - len(node.op.operands) + 1
            names[variadic:stop] = [f"[{', '.join(names[variadic:stop])}]"]
        text = f"{node.op.name}({', '.join(names)})"
        if node.results:
            text = f"{', '.join(map(self.definition, node.results))} = {text}"
        if node.attrs:
            attrs = [(name, self.value(value)) for name, value in node.attrs.items()]
            given = [f"{name}={form}" for name, form in attrs if defaults.get(name) != form]
            if given:
                text += f" {{{', '.join(given)}}}"
        return text

    def row(self, op: Op) -> tuple[int | None, dict[str, str]]:
        """Where an op's variadic operand stands, and the text of its attributes' defaults."""
        found = self._rows.get(op)
        if found is None:
            variadic = next((index for index, operand in enumerate(op.operands) if operand.variadic), None)
            given = ((name, attribute.default) for name, attribute in op.attributes.items())
            found = self._rows[op] = variadic, {name: self.value(value) for name, value in given if value is not REQUIRED}
        return found

    def place(self, location: Location) -> str:
        if not self.locations:
            return ""
        found = self._places.get(location)
        if found is None:
            text = location_text(location)
            found = self._places[location] = f"   # {text}" if text else ""
        return found

    def name(self, value: Value) -> str:
        found = self._names.get(value)
        if found is None:
            if value.name:
                found = f"%{word(value.name)}"
                repeats = self._repeats[found] = self._repeats.get(found, -1) + 1
                if repeats:
                    found = f"{found}~{repeats}"
            else:
                found = f"%{self._numbered}"
                self._numbered += 1
            self._names[value] = found
        return found

    def definition(self, value: Value) -> str:
        type = self._types.get(value.type)
        if type is None:
            type = self._types[value.type] = str(value.type)
        return f"{self.name(value)}: {type}"

    def value(self, value: Any) -> str:
        form = _FORMS.get(value.__class__)
        if form is not None:
            return form(self, value)
        if isinstance(value, Weight):
            return self.weight(value)
        if not self.strict:
            return f"<{value!r}>"
        raise TypeError(f"{value!r} has no text form")

    def items(self, values: tuple[Any, ...]) -> str:
        return f"[{', '.join(map(self.value, values))}]"

    def table(self, values: dict[str, Any]) -> str:
        return f"{{{', '.join(f'{word(key)}={self.value(value)}' for key, value in values.items())}}}"

    def weight(self, weight: Weight) -> str:
        type = f"{weight.dtype}[{', '.join(map(str, weight.shape))}]"
        if weight.size <= self.inline:
            name = f"{quote(weight.name)} " if weight.name else ""
            return f"weight<{name}{type} [{_elements(weight)}]>"
        reference = self._references.get(id(weight))
        if reference is None:
            reference = base = weight.name or "weight"
            number = 0
            while reference in self.weights:
                number += 1
                reference = f"{base}~{number}"
            self._references[id(weight)] = reference
            self.weights[reference] = weight
        return f"weight<{quote(reference)} {type}>"


_FORMS: Final[dict[Any, Callable[[_Writer, Any], str]]] = {
    int: lambda _, value: str(value),
    float: lambda _, value: repr(value),
    bool: lambda _, value: "true" if value else "false",
    str: lambda _, value: quote(value),
    type(None): lambda _, value: "none",
    DType: lambda _, value: str(value.name),
    Expr: lambda _, value: str(value),
    Symbol: lambda _, value: f"${value.key}",
    Tensor: lambda _, value: str(value),
    Sequence: lambda _, value: str(value),
    Optional: lambda _, value: str(value),
    Map: lambda _, value: str(value),
    Unknown: lambda _, value: str(value),
    tuple: _Writer.items,
    dict: _Writer.table,
}
