"""What torch's pytrees look into: dataclasses and the caches of transformers besides tuples, lists and dicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

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
        stack += (parts(item) or {}).values()


def parts(item: Any) -> dict[Any, Any] | None:
    """What a container holds, by key, field or place; None for what is no container."""
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, (tuple, list)):
        return dict(enumerate(item))
    if _is_dataclass(item):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
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
