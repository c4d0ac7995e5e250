"""Tensors without data: what the model computes with while it is watched.

Measured before this form was chosen (one thread, warm, types from `infer`): see the package's docstring.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.utils import _pytree as pytree

from isthmus.frontends.torch.aliases import Entry
from isthmus.frontends.torch.weights import real
from isthmus.ir.errors import CaptureError


class Watched(torch.Tensor):  # type: ignore[misc]
    """A tensor with sizes, strides and a dtype, and no storage.

    Attributes:
        entry: which value it stands for.
        number: it is a number of a script, which the model's caller gets as one.
    """

    entry: Entry
    number: bool = False
    __torch_function__ = torch._C._disabled_torch_function_impl
    __slots__: ClassVar[list[str]] = ["entry"]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Reached only outside a capture: within one, the watcher's mode comes first."""

        def leaf(item: Any) -> Any:
            return item.grounded(str(func)) if isinstance(item, Watched) else item

        args, kwargs = pytree.tree_map(leaf, (args, kwargs or {}))
        return func(*args, **kwargs)

    def grounded(self, where: str) -> torch.Tensor:
        """The real tensor that a tensor of an ended capture stands for, where it depended on nothing.

        Models keep such tensors in caches that outlive a call.

        Raises:
            CaptureError: it depended on an input.
        """
        entry = self.entry
        content = None if entry.home is None else entry.home.content(entry.value)
        if content is None:
            raise CaptureError(
                f"{where} meets a tensor of a capture that has ended",
                remedy="do not keep tensors in globals, closures or caches between calls of the model",
            )
        return real(content, entry.value.tensor.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return memo.setdefault(id(self), self.clone())

    def told(self) -> str:
        """Its type in a text."""
        return f"<watched {str(self.dtype).removeprefix('torch.')}[{', '.join(map(str, self.shape))}]>"

    def __repr__(self, **_: Any) -> str:
        return self.told()

    def __format__(self, spec: str) -> str:
        return self.told()

    def __copy__(self) -> torch.Tensor:
        return self.detach()


def watched(entry: Entry, sizes: Any, strides: Any, dtype: torch.dtype, device: torch.device) -> Watched:
    """A new tensor without data.

    Args:
        entry: which value it stands for.
        sizes: its sizes, ints and SymInts.
        strides: the same; None for contiguous.
        dtype: its dtype.
        device: where it claims to be.
    """
    # Without a size for the storage C++ would compute one, and ask the sizes two dozen questions for it.
    tensor: Watched = torch.Tensor._make_wrapper_subclass(
        Watched, sizes, strides=strides, dtype=dtype, device=device, storage_size=0
    )
    tensor.entry = entry
    return tensor
