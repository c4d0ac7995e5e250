"""Nodes that isthmus has no op for, evaluated by ONNX's own evaluator: each as a model of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from isthmus.backends.onnx.backend import OnnxBackend, OnnxOptions
from isthmus.backends.onnx.opsets import DEFAULT, NEWEST, OLDEST
from isthmus.backends.onnx.runtime import Evaluator
from isthmus.ir.errors import EvaluationError
from isthmus.ir.graph import Graph, Node, Value, clone_node

_WRONG: Final[dict[str, tuple[Callable[[Mapping[str, Any]], bool], str]]] = {
    "SVMClassifier": (lambda held: len(held.get("prob_a", ())) > 1, "gives wrong probabilities for more than two classes"),
    "Normalizer": (lambda held: held.get("norm", "MAX") == "MAX", "takes the greatest absolute value"),
}
"""What onnx 1.23 has wrong: by op, with which attributes, and how: it sums up products of pairwise probabilities, and the
standard's greatest element is not one of absolute values."""


class Alone:
    """A `custom` node as a model of its own.

    Args:
        node: the node.

    Raises:
        EvaluationError: ONNX's evaluator does not know the op, or not at the node's opset.
        UnsupportedError: it has no form in ONNX.
    """

    def __init__(self, node: Node) -> None:
        is_wrong, why = _WRONG.get(node.attrs["name"], (None, ""))
        if is_wrong is not None and is_wrong(node.attrs["attributes"]):
            raise EvaluationError(f"ONNX's evaluator {why}")
        assert node.graph is not None
        graph = Graph("alone", node.graph.symbols)
        values = dict.fromkeys(value for value in node.operands if value is not None)
        given: dict[Value, Value] = {value: graph.add_input(value.type, f"x{index}") for index, value in enumerate(values)}
        copy = clone_node(node, given)
        graph.insert(copy, None)
        graph.set_outputs(copy.results)
        self._places = [node.operands.index(value) for value in values]
        opset = node.attrs["opsets"].get("", DEFAULT)
        if not OLDEST <= opset <= NEWEST:
            raise EvaluationError(f"it is of opset {opset}, and models are written at opset {OLDEST} to {NEWEST}")
        backend = OnnxBackend(OnnxOptions(opset=opset, metadata=False, profile="onnx"))
        self._run = Evaluator(backend.emit(graph).serialize())

    def __call__(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The results on these operands; see `Evaluator`."""
        return tuple(self._run([operands[place] for place in self._places]))
