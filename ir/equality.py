"""Whether two graphs are the same, and if not, where they first differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isthmus.ir import nested
from isthmus.ir.attributes import symbols_in
from isthmus.ir.dims import Symbol, symbols
from isthmus.ir.graph import Graph, Node, Value, type_symbols
from isthmus.ir.location import Location
from isthmus.ir.printer import attribute_text, location_text, symbol_text
from isthmus.ir.types import Type
from isthmus.ir.weights import Weight


def equal(a: Graph, b: Graph, locations: bool = False) -> bool:
    """Whether two graphs are structurally equal; see `difference`."""
    return difference(a, b, locations) is None


def difference(a: Graph, b: Graph, locations: bool = False) -> str | None:
    """The first difference between two graphs in words, or None when they are structurally equal.

    Ops, operands, attributes, types, regions, outputs, the names of graphs and of their inputs and what is assumed must
    agree. Symbols are matched by name; those in use must have the same range and hint. Weights are the same when they
    are handles onto the same data or when their content is the same; the names of handles do not matter.

    Args:
        a: one graph.
        b: the other one.
        locations: whether locations, metadata and the names of results must agree, too.
    """
    try:
        nested.run(_Comparison(locations).module(a, b))
    except _DifferentError as different:
        return str(different)
    return None


class _DifferentError(Exception):
    pass


def _differ(where: str, a: object, b: object) -> None:
    raise _DifferentError(f"{where}: {a} in one, {b} in the other")


class _Comparison:
    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.counterpart: dict[Value, Value] = {}
        self.texts: dict[Type, str] = {}
        self.used: dict[Symbol, None] = {}
        self.places: dict[Location, str] = {}

    def module(self, a: Graph, b: Graph) -> nested.Steps:
        yield self.graph(a, b)
        self.assumptions(a, b)
        theirs = b.symbols.by_name
        for symbol in self.used:
            other = theirs.get(symbol.name)
            if other is not symbol and other is not None:
                texts = [f"{symbol_text(s)}{'' if s.joined is None else f' = {s.joined}'}" for s in (symbol, other)]
                self.same(f"symbol {symbol}", *texts)

    def assumptions(self, a: Graph, b: Graph) -> None:
        first, second = a.symbols.assumptions, b.symbols.assumptions
        self.same("the number of assumptions", len(first), len(second))
        for number, (left, right) in enumerate(zip(first, second, strict=True)):
            self.use(symbols(left.left - left.right))
            self.same(f"assumption {number}", str(left), str(right))
            if self.locations:
                self.same(f"the location of assumption {number}", left.location, right.location)

    def graph(self, a: Graph, b: Graph) -> nested.Steps:
        where = f"graph {a.name}"
        self.same("the name of a graph", a.name, b.name)
        self.same(f"{where}: the number of inputs", len(a.inputs), len(b.inputs))
        for number, (left, right) in enumerate(zip(a.inputs, b.inputs, strict=True)):
            self.same(f"{where}: the name of input {number}", left.name, right.name)
            self.value(f"{where}: input {left.name or number}", left, right)
        if self.locations:
            self.same(f"{where}: metadata", a.metadata, b.metadata)
        self.attribute(f"{where}: the defaults of inputs", a.defaults, b.defaults)
        for number, (node, other) in enumerate(zip(a.nodes, b.nodes, strict=False)):
            place = f"{where}, node {number} ({node.op.name} at {node.location})"
            self.node(place, node, other)
            for mine, theirs in zip(node.regions, other.regions, strict=True):
                yield self.graph(mine, theirs)
            for index, (left, right) in enumerate(zip(node.results, other.results, strict=True)):
                self.value(f"{place}: result {index}", left, right)
                if self.locations:
                    self.same(f"{place}: the name of result {index}", left.name, right.name)
        self.same(f"{where}: the number of nodes", len(a), len(b))
        self.same(f"{where}: the number of outputs", len(a.outputs), len(b.outputs))
        for number, (left, right) in enumerate(zip(a.outputs, b.outputs, strict=True)):
            self.operand(f"{where}: output {number}", left, right)

    def node(self, where: str, a: Node, b: Node) -> None:
        self.same(f"{where}: the op", a.op.name, b.op.name)
        self.same(f"{where}: the number of operands", len(a.operands), len(b.operands))
        for index, (left, right) in enumerate(zip(a.operands, b.operands, strict=True)):
            self.operand(f"{where}: operand {index}", left, right)
        self.same(f"{where}: the attributes", list(a.attrs), list(b.attrs))
        for name, value in a.attrs.items():
            self.attribute(f"{where}: attribute {name}", value, b.attrs[name])
        self.same(f"{where}: the number of results", len(a.results), len(b.results))
        self.same(f"{where}: the number of regions", len(a.regions), len(b.regions))
        if self.locations and a.location is not b.location and a.location != b.location:
            _differ(f"{where}: the location", location_text(a.location), location_text(b.location))

    def same(self, where: str, a: object, b: object) -> None:
        if a != b:
            _differ(where, a, b)

    def use(self, used: Iterable[Symbol]) -> None:
        self.used.update(dict.fromkeys(used))

    def operand(self, where: str, a: Value | None, b: Value | None) -> None:
        # A value from outside both graphs is its own counterpart.
        if (a if a is None else self.counterpart.get(a, a)) is not b:
            _differ(where, a, b)

    def value(self, where: str, a: Value, b: Value) -> None:
        self.counterpart[a] = b
        if a.type is not b.type:
            self.same(f"{where}: the type", self.text(a.type), self.text(b.type))

    def text(self, type: Type) -> str:
        found = self.texts.get(type)
        if found is None:
            found = self.texts[type] = str(type)
            self.use(type_symbols(type))
        return found

    def attribute(self, where: str, a: Any, b: Any) -> None:
        if a is b or (a.__class__ in (int, str, bool) and a.__class__ is b.__class__ and a == b):
            return
        self.same(f"{where}: the kind", a.__class__ if not isinstance(a, Weight) else Weight,
                  b.__class__ if not isinstance(b, Weight) else Weight)  # fmt: skip
        if isinstance(a, Weight):
            if a.key != b.key:
                self.same(where, f"{a.dtype}{list(a.shape)}", f"{b.dtype}{list(b.shape)}")
                self.same(f"{where}: the content", a.digest(), b.digest())
        elif isinstance(a, (tuple, dict)):
            if isinstance(a, dict):
                self.same(f"{where}: the keys", list(a), list(b))
                a, b = tuple(a.values()), tuple(b.values())
            self.same(f"{where}: the length", len(a), len(b))
            for index, (left, right) in enumerate(zip(a, b, strict=True)):
                self.attribute(f"{where}[{index}]", left, right)
        else:
            self.use(symbols_in(a))
            self.same(where, attribute_text(a), attribute_text(b))
