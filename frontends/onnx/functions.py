"""Ops that are functions of others: those that a file brings along, and those that the standard itself defines so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import onnx

from isthmus.frontends.onnx.names import domain_of
from isthmus.frontends.onnx.types import type_proto
from isthmus.ir.errors import FileError
from isthmus.ir.graph import Value

if TYPE_CHECKING:
    from isthmus.frontends.onnx.conversion import Model

_GRAPHS: Final = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def function_of(model: Model, proto: Any, inputs: Sequence[Value | None]) -> tuple[Any, Mapping[str, int]] | None:
    """The FunctionProto that says what a node does, and the opsets that it imports; None when its op is no function."""
    domain = domain_of(proto)
    found = model.functions.get((domain, proto.op_type, proto.overload))
    if found is None:
        found = _standard(model, proto, domain, inputs)
    if found is None:
        return None
    return found, {**model.opsets, **{domain_of(each): each.version for each in found.opset_import}}


def _standard(model: Model, proto: Any, domain: str, inputs: Sequence[Value | None]) -> Any:
    """The function that the standard has for an op at the file's opset."""
    opset = model.opsets.get(domain, 1)
    try:
        schema = onnx.defs.get_schema(proto.op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    body = None
    if schema.has_function:
        body = schema.get_function_with_opset_version(opset) if opset in schema.function_opset_versions else None
        body = body or schema.get_function_with_opset_version(max(schema.function_opset_versions))
    elif schema.has_context_dependent_function:
        types = [type_proto(value.type).SerializeToString() if value is not None else b"" for value in inputs]
        versions = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
        body = schema.get_context_dependent_function_with_opset_version(
            max(versions, default=opset), proto.SerializeToString(), types
        )
    if not body:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(body)
    told = {each.name for each in function.attribute_proto}
    usual = {name: each.default_value for name, each in schema.attributes.items() if name not in told}
    function.attribute_proto.extend(each for each in usual.values() if each.type)
    return function


def with_attributes(node: Any, given: Mapping[str, Any]) -> Any:
    """A node of a function's body with the attributes that the call gives it, in nested graphs, too.

    Raises:
        FileError: it takes an attribute of another kind than the call gives.
    """
    if not any(each.ref_attr_name or each.type in _GRAPHS for each in node.attribute):
        return node
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for each in node.attribute:
        if not each.ref_attr_name:
            mine = made.attribute.add()
            mine.CopyFrom(each)
            for graph in (mine.g, *mine.graphs) if mine.type in _GRAPHS else ():
                inner = [with_attributes(one, given) for one in graph.node]
                del graph.node[:]
                graph.node.extend(inner)
        elif each.ref_attr_name in given:
            source = given[each.ref_attr_name]
            if source.type != each.type:
                raise FileError(f"the attribute {each.name} is of another kind than {each.ref_attr_name}, which it stands for")
            mine = made.attribute.add()
            mine.CopyFrom(source)
            mine.name = each.name
    return made
