"""What is known about values without running the model: whether they depend on its inputs, and else their content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from isthmus.frontends.torch.spans import Span, span_of
from isthmus.ir import attributes, interpreter
from isthmus.ir.dims import Dim, Symbol, resolve, symbols
from isthmus.ir.errors import EvaluationError, IsthmusError
from isthmus.ir.graph import Graph, Node, Value, clone_node
from isthmus.ir.op import Trait
from isthmus.ir.types import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


class Dependence(IntEnum):
    """What a value depends on, at most."""

    NOTHING = 0
    SIZES = 1
    DATA = 2


class Known:
    """Dependence and content of the values of one capture, each computed once and only when asked for."""

    def __init__(self) -> None:
        self._depends: dict[Value, Dependence] = {}
        self._content: dict[Value, Any] = {}
        self._spans: dict[Value, Span | None] = {}
        self.examples: dict[Value, Callable[[], Array]] = {}
        """The content that inputs have in the example, for guesses."""
        self.assumed: dict[Value, Callable[[], None]] = {}
        """Inputs that are taken to have the example's content, and what is called when that is relied on first."""
        self._relied: set[Value] = set()

    def dependence(self, value: Value) -> Dependence:
        """What a value depends on: an input's content or a random number, sizes of inputs, or nothing."""
        stack = [value]
        found = self._depends
        while stack:
            top = stack[-1]
            if top in found:
                stack.pop()
                continue
            node = top.producer
            if node is None:
                found[top] = Dependence.NOTHING if top in self.assumed else Dependence.DATA
                continue
            missing = [used for used in node.walk_values() if used not in found]
            if missing:
                stack += missing
            else:
                found[top] = max(_own(node), *(found[used] for used in node.walk_values()), Dependence.NOTHING)
        return found[value]

    def content(self, value: Value, limit: int | None = None) -> Array | None:
        """The content of a value that depends on nothing.

        Args:
            value: a tensor value.
            limit: how many elements the computation may touch in all; None for any number.

        Returns:
            An array not to be written to; None when the value depends on something, or for want of the limit.
        """
        if value not in self._content:
            if self.dependence(value):
                return None
            graph, arguments, size = self._slice(value, {})
            if limit is not None and size > limit:
                return None
            (self._content[value],) = interpreter.run(graph, arguments)
        if self.assumed:
            self._rely_on(value)
        return np.asarray(self._content[value])

    def _rely_on(self, value: Value) -> None:
        """Tells of every assumed input that a value depends on."""
        stack = [value]
        while stack:
            top = stack.pop()
            if top not in self._relied:
                self._relied.add(top)
                stack += top.producer.walk_values() if top.producer is not None else ()
                if top in self.assumed:
                    self.assumed[top]()

    def taken(self) -> set[Value]:
        """The values whose content was asked for, and those that it was computed from."""
        found: set[Value] = set()
        stack = list(self._content)
        while stack:
            top = stack.pop()
            if top not in found:
                found.add(top)
                stack += top.producer.walk_values() if top.producer is not None else ()
        return found

    def span(self, value: Value) -> Span | None:
        """Between what numbers the elements of a value lie, whatever the inputs; None where nothing is known."""
        return span_of(value, self._spans)

    def at(self, value: Value, sizes: Callable[[Symbol], int]) -> Array | None:
        """The content that a value has when symbols have these sizes; None when it depends on data."""
        if self.dependence(value) is Dependence.DATA:
            return None
        if self.assumed:
            self._rely_on(value)
        nodes = self._slice(value, {})[0].nodes
        used = {symbol for node in nodes for symbol in node.symbols()}
        graph, arguments, _ = self._slice(value, {symbol: sizes(symbol) for symbol in used})
        return np.asarray(interpreter.run(graph, arguments)[0])

    def guess(self, value: Value) -> Array | None:
        """The content that a value has on the example inputs; None where an op cannot be evaluated or is random."""
        try:
            graph, arguments, _ = self._slice(value, {})
            return np.asarray(interpreter.run(graph, arguments)[0])
        except IsthmusError:
            return None

    def _slice(self, value: Value, sizes: Mapping[Symbol, Dim]) -> tuple[Graph, list[Any], int]:
        """The computation of a value as a graph of its own, with what is computed already as inputs."""
        nodes: dict[Node, None] = {}
        stack: list[tuple[Value, bool]] = [(value, False)]
        graph = Graph("known", value.owner.symbols)
        mapping: dict[Value, Value] = {}
        arguments = []
        size = 0
        while stack:
            top, ready = stack.pop()
            node = top.producer
            if node in nodes or top in mapping:
                continue
            if node is None:
                if top not in self.examples:
                    raise EvaluationError("no example is known for an argument of a nested graph")
                mapping[top] = graph.add_input(top.type)
                arguments.append(self.examples[top]())
            elif top in self._content:
                mapping[top] = graph.add_input(top.type)
                arguments.append(self._content[top])
            elif ready:
                nodes[node] = None
                for result in node.results:
                    if isinstance(result.type, Tensor) and Trait.CONSTANT not in node.op.traits:
                        shape = result.type.shape or ()
                        size += int(np.prod([dim for dim in shape if isinstance(dim, int)], dtype=np.int64))
            else:
                stack.append((top, True))
                stack += [(used, False) for used in node.walk_values()]
        for node in nodes:
            copy = graph.append(clone_node(node, mapping))
            if sizes:
                copy.attrs = {name: attributes.substituted(attr, sizes) for name, attr in copy.attrs.items()}
        graph.set_outputs([mapping[value]])
        return graph, arguments, size


def _own(node: Node) -> Dependence:
    """What a node's results depend on besides its operands."""
    inner = [Dependence.NOTHING, *(_own(one) for region in node.regions for one in region.walk())]
    if Trait.RANDOM in node.op.traits or Dependence.DATA in inner:
        return Dependence.DATA
    return Dependence.SIZES if any(_open(symbol.dim) for symbol in node.symbols()) else max(inner)


def _open(dim: Any) -> bool:
    return any(True for _ in symbols(resolve(dim)))
