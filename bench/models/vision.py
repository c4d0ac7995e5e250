"""torchvision: classification, segmentation, video, flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torchvision

from models import Entry, as_trained
from zoo import Example

BATCH = {0: "N"}
PLANES = {0: "N", 2: "H", 3: "W"}


def image(name: str, size: int = 224, axes: dict[int, str] = BATCH, **options: Any) -> Callable[[], Example]:
    """A model of torchvision's by name, with two square images."""

    def make() -> Example:
        torch.manual_seed(0)
        model = as_trained(torchvision.models.get_model(name, weights=None, **options))
        return Example(model, (torch.randn(2, 3, size, size),), dynamic_shapes=(axes,))

    return make


def batched(name: str, size: int = 224, **options: Any) -> Entry:
    """A model whose batch may vary."""
    return Entry(name, image(name, size, **options), ({"N": 1}, {"N": 3}))


ENTRIES: list[Entry] = [
    batched("alexnet", 64),
    batched("vgg11_bn", 32),
]
