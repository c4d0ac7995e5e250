"""Large models are compiled and saved in little memory, and files of weights are not read to be compiled."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import isthmus

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
    header = json.dumps({
        f"{number}.weight": {"dtype": "F32", "shape": [size, size], "data_offsets": [number * each, (number + 1) * each]}
        for number in range(count)
    }).encode()  # fmt: skip
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + count * each)
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
