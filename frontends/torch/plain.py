"""Which arguments are inputs of the graph, which are constants of it, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch.utils import _pytree as pytree

from isthmus.frontends.base import TensorSpec
from isthmus.frontends.torch.weights import real
from isthmus.ir import dtypes
from isthmus.ir.errors import UsageError


def is_leaf(item: Any) -> bool:
    """Whether an argument becomes an input."""
    return isinstance(item, (torch.Tensor, TensorSpec))


def _own(tensor: torch.Tensor, hook: str) -> bool:
    """Whether a tensor's class computes in a way of its own."""
    found, plain = (getattr(kind, hook) for kind in (type(tensor), torch.Tensor))
    function = getattr(found, "__func__", found)
    return function not in (getattr(plain, "__func__", plain), torch._C._disabled_torch_function_impl) and not is_fake(tensor)


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether it is one of torch's own tensors without data: an example like one on the meta device."""
    return type(tensor).__name__ == "FakeTensor"


_KINDS: Final[tuple[tuple[Callable[[torch.Tensor], bool], str, str], ...]] = (
    (lambda x: x.is_quantized, "a quantized one", "x.dequantize()"),
    (lambda x: x.is_nested, "a nested one", "x.to_padded_tensor(0.0) and a mask"),
    (lambda x: x.layout is not torch.strided, "a {layout} one", "x.to_dense()"),
    (lambda x: _own(x, "__torch_dispatch__"), "a {kind}, which computes in its own way", "the tensors that it is made of"),
    (lambda x: _own(x, "__torch_function__"), "a {kind}, which computes in its own way", "x.as_subclass(torch.Tensor)"),
)
"""Tensors that are no plain ones, what they are called, and what to give in their place."""


def check_plain(name: str, tensor: torch.Tensor) -> None:
    """Raises UsageError for an input that is not a dense tensor of numbers."""
    for told, what, instead in _KINDS:
        if told(tensor):
            found = what.format(layout=str(tensor.layout).removeprefix("torch."), kind=type(tensor).__name__)
            raise UsageError(f"the input {name} must be a dense tensor", found=found, remedy=f"give {instead}")


def from_numpy(item: Any) -> Any:
    """An array as the tensor that it stands for."""
    if isinstance(item, np.ndarray) and item.dtype.kind not in "OSUMm" and not item.dtype.fields:
        return real(item, dtypes.from_numpy(item.dtype))
    return item


def check_opaque(path: str, item: Any) -> None:
    """Raises UsageError for an argument that holds tensors where nobody looks for them."""
    if isinstance(item, (torch.nn.Module, type)) or callable(item) or not hasattr(item, "__dict__"):
        return
    held = [name for name, part in vars(item).items() if any(map(is_leaf, pytree.tree_leaves(part, is_leaf=is_leaf)))]
    if held:
        raise UsageError(
            f"{path} is a {type(item).__name__}, whose tensors are not looked into: they would be constants of the model",
            found=", ".join(f".{name}" for name in held),
            remedy="give them in a tuple, list, dict or dataclass, or register the class with "
            "torch.utils._pytree.register_pytree_node",
        )


def alike(item: Any, known: Any) -> bool:
    """Whether an argument that is no tensor may stand for the example's: 2.0 does not for 2, as it computes another type."""
    if item is known:
        return True
    if type(item) is not type(known):
        return False
    return bool(np.all((item == known) | ((item != item) & (known != known)) if isinstance(item, _NUMBERS) else item == known))


_NUMBERS: Final = (bool, int, float, complex, np.ndarray, np.generic)
