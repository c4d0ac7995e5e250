"""Graphs out of the op table's samples: what the generated tests of ops, backends and passes start from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, Symbol
from isthmus.ir.graph import Graph
from isthmus.ir.interpreter import type_of
from isthmus.ir.op import OPS, Op, Sample, Typed
from isthmus.ir.types import Tensor, Type

TOLERANCE: Final = {
    "float64": 1e-6, "float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2, "complex64": 2e-5, "complex128": 1e-6,
}  # fmt: skip
"""By element type: the relative error allowed, and a tenth of it of the greatest element besides. Everything else is exact."""


def samples(ops: Iterable[Op] = OPS) -> Iterator[tuple[Op, Sample, str]]:
    """Every sample of these ops, by default of the whole table, with its op and a name for a test."""
    for op in ops:
        for number, sample in enumerate(op.samples()):
            yield op, sample, "-".join(filter(None, (op.name, str(number), sample.note)))


def graph_of(op: Op, sample: Sample, symbolic: bool = False) -> tuple[Graph, list[Any]]:
    """A graph that applies an op to a sample: its operands are the inputs, the op's results the outputs.

    Args:
        op: the op.
        sample: one of its samples.
        symbolic: every size other than 1 of an operand (of those that the sample allows) becomes a symbol of its own,
            with the size as its hint. A size of 1 stays, since broadcasting must know it.

    Returns:
        The graph, and the inputs to run it on.
    """
    graph = Graph(op.name)
    inputs: list[Any] = []
    operands: list[Any] = []
    names = sample.symbolic if isinstance(sample.symbolic, tuple) else [each.name for each in op.operands if sample.symbolic]

    def add(content: Any, name: str) -> Any:
        if content is None:
            return None
        type: Type | None
        if isinstance(content, Typed):
            type, content = content.type, content.content
        else:
            content = content if isinstance(content, list) else np.asarray(content)
            type = type_of(content)
        assert type is not None
        if symbolic and name in names:
            type = _symbolic(graph, type, sample.larger)
        inputs.append(content)
        return graph.add_input(type, name if name not in {value.name for value in graph.inputs} else f"{name}{len(inputs)}")

    for operand, content in zip(op.operands, sample.operands, strict=False):
        operands.append([add(item, operand.name) for item in content] if operand.variadic else add(content, operand.name))
    builder = Builder(graph)
    regions = () if sample.regions is None else sample.regions(builder)
    attrs = {name: _declared(graph, value) for name, value in sample.attrs.items()}
    node = builder.emit(op, op.flatten(operands), attrs, regions)
    graph.set_outputs(node.results)
    return graph, inputs


def _symbolic(graph: Graph, type: Type, larger: bool) -> Type:
    if not isinstance(type, Tensor) or type.shape is None:
        return type
    shape: list[Dim] = []
    for size in type.shape:
        assert isinstance(size, int)
        lo = size if larger else 0
        shape.append(size if size == 1 else graph.symbols.declare(f"d{len(graph.symbols.by_name)}", lo=lo, hint=size).dim)
    return Tensor(type.dtype, tuple(shape))


def _declared(graph: Graph, value: Any) -> Any:
    """A symbol that a sample binds, as one of this graph."""
    return graph.symbols.declare(value.name, value.lo, value.hi, value.hint) if isinstance(value, Symbol) else value


def agree(got: Any, wanted: Any) -> bool:
    """Whether two results, lists of results included, have the same dtypes and shapes, and equal elements.

    Args:
        got: an array, a list of results, or None for an absent optional.
        wanted: what the reference gives.
    """
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(agree, got, wanted))
    if wanted is None:
        return got is None
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    tolerance = TOLERANCE.get(got.dtype.name)
    if tolerance is None:
        return bool(np.all((got == wanted) | (got != got) & (wanted != wanted)))
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    got, wanted = got.astype(wide), wanted.astype(wide)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = max(1.0, finite.max(initial=0))
    return np.allclose(got, wanted, rtol=tolerance, atol=tolerance * 0.1 * scale, equal_nan=True)
