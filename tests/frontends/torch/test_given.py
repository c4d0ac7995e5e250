"""Weights given beside the model, which may be on the meta device, and weights in mapped files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import isthmus
from isthmus.errors import CaptureError, FileError, UsageError
from isthmus.frontends.torch.weights import TorchWeight
from isthmus.frontends.weight_files import read_safetensors
from isthmus.ir import LazyWeight, MappedWeight
from isthmus.ir.weights import Weight

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """A convolution with batch norm, a recurrent layer, tied embeddings, and a buffer that is computed."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 40, 3, padding=1, dtype=dtype)
        self.norm = nn.BatchNorm2d(40, dtype=dtype)
        self.lstm = nn.LSTM(40, 40, dtype=dtype)
        self.table = nn.Embedding(50, 40, dtype=dtype)
        self.head = nn.Linear(40, 50, bias=False, dtype=dtype)
        self.head.weight = self.table.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        y = self.lstm(y[None])[0][0] + self.table(torch.tensor([1], device=self.table.weight.device))
        scores: torch.Tensor = self.head(y + torch.ones(1, dtype=y.dtype, device=y.device))
        return scores


def made(dtype: torch.dtype = torch.float32) -> Net:
    torch.manual_seed(1)
    net = Net(dtype).eval()
    with torch.no_grad():
        net.norm.running_mean.add_(torch.randn(40))
        net.norm.running_var.add_(torch.rand(40))
    return net


def bare(make: Callable[[], nn.Module] = Net) -> Any:
    with torch.device("meta"):
        return make().eval()


def saved(net: nn.Module, path: Path, *without: str) -> Path:
    """What safetensors writes, which refuses tied weights under two names, as Hugging Face's do."""
    save_file({name: tensor for name, tensor in net.state_dict().items() if name not in without}, path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return saved(made(), tmp_path / "w.safetensors", "head.weight")


def handles(net: Any) -> list[Weight]:
    return list(net.graph.weights())


def of_shape(net: Any, *shape: int) -> Weight:
    """The only weight of a shape."""
    (found,) = (handle for handle in handles(net) if handle.shape == shape)
    return found


def test_a_model_without_content_is_compiled_from_a_file(file: Path, tmp_path: Path) -> None:
    model = bare()
    before = {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()}
    net = isthmus.compile(model, X, dynamic_shapes={"x": {0: "N"}}, weights=file)
    assert {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()} == before
    torch.testing.assert_close(net(X), made()(X).detach(), rtol=1e-4, atol=1e-5)
    assert net.verify().ok
    assert model.conv.weight.is_meta
    assert len(net.save(tmp_path / "net.onnx")) == 1
    assert (tmp_path / "net.onnx").read_bytes() == _compiled(made()).save(tmp_path / "other.onnx")[0].read_bytes()


def _compiled(model: nn.Module) -> Any:
    return isthmus.compile(model, X, dynamic_shapes={"x": {0: "N"}})


def test_weights_stay_in_the_file(file: Path) -> None:
    net = isthmus.compile(bare(), X, weights=file)
    assert isinstance(of_shape(net, 50, 40), MappedWeight)
    folded = of_shape(net, 40, 3, 3, 3)
    assert isinstance(folded, LazyWeight)
    assert isinstance(folded.sources[0], MappedWeight)
    assert folded.row_wise
    assert folded.name == "conv.weight"


def test_a_real_model_takes_other_weights(file: Path) -> None:
    torch.manual_seed(5)
    net = isthmus.compile(Net().eval(), X, weights=file)
    torch.testing.assert_close(net(X), made()(X).detach(), rtol=1e-4, atol=1e-5)
    assert net.verify().ok


def test_examples_may_be_without_content(file: Path) -> None:
    net = isthmus.compile(bare(), X.to("meta"), weights=file)
    assert net.verify().ok
    torch.testing.assert_close(net(X), made()(X).detach(), rtol=1e-4, atol=1e-5)
    table = isthmus.compile(nn.Embedding(2, 3).eval(), torch.zeros(4, dtype=torch.int64, device="meta"))
    assert table.verify().ok


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2e-3), (torch.bfloat16, 16e-3)], ids=str)
def test_narrow_weights(tmp_path: Path, dtype: torch.dtype, tolerance: float) -> None:
    path = saved(made(dtype), tmp_path / "w.safetensors", "head.weight")
    net = isthmus.compile(bare(lambda: Net(dtype)), X.to(dtype), weights=path, target="reference")
    assert net.verify(rtol=tolerance, atol=tolerance).ok
    content = {handle.name: handle for handle in handles(net)}["table.weight"]
    np.testing.assert_array_equal(content.array().astype(np.float32), made(dtype).table.weight.detach().float().numpy())


@pytest.mark.parametrize("left", ["table.weight", "head.weight"])
def test_of_tied_weights_one_is_enough(tmp_path: Path, left: str) -> None:
    net = isthmus.compile(bare(), X, weights=saved(made(), tmp_path / "w.safetensors", left))
    assert net.verify().ok
    assert isinstance(of_shape(net, 50, 40), MappedWeight)


def test_tied_weights_may_both_be_there_when_they_are_equal() -> None:
    state = {name: tensor.clone() for name, tensor in made().state_dict().items()}
    assert isthmus.compile(bare(), X, weights=state).verify().ok
    state["head.weight"][3, 4] += 1
    with pytest.raises(UsageError, match=r"one tensor in the model, and several here: table\.weight, head\.weight"):
        isthmus.compile(bare(), X, weights=state)


def test_arrays_and_handles_by_name(file: Path) -> None:
    weights = isthmus.open_weights(file)
    weights["conv.bias"] = np.zeros(40, np.float32)
    renamed = {f"old.{name}": handle for name, handle in weights.items()}
    model = made()
    nn.init.zeros_(model.conv.bias)
    net = isthmus.compile(bare(), X, weights={name.removeprefix("old."): handle for name, handle in renamed.items()})
    torch.testing.assert_close(net(X), model(X).detach(), rtol=1e-4, atol=1e-5)


def test_everything_that_does_not_fit_is_told_at_once(file: Path) -> None:
    weights = dict(isthmus.open_weights(file))
    weights["stranger"] = weights.pop("conv.weight")
    weights["other"] = weights.pop("table.weight")
    weights["lstm.bias_ih_l0"] = np.zeros(161, np.float32)
    weights["norm.weight"] = np.zeros(40, np.float64)
    with pytest.raises(UsageError) as caught:
        isthmus.compile(bare(), X, weights=weights)
    told = str(caught.value)
    for line in (
        "unexpected: stranger, other", "missing: conv.weight, table.weight = head.weight",
        "of another shape: lstm.bias_ih_l0 is f32[161], not f32[160]",
        "of another element type: norm.weight is f64[40], not f32[40]", "isthmus.open_weights",
    ):  # fmt: skip
        assert line in told


def test_weights_of_another_element_type(tmp_path: Path) -> None:
    path = saved(made(torch.bfloat16), tmp_path / "w.safetensors", "head.weight")
    with pytest.raises(UsageError, match=r"another element type: conv\.weight is bf16(.|\n)*model\.to\(torch\.bfloat16\)"):
        isthmus.compile(bare(), X, weights=path)


class Rotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("inverse", torch.arange(3.0), persistent=False)
        self.register_buffer("unused", torch.arange(3.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x) * self.inverse
        return y


def test_a_buffer_without_content_is_named(tmp_path: Path) -> None:
    model, x = bare(Rotary), torch.randn(2, 3)
    path = saved(Rotary(), tmp_path / "w.safetensors")
    with pytest.raises(CaptureError, match=r"the weight inverse is on the meta(.|\n)*test_given\.py(.|\n)*inverse, unused"):
        isthmus.compile(model, x, weights=path)
    model.inverse = torch.arange(3.0)
    assert isthmus.compile(model, x, weights=path).verify().ok
    model = bare(Rotary)
    assert isthmus.compile(model, x, weights={**isthmus.open_weights(path), "inverse": torch.arange(3.0)}).verify().ok


def test_a_tensor_without_content_and_name() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = torch.ones(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.kept

    with pytest.raises(CaptureError, match=r"a tensor that is neither a parameter nor a buffer(.|\n)*register it"):
        isthmus.compile(bare(Keeps), torch.ones(3), weights={})


def test_a_model_that_writes_to_a_buffer_leaves_the_file_alone(tmp_path: Path) -> None:
    path = saved(made(), tmp_path / "w.safetensors", "head.weight")
    content = path.read_bytes()
    model = bare().train()
    net = isthmus.compile(model, X, weights=path, buffers="output")
    assert net.verify().ok
    assert {"norm.running_mean", "norm.running_var"} <= set(net.output_names)
    assert path.read_bytes() == content
    assert model.norm.running_mean.is_meta


@pytest.mark.parametrize("change", ["replaced", "touched", "cut"])
def test_a_file_that_changes_is_told(file: Path, tmp_path: Path, change: str) -> None:
    net = isthmus.compile(bare(), X, weights=file)
    if change == "replaced":
        saved(made(), tmp_path / "new", "head.weight").replace(file)
    elif change == "touched":
        os.utime(file, ns=(1, 1))
    else:
        os.truncate(file, 100)
    for act in (lambda: net(X), net.verify, lambda: net.save(tmp_path / "net.onnx")):
        with pytest.raises(FileError, match=r"w\.safetensors, which holds the weight .* has changed"):
            act()
    assert not (tmp_path / "net.onnx").exists()


@pytest.mark.parametrize(("target", "options", "name", "given"), [
    ("onnx", {}, "w.safetensors", "w.safetensors"), ("onnx", {"external_data": "always"}, "w.safetensors", "w.safetensors"),
    ("onnx", {"external_data": "always"}, "net.data", "net"), ("caffe", {}, "net.caffemodel", "net"),
    ("tensorrt", {}, "w.safetensors", "w.safetensors"),
])  # fmt: skip
@pytest.mark.parametrize("how", ["file", "link", "mapped", "array"])
def test_no_save_over_the_file_that_weights_are_read_from(
    tmp_path: Path, target: str, options: dict[str, Any], name: str, given: str, how: str
) -> None:
    torch.manual_seed(1)
    model = nn.Linear(80, 100)  # small weights are read, not mapped
    path = tmp_path / name
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    if how == "link":
        (tmp_path / "w.safetensors").rename(tmp_path / "far.safetensors")
        path.symlink_to(tmp_path / "far.safetensors")
    elif path.name != "w.safetensors":
        (tmp_path / "w.safetensors").rename(path)
    weights: Any = None
    if how in ("file", "link"):
        weights = read_safetensors(path)
    elif how == "mapped":
        model.load_state_dict(load_file(path), assign=True)
    else:
        weights = {key: handle.array() for key, handle in read_safetensors(path).items()}
    net = isthmus.compile(model, torch.randn(2, 80), target=target, weights=weights, **options)
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(FileError, match=rf"{name} was not written: weights of the model are read from that file"):
        net.save(tmp_path / given)
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_an_exported_program_and_a_method(file: Path, tmp_path: Path) -> None:
    net = isthmus.compile(bare().forward, X, weights=file)
    assert net.verify().ok
    program = torch.export.export(Rotary(), (torch.randn(2, 3),))
    weights = {name: torch.full_like(tensor, 0.5) for name, tensor in program.state_dict.items()}
    assert isthmus.compile(program, weights=weights).verify().ok


@pytest.mark.parametrize(("weights", "told"), [
    ({"linear.weight": torch.ones(3, 3, device="meta")}, "must be a dense tensor with content"),
    ({"linear.weight": "w"}, "must be a tensor, an array or a handle"),
])  # fmt: skip
def test_things_that_are_no_weights(weights: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        isthmus.compile(Rotary(), torch.ones(3), weights=weights)


def test_what_has_no_weights(file: Path) -> None:
    with pytest.raises(UsageError, match="the model is a function, which has none"):
        isthmus.compile(torch.relu, X, weights=file)
    with pytest.raises(UsageError, match="parameters without a shape"):
        isthmus.compile(nn.LazyLinear(3), torch.ones(2, 4), weights={})


# ---- weights that torch has mapped


@pytest.mark.parametrize("kind", ["safetensors", "torch"])
def test_mapped_weights_stay_mapped(file: Path, tmp_path: Path, kind: str) -> None:
    if kind == "safetensors":
        state = load_file(file)
    else:
        torch.save(load_file(file), tmp_path / "w.pt")
        state = torch.load(tmp_path / "w.pt", mmap=True, weights_only=True)
    model = bare()
    model.load_state_dict({**state, "head.weight": state["table.weight"]}, assign=True)
    net = isthmus.compile(model, X)
    assert net.verify().ok
    folded = of_shape(net, 40, 3, 3, 3)
    assert isinstance(folded, LazyWeight)
    assert isinstance(folded.sources[0], TorchWeight)
    assert folded.sources[0].tensor.data_ptr() == state["conv.weight"].data_ptr()
    model.table.weight.data.fill_(3)
    with pytest.raises(CaptureError, match=r"the weight table\.weight was changed"):
        net(X)
