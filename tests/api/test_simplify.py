"""ONNX files on the command line: ``isthmus simplify``, and files as models of the other commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx_models import assembled

from isthmus.cli import main
from isthmus.errors import FileError


def run(*args: object) -> Result:
    return CliRunner().invoke(main, list(map(str, args)))


def net() -> Any:
    """Two layers and some detours, with a size that is open and an input whose name is no word."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (8, 64), "b1": (64,), "w2": (64, 64), "n1": (64,), "n2": (64,), "n3": (64,), "n4": (64,)}
    weights = [numpy_helper.from_array(abs(rng.standard_normal(s)).astype(np.float32), name) for name, s in shapes.items()]
    weights.append(numpy_helper.from_array(np.array([-1]), "last"))
    nodes = [
        helper.make_node("Identity", ["input.1"], ["x"]), helper.make_node("MatMul", ["x", "w1"], ["m"]),
        helper.make_node("Add", ["m", "b1"], ["a"]), helper.make_node("Transpose", ["a"], ["t"], perm=[1, 0]),
        helper.make_node("Transpose", ["t"], ["u"], perm=[1, 0]), helper.make_node("Relu", ["u"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["v"]), helper.make_node("Constant", [], ["one"], value_float=1.0),
        helper.make_node("Mul", ["v", "one"], ["y"], doc_string="a note"),
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(*each) for each in (("input.1", T.FLOAT, ["N", 8]), ("y", T.FLOAT, ["N", 64]))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = assembled(graph, ("", 17), ir_version=8, producer_name="somebody")
    helper.set_model_props(model, {"licence": "free"})
    return model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "net.onnx"
    onnx.save(net(), found)
    return found


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    found = tmp_path / "outside.onnx"
    onnx.save(net(), found, save_as_external_data=True, location="outside.bin", size_threshold=1024)
    return found


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]


def test_a_file_is_written_with_fewer_nodes(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    done = run("simplify", path, out, "--verify")
    assert done.exit_code == 0, done.output
    before, after = onnx.load(path), onnx.load(out)
    onnx.checker.check_model(after, full_check=True)
    assert kinds(out) == ["Gemm", "Relu", "MatMul"]
    assert (after.graph.input, after.graph.output) == (before.graph.input, before.graph.output)
    assert (after.producer_name, after.metadata_props) == (before.producer_name, before.metadata_props)
    assert after.opset_import[0].version == 17
    assert out.stat().st_size < path.stat().st_size
    lines = [line.replace("│", " ").split() for line in done.output.splitlines()]
    for row in (["Transpose", "2", "0"], ["Identity", "1", "0"], ["Gemm", "0", "1"], ["nodes", "8", "3"]):
        assert row in lines
    assert [line for line in lines if "Relu" in line] == []  # as many as before
    assert "Every output against the model" in done.output
    assert f"wrote {out}" in done.output


def test_json_and_quiet(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    told = json.loads(run("simplify", path, out, "--json", "--opset", 13).output)
    assert told["ok"] is True
    assert (told["files"], told["opset"], told["verified"]) == ([str(out)], 13, None)
    assert (told["ops_before"]["Transpose"], told["ops_after"]) == (2, {"Gemm": 1, "Relu": 1, "MatMul": 1})
    assert (told["bytes_before"], told["bytes_after"]) == (path.stat().st_size, out.stat().st_size)
    assert onnx.load(out).opset_import[0].version == 13
    assert run("simplify", path, out, "--quiet").output == ""
    assert json.loads(run("simplify", path, out, "--json", "--verify").output)["verified"]["rounds"]


def test_in_place(path: Path) -> None:
    for _ in range(2):
        done = run("simplify", path, path, "--verify")
        assert done.exit_code == 0, done.output
        assert kinds(path) == ["Gemm", "Relu", "MatMul"]


def test_weights_outside_stay_outside(outside: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    told = json.loads(run("simplify", outside, out, "--verify", "--json").output)
    assert told["files"] == [str(out), f"{out}.data"]
    assert told["bytes_before"] == sum(file.stat().st_size for file in (outside, tmp_path / "outside.bin"))
    assert told["unused"] == []
    assert out.stat().st_size < 2000
    inside = tmp_path / "inside.onnx"
    assert run("simplify", outside, inside, "-O", "external_data=never", "--quiet").exit_code == 0
    assert not Path(f"{inside}.data").exists()
    done = run("simplify", outside, outside)
    assert f"note: {tmp_path / 'outside.bin'} is of no use any more" in done.output
    assert run("verify", outside, out).exit_code == 0


def test_the_weights_of_the_source_are_not_written_over(outside: Path, tmp_path: Path) -> None:
    copy, out = tmp_path / "copy.onnx", tmp_path / "out.onnx"
    onnx.save(net(), out, save_as_external_data=True, location="out.onnx.data", size_threshold=1024)
    copy.write_bytes(out.read_bytes())
    content = (tmp_path / "out.onnx.data").read_bytes()
    done = run("simplify", copy, out)
    assert done.exit_code == 1
    assert "out.onnx.data was not written: copy.onnx has its weights there" in done.output
    assert (tmp_path / "out.onnx.data").read_bytes() == content
    assert run("simplify", out, out, "--verify").exit_code == 0


def test_what_cannot_be_written_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = path.read_bytes()

    def full(weight: Any, out: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("isthmus.backends.onnx.wire.copy", full)
    done = run("simplify", path, path)
    assert done.exit_code == 1
    assert "No space left" in done.output
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_an_older_file_than_is_written(tmp_path: Path) -> None:
    model = net()
    model.opset_import[0].version = 6
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("MatMul", ["input.1", "w1"], ["y"]))
    path = tmp_path / "old.onnx"
    onnx.save(model, path)
    done = run("simplify", path, path)
    assert done.exit_code == 0, done.output
    assert "note: the file is of opset 6, and is written at 7, the nearest that is written" in done.output
    assert "nearest" not in run("simplify", path, path, "--opset", 9).output


def test_sizes_by_the_inputs_name(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    done = run("simplify", path, out, "--input", "input.1=f32[3,8]", "--verify")
    assert done.exit_code == 0, done.output
    shapes = [[dim.dim_value for dim in each.type.tensor_type.shape.dim] for graph in [onnx.load(out).graph]
              for each in (*graph.input, *graph.output)]  # fmt: skip
    assert shapes == [[3, 8], [3, 64]]
    assert run("simplify", path, out, "--input", "f32[3,9]").exit_code == 2


def test_files_as_models_of_the_other_commands(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    done = run("compile", path, "-o", out, "--opset", 14)
    assert done.exit_code == 0, done.output
    assert "seed" not in done.output.splitlines()[-1]
    assert "Every output against the model" in done.output
    assert run("verify", path, out).exit_code == 0
    assert "graph @g(%input.1: f32[N, 8])" in run("show", path).output
    assert run("compile", path, "-o", tmp_path / "caffe", "--target", "caffe").exit_code == 1
    done = run("compile", path, "-o", tmp_path / "caffe", "--target", "caffe", "--input", "f32[2,8]")
    assert done.exit_code == 0, done.output
    other = tmp_path / "other.onnx"
    onnx.save(helper.make_model(onnx.load(path).graph), other)
    changed = onnx.load(other)
    changed.graph.node[2].input[1] = "n1"
    onnx.save(changed, other)
    assert run("verify", other, out).exit_code == 1


@pytest.mark.parametrize(("arguments", "message"), [
    (["compile", "PATH", "-o", "x.onnx", "--kwargs", "{}"], "--kwargs cannot go with a file"),
    (["compile", "PATH", "-o", "x.onnx", "--weights", "a.safetensors"], "--weights cannot go with a file"),
    (["compile", "PATH", "-o", "x.onnx", "--dynamic", "{\"x\": {\"0\": \"N\"}}"], "dynamic_shapes is not taken"),
    (["simplify", "net.py:Net", "x.onnx"], "simplify takes an .onnx file"),
    (["simplify", "PATH", "."], "OUT must name a file"),
    (["simplify", "PATH", "x.onnx", "-O", "colour=red"], "there is no option colour"),
    (["simplify", "PATH", "x.onnx", "--opset", "3"], "opset 3 is not supported"),
])  # fmt: skip
def test_wrong_usage(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*(str(path) if each == "PATH" else each for each in arguments))
    assert done.exit_code == 2
    assert message in done.output
    assert not Path("x.onnx").exists()


def test_a_missing_file(tmp_path: Path) -> None:
    done = run("simplify", tmp_path / "none.onnx", tmp_path / "x.onnx", "--json")
    assert done.exit_code == 1
    assert json.loads(done.output)["error"]["kind"] == FileError.__name__


def test_strict(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    assert run("simplify", path, out, "--strict").exit_code == 0
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "K"
    onnx.save(model, path)
    assert "note" not in run("simplify", path, out).output
    done = run("simplify", path, out, "--strict")
    assert done.exit_code == 1
    assert "K == 8" in done.output


def test_neither_torch_nor_onnxruntime_is_needed(path: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from isthmus.cli import main; sys.argv[1:] = ['simplify', *sys.argv[1:], '--quiet']\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "assert not {'torch', 'onnxruntime', 'sympy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code, path, tmp_path / "out.onnx"], check=True)


@pytest.mark.parametrize("text", [
    "() => (float[150, 150] y) <float one = {1}, int64[2] s = {150, 150}> { y = Expand(one, s) }",
    "(float[150] x) => (float[150, 150] y) <float[1, 10] a = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, int64[2] r = {150, 15}> "
    "{ t = Tile(a, r) y = Add(x, t) }",
    "(float[150] x) => (float[150, 150] y) <int64[2] s = {150, 150}> "
    "{ t = ConstantOfShape<value = float[1] {2}>(s) y = Add(x, t) }",
    "(float[150, 150] x) => (float[150, 150] y) <int64 a = {0}, int64 b = {150}, int64 c = {1}, int64[2] p = {150, 1}> "
    "{ r = Range(a, b, c) q = Reshape(r, p) m = Less(q, r) f = Cast<to = 1>(m) y = Mul(x, f) }",
    "(int64[1] i) => (float[1, 150] y) <float[1] a = {1}, int64[2] s = {150, 150}> "
    "{ e = Expand(a, s) t = Trilu(e) y = Gather(t, i) }",
])  # fmt: skip
def test_no_file_grows_by_what_is_computed_ahead(text: str, tmp_path: Path) -> None:
    path, out = tmp_path / "net.onnx", tmp_path / "out.onnx"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    # Beside large weights a table of some kilobytes is little.
    size = 1000
    model.graph.initializer.append(numpy_helper.from_array(np.ones((size, size), np.float32), "large"))
    model.graph.input.append(helper.make_tensor_value_info("more", T.FLOAT, [1, size]))
    model.graph.node.append(helper.make_node("MatMul", ["more", "large"], ["product"]))
    model.graph.output.append(helper.make_tensor_value_info("product", T.FLOAT, [1, size]))
    onnx.save(model, path)
    done = run("simplify", path, out, "--verify")
    assert done.exit_code == 0, done.output
    assert out.stat().st_size <= path.stat().st_size + 200, done.output


def test_what_onnxruntime_has_no_kernel_for_is_written_as_it_was(tmp_path: Path) -> None:
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    ends = [helper.make_tensor_value_info(*each) for each in (("x", T.FLOAT, [3]), ("y", T.FLOAT4E2M1, [3]))]
    nodes = [helper.make_node("Identity", ["x"], ["z"]), helper.make_node("Cast", ["z"], ["y"], to=T.FLOAT4E2M1)]
    model = assembled(helper.make_graph(nodes, "g", ends[:1], ends[1:]), ("", 23))
    onnx.save(model, source)
    done = run("simplify", source, output, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["ops_after"] == {"Cast": 1}
    assert any("no kernel for Cast-23 to f4e2m1" in note for note in found["report"]["notes"])
    assert run("simplify", source, output, "-O", "profile=onnxruntime").exit_code == 1
