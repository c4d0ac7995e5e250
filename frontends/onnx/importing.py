"""From a ModelProto to a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from isthmus.frontends.onnx import ops as ops
from isthmus.frontends.onnx.conversion import Model, convert_nodes
from isthmus.frontends.onnx.names import domain_of
from isthmus.frontends.onnx.tensors import dense, weight_of
from isthmus.frontends.onnx.types import Dims
from isthmus.ir.builder import Builder
from isthmus.ir.errors import FileError
from isthmus.ir.graph import Graph, Value
from isthmus.ir.location import Location
from isthmus.ir.types import Type
from isthmus.ir.weights import Weight


@dataclass
class Imported:
    """What a file says.

    Attributes:
        graph: the model.
        output_names: the names of its outputs.
        declared: the types that the file says its outputs have; None where it says nothing.
        defaults: the contents that inputs have where a call leaves them out, by name.
        opaque: the reason why each op that stayed opaque did, by domain and name.
    """

    graph: Graph
    output_names: list[str]
    declared: list[Type | None]
    defaults: dict[str, Weight]
    opaque: dict[tuple[str, str], str]


def import_model(proto: Any, folder: Path | None = None, where: str = "") -> Imported:
    """Reads a model.

    Args:
        proto: a ModelProto, without its external data.
        folder: the folder that external data must lie in.
        where: the file's name, for locations.

    Raises:
        FileError: the model is malformed.
    """
    source = proto.graph
    graph = Graph(source.name or "main")
    dims = Dims(graph.symbols)
    opsets = {domain_of(each): int(each.version) for each in proto.opset_import}
    opsets.setdefault("", 1)
    functions = {(domain_of(each), each.name, each.overload): each for each in proto.functions}
    model = Model(opsets, folder, dims, _told_types(proto, dims), functions, where=where)
    b = Builder(graph, None, Location(where, 0, "initializers"))
    scope: dict[str, Value | None] = {}
    constants = [(tensor.name, weight_of(tensor, folder)) for tensor in source.initializer]
    constants += [(tensor.values.name, dense(tensor, folder)) for tensor in source.sparse_initializer]
    weights = dict(constants)
    if len(weights) < len(constants):
        names = [name for name, _ in constants]
        raise FileError(f"the initializer {next(name for name in names if names.count(name) > 1)!r} is there twice")
    # Before IR version 4 every initializer had to be an input as well; nobody meant it to be set by a caller.
    overridable = proto.ir_version >= 4
    for each in source.input:
        if each.name in scope:
            raise FileError(f"the input {each.name!r} is there twice")
        if each.name in weights and not overridable:
            continue
        what = f"the input {each.name!r}"
        type = dims.type(each.type, what)
        if type is None:
            raise FileError(f"{what} has no type")
        scope[each.name] = graph.add_input(type, each.name)
    for name, weight in weights.items():
        if name not in scope:
            scope[name] = b.constant(weight, name=name)
    convert_nodes(model, b, source.node, scope)
    outputs = []
    for each in source.output:
        value = scope.get(each.name)
        if value is None:
            raise FileError(f"nothing makes the output {each.name!r}")
        outputs.append(value)
    graph.set_outputs(outputs)
    graph.metadata.update((each.key, each.value) for each in proto.metadata_props)
    declared = [_declared(dims, each) for each in source.output]
    defaults = {value.name: weights[value.name] for value in graph.inputs if value.name in weights}
    return Imported(graph, [each.name for each in source.output], declared, defaults, model.opaque)


def _declared(dims: Dims, proto: Any) -> Type | None:
    return dims.type(proto.type, f"the output {proto.name!r}")


def _told_types(proto: Any, dims: Dims) -> Callable[[str], Type | None]:
    """What the file says of the types of values; where it says nothing, what ONNX's own inference does."""
    told: dict[str, Any] = {}

    def add(graph: Any) -> None:
        for each in (*graph.value_info, *graph.output):
            told.setdefault(each.name, each.type)
        for node in graph.node:
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs):
                    if inner.node:
                        add(inner)

    inferred = False

    def type_of(name: str) -> Type | None:
        nonlocal inferred
        if not told:
            add(proto.graph)
        if name not in told and not inferred:
            inferred = True
            try:
                add(onnx.shape_inference.infer_shapes(proto).graph)
            except (onnx.shape_inference.InferenceError, ValueError):
                return None  # the caller says that the type is not known
        found = told.get(name)
        return None if found is None else dims.type(found, f"the value {name!r}")

    return type_of
