"""Whole models in every dialect: equal to eager in OpenCV, and in MNN where it reads the dialect."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from caffe_readers import mnn
from torch import nn
from torchvision.models.vision_transformer import VisionTransformer

import isthmus
from isthmus.backends.caffe.dialect import BUILT_IN
from isthmus.errors import MismatchError, UnsupportedError


class Down(nn.Sequential):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__(nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU())


class UNet(nn.Module):
    """Down twice with pools, up with a transposed convolution, with output padding, and with interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Down(3, 8), Down(8, 16), Down(16, 16)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.again = nn.ConvTranspose2d(32, 8, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = self.first(x)
        b = self.second(self.pool(a))
        c = self.third(self.pool(b))
        up = self.again(torch.cat([self.up(c), b], 1))
        coarse = nn.functional.interpolate(c, scale_factor=4, mode="bilinear", align_corners=False)
        return self.head(torch.cat([up, a], 1)), nn.functional.interpolate(coarse, scale_factor=2, mode="nearest")


def slim(made: Any) -> nn.Module:
    """AlexNet or VGG whose hidden linear layers are an eighth as wide: hundreds of megabytes say nothing more."""
    wide = [place for place, layer in enumerate(made.classifier) if isinstance(layer, nn.Linear)]
    for place, inputs, outputs in zip(wide, (made.classifier[wide[0]].in_features, 512, 512), (512, 512, 1000), strict=True):
        made.classifier[place] = nn.Linear(inputs, outputs)
    return made  # type: ignore[no-any-return]


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "alexnet": (lambda: slim(torchvision.models.alexnet()), 224),
    "vgg11": (lambda: slim(torchvision.models.vgg11(init_weights=False)), 64),
    "resnet18": (torchvision.models.resnet18, 96),
    "resnet50": (torchvision.models.resnet50, 64),
    "squeezenet": (torchvision.models.squeezenet1_0, 97),
    "mobilenet_v2": (torchvision.models.mobilenet_v2, 64),
    "shufflenet": (torchvision.models.shufflenet_v2_x0_5, 64),
    "unet": (UNet, 32),
}


@cache
def model(name: str) -> nn.Module:
    make, _ = MODELS[name]
    torch.manual_seed(0)
    made = make().eval()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, 0, 0.2)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 1.5)  # type: ignore[arg-type]
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
    return made


def picture(name: str) -> torch.Tensor:
    return torch.randn(1, 3, MODELS[name][1], MODELS[name][1], generator=torch.Generator().manual_seed(1))


@cache
def wanted(name: str) -> list[Any]:
    with torch.no_grad():
        found = model(name)(picture(name))
    return [each.numpy() for each in (found if isinstance(found, tuple) else (found,))]


_SEEN: set[tuple[str, str]] = set()
"""What was run already: models, and the texts that dialects gave for them; several give the same."""


@pytest.mark.parametrize("dialect", BUILT_IN)
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, dialect: str, tmp_path: Path) -> None:
    net = isthmus.compile(model(name), picture(name), target="caffe", dialect=dialect)
    artefact: Any = net.artefact
    if (name, artefact.prototxt) not in _SEEN:
        artefact.validate()
        close(artefact.run([picture(name).numpy()]), wanted(name))
        _SEEN.add((name, artefact.prototxt))
    if dialect in ("mnn", "portable") and (f"{name} in MNN", artefact.prototxt) not in _SEEN:
        files = [str(path) for path in net.save(tmp_path / "net")]
        found = mnn().run(files, {artefact.net.inputs[0]: picture(name).numpy()}, artefact.net.outputs)
        close([found[each] for each in artefact.net.outputs], wanted(name))
        _SEEN.add((f"{name} in MNN", artefact.prototxt))


def test_alexnet_in_full() -> None:
    torch.manual_seed(0)
    net = isthmus.compile(torchvision.models.alexnet().eval(), torch.randn(1, 3, 224, 224), target="caffe")
    net.artefact.validate()
    assert net.verify(seeds=1).worst < 1e-4


def test_vgg_at_its_own_size_in_mnn(tmp_path: Path) -> None:
    """The values grow from layer to layer as they do in a trained net: with MNN's large tiles this is 1.3e-4 off."""
    torch.manual_seed(0)
    features, x = torchvision.models.vgg11().features.eval(), torch.randn(1, 3, 224, 224)
    net = isthmus.compile(features, x, target="caffe", dialect="mnn")
    found = mnn().run([str(path) for path in net.save(tmp_path / "net")], {net.artefact.net.inputs[0]: x.numpy()}, ["output"])
    with torch.no_grad():
        close([found["output"]], [features(x).numpy()])


def close(found: list[Any], expected: list[Any]) -> None:
    assert [array.shape for array in found] == [array.shape for array in expected]
    for got, want in zip(found, expected, strict=True):
        assert np.max(np.abs(got - want)) < 1e-4 * np.max(np.abs(want))


def test_bvlc_and_opencv_have_a_word_for_rounding_down() -> None:
    texts = {name: compiled("resnet18", name).artefact.prototxt for name in BUILT_IN}
    assert "round_mode: FLOOR" in texts["bvlc"]
    assert "ceil_mode: false" in texts["opencv"]
    assert [name for name, text in texts.items() if '"Slice"' in text] == ["mnn", "portable"]


def compiled(name: str, dialect: str) -> Any:
    return isthmus.compile(model(name), picture(name), target="caffe", dialect=dialect)


def test_a_batch_may_vary_where_the_reader_lets_it() -> None:
    batch = {"x": {0: "N"}}
    net = isthmus.compile(model("resnet18"), picture("resnet18"), target="caffe", dialect="opencv", dynamic_shapes=batch)
    net.verify([torch.randn(batch, 3, 96, 96) for batch in (1, 3)], rtol=1e-4)


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        ("portable", "Caffe's shapes are static, and the size N of f32[N, 3, H, 32] is not known"),
        ("opencv", "Caffe's shapes are static but for the batch, and the size H of f32[N, 3, H, 32] is not known"),
    ],
)
def test_a_size_that_is_not_known_is_refused_by_name(dialect: str, message: str) -> None:
    sizes = {"x": {0: "N", 2: "H"}}
    with pytest.raises(UnsupportedError) as caught:
        isthmus.compile(model("unet"), picture("unet"), target="caffe", dialect=dialect, dynamic_shapes=sizes)
    assert message in {refusal.message for refusal in caught.value.refusals}
    assert all(refusal.location for refusal in caught.value.refusals)


def test_a_vision_transformer_is_refused_node_by_node() -> None:
    torch.manual_seed(0)
    vit = VisionTransformer(image_size=32, patch_size=16, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32).eval()
    with pytest.raises(UnsupportedError) as caught:
        isthmus.compile(vit, torch.randn(1, 3, 32, 32), target="caffe")
    refusals = caught.value.refusals
    text = str(caught.value)
    assert text.startswith(f"{len(refusals)} operations cannot be carried over to caffe")
    for refusal in refusals:
        assert refusal.location is not None
        assert refusal.location.file.endswith(".py")
        assert refusal.location.line > 0
        assert refusal.message
    ops = {refusal.op for refusal in refusals}
    assert {"erf", "matmul"} <= ops
    for layer in ("encoder_layer_0", "encoder_layer_1"):
        assert sum(refusal.op == "erf" and layer in refusal.location.module for refusal in refusals if refusal.location) == 1


def test_verify_finds_what_differs() -> None:
    net = compiled("squeezenet", "portable")
    layer = next(layer for layer in net.artefact.net.text.messages("layer") if layer["type"] == "Pooling")
    layer["pooling_param"].fields["pool"] = "AVE"
    with pytest.raises(MismatchError):
        net.verify(seeds=1)
