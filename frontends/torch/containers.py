"""What torch's pytrees look into: dataclasses, mappings, classes made from tuples, lists and dicts, namespaces, and the
caches of transformers besides tuples, lists and dicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from isthmus.frontends.base import TensorSpec


def register(tree: Any) -> None:
    """Makes torch's pytrees look into all that a tree is made of."""
    stack = [tree]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind not in pytree.SUPPORTED_NODES:
            if _is_dataclass(item):
                pytree.register_dataclass(kind)
            elif kind.__module__ == _CACHES and kind.__name__ in _REGISTER:
                _REGISTER[kind.__name__](kind)
            else:
                _derived(kind)
        stack += (parts(item) or {}).values()


def unflatten(leaves: Sequence[Any], spec: pytree.TreeSpec) -> Any:
    """As torch's `tree_unflatten`, which makes a plain tuple of a `torch.Size`."""
    if spec.is_leaf():
        return leaves[0]
    children, at = [], 0
    for child in spec.children():
        children.append(unflatten(leaves[at : at + child.num_leaves], child))
        at += child.num_leaves
    if spec.type is torch.Size and all(isinstance(size, int) for size in children):
        return torch.Size(children)
    return pytree.SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)


def parts(item: Any) -> dict[Any, Any] | None:
    """What a container holds, by key, field or place; None for what is no container."""
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, (tuple, list)):
        return dict(enumerate(item))
    if _is_dataclass(item):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    if isinstance(item, SimpleNamespace):
        return dict(vars(item))
    node = pytree.SUPPORTED_NODES.get(type(item))
    if node is None:
        return None
    if node.flatten_with_keys_fn is None:
        return dict(enumerate(node.flatten_fn(item)[0]))
    return {word(key): part for key, part in node.flatten_with_keys_fn(item)[0]}


def word(key: Any) -> Any:
    """What torch's key of a part says: a dict's key, an index or a field's name."""
    return next((getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)), "")


def _is_dataclass(item: Any) -> bool:
    return dataclasses.is_dataclass(item) and not isinstance(item, (type, TensorSpec))


def _derived(kind: type) -> None:
    """A class made from a plain container, which can be made of such a one again."""
    base = next((base for base in _BASES if issubclass(kind, base)), None)
    if base is None or pytree.is_namedtuple_class(kind) or pytree.is_structseq_class(kind):
        return
    key, make = _BASES[base]

    def flatten(item: Any) -> tuple[list[Any], list[Any]]:
        found = parts(item) or {}
        return list(found.values()), list(found)

    def flatten_with_keys(item: Any) -> tuple[list[Any], list[Any]]:
        values, names = flatten(item)
        return list(zip(map(key, names), values, strict=True)), names

    pytree.register_pytree_node(
        kind, flatten, lambda values, names: make(kind, dict(zip(names, values, strict=True))),
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}", flatten_with_keys_fn=flatten_with_keys,
    )  # fmt: skip


_BASES: Final[dict[type, tuple[Callable[[Any], Any], Callable[[Any, dict[Any, Any]], Any]]]] = {
    Mapping: (pytree.MappingKey, lambda kind, parts: kind(parts)),
    SimpleNamespace: (pytree.GetAttrKey, lambda kind, parts: kind(**parts)),
    list: (pytree.SequenceKey, lambda kind, parts: kind(parts.values())),
    tuple: (pytree.SequenceKey, lambda kind, parts: kind(parts.values())),
}
"""Plain containers: torch's key for a part of one, and how a class made from one is made of its parts."""
_CACHES: Final = "transformers.cache_utils"


def _dynamic_cache(kind: type) -> None:
    """As transformers does for torch.export: the keys of all layers and their values."""
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()


_PAIR: Final = ("self_attention_cache", "cross_attention_cache")


def _pair_of_caches(kind: type) -> None:
    """Two caches in one."""
    pytree.register_pytree_node(
        kind,
        lambda pair: ([getattr(pair, name) for name in _PAIR], None),
        lambda caches, _: kind(*caches),
        serialized_type_name=f"{kind.__module__}.{kind.__name__}",
        flatten_with_keys_fn=lambda pair: ([(pytree.GetAttrKey(name), getattr(pair, name)) for name in _PAIR], None),
    )


_REGISTER: Final[dict[str, Callable[[type], None]]] = {
    "DynamicCache": _dynamic_cache,
    "EncoderDecoderCache": _pair_of_caches,
}
"""How torch learns to look into the caches of transformers, by their class."""
