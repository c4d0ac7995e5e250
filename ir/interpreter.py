"""Evaluates graphs with numpy, op by op: the yardstick for everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from isthmus.ir import attributes
from isthmus.ir.builder import Builder
from isthmus.ir.checks import bind_inputs, check_shape, check_sizes, check_type
from isthmus.ir.dims import Dim, Symbol, evaluate, resolve
from isthmus.ir.dtypes import from_numpy
from isthmus.ir.errors import EvaluationError, IsthmusError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Call, Op
from isthmus.ir.types import Optional, Tensor, Type
from isthmus.ir.types import Sequence as SequenceType

Listener = Callable[[Node, Sequence[Any]], None]
Foreign = Callable[[Node, Sequence[Any]], tuple[Any, ...]]
"""Given a node of an op that the table does not know, and its operands' contents, gives those of its results."""


def run(
    graph: Graph, inputs: Sequence[Any], listener: Listener | None = None, foreign: Foreign | None = None,
) -> list[Any]:  # fmt: skip
    """The outputs of a graph on these inputs.

    Args:
        graph: a graph at the top.
        inputs: an array for each tensor input, a list for each sequence, None for an absent optional.
        listener: called with each node and its results' content, right after it was evaluated.
        foreign: evaluates `custom` nodes; without it they cannot be.

    Raises:
        EvaluationError: an input does not fit its type, sizes contradict each other or what the graph assumes, or a
            node cannot be evaluated.
    """
    interpreter = _Interpreter(listener, foreign)
    dims: dict[Symbol, int] = {}
    interpreter.enter(graph, _arrays(graph, inputs), dims)
    check_sizes(graph.symbols, dims)
    return interpreter.body(graph, dims)


class _Interpreter:
    """The values computed so far. Values are unique in the whole model, so one table serves all nested graphs."""

    def __init__(self, listener: Listener | None, foreign: Foreign | None) -> None:
        self.env: dict[Value, Any] = {}
        self.listener = listener
        self.foreign = foreign
        self.dying: dict[Graph, dict[Node, list[Value]]] = {}

    def enter(self, graph: Graph, arguments: Sequence[Any], dims: dict[Symbol, int]) -> None:
        self.env.update(zip(graph.inputs, arguments, strict=True))
        bind_inputs(graph, arguments, dims)

    def body(self, graph: Graph, dims: dict[Symbol, int]) -> list[Any]:
        dying = self.dying.get(graph)
        if dying is None:
            dying = self.dying[graph] = _last_uses(graph)
        for node in graph.nodes:
            self.step(node, dims)
            for value in dying.get(node, ()):
                self.env.pop(value, None)
        return [self.env[value] for value in graph.outputs]

    def step(self, node: Node, dims: dict[Symbol, int]) -> None:
        def concrete(dim: Dim) -> int:
            return evaluate(resolve(dim), dims)

        def size(dim: Dim) -> int | None:
            try:
                return concrete(dim)
            except KeyError:
                return None

        operands = [None if value is None else self.env[value] for value in node.operands]
        try:
            attrs = {
                name: attr if node.op.attributes[name] is attributes.TYPES else attributes.map_dims(attr, concrete)
                for name, attr in node.attrs.items()  # types of results have symbols that the results bind
            }
            call = Call(node.op, [type_of(x) for x in operands], attrs, node.regions, None, node.operands)
            call.run = lambda region, arguments: self.region(region, arguments, dims)
            call.size = size
            if self.foreign is not None:
                call.foreign = partial(self.foreign, node)
            found = node.op.evaluate(call, *node.op.group(operands))
        except IsthmusError as error:
            error.location = error.location or node.location
            raise
        except KeyError as error:
            raise EvaluationError(f"nothing binds {error}", op=node.op.name, location=node.location) from error
        except (ArithmeticError, ValueError, IndexError, TypeError, MemoryError) as error:
            raise EvaluationError(str(error), op=node.op.name, location=node.location) from error
        results = found if isinstance(found, tuple) else (found,)
        if len(results) != len(node.results):
            raise EvaluationError(f"gave {len(results)} results, not {len(node.results)}", op=node.op.name)
        symbol = node.attrs.get("symbol")
        if isinstance(symbol, Symbol):
            dims[symbol] = int(results[0])
        for value, result in zip(node.results, results, strict=True):
            if isinstance(value.type, Tensor):
                result = np.asarray(result)
                check_type(value, result)
                if value.type.shape is not None:
                    check_shape(value, value.type.shape, result.shape, dims)
            self.env[value] = result
        if self.listener is not None:
            self.listener(node, results)

    def region(self, graph: Graph, arguments: Sequence[Any], dims: dict[Symbol, int]) -> list[Any]:
        inner = dict(dims)  # what a turn of a loop binds is forgotten after it
        self.enter(graph, _arrays(graph, arguments), inner)
        return self.body(graph, inner)


def _arrays(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    if len(inputs) != len(graph.inputs):
        raise EvaluationError(f"{graph.name} takes {len(graph.inputs)} inputs, got {len(inputs)}")
    return [np.asarray(x) if isinstance(v.type, Tensor) else x for v, x in zip(graph.inputs, inputs, strict=True)]


def _last_uses(graph: Graph) -> dict[Node, list[Value]]:
    """The values of this graph that die with each of its nodes."""
    position = {node: number for number, node in enumerate(graph.nodes)}
    dying: dict[Node, list[Value]] = {}
    for value in [*graph.inputs, *(result for node in graph.nodes for result in node.results)]:
        last = value.producer
        for user, _ in value.uses:
            while isinstance(user, Graph) and user is not graph and user.parent is not None:
                user = user.parent
            while isinstance(user, Node) and user.graph is not graph and user.graph is not None and user.graph.parent:
                user = user.graph.parent
            if isinstance(user, Graph):
                break  # an output
            if last is None or position.get(user, -1) > position.get(last, -1):
                last = user
        else:
            if last is not None:
                dying.setdefault(last, []).append(value)
    return dying


def type_of(content: Any) -> Type | None:
    """The type of an array or of a list of arrays; None for None."""
    if content is None:
        return None
    if isinstance(content, list):
        elements = [type_of(item) for item in content]
        first = elements[0] if elements else None
        if not isinstance(first, Tensor):
            return SequenceType(first or Optional(Tensor(from_numpy(np.float32), None)))
        return SequenceType(first if all(element == first for element in elements) else Tensor(first.dtype, None))
    array = np.asarray(content)
    return Tensor(from_numpy(array.dtype), array.shape)


def evaluate_decomposed(op: Op, call: Call, operands: Sequence[Any]) -> Any:
    """What an op's decomposition evaluates to on concrete operands."""
    graph = Graph(op.name)
    builder = Builder(graph)
    values = [None if type is None else graph.add_input(type) for type in call.types]
    inner = Call(op, call.types, call.attrs, call.regions, graph.symbols, values)
    found = op.decompose(builder, inner, *op.group(values))
    if found is NotImplemented:
        raise EvaluationError("has neither an evaluation nor a decomposition", op=op.name)
    graph.set_outputs([found] if isinstance(found, Value) else found)
    flat = [operand for operand in op.flatten(operands) if operand is not None]
    results = run(graph, flat)
    return results[0] if isinstance(found, Value) else tuple(results)
