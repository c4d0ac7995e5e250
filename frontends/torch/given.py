"""Weights that are given beside a model, by name: they take the place of its own, which may be without content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np
import torch

from isthmus.frontends.torch.lowering import dtype_of, torch_dtype
from isthmus.frontends.torch.outline import outline
from isthmus.frontends.torch.sources import Source
from isthmus.frontends.torch.weights import TorchWeight, real
from isthmus.ir.errors import UsageError
from isthmus.ir.weights import MappedWeight, Weight, weight


class Given:
    """A model's weights from elsewhere, and tensors over them that stand in the model while it is watched or run.

    A tensor over a weight in a file is a mapping of the file, copied page by page where it is written to: whatever the
    model does to it, the file stays as it is.

    Args:
        source: the model.
        weights: tensors, arrays or handles by the model's names for its parameters and buffers. Of those that are one
            tensor in the model (tied), one name is enough.

    Attributes:
        handles: the weights by the ids of the tensors that stand for them.
        bare: names of the model's buffers that have no content and are not given any.

    Raises:
        UsageError: the model is a function; names are missing or unexpected, dtypes or shapes differ. It tells all. A
            buffer may be left out: it is the model's own then.
    """

    def __init__(self, source: Source, weights: Mapping[str, Any]) -> None:
        if source.module is None:
            raise UsageError("weights are given, and the model is a function, which has none")
        self.handles: dict[int, Weight] = {}
        self.bare: list[str] = []
        self._places: list[tuple[dict[str, Any], str, torch.Tensor]] = []
        spots: dict[Any, list[tuple[str, dict[str, Any], str]]] = {}
        for name, registry, key in _registered(source.module):
            spots.setdefault(_spot(registry[key]), []).append((name, registry, key))
        known = {name for group in spots.values() for name, _, _ in group}
        problems: dict[str, list[str]] = {"unexpected": [name for name in weights if name not in known]}
        for group in spots.values():
            self._match(group, weights, problems)
        told = [f"{what}: {', '.join(names)}" for what, names in problems.items() if names]
        if told:
            raise UsageError(
                "the weights do not fit the model", found="".join(f"\n    {line}" for line in told), remedy=_remedy(problems)
            )

    def _match(
        self, group: list[tuple[str, dict[str, Any], str]], weights: Mapping[str, Any], problems: dict[str, list[str]],
    ) -> None:  # fmt: skip
        """Finds the weight of a tensor that has one or several places in the model."""
        name, registry, key = group[0]
        own = registry[key]
        held = [_handle(weights[each], each) for each, _, _ in group if each in weights]
        if not held:
            if isinstance(own, torch.nn.Parameter):
                problems.setdefault("missing", []).append(" = ".join(each for each, _, _ in group))
            elif own.is_meta:
                self.bare.append(name)
            return
        first = held[0]
        wanted, found = _type(dtype_of(own.dtype), own.shape), _type(first.dtype, first.shape)
        if wanted != found:
            what = "of another shape" if tuple(own.shape) != first.shape else "of another element type"
            problems.setdefault(what, []).append(f"{first.name} is {found}, not {wanted}")
            return
        if others := [one.name for one in held[1:] if one.key != first.key and one.digest() != first.digest()]:
            problems.setdefault("one tensor in the model, and several here", []).append(", ".join([first.name, *others]))
            return
        tensor = self._tensor(first)
        if isinstance(own, torch.nn.Parameter):
            tensor = torch.nn.Parameter(tensor, requires_grad=False)
        handle = copy(first)
        handle.name = name
        self.handles[id(tensor)] = handle
        self._places += [(registry, key, tensor) for _, registry, key in group]

    def _tensor(self, handle: Weight) -> torch.Tensor:
        if isinstance(handle, TorchWeight):
            return handle.tensor.detach()
        if not isinstance(handle, MappedWeight) or not handle.size:
            return real(handle.array(), handle.dtype)
        # Each by itself: a system may refuse to map a whole file for writing that is larger than its memory.
        mapped = np.memmap(handle.path, np.uint8, "c", handle.offset, (handle.nbytes,))
        return torch.frombuffer(mapped, dtype=torch_dtype(handle.dtype)).reshape(handle.shape)

    def place(self) -> None:
        """Puts the tensors into the model; `Untouched` takes them out again."""
        for registry, key, tensor in self._places:
            registry[key] = tensor


def _registered(module: torch.nn.Module) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every parameter and buffer: its name, the dict that holds it and its key there; shared ones at all their places."""
    for path, part in module.named_modules(remove_duplicate=False):
        for registry in (part._parameters, part._buffers):
            for key, tensor in registry.items():
                if tensor is not None:
                    yield f"{path}.{key}" if path else key, registry, key


def _spot(tensor: torch.Tensor) -> Any:
    """Equal for tensors that are one, also where they have no content."""
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise UsageError("the model has parameters without a shape", remedy="run it once, so that it makes them")
    if tensor.layout is not torch.strided or not tensor.numel():
        return id(tensor)
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.dtype, tensor.shape, tensor.stride()


def _handle(value: Any, name: str) -> Weight:
    """A weight that a user has given, with the user's name for it."""
    if isinstance(value, torch.Tensor):
        if value.is_meta or value.layout is not torch.strided or value.is_quantized:
            raise UsageError(f"the weight {name} must be a dense tensor with content", found=outline(value))
        return TorchWeight(value, name)
    if not isinstance(value, (Weight, np.ndarray)):
        raise UsageError(f"the weight {name} must be a tensor, an array or a handle", found=outline(value))
    handle = copy(weight(value))
    handle.name = name
    return handle


def _type(dtype: Any, shape: Any) -> str:
    return f"{dtype}{list(shape)}"


def _remedy(problems: Mapping[str, list[str]]) -> str:
    if list(filter(problems.get, problems)) == ["of another element type"]:
        return "build the model in the weights' element type: model.to(torch.bfloat16), for instance"
    return (
        "weights may be a dict: open files with isthmus.open_weights(...), then rename, leave out or add what differs"
    )
