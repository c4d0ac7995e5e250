"""Reads the text form that `isthmus.ir.printer` writes back into a graph.

One regular expression cuts the text into tokens; what is left is recursive descent over expressions and attributes, and
a stack over regions. Dims are put into normal form by algebra alone: symbols get their ranges last, so that what was
printed is what is read. Types are taken from the text; `isthmus.ir.verifier.verify` holds them against inference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.cursor import PLACE, TOKEN, Cursor, WrongError, read_location
from isthmus.ir.dims import INF, Bound, Dim, Symbol
from isthmus.ir.dtypes import dtype, is_dtype
from isthmus.ir.errors import InferError, ParseError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.location import UNKNOWN, Location
from isthmus.ir.op import OPS, Op
from isthmus.ir.symbols import Symbols
from isthmus.ir.types import Map, Optional, Tensor, Type, Unknown
from isthmus.ir.types import Sequence as SequenceType
from isthmus.ir.weights import ArrayWeight, Weight

_CONSTANTS: Final = {"true": True, "false": False, "none": None, "inf": INF, "nan": float("nan")}
_RELATIONS: Final = ("==", "!=", "<", "<=", ">", ">=")


def parse(text: str, weights: Mapping[str, Weight] | None = None) -> Graph:
    """The graph that a text form describes.

    Args:
        text: what `isthmus.ir.printer.print_graph` writes.
        weights: the weights that the text refers to, as `isthmus.ir.printer.weight_table` gives them.

    Raises:
        ParseError: the text is not one; it says line, column, what was expected and what was found.
    """
    parser = _Parser(TOKEN.findall(text), Symbols(), weights or {})
    try:
        return parser.module()
    except WrongError as wrong:
        expected, found = wrong.args
    except RecursionError:
        expected, found = "an expression that is nested less deeply", parser.tokens[parser.at]
    position = len(text)
    for number, token in enumerate(TOKEN.finditer(text)):
        if number == parser.at:
            position = token.start(1)
            break
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    raise ParseError(f"line {line}, column {column}", expected=expected, found=found or "the end of the text")


@dataclass(slots=True)
class _Pending:
    """A node whose regions are still being read."""

    definitions: list[tuple[str, Type]]
    op: Op
    operands: list[Value | None]
    attrs: dict[str, Any]
    regions: list[Graph] = field(default_factory=list)


class _Parser(Cursor):
    def __init__(self, tokens: list[str], symbols: Symbols, weights: Mapping[str, Weight]) -> None:
        super().__init__(tokens, symbols)
        self.weights = weights
        self.values: dict[str, Value] = {}
        self.types: dict[str, Type] = {}
        self.places: dict[str, Location] = {}
        self.ranges: dict[Symbol, tuple[Bound, Bound]] = {}
        self.joined: dict[Symbol, Dim] = {}

    def module(self) -> Graph:
        statements = {"symbol": self.declare, "join": self.join, "assume": self.assume, "either": self.exact}
        while (statement := statements.get(self.tokens[self.at])) is not None:
            self.at += 1
            statement()
        self.expect("graph")
        self.expect("@")
        graph = Graph(self.word(), self.symbols)
        if self.tokens[self.at] != "(":
            self.wrong("(")
        self.body(graph)
        if self.tokens[self.at]:
            self.wrong("the end of the text")
        self.settle()
        return graph

    # ---- symbols

    def declare(self) -> None:
        while True:
            at = self.at
            name = self.symbol_name()
            if name in self.symbols.by_name:
                self.at = at
                self.wrong("a symbol that was not declared before")
            # No range yet: dims must not be simplified by what was found out about a symbol after they were made.
            symbol = self.symbols.declare(name, -INF, INF)
            self.ranges[symbol] = (1, INF)
            if self.accept("in"):
                self.expect("[")
                lo = self.bound()
                self.expect(",")
                self.ranges[symbol] = (lo, self.bound())
                self.expect("]")
            if self.accept("hint"):
                symbol.hint = self.integer()
            if not self.accept(","):
                break

    def bound(self) -> Bound:
        sign = -1 if self.accept("-") else 1
        return sign * (INF if self.accept("inf") else self.integer())

    def join(self) -> None:
        symbol = self.symbol()
        self.expect("=")
        self.joined[symbol] = self.dim()

    def exact(self) -> None:
        for word in ("may", "be", "1"):
            self.expect(word)
        self.symbols.joins = False

    def assume(self) -> None:
        left = self.dim()
        relation = self.take()
        if relation not in _RELATIONS:
            self.at -= 1
            self.wrong(f"one of {' '.join(_RELATIONS)}")
        right = self.dim()
        self.symbols.location = self.location()
        self.symbols.assume(relation, left, right)

    def settle(self) -> None:
        """Lets the symbols know their ranges and what they were found to be equal to."""
        self.symbols.location = UNKNOWN
        for symbol, (lo, hi) in self.ranges.items():
            symbol.lo, symbol.hi = lo, hi
            symbol.joined = self.joined.get(symbol)
        self.symbols.remember()

    # ---- graphs

    def body(self, graph: Graph) -> None:
        """Reads a graph from its arguments to its closing bracket, and all nested ones."""
        self.arguments(graph)
        graphs = [graph]
        pending: list[_Pending] = []
        while True:
            token = self.tokens[self.at]
            if token == "return":
                self.at += 1
                graph.set_outputs(self.outputs())
                if self.tokens[self.at] != "}":
                    self.wrong("}")
            elif token == "metadata":
                self.at += 1
                key = self.word()
                self.expect("=")
                graph.metadata[key] = self.string()
            elif token == "default":
                self.at += 1
                name = self.word()
                self.expect("=")
                graph.defaults[name] = self.weight()
            elif token == "}":
                self.at += 1
                graphs.pop()
                if not graphs:
                    return
                node, inner, graph = pending[-1], graph, graphs[-1]
                node.regions.append(inner)
                if len(node.regions) == len(node.op.regions):
                    self.finish(graph, pending.pop())
                else:
                    graph = self.region(node, graphs)
            else:
                node = self.node()
                if node.op.regions:
                    pending.append(node)
                    graph = self.region(node, graphs)
                else:
                    self.finish(graph, node)

    def outputs(self) -> list[Value]:
        values = [self.value_used()]
        while self.accept(","):
            values.append(self.value_used())
        return values

    def region(self, node: _Pending, graphs: list[Graph]) -> Graph:
        slot = node.op.regions[len(node.regions)]
        self.expect(slot)
        graph = Graph(self.word() if self.accept("@") else slot, self.symbols)
        self.arguments(graph)
        graphs.append(graph)
        return graph

    def arguments(self, graph: Graph) -> None:
        if self.accept("("):
            while not self.accept(")"):
                if graph.inputs:
                    self.expect(",")
                token, type = self.definition()
                self.define(token, graph.add_input(type))
        self.expect("{")

    def node(self) -> _Pending:
        tokens = self.tokens
        definitions = []
        if tokens[self.at].startswith("%"):
            definitions.append(self.definition())
            while self.accept(","):
                definitions.append(self.definition())
            self.expect("=")
        op = OPS.get(tokens[self.at])
        if op is None:
            self.wrong("an op" if self.tokens[self.at].isidentifier() else "a node, return or }")
        at = self.at
        self.at += 1
        self.expect("(")
        operands = self.operands(op)
        attrs = self.table() if tokens[self.at] == "{" else {}
        try:
            normal = op.normalize(attrs)
        except InferError as error:
            self.at = at
            self.wrong(f"attributes as {op.name} has them", f"{error.message} (expected: {error.expected})")
        return _Pending(definitions, op, operands, normal)

    def finish(self, graph: Graph, pending: _Pending) -> None:
        types = [type for _, type in pending.definitions]
        node = Node(pending.op, pending.operands, pending.attrs, types, pending.regions, self.location())
        graph.append(node)
        for (token, _), value in zip(pending.definitions, node.results, strict=True):
            self.define(token, value)

    def operands(self, op: Op) -> list[Value | None]:
        operands: list[Value | None] = []
        count = 0
        while not self.accept(")"):
            if count:
                self.expect(",")
            if count < len(op.operands) and op.operands[count].variadic:
                self.expect("[")
                first = True
                while not self.accept("]"):
                    if not first:
                        self.expect(",")
                    first = False
                    operands.append(None if self.accept("none") else self.value_used())
            else:
                operands.append(None if self.accept("none") else self.value_used())
            count += 1
        if count != len(op.operands):
            self.at -= 1
            self.wrong(f"{len(op.operands)} operands of {op.name}", f"{count}")
        return operands

    def value_used(self) -> Value:
        found = self.values.get(self.tokens[self.at])
        if found is None:
            self.wrong("a value that is defined before")
        self.at += 1
        return found

    def definition(self) -> tuple[str, Type]:
        token = self.tokens[self.at]
        if len(token) < 2 or token[0] != "%":
            self.wrong("a value")
        if token in self.values:
            self.wrong("a name that is not taken")
        self.at += 1
        self.expect(":")
        type = self.type()
        if isinstance(type, Tensor) and None in (type.shape or ()):
            self.at -= 1
            self.wrong("a type whose sizes are known; ? stands in sequences and optionals")
        return token, type

    def define(self, token: str, value: Value) -> None:
        self.values[token] = value
        if not token[1:].isdecimal():
            name = re.sub(r"~\d+$", "", token[1:])
            value.name = self.string(name) if name.startswith('"') else name

    def location(self) -> Location:
        token = self.tokens[self.at]
        if not token.startswith("#"):
            return UNKNOWN
        found = self.places.get(token)
        if found is None:
            words = Cursor(PLACE.findall(token[1:]), self.symbols)
            found = self.places[token] = read_location(words)
            if words.tokens[words.at]:
                words.wrong("a location: module, file:line, in function, by pass, + (location)")
        self.at += 1
        return found

    # ---- types and attributes

    def type(self) -> Type:
        token = self.tokens[self.at]
        found = self.types.get(token)
        if found is not None:
            self.at += 1
            return found
        if token in ("seq", "opt"):
            self.at += 1
            self.expect("<")
            element = self.type()
            self.expect(">")
            return SequenceType(element) if token == "seq" else Optional(element)
        if token == "map":
            self.at += 1
            self.expect("<")
            key = self.tokens[self.at]
            if not is_dtype(key):
                self.wrong("a type of keys")
            self.at += 1
            self.expect(",")
            element = self.type()
            self.expect(">")
            return Map(dtype(key), element)
        if token == "?":
            self.at += 1
            return Unknown()
        name, bracket, rest = token.partition("[")
        if not rest or not is_dtype(name):
            self.wrong("a type")
        inner = Cursor(TOKEN.findall(bracket + rest), self.symbols)
        found = self.types[token] = Tensor(dtype(name), inner.shape())
        self.at += 1
        return found

    def table(self) -> dict[str, Any]:
        self.expect("{")
        values: dict[str, Any] = {}
        while not self.accept("}"):
            if values:
                self.expect(",")
            key = self.word()
            if key in values:
                self.at -= 1
                self.wrong("a key that was not given before")
            self.expect("=")
            values[key] = self.value()
        return values

    def value(self) -> Any:
        token = self.tokens[self.at]
        if token in _CONSTANTS:
            self.at += 1
            return _CONSTANTS[token]
        special = _VALUES.get(token[:1])
        if special is not None:
            return special(self)
        if is_dtype(token):
            self.at += 1
            return dtype(token)
        if token == "weight":
            return self.weight()
        if token in ("seq", "opt", "map", "?") or token.endswith("]"):
            return self.type()
        number = self.tokens[self.at + 1] if token == "-" else token
        return self.number() if number in ("inf", "nan") or _is_float(number) else self.dim()

    def items(self) -> tuple[Any, ...]:
        self.expect("[")
        values: list[Any] = []
        while not self.accept("]"):
            if values:
                self.expect(",")
            values.append(self.value())
        return tuple(values)

    def symbol_itself(self) -> Symbol:
        self.expect("$")
        return self.symbol()

    def number(self) -> float:
        """A float, or an integer where a float is wanted."""
        sign = -1.0 if self.accept("-") else 1.0
        token = self.tokens[self.at]
        if token not in ("inf", "nan") and not _is_float(token) and not token.isdecimal():
            self.wrong("a number")
        self.at += 1
        return sign * float(token)

    def weight(self) -> Weight:
        self.expect("weight")
        self.expect("<")
        name = self.string() if self.tokens[self.at].startswith('"') else ""
        at = self.at
        type = self.type()
        if not isinstance(type, Tensor) or type.shape is None or not all(isinstance(size, int) for size in type.shape):
            self.at = at
            self.wrong("a tensor's type with integer sizes")
        shape = tuple(int(str(size)) for size in type.shape)
        if self.accept(">"):
            found = self.weights.get(name)
            if found is None or (found.dtype, found.shape) != (type.dtype, shape):
                self.at = at
                self.wrong(f"a weight {name!r} among those given", repr(found) if found else None)
            return found
        array = self.elements(type.dtype)
        if array.size != math.prod(shape):
            self.at -= 1
            self.wrong(f"{math.prod(shape)} elements", f"{array.size}")
        self.expect(">")
        return ArrayWeight(array.reshape(shape), name)

    def elements(self, element: dtypes.DType) -> Any:
        """A list of elements, exactly as they were written."""
        parts = np.dtype(f"f{element.numpy.itemsize // 2}") if element.is_complex else element.numpy
        read = _ELEMENTS[element.kind]
        found: list[Any] = []
        self.expect("[")
        while not self.accept("]"):
            if found:
                self.expect(",")
            token = self.tokens[self.at]
            if token.startswith("0x"):  # a nan by its bits
                self.at += 1
                found.append(np.array(int(token, 16), f"u{parts.itemsize}").view(parts)[()])
                continue
            at = self.at
            try:
                found.append(parts.type(read(self)) if element.kind != "string" else read(self))
            except (OverflowError, ValueError):
                self.at = at
                self.wrong(f"an element of {element}")
        if element.is_complex and len(found) % 2:
            self.wrong("an imaginary part")
        return np.array(found, parts).view(element.numpy) if element.is_complex else np.array(found, parts)


def _is_float(token: str) -> bool:
    return token[:1].isdecimal() and not token.isdecimal() and not token.startswith("0x")


def _boolean(cursor: _Parser) -> bool:
    if cursor.accept("true"):
        return True
    cursor.expect("false")
    return False


_ELEMENTS: Final[dict[str, Callable[[_Parser], Any]]] = {
    "float": _Parser.number,
    "complex": _Parser.number,
    "int": _Parser.integer,
    "uint": _Parser.integer,
    "bool": _boolean,
    "string": _Parser.string,
}
_VALUES: Final[dict[str, Callable[[_Parser], Any]]] = {
    '"': _Parser.string,
    "[": _Parser.items,
    "{": _Parser.table,
    "$": _Parser.symbol_itself,
}
