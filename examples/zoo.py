"""The models of the demonstration: fixed seeds, no downloads, sizes that may vary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Example:
    """A model with example inputs.

    Attributes:
        model: in evaluation mode.
        args: positional arguments.
        kwargs: keyword arguments.
        dynamic_shapes: which sizes may vary, by plain names.
    """

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None


def alexnet() -> Example:
    """torchvision's AlexNet; the batch may vary."""
    import torchvision

    torch.manual_seed(0)
    return _image(torchvision.models.alexnet())


def resnet50() -> Example:
    """torchvision's ResNet-50 with statistics as if it had been trained; the batch may vary."""
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet50()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
            torch.nn.init.uniform_(module.weight, 0.5, 1.0)
            torch.nn.init.normal_(module.bias, std=0.1)
    return _image(model)


def _image(model: torch.nn.Module) -> Example:
    return Example(model.eval(), (torch.randn(2, 3, 224, 224),), dynamic_shapes={"x": {0: "N"}})


def bert() -> Example:
    """A BERT encoder of base size, from its configuration; batch and sequence length may vary."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig()).eval()
    ids = torch.randint(0, model.config.vocab_size, (2, 12))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    sizes = {0: "N", 1: "S"}
    return Example(
        model, (), {"input_ids": ids, "attention_mask": mask}, {"input_ids": sizes, "attention_mask": sizes}
    )


ALL: dict[str, Callable[[], Example]] = {"AlexNet": alexnet, "ResNet-50": resnet50, "BERT-base": bert}
