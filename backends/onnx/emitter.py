"""Turns a graph of legal nodes into ONNX nodes: names, constants, sizes, nested graphs, metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from isthmus.backends import effects
from isthmus.backends.names import Names
from isthmus.backends.onnx import lists, older, opsets, table
from isthmus.backends.onnx.attributes import add_attribute, plain
from isthmus.backends.onnx.profile import Given, Profile, load
from isthmus.backends.onnx.sizes import SizeNames, Sizes
from isthmus.backends.onnx.table import Refused, refuse
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, Symbol
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import IsthmusError, Refusal, UnsupportedError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.location import UNKNOWN, Location
from isthmus.ir.op import Trait
from isthmus.ir.types import Tensor, Type, Unknown, innermost
from isthmus.ir.weights import ArrayWeight, Weight

SMALL = 256
"""Constants of up to so many bytes are shared when their contents are equal."""

DEEPEST = 29
"""How many graphs may be in one another: readers of protobuf give up at 100 messages, a nested graph takes three and the
types of its outputs up to nine."""

FUNCTIONS = "isthmus"
"""The domain of local functions."""

EDGES = ("view_as_real", "view_as_complex")
"""The ops between complex numbers and the pairs that stand for them in a file."""

Binders = Mapping[Symbol, tuple[Value, "int | None"]]


class Scope:
    """One ONNX graph while it is made.

    Attributes:
        graph: the IR graph that it is made from; None for the scratch graph of a probe.
        proto: the GraphProto.
        sizes: the names of sizes computed here.
        made: the names of everything that a node here makes.
    """

    def __init__(self, graph: Graph | None, name: str = "") -> None:
        self.graph = graph
        self.proto = onnx.GraphProto(name=plain(name))
        self.sizes = SizeNames()
        self.made: set[str] = set()


class Emitter:
    """What emitters write to.

    Attributes:
        opset: the opset of the file.
        profile: what is to read it.
        initializers: the constants that some node uses, by name.
        keep_functions: whether modules that were kept whole become functions.
        keep_ops: whether the reader takes whatever ops the model came with.
        functions: these functions by name, the ones that others use first.
        domains: the domains that nodes are from.
        notes: what could not be carried over without harm, for the user.
        sizes: gives dims as values.
        noted: names of results whose types are written down, since the file notes something there.
    """

    probing = False

    def __init__(
        self, opset: int, binders: Binders, metadata: bool = True, keep_functions: bool = False,
        profile: Profile | None = None, keep_ops: bool = False,
    ) -> None:  # fmt: skip
        self.opset = opset
        self.profile = profile or load("onnxruntime")
        self.keep_functions = keep_functions
        self.keep_ops = keep_ops
        self.binders = binders
        self.initializers: dict[str, Weight] = {}
        self.functions: dict[str, Any] = {}
        self.domains: dict[str, int] = {"": opset}
        self.notes: dict[str, None] = {}
        self.sizes = Sizes(self)
        self.scopes: list[Scope] = []
        self.noted: frozenset[str] = frozenset()
        self._metadata = metadata
        self._named_by_module = True
        self._in_properties = opsets.ir_version(opset) >= 10
        self._names: dict[Value, str] = {}
        self._types: dict[str, DType] = {}
        self._shapes: dict[str, tuple[Dim, ...]] = {}
        self._told: dict[Type, Any] = {}
        self._fixed: set[str] = set()  # names of what constants alone give
        self._value_names = Names()
        self._node_names = Names()
        self._constant_names: dict[object, str] = {}
        self._unread: set[Node | None] = set()
        self._named_last: dict[str, Node] = {}
        self._constants: dict[object, str] = {}
        self._contents: dict[str, Weight] = {}
        self._fresh: dict[str, tuple[Any, int]] = {}
        self._wanted: dict[Value, str] = {}
        self._location: Location = UNKNOWN

    # ---- names

    def reserve(self, graph: Graph) -> None:
        """Keeps the names that values and nodes of a graph have for these."""
        for inner in graph.graphs():
            results = (result for node in inner.nodes for result in node.results)
            for value in (*inner.inputs, *results):
                if value.name:
                    self._value_names.reserve([plain(value.name)])
                    if value.weight is not None:
                        self._constant_names.setdefault(_content(value.weight), value.name)
            for node in inner.nodes:
                # Where sizes are computed is chosen here, and so are the names of these nodes.
                named = not node.op.is_constant and not lists.is_of_sizes(node)
                if named and (name := _node_name(node.location)):
                    self._named_last[name] = node
        self._node_names.reserve(self._named_last)

    def unique(self, base: str, own: str = "") -> str:
        """A name that nothing has yet: its `own` by right or, where there is none, `base`; or that and a number."""
        return self._value_names.unique(plain(own or base), by_right=bool(own))

    def name(self, value: Value) -> str:
        """The name of a value that was emitted before, or of a constant."""
        found = self._names.get(value)
        if found is None:
            weight = value.weight
            if weight is None:
                raise IsthmusError(f"{value!r} is used before it is emitted", location=value.location)
            found = self._names[value] = self.weight(weight, value.name)
        return found

    def let_go(self, value: Value) -> None:
        """Frees the name of a constant that no node uses as it is."""
        weight, name = value.weight, self._names[value]
        if weight is not None and name not in self.initializers:
            del self._names[value], self._constants[_content(weight)], self._contents[name]
            self._value_names.give_back(name)

    def define(self, value: Value, name: str) -> None:
        """Lets a value be known by this name."""
        self._names[value] = name
        if not isinstance(value.type, Tensor):
            self._types.pop(name, None)  # results of a Loop are taken to be of one type
        else:
            self._note(name, value.type)
            if value.type.shape is not None and not value.type.dtype.is_complex:
                self.sizes.note(value)

    def _note(self, name: str, type: Tensor) -> None:
        type = opsets.written(type)
        self._types[name] = type.dtype
        if type.shape is not None:
            self._shapes[name] = type.shape

    def dtype(self, name: str) -> DType | None:
        """The element type of a name, where it is known."""
        return self._types.get(name)

    # ---- constants

    def weight(self, weight: Weight, name: str = "") -> str:
        """The name of a constant; equal handles, and small ones of equal content, share one."""
        key = _content(weight)
        found = self._constants.get(key)
        if found is None:
            own = name or self._constant_names.get(key, "")
            found = self._constants[key] = self.unique(weight.name or "const", own)
            self._contents[found] = weight
            self._types[found] = weight.dtype
        return found

    def constant(self, value: object, dtype: DType) -> str:
        """The name of a small constant."""
        try:
            return self.weight(ArrayWeight(np.asarray(value, dtype.numpy)))
        except OverflowError:
            refuse(f"a number does not fit into {dtype}")

    def filled(self, shape: Sequence[int], value: float, dtype: DType) -> str:
        """The name of a constant whose elements are all this number; one of a kind is enough."""
        key = ("filled", tuple(shape), value, dtype)
        if key not in self._constants:
            self._constants[key] = self.constant(np.full(shape, value), dtype)
        return self._constants[key]

    def ints(self, values: Iterable[int]) -> str:
        """The name of a list of integers, i64."""
        return self.constant(list(values), dtypes.i64)

    # ---- nodes

    def op(self, op_type: str, *inputs: str | None, results: int = 1, domain: str = "", **attrs: Any) -> Any:
        """Adds a node and returns the name of its result, or a list of names when `results` is not 1.

        Args:
            op_type: the ONNX op.
            inputs: names; None for an absent one.
            results: how many results it has.
            domain: the op's domain.
            attrs: its attributes; None for one that is not to be written.
        """
        outputs: Sequence[DType | None] = ()
        if not domain:
            op_type, inputs, attrs = older.form(op_type, self.opset, inputs, attrs, self._contents)
            outputs = self.check(op_type, inputs, attrs, results)
        if self.probing:
            names = [f"{op_type}{len(self._types)}.{index}" for index in range(results)]
        else:
            self.domains.setdefault(domain, 1)
            module = self._location.module if self._named_by_module else ""
            base = self.unique(f"{module}/{op_type}" if module else op_type)
            names = [base, *(self.unique(f"{base}:{index}") for index in range(1, results))]
            self._append(op_type, base, inputs, names, domain, attrs)
        for index, name in enumerate(names):
            found = outputs[min(index, len(outputs) - 1)] if outputs else None
            if found is not None:
                self._types[name] = found
        return names[0] if results == 1 else names

    def untouched(
        self, op_type: str, inputs: Sequence[str | None], results: int, absent: Sequence[int], domain: str,
        attrs: dict[str, Any],
    ) -> list[str]:  # fmt: skip
        """Adds a node of which nothing is known, and returns the names of its results.

        Args:
            op_type: its op.
            inputs: names; None for an absent one.
            results: how many results it has.
            absent: the places among its outputs that nothing stands at.
            domain: the op's domain; the standard's is empty.
            attrs: its attributes.
        """
        if self.probing:
            return [f"{op_type}.{index}" for index in range(results)]
        base = self.unique(op_type)
        names = [base, *(self.unique(f"{base}:{index}") for index in range(1, results))][:results]
        outputs = list(names)
        for index in absent:
            outputs.insert(index, "")
        self.domains.setdefault(domain, 1)
        self._append(op_type, base, inputs, outputs, domain, attrs)
        return names

    def _append(
        self, op_type: str, name: str, inputs: Sequence[str | None], outputs: list[str], domain: str, attrs: dict[str, Any]
    ) -> None:
        filled = [name or "" for name in inputs]
        while filled and not filled[-1]:
            filled.pop()
        own = op_type in self.profile.own_constants
        for index, used in enumerate(filled):
            if used in self._contents:
                name_here = self.unique(used) if own else used
                filled[index], self.initializers[name_here] = name_here, self._contents[used]
        scope = self.scopes[-1]
        label = self._node_names.unique(name)
        node = scope.proto.node.add(op_type=op_type, name=label, input=filled, output=outputs, domain=domain or None)
        for key, value in attrs.items():
            if value is not None:
                add_attribute(node, key, value)
        if self._metadata:
            self._describe(node)
        scope.made.update(outputs)
        for index, output in enumerate(outputs):
            self._fresh[output] = (node, index)

    def _describe(self, node: Any) -> None:
        location = self._location
        if location.function and not location.line:
            return  # the node of a file: its name says enough
        if not self._in_properties:
            if location.file or location.module:
                node.doc_string = plain(str(location))
            return
        if location.file:
            node.metadata_props.add(key="source", value=plain(f"{location.file}:{location.line}"))
        if location.module:
            node.metadata_props.add(key="module", value=plain(location.module))
        if location.made_by:
            node.metadata_props.add(key="made_by", value=", ".join(location.made_by))

    def check(
        self, op_type: str, inputs: Sequence[str | None], attrs: dict[str, Any], results: int,
    ) -> Sequence[DType | None]:  # fmt: skip
        """Holds the inputs against the op's signature; gives the element types of its results where they are known."""
        given = tuple([self._types.get(name) if name else None for name in inputs])
        numbers = [attrs[key] for key in ("to", "dtype", "output_dtype") if attrs.get(key) is not None] if attrs else ()
        asked = opsets.by_enum(numbers[0]) if numbers else None
        keys = tuple([key for key, value in attrs.items() if value is not None])
        found = opsets.outputs(op_type, self.opset, self.profile.base, given, keys, asked, results)
        if isinstance(found, str):
            raise Refused(found)
        if dtypes.f64 in given:
            for key, value in attrs.items():
                if isinstance(value, float) and float(np.float32(value)) != value:
                    refuse(f"{op_type} has its {key} in f32, which rounds it, and computes in f64")
        if not self.profile.plain:
            signature = opsets.signature(op_type, self.opset, self.profile.base)
            assert signature is not None
            types = signature.bound(given)
            known = [self._given(name) if name else None for name in inputs]
            types = types if asked is None else {signature.outputs[0]: asked, **types}
            reason = self.profile.node(signature, types, known, attrs, results)
            if reason is not None:
                raise Refused(reason)
        return found

    def _given(self, name: str) -> Given:
        """What is known of an input of a node."""
        weight = self._contents.get(name)
        if weight is None:
            return Given(self._shapes.get(name), fixed=name in self._fixed)
        return Given(weight.shape, weight, fixed=True)

    def node(self, node: Node) -> None:
        """Emits one node of the IR, and names its results."""
        if node.op.is_constant:
            return
        emit = table.emitter(node.op.name, self.opset)
        if emit is None:
            raise IsthmusError("is not legal at this opset", op=node.op.name, location=node.location)
        self._location = node.location
        self._fresh.clear()
        operands = [None if value is None or value.producer in self._unread else self.name(value) for value in node.operands]
        try:
            found = emit(self, node, *node.op.group(operands))
        except Refused as reason:
            raise IsthmusError(str(reason), op=node.op.name, location=node.location) from None
        names: Sequence[str] = () if found is None else (found,) if isinstance(found, str) else found
        named = bool(names) and names[0] in self._fresh and self._name_node(self._fresh[names[0]][0], node)
        for value, name in zip(node.results, names, strict=True):
            new = self._rename(name, value)
            if new != name and not named and value.index == 0 and _node_name(node.location):
                self._label(self._fresh[new][0], new)  # so that it is called the same when the file is written again
            self.define(value, new)
            self._tell_sizes(value, new)

    def _label(self, made: Any, name: str, by_right: bool = False) -> None:
        self._node_names.give_back(made.name)
        made.name = self._node_names.unique(name, by_right)

    def _name_node(self, made: Any, node: Node) -> bool:
        """Gives what comes from a node of a file, rather than from a line of code, that one's name: the last of several."""
        name = _node_name(node.location)
        if self._named_last.get(name) is not node:
            return False
        self._label(made, name, by_right=True)
        return True

    def _tell_sizes(self, value: Value, name: str) -> None:
        """Writes down a type with symbolic sizes: a runtime that does not know that two are equal fuses less; and that of a
        result of another domain's op.

        Readers infer the other types by themselves. Those of ``ai.onnx.ml`` are left to them as well: where onnxruntime knows
        that sizes agree, its Normalizer writes over its input, and loses the signs.
        """
        type, scope = value.type, self.scopes[-1]
        made = self._fresh.get(name)
        domain = "" if made is None else made[0].domain
        if value in self._wanted or name not in scope.made or domain == "ai.onnx.ml":
            return
        sizes = type.shape or () if isinstance(type, Tensor) else ()
        tells = domain or name in self.noted or not all(isinstance(dim, int) for dim in sizes)
        if tells and not isinstance(innermost(type), Unknown):
            scope.proto.value_info.append(self.told(name, type))

    def told(self, name: str, type: Type) -> Any:
        """What a file says of a value, as a ValueInfoProto."""
        found = self._told.get(type)
        if found is None:
            found = self._told[type] = opsets.type_proto(type)
        return onnx.ValueInfoProto(name=name, type=found)

    def _rename(self, name: str, value: Value) -> str:
        """Gives a result the name that the user knows it by."""
        made = self._fresh.get(name)
        wanted = self._wanted.get(value)
        scope = self.scopes[-1]
        if made is None or name not in scope.made or not (wanted or value.name):
            return name
        new = wanted or self.unique("", own=value.name)
        made[0].output[made[1]] = new
        for other, _ in self._fresh.values():
            for index, used in enumerate(other.input):
                if used == name:
                    other.input[index] = new
        scope.made.discard(name)
        scope.made.add(new)
        self._fresh[new] = self._fresh.pop(name)
        for each in self.scopes:
            each.sizes.rename(name, new)
        return new

    # ---- graphs

    def body(self, graph: Graph, values: Sequence[Value], outputs: Sequence[str]) -> list[str]:
        """Emits the nodes of a graph into the innermost scope, and gives the names of its outputs.

        Args:
            graph: its inputs are defined.
            values: its outputs, or those of them that are outputs in ONNX as well.
            outputs: the names that these shall have.

        Raises:
            UnsupportedError: an output is an input, a constant or another output, which onnxruntime cannot hand on.
        """
        scope = self.scopes[-1]
        for value, name in zip(values, outputs, strict=True):
            named: Value | None = value
            if value.producer is not None and value.producer.op.name in EDGES:
                named = value.producer.operands[0]  # the same tensor in the file
            if named is not None and named.producer is not None and named.owner is graph and named not in self._wanted:
                self._wanted[named] = name
        unread = lists.read_at_once(graph)
        self._unread |= unread
        skipped = effects.left_out(graph, self.binders) | unread
        for node in graph.nodes:
            if node not in skipped:
                self.node(node)
            for text in effects.notes([node], "ONNX"):
                self.note(text)
        self._fresh.clear()
        finished, refusals = [], []
        for value, name in zip(values, outputs, strict=True):
            found = self.name(value)
            if found != name and name not in finished:
                # An input, a constant, an outer value, or one that is an output already.
                self._location = value.location
                try:
                    if self.opset < 14 and not isinstance(value.type, (Tensor, Unknown)):
                        refuse("a sequence is, which needs opset 14")
                    made = self.op("Identity", found)
                except Refused as reason:
                    refusals.append(Refusal(f"it is handed on: {reason}", op="output", location=value.location))
                    continue
                scope.proto.node[-1].output[0] = name
                scope.made.discard(made)
            finished.append(name)
        if refusals:
            raise UnsupportedError(f"{len(refusals)} of the outputs cannot be carried over to onnx", refusals)
        return finished

    def subgraph(
        self, graph: Graph, enter: Callable[[Any], Sequence[Value]] | None = None, leaving: Sequence[Value] | None = None
    ) -> Any:
        """A nested graph, as a GraphProto; None while probing. It sees the names around it.

        Args:
            graph: the graph.
            enter: given the GraphProto, adds inputs of its own and defines some of the graph's inputs by nodes, in the new
                scope; returns the inputs that are left. By default all are inputs of the GraphProto too.
            leaving: those of the graph's outputs that are outputs of the GraphProto; by default all.
        """
        if _depth(graph) > DEEPEST:
            refuse(f"control flow is nested deeper than the {DEEPEST} levels that readers of ONNX files take")
        if self.probing:
            return None
        outer_location, outer_fresh = self._location, self._fresh
        self._fresh = {}
        scope = Scope(graph, graph.name)
        proto = scope.proto
        self.scopes.append(scope)
        for value in graph.inputs if enter is None else enter(proto):
            self.argument(proto, value)
        values = graph.outputs if leaving is None else leaving
        made_here = [value.producer is not None and value.owner is graph and value.weight is None for value in values]
        own = (value.name if here else "" for value, here in zip(values, made_here, strict=True))
        names = self.body(graph, values, [self.unique("result", name) for name in own])
        for value, name in zip(values, names, strict=True):
            proto.output.append(self.told(name, value.type))
        self.scopes.pop()
        self._location, self._fresh = outer_location, outer_fresh
        return proto

    def function(self, name: str, body: Graph) -> str:
        """The name of a local function that does what an isolated graph does; equal ones are one function."""
        if not self.profile.functions:
            refuse(f"the profile {self.profile.name} takes no functions")
        if self.probing:
            return name
        name = plain(name)
        inner = Emitter(self.opset, body.binders(), metadata=False, keep_functions=True, profile=self.profile,
                        keep_ops=self.keep_ops)  # fmt: skip
        inner.functions, inner.domains, inner.notes = self.functions, self.domains, self.notes
        inner._named_by_module = False  # so that the functions of equal modules are equal
        inner.reserve(body)
        proto = onnx.FunctionProto(domain=FUNCTIONS)
        for value in body.inputs:
            inner.define(value, inner.unique("input", own=value.name))
            proto.input.append(inner.name(value))
        inner.scopes.append(Scope(body))
        proto.output.extend(inner.body(body, body.outputs, [inner.unique("output", own=value.name) for value in body.outputs]))
        for constant, weight in inner.initializers.items():
            content = onnx.TensorProto(data_type=opsets.enum(weight.dtype), dims=weight.shape)
            content.raw_data = b"".join(map(bytes, weight.chunks()))
            add_attribute(proto.node.add(op_type="Constant", name=constant, output=[constant]), "value", content)
        proto.node.extend(inner.scopes.pop().proto.node)
        for domain in dict.fromkeys(("", *(node.domain for node in proto.node))):
            proto.opset_import.add(domain=domain, version=self.domains.get(domain, 1))
        found, number = name, 1
        while found in self.functions:
            proto.name = found
            if self.functions[found] == proto:
                return found
            found, number = f"{name}_{number}", number + 1
        proto.name = found
        self.functions[found] = proto
        return found

    def argument(self, proto: Any, value: Value) -> None:
        """Makes an input of a nested graph an input of its GraphProto."""
        self.define(value, self.unique("argument", own=value.name))
        proto.input.append(self.told(self.name(value), value.type))

    def note(self, text: str) -> None:
        """Something that the user should know; each text once."""
        self.notes[text] = None


def _content(weight: Weight) -> object:
    """Equal for constants that are one in a file."""
    if weight.nbytes > SMALL or weight.dtype.kind == "string":
        return weight.key
    return weight.dtype, weight.shape, weight.array().tobytes()


def _node_name(location: Location) -> str:
    """The name of the node of a file that a node comes from; empty where it comes from a line of code."""
    return plain(location.function) if location.function and not location.line else ""


def _depth(graph: Graph) -> int:
    """How many graphs of control flow a graph is in, itself included, up to one more than is allowed."""
    depth = 0
    node = graph.parent
    while node is not None and depth <= DEEPEST:
        depth += Trait.ISOLATED not in node.op.traits
        node = node.graph.parent if node.graph is not None else None
    return depth
