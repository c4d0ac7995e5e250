"""Arguments in a few words, for errors: how they are nested, and of tensors the type, never the content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

from isthmus.frontends.base import TensorSpec
from isthmus.frontends.torch import containers
from isthmus.frontends.torch.lowering import dtype_of
from isthmus.ir.errors import Refusal

WIDTH: Final = 60
"""Other values are told in so many characters."""


def outline(item: Any, leaf: str | None = None) -> str:
    """An argument such as ``(f32[2, 16], {'mask': bool[2]})``.

    Args:
        item: the argument.
        leaf: what to say in place of each tensor; its type by default.
    """
    if isinstance(item, (torch.Tensor, TensorSpec, np.ndarray)):
        return leaf or _type(item)
    if isinstance(item, Mapping):
        return "{" + ", ".join(f"{key!r}: {outline(part, leaf)}" for key, part in item.items()) + "}"
    found = containers.parts(item)
    if found is None:
        text = repr(item)
        return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
    parts = [outline(part, leaf) for part in found.values()]
    if isinstance(item, list):
        return f"[{', '.join(parts)}]"
    if isinstance(item, tuple):
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return f"{type(item).__name__}({', '.join(f'{key}={part}' for key, part in zip(found, parts, strict=True))})"


def _type(tensor: Any) -> str:
    if not isinstance(tensor, torch.Tensor):
        return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"
    try:
        dtype = str(dtype_of(tensor.dtype))
    except Refusal:  # one of torch's own kinds
        dtype = str(tensor.dtype).removeprefix("torch.")
    layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
    shape = "" if tensor.is_nested else str(list(tensor.shape))
    notes = [layout] * (layout != "strided") + ["on the meta device"] * tensor.is_meta
    return f"{dtype}{shape}{''.join(f' ({note})' for note in notes)}"
