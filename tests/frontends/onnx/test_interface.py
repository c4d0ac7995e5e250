"""What a file says around its nodes is kept: names, types as they were told, defaults of inputs, notes; nodes nobody knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx_models import assembled

import isthmus
from isthmus.errors import FileError, UnsupportedError
from isthmus.frontends.onnx.importing import import_model
from isthmus.ir import parse, print_graph
from isthmus.ir.printer import weight_table


def info(name: str, shape: Any, kind: int = T.FLOAT, doc: str = "") -> Any:
    return helper.make_tensor_value_info(name, kind, shape, doc)


def made(nodes: Any, inputs: Any, outputs: Any, *, opsets: Any = (("", 18),), ir: int = 9, **more: Any) -> Any:
    graph = helper.make_graph(nodes, "net of mine", inputs, outputs, **more)
    return assembled(graph, *opsets, ir_version=ir)


def written(model: Any) -> Any:
    """The model after it went through; the checker takes it where it takes the model."""
    found = isthmus.compile(model).artefact.model  # type: ignore[attr-defined]
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return found
    onnx.checker.check_model(found)
    return found


def ends(model: Any) -> Any:
    return [[each.SerializeToString() for each in side] for side in (model.graph.input, model.graph.output)]


def test_inputs_and_outputs_stay_as_they_were_told() -> None:
    inputs = [
        info("x", ["batch-size", None, 3], doc="pictures"), info("unused", [2], T.INT8), info("u0", ["u0"]),
        info("half", ["u0//2"]), info("any", None),
    ]  # fmt: skip
    outputs = [info("y", None), info("z", ["something else"]), info("w", [None]), info("any", None), info("v", [None, 4, "M"])]
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["u0"], ["z"]),
        helper.make_node("Abs", ["half"], ["w"]), helper.make_node("Tile", ["c", "r"], ["v"]),
    ]  # fmt: skip
    contents = {"c": np.ones((1, 2, 3), np.float32), "r": np.array([5, 2, 1])}
    constants = [numpy_helper.from_array(array, name) for name, array in contents.items()]
    model = made(nodes, inputs, outputs, initializer=constants)
    assert ends(written(model)) == ends(model)
    net = isthmus.compile(model)
    u0, half, any = np.ones(5, np.float32), np.ones(2, np.float32), np.ones((2, 2), np.float32)
    assert net(np.ones((1, 2, 3), np.float32), np.ones(2, np.int8), u0, half, any)["any"].tolist() == any.tolist()


def test_names_of_sizes_that_are_computed_of_others() -> None:
    inputs = [info("h", ["N//2"]), info("x", ["N", "a-b"]), info("n", ["N"])]
    h, x, _ = (value.tensor.shape for value in import_model(made([], inputs, inputs[:1])).graph.inputs)
    assert h == (x[0] // 2,)
    assert str(x[1]) == "`a-b`"


def test_inputs_with_a_default() -> None:
    """From IR version 4 on a caller may give them; before, everybody had to list constants among the inputs."""
    w = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = made([node], [info("w", [2]), info("x", [2])], [info("y", [2])], initializer=[w])
    x, other = np.array([10, 20], np.float32), np.array([5, 6], np.float32)
    for target in ("onnx", "reference"):
        net = isthmus.compile(model, target=target)
        assert net(x=x)["y"].tolist() == [11, 22]
        assert net(None, x)["y"].tolist() == [11, 22]
        assert net(x=x, w=other)["y"].tolist() == net(other, x)["y"].tolist() == [15, 26]
    found = written(model)
    assert [each.name for each in found.graph.initializer] == ["w"]
    assert ends(found) == ends(model)
    graph = import_model(model).graph
    text = print_graph(graph)
    assert "default w = weight" in text
    assert print_graph(parse(text, weight_table(graph))) == text
    model.ir_version = 3
    assert [each.name for each in written(model).graph.input] == ["x"]
    assert isthmus.compile(model)(x)["y"].tolist() == [11, 22]


def test_sparse_constants() -> None:
    values = numpy_helper.from_array(np.array([3, 4], np.float32), "s")
    indices = [np.array([1, 5]), np.array([[0, 1], [1, 2]])]
    for each in indices:
        sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(each, "i"), [2, 3])
        model = made([helper.make_node("Identity", ["s"], ["y"])], [], [info("y", [2, 3])], sparse_initializer=[sparse])
        net = isthmus.compile(model)
        assert net()["y"].tolist() == [[0, 3, 0], [0, 0, 4]]
        assert any(note.startswith("the sparse constants s are written out") for note in net.report.notes)


def test_a_file_that_names_no_opset_is_of_the_first() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])
    model = made([node], [info("x", [2, 3, 2])], [info("y", [2, 3, 2])], opsets=(), ir=2)
    y = isthmus.compile(model)(np.zeros((2, 3, 2), np.float32))["y"]
    np.testing.assert_allclose(y, np.full((2, 3, 2), 1 / 6), rtol=1e-6)


def test_notes_and_names() -> None:
    node = helper.make_node("Relu", ["x"], ["a/b:0"], name="first", doc_string="why")
    last = helper.make_node("MatMul", ["a/b:0", "w"], ["y"], name="second")
    w = numpy_helper.from_array(np.ones((2, 2), np.float32), "layer.weight")
    last.input[1] = "layer.weight"
    model = made([node, last], [info("x", [2, 2])], [info("y", [2, 2])], initializer=[w], doc_string="of the graph")
    model.producer_name, model.producer_version, model.doc_string, model.model_version = "me", "1.2", "of the model", 7
    model.domain = "my.models"
    helper.set_model_props(model, {"author": "nobody", "licence": "free"})
    found = written(model)
    for field in ("producer_name", "producer_version", "doc_string", "model_version", "domain"):
        assert getattr(found, field) == getattr(model, field)
    assert (found.graph.name, found.graph.doc_string) == ("net of mine", "of the graph")
    assert {each.key: each.value for each in found.metadata_props} == {"author": "nobody", "licence": "free"}
    assert [(each.name, each.doc_string, *each.output) for each in found.graph.node] == [
        ("first", "why", "a/b:0"), ("second", "", "y"),
    ]  # fmt: skip
    assert [each.name for each in found.graph.initializer] == ["layer.weight"]


def strange() -> Any:
    """A node of a domain that nobody knows, with attributes of all kinds."""
    inner = helper.make_graph(
        [helper.make_node("Add", ["a", "w"], ["s"]), helper.make_node("Foo", ["s", "outer"], ["t"], domain="acme")], "inner",
        [info("a", [2])], [info("t", [2])], [numpy_helper.from_array(np.ones(2, np.float32), "w")],
    )  # fmt: skip
    node = helper.make_node(
        "Relu", ["x", "", "outer"], ["y", "", "z"], "odd", "hi", "acme.ops", i=1, f=1.5, s="s", ints=[1, 2], floats=[0.1],
        strings=["p", "q"], t=numpy_helper.from_array(np.ones((2, 2), np.float32), "t"), g=inner, gs=[inner, inner],
        ts=[numpy_helper.from_array(np.zeros(1, np.int64), "k")], tp=helper.make_tensor_type_proto(T.FLOAT, ["N"]),
    )  # fmt: skip
    node.attribute.add(name="none", type=onnx.AttributeProto.FLOATS)
    node.attribute.add(name="bytes", type=onnx.AttributeProto.STRING, s=b"\xff\x00")
    first = helper.make_node("Relu", ["x"], ["outer"], "first")
    return made(
        [first, node, helper.make_node("Neg", ["y"], ["last"])], [info("x", [2])], [info("last", [2]), info("z", [1], T.INT64)],
        opsets=(("", 17), ("acme.ops", 7), ("acme", 3)), value_info=[info("y", [2])],
    )  # fmt: skip


def test_nodes_that_nobody_knows_stay_as_they_are() -> None:
    model = strange()
    net = isthmus.compile(model)
    assert "acme.ops.Relu stays an opaque node: the domain acme.ops is not known" in net.report.notes
    found = net.artefact.model  # type: ignore[attr-defined]
    node, before = found.graph.node[1], model.graph.node[1]
    assert (node.op_type, node.domain, node.name, node.doc_string) == ("Relu", "acme.ops", "odd", "hi")
    assert (list(node.input), list(node.output)) == (["x", "", "outer"], ["y", "", "z"])
    assert {each.domain: each.version for each in found.opset_import} == {"": 17, "acme.ops": 7, "acme": 3}
    mine, theirs = ({each.name: each for each in one.attribute} for one in (node, before))
    assert mine.keys() == theirs.keys()
    assert all(mine[name] == theirs[name] for name in mine.keys() - {"gs"})
    names = {output for graph in (mine["g"].g, *mine["gs"].graphs) for each in graph.node for output in each.output}
    assert len(names) == 6  # no two of them are called the same
    assert all(graph.node[1].input[1] == "outer" for graph in mine["gs"].graphs)


def test_what_is_taken_for_granted_is_told_once_however_often_a_file_is_read() -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[N, 3] x, float[M, 3] y) => (float z) { z = Concat<axis = 1>(x, y) }'
    )
    for _ in range(3):
        net = isthmus.compile(made)
        made = net.artefact.model
        told = {each.key: each.value for each in made.metadata_props}
        assert told["isthmus.assumptions"].startswith("N == M")
        assert len(told["isthmus.assumptions"].splitlines()) == len(net.report.assumptions) == 1


def test_training_is_left_out_with_a_note() -> None:
    made = onnx.parser.parse_model('<ir_version: 9, opset_import: ["": 18]> g (float[3] x) => (float[3] y) { y = Relu(x) }')
    made.training_info.add()
    net = isthmus.compile(made)
    assert net.report.notes == ["what the file says of training is left out"]
    assert not net.artefact.model.training_info


def test_what_nested_graphs_use_is_renamed_with_it() -> None:
    """The node that made it is gone, and another value stands in its place."""
    model = strange()
    model.graph.node[0].CopyFrom(helper.make_node("Identity", ["x"], ["outer"]))
    node = written(model).graph.node[0]
    inner = {each.name: each for each in node.attribute}["g"].g
    assert (list(node.input), inner.node[1].input[1]) == (["x", "", "x"], "x")


def test_nested_graphs_are_not_taken_to_another_opset_where_their_ops_differ() -> None:
    with pytest.raises(UnsupportedError, match=r"Add stays as it is .* of opset 17, and is another at opset 13"):
        isthmus.compile(strange(), opset=13)


def test_the_text_form_holds_nodes_that_nobody_knows() -> None:
    graph = import_model(strange()).graph
    text = print_graph(graph)
    assert print_graph(parse(text, weight_table(graph))) == text


def test_a_nested_graph_that_uses_what_nobody_makes() -> None:
    model = strange()
    next(each for each in model.graph.node[1].attribute if each.name == "g").g.node[1].input[1] = "nothing"
    with pytest.raises(FileError, match="a nested graph uses 'nothing'"):
        isthmus.compile(model)


def test_types_of_results_that_the_runtime_knows() -> None:
    """Its own domain's: neither the file nor ONNX tells them."""
    nodes = [
        helper.make_node("FusedMatMul", ["x", "w"], ["m"], domain="com.microsoft", transB=1),
        helper.make_node("Gelu", ["m"], ["g"], domain="com.microsoft"), helper.make_node("Neg", ["g"], ["y"]),
    ]  # fmt: skip
    w = numpy_helper.from_array(np.ones((40, 30), np.float32), "w")
    model = made(
        nodes, [info("x", ["N", 30])], [info("y", None)], opsets=(("", 18), ("com.microsoft", 1)), initializer=[w]
    )
    net = isthmus.compile(model)
    assert str(net.graph.outputs[0].type) == "f32[N, 40]"
    assert net(np.ones((2, 30), np.float32))["y"].shape == (2, 40)
    assert {each.domain: each.version for each in net.artefact.model.opset_import}["com.microsoft"] == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("delimiter", [b"\xff", "ö".encode(), b"a\xc3b"])
def test_bytes_that_are_no_text_stay_as_they_are(delimiter: bytes) -> None:
    node = helper.make_node("StringSplit", ["x"], ["y", "z"], delimiter=delimiter)
    outputs = [info("y", None, T.STRING), info("z", None, T.INT64)]
    found = isthmus.compile(made([node], [info("x", ["N"], T.STRING)], outputs, opsets=[("", 20)]), opset=20)
    (split,) = found.artefact.model.graph.node  # type: ignore[attr-defined]
    assert split.attribute[0].s == delimiter
