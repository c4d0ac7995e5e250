"""Traces that are severed on purpose: what depends on no input becomes one constant, and its computation disappears."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F

import isthmus
from isthmus.errors import CaptureError


class Sliding(torch.nn.Module):
    """Inference by sliding windows, as segmentation frameworks do it: scores are divided by how often a place was seen."""

    def __init__(self, detour: bool, window: int = 4, stride: int = 3, classes: int = 2) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.Conv2d(64, classes, 3, padding=1))
        self.detour, self.window, self.stride, self.classes = detour, window, stride, classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = x.shape
        scores = x.new_zeros((batch, self.classes, height, width))
        count = x.new_zeros((1 if self.detour else batch, 1, height, width))
        for row in range(max(height - self.window + self.stride - 1, 0) // self.stride + 1):
            for column in range(max(width - self.window + self.stride - 1, 0) // self.stride + 1):
                bottom, right = min(row * self.stride + self.window, height), min(column * self.stride + self.window, width)
                top, left = max(bottom - self.window, 0), max(right - self.window, 0)
                seen = self.net(x[:, :, top:bottom, left:right])
                scores += F.pad(seen, (left, width - right, top, height - bottom))
                count[:, :, top:bottom, left:right] += 1
        assert (count == 0).sum() == 0
        if self.detour:
            count = torch.from_numpy(count.cpu().detach().numpy()).to(device=x.device)
        return scores / count


def agrees(net: isthmus.Compiled, model: Any, *args: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(net(*args), model(*args), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("detour", [True, False])
def test_the_count_matrix_of_sliding_windows(detour: bool) -> None:
    model = Sliding(detour)
    net = isthmus.compile(model, torch.randn(2, 3, 7, 9))
    names = [node.op.name for node in net.graph.nodes]
    assert names.count("conv") == 12
    assert not {"check", "reduce_sum", "eq", "scatter_nd"} & set(names)
    (last,) = [node for node in net.graph.nodes if node.op.name in ("div", "mul") and node.result in net.graph.outputs]
    assert last.operands[1] is not None
    assert last.operands[1].weight is not None  # the count is one constant
    agrees(net, model, torch.randn(2, 3, 7, 9))


@pytest.mark.parametrize("detour", [True, False])
def test_sliding_windows_of_any_number_of_images(detour: bool) -> None:
    model = Sliding(detour)
    net = isthmus.compile(model, torch.randn(2, 3, 7, 9), dynamic_shapes=({0: "N"},))
    for batch in (1, 2, 5):
        agrees(net, model, torch.randn(batch, 3, 7, 9))


def test_a_detour_of_symbolic_size_is_refused() -> None:
    class Detour(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            count = torch.ones_like(x[:, :1])
            count[:, :, 0] += 1
            return x / torch.from_numpy(count.cpu().detach().numpy())

    with pytest.raises(CaptureError) as caught:
        isthmus.compile(Detour(), torch.randn(2, 3, 4, 4), dynamic_shapes=({0: "N"},))
    assert "the content (numpy) of a tensor, `count.cpu().detach().numpy()`," in caught.value.message
    assert "that depends on the size N of the input x" in caught.value.message
    assert "compute with torch's own functions alone, or declare N static" in str(caught.value)
    assert str(caught.value.location).startswith(f"{__file__}:")
    agrees(isthmus.compile(Detour(), torch.randn(2, 3, 4, 4)), Detour(), torch.randn(2, 3, 4, 4))


def test_a_detour_on_data_is_refused() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        count = (x > 0).sum(1, keepdim=True)
        return x / torch.from_numpy(count.numpy())

    with pytest.raises(CaptureError, match=r"`count.numpy\(\)`, that depends on the input x"):
        isthmus.compile(model, torch.randn(2, 3))


# ---- isthmus.constant


class Positions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])[:, None] * self.scale
        table = isthmus.constant(places.sin().sum(1))
        table += 1  # what it is given goes on as any tensor
        return x * table * isthmus.constant(2) * isthmus.constant(x.shape[1]) * isthmus.constant(self.scale)[0]


def test_a_weight_stays_the_weight_that_it_is() -> None:
    linear = torch.nn.Linear(3, 3)
    net = isthmus.compile(lambda x: linear(x) + isthmus.constant(linear.weight), torch.randn(3, 3))
    assert net.report.weights_bytes == 4 * (9 + 3)


def test_constant_says_so() -> None:
    model = Positions()
    net = isthmus.compile(model, torch.randn(2, 3), dynamic_shapes=({0: "N"},))
    assert {node.op.name for node in net.graph.nodes} == {"constant", "mul"}
    agrees(net, model, torch.randn(5, 3))
    captured = isthmus.compile(model, torch.randn(2, 3), passes=[], target="reference").graph
    made = [node for node in captured.nodes if node.op.name == "constant" and "forward" in str(node.location)]
    assert any(node.result.tensor.shape == (3,) for node in made)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda x: x * isthmus.constant(x.sum()), "`isthmus.constant(x.sum())`, that depends on the input x"),
        (lambda x: x * isthmus.constant(torch.ones(len(x))[:, None]), "that depends on the size N of the input x"),
        (lambda x: x * isthmus.constant(x.shape[0]), "the model fixes the size N to "),
        (lambda x: x * isthmus.constant(torch.rand(3)), "that depends on random numbers drawn at"),
    ],
)
def test_what_is_no_constant(model: Any, message: str) -> None:
    with pytest.raises(CaptureError) as caught:
        isthmus.compile(model, torch.randn(2, 3), dynamic_shapes=({0: "N"},))
    assert message in caught.value.message
    assert str(caught.value.location).startswith(f"{__file__}:")


def test_outside_of_a_capture_it_does_nothing() -> None:
    x = torch.ones(3)
    assert isthmus.constant(x) is x
    code = "import sys, isthmus; assert isthmus.constant(3) == 3; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- branches on parameters


class Deciding(torch.nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([scale, 1.0]))
        self.register_buffer("steps", torch.tensor([1, 2]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.scale[0] > 2:
            x = x * float(self.scale.max())
        while x.dim() < 3:
            x = x[None]
        for step in self.steps.tolist():
            x = x + step
        scale = self.scale.detach().numpy()
        return x * torch.from_numpy(np.exp(scale - scale.max()))


@pytest.mark.parametrize("scale", [3.0, 1.5])
def test_parameters_decide(scale: float) -> None:
    model = Deciding(scale)
    net = isthmus.compile(model, torch.randn(4, 2), dynamic_shapes=({0: "N"},))
    agrees(net, model, torch.randn(7, 2))
    assert not net.report.assumptions


def test_weights_from_a_file_decide(tmp_path: Path) -> None:
    given = Deciding(3.0)
    safetensors.torch.save_file(given.state_dict(), tmp_path / "w.safetensors")
    for model in (Deciding(1.0), Deciding(1.0).to("meta")):
        net = isthmus.compile(model, torch.randn(4, 2), weights=tmp_path / "w.safetensors")
        x = torch.randn(4, 2)
        with torch.no_grad():
            torch.testing.assert_close(net(x), given(x))
