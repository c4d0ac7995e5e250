"""Hashable forms of attributes: equal exactly when the attributes mean the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from isthmus.ir.dims import Symbol
from isthmus.ir.weights import Weight

SMALL_BYTES: Final = 256
"""Weights up to this size are compared by content, larger ones by what they are handles onto. Files hold such a content once:
were it less, what is read again would be merged where what was written was not."""


def attrs_key(attrs: Mapping[str, Any]) -> Hashable:
    """A key for a node's attributes. A symbol that the node binds is not part of what it means."""
    return tuple([(name, _frozen(value)) for name, value in attrs.items() if value.__class__ is not Symbol])


def weight_key(weight: Weight) -> Hashable:
    """A key for a weight: its content where it is small."""
    if weight.dtype.kind == "string":
        return weight.key
    if weight.nbytes <= SMALL_BYTES:
        return (weight.dtype.name, weight.shape, weight.array().tobytes())
    return weight.key


def _frozen(value: Any) -> Hashable:
    kind = value.__class__
    if kind is int or kind is str or kind is bool or value is None:
        return value  # type: ignore[no-any-return]
    if kind is float:
        return repr(value)  # tells -0.0 from 0.0, and a nan is the same as itself
    if kind is tuple or kind is list:
        return tuple(map(_frozen, value))
    if kind is dict:
        return tuple(sorted((str(key), _frozen(item)) for key, item in value.items()))
    if isinstance(value, Weight):
        return weight_key(value)
    frozen: Hashable = value
    return frozen
