"""The target ``dummy``: a list of calls of numpy, for f32 and a few ops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, Field

from isthmus.backends import base
from isthmus.ir import Builder, Graph, Node, Tensor, Trait, Value
from isthmus.ir.dtypes import f32
from isthmus.ir.errors import FileError, UsageError

CALLS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "exp": np.exp,
    "maximum": np.maximum, "minimum": np.minimum, "sqrt": np.sqrt, "matmul": np.matmul,
}  # fmt: skip


class DummyOptions(base.Options):
    """Options of the target ``dummy``.

    Attributes:
        longest: how many calls a list may have.
        without: an op to do without.
    """

    longest: int = Field(default=1000, gt=0)
    without: str | None = None


class DummyArtefact(base.Artefact):
    """A list of calls: each with the places of its operands and of its result in a list of arrays."""

    def __init__(
        self, arrays: list[Any], inputs: list[int], calls: list[tuple[str, list[int], int]], outputs: list[int],
    ) -> None:  # fmt: skip
        super().__init__()
        self.arrays, self.inputs, self.calls, self.outputs = arrays, inputs, calls, outputs

    @property
    def node_count(self) -> int:
        return len(self.calls)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        arrays = list(self.arrays)
        for place, array in zip(self.inputs, inputs, strict=True):
            arrays[place] = array
        with np.errstate(all="ignore"):
            for name, operands, place in self.calls:
                arrays[place] = np.asarray(CALLS[name](*(arrays[each] for each in operands)))
        return [arrays[place] for place in self.outputs]

    def save(self, path: str | Path) -> list[Path]:
        raise FileError(f"{path} was not written: the target dummy has no files")

    def validate(self) -> None:
        assert all(max(operands) < len(self.arrays) for _, operands, _ in self.calls)


class DummyBackend(base.Backend):
    """Finds a call of numpy for each node."""

    name = "dummy"
    Options: ClassVar[type[BaseModel]] = DummyOptions

    def legal(self, node: Node) -> str | None:
        types = [value.type for value in (*node.operands, *node.results) if value is not None]
        if not all(isinstance(type, Tensor) and type.dtype is f32 for type in types):
            return "dummy has f32 only"
        if node.has(Trait.CONSTANT) or (node.op.name in CALLS and node.op.name != self.options.without):
            return None
        return f"dummy has no {node.op.name}"

    def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
        if node.op.name != "sigmoid" or node.result.tensor.dtype is not f32:
            return None
        return [b.div(1.0, b.add(b.exp(b.neg(node.operands[0])), 1.0))]

    def emit(
        self, graph: Graph, *, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    ) -> DummyArtefact:  # fmt: skip
        places: dict[Any, int] = {value: place for place, value in enumerate(graph.inputs)}
        arrays: list[Any] = [None] * len(places)
        calls: list[tuple[str, list[int], int]] = []
        for node in graph.nodes:
            places[node.result] = len(arrays)
            weight = node.result.weight
            arrays.append(None if weight is None else weight.array())
            if weight is None:
                calls.append((node.op.name, [places[value] for value in node.operands], places[node.result]))
        if len(calls) > self.options.longest:
            raise UsageError("the list of calls is too long", expected=f"{self.options.longest}", found=f"{len(calls)}")
        return DummyArtefact(arrays, list(range(len(graph.inputs))), calls, [places[value] for value in graph.outputs])
