"""What is written: names, files that appear together, what the checker says, and readers that are missing or die."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import isthmus
from isthmus.backends.caffe import CaffeBackend, checker, text, wire, worker
from isthmus.backends.caffe.dialect import load
from isthmus.backends.caffe.schema import Message
from isthmus.backends.caffe.worker import Worker
from isthmus.errors import EvaluationError, FileError, UnavailableError, UnsupportedError, UsageError, VerifyError
from isthmus.ir import Builder, Graph, Tensor
from isthmus.ir.dtypes import f32, i64

PORTABLE = load("portable")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.norm = nn.BatchNorm2d(4, eps=1e-3)
        nn.init.normal_(self.norm.weight)  # a scale of ones and a bias of zeros would go
        nn.init.normal_(self.norm.bias)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.body(x)).mean([2, 3]))


def compiled(**options: Any) -> Any:
    torch.manual_seed(0)
    return isthmus.compile(Net().eval(), torch.randn(1, 2, 10, 10), target="caffe", **options)


TEXT = """\
name: "main"
layer {
  name: "x"
  type: "Input"
  top: "x"
  input_param {
    shape {
      dim: 1
      dim: 2
      dim: 10
      dim: 10
    }
  }
}
layer {
  name: "body.0"
  type: "Convolution"
  bottom: "x"
  top: "body.0"
  convolution_param {
    num_output: 4
    kernel_size: 3
    stride: 2
    pad: 1
  }
}
layer {
  name: "body.1"
  type: "ReLU"
  bottom: "body.0"
  top: "body.1"
}
layer {
  name: "body.2"
  type: "Pooling"
  bottom: "body.1"
  top: "body.2"
  pooling_param {
    pool: MAX
    kernel_size: 2
    stride: 2
  }
}
"""


def test_the_text_reads_well() -> None:
    prototxt = compiled().artefact.prototxt
    assert prototxt.startswith(TEXT)
    names = re.findall(r'^  name: "(.*)"', prototxt, re.MULTILINE)
    assert names[3:] == ["body.2", "body.2_2", "body.2_3", "norm/norm", "norm", "avg_pool", "reshape", "output"]
    assert compiled().artefact.prototxt == prototxt


def test_weights_are_in_the_binary_alone(tmp_path: Path) -> None:
    prototxt, caffemodel = compiled().save(tmp_path / "net.caffemodel")
    assert (prototxt.name, caffemodel.name) == ("net.prototxt", "net.caffemodel")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.caffemodel", "net.prototxt"]
    held = {layer["name"]: layer for layer in wire.read(caffemodel, PORTABLE.format).messages("layer")}
    assert all(set(layer.fields) == {"name", "type", "blobs"} for layer in held.values())
    assert [wire.blob_shape(blob) for blob in held["norm/norm"]["blobs"]] == [(4,), (4,), (1,)]
    assert held["norm/norm"]["blobs"][2]["data"] == 1
    assert held["norm"]["type"] == "Scale"
    assert [wire.blob_shape(blob) for blob in held["output"]["blobs"]] == [(3, 4), (3,)]


def test_files_appear_together_or_not_at_all(tmp_path: Path) -> None:
    net = compiled()
    (tmp_path / "net.prototxt").mkdir()
    with pytest.raises(FileError, match="could not be written"):
        net.save(tmp_path / "net")
    assert [path.name for path in tmp_path.iterdir() if path.is_file() and path.suffix == ".part"] == []
    with pytest.raises(FileError, match="could not be written"):
        net.save(tmp_path / "nowhere" / "net")


def test_names_are_taken_by_one_layer_each_and_are_plain() -> None:
    g = Graph("a net")
    b = Builder(g)
    x = g.add_input(Tensor(f32, (1, 2, 3, 3)), "my input")
    parts = b.split(x, axis=1, sizes=[1, 1])
    g.set_outputs([parts[1], parts[0], x, parts[1]])
    artefact = CaffeBackend().emit(g, output_names=["second", "first", "same", "again"])
    artefact.validate()
    assert artefact.net.inputs == ["my_input"]
    assert artefact.net.outputs == ["second", "first", "same", "again"]
    assert artefact.op_counts == {"Input": 1, "Slice": 1, "Power": 3}
    given = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
    found = artefact.run([given])
    for got, want in zip(found, (given[:, 1:], given[:, :1], given, given[:, 1:]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_input_that_nothing_uses() -> None:
    g = Graph()
    x, y = (g.add_input(Tensor(f32, (2, 3)), name) for name in "xy")
    g.set_outputs([Builder(g).relu(x)])
    artefact = CaffeBackend().emit(g)
    found = artefact.run([np.array([[-1, 2, 3]] * 2), np.zeros((2, 3))])
    assert found[0].tolist() == [[0, 2, 3]] * 2
    assert y.uses == {}


def test_what_a_blob_cannot_be_is_refused_at_both_ends() -> None:
    g = Graph()
    g.add_input(Tensor(i64, (2,)), "ids")
    b = Builder(g)
    g.set_outputs([b.constant(np.ones((1, 2), np.float32))])
    with pytest.raises(UnsupportedError) as caught:
        CaffeBackend().emit(g, output_names=["fixed"])
    first, second = caught.value.refusals
    assert first.message == "input ids: Caffe has only f32 blobs, and this is i64[2]"
    assert second.message.startswith("output fixed: it is a constant")


def test_inputs_of_another_shape_or_number() -> None:
    artefact = compiled().artefact
    with pytest.raises(EvaluationError) as caught:
        artefact.run([np.zeros((1, 2, 9, 10), np.float32)])
    assert "the input x has another shape" in str(caught.value)
    with pytest.raises(UsageError, match="takes 1 inputs"):
        artefact.run([])


def broken(change: str) -> Any:
    """A net in whose text something was changed."""
    net = compiled().artefact
    layers = net.net.text["layer"]
    if change == "type":
        layers[2].fields["type"] = "Tile"
    elif change == "parameter":
        layers[3]["pooling_param"].fields["global_pooling"] = True
        layers[3]["pooling_param"].fields["pool"] = "STOCHASTIC"
    elif change == "name":
        layers[2].fields["name"] = "other"
    elif change == "bottom":
        layers[2].fields["bottom"] = ["nobody"]
    elif change == "in place":
        layers[2].fields.update(name="body.0", top=["body.0"])
    elif change == "weights":
        layers.pop()
    elif change == "blobs":
        net.net.weights["layer"].pop(0)
    elif change == "shape":
        net.net.weights["layer"][0]["blobs"][0].fields["shape"] = Message("BlobShape", {"dim": [7]})
    elif change == "other parameters":
        layers[2].fields["pooling_param"] = Message("PoolingParameter", {"pool": "MAX"})
    return net


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("type", "layer 'body.1': the dialect portable has no layer Tile"),
        ("parameter", "Pooling takes pool MAX or AVE in the dialect portable, not STOCHASTIC"),
        ("name", "layer 'other' has not the name of its first top"),
        ("bottom", "layer 'body.1' reads nobody, which no layer before it makes"),
        ("in place", "layer 'body.0' makes body.0, which is there already"),
        ("weights", "the caffemodel has weights of layers that the prototxt lacks: output"),
        ("blobs", "Convolution has 0 blobs in the dialect portable, which takes 1 or 2"),
        ("shape", "blob 0 of layer 'body.0' has 72 elements"),
        ("other parameters", "layer 'body.1' of type ReLU has pooling_param"),
    ],
)
def test_the_checker_objects(change: str, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        broken(change).validate()
    assert message in caught.value.message


def test_the_checker_reads_malformed_files(tmp_path: Path) -> None:
    prototxt, caffemodel = compiled().save(tmp_path / "net")
    prototxt.write_text(prototxt.read_text().replace("kernel_size", "kernel_sighs"))
    with pytest.raises(VerifyError, match="ConvolutionParameter has no field 'kernel_sighs'"):
        checker.check(prototxt, caffemodel, PORTABLE)
    prototxt.write_bytes(b"\xff\xfe")
    with pytest.raises(VerifyError, match="could not be read"):
        checker.check(prototxt, caffemodel, PORTABLE)


def test_opencv_refuses_by_an_error() -> None:
    with pytest.raises(EvaluationError, match="OpenCV refuses the net"):
        broken("type").run([np.zeros((1, 2, 10, 10), np.float32)])


@pytest.mark.parametrize("dialect", ["bvlc", "mnn"])
def test_what_only_the_dialects_own_reader_takes(dialect: str) -> None:
    module, x = nn.ConvTranspose2d(2, 3, 3, stride=2, dilation=2), torch.randn(1, 2, 5, 5)
    net = isthmus.compile(module, x, target="caffe", dialect=dialect)
    net.artefact.validate()
    objection = "layer 'output': Deconvolution has no parameter dilation in the dialect opencv"
    (note,) = net.artefact.notes
    assert note == f"net(...) and net.verify(...) run Caffe nets in OpenCV, which does not take this net: {objection}"
    for run in (lambda: net(x), lambda: net.verify(seeds=1)):
        with pytest.raises(UnavailableError) as caught:
            run()
        assert f"though the readers of the dialect {dialect} do" in caught.value.message
        assert caught.value.found == objection
        assert f"run the files in a reader of the dialect ({load(dialect).about[:-1]})" in str(caught.value.remedy)
    for other in ("portable", "opencv"):
        assert isthmus.compile(module, x, target="caffe", dialect=other).verify(seeds=1).ok


def test_opencv_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError) as caught:
        worker.opencv.__wrapped__()
    assert "pip install 'opencv-python-headless>=4.10,<5'" in str(caught.value)


def test_a_reader_that_dies_is_started_anew(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(
        "import json, sys, numpy as np\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    if request['files'] == ['bad']: sys.exit(3)\n"
        "    np.savez(request['made'], **{'output:y': np.ones(1)})\n"
        "    print(json.dumps({'problem': ''}), flush=True)\n"
    )
    child = Worker(script, "The reader")
    with pytest.raises(EvaluationError) as caught:
        child.run(["bad"], {}, ["y"])
    assert "The reader died on the net" in str(caught.value)
    assert "exit status 3" in str(caught.value)
    assert child.run(["good"], {"x": np.zeros(2)}, ["y"])["y"].tolist() == [1]


def test_the_text_of_every_dialect_is_read_by_its_own_schema() -> None:
    for name in ("bvlc", "mnn", "opencv"):
        artefact = compiled(dialect=name).artefact
        dialect = load(name)
        assert text.read(artefact.prototxt, dialect.format, name) == artefact.net.text
