"""What is known about values without running the model: whether they depend on its inputs, and else their content."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.ir import interpreter
from isthmus.ir.dims import resolve, symbols
from isthmus.ir.graph import Graph, Node, Value, clone_node
from isthmus.ir.op import Trait
from isthmus.ir.types import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


class Known:
    """Dependence and content of the values of one capture, each computed once and only when asked for."""

    def __init__(self) -> None:
        self._depends: dict[Value, bool] = {}
        self._content: dict[Value, Any] = {}

    def depends(self, value: Value) -> bool:
        """Whether a value depends on an input, a size or a random number."""
        stack = [value]
        found = self._depends
        while stack:
            top = stack[-1]
            if top in found:
                stack.pop()
                continue
            node = top.producer
            if node is None:
                found[top] = True
                continue
            missing = [used for used in node.walk_values() if used not in found]
            if missing:
                stack += missing
            else:
                found[top] = _varies(node) or any(found[used] for used in node.walk_values())
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
            if self.depends(value):
                return None
            graph, arguments, size = self._slice(value)
            if limit is not None and size > limit:
                return None
            (self._content[value],) = interpreter.run(graph, arguments)
        return np.asarray(self._content[value])

    def _slice(self, value: Value) -> tuple[Graph, list[Any], int]:
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
            assert node is not None, "an input is not known"
            if node in nodes or top in mapping:
                continue
            if top in self._content:
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
            graph.append(clone_node(node, mapping))
        graph.set_outputs([mapping[value]])
        return graph, arguments, size


def _varies(node: Node) -> bool:
    """Whether a node's results vary though its operands do not."""
    if Trait.RANDOM in node.op.traits or any(_open(symbol.dim) for symbol in node.symbols()):
        return True
    return any(_varies(inner) for region in node.regions for inner in region.walk())


def _open(dim: Any) -> bool:
    return any(True for _ in symbols(resolve(dim)))
