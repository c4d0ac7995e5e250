"""What a file notes at what is in it stays there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import isthmus


def noted(proto: Any, text: str) -> Any:
    proto.doc_string = text
    proto.metadata_props.add(key="by", value=f"whoever made {text}")
    return proto


def model(ir: int = 10, size: int = 4) -> Any:
    """Two layers with notes everywhere; the Dropout is left out, and what was noted there with it."""
    nodes = [
        noted(helper.make_node("Gemm", ["x", "w", "b"], ["h"], "first", transB=1), "the first layer"),
        noted(helper.make_node("Dropout", ["h"], ["d"], "drop"), "the dropout"),
        noted(helper.make_node("Relu", ["d"], ["r"], "act"), "the activation"),
        helper.make_node("Mul", ["r", "s"], ["y"], "last"),
    ]
    weights = [
        noted(numpy_helper.from_array(np.ones((size, size), np.float32), "w"), "a matrix"),
        numpy_helper.from_array(np.arange(size, dtype=np.float32), "b"),
        noted(numpy_helper.from_array(np.float32(3), "s"), "a scale"),
    ]
    shape = [2, size]
    graph = helper.make_graph(
        nodes, "g", [noted(helper.make_tensor_value_info("x", T.FLOAT, shape), "the input")],
        [noted(helper.make_tensor_value_info("y", T.FLOAT, shape), "the output")], weights,
        value_info=[noted(helper.make_tensor_value_info(name, T.FLOAT, shape), f"value {name}") for name in ("h", "d", "r")],
    )  # fmt: skip
    noted(graph, "the graph")
    graph.quantization_annotation.add(tensor_name="r").quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    graph.quantization_annotation.add(tensor_name="d").quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir)
    made.metadata_props.add(key="author", value="nobody")
    return made


def told(found: Any) -> dict[str, tuple[str, dict[str, str]]]:
    """What is noted, by name."""
    graph = found.graph
    protos = [*graph.node, *graph.initializer, *graph.input, *graph.output, *graph.value_info, graph]
    return {
        each.name: (each.doc_string, {prop.key: prop.value for prop in each.metadata_props})
        for each in protos if each.doc_string or each.metadata_props
    }  # fmt: skip


STAYS = {"first", "act", "w", "s", "x", "y", "h", "r", "g"}


@pytest.mark.parametrize("external_data", ["never", "always"])
def test_notes_stay_where_what_they_were_made_at_does(external_data: str, tmp_path: Path) -> None:
    net = isthmus.compile(model(size=32), external_data=external_data)
    net.save(tmp_path / "m.onnx")
    found = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(found, full_check=True)
    assert found.ir_version == 10
    assert told(found) == {name: note for name, note in told(model(size=32)).items() if name in STAYS}
    (kept,) = found.graph.quantization_annotation
    assert (kept.tensor_name, kept.quant_parameter_tensor_names[0].value) == ("r", "s")
    assert "what the file says of the quantization of d is left out" in net.report.notes


def test_what_is_kept_in_the_file_that_is_mapped(tmp_path: Path) -> None:
    onnx.save(model(size=64), tmp_path / "m.onnx")
    found = isthmus.compile(tmp_path / "m.onnx").artefact.model  # type: ignore[attr-defined]
    assert told(found).keys() == STAYS


def test_older_files_have_doc_strings_alone() -> None:
    """No reader of a file of another opset needs to know the newer form for the sake of notes."""
    for net in (isthmus.compile(model(ir=8)), isthmus.compile(model(), opset=15)):
        found = net.artefact.model  # type: ignore[attr-defined]
        assert found.ir_version == 8
        assert told(found) == {name: (doc, {}) for name, (doc, _) in told(model()).items() if name in STAYS}


def test_notes_are_no_part_of_the_text() -> None:
    assert "the first layer" not in str(isthmus.compile(model()).graph)


def test_what_of_a_file_is_left_out_is_told() -> None:
    proto = model(ir=11)
    proto.configuration.add(name="two", num_devices=2)
    proto.training_info.add()
    found = set(isthmus.compile(proto).report.notes)
    assert {f"what the file says of {what} is left out" for what in ("training", "devices", "the quantization of d")} <= found
