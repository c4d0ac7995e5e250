"""torchvision's ops of detectors, from PyTorch to onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torchvision

import isthmus
from isthmus.backends.onnx.opsets import NEWEST
from isthmus.errors import UnsupportedError

OPSETS = [13, 16, 19, NEWEST]


def held(net: isthmus.Compiled, model: torch.nn.Module, *args: torch.Tensor) -> None:
    def flat(found: Any) -> list[torch.Tensor]:
        return [found] if isinstance(found, torch.Tensor) else list(found)

    with torch.no_grad():
        for got, wanted in zip(flat(net(*args)), flat(model(*args)), strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-3, atol=2e-4)


def boxes(count: int, size: float = 6) -> torch.Tensor:
    corner = torch.rand(count, 2) * 10 - 1
    return torch.cat([corner, corner + torch.rand(count, 2) * size + 0.1], 1)


class Suppressed(torch.nn.Module):
    def forward(self, found: torch.Tensor, scores: torch.Tensor, kinds: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept = torchvision.ops.nms(found, scores, 0.4)
        each = torchvision.ops.batched_nms(found, scores, kinds, 0.5)
        return kept, found[kept], scores[kept], each


@pytest.mark.parametrize("opset", OPSETS)
def test_suppression(opset: int) -> None:
    def example(count: int, steps: int = 1000) -> tuple[torch.Tensor, ...]:
        return boxes(count), (torch.rand(count) * steps).round() / steps, torch.randint(0, 3, (count,))

    torch.manual_seed(0)
    net = isthmus.compile(Suppressed(), example(9), dynamic_shapes=({0: "K"},) * 3, opset=opset)
    for args in (example(9), example(1), example(40), example(100, steps=8)):
        held(net, Suppressed(), *args)


class Pooled(torch.nn.Module):
    def __init__(self, aligned: bool) -> None:
        super().__init__()
        self.aligned = aligned

    def forward(self, x: torch.Tensor, rois: torch.Tensor) -> list[torch.Tensor]:
        def pool(size: Any, scale: float, ratio: int) -> torch.Tensor:
            return torchvision.ops.roi_align(x, rois, size, scale, ratio, self.aligned)

        return [pool((3, 3), 0.5, 2), pool((2, 4), 0.25, -1), pool(5, 1.0, 1)]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("aligned", [False, True])
def test_pooled_boxes(aligned: bool, opset: int) -> None:
    def example(count: int, high: int, wide: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(2, 3, high, wide), torch.cat([torch.randint(0, 2, (count, 1)), boxes(count, 14)], 1)

    torch.manual_seed(0)
    model, sizes = Pooled(aligned), ({2: "H", 3: "W"}, {0: "R"})
    net = isthmus.compile(model, example(4, 9, 11), dynamic_shapes=sizes, opset=opset)
    for args in (example(4, 9, 11), example(1, 12, 5), example(9, 1, 7)):
        held(net, model, *args)


class Moved(torch.nn.Module):
    def __init__(self, masked: bool = True, apart: int = 1, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        same = {name: value for name, value in options.items() if name in ("stride", "padding", "dilation")}
        self.layer = torchvision.ops.DeformConv2d(4, 6, 3, **options)
        self.offset = torch.nn.Conv2d(4, 18 * apart, 3, **same)
        self.mask = torch.nn.Conv2d(4, 9 * apart, 3, **same) if masked else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, self.offset(x) * 3, None if self.mask is None else self.mask(x).sigmoid())


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    "options",
    [
        {"padding": 1}, {"masked": False, "stride": 2, "padding": 1, "groups": 2, "apart": 2},
        {"dilation": 2, "padding": 2, "bias": False, "apart": 4},
    ],
)  # fmt: skip
def test_convolutions_that_look_elsewhere(options: dict[str, Any], opset: int) -> None:
    model = Moved(**options).eval()
    net = isthmus.compile(model, torch.randn(2, 4, 9, 8), dynamic_shapes={"x": {0: "N", 2: "H", 3: "W"}}, opset=opset)
    for shape in ((2, 9, 8), (1, 12, 7), (3, 6, 15)):
        held(net, model, torch.randn(shape[0], 4, *shape[1:]))
    if opset >= 19:
        assert net.artefact.node_count < 6


def test_suppression_depends_on_data_which_tensorrt_does_not_take() -> None:
    with pytest.raises(UnsupportedError, match=r"depend on data.*needed for nms") as caught:
        isthmus.compile(Suppressed(), (boxes(9), torch.rand(9), torch.randint(0, 3, (9,))), target="tensorrt")
    assert "boxes.py:" in str(caught.value)
