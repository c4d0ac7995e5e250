"""torchvision: classification, segmentation, video, flow. Images are as small as each model allows."""

from __future__ import annotations

from typing import Any

import torch
import torchvision

from models import Entry, as_trained
from zoo import Example

BATCH = ({"N": 1}, {"N": 3})
PLANES = ({"N": 1, "H": 64, "W": 96}, {"N": 3, "H": 73, "W": 50})
STATIC: tuple[dict[str, int], ...] = ({}, {})


def entry(name: str, *shape: int | str, sizes: tuple[dict[str, int], ...] = BATCH, inputs: int = 1, **options: Any) -> Entry:
    """A model of torchvision's by name.

    Args:
        name: as `torchvision.models.get_model` takes it.
        shape: of each input, without the channels; a size that may vary is a name with the example's size, as in ``N2``.
        sizes: the settings to compare at.
        inputs: how many there are.
        options: of the model.
    """
    full = (shape[0], 3, *shape[1:])
    numbers = [int(size.lstrip("NTHW")) if isinstance(size, str) else size for size in full]
    names = {axis: size.rstrip("0123456789") for axis, size in enumerate(full) if isinstance(size, str)}

    def make() -> Example:
        torch.manual_seed(0)
        model = as_trained(torchvision.models.get_model(name, weights=None, **options))
        return Example(model, tuple(torch.randn(numbers) for _ in range(inputs)), dynamic_shapes=(names,) * inputs)

    return Entry(name, make, sizes)


ENTRIES: list[Entry] = [
    entry("alexnet", "N2", 64, 64),
    entry("vgg11_bn", "N2", 32, 32),
    entry("resnet50", "N2", "H80", "W64", sizes=PLANES),
    entry("resnext50_32x4d", "N2", 64, 64),
    entry("wide_resnet50_2", "N2", 64, 64),
    entry("densenet121", "N2", "H80", "W64", sizes=PLANES),
    entry("squeezenet1_1", "N2", "H80", "W64", sizes=PLANES),
    entry("googlenet", "N2", 64, 64, init_weights=False),
    entry("inception_v3", "N2", 96, 96, init_weights=False),
    entry("mobilenet_v2", "N2", "H80", "W64", sizes=PLANES),
    entry("mobilenet_v3_small", "N2", "H80", "W64", sizes=PLANES),
    entry("shufflenet_v2_x0_5", "N2", "H80", "W64", sizes=PLANES),
    entry("mnasnet0_5", "N2", 64, 64),
    entry("efficientnet_b0", "N2", "H80", "W64", sizes=PLANES),
    entry("efficientnet_v2_s", "N2", 64, 64),
    entry("regnet_x_400mf", "N2", 64, 64),
    entry("regnet_y_400mf", "N2", "H80", "W64", sizes=PLANES),
    entry("convnext_tiny", "N2", "H80", "W64", sizes=PLANES),
    entry("vit_b_16", "N2", 64, 64, image_size=64),
    entry("swin_t", "N2", "H80", "W64", sizes=({"N": 1, "H": 64, "W": 96}, {"N": 3, "H": 73, "W": 61})),
    entry("swin_v2_t", "N2", 64, 64),
    entry("maxvit_t", "N2", 224, 224),
    entry("fcn_resnet50", "N2", "H80", "W64", sizes=PLANES, weights_backbone=None),
    entry("deeplabv3_mobilenet_v3_large", "N2", "H80", "W64", sizes=PLANES, weights_backbone=None),
    entry("lraspp_mobilenet_v3_large", "N2", "H80", "W64", sizes=PLANES, weights_backbone=None),
    entry("r3d_18", "N2", 8, 32, 32),
    entry("s3d", "N2", 16, 224, 224),
    entry("mvit_v1_b", "N3", 16, 224, 224, sizes=({"N": 1}, {"N": 2})),
    entry("swin3d_t", "N2", 8, 64, 64),
    entry("raft_small", 1, 128, 128, sizes=STATIC, inputs=2),
]
