"""Weights that stay where torch keeps them."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np
import torch

from isthmus.frontends.torch.lowering import dtype_of, torch_dtype
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import CaptureError
from isthmus.ir.weights import Array, Weight

SAMPLES: Final = 64
"""So many elements of a weight are remembered, to notice writes that torch does not count."""

FEWER: Final = 8
"""So many of a weight in memory that torch did not allocate: it may be a mapped file, and each may be a page to be read."""


class TorchWeight(Weight):
    """A zero-copy view of a torch tensor's storage (a copy, while it is read, for a tensor on another device).

    Once sealed, it notices what happens to the tensor: another dtype, shape or storage; every write that torch counts;
    and of the others (through ``.data`` or numpy) those that change one of `SAMPLES` elements, evenly spaced (`FEWER` of a
    tensor that may lie in a mapped file). A write past torch to a part of the tensor that holds none of them goes
    unnoticed: to notice it would be to read all weights.
    A module that is given another tensor in this one's place changes nothing here.

    Attributes:
        tensor: the tensor; kept alive.
    """

    __slots__ = ("_seen", "tensor")

    def __init__(self, tensor: torch.Tensor, name: str = "") -> None:
        super().__init__(dtype_of(tensor.dtype), tuple(tensor.shape), name)
        self.tensor = tensor
        self._seen: tuple[tuple[Any, ...], Callable[[], bytes], bytes] | None = None

    @property
    def key(self) -> Hashable:
        tensor = self.tensor
        return ("memory", str(tensor.device), tensor.data_ptr(), self.dtype.name, self.shape, tensor.stride())

    @property
    def address(self) -> int | None:
        return self.tensor.data_ptr() if self.tensor.device.type == "cpu" else None

    def array(self) -> Array:
        """The content.

        Raises:
            CaptureError: the tensor was changed since the capture.
        """
        self.check()
        return contents(self.tensor)

    def seal(self) -> None:
        """From now on a change of the tensor is an error; writes of the watched model count up its version before."""
        sample = _sampler(self.tensor)
        self._seen = _form(self.tensor), sample, sample()

    def check(self) -> None:
        """Raises CaptureError when the tensor was changed since it was sealed."""
        if self._seen is None:
            return
        form, sample, content = self._seen
        if form != _form(self.tensor) or content != sample():  # the sample's memory is there while the form is the same
            raise CaptureError(
                f"the weight {self.name or 'of a constant'} was changed since the model was captured",
                remedy="compile the model again, or compile a copy that is not trained on",
            )

    def rows(self, start: int, stop: int) -> Array:
        return self.array()[start:stop]


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Where and how a tensor lies, and how many writes torch has counted."""
    version = 0 if tensor.is_inference() else tensor._version
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device, version


def _sampler(tensor: torch.Tensor) -> Callable[[], bytes]:
    """What reads a sample of a tensor's storage, every time anew."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
        if not tensor.numel() or tensor.is_meta:
            return bytes
        span = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        foreign = tensor.device.type == "cpu" and not tensor.untyped_storage().resizable()
        samples = FEWER if foreign else SAMPLES
        step = span // samples | 1  # odd, so that it is no multiple of a row's length, which is mostly even
        places = tensor.detach().as_strided((min(samples, (span - 1) // step + 1),), (step,))
        if places.device.type == "cpu" and not places.is_conj() and not places.is_neg():
            array = contents(places)  # of the same memory: some ten times as fast as by way of torch
            if not foreign or (advise := _advise()) is None:
                return array.tobytes
            return functools.partial(_read_singly, advise, array)
        return lambda: contents(places).tobytes()


def _read_singly(advise: Callable[..., int], array: Array) -> bytes:
    """The elements' bytes, read page by page: the system would read megabytes ahead around each in a mapped file."""
    start = array.__array_interface__["data"][0] & -mmap.PAGESIZE
    length = array.__array_interface__["data"][0] + (len(array) - 1) * array.strides[0] + array.itemsize - start
    advise(start, length, mmap.MADV_RANDOM)
    try:
        return array.tobytes()
    finally:
        advise(start, length, mmap.MADV_NORMAL)


@functools.cache
def _advise() -> Callable[..., int] | None:
    """The system's ``madvise``; None where there is none."""
    if not hasattr(mmap, "MADV_RANDOM"):
        return None
    found = ctypes.CDLL(None).madvise
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


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
