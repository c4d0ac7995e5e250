"""Weights that stay where torch keeps them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import torch

from isthmus.frontends.torch.lowering import dtype_of, torch_dtype
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import CaptureError
from isthmus.ir.weights import Array, Weight


class TorchWeight(Weight):
    """A zero-copy view of a torch tensor's storage (a copy, while it is read, for a tensor on another device).

    Attributes:
        tensor: the tensor; kept alive.
        version: the tensor's version at the end of the capture; None before (writes of the watched model count it up
            and leave the content alone).
    """

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: torch.Tensor, name: str = "") -> None:
        super().__init__(dtype_of(tensor.dtype), tuple(tensor.shape), name)
        self.tensor = tensor
        self.version: int | None = None

    @property
    def key(self) -> Hashable:
        tensor = self.tensor
        return ("memory", str(tensor.device), tensor.data_ptr(), self.dtype.name, self.shape, tensor.stride())

    def array(self) -> Array:
        """The content.

        Raises:
            CaptureError: the tensor was written to since the capture.
        """
        if self.version is not None and self.tensor._version != self.version:
            raise CaptureError(
                f"the weight {self.name or 'of a constant'} was changed since the model was captured",
                remedy="capture the model again, or give it a copy that is not trained on",
            )
        return contents(self.tensor)

    def seal(self) -> None:
        """From now on a write to the tensor is an error when the weight is read."""
        self.version = self.tensor._version

    def rows(self, start: int, stop: int) -> Array:
        return self.array()[start:stop]


def contents(tensor: torch.Tensor) -> Array:
    """A tensor's content as numpy sees it: no copy, where the tensor lies in the host's memory."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
        target = dtype_of(tensor.dtype).numpy
        if target.isbuiltin == 1:
            found: Array = tensor.numpy()
            return found
        # numpy does not know bfloat16 and float8: the bits go over as integers.
        bits = tensor.view(torch.int16 if tensor.element_size() == 2 else torch.uint8)
        return np.asarray(bits.numpy()).view(target)


def real(content: Array, dtype: DType) -> torch.Tensor:
    """A real tensor with this content."""
    copy: Array = np.array(content, order="C")
    theirs = torch_dtype(dtype)
    with torch._C._DisableTorchDispatch():
        if copy.dtype.isbuiltin == 1:
            return torch.from_numpy(copy)
        return torch.from_numpy(copy.view(np.int16 if copy.itemsize == 2 else np.uint8)).view(theirs)
