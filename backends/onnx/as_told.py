"""What an ONNX file said around its graph, written again: names of dims, sizes left open, doc strings, who made it."""

from __future__ import annotations

import base64
from collections.abc import Container, Iterator
from typing import Any, Final

import onnx

from isthmus.ir.interface import Interface, Note, Notes

IR_WITH_PROPERTIES: Final = 10
"""The first file version in which values and nodes have metadata of their own."""


def restore(
    told: Interface, notes: Notes, opset: int, model: Any, graph: Any, weights: Container[str],
) -> tuple[dict[str, Any], list[str]]:  # fmt: skip
    """Puts back what the file said, where what it said it of is still there.

    Args:
        told: what it said around its graph.
        notes: what it noted at what is in it.
        opset: in which it is written.
        model: the ModelProto. At the file's own opset it becomes of a version that has room for what was noted.
        graph: its graph, with inputs, outputs and nodes.
        weights: the names of its constants.

    Returns:
        What is noted at weights, by name, as TensorProtos; and the names of values of whose quantization the file tells, where
        they or its parameters are not there any more.
    """
    metadata = notes.has_metadata() or any(end.metadata for end in (*told.inputs, *told.outputs))
    if metadata and told.version == opset and notes.version >= IR_WITH_PROPERTIES:
        model.ir_version = max(model.ir_version, IR_WITH_PROPERTIES)
    properties = model.ir_version >= IR_WITH_PROPERTIES
    for key, content in told.model.items():
        setattr(model, key, content)
    for key, text in told.graph.items():
        setattr(graph, key, text)
    for ends, protos in ((told.inputs, graph.input), (told.outputs, graph.output)):
        if len(ends) == len(protos):
            for end, proto in zip(ends, protos, strict=True):
                type = onnx.TypeProto.FromString(base64.b64decode(end.type))
                if _holds(type, proto.type):
                    proto.type.CopyFrom(type)
                note(end, proto, properties)
    note(Note(graph.doc_string, notes.graph), graph, properties)
    for named, protos in ((notes.nodes, _nodes(graph) if notes.nodes else ()), (notes.values, graph.value_info)):
        for proto in protos:
            if proto.name in named:
                note(named[proto.name], proto, properties)
    lost = []
    made = {name for node in graph.node for name in node.output} | {each.name for each in graph.input}
    for name, roles in notes.quantized.items():
        if all(each in made or each in weights for each in (name, *roles.values())):
            entry = graph.quantization_annotation.add(tensor_name=name)
            for role, each in roles.items():
                entry.quant_parameter_tensor_names.add(key=role, value=each)
        else:
            lost.append(name)
    noted = {name: onnx.TensorProto() for name in notes.weights if name in weights}
    for name, proto in noted.items():
        note(notes.weights[name], proto, properties)
    return noted, lost


def note(told: Note, proto: Any, properties: bool) -> None:
    """Puts a note at what it was noted at.

    Args:
        told: the note.
        proto: a node, a value, a tensor or a graph.
        properties: whether files have room for text by key.
    """
    if told.doc:
        proto.doc_string = told.doc
    for key, text in told.metadata.items() if properties else ():
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
