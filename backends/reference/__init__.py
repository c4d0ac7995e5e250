"""The reference target: numpy, op by op. Slow and plain, the yardstick for every other one.

A node that is opaque, an op of ``ai.onnx.ml`` say, is evaluated by ONNX's own evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from isthmus.backends.base import Artefact, Backend
from isthmus.ir import interpreter, op
from isthmus.ir.errors import FileError, IsthmusError
from isthmus.ir.graph import Graph, Node
from isthmus.ir.ops.control import Custom


class ReferenceArtefact(Artefact):
    """A graph, evaluated with numpy whenever it is run.

    Attributes:
        graph: the graph.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self._foreign: dict[Node, Callable[[Sequence[Any]], tuple[Any, ...]]] = {}

    @property
    def node_count(self) -> int:
        return sum(1 for node in self.graph.walk() if not node.has(op.Trait.CONSTANT))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        return interpreter.run(self.graph, inputs, foreign=self._evaluate)

    def _evaluate(self, node: Node, operands: Sequence[Any]) -> tuple[Any, ...]:
        from isthmus.backends.onnx.alone import Alone

        if node not in self._foreign:
            self._foreign[node] = Alone(node)
        return self._foreign[node](operands)

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
        if row is Custom:
            return _unknown(node)
        if row.evaluate is op.Op.evaluate and row.decompose is op.Op.decompose:
            return "it has neither an evaluation nor a decomposition"
        return None

    def emit(
        self, graph: Graph, *, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    ) -> ReferenceArtefact:  # fmt: skip
        return ReferenceArtefact(graph.clone())


def _unknown(node: Node) -> str | None:
    """Why nobody evaluates an opaque node; None where ONNX's evaluator does."""
    try:
        from isthmus.backends.onnx.alone import Alone
    except ImportError:
        return "ONNX's evaluator would have to evaluate it, and onnx is not installed"
    try:
        Alone(node)
    except IsthmusError as error:
        return f"it has neither an evaluation nor a decomposition: {error.message}"
    return None
