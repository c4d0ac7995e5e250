"""Tensors that a model leaves behind where a capture does not see them: in globals, closures and caches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
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
    known = watcher.w.knowledge
    ids = set(map(id, leaves))
    left = [tensor for made in watcher.made if (tensor := made()) is not None and id(tensor) not in ids]
    left = [tensor for tensor in left if tensor.entry.home is known and tensor.entry.value.producer is not None]
    kept = {id(held) for _, part in modules for held in (*part._buffers.values(), *part.__dict__.values())} if left else ()
    scripted = bool(left) and any(isinstance(part, torch.jit.ScriptModule) for _, part in modules)  # tells what it keeps
    for tensor in left:
        value = tensor.entry.value
        if known.content(value, _LARGEST) is None and id(tensor) not in kept and known.dependence(value) and not scripted:
            watcher.notes.append(
                "a tensor that depends on an input is kept in a global, a closure or a cache: the graph does not keep it, "
                f"and plain runs meet what this one left ({value.location})"
            )
