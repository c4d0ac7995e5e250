"""The parameters of a watched model: what they are in the graph, and whether the program read them."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.frontends.base import Parameter
from isthmus.frontends.torch.sources import Source
from isthmus.frontends.torch.watcher import Watcher


def parameters(source: Source, watcher: Watcher, wanted: Sequence[str]) -> list[Parameter]:
    """Each parameter of a model once; none of a function or of another method than a model's call, which is not all of it.

    Args:
        source: the model.
        watcher: has watched it.
        wanted: names for the first ones.
    """
    if source.module is None or source.call is not source.module:
        return []
    read = watcher.w.knowledge.taken()
    names = source.names(wanted) if watcher.reals.given else watcher.reals.names
    found: dict[str, Parameter] = {}
    for _, module in source.modules:
        for tensor in module._parameters.values():
            if tensor is None or (name := names[id(tensor)]) in found:
                continue
            entry = watcher.reals.met.get(name)
            value = None if entry is None else entry.value
            found[name] = Parameter(name, tensor.nbytes, value, name in watcher.read or value in read)
    return list(found.values())
