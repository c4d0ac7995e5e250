"""From nodes to nodes: a graph of ONNX walked once, each node converted by its row in the table.

What no row can carry over stays as it is: an opaque node of the op `custom`, with its attributes and nested graphs, typed as
the file (or ONNX's own shape inference) says.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from typing import Any, Final, NoReturn

import numpy as np
import onnx

from isthmus.frontends.onnx.branches import MOST_FORKS, forks, going_on
from isthmus.frontends.onnx.external import Files
from isthmus.frontends.onnx.functions import function_of, with_attributes
from isthmus.frontends.onnx.names import check_texts, domain_of, note_of, op_of
from isthmus.frontends.onnx.opaque import opaque
from isthmus.frontends.onnx.table import Converter, converter
from isthmus.frontends.onnx.tensors import dense, weight_of
from isthmus.frontends.onnx.told import told_in
from isthmus.frontends.onnx.types import Dims
from isthmus.frontends.onnx.whole import kept_whole
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.errors import FileError, InferError, SizeLimitError, UnknownSizeError
from isthmus.ir.graph import Graph, Value
from isthmus.ir.interface import Note
from isthmus.ir.location import Location
from isthmus.ir.shape_values import elements
from isthmus.ir.types import Tensor, Type, Unknown, innermost
from isthmus.ir.weights import Array

Scope = MutableMapping[str, "Value | None"]
"""The values of names; None for an input that is absent."""

Enter = Callable[[Builder, list[Value]], Sequence[Value]]
"""Given a nested graph's builder and values, gives others to have in their place."""


FILE_IS_WRONG: Final = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What converters run into at nodes that break the standard in ways that none of them looks for."""
FEW: Final = 1 << 15
MOST: Final = 1 << 18
"""Functions that call functions may come to any number of nodes. So many are always fine, and no more than so many where the
file itself has far fewer."""
COPIES: Final = 256
"""How often each node of a file may be in the model."""
LARGEST: Final = (1 << 63) - 1
"""No size is larger."""
ANYTHING: Final = frozenset(("Identity", "If", "Loop", "Scan"))
"""Ops of the standard that are converted whatever their inputs are."""
DEEPEST: Final = 48
"""No graph is in more others, functions counted: readers of protobuf give up before."""


class Opaque(Exception):
    """A node that the IR's ops cannot say, with the reason; it stays an opaque node.

    Args:
        reason: why.
        types: those of the results that it may have, where they are known.
    """

    def __init__(self, reason: str, types: Sequence[Type] | None = None) -> None:
        super().__init__(reason)
        self.types = types


@dataclass
class Model:
    """One model while it is imported.

    Attributes:
        opsets: the opset of each domain that the file imports.
        files: the files that tensors lie in; None for a model that is not in a file.
        dims: the symbols of the file's dims.
        types: what the file says of types, by value name, for nodes that are opaque.
        functions: the file's own functions, by domain, name and overload.
        opaque: the reason why each opaque op stayed so, by domain and name.
        where: the name of the file, for locations.
        calling: the functions whose bodies are being converted.
        depth: how many nested graphs those are in that are being converted.
        notes: what is noted at nodes, by name.
        most: how many nodes functions and nested graphs may come to.
        forks: how many branches those are in that go on by themselves.
        counted: how many nodes of functions and nested graphs were converted, each of them each time.
        followed: the elements of small integer tensors, by how much was assumed of sizes when they were found.
    """

    opsets: Mapping[str, int]
    files: Files | None
    dims: Dims
    types: Callable[[str], Type | None]
    functions: Mapping[tuple[str, str, str], Any] = field(default_factory=dict)
    opaque: dict[tuple[str, str], str] = field(default_factory=dict)
    where: str = ""
    calling: tuple[tuple[str, str, str], ...] = ()
    depth: int = 0
    notes: dict[str, Note] = field(default_factory=dict)
    most: Callable[[], int] = lambda: MOST
    forks: int = 0
    counted: list[int] = field(default_factory=lambda: [0])
    followed: dict[int, dict[Value, tuple[Dim, ...] | None]] = field(default_factory=dict)


class Conversion:
    """What a converter works with: one node.

    Attributes:
        model: the model that it is of.
        b: builds the IR's nodes.
        proto: the NodeProto.
        domain: its domain; the standard one is empty.
        scope: the values of the names that the node sees, for nested graphs.
        follows: whether sizes that the model computes are followed as expressions.
    """

    def __init__(self, model: Model, b: Builder, proto: Any, scope: Scope, follows: bool = True) -> None:
        self.model = model
        self.b = b
        self.proto = proto
        self.domain = domain_of(proto)
        self.scope = scope
        self.follows = follows
        self.regions: list[Graph] = []

    @property
    def opset(self) -> int:
        """The opset of the node's domain."""
        return self.model.opsets.get(self.domain, 1)

    @property
    def wanted(self) -> list[bool]:
        """Which results the file names, in order."""
        return [bool(name) for name in self.proto.output]

    # ---- about values

    def shape(self, value: Value) -> tuple[Dim, ...]:
        """The shape of a tensor.

        Raises:
            Opaque: the rank is not known, or it is no tensor.
        """
        type = value.type
        if not isinstance(type, Tensor) or type.shape is None:
            raise Opaque(f"the rank of {value.name or 'an input'} is not known")
        return type.shape

    def rank(self, value: Value) -> int:
        """The number of dims of a tensor; raises as `shape`."""
        return len(self.shape(value))

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front.

        Raises:
            FileError: there is none.
        """
        if not -rank <= axis < max(rank, 1):
            raise self.malformed(f"axis {axis} is not within the rank {rank}")
        return axis % max(rank, 1)

    def known(self, value: Value | None) -> Array | None:
        """The content of a constant; None for another value."""
        weight = None if value is None else value.weight
        return None if weight is None else weight.array()

    def numbers(self, value: Value | None) -> tuple[Dim, ...] | None:
        """The elements of a small integer tensor as dims, where they can be followed: constants, sizes and what is computed of
        them; None for another."""
        content = self.known(value)
        if content is not None and content.dtype.kind in "iu":
            return tuple(content.reshape(-1).tolist())
        if not self.follows:
            return None
        assumed = len(self.b.graph.symbols.assumptions)
        if assumed not in self.model.followed:
            self.model.followed.clear()  # more is known of sizes by now
        return elements(value, self.model.followed.setdefault(assumed, {}))

    def need(self, value: Value | None, what: str) -> tuple[Dim, ...]:
        """`numbers`, where the IR has no form for others.

        Raises:
            Opaque: they cannot be followed.
        """
        found = self.numbers(value)
        if found is None:
            raise Opaque(f"{what} depend on data")
        return found

    # ---- making values

    def scalar(self, value: Value) -> Value:
        """A tensor of one element as a 0-d one."""
        return value if self.shape(value) == () else self.b.reshape(value, shape=[])

    def same_type(self, number: Any, like: Value) -> Value:
        """A number as a 0-d constant of another value's element type."""
        return self.b.constant(np.asarray(number).astype(like.tensor.dtype.numpy), like.tensor.dtype)

    def region(
        self, proto: Any, types: Sequence[Type], name: str, enter: Enter | None = None, leave: Enter | None = None,
    ) -> Graph:  # fmt: skip
        """A nested graph.

        Args:
            proto: its GraphProto.
            types: the types of the region's arguments.
            name: of the region.
            enter: from the region's arguments to the inputs of the GraphProto; the same by default.
            leave: from the outputs of the GraphProto to the region's; the same by default.
        """
        graph = nested(self.model, self.b, proto, types, self.scope, name, enter, leave)
        self.regions.append(graph)
        return graph

    def inlined(self, proto: Any) -> list[Value]:
        """The outputs of a nested graph without inputs, its nodes in place of this one."""
        return contents(self.model, self.b, proto, (), self.scope)

    # ---- saying no

    def malformed(self, reason: str) -> FileError:
        """An error for a node that breaks the standard."""
        return FileError(reason, op=op_of(self.proto), location=self.b.location)

    def opaque(self, reason: str) -> NoReturn:
        """Leaves the node as it is.

        Raises:
            Opaque: always.
        """
        raise Opaque(reason)


A: Final = onnx.AttributeProto
_NUMBERS: Final = {A.INT: "i", A.FLOAT: "f", A.INTS: "ints", A.FLOATS: "floats"}


def attribute(model: Model, proto: Any) -> Any:
    """An attribute's content: a number, a text, a tuple, a weight, or a GraphProto.

    Raises:
        FileError: it is of another kind than it says.
    """
    kind = proto.type
    if (field := _NUMBERS.get(kind)) is not None and not proto.ref_attr_name:
        found = getattr(proto, field)
        return tuple(found) if kind in (A.INTS, A.FLOATS) else found
    if kind == A.STRING:
        return proto.s.decode("utf-8", "surrogateescape")
    if kind == A.STRINGS:
        return tuple(text.decode("utf-8", "surrogateescape") for text in proto.strings)
    if kind == A.TENSOR:
        return weight_of(proto.t, model.files)
    if kind == A.SPARSE_TENSOR:
        return dense(proto.sparse_tensor, model.files)
    if kind in (A.GRAPH, A.TYPE_PROTO):
        return proto.g if kind == A.GRAPH else proto.tp
    try:
        found = onnx.helper.get_attribute_value(proto)
    except ValueError as error:
        raise FileError(f"the attribute {proto.name} is malformed: {error}") from error
    return tuple(found) if isinstance(found, list) else found


def most_nodes(proto: Any) -> int:
    """How many nodes the functions and nested graphs of a model may come to."""
    graphs, count = [proto.graph], sum(len(function.node) for function in proto.functions)
    while graphs:
        nodes = graphs.pop().node
        count += len(nodes)
        graphs += [graph for node in nodes for each in node.attribute for graph in (each.g, *each.graphs) if graph.node]
    return max(4 * count, min(MOST, FEW + COPIES * count))


def convert_nodes(model: Model, b: Builder, protos: Sequence[Any], scope: Scope, outputs: Iterable[str]) -> None:
    """Converts nodes in order, and adds the values of their results to the scope.

    Where they go on behind an `If` whose results have other ranks in each branch, only those that are outputs get there.

    Args:
        model: what they are of.
        b: builds the IR's nodes.
        protos: the NodeProtos.
        scope: the values of names.
        outputs: the names that are looked up there afterwards.

    Raises:
        FileError: a node uses a name that nothing before it makes, or makes one that there is already.
    """
    made = scope.maps[0] if isinstance(scope, ChainMap) else scope
    for index, proto in enumerate(protos):
        name, doc, named, outs = proto.name, proto.doc_string, list(proto.input), list(proto.output)
        check_texts(name, proto.op_type, proto.domain, proto.overload, doc, *named, *outs)
        b.location = Location(model.where, 0, name or proto.op_type)
        if model.calling or model.depth:
            model.counted[0] += 1
            if model.counted[0] > FEW and model.counted[0] > model.most():
                raise FileError(f"functions and nested graphs come to more than {model.most()} nodes", location=b.location)
        if name and (doc or proto.metadata_props):
            model.notes[name] = note_of(proto)
        inputs = []
        for name in named:
            if name and name not in scope:
                raise FileError(f"the input {name!r} is made by no node before it", op=op_of(proto), location=b.location,
                                remedy="sort the nodes, or add the missing one")  # fmt: skip
            inputs.append(scope[name] if name else None)
        before = b.graph.last
        results = _convert(model, b, proto, inputs, scope)
        if proto.op_type == "If" and model.forks < MOST_FORKS and forks(proto, results, rest := protos[index + 1 :]):
            b.graph.erase_between(before)
            whole = going_on(proto, rest, [name for name in outputs if name not in scope])
            convert_nodes(replace(model, forks=model.forks + 1), b, [whole], scope, ())
            return
        for name, value in zip(outs, results, strict=False):
            if name:
                if name in made:
                    raise FileError(f"the name {name!r} is made twice", op=op_of(proto), location=b.location)
                scope[name] = value
                if value is not None and not value.name and value.producer is not None:
                    value.name = name


def _convert(
    model: Model, b: Builder, proto: Any, inputs: list[Value | None], scope: Scope, follows: bool = True
) -> Sequence[Value | None]:
    c = Conversion(model, b, proto, scope, follows)
    if not c.domain and not c.model.opsets.get(""):
        raise FileError("the file names no opset of the standard domain, so that its ops have no meaning", op=op_of(proto),
                        location=b.location, remedy="add the opset_import that the model was written for")  # fmt: skip
    row = converter(c.domain, proto.op_type, model.opsets)
    before, assumed = b.graph.last, len(b.graph.symbols.assumptions)
    noted = len(model.opaque)
    try:
        if row is not None:
            if proto.op_type not in ANYTHING:
                _check_known(inputs)
            found = _call(row, c, inputs)
        else:
            found = call_function(model, b, proto, inputs)
    except FILE_IS_WRONG as error:
        raise FileError(f"the node is malformed: {error}", op=op_of(proto), location=b.location) from error
    except (Opaque, InferError) as error:
        ends = [value for region in c.regions for value in region.outputs]
        unknown = isinstance(error, UnknownSizeError)
        if isinstance(error, InferError) and not unknown and all(map(_ranked, [*inputs, *ends])):
            raise FileError(f"the model is malformed: {error.message}", op=op_of(proto), location=b.location,
                            expected=error.expected, found=error.found) from error  # fmt: skip
        for region in c.regions:
            if region.parent is None:
                region.release()
        b.graph.erase_between(before)
        for key in list(model.opaque)[noted:]:
            del model.opaque[key]  # they are within the node
        if isinstance(error, SizeLimitError) and follows:
            return _convert(model, b, proto, inputs, scope, follows=False)
        ranked = unknown or isinstance(error, Opaque) or all(map(_ranked, inputs))
        reason = error.args[0] if ranked else "the rank of an input is not known"
        return opaque(model, b, proto, inputs, scope, reason, getattr(error, "types", None))
    results = (found,) if isinstance(found, Value) else tuple(found)
    for value in results:
        for dim in (value.type.shape or ()) if value is not None and isinstance(value.type, Tensor) else ():
            if isinstance(dim, int) and not 0 <= dim <= LARGEST:
                raise FileError("a size is negative or too large", op=op_of(proto), location=b.location, found=str(value.type))
    if row is not None and row.seen_through:
        return results
    return kept_whole(model, b, proto, inputs, scope, results, before, assumed)


def _ranked(value: Value | None) -> bool:
    return not _unknown(value) and (value is None or not isinstance(value.type, Tensor) or value.type.shape is not None)


def _check_known(inputs: Sequence[Value | None]) -> None:
    if any(map(_unknown, inputs)):
        raise Opaque("the type of an input is not known")


def _unknown(value: Value | None) -> bool:
    return value is not None and value.type.__class__ is not Tensor and isinstance(innermost(value.type), Unknown)


@cache
def _kinds(domain: str, name: str, opset: int) -> tuple[dict[str, int] | None, frozenset[str]]:
    """The kinds of an op's attributes by name, None where the standard has no such op; and those that a node must have."""
    try:
        schema = onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None, frozenset()
    kinds = {key: int(each.type.value) for key, each in schema.attributes.items()}
    return kinds, frozenset(key for key, each in schema.attributes.items() if each.required)


def _call(row: Converter, c: Conversion, inputs: list[Value | None]) -> Any:
    """Calls a converter with the node's inputs and attributes."""
    kinds, needed = _kinds(c.domain, c.proto.op_type, c.opset)
    attributes: dict[str, Any] = {}
    for each in c.proto.attribute:
        name = each.name
        if kinds is not None and name not in kinds:
            raise c.malformed(f"has an attribute {name!r}, which the op has not")
        if kinds is not None and each.type != kinds[name]:
            raise c.malformed(f"the attribute {name} is of another kind than the op has")
        if name in attributes:
            raise c.malformed("has an attribute twice")
        attributes[name] = attribute(c.model, each)
    if not needed <= attributes.keys():
        raise c.malformed(f"lacks the attribute {', '.join(sorted(needed - attributes.keys()))}")
    if row.attributes is not None and not attributes.keys() <= row.attributes:
        raise Opaque(f"the attribute {', '.join(sorted(attributes.keys() - row.attributes))} is not carried over")
    if row.most is not None and len(inputs) > row.most:
        raise c.malformed(f"takes {row.most} inputs at most, and has {len(inputs)}")
    while inputs and inputs[-1] is None and len(inputs) > 1:
        inputs = inputs[:-1]  # an absent input at the end has the parameter's default
    try:
        return row.function(c, *inputs, **attributes)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # the call itself, nothing within
            raise c.malformed(f"lacks an input or an attribute: {error}") from error
        raise


def call_function(model: Model, b: Builder, proto: Any, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
    """A node whose op is a function, of the file or of the standard: its nodes in place of it.

    Raises:
        Opaque: there is no such function.
        FileError: the function calls itself.
    """
    found = function_of(model, proto, inputs)
    if found is None:
        domain = domain_of(proto)
        if _kinds(domain, proto.op_type, model.opsets.get(domain, 1))[0] is not None:
            raise Opaque("no converter is known, and the standard's function for it hangs on what is not known of its inputs")
        if not domain and model.opsets[domain] <= onnx.defs.onnx_opset_version():
            raise FileError(f"opset {model.opsets[domain]} has no op {op_of(proto)}", op=op_of(proto), location=b.location)
        raise Opaque(f"the domain {domain} is not known" if domain else "no converter is known")
    function, opsets = found
    key = domain_of(proto), str(proto.op_type), str(proto.overload)
    if key not in model.functions:
        _check_known(inputs)
    if key in model.calling:
        raise FileError(f"the function {op_of(proto)} calls itself", op=op_of(proto), location=b.location)
    _check_depth(model, b)
    if len(inputs) > len(function.input) or len(proto.output) > len(function.output):
        most = f"{len(function.input)} inputs and {len(function.output)} outputs at most"
        raise FileError(f"the call does not fit the function {op_of(proto)}", location=b.location, expected=most)
    types = told_in(function.value_info, model.dims)
    inner = replace(model, opsets=opsets, calling=(*model.calling, key), types=types)
    scope: Scope = dict.fromkeys(function.input)
    scope.update(zip(function.input, inputs, strict=False))
    given = {each.name: each for each in (*function.attribute_proto, *proto.attribute)}
    place = b.location
    convert_nodes(inner, b, [with_attributes(node, given) for node in function.node], scope, function.output)
    b.location = place
    asked = zip(function.output, proto.output, strict=False)
    missing = [name for name, own in asked if own and name not in scope]
    if missing:
        raise FileError(f"nothing makes the output {', '.join(missing)} of the function {op_of(proto)}", location=place)
    return [scope.get(name) for name in function.output]


def _check_depth(model: Model, b: Builder) -> None:
    if model.depth + len(model.calling) >= DEEPEST:
        raise FileError(f"graphs and functions are nested more than {DEEPEST} levels deep", location=b.location)


def contents(
    model: Model, b: Builder, proto: Any, inputs: Sequence[Value], scope: Scope,
) -> list[Value]:  # fmt: skip
    """The outputs of a nested GraphProto, its nodes at the end of the graph that is being built.

    Raises:
        FileError: it has another number of inputs, or nothing makes one of its outputs.
    """
    if len(proto.input) != len(inputs):
        found = f"the nested graph {proto.name!r} has {len(proto.input)} inputs"
        raise FileError(found, expected=str(len(inputs)), location=b.location)
    own: Scope = ChainMap({}, scope)
    own.update(zip((each.name for each in proto.input), inputs, strict=True))
    for tensor in proto.initializer:
        own[tensor.name] = b.constant(weight_of(tensor, model.files), name=tensor.name)
    for sparse in proto.sparse_initializer:
        own[sparse.values.name] = b.constant(dense(sparse, model.files), name=sparse.values.name)
    convert_nodes(model, b, proto.node, own, [each.name for each in proto.output])
    outputs = [own.get(each.name) for each in proto.output]
    missing = [each.name for each, value in zip(proto.output, outputs, strict=True) if value is None]
    if missing:
        raise FileError(f"nothing makes the output {', '.join(missing)} of a nested graph", location=b.location)
    return [value for value in outputs if value is not None]


def nested(
    model: Model, b: Builder, proto: Any, types: Sequence[Type], scope: Scope, name: str, enter: Enter | None = None,
    leave: Enter | None = None,
) -> Graph:  # fmt: skip
    """A nested graph of a node; see `Conversion.region`."""
    _check_depth(model, b)
    graph = Graph(name, b.graph.symbols)
    inner = Builder(graph, None, b.location)
    arguments: Sequence[Value] = [graph.add_input(type) for type in types]
    try:
        if enter is not None:
            arguments = enter(inner, list(arguments))
        for each, value in zip_longest(proto.input, arguments):
            if each is not None and value is not None and value.graph is graph:
                value.name = each.name
        outputs = contents(replace(model, depth=model.depth + 1), inner, proto, arguments, scope)
        inner.location = b.location
        graph.set_outputs(outputs if leave is None else leave(inner, outputs))
    except BaseException:
        graph.release()  # it uses values from around it no more
        raise
    return graph
