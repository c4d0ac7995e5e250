"""Tensors with data that a watch meets: parameters, buffers, and what the model brings along; constants of the graph."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from isthmus.frontends.torch.aliases import Entry
from isthmus.frontends.torch.provenance import Provenance
from isthmus.frontends.torch.weights import TorchWeight, contents
from isthmus.ir.builder import Builder
from isthmus.ir.errors import CaptureError, Refusal
from isthmus.ir.graph import Graph, Value
from isthmus.ir.weights import ArrayWeight, Weight

SMALL: Final = 1 << 16
"""Tensors met in passing are copied up to this many elements: the model may change them before they are read."""
_data_ptr: Final = torch._C.TensorBase.data_ptr
_untyped_storage: Final = torch._C.TensorBase.untyped_storage


class Reals:
    """The tensors with data of one watch.

    Args:
        graph: what their constants are written to.
        provenance: the user's lines.

    Attributes:
        names: the names of parameters and buffers by their ids.
        given: the handles of those whose content is not the tensor's own to tell, by their ids.
        bare: names of buffers that are known to have no content.
        met: the entries of the parameters and buffers that the model has used, by name.
        entries: each tensor that was met, and its entry, by its id.
        constants: what makes constants.
    """

    def __init__(self, graph: Graph, provenance: Provenance) -> None:
        self.names: dict[int, str] = {}
        self.given: dict[int, Weight] = {}
        self.bare: list[str] = []
        self.met: dict[str, Entry] = {}
        self.entries: dict[int, tuple[torch.Tensor, Entry]] = {}
        self.constants = Builder(graph)
        self._provenance = provenance
        self._storages: dict[int, dict[Any, Entry]] = {}
        self._beside: dict[Entry, dict[Any, Entry]] = {}
        self._labels: dict[Entry, str] = {}

    def meet(self, tensor: torch.Tensor) -> Entry:
        """The entry of a tensor that has none yet: a constant, which those that lie in memory as it does share.

        Raises:
            Refusal: its content is not to be had, or it shares storage with what was written to.
            CaptureError: it is on the meta device.
        """
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            raise Refusal(f"a tensor of the class {type(tensor).__name__} keeps its content to itself")
        name = self.names.get(id(tensor), "")
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise Refusal(
                f"a tensor {name or 'constant'} of layout {tensor.layout} or of quantized elements is not carried over"
            )
        if tensor.is_meta:
            what = f"the weight {name}" if name else "a tensor that is neither a parameter nor a buffer"
            raise CaptureError(
                f"{what} is on the meta device and has no content",
                location=self._provenance.here(),
                found=f"these buffers are there, too: {', '.join(self.bare)}" if len(self.bare) > 1 else None,
                remedy="make its module on another device where it computes it, or give its content with weights=..."
                if name else "make it on another device, or register it as a buffer and give its content with weights=...",
            )  # fmt: skip
        storage = _untyped_storage(tensor).data_ptr()
        lies = (_data_ptr(tensor), tensor.dtype, tensor.shape, tensor.stride())
        beside = self._storages.setdefault(storage, {}) if storage else {}
        entry = beside.get(lies)
        if entry is None:
            if any(other.version for other in beside.values()):
                raise Refusal(
                    "a tensor shares storage with one that the model has written to",
                    remedy="reach both through one tensor",
                )
            given = self.given.get(id(tensor))
            if given is not None:
                handle: Any = given
            elif name or tensor.numel() > SMALL:
                handle = TorchWeight(tensor, name)
            else:
                handle = ArrayWeight(np.array(contents(tensor)))
            with self.constants.at(self._provenance.here()):
                entry = Entry(self.constants.constant(handle))
            if not tensor.is_contiguous():
                entry.strides = tuple(tensor.stride())
            beside[lies] = entry
            self._beside[entry] = beside
            if name:
                self._labels[entry] = name
        if name:
            self.met[name] = entry
        self.entries[id(tensor)] = (tensor, entry)  # kept alive, so that the id is not given to another
        return entry

    def label(self, entry: Entry, name: str) -> None:
        """Names an owner for messages about writes."""
        self._labels[entry] = name

    def changed(self, tensor: torch.Tensor) -> bool:
        """Whether the model wrote to a real tensor."""
        known = self.entries.get(id(tensor))
        return known is not None and known[1].owner.version > 0

    def writes(self, owner: Entry) -> None:
        """Tells that the model writes to an owner.

        Raises:
            Refusal: another tensor shares its storage.
        """
        if len(self._beside.get(owner, ())) > 1:
            raise Refusal(
                f"the model writes to {self._labels.get(owner, 'a constant')}, which shares storage with another tensor",
                remedy="reach both through one tensor",
            )

    def written(self) -> dict[str, Value]:
        """Parameters and buffers that the model wrote to, with their last value."""
        return {name: entry.value for entry, name in self._labels.items() if entry.version}
