"""Sampling at places that are data, from PyTorch to onnxruntime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import isthmus
from isthmus.backends.onnx.opsets import NEWEST

OPSETS = [13, 16, 20, NEWEST]


class Sampler(torch.nn.Module):
    def __init__(self, mode: str, padding: str, corners: bool) -> None:
        super().__init__()
        self.how = mode, padding, corners

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, *self.how)


def held(net: isthmus.Compiled, model: torch.nn.Module, *args: torch.Tensor) -> None:
    np.testing.assert_allclose(net(*args).numpy(), model(*args).numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize(("mode", "padding"), [*product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"))])
def test_every_mode(mode: str, padding: str, axes: int, opset: int) -> None:
    if mode == "bicubic" and axes == 3:
        pytest.skip("torch has none")
    torch.manual_seed(0)
    rest = [4] * (axes - 2)
    for corners in (False, True):
        model = Sampler(mode, padding, corners)
        args = torch.randn(2, 3, 5, 6, *rest), torch.rand(2, 4, 3, *rest, axes)
        sizes = {"x": {0: "N", 2: "H", 3: "W"}, "grid": {0: "N", 1: "A", 2: "B"}}
        net = isthmus.compile(model, args, dynamic_shapes=sizes, opset=opset)
        for n, h, w, a, b in ((2, 5, 6, 4, 3), (1, 1, 7, 2, 9), (3, 8, 1, 5, 5)):
            held(net, model, torch.randn(n, 3, h, w, *rest), torch.rand(n, a, b, *rest, axes) * 6 - 3)
        native = opset >= 20 or (opset >= 16 and axes == 2)
        assert (net.artefact.node_count == 1) is native


class Affine(torch.nn.Module):
    def __init__(self, corners: bool) -> None:
        super().__init__()
        self.corners = corners

    def forward(self, theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return F.affine_grid(theta, x.shape, align_corners=self.corners)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
@pytest.mark.parametrize("opset", [13, NEWEST])
@pytest.mark.parametrize(("corners", "axes"), [*product((False, True), (2, 3))])
def test_affine_grids(corners: bool, axes: int, opset: int) -> None:
    model, rest = Affine(corners), [4] * (axes - 2)
    theta, x = torch.randn(2, axes, axes + 1), torch.randn(2, 3, 5, 6, *rest)
    sizes: Any = {"theta": {0: "N"}, "x": {0: "N", 2: "H", 3: "W"}}
    net = isthmus.compile(model, (theta, x), dynamic_shapes=sizes, opset=opset)
    assert not net.graph.symbols.assumptions
    for n, h, w in ((1, 5, 6), (2, 1, 7), (3, 3, 1)):
        held(net, model, torch.randn(n, axes, axes + 1), torch.randn(n, 3, h, w, *rest))
    fixed = isthmus.compile(model, (theta, x), dynamic_shapes={"theta": {0: "N"}, "x": {0: "N"}}, opset=opset)
    assert fixed.artefact.node_count == 3  # the places are a constant
    held(fixed, model, torch.randn(4, axes, axes + 1), x[:1].expand(4, *x.shape[1:]))
