"""What an ONNX file said around its graph, written again: names of dims, sizes left open, doc strings, who made it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

import onnx

from isthmus.ir.interface import End, Interface

IR_WITH_PROPERTIES: Final = 10
"""The first file version in which values and nodes have metadata of their own."""


def restore(told: Interface, model: Any, graph: Any) -> None:
    """Puts back what the file said.

    Args:
        told: what it said.
        model: the ModelProto.
        graph: its graph, with inputs, outputs and nodes.
    """
    for key, content in told.model.items():
        setattr(model, key, content)
    for key, text in told.graph.items():
        setattr(graph, key, text)
    for ends, protos in ((told.inputs, graph.input), (told.outputs, graph.output)):
        if len(ends) == len(protos):
            for end, proto in zip(ends, protos, strict=True):
                _restore_end(end, proto, model.ir_version >= IR_WITH_PROPERTIES)
    for node in _nodes(graph) if told.docs else ():
        if node.name in told.docs:
            node.doc_string = told.docs[node.name]


def _restore_end(end: End, proto: Any, properties: bool) -> None:
    type = onnx.TypeProto.FromString(base64.b64decode(end.type))
    if _holds(type, proto.type):
        proto.type.CopyFrom(type)
    if end.doc:
        proto.doc_string = end.doc
    for key, text in end.metadata.items() if properties else ():
        proto.metadata_props.add(key=key, value=text)


def _holds(told: Any, found: Any) -> bool:
    """Whether values of one type have the other: a size or rank may be left open, or have another name."""
    kind = told.WhichOneof("value")
    if found.WhichOneof("value") is None:
        return True  # nothing is known that would say otherwise
    if kind != found.WhichOneof("value"):
        return False
    if kind == "map_type":
        told, found = told.map_type, found.map_type
        return told.key_type == found.key_type and _holds(told.value_type, found.value_type)
    if kind != "tensor_type":
        return _holds(getattr(told, kind).elem_type, getattr(found, kind).elem_type)
    told, found = told.tensor_type, found.tensor_type
    if told.elem_type != found.elem_type:
        return False
    if not told.HasField("shape"):
        return True
    if not found.HasField("shape"):
        return True  # nothing is known that would say otherwise
    sizes = [(one, other) for one, other in zip(told.shape.dim, found.shape.dim, strict=False) if one.HasField("dim_value")]
    return len(told.shape.dim) == len(found.shape.dim) and all(
        not other.HasField("dim_value") or one.dim_value == other.dim_value for one, other in sizes
    )


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
