"""Tensors that a model leaves behind where a capture does not see them: in globals, closures and caches."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from isthmus.frontends.torch.tensors import Watched
    from isthmus.frontends.torch.watcher import Watcher

_LARGEST: Final = 1 << 16
"""The number of elements that are computed for one of them, at most."""


def look(watcher: Watcher, leaves: Sequence[Any], modules: Iterable[tuple[str, torch.nn.Module]]) -> None:
    """Looks at the tensors that are still there after a run, before the graph changes.

    Small ones that depend on no input are computed, for whoever finds them; others are noted.

    Args:
        watcher: has made them.
        leaves: the model's results, which are not meant.
        modules: what is kept on these is not meant either.
    """
    left = _unknown(watcher, leaves, modules)
    if left:
        del left
        gc.collect()  # cycles of functions and exceptions that nobody holds any more
        left = _unknown(watcher, leaves, modules)
    for place in dict.fromkeys(str(tensor.entry.value.location) for tensor in left):
        watcher.notes.append(
            "a tensor that depends on an input is kept in a global, a closure or a cache: the graph does not keep it, "
            f"and plain runs meet what this one left ({place})"
        )


def on_modules(modules: Iterable[tuple[str, torch.nn.Module]]) -> Iterator[tuple[str, Any]]:
    """What modules hold as attributes and in plain containers there, by path; buffers and parameters are not meant."""
    for path, part in modules:
        for key, held in part.__dict__.items():
            name = f"{path}.{key}" if path else key
            yield name, held
            if isinstance(held, (dict, list, tuple)) and key not in _REGISTRIES:
                items = held.items() if isinstance(held, dict) else enumerate(held)
                yield from ((f"{name}[{place!r}]", item) for place, item in items)


_REGISTRIES: Final = torch.nn.Module().__dict__.keys()


def _unknown(watcher: Watcher, leaves: Sequence[Any], modules: Iterable[tuple[str, torch.nn.Module]]) -> list[Watched]:
    """The tensors that are still there and depend on an input; the content of the others is computed."""
    known = watcher.w.knowledge
    ids = set(map(id, leaves))
    left = [tensor for made in watcher.made if (tensor := made()) is not None and id(tensor) not in ids]
    left = [tensor for tensor in left if tensor.entry.home is known and tensor.entry.value.producer is not None]
    if not left or any(isinstance(part, torch.jit.ScriptModule) for _, part in modules):  # which tell what they keep
        kept = None
    else:
        kept = {id(held) for _, held in on_modules(modules)}
        kept.update(id(held) for _, part in modules for held in part._buffers.values())
    return [
        tensor for tensor in left
        if known.content(tensor.entry.value, _LARGEST) is None
        and kept is not None and id(tensor) not in kept and known.dependence(tensor.entry.value)
    ]  # fmt: skip
