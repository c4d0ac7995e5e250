"""The models of ``docs/models.md``: fixed seeds, random weights, no downloads, sizes that may vary.

Each module holds one family as a list ``ENTRIES``; `all_entries` joins them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch

from zoo import Example

FAMILIES = ("vision", "small", "language", "demo")
"""The modules of this package that hold entries."""


@dataclass(frozen=True)
class Entry:
    """A model of the table.

    Attributes:
        name: as in the table.
        make: builds the model, in evaluation mode, with example inputs; seeds itself.
        sizes: settings of the dynamic sizes, by symbol, at which the compiled model is compared with eager.
    """

    name: str
    make: Callable[[], Example]
    sizes: tuple[dict[str, int], ...]


def all_entries() -> list[Entry]:
    """Every family's entries, in order."""
    return [entry for family in FAMILIES for entry in import_module(f"models.{family}").ENTRIES]


def as_trained(model: torch.nn.Module) -> torch.nn.Module:
    """The model in evaluation mode, with statistics, scales and zero-initialised parameters as if it had been trained.

    Freshly made models hide errors: batch norm is then nearly the identity, and layers that start at zero hide what
    lies before them.
    """
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.add_(torch.randn_like(parameter), alpha=0.1)
        elif not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return model.eval()
