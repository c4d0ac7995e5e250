"""Large models are compiled and saved in little memory, and files of weights are not read to be compiled."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from safetensors.torch import load_file

import isthmus
from isthmus.ir.protobuf_wire import header

ROOT = Path(__file__).resolve().parents[2]
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@LINUX
def test_memory_beyond_the_weights() -> None:
    """The benchmark, with 300 MB of weights in place of 2.5 GB."""
    options = ["--megabytes", "300", "--allowed", "60", "--cases", "memory", "--goal-alone"]
    done = subprocess.run([sys.executable, "bench/size.py", *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" met ") == 2


def hollow(path: Path, size: int, count: int = 1) -> Path:
    """A file with square matrices of zeros that take no room on the disk."""
    each = 4 * size * size
    head = json.dumps({
        f"{number}.weight": {"dtype": "F32", "shape": [size, size], "data_offsets": [number * each, (number + 1) * each]}
        for number in range(count)
    }).encode()  # fmt: skip
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        file.truncate(8 + len(head) + count * each)
    return path


def resident() -> int:
    """All memory of this process, pages of mapped files included, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def linear(size: int, count: int = 1) -> Any:
    return torch.nn.Sequential(*(torch.nn.Linear(size, size, bias=False, device="meta") for _ in range(count)))


@pytest.mark.parametrize("target", ["onnx", "reference"])
def test_more_weights_than_memory_are_compiled(tmp_path: Path, target: str) -> None:
    size, count = 1 << 14, 512  # 512 matrices of 1 GB
    path = hollow(tmp_path / "w.safetensors", size, count)
    net = isthmus.compile(linear(size, count), torch.ones(1, 2, size), weights=path, target=target)
    assert net.report.weights_bytes == 1 << 39
    assert net.report.nodes["artefact"] == count


@LINUX
def test_weights_that_are_mapped_are_not_read_to_be_compiled(tmp_path: Path) -> None:
    size = 1 << 14  # of a matrix of 1 GB
    model = linear(size)
    isthmus.compile(torch.nn.Linear(3, 3), torch.ones(1, 3))  # what is loaded once is not what is measured
    model.load_state_dict(load_file(hollow(tmp_path / "w.safetensors", size)), assign=True)
    before = resident()
    net = isthmus.compile(model, torch.ones(1, 2, size))
    net.captured.check()
    assert resident() - before < 1 << 24


def hollow_onnx(path: Path, size: int, count: int, outside: bool) -> Path:
    """A model of layers whose matrices are zeros that take no room on the disk, in the file itself or in another."""
    helper = onnx.helper
    each, nodes, at = 4 * size * size, [], "x"
    for number in range(count):
        nodes.append(helper.make_node("Transpose", [f"w{number}"], [f"t{number}"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", [at, f"t{number}"], [f"y{number}"]))
        at = f"y{number}"
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", size]) for name in ("x", at)]
    graph = helper.make_graph(nodes, "hollow", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    tensors = [onnx.TensorProto(name=f"w{number}", data_type=1, dims=[size, size]) for number in range(count)]
    if outside:
        for number, tensor in enumerate(tensors):
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", "hollow.bin"), ("offset", number * each), ("length", each)):
                tensor.external_data.add(key=key, value=str(value))
        model.graph.initializer.extend(tensors)
        path.write_bytes(model.SerializeToString())
        with path.with_name("hollow.bin").open("wb") as file:
            file.truncate(each * count)
        return path
    starts = [tensor.SerializeToString() + header(9, each) for tensor in tensors]
    starts = [header(5, len(start) + each) + start for start in starts]
    body = model.graph.SerializeToString()
    model.ClearField("graph")
    with path.open("wb") as file:
        file.write(model.SerializeToString() + header(7, len(body) + sum(map(len, starts)) + each * count) + body)
        for start in starts:
            file.write(start)
            file.seek(each, 1)
        file.truncate(file.tell())
    return path


def peak(*arguments: Any) -> int:
    """The most memory that a command of isthmus takes, pages of mapped files included, in bytes."""
    command = [sys.executable, "-m", "isthmus.cli", *map(str, arguments)]
    process = os.posix_spawn(command[0], command, os.environ)
    _, status, used = os.wait4(process, 0)
    assert status == 0
    return used.ru_maxrss * 1024


@LINUX
def test_memory_to_simplify_a_file(tmp_path: Path) -> None:
    """Weights of 48 MB, inside and outside, of which no more than two are in memory at a time; all of them are turned."""
    out = tmp_path / "out.onnx"
    before = peak("simplify", hollow_onnx(tmp_path / "small.onnx", 8, 12, False), out, "--quiet")
    for outside in (False, True):
        path = hollow_onnx(tmp_path / "large.onnx", 1000, 12, outside)
        assert peak("simplify", path, out, "--quiet") - before < 20_000_000
        assert sum(each.stat().st_size for each in tmp_path.glob("out.onnx*")) > 48_000_000


@pytest.mark.parametrize("outside", [False, True])
def test_an_onnx_file_that_is_larger_than_memory(tmp_path: Path, outside: bool) -> None:
    size, count = 1 << 14, 512  # 512 matrices of 1 GB; what a file of protobuf can hold is less
    net = isthmus.compile(hollow_onnx(tmp_path / "large.onnx", size, count if outside else 1, outside))
    assert net.report.weights_bytes == (1 << 39 if outside else 1 << 30)


TOLERANCES = [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 16e-3)]


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES, ids=str)
def test_large_models_run_from_a_mapped_file(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, tolerance: float) -> None:
    monkeypatch.setattr("isthmus.backends.onnx.artefact.IN_MEMORY", 0)
    model = torch.nn.Sequential(torch.nn.Linear(40, 40), torch.nn.Conv1d(3, 20, 3)).to(dtype)
    net = isthmus.compile(model.eval(), torch.ones(2, 3, 40, dtype=dtype), dynamic_shapes=[{0: "N"}])
    assert net.verify(rtol=tolerance, atol=tolerance).ok


@LINUX
def test_streaming_gives_back_what_it_has_read(tmp_path: Path) -> None:
    size = 1 << 13  # of a matrix of 256 MB
    path = hollow(tmp_path / "w.safetensors", size)
    handle = isthmus.open_weights(path)["0.weight"]
    before = resident()
    peak = max(resident() for _ in handle.chunks())
    assert peak - before < 1 << 25
