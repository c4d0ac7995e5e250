"""Tensors without data: what the model computes with while it is watched.

Measured before this form was chosen (one thread, warm, types from `infer`): see the package's docstring.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from isthmus.frontends.torch.aliases import Entry
from isthmus.ir.errors import CaptureError


class Watched(torch.Tensor):  # type: ignore[misc]
    """A tensor with sizes, strides and a dtype, and no storage.

    Attributes:
        entry: which value it stands for.
    """

    entry: Entry
    __torch_function__ = torch._C._disabled_torch_function_impl
    __slots__: ClassVar[list[str]] = ["entry"]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Reached only outside a capture: within one, the watcher's mode comes first."""
        raise CaptureError(
            f"{func} was called on a tensor of a capture that has ended",
            remedy="do not keep tensors in globals or closures between calls of the model",
        )

    def __repr__(self, **_: Any) -> str:
        return f"<watched {str(self.dtype).removeprefix('torch.')}{[str(size) for size in self.shape]}>"

    def __format__(self, spec: str) -> str:
        return repr(self)


def watched(entry: Entry, sizes: Any, strides: Any, dtype: torch.dtype, device: torch.device) -> Watched:
    """A new tensor without data.

    Args:
        entry: which value it stands for.
        sizes: its sizes, ints and SymInts.
        strides: the same; None for contiguous.
        dtype: its dtype.
        device: where it claims to be.
    """
    tensor: Watched = torch.Tensor._make_wrapper_subclass(Watched, sizes, strides=strides, dtype=dtype, device=device)
    tensor.entry = entry
    return tensor
