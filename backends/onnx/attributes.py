"""Attributes as ONNX writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx

_A: Final = onnx.AttributeProto


def plain(text: str) -> str:
    """A text as protobuf can hold it: a surrogate that has no partner becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _same(value: Any) -> Any:
    return value


def _encoded(text: str) -> bytes:
    """What a file says in bytes that are no text comes back as it was."""
    return text.encode("utf-8", "surrogateescape")


_KINDS: Final[tuple[tuple[Any, int, str, int, str, Callable[[Any], Any]], ...]] = (
    ((int, np.integer), _A.INT, "i", _A.INTS, "ints", int),
    ((float, np.floating), _A.FLOAT, "f", _A.FLOATS, "floats", float),
    (str, _A.STRING, "s", _A.STRINGS, "strings", _encoded),
    (bytes, _A.STRING, "s", _A.STRINGS, "strings", _same),
    (onnx.GraphProto, _A.GRAPH, "g", _A.GRAPHS, "graphs", _same),
    (onnx.TensorProto, _A.TENSOR, "t", _A.TENSORS, "tensors", _same),
    (onnx.TypeProto, _A.TYPE_PROTO, "tp", _A.TYPE_PROTOS, "type_protos", _same),
)
"""Python's kind; the type and field of one; the type and field of a list; what brings an element into that form."""


def add_attribute(node: Any, name: str, value: Any) -> None:
    """Adds an attribute to a NodeProto, its kind read off the Python value; an empty list is one of integers.

    Raises:
        TypeError: ONNX has no attribute of this kind.
    """
    if isinstance(value, _A):
        node.attribute.append(value)
        return
    several = isinstance(value, (tuple, list))
    items = value if several else (value,)
    sample = items[0] if items else 0
    for kind, one, field, many, fields, convert in _KINDS:
        if isinstance(sample, kind) and all(isinstance(item, kind) for item in items):
            if several:
                node.attribute.add(name=name, type=many, **{fields: [convert(item) for item in items]})
            else:
                node.attribute.add(name=name, type=one, **{field: convert(value)})
            return
    raise TypeError(f"attribute {name} has no ONNX form: {value!r}")
