"""Nodes that stay as they are: what the IR's ops cannot say becomes the op `custom`, which is written back untouched.

An attribute that Python has a plain value for is that value, a tensor is a weight; any other (graphs, types, lists of tensors,
empty lists) is kept as its own bytes. The names that its graphs use from around them are operands, behind the node's inputs.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, MutableMapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

import onnx

from isthmus.frontends.onnx.names import domain_of, op_of
from isthmus.frontends.onnx.tensors import weight_of
from isthmus.frontends.onnx.types import type_proto
from isthmus.ir.builder import Builder
from isthmus.ir.errors import FileError
from isthmus.ir.graph import Value
from isthmus.ir.types import Type, Unknown

if TYPE_CHECKING:
    from isthmus.frontends.onnx.conversion import Model

A: Final = onnx.AttributeProto


def opaque(
    model: Model, b: Builder, proto: Any, inputs: Sequence[Value | None], scope: MutableMapping[str, Value | None], reason: str,
    known: Sequence[Type] | None = None,
) -> list[Value | None]:  # fmt: skip
    """The results of a node that stays as it is; None for those that it does not name.

    Args:
        model: the model that it is of.
        b: builds the node.
        proto: the NodeProto.
        inputs: its inputs.
        scope: the values of the names that it sees.
        reason: why it stays so.
        known: the types of the results that it may have, where they are known; otherwise they are looked for.

    Raises:
        FileError: a nested graph uses a name that nothing makes.
    """
    model.opaque.setdefault((domain_of(proto), proto.op_type), reason)
    if known is None:
        types = result_types(model, proto, inputs)
    else:
        types = [type for name, type in zip(proto.output, chain(known, repeat(Unknown())), strict=False) if name]
    operands, attrs = named(model, b, proto, inputs, scope)
    results = iter(b.emit("custom", operands, {**attrs, "types": types}).results)
    return [next(results) if name else None for name in proto.output]


def named(
    model: Model, b: Builder, proto: Any, inputs: Sequence[Value | None], scope: MutableMapping[str, Value | None],
) -> tuple[list[Value | None], dict[str, Any]]:  # fmt: skip
    """The operands and attributes of a node that names an op of the file: a `custom` without its types, or a `whole`.

    Raises:
        FileError: a nested graph uses a name that nothing makes.
    """
    graphs = [graph for each in proto.attribute for graph in _graphs(each)]
    captures = list(dict.fromkeys(name for graph in graphs for name in free_names(graph)))
    for name in captures:
        if scope.get(name) is None:
            raise FileError(f"a nested graph uses {name!r}, which nothing makes", op=op_of(proto), location=b.location)
    domains = {domain_of(proto), *(domain_of(node) for graph in graphs for node in _walk(graph))}
    return [*inputs, *(scope[name] for name in captures)], {
        "domain": domain_of(proto), "name": proto.op_type, "captures": captures,
        "absent": [index for index, name in enumerate(proto.output) if not name],
        "opsets": {domain: model.opsets.get(domain, 1) for domain in sorted(domains)},
        "attributes": {each.name: plain(model, each) for each in proto.attribute},
    }  # fmt: skip


def plain(model: Model, proto: Any) -> Any:
    """An attribute in a form that the IR keeps: as it is, or ``{"onnx": the bytes of its proto, in base 64}``."""
    if proto.type in (A.INT, A.FLOAT):
        return proto.i if proto.type == A.INT else proto.f
    if proto.type == A.TENSOR:
        return weight_of(proto.t, model.files)
    if proto.type in (A.INTS, A.FLOATS) and (proto.ints or proto.floats):
        return tuple(proto.ints if proto.type == A.INTS else proto.floats)
    if proto.type in (A.STRING, A.STRINGS) and (proto.type == A.STRING or proto.strings):
        try:
            texts = tuple(text.decode() for text in proto.strings or (proto.s,))
        except UnicodeDecodeError:
            texts = ()
        if texts:
            return texts if proto.type == A.STRINGS else texts[0]
    made = A()
    made.CopyFrom(proto)
    if model.functions:
        for graph in _graphs(made):
            _inline_functions(model, graph)
    for tensor in _tensors(made):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            content = weight_of(tensor, model.files)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = b"".join(map(bytes, content.chunks()))
    return {"onnx": base64.b64encode(made.SerializeToString()).decode()}


def free_names(graph: Any) -> Iterator[str]:
    """The names that a GraphProto uses and does not make, in order."""
    own = {each.name for each in graph.input} | {each.name for each in graph.initializer}
    own |= {each.values.name for each in graph.sparse_initializer}
    for node in graph.node:
        used = [*node.input, *(name for each in node.attribute for inner in _graphs(each) for name in free_names(inner))]
        yield from (name for name in used if name and name not in own)
        own.update(node.output)
    yield from (each.name for each in graph.output if each.name not in own)


def result_types(model: Model, proto: Any, inputs: Sequence[Value | None]) -> list[Type]:
    """The types of the results that a node names: as the file tells them, or as the op's own schema has it; else unknown."""
    types: list[Type] = []
    inferred: dict[str, Type | None] | None = None
    for name in filter(None, proto.output):
        type = model.types(name)
        if type is None:
            if inferred is None:
                inferred = _by_schema(model, proto, inputs)
            type = inferred.get(name)
        types.append(Unknown() if type is None else type)
    return types


def _by_schema(model: Model, proto: Any, inputs: Sequence[Value | None]) -> dict[str, Type | None]:
    """The types of the results that ONNX itself infers from those of the inputs."""
    domain = domain_of(proto)
    opset = model.opsets.get(domain, 1)
    try:
        schema = onnx.defs.get_schema(proto.op_type, opset, domain)
        given = {name: type_proto(value.type) for name, value in zip(proto.input, inputs, strict=True) if value is not None}
        known = {
            name: onnx.numpy_helper.from_array(value.weight.array())
            for name, value in zip(proto.input, inputs, strict=True)
            if value is not None and value.weight is not None and value.weight.nbytes < _SMALL
        }
        imports = [onnx.helper.make_opsetid(each, version) for each, version in model.opsets.items()]
        found = onnx.shape_inference.infer_node_outputs(schema, proto, given, known, opset_imports=imports)
    except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, TypeError,
            RuntimeError):  # fmt: skip
        return {}  # they are not known
    return {name: model.dims.type(type, f"the value {name!r}") for name, type in found.items()}


_SMALL: Final = 1 << 12


def _graphs(attribute: Any) -> list[Any]:
    return [attribute.g] if attribute.type == A.GRAPH else list(attribute.graphs)


def _walk(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for each in node.attribute:
            for inner in _graphs(each):
                yield from _walk(inner)


def _tensors(attribute: Any) -> Iterator[Any]:
    """The tensors in an attribute, those of nested graphs included."""
    yield from attribute.tensors
    if attribute.type == A.TENSOR:
        yield attribute.t
    sparse = [*attribute.sparse_tensors, *([attribute.sparse_tensor] if attribute.type == A.SPARSE_TENSOR else ())]
    for graph in _graphs(attribute):
        yield from graph.initializer
        sparse += graph.sparse_initializer
        for node in graph.node:
            for each in node.attribute:
                yield from _tensors(each)
    for one in sparse:
        yield from (one.values, one.indices)


def _inline_functions(model: Model, graph: Any) -> None:
    """Puts the nodes of the file's functions in place of their calls, since functions do not go along."""
    calls = {(domain_of(node), node.op_type, node.overload) for node in _walk(graph)}
    if calls.isdisjoint(model.functions):
        return
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in model.opsets.items()]
    from onnx import inliner

    whole = onnx.helper.make_model(graph, opset_imports=imports, functions=list(model.functions.values()))
    graph.CopyFrom(inliner.inline_local_functions(whole).graph)
