"""Large tensors stay in the file that they are in; the file may be saved over, and may not be written to."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx_models import assembled

import isthmus
from isthmus.errors import FileError, IsthmusError
from isthmus.frontends.onnx.files import read
from isthmus.frontends.onnx.held import HeldFile, HeldWeight
from isthmus.frontends.onnx.importing import import_model
from isthmus.frontends.onnx.wire import LARGE, light
from isthmus.ir.dtypes import from_numpy
from isthmus.ir.weights import READ_BYTES

SIZE = 100


def array(seed: int, *shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tensor(name: str, content: Any) -> Any:
    return numpy_helper.from_array(content, name)


def constant(name: str, content: Any) -> Any:
    return helper.make_node("Constant", [], [name], value=tensor(name, content))


def everywhere() -> Any:
    """A model with a large tensor in each place where one can be."""
    x, y = (helper.make_tensor_value_info(name, T.FLOAT, [SIZE, SIZE]) for name in "xy")
    then = helper.make_graph(
        [helper.make_node("Add", ["a", "w_then"], ["t"])], "then", [], [helper.make_tensor_value_info("t", T.FLOAT, None)],
        [tensor("w_then", array(1, SIZE, SIZE))],
    )  # fmt: skip
    other = helper.make_graph(
        [constant("k", array(2, SIZE, SIZE)), helper.make_node("Sub", ["a", "k"], ["e"])], "else", [],
        [helper.make_tensor_value_info("e", T.FLOAT, None)],
    )  # fmt: skip
    body = [constant("c", array(3, SIZE, SIZE)), helper.make_node("Mul", ["i", "c"], ["o"])]
    function = helper.make_function("mine", "scaled", ["i"], ["o"], body, [helper.make_opsetid("", 17)])
    sparse = helper.make_sparse_tensor(
        tensor("s", np.arange(1, 2001, dtype=np.float32)), tensor("s_at", np.arange(0, 10000, 5)), [SIZE, SIZE]
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "s"], ["p"]),
        helper.make_node("scaled", ["p"], ["a"], domain="mine"), helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [x], [y], [tensor("w", array(0, SIZE, SIZE)), tensor("zero", np.float32(0))], sparse_initializer=[sparse]
    )
    model = assembled(graph, ("", 17), ("mine", 1), functions=[function])
    onnx.checker.check_model(model)
    return model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "model.onnx"
    onnx.save(everywhere(), found)
    return found


def test_what_is_large_is_not_parsed(path: Path) -> None:
    model, files = read(path)
    assert model.ByteSize() < 3000 < path.stat().st_size
    assert files is not None
    assert not files.outside
    net = isthmus.compile(path)
    held = [weight for weight in net.captured.weights if weight.nbytes >= LARGE]
    assert sum(isinstance(weight, HeldWeight) for weight in held) == 4
    assert len(held) == 5  # and the sparse one, written out
    for target in ("onnx", "reference"):
        isthmus.compile(path, target=target).verify()
    plain = isthmus.compile(everywhere())
    for x in (array(5, SIZE, SIZE), -abs(array(6, SIZE, SIZE))):
        np.testing.assert_array_equal(net(x)["y"], plain(x)["y"])
    assert net.artefact.model == plain.artefact.model  # type: ignore[attr-defined]


def test_a_link_to_a_file_elsewhere(path: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.onnx"
    link.symlink_to(path)
    isthmus.compile(link).verify(seeds=1)


def test_a_file_that_can_be_read_only_once(path: Path) -> None:
    """What comes through a pipe is read whole."""
    pipe = path.with_name("pipe.onnx")
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
    writer.start()
    model, files = read(pipe)
    writer.join()
    assert files is None
    assert model == onnx.load(path)


@pytest.mark.parametrize("outside", [False, True])
def test_saved_over_the_file_that_it_comes_from(tmp_path: Path, outside: bool) -> None:
    path = tmp_path / "model.onnx"
    model = everywhere()
    del model.functions[:]
    model.graph.node[2].CopyFrom(helper.make_node("Relu", ["p"], ["a"]))
    onnx.save(model, path, save_as_external_data=outside, location="model.onnx.data")
    net = isthmus.compile(path)
    x = array(5, SIZE, SIZE)
    before = net(x)["y"]
    assert net.captured.files.outside == outside  # type: ignore[attr-defined]
    for _ in range(2):
        files = net.save(path)
        assert len(files) == 1 + outside
        np.testing.assert_array_equal(isthmus.compile(path)(x)["y"], before)
    np.testing.assert_array_equal(net(x)["y"], before)
    with pytest.raises(FileError, match="is not the file any more that was read"):
        net.verify()  # what it would compare with is gone


def test_written_to_in_place(path: Path, tmp_path: Path) -> None:
    net = isthmus.compile(path)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(FileError, match="has changed since it was read"):
        net.save(tmp_path / "other.onnx")
    with pytest.raises(FileError, match="has changed since it was read"):
        net.artefact.run([array(5, SIZE, SIZE)])
    assert not (tmp_path / "other.onnx").exists()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.complex64])
def test_parts_of_weights(path: Path, dtype: Any) -> None:
    """Whether they are mapped or read, and whether they begin where elements should."""
    rows = READ_BYTES // 8
    wanted = array(9, rows, 16).astype(dtype)
    for gap in (0, 1, 8):
        path.write_bytes(b"\0" * gap + wanted.tobytes())
        weight = HeldWeight(HeldFile(path), gap, from_numpy(wanted.dtype), wanted.shape)
        found = weight.array()
        assert found.flags.aligned
        assert not found.flags.writeable
        np.testing.assert_array_equal(found, wanted)
        for start, stop in ((0, rows), (0, 1), (3, rows - 5), (rows - 1, rows + 5), (7, 7)):
            np.testing.assert_array_equal(weight.rows(start, stop), wanted[start:stop])
        assert b"".join(map(bytes, weight.chunks())) == wanted.tobytes()


@pytest.mark.parametrize(("location", "offset", "message"), [
    ("\0", 10**9, "is too short for the tensor 'w'"), ("a\0b", 0, "not in the model's folder"),
    ("model.onnx", 10**9, "is too short for the tensor 'w'"), ("../model.onnx", 0, "not in the model's folder"),
])  # fmt: skip
def test_a_file_that_makes_up_where_its_tensors_are(path: Path, location: str, offset: int, message: str) -> None:
    model = everywhere()
    w = model.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = onnx.TensorProto.EXTERNAL
    w.external_data.add(key="location", value=location)
    w.external_data.add(key="offset", value=str(offset))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FileError, match=message):
        isthmus.compile(path)


def test_wrong_bytes_are_told_as_without_it(tmp_path: Path) -> None:
    """Cut off, or with bits the other way round: what protobuf says of the file is what counts."""
    content = everywhere().SerializeToString()
    rest = light(content, len(content))
    assert rest is not None
    heads = [at for at in range(len(content) - 8) if content[at : at + 8] in rest]
    draws = random.Random(1)
    path = tmp_path / "m.onnx"
    compared = 0
    for turn in range(200):
        found = bytearray(content)
        if turn % 3:
            for _ in range(turn % 3):
                found[draws.randrange(len(found)) if turn % 2 else draws.choice(heads)] ^= 1 << draws.randrange(8)
        else:
            del found[draws.randrange(len(found)) :]
        path.write_bytes(found)
        try:
            whole = onnx.ModelProto.FromString(bytes(found))
        except DecodeError:
            with pytest.raises(FileError):
                read(path)
            continue
        wanted, got = outcome(whole), outcome(*read(path))
        assert wanted == got
        compared += 1
    assert compared > 50


def outcome(model: Any, files: Any = None) -> str:
    try:
        return str(import_model(model, files).graph)
    except IsthmusError as error:
        return error.message
