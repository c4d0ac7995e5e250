"""From a ModelProto to a graph."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import onnx

from isthmus.frontends.base import TensorSpec
from isthmus.frontends.onnx import ops as ops
from isthmus.frontends.onnx.conversion import Model, convert_nodes, most_nodes
from isthmus.frontends.onnx.external import Files
from isthmus.frontends.onnx.filled import fill
from isthmus.frontends.onnx.given import fix
from isthmus.frontends.onnx.names import check_texts, domain_of, note_of
from isthmus.frontends.onnx.tensors import dense, weight_of
from isthmus.frontends.onnx.told import told_types
from isthmus.frontends.onnx.types import Dims, dtype_of
from isthmus.ir.builder import Builder
from isthmus.ir.errors import FileError
from isthmus.ir.graph import Graph, Value
from isthmus.ir.interface import End, Interface, Note, Notes
from isthmus.ir.location import Location
from isthmus.ir.ops.complex import COMPLEX_OF
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Weight


@dataclass
class Imported:
    """What a file says.

    Attributes:
        graph: the model; its metadata hold an `Interface`.
        output_names: the names of its outputs.
        opaque: the reason why each op that stayed opaque did, by domain and name.
    """

    graph: Graph
    output_names: list[str]
    opaque: dict[tuple[str, str], str]

    def opaque_ops(self) -> dict[str, list[str]]:
        """The opaque ops, for people, by the reason why they stayed so."""
        found: dict[str, list[str]] = {}
        for op, why in self.opaque.items():
            found.setdefault(why, []).append(".".join(filter(None, op)))
        return found


def inputs_of(proto: Any) -> list[Any]:
    """The inputs that a caller gives, or may give.

    Before IR version 4 every initializer had to be an input as well; nobody meant it to be set by a caller.
    """
    graph = proto.graph
    held = (*graph.initializer, *(each.values for each in graph.sparse_initializer)) if proto.ir_version < 4 else ()
    constants = {each.name for each in held}
    return [each for each in graph.input if each.name not in constants]


def import_model(
    proto: Any, files: Files | None = None, where: str = "", given: Mapping[str, TensorSpec] | None = None,
) -> Imported:  # fmt: skip
    """Reads a model.

    Args:
        proto: a ModelProto, without its external data.
        files: the files that its tensors lie in; None for a model that is in none.
        where: the file's name, for locations.
        given: sizes for inputs, by name, in place of those that the file leaves open.

    Raises:
        UsageError: the sizes that are given contradict the file, or themselves.
        FileError: the model is malformed.
    """
    source = proto.graph
    _check_names(proto)
    graph = Graph(source.name or "main")
    graph.metadata.update((each.key, each.value) for each in proto.metadata_props)
    constants = _constants(source, files)
    inputs = inputs_of(proto)
    types, numbers = fix(inputs, given or {})
    graph.symbols.joins = False
    dims = Dims(graph.symbols, numbers)
    dims.declare([*(each.type for each in inputs), *types.values()])
    opsets = {domain_of(each): int(each.version) for each in proto.opset_import}
    if len({(domain_of(each), each.version) for each in proto.opset_import}) > len(opsets):
        raise FileError("a domain is there in two versions", found=", ".join(f"{domain or 'ai.onnx'}" for domain in opsets))
    if proto.ir_version < 3:  # which knew no opsets
        opsets.setdefault("", 1)
    functions = {(domain_of(each), each.name, each.overload): each for each in proto.functions}
    if len(functions) < len(proto.functions):
        raise FileError("a function is there twice", found=", ".join(each.name for each in proto.functions))
    for each in proto.functions:
        if len(set(each.input)) < len(each.input):
            raise FileError(f"the function {each.name} has an input twice", found=", ".join(each.input))
    model = Model(opsets, files, dims, told_types(proto, dims), functions, where=where, most=cache(lambda: most_nodes(proto)))
    b = Builder(graph, None, Location(where, 0, "initializers"))
    pairs = _pairs(graph)
    scope: dict[str, Value | None] = {}
    for each in inputs:
        if each.name in scope:
            raise FileError(f"the input {each.name!r} is there twice")
        what = f"the input {each.name!r}"
        type = dims.type(types[each.name], what)
        if type is None:
            raise FileError(f"{what} has no type")
        if each.name in pairs.get("inputs", ()) and (complex_type := _complex(type)) is not None:
            scope[each.name] = b.view_as_real(graph.add_input(complex_type, each.name))
        else:
            scope[each.name] = graph.add_input(type, each.name)
        if each.name in constants:
            graph.defaults[each.name] = _default(type, constants[each.name], what)
    for name, weight in constants.items():
        if name not in scope:
            scope[name] = b.constant(weight, name=name)
    convert_nodes(model, b, source.node, scope, [each.name for each in source.output])
    outputs = []
    for each in source.output:
        value = scope.get(each.name)
        if value is None:
            raise FileError(f"nothing makes the output {each.name!r}")
        number, what = each.type.tensor_type.elem_type, f"the output {each.name!r}"
        told = dtype_of(number, what) if number and isinstance(value.type, Tensor) else None
        if told is not None and told is not value.tensor.dtype:
            raise FileError(f"{what} is not of the type that the file tells", expected=str(told), found=str(value.type))
        together = each.name in pairs.get("outputs", ()) and _complex(value.type) is not None
        outputs.append(b.view_as_complex(value) if together else value)
    graph.set_outputs(outputs)
    fill(graph)
    of_model: dict[str, str | int] = {key: getattr(proto, key) for key in MODEL_FIELDS if getattr(proto, key)}
    of_graph = {"doc_string": source.doc_string} if source.doc_string else {}
    # Sizes that are given make others known, so that what the file says of the outputs' is no more what they are.
    ends = (
        [_end(each, dims.told(types[each.name])) for each in inputs],
        [_end(each, onnx.TypeProto() if given else each.type) for each in source.output],
    )
    outside = files is not None and files.outside
    Interface("onnx", of_model, of_graph, *ends, opsets.get("", 0), outside).keep(graph)
    graph.notes = _notes(proto, model.notes)
    return Imported(graph, [each.name for each in source.output], model.opaque)


def _default(type: Type, weight: Weight, what: str) -> Weight:
    """An initializer that is an input as well, which must be of the input's type."""
    fits = isinstance(type, Tensor) and type.dtype is weight.dtype
    if fits and isinstance(type, Tensor) and type.shape is not None:
        pairs = zip(type.shape, weight.shape, strict=False)
        fits = len(type.shape) == len(weight.shape) and all(dim == size for dim, size in pairs if isinstance(dim, int))
    if not fits:
        found = str(Tensor(weight.dtype, weight.shape))
        raise FileError(f"the content of {what} is of another type", expected=str(type), found=found)
    return weight


MOST: Final = 1 << 16
"""No domain has a greater version."""


def _check_names(proto: Any) -> None:
    """Raises FileError where names are no texts, or the version of a domain is none."""
    graph = proto.graph
    ends = [*graph.input, *graph.output]
    check_texts(graph.name, graph.doc_string, proto.producer_name, proto.producer_version, proto.domain, proto.doc_string)
    check_texts(*(text for each in (proto, *ends) for prop in each.metadata_props for text in (prop.key, prop.value)))
    check_texts(*(text for each in (*ends, *graph.initializer) for text in (each.name, each.doc_string)))
    check_texts(*(text for each in proto.functions for text in (each.domain, each.name, *each.input, *each.output)))
    for each in proto.opset_import:
        check_texts(each.domain)
        if not 0 <= each.version <= MOST:
            raise FileError(f"the domain {each.domain or 'ai.onnx'} has the version {each.version}")


COMPLEX: Final = "isthmus.complex"
"""The key of a file's metadata that says which of its inputs and outputs are complex: pairs of reals, along a last axis."""


def _pairs(graph: Graph) -> dict[str, list[str]]:
    """The inputs and outputs that are complex, as a file that isthmus wrote tells."""
    try:
        found = json.loads(graph.metadata.pop(COMPLEX, "{}"))
    except ValueError:
        return {}  # somebody else's
    return found if isinstance(found, dict) else {}


def _complex(type: Type) -> Type | None:
    """The type of complex numbers of which this is one of pairs; None where it is not."""
    if not isinstance(type, Tensor) or type.dtype not in COMPLEX_OF or not type.shape or type.shape[-1] != 2:
        return None
    return Tensor(COMPLEX_OF[type.dtype], type.shape[:-1])


MODEL_FIELDS: Final = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


def _end(proto: Any, type: Any) -> End:
    note = note_of(proto)
    return End(note.doc, note.metadata, base64.b64encode(type.SerializeToString()).decode())


def _notes(proto: Any, nodes: dict[str, Note]) -> Notes:
    graph = proto.graph
    values, constants = (
        {each.name: note_of(each) for each in protos if each.doc_string or each.metadata_props}
        for protos in (graph.value_info, graph.initializer)
    )
    quantized = {
        each.tensor_name: {role.key: role.value for role in each.quant_parameter_tensor_names}
        for each in graph.quantization_annotation
    }
    return Notes(proto.ir_version, note_of(graph).metadata, nodes, values, constants, quantized)


def _constants(source: Any, files: Files | None) -> dict[str, Weight]:
    """The contents of the initializers.

    Raises:
        FileError: a name is there twice.
    """
    found: dict[str, Weight] = {}
    both = [(each.name, weight_of, each) for each in source.initializer]
    for name, read, proto in [*both, *((each.values.name, dense, each) for each in source.sparse_initializer)]:
        if name in found:
            raise FileError(f"the initializer {name!r} is there twice")
        found[name] = read(proto, files)
    return found
