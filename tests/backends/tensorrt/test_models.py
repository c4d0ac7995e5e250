"""Models at three shapes of their profiles: the network, read back and evaluated with torch, equals eager; engines build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from tensorrt_reader import evaluate
from transformers import BertConfig, BertModel

import isthmus
from isthmus.verification import VerifyReport, verify

Made = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any]


def image(name: str, size: int, **more: Any) -> Callable[[], Made]:
    """A model of torchvision; the batch may vary."""

    def make() -> Made:
        torch.manual_seed(0)
        model = getattr(torchvision.models, name)(**more).eval()
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
        head = getattr(model, "heads", None)
        if head is not None:
            torch.nn.init.normal_(head.head.weight, std=0.02)  # zeros otherwise, and so would be all results
        return model, (torch.randn(2, 3, size, size),), {}, {"x": {0: "N"}}

    return make


def vit() -> Made:
    """The layers of ViT-B/16, of which there are two here, on small images."""
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(64, 16, 2, 12, 768, 3072).eval()
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    return model, (torch.randn(2, 3, 64, 64),), {}, {"x": {0: "N"}}


def bert() -> Made:
    """The layers of BERT-base, of which there are two here; batch and length may vary."""
    torch.manual_seed(0)
    model = BertModel(BertConfig(num_hidden_layers=2)).eval()
    ids = torch.randint(0, 30522, (2, 12))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    sizes = {0: "N", 1: "S"}
    return model, (), {"input_ids": ids, "attention_mask": mask}, {"input_ids": sizes, "attention_mask": sizes}


def half() -> Made:
    """In half precision, convolutions and all."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.GroupNorm(2, 8), torch.nn.SiLU(), torch.nn.Flatten(1),
                                torch.nn.Linear(8 * 36, 5)).eval().half()  # fmt: skip
    return model, (torch.randn(2, 3, 8, 8).half(),), {}, {"input": {0: "N"}}


def pooling_and_back() -> Made:
    """Max pooling with indices, and what undoes it."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pooled, places = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
            return torch.nn.functional.max_unpool2d(pooled * 2, places, 2)

    return Net().eval(), (torch.randn(2, 3, 8, 6),), {}, {"x": {0: "N"}}


def upscaler() -> Made:
    """Sizes that vary in both directions, in a convolution, a transposed one, pixels shuffled, and a resize."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
            self.up = torch.nn.ConvTranspose2d(8, 12, 2, stride=2)
            self.norm = torch.nn.InstanceNorm2d(12, affine=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.nn.functional.pixel_shuffle(self.norm(self.up(self.conv(x))), 2)
            return torch.nn.functional.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)

    torch.manual_seed(0)
    return Net().eval(), (torch.randn(1, 3, 12, 16),), {}, {"x": {0: "N", 2: "H", 3: "W"}}


MODELS: dict[str, Callable[[], Made]] = {
    "ResNet-18": image("resnet18", 64), "ResNet-50": image("resnet50", 64), "MobileNetV2": image("mobilenet_v2", 64),
    "ViT-B/16": vit, "BERT-base": bert, "half": half, "pooling": pooling_and_back, "upscaler": upscaler,
}  # fmt: skip


def compiled(made: Made, **options: Any) -> isthmus.Compiled:
    model, args, kwargs, sizes = made
    return isthmus.compile(model, args, kwargs, dynamic_shapes=sizes, target="tensorrt", **options)


def read_back(net: isthmus.Compiled, **more: Any) -> VerifyReport:
    """Compares the network, as the reader understands it, with eager."""
    artefact: Any = net.artefact
    return verify(net.captured, lambda inputs: evaluate(artefact, inputs), **more)


@pytest.mark.parametrize("name", MODELS)
def test_the_network_agrees_with_eager_and_an_engine_builds(name: str) -> None:
    net = compiled(MODELS[name](), targets=["sm86", "sm89"])
    report = read_back(net, rtol=1e-4, atol=1e-4)
    assert report.ok
    assert len(report.rounds) == 3
    assert all(check.max_abs is not None for turn in report.rounds for check in turn.outputs)
    outputs = net.captured.eager(*net.captured.fresh_inputs(0, None))
    assert all(np.any(output) for output in outputs)
    artefact: Any = net.artefact
    assert len(memoryview(artefact.build())) > 10_000


def test_the_profile_is_that_of_the_symbols() -> None:
    net = compiled(MODELS["BERT-base"](), min={"S": 4}, opt={"S": 32}, max={"N": 4, "S": 128})
    artefact: Any = net.artefact
    profile = artefact.profile
    assert [tuple(shape) for shape in profile.get_shape("input_ids")] == [(1, 4), (2, 32), (4, 128)]
    assert [tuple(shape) for shape in profile.get_shape("attention_mask")] == [(1, 4), (2, 32), (4, 128)]
    report = read_back(net, calls=[
        ((), {"input_ids": torch.randint(0, 30522, shape), "attention_mask": torch.ones(shape, dtype=torch.int64)})
        for shape in ((1, 4), (2, 32), (4, 128))
    ])  # fmt: skip
    assert report.ok


def test_names_and_places_are_those_of_the_model() -> None:
    net = compiled(MODELS["ResNet-18"]())
    artefact: Any = net.artefact
    layers = {artefact.network.get_layer(index).name: artefact.network.get_layer(index) for index in range(20)}
    assert "layer1.0.conv1/convolution" in layers
    assert "resnet.py:" in layers["layer1.0.conv1/convolution"].metadata
    assert artefact.input_names == net.input_names == ["x"]
    assert artefact.output_names == net.output_names
    assert artefact.network.get_input(0).get_dimension_name(0) == "N"


def test_weights_are_not_copied() -> None:
    model = torch.nn.Linear(300, 400)
    net = isthmus.compile(model, torch.randn(2, 300), target="tensorrt")
    artefact: Any = net.artefact
    pointers = {array.ctypes.data for array in artefact.kept}
    assert model.weight.data_ptr() in pointers
