"""What a model takes for granted: in the report, in the file, and an error where that is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from torch.export import Dim

import isthmus
from isthmus.backends.onnx import OnnxBackend
from isthmus.cli import main
from isthmus.errors import CaptureError, MismatchError
from isthmus.ir.checks import assumptions

HERE = __file__
X = torch.randn(9, 4)


def place(function: Any, offset: int) -> str:
    return f"{HERE}:{function.__code__.co_firstlineno + offset} in {function.__name__}"


def detect(x: torch.Tensor) -> torch.Tensor:
    boxes = x[x[:, 0] > 0]
    if boxes.numel() == 0:
        return boxes.new_zeros(0)
    return boxes.amax(1)


def kept(boxes: torch.Tensor) -> torch.Tensor:
    if boxes.shape[0] < 4:
        return boxes * 2
    return boxes + boxes.shape[0]


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def many(x: torch.Tensor) -> torch.Tensor:
    found = x[x > 0]
    return found if found.shape[0] > 3 else found * 2


def test_sizes_that_break_one_are_refused_with_what_was_asked() -> None:
    net = isthmus.compile(kept, X, dynamic_shapes={"boxes": {0: "N"}})
    with pytest.raises(isthmus.errors.UsageError, match="holds only for N >= 4") as caught:
        net(X[:3])
    assert "found: N=3; `boxes.shape[0] < 4` was answered no and goes on at line" in str(caught.value)


def test_verification_tells_what_data_may_break() -> None:
    net = isthmus.compile(many, X)
    assert net.verify().ok
    with pytest.raises(MismatchError, match="disagree on output") as caught:
        net.verify([torch.arange(36.0).reshape(9, 4) - 33])
    assert "remedy: check whether the inputs break what is taken for granted: u0 > 3 (at " in str(caught.value)
    assert "`found.shape[0] > 3` was answered yes" in str(caught.value)


def props(net: isthmus.Compiled, path: Path) -> dict[str, str]:
    (file, *_) = net.save(path)
    return {each.key: each.value for each in onnx.load(file).metadata_props}


def test_the_report_and_the_file_tell_both_outcomes(tmp_path: Path) -> None:
    net = isthmus.compile(detect, X, dynamic_shapes={"x": {0: "N"}})
    (told,) = net.report.assumptions
    line = detect.__code__.co_firstlineno
    assert told == (
        f"u0 != 0 (at {place(detect, 2)}): `boxes.numel() == 0` was answered no and goes on at line {line + 4}, "
        f"`return boxes.amax(1)`; yes would go on at line {line + 3}, `return boxes.new_zeros(0)`"
    )
    assert f"holds only for {told}" in str(net.report)
    assert props(net, tmp_path / "net.onnx")["isthmus.assumptions"] == told
    for rows in (2, 5, 30):
        x = torch.randn(rows, 4)
        x[0, 0] = 1
        np.testing.assert_array_equal(net(x).numpy(), detect(x).numpy())


def test_each_has_a_line_of_its_own_in_the_file(tmp_path: Path) -> None:
    net = isthmus.compile(lambda x, y: (kept(x), added(x, y)), (X, X), dynamic_shapes=({0: "N"}, {0: "M"}))
    told = props(net, tmp_path / "net.onnx")["isthmus.assumptions"].splitlines()
    assert told == net.report.assumptions
    assert [each.partition(" (at ")[0] for each in told] == ["N >= 4", "N == M, which add needs"]


def test_nothing_is_told_where_nothing_is_assumed(tmp_path: Path) -> None:
    net = isthmus.compile(added, (X, X), dynamic_shapes=({0: "N"},) * 2)
    assert "isthmus.assumptions" not in props(net, tmp_path / "net.onnx")
    plain = isthmus.compile(detect, X, metadata=False)
    assert props(plain, tmp_path / "plain.onnx") == {}


def test_what_a_file_told_that_was_read_is_told_again(tmp_path: Path) -> None:
    graph = isthmus.compile(detect, X, dynamic_shapes={"x": {0: "N"}}).graph
    own = assumptions(graph)
    graph.metadata["isthmus.assumptions"] = f"M == 3 (at model.py:7)\n{own[0]}"
    assert assumptions(graph) == ["M == 3 (at model.py:7)", *own]
    (told,) = [each for each in OnnxBackend().emit(graph).model.metadata_props if each.key == "isthmus.assumptions"]
    assert told.value.splitlines() == ["M == 3 (at model.py:7)", *own]


def everything(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
    return kept(x), added(x, y), detect(z), z.chunk(3)


def test_strict_tells_all_at_once() -> None:
    sizes = {"x": {0: "N"}, "y": {0: "M"}, "z": {0: "K"}}
    with pytest.raises(CaptureError) as caught:
        isthmus.compile(everything, (X, X, X), dynamic_shapes=sizes, strict=True)
    text = str(caught.value)
    assert text.startswith("the model takes 4 things for granted, which strict does not allow\n  found: \n    - N >= 4 (at ")
    assert f"- N >= 4 (at {place(kept, 1)}): `boxes.shape[0] < 4` was answered no" in text
    assert 'remedy: declare the range: torch.export.Dim("N", min=4)\n' in text
    assert f"- N == M, which add needs (at {place(added, 1)})\n      remedy: declare M, N by one name\n" in text
    assert f"- u0 != 0 (at {place(detect, 2)}): `boxes.numel() == 0` was answered no" in text
    assert "remedy: u0 depends on data: compute the same for every size, or with both outcomes, by torch.cond\n" in text
    assert "which chunk needs (at " in text
    assert "remedy: declare K static, or compute the same for every size\n" in text
    assert len(isthmus.compile(everything, (X, X, X), dynamic_shapes=sizes).report.assumptions) == 4


def test_the_remedies_of_strict_help() -> None:
    large = Dim("N", min=4)
    net = isthmus.compile(
        lambda x, y: (kept(x), added(x, y)), (X, X), dynamic_shapes=({0: large}, {0: large}), strict=True
    )
    assert not net.report.assumptions
    for rows in (4, 20):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        for found, wanted in zip(net(x, y), (kept(x), added(x, y)), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)


def test_what_was_declared_is_no_assumption() -> None:
    size = Dim("half", min=2, max=40)
    net = isthmus.compile(kept, X[:8], dynamic_shapes=({0: 2 * size},), strict=True)
    with pytest.raises(isthmus.errors.UsageError):
        net(X)


def says_nothing(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] < 4:
        return x * 2
    return x * 2


def test_what_the_second_watch_drops_is_no_assumption() -> None:
    assert isthmus.compile(says_nothing, X, dynamic_shapes=({0: "N"},), strict=True).verify().ok
    with pytest.raises(CaptureError, match="takes one thing for granted"):
        isthmus.compile(says_nothing, X, dynamic_shapes=({0: "N"},), strict=True, second_watch=False)


def tensor_of_sizes(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.tensor(x.shape).prod() > 3 else x - 1


def test_a_branch_on_a_tensor_of_sizes_is_one() -> None:
    with pytest.raises(CaptureError, match=r"a branch on sizes was decided to be True: `.*` was .* \(at .*test_assumptions.py"):
        isthmus.compile(tensor_of_sizes, X, dynamic_shapes=({0: "N"},), strict=True)
    net = isthmus.compile(tensor_of_sizes, X, dynamic_shapes=({0: "N"},))
    (note,) = [note for note in net.report.notes if "a branch on sizes was decided to be True" in note]
    assert "`torch.tensor(x.shape).prod() > 3` was answered yes; no is not in the graph" in note


def test_a_value_that_the_user_assumes_is_one() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for step in range(int(y)):
            x = x + step
        return x

    with pytest.raises(CaptureError, match="remedy: leave y out of assume"):
        isthmus.compile(model, (X, torch.tensor(3)), assume={"y": 3}, strict=True)


MODEL = """
import torch

class Detect(torch.nn.Module):
    def forward(self, x):
        boxes = x[x[:, 0] > 0]
        if boxes.numel() == 0:
            return boxes.new_zeros(0)
        return boxes.amax(1)

class Exits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        if x.shape[0] == 3:
            return torch.zeros(3)
        return self.layer(x)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "made_for_the_assumptions.py"
    path.write_text(MODEL)
    return path


def run(*args: object) -> Any:
    return CliRunner().invoke(main, list(map(str, args)))


def test_the_command_line_tells_and_refuses(model: Path, tmp_path: Path) -> None:
    given = f"{model}:Detect", "--input", "f32[N,4]"
    out = tmp_path / "net.onnx"
    done = run("compile", *given, "-o", out)
    assert done.exit_code == 0, done.output
    assert "holds only for u0 != 0 (at " in done.output
    assert "assume u0 != 0 " in run("show", *given).output
    done = run("compile", *given, "-o", tmp_path / "no.onnx", "--strict")
    assert done.exit_code == 1
    assert "takes one thing for granted" in done.output
    assert not (tmp_path / "no.onnx").exists()
    told = json.loads(run("show", *given, "--json").output)["report"]["assumptions"]
    assert told[0].startswith("u0 != 0 (at ")


def test_the_command_line_warns_once(model: Path, tmp_path: Path) -> None:
    given = f"{model}:Exits", "--input", "f32[3,4]"
    warning = "WARNING: The example input probably took an early exit"
    done = run("compile", *given, "-o", tmp_path / "net.onnx")
    assert done.output.count(warning) == 1
    assert "IsthmusWarning" not in done.output
    assert warning in run("show", *given).stderr
    assert warning in run("verify", *given, tmp_path / "net.onnx").stderr
    assert run("show", *given, "--quiet").stderr == ""
    told = json.loads(run("compile", *given, "-o", tmp_path / "net.onnx", "--json").output)
    assert told["report"]["warnings"][0].startswith("The example input")
