"""Files that are broken, or out to do harm: an error that says what is wrong, and nothing read outside of the folder."""

from __future__ import annotations

import gzip
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx_models import model

import isthmus
from isthmus.errors import IsthmusError

SECRET = b"TOP-SECRET-CONTENT-0123456789" * 4


def info(name: str, kind: int = T.FLOAT, shape: Any = (2, 3)) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def net(*nodes: Any, **more: Any) -> Any:
    """A model of nodes from x, of 2 x 3 floats, to y."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        more.pop("inputs", [info("x")]),
        more.pop("outputs", [info("y", T.FLOAT, None)]),
        more.pop("constants", []),
        sparse_initializer=more.pop("sparse", []),
    )
    opsets = [helper.make_opsetid("", more.pop("opset", 20)), helper.make_opsetid("d", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def call(name: str, inputs: str, outputs: str = "y") -> Any:
    return helper.make_node(name, inputs.split(), outputs.split(), domain="d")


def function(name: str, *nodes: Any, inputs: str = "a", outputs: str = "b") -> Any:
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("d", 1)]
    return helper.make_function("d", name, inputs.split(), outputs.split(), list(nodes), opsets)


def branch(source: str, output: str = "t", kind: int = T.FLOAT) -> Any:
    made = node("Neg", source, "t") if kind == T.FLOAT else node("Cast", source, "t", to=kind)
    return helper.make_graph([made], "branch", [], [info(output, kind, None)])


def choice(then: Any, otherwise: Any | None = None, outputs: str = "y", *more: Any) -> Any:
    one = node("If", "k", outputs, then_branch=then, else_branch=otherwise or branch("x"))
    return net(one, *more, inputs=[info("x"), info("k", T.BOOL, ())])


def held(content: Any, name: str = "w") -> Any:
    return numpy_helper.from_array(np.asarray(content), name)


def floats(*dims: int, **content: Any) -> Any:
    return net(node("Add", "x w"), constants=[T(name="w", data_type=T.FLOAT, dims=dims, **content)])


def sized(op: str, *sizes: int, inputs: str = "x s", outputs: str = "y", **attributes: Any) -> Any:
    return net(node(op, inputs, outputs, **attributes), constants=[held(np.array(sizes, np.int64), "s")])


def pool(**attributes: Any) -> Any:
    return net(
        node("MaxPool", "x", kernel_shape=attributes.pop("kernel", [2, 2]), **attributes),
        inputs=[info("x", shape=(1, 1, 4, 4))],
    )


def conv(**attributes: Any) -> Any:
    weight = held(np.ones((1, 1, 2, 2), np.float32))
    return net(node("Conv", "x w", **attributes), constants=[weight], inputs=[info("x", shape=(1, 1, 4, 4))])


def sparse(dims: Sequence[int], indices: Any, values: Sequence[float] = (1.0,)) -> Any:
    made = helper.make_sparse_tensor(held(np.float32(values)), held(np.array(indices, np.int64), "i"), dims)
    return net(node("Add", "x w"), sparse=[made])


def changed(proto: Any, change: Any) -> Any:
    change(proto)
    return proto


BAD: dict[str, tuple[Any, str]] = {
    # cycles, and values that are there twice or not at all
    "a-cycle": (net(node("Add", "x b", "a"), node("Neg", "a", "b"), node("Neg", "b")), "'b' is made by no node before it"),
    "its-own-input": (net(node("Add", "x y")), "'y' is made by no node before it"),
    "unsorted": (net(node("Neg", "a"), node("Neg", "x", "a")), "'a' is made by no node before it"),
    "made-twice": (net(node("Neg", "x"), node("Abs", "x")), "the name 'y' is made twice"),
    "made-twice-by-one": (net(node("Split", "x", "y y", num_outputs=2)), "the name 'y' is made twice"),
    "an-input-made": (net(node("Neg", "x", "x"), node("Neg", "x")), "the name 'x' is made twice"),
    "constant-twice": (net(node("Add", "x w"), constants=[held(np.ones(3, np.float32))] * 2), "'w' is there twice"),
    "input-twice": (net(node("Neg", "x"), inputs=[info("x")] * 2), "'x' is there twice"),
    "no-such-value": (net(node("Add", "x nowhere")), "'nowhere' is made by no node"),
    "no-such-output": (net(node("Neg", "x", "z")), "nothing makes the output 'y'"),
    "no-outputs": (net(node("Neg", "x"), outputs=[]), "nothing to compute"),
    # functions
    "calls-itself": (net(call("f", "x"), functions=[function("f", call("f", "a", "b"))]), "calls itself"),
    "call-each-other": (
        net(call("f", "x"), functions=[function("f", call("g", "a", "b")), function("g", call("f", "a", "b"))]),
        "calls itself",
    ),
    "function-twice": (net(call("f", "x"), functions=[function("f", node("Neg", "a", "b"))] * 2), "a function is there twice"),
    "function-without-output": (
        net(call("f", "x"), functions=[function("f", node("Neg", "a", "c"))]),
        "nothing makes the output b",
    ),
    "function-from-outside": (
        net(node("Neg", "x", "z"), call("f", "x"), functions=[function("f", node("Add", "a z", "b"))]),
        "'z' is made by no node",
    ),
    "function-of-more": (net(call("f", "x x"), functions=[function("f", node("Neg", "a", "b"))]), "does not fit the function"),
    "function-to-more": (
        net(call("f", "x", "y z"), functions=[function("f", node("Neg", "a", "b"))]),
        "does not fit the function",
    ),
    "function-of-one-twice": (
        net(call("f", "x x"), functions=[function("f", node("Neg", "a", "b"), inputs="a a")]),
        "input twice",
    ),
    # nested graphs
    "branch-of-its-own-result": (choice(branch("y")), "'y' is made by no node before it"),
    "branch-of-what-follows": (choice(branch("z"), None, "y", node("Neg", "x", "z")), "'z' is made by no node before it"),
    "branch-without-output": (choice(branch("x", "nope")), "nothing makes the output nope"),
    "branches-of-other-types": (choice(branch("x"), branch("x", kind=T.INT64)), "different types"),
    "a-condition-of-many": (net(node("If", "x", then_branch=branch("x"), else_branch=branch("x"))), "malformed"),
    "no-else": (net(node("If", "x", then_branch=branch("x"))), "lacks the attribute else_branch"),
    "no-body": (net(helper.make_node("Loop", ["", ""], ["y"])), "lacks the attribute body"),
    # ranks, sizes and types
    "a-weight-of-rank-2": (net(node("Conv", "x x")), "do not fit an input of rank 2"),
    "inner-sizes": (net(node("MatMul", "x x")), "inner sizes do not agree"),
    "broadcast": (net(node("Add", "x w"), constants=[held(np.ones(4, np.float32))]), "broadcast sizes do not agree"),
    "two-types": (net(node("Add", "x w"), constants=[held(np.ones(3, np.int64))]), "has another dtype"),
    "output-of-another-type": (net(node("Neg", "x"), outputs=[info("y", T.INT64)]), "not of the type that the file tells"),
    "default-of-another-type": (
        net(node("Add", "x w"), constants=[held(np.ones(3, np.int64))], inputs=[info("x"), info("w", shape=(3,))]),
        "of another type",
    ),
    "default-of-another-size": (
        net(node("Add", "x w"), constants=[held(np.ones(1, np.float32))], inputs=[info("x"), info("w", shape=(3,))]),
        "another type",
    ),
    "input-without-type": (net(node("Neg", "x"), inputs=[onnx.ValueInfoProto(name="x")]), "has no type"),
    "input-of-no-type": (net(node("Neg", "x"), inputs=[info("x", 99)]), "element type 99"),
    "100-axes": (net(node("Neg", "x"), inputs=[info("x", shape=(1,) * 100)]), "more than 64 axes"),
    "negative-input": (net(node("Neg", "x"), inputs=[info("x", shape=(-5, 3))]), "size of -5"),
    # constants whose content is not what they say
    "too-few-bytes": (floats(3, raw_data=b"1234"), "holds 4 bytes"),
    "too-many-bytes": (floats(3, raw_data=b"1" * 400), "holds 400 bytes"),
    "too-few-numbers": (floats(3, float_data=[1.0]), "does not hold what its sizes"),
    "numbers-elsewhere": (floats(3, int64_data=[1, 2, 3]), "does not hold what its sizes"),
    "negative-size": (floats(-1, raw_data=bytes(12)), r"has the sizes \[-1\]"),
    "two-negative-sizes": (floats(-1, -3, raw_data=bytes(12)), r"has the sizes \[-1, -3\]"),
    "huge-size": (floats(1 << 62, raw_data=bytes(12)), "has the sizes"),
    "huge-product": (floats(1 << 32, 1 << 32, raw_data=b""), "has the sizes"),
    "nothing-of-huge-sizes": (floats(0, 1 << 62, 1 << 62, raw_data=b""), "has the sizes"),
    "constant-of-100-axes": (floats(*[1] * 100, raw_data=bytes(4)), "has the sizes"),
    "constant-of-no-type": (net(node("Add", "x w"), constants=[T(name="w", data_type=99, dims=[3])]), "element type 99"),
    "half-a-byte": (
        net(node("Identity", "w"), constants=[T(name="w", data_type=T.INT4, dims=[5], raw_data=b"12")]),
        "holds 2 bytes",
    ),
    "few-texts": (
        net(node("Identity", "w"), constants=[T(name="w", data_type=T.STRING, dims=[3], string_data=[b"a"])]),
        "sizes",
    ),
    "sparse-outside": (sparse([3], [9]), "do not fit the sizes"),
    "sparse-from-the-end": (sparse([3], [-1]), "do not fit"),
    "sparse-count": (sparse([3], [0, 1]), "do not fit"),
    "sparse-rank": (sparse([3], [[0, 0]]), "do not fit"),
    "sparse-negative": (sparse([-3], [0]), "has the sizes"),
    "sparse-of-terabytes": (sparse([1 << 20, 1 << 19], [0]), "takes 2199023255552 bytes"),
    # sizes that ops are given
    "reshape-to-minus-2": (sized("Reshape", -2, 3), "a size is negative"),
    "reshape-two-open": (sized("Reshape", -1, -1), "is not determined"),
    "reshape-to-7": (sized("Reshape", 7), "different numbers of elements"),
    "reshape-zeros": (sized("Reshape", 0, 0, 0), "keeps axis 2 of 2"),
    "constant-of-negative": (sized("ConstantOfShape", -1, inputs="s"), "a size is negative"),
    "tile-by-negative": (sized("Tile", -1, 3), "a repeat is negative"),
    "pad-by-less-than-all": (sized("Pad", -5, -5, 0, 0), "has no part"),
    "pad-of-few": (sized("Pad", 1, 1), "has 2 pads"),
    "resize-to-negative": (
        net(helper.make_node("Resize", ["x", "", "", "s"], ["y"]), constants=[held(np.int64([-5, -5]), "s")]),
        "size",
    ),
    "resize-to-1e30": (
        net(helper.make_node("Resize", ["x", "", "s"], ["y"]), constants=[held(np.float32([1, 1e30]), "s")]),
        "size",
    ),
    "split-negative": (sized("Split", -1, 3, outputs="y z"), "a size is negative"),
    "split-of-more": (sized("Split", 1, 3, outputs="y z"), "do not agree"),
    "slice-by-0": (sized("Slice", 0, inputs="x s s s s"), "the steps"),
    "axis-twice": (sized("Unsqueeze", 0, 0), "name an axis twice"),
    "axis-9": (sized("Unsqueeze", 9), "axis 9 is not within the rank"),
    "squeeze-of-2": (sized("Squeeze", 0), "do not agree"),
    "topk-of-negative": (sized("TopK", -1, outputs="y z"), "k is out of range"),
    "100000-axes": (
        net(
            node("Expand", "o s", "r"),
            node("Reshape", "x r"),
            constants=[held(np.int64([1]), "o"), held(np.int64([100000]), "s")],
        ),
        "more than 64 axes",
    ),
    # attributes
    "kernel-negative": (pool(kernel=[-3, 2]), "below 1"),
    "kernel-0": (pool(kernel=[0, 2]), "below 1"),
    "stride-0": (pool(strides=[0, 1]), "below 1"),
    "dilation-0": (pool(dilations=[0, 1]), "below 1"),
    "pads-of-few": (pool(pads=[1]), "pads"),
    "pads-negative": (pool(pads=[-1, 0, 0, 0]), "pads"),
    "auto-pad": (pool(auto_pad="WHAT"), "WHAT"),
    "groups-0": (conv(group=0), "groups"),
    "groups-3": (conv(group=3), "groups"),
    "another-kernel": (conv(kernel_shape=[3, 3]), "is not that of the weight"),
    "axis-a-float": (net(node("Concat", "x x", axis=0.5)), "of another kind"),
    "axis-a-text": (net(node("Concat", "x x", axis="a")), "of another kind"),
    "axis-a-list": (net(node("Concat", "x x", axis=[1, 2])), "of another kind"),
    "axis-7": (net(node("Softmax", "x", axis=7)), "axis 7 is not within the rank"),
    "no-permutation": (net(node("Transpose", "x", perm=[0, 0])), "malformed"),
    "permutation-of-floats": (net(node("Transpose", "x", perm=[0.5, 1.0])), "of another kind"),
    "cast-to-99": (net(node("Cast", "x", to=99)), "element type 99"),
    "no-such-attribute": (net(node("Neg", "x", foo=1)), "has an attribute 'foo'"),
    "no-axis": (net(node("Concat", "x x")), "lacks the attribute axis"),
    "branches-of-numbers": (net(node("If", "x", then_branch=1, else_branch=2)), "of another kind"),
    "an-attribute-twice": (
        changed(
            net(node("Concat", "x x", axis=0)), lambda m: m.graph.node[0].attribute.append(helper.make_attribute("axis", 1))
        ),
        "an attribute twice",
    ),
    "no-equation": (net(node("Einsum", "x", equation="ij->jjk")), "is not an equation"),
    "no-labels": (
        changed(
            net(node("LabelEncoder", "x", domain="ai.onnx.ml")),
            lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2)),
        ),
        "lacks the values",
    ),
    "no-such-op": (net(node("Foo", "x")), "has no op Foo"),
    "too-many-inputs": (net(node("Neg", "x x x")), "takes 1 inputs at most"),
    "a-result-too-many": (net(node("Softplus", "x", "t z"), node("Neg", "z")), "'z'"),
    "too-few-inputs": (net(node("Add", "x")), "lacks an input"),
    "a-huge-list": (
        net(node("Split", "x sizes", "y z"), inputs=[info("x"), info("sizes", T.INT64, (2**63 - 1,))]),
        "has a list of 9,223,372,036,854,775,807 numbers",
    ),
    "absent-inputs": (net(helper.make_node("Add", ["", ""], ["y"])), "lacks an input"),
    # opsets
    "no-opset": (changed(net(node("Neg", "x")), lambda m: m.ClearField("opset_import")), "names no opset"),
    "opset-0": (net(node("Neg", "x"), opset=0), "names no opset"),
    "opset-negative": (net(node("Neg", "x"), opset=-1), "has the version -1"),
    "opset-twice": (
        changed(net(node("Neg", "x")), lambda m: m.opset_import.append(helper.make_opsetid("", 7))),
        "in two versions",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_model(name: str) -> None:
    proto, said = BAD[name]
    with pytest.raises(IsthmusError, match=said):
        isthmus.compile(proto, opset=20)


GOOD = model("(float[2] x) => (float y) <float[2] w = {1, 2}> { y = Add(x, w) }").SerializeToString()
NO_MODELS = {
    "empty": b"",
    "zip": b"PK\x03\x04" + GOOD,
    "gzip": gzip.compress(GOOD),
    "pickle": pickle.dumps({"model": GOOD}),
    "zeros": bytes(1000),
    "html": b"<!DOCTYPE html><html></html>",
    "png": b"\x89PNG\r\n\x1a\n" + bytes(50),
    "ones": b"\xff" * 1000,
    "trailing": GOOD + b"garbage",
    "tensor": held(np.ones(3)).SerializeToString(),
    "graph": model("(float[2] x) => (float y) { y = Neg(x) }").graph.SerializeToString(),
    "length": b"\x3a\xff\xff\xff\xff\x0f" + b"a" * 10,
}


def refused(path: Path) -> str:
    """The error for a file."""
    with pytest.raises(IsthmusError) as caught:
        isthmus.compile(path)
    return str(caught.value)


@pytest.mark.parametrize("name", NO_MODELS)
def test_no_model(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(NO_MODELS[name])
    assert "is no ONNX model" in refused(path)


def test_a_folder_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder.onnx").mkdir()
    assert "cannot be read" in refused(tmp_path / "folder.onnx")
    assert "cannot be read" in refused(tmp_path / "missing.onnx")


def test_cut_short_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for end in range(len(GOOD)):
        path.write_bytes(GOOD[:end])
        refused(path)


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message as bytes."""
    size, length = b"", len(content)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


@pytest.mark.parametrize("depth", [60, 3000])
def test_deep_nests(depth: int, tmp_path: Path) -> None:
    graph = b""
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
        graph = field(1, field(1, b"k") + field(2, b"y") + field(4, b"If") + field(5, attribute))
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x09" + field(7, graph) + field(8, field(1, b"") + b"\x10\x12"))
    refused(path)


EXTERNAL = {
    "up": {"location": "../outside.bin"},
    "up-from-below": {"location": "a/../../outside.bin"},
    "absolute": {"location": "/outside.bin"},
    "link": {"location": "link.bin"},
    "link-to-a-folder": {"location": "linked/outside.bin"},
    "link-to-itself": {"location": "loop.bin"},
    "missing": {"location": "no.bin"},
    "empty": {"location": ""},
    "the-folder": {"location": "."},
    "a-zero": {"location": "a\0b"},
    "long": {"location": "a" * 5000},
    "deep": {"location": "a/" * 3000 + "b"},
    "pipe": {"location": "pipe"},
    "none": {"offset": "0"},
    "behind": {"location": "inside.bin", "offset": "1000"},
    "over-the-end": {"location": "inside.bin", "offset": "60"},
    "before": {"location": "inside.bin", "offset": "-4"},
    "far": {"location": "inside.bin", "offset": "1" + "0" * 30},
    "hexadecimal": {"location": "inside.bin", "offset": "0x10"},
    "another-length": {"location": "inside.bin", "length": "8"},
    "negative-length": {"location": "inside.bin", "length": "-1"},
    "url": {"location": "file:///etc/passwd"},
    "backslash": {"location": "..\\outside.bin"},
}


def outside(**entries: str) -> Any:
    made = T(name="w", data_type=T.FLOAT, dims=(4,), data_location=T.EXTERNAL)
    for key, value in entries.items():
        made.external_data.add(key=key, value=value)
    return made


@pytest.mark.parametrize("where", ["initializer", "attribute", "opaque"])
@pytest.mark.parametrize("name", EXTERNAL)
def test_data_elsewhere(name: str, where: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(SECRET)
    (folder / "inside.bin").write_bytes(bytes(64))
    (folder / "link.bin").symlink_to("../outside.bin")
    (folder / "linked").symlink_to("..")
    (folder / "loop.bin").symlink_to("loop.bin")
    os.mkfifo(folder / "pipe")
    entries = dict(EXTERNAL[name])
    if name == "absolute":
        entries["location"] = str(tmp_path / "outside.bin")
    held_outside = outside(**entries)
    proto = {
        "initializer": lambda: net(node("Identity", "w"), constants=[held_outside]),
        "attribute": lambda: net(node("Constant", "", value=held_outside)),
        "opaque": lambda: net(helper.make_node("Foo", ["x"], ["y"], domain="who", values=[held_outside]), outputs=[info("y")]),
    }[where]()
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    assert SECRET[:20].decode() not in refused(folder / "model.onnx")
