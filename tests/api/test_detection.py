"""torchvision's ops of detectors, from PyTorch to onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from torchvision.models.detection.anchor_utils import AnchorGenerator

import isthmus
from isthmus.backends.onnx.opsets import NEWEST
from isthmus.errors import CaptureError, UnsupportedError

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


class PooledByPosition(torch.nn.Module):
    def forward(self, x: torch.Tensor, rois: torch.Tensor) -> list[torch.Tensor]:
        pooled, channels = torch.ops.torchvision.ps_roi_align(x, rois, 0.5, 2, 3, -1)
        few = torchvision.ops.ps_roi_align(x, rois, 2, 0.5, 2)
        return [few, pooled, channels]


def test_boxes_pooled_by_position() -> None:
    def example(count: int, high: int, wide: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(2, 12, high, wide), torch.cat([torch.randint(0, 2, (count, 1)), boxes(count, 14)], 1)

    torch.manual_seed(0)
    net = isthmus.compile(PooledByPosition(), example(4, 9, 11), dynamic_shapes=({2: "H", 3: "W"}, {0: "R"}))
    for args in (example(4, 9, 11), example(1, 12, 5)):
        held(net, PooledByPosition(), *args)


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


class Kept(torch.nn.Module):
    """What detectors do behind their heads: clip, score, drop what is small, suppress, and take the best."""

    def forward(self, found: torch.Tensor, scores: torch.Tensor, kinds: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = torchvision.ops.clip_boxes_to_image(found, (8, 10))
        kept = torch.where(scores > 0.3)[0]
        found, scores, kinds = found[kept], scores[kept], kinds[kept]
        kept = torchvision.ops.remove_small_boxes(found, 1.0)
        found, scores, kinds = found[kept], scores[kept], kinds[kept]
        kept = torchvision.ops.batched_nms(found, scores, kinds, 0.5)[:10]
        return found[kept], scores[kept], kinds[kept]


@pytest.mark.parametrize("opset", [13, NEWEST])
def test_what_detectors_keep(opset: int) -> None:
    def example(count: int) -> tuple[torch.Tensor, ...]:
        return boxes(count), torch.rand(count), torch.randint(0, 3, (count,))

    torch.manual_seed(0)
    net = isthmus.compile(Kept(), example(9), dynamic_shapes=({0: "K"},) * 3, opset=opset)
    assert not net.report.warnings
    assert all("boxes.py:" in told for told in net.report.assumptions)
    (empty,) = [told for told in net.report.assumptions if "`boxes.numel() == 0` was answered no" in told]
    assert "yes would go on at line" in empty
    assert "`return torch.empty((0,), dtype=torch.int64, device=boxes.device)`" in empty
    for count in (9, 1, 40, 200):
        held(net, Kept(), *example(count))
    found, scores, kinds = example(5)
    held(net, Kept(), found, scores * 0, kinds)  # nothing is left
    with pytest.raises(CaptureError, match="the model branches on") as caught:
        isthmus.compile(Kept(), example(9), dynamic_shapes=({0: "K"},) * 3, on_size_branch="refuse")
    assert "boxes.py:" in str(caught.value)
    with pytest.raises(CaptureError, match="takes 2 things for granted"):
        isthmus.compile(Kept(), example(9), dynamic_shapes=({0: "K"},) * 3, strict=True)


def no_truth(x: torch.Tensor) -> torch.Tensor:
    x = x[x[:, 0] > 0]
    if not x.numel():
        return x.new_zeros(0)
    return x.amax(1)


def less_than_one(x: torch.Tensor) -> torch.Tensor:
    x = x[x[:, 0] > 0]
    return x.new_zeros(0) if x.nelement() < 1 else x.amax(1)


def else_empty(x: torch.Tensor) -> torch.Tensor:
    x = x[x[:, 0] > 0]
    if x.shape[0] > 0:
        found = x.amax(1)
    else:
        found = x.new_zeros(0)
    return found


def one_of_two(x: torch.Tensor) -> torch.Tensor:
    x = x[x[:, 0] > 0]
    if x.size(0) == 0 or x.size(1) == 0:
        return x.new_zeros(0)
    return x.amax(1)


def indices(x: torch.Tensor) -> torch.Tensor:
    kept = (x[:, 0] > 0).nonzero().squeeze(1)
    empty = kept.shape[0] == 0
    if empty:
        return x.new_zeros(0)
    return x[kept].amax(1)


def one_of_the_sizes(x: torch.Tensor) -> torch.Tensor:
    x = x[x[:, 0] > 0]
    if 0 in x.shape:
        return x.new_zeros(0)
    return x.amax(1)


@pytest.mark.parametrize("model", [no_truth, less_than_one, else_empty, one_of_two, indices, one_of_the_sizes])
def test_an_early_exit_for_nothing_found_is_recorded_in_any_form(model: Any) -> None:
    torch.manual_seed(0)
    net = isthmus.compile(model, torch.randn(9, 4), dynamic_shapes={"x": {0: "N"}})
    assert not net.report.warnings
    (told,) = net.report.assumptions
    assert f"(at {__file__}:" in told
    assert f" in {model.__name__}): " in told
    for count in (2, 9, 40):
        held(net, model, torch.randn(count, 4).index_fill(1, torch.tensor(0), 1))
    held(net, model, -torch.rand(3, 4))  # what goes on says the same about nothing
    with pytest.raises(CaptureError, match="and u0 depends on data"):
        isthmus.compile(model, torch.randn(9, 4), on_size_branch="refuse")


class Backbone(torch.nn.Module):
    """A few convolutions with one level of features, or two."""

    def __init__(self, levels: int = 1) -> None:
        super().__init__()
        self.first, self.rest = torch.nn.Conv2d(3, 8, 3, 4, 1), torch.nn.ModuleList()
        for _ in range(levels):
            self.rest.append(torch.nn.Conv2d(8, 8, 3, 2, 1))
        self.out_channels = 8

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        found, x = {}, self.first(x).relu()
        for number, layer in enumerate(self.rest):
            found[str(number)] = x = layer(x).relu()
        return found


def as_if_trained(model: torch.nn.Module) -> torch.nn.Module:
    """Weights with which scores and boxes differ from place to place."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.data.add_(torch.randn_like(parameter) * 0.1)
        else:
            parameter.data.mul_(6 if "predictor" in name else 3)
    return model.eval()


def faster_rcnn() -> torch.nn.Module:
    torch.manual_seed(0)
    return as_if_trained(
        torchvision.models.detection.FasterRCNN(
            Backbone(), num_classes=4, min_size=64, max_size=96, rpn_pre_nms_top_n_test=60, rpn_post_nms_top_n_test=30,
            rpn_anchor_generator=AnchorGenerator(((8, 16, 32),), ((0.5, 1.0, 2.0),)), box_detections_per_img=12,
            box_roi_pool=torchvision.ops.MultiScaleRoIAlign(["0"], 4, 2),
        )
    )  # fmt: skip


def retina_net() -> torch.nn.Module:
    torch.manual_seed(0)
    anchors = AnchorGenerator(((8, 16), (16, 32)), ((0.5, 1.0, 2.0),) * 2)
    return as_if_trained(
        torchvision.models.detection.RetinaNet(
            Backbone(2), num_classes=4, anchor_generator=anchors, min_size=64, max_size=96, score_thresh=0.012,
            detections_per_img=12, topk_candidates=40,
        )
    )  # fmt: skip


@pytest.mark.parametrize("make", [faster_rcnn, retina_net])
def test_whole_detectors(make: Any) -> None:
    model = make()
    net = isthmus.compile(model, ([torch.rand(3, 64, 80), torch.rand(3, 48, 64)],))
    assert not net.report.warnings
    assert all("boxes.py:" in told or "_utils.py:" in told for told in net.report.assumptions)
    counts = set()
    for seed in range(5):
        torch.manual_seed(seed)
        images = [torch.rand(3, 64, 80) * (1 + seed), torch.rand(3, 48, 64)]
        with torch.no_grad():
            found, wanted = net(images), model(images)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.keys() == theirs.keys()
            counts.add(len(theirs["labels"]))
            for name in theirs:
                np.testing.assert_allclose(ours[name].numpy(), theirs[name].numpy(), rtol=1e-3, atol=2e-3)
    assert len(counts) > 1


def test_suppression_depends_on_data_which_tensorrt_does_not_take() -> None:
    with pytest.raises(UnsupportedError, match=r"depend on data.*needed for nms") as caught:
        isthmus.compile(Suppressed(), (boxes(9), torch.rand(9), torch.randint(0, 3, (9,))), target="tensorrt")
    assert "boxes.py:" in str(caught.value)
