"""Memory that a tensor shares with an array of numpy: what is written to one is seen in the other."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from isthmus.frontends.torch.aliases import Entry
from isthmus.frontends.torch.lowering import dtype_of
from isthmus.ir.errors import CaptureError
from isthmus.ir.location import Location
from isthmus.ir.weights import ArrayWeight

if TYPE_CHECKING:
    from isthmus.frontends.base import Array
    from isthmus.frontends.torch.watcher import Watcher

_LARGEST: Final = 1 << 20
"""The number of elements of an array up to which it is looked at for changes."""


@dataclass
class Shared:
    """A tensor and an array with one memory.

    Attributes:
        tensor: the tensor.
        array: the array.
        seen: the content that both had when they were last the same; None where nobody can write to the array.
        first: the content of an array of the user's when it was met; None for one that was made from the tensor.
        alone: the number of references to the array when nobody else has it.
        location: where they were met.
    """

    tensor: torch.Tensor
    array: Array
    seen: bytes | None
    first: Array | None
    alone: int
    location: Location


def taken(watcher: Watcher, tensor: torch.Tensor, array: Any, real: torch.Tensor) -> None:
    """Notes that an array was taken of a tensor, where the two have one memory.

    Args:
        watcher: where it is noted.
        tensor: the tensor.
        array: what its method has returned.
        real: the tensor with content whose method it was.
    """
    if isinstance(array, np.ndarray) and torch._C.TensorBase.data_ptr(real) == array.__array_interface__["data"][0]:
        _note(watcher, tensor, array, None)


def given(watcher: Watcher, tensor: torch.Tensor, array: Any) -> None:
    """Notes that a tensor was made of an array, where the two have one memory."""
    if isinstance(array, np.ndarray) and isinstance(tensor, torch.Tensor) and dtype_of(tensor.dtype).numpy == array.dtype:
        _note(watcher, tensor, array, array.copy())


def _note(watcher: Watcher, tensor: torch.Tensor, array: Array, first: Array | None) -> None:
    if array.size:
        seen = array.tobytes() if array.flags.writeable and array.size <= _LARGEST else None
        alone = 2 if first is None else 3  # the tensor that was made of it is kept, and it with that
        watcher.shared.append(Shared(tensor, array, seen, first, alone, watcher.provenance.here()))


def refresh(watcher: Watcher) -> None:
    """Takes over what was written to arrays; called before a tensor is read, where there are any."""
    shared, watcher.shared = watcher.shared, []
    try:
        for each in shared:
            if each.seen is not None and each.array.tobytes() != each.seen:
                each.seen = each.array.tobytes()
                with watcher.reals.constants.at(watcher.provenance.here()):
                    watcher.put(each.tensor, watcher.reals.constants.constant(ArrayWeight(each.array.copy())))
    finally:
        watcher.shared = shared


def written(watcher: Watcher, owner: Entry) -> None:
    """Takes over what was written to a tensor.

    Raises:
        CaptureError: it depends on an input, and somebody has an array of the same memory.
    """
    shared, watcher.shared = watcher.shared, []
    kept = []
    for each in shared:
        if watcher.entry(each.tensor).owner is owner:
            content = watcher.w.knowledge.content(watcher.value(each.tensor))
            if content is None or not each.array.flags.writeable:
                if sys.getrefcount(each.array) > each.alone:
                    watcher.fail(
                        CaptureError(
                            "the model writes to a tensor that has one memory with an array of numpy, which cannot follow",
                            location=watcher.provenance.here(),
                            found=f"the array is from {each.location}",
                            remedy="copy one of them: torch.tensor(array), or tensor.numpy().copy()",
                        )
                    )
                _restore(each)
                continue
            each.array[...] = content
            each.seen = each.array.tobytes()
        kept.append(each)
    watcher.shared = kept


def end(watcher: Watcher) -> None:
    """Puts back the content of arrays of the user's."""
    for each in watcher.shared:
        _restore(each)


def _restore(each: Shared) -> None:
    if each.first is not None and each.array.flags.writeable:
        each.array[...] = each.first
