"""Builds nodes: one method an op, straight from the op table. Every result is typed when it is built."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import InferError, IsthmusError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.location import UNKNOWN, Location
from isthmus.ir.op import OPS, Call, Op
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array, Weight, weight


class Builder:
    """Puts new nodes into a graph, at its end or in front of a node.

    ``b.add(x, y)``, ``b.conv(x, w, None, strides=[1, 1])``: operands as in the op's row (a list for a variadic one),
    attributes by keyword, nested graphs as ``regions=[...]``. An op with one result gives a `Value`, others a tuple.
    A number or array in place of an operand becomes a constant; its element type is that of the other operands in its
    group, else its own. An op whose name is a Python keyword is spelt with an underscore behind it.

    Attributes:
        graph: the graph that nodes go into.
        before: the node that they go in front of; None for the end.
        location: where new nodes say that they come from.
    """

    def __init__(self, graph: Graph, before: Node | None = None, location: Location = UNKNOWN) -> None:
        self.graph = graph
        self.before = before
        self.location = location

    def emit(
        self, op: Op | str, operands: Sequence[Value | None], attrs: dict[str, Any] | None = None,
        regions: Sequence[Graph] = (),
    ) -> Node:  # fmt: skip
        """A new node from flat operands.

        Raises:
            InferError: they do not fit the op's row; it carries the location.
        """
        row = OPS[op] if isinstance(op, str) else op
        try:
            normal = row.normalize(attrs or {})
            symbols = self.graph.symbols
            symbols.location = self.location
            call = Call(row, [None if v is None else v.type for v in operands], normal, regions, symbols, operands)
            types = row.infer_checked(call)
        except InferError as error:
            error.location = error.location or self.location
            raise
        node = Node(row, operands, normal, types, regions, self.location)
        self.graph.insert(node, self.before)
        return node

    def __getattr__(self, name: str) -> Callable[..., Any]:
        row = OPS.get(name) or OPS.get(name.rstrip("_"))
        if row is None or name.startswith("__"):
            raise AttributeError(f"there is no op {name}")
        return partial(self._build, row)

    def _build(self, op: Op, /, *operands: Any, regions: Sequence[Graph] = (), **attrs: Any) -> Any:
        grouped = list(operands)
        grouped += [attrs.pop(operand.name, None) for operand in op.operands[len(grouped) :]]
        results = self.emit(op, self._lift(op, grouped), attrs, regions).results
        return results[0] if len(results) == 1 else tuple(results)

    def _lift(self, op: Op, grouped: list[Any]) -> list[Value | None]:
        if len(grouped) > len(op.operands):
            raise InferError(f"takes {len(op.operands)} operands, got {len(grouped)}", op=op.name)
        if not op.variadic and set(map(type, grouped)) <= _VALUES:
            return grouped
        groups: dict[str, DType] = {}
        for operand, value in zip(op.operands, grouped, strict=True):
            for item in (value or ()) if operand.variadic else (value,):
                if isinstance(item, Value) and isinstance(item.type, Tensor) and operand.group:
                    groups.setdefault(operand.group, item.type.dtype)
        flat: list[Value | None] = []
        for operand, value in zip(op.operands, grouped, strict=True):
            items = (value or ()) if operand.variadic else (value,)
            known = groups.get(operand.group)
            flat += [item if item is None or isinstance(item, Value) else self.constant(item, known) for item in items]
        return flat

    def constant(self, value: object, dtype: DType | None = None, name: str = "") -> Value:
        """A constant: a weight handle, or a number, list or array (not copied).

        Args:
            value: the content.
            dtype: its element type; for plain Python numbers f32, i64 or bool by default, for arrays their own.
            name: a name for people.

        Raises:
            InferError: the element type does not hold the content; floats may round.
        """
        if not isinstance(value, Weight):
            if dtype is None and not isinstance(value, (np.ndarray, np.generic)):
                dtype = {"f": dtypes.f32, "i": dtypes.i64}.get(np.asarray(value).dtype.kind)
            if dtype is not None and not _holds(dtype, np.asarray(value)):
                found = reprlib.repr(value)
                raise InferError(f"{dtype} does not hold the constant", op="constant", location=self.location, found=found)
            value = weight(value, dtype)
        # The weight tells the type, and there is nothing to check.
        node = Node(OPS["constant"], (), {"value": value}, (Tensor(value.dtype, value.shape),), (), self.location)
        self.graph.insert(node, self.before)
        node.results[0].name = name or value.name
        return node.results[0]

    def size(self, dim: Dim) -> Value:
        """A dim as a value: an i64 scalar."""
        return self.emit("size", (), {"dim": dim}).results[0]

    @contextmanager
    def at(self, location: Location) -> Iterator[None]:
        """New nodes come from this place, for a while."""
        old, self.location = self.location, location
        try:
            yield
        finally:
            self.location = old

    def subgraph(
        self, types: Sequence[Type], body: Callable[..., Value | Sequence[Value]], name: str = "body",
        names: Sequence[str] = (),
    ) -> Graph:  # fmt: skip
        """A nested graph for a region: `body(b, *arguments)` builds it and returns its outputs.

        It may use values of the graph around it. Give it to an op's `regions` afterwards.
        """
        graph = Graph(name, self.graph.symbols)
        inner = Builder(graph, None, self.location)
        arguments = [graph.add_input(type, names[index] if names else "") for index, type in enumerate(types)]
        outputs = body(inner, *arguments)
        graph.set_outputs([outputs] if isinstance(outputs, Value) else outputs)
        return graph


_VALUES: Final = frozenset((Value, type(None)))


def _holds(dtype: DType, array: Array) -> bool:
    """Whether each number is one of the element type; reals are rounded to floats."""
    if array.dtype == dtype.numpy or dtype.kind == "string" or not array.size:
        return True
    if not (dtype.is_integer or dtype.kind == "bool"):
        return dtype.is_complex or array.dtype.kind != "c"
    if array.dtype.kind == "c":
        return False
    whole = array if array.dtype.kind in "iubO" else array.astype(np.float64)  # an object array holds large integers
    if whole.dtype.kind == "f" and not (np.isfinite(whole).all() and (np.trunc(whole) == whole).all()):
        return False
    least, most = dtype.limits if dtype.is_integer else (0, 1)
    return least <= int(whole.min()) and int(whole.max()) <= most


def decompose(node: Node) -> Sequence[Value] | None:
    """Builds the finer form of a node in front of it and returns values for its results; None when it has none.

    The node itself stays; replace it with ``node.replace_by(values)``.
    """
    if node.graph is None:
        raise IsthmusError("the node was erased", op=node.op.name)
    builder = Builder(node.graph, node, node.location)
    found = node.op.decompose(builder, node.call(), *node.op.group(node.operands))
    if found is NotImplemented:
        return None
    return (found,) if isinstance(found, Value) else tuple(found)
