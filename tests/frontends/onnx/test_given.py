"""Sizes that a file leaves open, given as numbers; what ``strict`` allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper
from onnx_models import assembled

import isthmus
from isthmus import spec
from isthmus.errors import FileError, UnsupportedError, UsageError
from isthmus.ir import verify


def info(name: str, shape: Any, kind: int = T.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def made(nodes: Any, inputs: Any, outputs: Any, opsets: Any = (("", 17),), **more: Any) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, **more)
    return assembled(graph, *opsets, ir_version=8)


@pytest.fixture
def halves() -> Any:
    """Two inputs whose sizes have to do with one another, and outputs whose sizes have names of their own."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2]), helper.make_node("Neg", ["h"], ["z"]),
        helper.make_node("Shape", ["x"], ["s"]),
    ]  # fmt: skip
    inputs = [info("x", ["N", 3, "H", None]), info("h", ["N", "H//2"])]
    return made(nodes, inputs, [info("y", ["N", 3, "out_h", None]), info("z", ["N", "H//2"]), info("s", [4], T.INT64)])


def types(values: Any) -> list[str]:
    return [str(value.type) for value in values]


def shapes(values: Any) -> list[list[Any]]:
    return [[dim.dim_value or dim.dim_param for dim in each.type.tensor_type.shape.dim] for each in values]


def test_numbers_stand_wherever_the_name_does(halves: Any) -> None:
    net = isthmus.compile(halves, spec("f32[1,3,64,32]"))
    assert types(net.graph.inputs) == ["f32[1, 3, 64, 32]", "f32[1, 32]"]
    verify(net.graph)
    found = net.artefact.model.graph  # type: ignore[attr-defined]
    assert shapes(found.input) == [[1, 3, 64, 32], [1, 32]]
    assert shapes(found.output) == [[1, 3, 32, 16], [1, 32], [4]]
    assert [node.op_type for node in found.node] == ["MaxPool", "Neg", "Identity"]  # the shape is known
    onnx.checker.check_model(net.artefact.model, full_check=True)  # type: ignore[attr-defined]
    net.verify()
    assert shapes(halves.graph.input) == [["N", 3, "H", ""], ["N", "H//2"]]  # the user's own model stays as it was


def test_a_name_leaves_a_size_open(halves: Any) -> None:
    net = isthmus.compile(halves, kwargs={"x": spec("f32[M,3,64,W=20]")})
    assert types(net.graph.inputs) == ["f32[N, 3, 64, u0]", "f32[N, 32]"]
    assert [symbol.hint for symbol in net.graph.symbols.by_name.values() if symbol.name == "u0"] == [20]
    net.verify()


@pytest.mark.parametrize(("given", "message"), [
    ({"x": "f32[1,3,2]"}, "another rank"),
    ({"x": "f16[1,3,64,64]"}, "another element type"),
    ({"x": "f32[1,4,64,64]"}, "the size 3 of the input x, at axis 1, cannot be 4"),
    ({"x": "f32[1,C,64,64]"}, "the size 3 of the input x, at axis 1, cannot be C"),
    ({"x": "f32[1,3,64,64]", "h": "f32[2,32]"}, "the size N of the input h, at axis 0, cannot be 2"),
    ({"x": "f32[1,3,64,64]", "h": "f32[1,31]"}, "the size H//2 cannot be 31"),
    ({"q": "f32[1]"}, "unknown q"),
])  # fmt: skip
def test_sizes_that_contradict_the_file_or_one_another(halves: Any, given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        isthmus.compile(halves, kwargs={name: spec(text) for name, text in given.items()})
    assert message in str(raised.value)


def test_sizes_that_the_model_is_not_made_for() -> None:
    node = helper.make_node("MatMul", ["x", "y"], ["z"])
    model = made([node], [info("x", [2, "A"]), info("y", ["B", 2])], [info("z", [2, 2])])
    with pytest.raises(FileError, match="leave the sizes open"):
        isthmus.compile(model, (spec("f32[2,3]"), spec("f32[4,2]")))
    assert isthmus.compile(model, (spec("f32[2,3]"), spec("f32[3,2]"))).report.assumptions == []


def test_an_input_of_no_known_rank() -> None:
    model = made([helper.make_node("Softmax", ["x"], ["y"])], [info("x", None)], [info("y", None)])
    net = isthmus.compile(model, spec("f32[N,5]"), target="reference")
    assert types(net.graph.inputs) == types(net.graph.outputs) == ["f32[N, 5]"]
    with pytest.raises(UsageError, match="another size"):
        net(np.zeros((2, 6), np.float32))


def test_an_input_that_is_no_tensor() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", T.FLOAT, [2])
    model = made([helper.make_node("SequenceLength", ["s"], ["n"])], [sequence], [info("n", [], T.INT64)])
    with pytest.raises(UsageError, match="is no tensor"):
        isthmus.compile(model, spec("f32[2]"))


def test_a_target_with_fixed_sizes_alone(halves: Any, tmp_path: Path) -> None:
    del halves.graph.node[1:], halves.graph.input[1:], halves.graph.output[1:]
    with pytest.raises(UnsupportedError):
        isthmus.compile(halves, target="caffe")
    net = isthmus.compile(halves, spec("f32[1,3,16,16]"), target="caffe")
    net.verify(seeds=1)
    assert len(net.save(tmp_path / "net")) == 2


def test_dynamic_shapes_are_not_taken(halves: Any) -> None:
    with pytest.raises(UsageError, match=r"isthmus\.spec"):
        isthmus.compile(halves, dynamic_shapes={"x": {0: "N"}})


def test_strict_tells_all_that_is_taken_for_granted() -> None:
    nodes = [
        helper.make_node("Foo", ["x"], ["f"], domain="acme"), helper.make_node("Foo", ["f"], ["g"], domain="acme"),
        helper.make_node("Bar", ["g"], ["b"], domain="other"), helper.make_node("MatMul", ["x", "y"], ["m"]),
    ]  # fmt: skip
    inputs = [info("x", ["N", "A"]), info("y", ["B", 2])]
    values = [info("f", ["N", "A"]), info("g", ["N", "A"])]
    outputs = [info("b", ["N", 2]), info("m", ["N", 2])]
    model = made(nodes, inputs, outputs, (("", 17), ("acme", 1), ("other", 1)), value_info=values)
    net = isthmus.compile(model)
    assert any("A == B" in taken for taken in net.report.assumptions)
    with pytest.raises(UnsupportedError) as raised:
        isthmus.compile(model, strict=True)
    assert "takes 3 things for granted" in str(raised.value)
    assert [refusal.op for refusal in raised.value.refusals] == [None, "acme.Foo", "other.Bar"]
    assert "2 nodes" in str(raised.value.refusals[1])
    del nodes[:3], model.graph.node[:3], model.graph.output[:1]
    isthmus.compile(model, (spec("f32[N,4]"), spec("f32[4,2]")), strict=True).verify()
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "A"
    isthmus.compile(model, strict=True).verify()


def test_strict_sizes_may_be_0() -> None:
    """What is worse or impossible to write where a size may be 0 is not written as if it could not."""
    model = made([helper.make_node("ReduceMax", ["x"], ["y"], axes=[0], keepdims=0)], [info("x", ["N", 3])], [info("y", [3])])
    assert not isthmus.compile(model, strict=True).captured.perhaps_empty
    assert isthmus.compile(model).captured.perhaps_empty
