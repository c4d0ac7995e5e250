"""The command line, in this process and as a program of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import save_file

from isthmus.cli import main
from isthmus.compiled import Compiled
from isthmus.errors import UnavailableError
from isthmus.models import build, load_weights

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = torch.nn.Linear(3, width)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x, bias=None):
        y = self.dropout(torch.relu(self.linear(x)))
        return y if bias is None else y + bias

class Branches(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

class Prints(torch.nn.Module):
    def forward(self, x):
        print("hello from the model")
        return x + 1

def raises():
    raise RuntimeError("no luck")

net = Net()
number = 3
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "made_for_the_command_line.py"
    path.write_text(MODEL)
    return path


def run(*args: object) -> Result:
    return CliRunner().invoke(main, list(map(str, args)))


def test_compile_writes_and_verifies(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.onnx"
    done = run("compile", f"{model}:Net", "--input", "f32[N,3]", "--opset", 17, "-o", out)
    assert done.exit_code == 0, done.output
    assert out.exists()
    for word in ("Net -> onnx (opset=17", "Every output against the model", "N=1", f"wrote {out}", "seed 0"):
        assert word in done.output


def test_no_verify_leaves_the_comparison_out(model: Path, tmp_path: Path) -> None:
    done = run("compile", f"{model}:Net", "--input", "f32[N,3]", "-o", tmp_path / "net.onnx", "--no-verify")
    assert done.exit_code == 0
    assert "Every output" not in done.output


def test_json_is_the_only_output(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.onnx"
    done = run("compile", f"{model}:Net", "--input", "f32[N,3]", "-o", out, "--json")
    told = json.loads(done.output)
    assert told["ok"] is True
    assert told["files"] == [str(out)]
    assert told["report"]["inputs"] == {"x": "f32[N, 3]"}
    assert told["verified"]["rounds"][0]["sizes"] == {"N": 1}


def test_quiet_says_nothing(model: Path, tmp_path: Path) -> None:
    done = run("compile", f"{model}:Net", "--input", "f32[N,3]", "-o", tmp_path / "net.onnx", "--quiet")
    assert (done.exit_code, done.output) == (0, "")


def test_names_keywords_and_arguments(model: Path, tmp_path: Path) -> None:
    done = run(
        "compile", f"{model}:Net", "--kwargs", '{"width": 5}', "--input", "f32[N,3]", "--input", "bias=f32[5]",
        "--input-names", "a,b", "--output-names", "c", "-o", tmp_path / "net.onnx", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)["report"]
    assert report["inputs"] == {"a": "f32[N, 3]", "b": "f32[5]"}
    assert report["outputs"] == {"c": "f32[N, 5]"}


def test_dynamic_shapes_as_json(model: Path, tmp_path: Path) -> None:
    done = run(
        "compile", f"{model}:net", "--input", "f32[2,3]", "--dynamic", '{"x": {"0": "B"}}', "-o", tmp_path / "net.onnx",
        "--json",
    )  # fmt: skip
    assert json.loads(done.output)["report"]["inputs"] == {"x": "f32[B, 3]"}


def test_a_model_without_content(model: Path, tmp_path: Path) -> None:
    index, out = tmp_path / "w.safetensors.index.json", tmp_path / "net.onnx"
    index.write_text(json.dumps({"weight_map": {"linear.weight": "a.safetensors", "linear.bias": "b.safetensors"}}))
    save_file({"linear.weight": torch.full((4, 3), 2.0)}, tmp_path / "a.safetensors")
    save_file({"linear.bias": torch.ones(4)}, tmp_path / "b.safetensors")
    arguments = [f"{model}:Net", "--meta", "--input", "f32[N,3]"]
    done = run("compile", *arguments, "--weights", index, "-o", out, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["verified"]["rounds"]
    assert run("verify", *arguments, "--weights", index, out).exit_code == 0
    assert run("compile", f"{model}:Net", "--input", "f32[N,3]", "-o", out, "--no-verify").exit_code == 0
    assert run("verify", *arguments, "--weights", index, out).exit_code == 1
    refused = run("compile", *arguments, "-o", out)
    assert (refused.exit_code, "--meta needs --weights" in refused.output) == (2, True)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_weights_are_loaded(model: Path, tmp_path: Path, suffix: str) -> None:
    state = {"linear.weight": torch.full((4, 3), 2.0), "linear.bias": torch.zeros(4)}
    weights, out = tmp_path / f"w{suffix}", tmp_path / "net.onnx"
    if suffix == ".pt":
        torch.save(state, weights)
    else:
        save_file(state, weights)
    done = run("compile", f"{model}:Net", "--weights", weights, "--input", "f32[N,3]", "-o", out)
    assert done.exit_code == 0, done.output
    import numpy as np
    import onnxruntime

    (found,) = onnxruntime.InferenceSession(out).run(None, {"x": np.ones((1, 3), np.float32)})
    assert found.tolist() == [[6.0] * 4]


@pytest.mark.parametrize(("content", "told"), [
    (b"garbage", "cannot be read"), ({"linear.weight": torch.zeros(4, 3)}, "do not fit"),
    ({"linear.weight": print}, "cannot be read"), (torch.zeros(3), "are not a state dict"),
    ({"model": {"linear.weight": torch.zeros(4, 3)}, "epoch": 3}, "expected: tensors by name"), ([1, 2], "found: a list of 2"),
])  # fmt: skip
def test_bad_weights_are_refused(model: Path, tmp_path: Path, content: object, told: str) -> None:
    weights = tmp_path / "w.pt"
    if isinstance(content, bytes):
        weights.write_bytes(content)
    else:
        torch.save(content, weights)
    done = run("compile", f"{model}:Net", "--weights", weights, "--input", "f32[N,3]", "-o", tmp_path / "net.onnx")
    assert done.exit_code == 1
    assert told in done.output
    assert len(done.output.splitlines()) < 12
    assert not (tmp_path / "net.onnx").exists()


@pytest.mark.parametrize("stage", ["captured", "passes", "legal"])
def test_show_prints_the_graph(model: Path, stage: str) -> None:
    done = run("show", f"{model}:Net", "--input", "f32[N,3]", "--stage", stage)
    assert done.exit_code == 0, done.output
    assert "\ngraph @" in done.output
    assert "f32[N, 3]" in done.output
    assert model.name in done.output


def test_verify_compares_a_saved_file(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.onnx"
    arguments = (f"{model}:Net", "--input", "f32[N,3]")
    assert run("compile", *arguments, "-o", out).exit_code == 0
    done = run("verify", *arguments, out)
    assert done.exit_code == 0, done.output
    assert "ok" in done.output
    other = run("compile", f"{model}:Branches", "--input", "f32[N,3]", "-o", out)
    assert other.exit_code == 1
    state = {"linear.weight": torch.ones(4, 3), "linear.bias": torch.ones(4)}
    save_file(state, tmp_path / "w.safetensors")
    differs = run("verify", *arguments, "--weights", tmp_path / "w.safetensors", out, "--json")
    assert differs.exit_code == 1
    assert json.loads(differs.output)["error"]["kind"] == "MismatchError"


def test_targets_lists_options() -> None:
    done = run("targets")
    assert done.exit_code == 0
    for word in ("onnx", "opset", "the version of the standard op set", "reference"):
        assert word in done.output
    for word in ("capture", "on_size_branch", "record, refuse", "modules kept as one node each"):
        assert word in done.output
    told = json.loads(run("targets", "--json").output)
    assert "opset" in told["onnx"]
    assert {"on_size_branch", "buffers", "coarse"} <= set(told["capture"])
    names = set(run("targets", "--quiet").output.split())
    assert {"onnx", "reference"} <= names
    assert "capture" not in names


@pytest.mark.parametrize(("arguments", "code", "told"), [
    (["compile"], 2, "MODEL"), (["nonsense"], 2, "nonsense"),
    (["compile", "no.such.module:Net", "-o", "x.onnx"], 2, "cannot be imported"),
    (["compile", "nothing", "-o", "x.onnx"], 2, "names no model"),
    (["compile", "missing.py:Net", "-o", "x.onnx"], 2, "missing.py"),
    (["compile", "{model}:Nope", "-o", "x.onnx"], 2, "has no Nope"),
    (["compile", "{model}:number", "-o", "x.onnx"], 2, "neither"),
    (["compile", "{model}:Net", "--kwargs", "{{", "-o", "x.onnx"], 2, "not JSON"),
    (["compile", "{model}:Net", "--kwargs", '{{"depth": 1}}', "-o", "x.onnx"], 2, "depth"),
    (["compile", "{model}:Net", "--input", "f32[3", "-o", "x.onnx"], 2, "f32[3"),
    (["compile", "{model}:Net", "--input", "f32[N,3]", "--target", "onxx", "-o", "x.onnx"], 2, "no target"),
    (["compile", "{model}:Net", "--input", "f32[N,3]", "--opset", "3", "-o", "x.onnx"], 2, "opset"),
    (["compile", "{model}:Net", "--input", "f32[N,3]", "-O", "colour=red", "-o", "x.onnx"], 2, "colour"),
    (["compile", "{model}:Branches", "--input", "f32[N,3]", "-o", "x.onnx"], 1, "x.sum() > 0"),
    (["compile", "{model}:raises", "-o", "x.onnx"], 1, "RuntimeError: no luck"),
    (["compile", "{model}:Net", "--input", "f32[N,3]", "-o", "."], 2, "must name a file"),
    (["compile", "{model}:Net", "--input", "f32[N,3]", "-o", ""], 2, "must name a file"),
    (["compile", "{model}:Net", "--input", "f32[N,3]", "--weights", "no.pt", "-o", "x.onnx"], 2, "there is no file no.pt"),
    (["verify", "{model}:Net", "--input", "f32[N,3]", "no.onnx"], 2, "there is no file no.onnx"),
    (["verify", "{model}:Net", "--input", "f32[N,3]", "{model}", "--seeds", "0"], 2, "--seeds"),
])  # fmt: skip
def test_exit_codes(model: Path, arguments: list[str], code: int, told: str) -> None:
    done = run(*(argument.format(model=model) for argument in arguments))
    assert done.exit_code == code, done.output
    assert isinstance(done.exception, SystemExit)
    assert told in done.output
    assert not Path("x.onnx").exists()


def test_a_file_that_raises_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "raises_when_it_is_loaded.py"
    path.write_text("x = 1\ny = x / 0\n")
    done = run("show", f"{path}:Net")
    assert done.exit_code == 1
    assert "ZeroDivisionError" in done.output
    assert f"{path}:2" in done.output


def test_what_the_model_prints_is_kept_apart(model: Path, tmp_path: Path) -> None:
    arguments = ("compile", f"{model}:Prints", "--input", "f32[N,3]", "-o", tmp_path / "net.onnx")
    told = run(*arguments, "--json")
    assert json.loads(told.stdout)["ok"] is True
    assert "hello from the model" in told.stderr
    assert run(*arguments, "--quiet").output == ""


def test_errors_of_the_system_are_told(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(net: Compiled, path: str) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(Compiled, "save", full)
    done = run("compile", f"{model}:Net", "--input", "f32[N,3]", "-o", tmp_path / "net.onnx")
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "No space left" in done.stderr


def test_compile_tells_what_it_holds_only_for(tmp_path: Path) -> None:
    path = tmp_path / "asks_for_its_size.py"
    path.write_text("import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
                    "        return x * 2 if x.shape[0] > 3 else x * 3\n")  # fmt: skip
    done = run("compile", f"{path}:Net", "--input", "f32[N=5,3]", "-o", tmp_path / "net.onnx")
    assert "holds only for N > 3 (at " in done.output


def test_errors_as_json(model: Path) -> None:
    done = run("show", f"{model}:Branches", "--input", "f32[N,3]", "--json")
    assert done.exit_code == 1
    told = json.loads(done.output)
    assert told["ok"] is False
    assert told["error"]["kind"] == "CaptureError"


def test_as_a_program(model: Path, tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("isthmus"))
    out = tmp_path / "net.onnx"
    arguments = ["compile", f"{model.stem}:Net", "--input", "f32[N,3]", "-o", str(out), "--json"]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, cwd=model.parent)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == [str(out)]
    assert done.stderr == ""  # no progress in a pipe
    done = subprocess.run([program, "compile", f"{model.stem}:Branches", "--input", "f32[N,3]", "-o", str(out)],
                          capture_output=True, text=True, cwd=model.parent)  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("CaptureError: ")
    assert subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.startswith("isthmus")


def test_safetensors_without_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_file({"weight": torch.ones(2, 2)}, tmp_path / "w.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(UnavailableError, match=r"need the safetensors package(.|\n)*pip install"):
        load_weights(torch.nn.Linear(2, 2), tmp_path / "w.safetensors")


def test_a_model_that_is_made_on_import_is_seeded_too(tmp_path: Path) -> None:
    made = []
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text("import torch\nnet = torch.nn.Linear(2, 2)\n")
        torch.manual_seed(7)
        made.append(build(f"{tmp_path / name}.py:net"))
    assert torch.equal(made[0].weight, made[1].weight)
