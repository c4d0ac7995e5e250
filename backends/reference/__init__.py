"""The reference target: numpy, op by op. Slow and plain, the yardstick for every other one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isthmus.backends.base import Artefact, Backend
from isthmus.ir import interpreter, op
from isthmus.ir.errors import FileError
from isthmus.ir.graph import Graph, Node


class ReferenceArtefact(Artefact):
    """A graph, evaluated with numpy whenever it is run.

    Attributes:
        graph: the graph.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    @property
    def node_count(self) -> int:
        return sum(1 for node in self.graph.walk() if not node.has(op.Trait.CONSTANT))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        return interpreter.run(self.graph, inputs)

    def save(self, path: str | Path) -> list[Path]:
        raise FileError(
            f"{path} was not written: the reference target has no file format",
            remedy="print(net.graph) is its text form; compile for another target, such as onnx, to write a file",
        )

    def validate(self) -> None:
        from isthmus.ir.verifier import verify

        verify(self.graph)


class ReferenceBackend(Backend):
    """Evaluates the graph with `isthmus.ir.interpreter`."""

    name = "reference"
    complex_numbers = True

    def legal(self, node: Node) -> str | None:
        row = type(node.op)
        if row.evaluate is op.Op.evaluate and row.decompose is op.Op.decompose:
            return "it has neither an evaluation nor a decomposition"
        return None

    def emit(
        self, graph: Graph, *, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    ) -> ReferenceArtefact:  # fmt: skip
        return ReferenceArtefact(graph.clone())
