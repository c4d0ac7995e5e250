"""Models of Keras, JAX and PaddlePaddle, as their own exporters write them, against these frameworks' own outputs.

The files under ``data`` are made by the scripts there, in environments of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import assembled

import isthmus

MODELS = sorted(Path(__file__).parent.glob("data/*.onnx"))


LARGER = {"keras_loop": 1}
"""So many nodes more than in the file: weights that a loop carries are handed on by a node each."""


def stored(path: Path) -> tuple[list[Any], list[Any]]:
    """The inputs and outputs that lie beside a model."""
    content = np.load(path.with_suffix(".npz"))
    inputs, outputs = ([content[key] for key in sorted(content) if key.startswith(kind)] for kind in ("in", "out"))
    return inputs, outputs


def test_there_are_models_of_each_framework() -> None:
    assert {path.stem.partition("_")[0] for path in MODELS} >= {"keras", "paddle"}


@pytest.mark.parametrize("target", ["own", "opset 13", "opset 21", "reference"])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_outputs_are_the_frameworks_own(path: Path, target: str) -> None:
    inputs, wanted = stored(path)
    options: dict[str, Any] = {"opset": int(target.split()[1])} if target.startswith("opset") else {}
    net = isthmus.compile(path, target="reference" if target == "reference" else "onnx", **options)
    found = net(*inputs)
    proto = onnx.load(path)
    assert list(found) == [each.name for each in proto.graph.output]
    assert not any("opaque" in note for note in net.report.notes)
    for mine, theirs in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=2e-5)
    if target == "own":
        net.artefact.validate()
        assert net.artefact.node_count <= count(proto.graph.node) + LARGER.get(path.stem, 0)
        assert net.artefact.op_counts.get("Transpose", 0) <= sum(node.op_type == "Transpose" for node in walk(proto.graph.node))


def walk(nodes: Any) -> Any:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from walk(attribute.g.node)


def count(nodes: Any) -> int:
    return sum(node.op_type != "Constant" for node in walk(nodes))


def test_a_first_state_of_zeros_is_none() -> None:
    """Paddle and Keras make it from the batch's size; the op has it by itself."""
    path = next(path for path in MODELS if path.stem == "paddle_gru")
    net = isthmus.compile(path, target="onnx")
    assert net.artefact.op_counts.keys() <= {"GRU", "Transpose", "Squeeze", "Reshape"}


def test_types_of_ops_of_other_domains_go_along() -> None:
    """What is written comes in again, also where only the file knew the type."""
    helper = onnx.helper
    x, y, z = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xyz")
    nodes = [helper.make_node("Magic", ["x"], ["y"], domain="acme"), helper.make_node("Relu", ["y"], ["z"])]
    net = isthmus.compile(assembled(helper.make_graph(nodes, "g", [x], [z], value_info=[y]), ("", 18), ("acme", 1)))
    again = isthmus.compile(net.artefact.model, target="onnx")
    assert [node.op_type for node in again.artefact.graph.node] == ["Magic", "Relu"]
