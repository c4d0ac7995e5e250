"""Turns a graph of legal nodes into the layers of a TensorRT network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from isthmus.backends import effects
from isthmus.backends.names import Names
from isthmus.backends.tensorrt import library, table
from isthmus.backends.tensorrt.sizes import Sizes
from isthmus.backends.tensorrt.table import Refused, Remedy, refuse
from isthmus.ir import dtypes, remedies
from isthmus.ir.dims import Dim, Symbol
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import IsthmusError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.location import UNKNOWN, Location
from isthmus.ir.ops.control import opaque
from isthmus.ir.types import Tensor
from isthmus.ir.weights import ArrayWeight, Weight

SMALL: Final = 256
"""Constants of up to so many bytes are shared when their contents are equal."""

RANK: Final = 8
"""The greatest number of axes that TensorRT takes."""

Binders = Mapping[Symbol, tuple[Value, "int | None"]]


class Emitter:
    """What emitters write to.

    After each layer its results' shapes are asked for: that is when TensorRT checks it, so that what it says is about the
    node at hand.

    Attributes:
        trt: TensorRT's module.
        network: the network.
        notes: what could not be carried over without harm, for the user.
        sizes: gives dims as shape tensors.
        kept: arrays that the network points to.
    """

    probing = False

    def __init__(self, trt: Any, network: Any, binders: Binders) -> None:
        self.trt = trt
        self.network = network
        self.log = library.log(trt)
        self.binders = binders
        self.notes: dict[str, None] = {}
        self.sizes = Sizes(self)
        self.kept: list[Any] = []
        self._tensors: dict[Value, Any] = {}
        self._constants: dict[object, Any] = {}
        self._handles: dict[str, Weight] = {}  # by the names of their tensors
        self._layer_names = Names(second=2)
        self._location: Location = UNKNOWN

    # ---- layers

    def add(self, kind: str, *args: Any, inputs: Mapping[int, Any] | None = None, results: int = 1, **settings: Any) -> Any:
        """Adds a layer and returns the tensor that it makes, or a list of tensors when `results` is not 1.

        Args:
            kind: what to add, as in ``network.add_<kind>``.
            args: arguments of that call.
            inputs: further inputs, by index.
            results: how many results it has.
            settings: attributes of the layer.

        Raises:
            Refused: TensorRT objects; with its own words.
        """
        return self.finish(getattr(self.network, f"add_{kind}")(*args), inputs, results, settings)

    def finish(self, layer: Any, inputs: Mapping[int, Any] | None = None, results: int = 1, settings: Any = None) -> Any:
        """Names a layer, sets it up and has TensorRT check it. See `add`."""
        if layer is None:
            raise Refused(self.log.take() or "TensorRT does not take the parameters")
        for name, value in (settings or {}).items():
            setattr(layer, name, value)
        for index, tensor in (inputs or {}).items():
            layer.set_input(index, tensor)
        if not self.probing:
            self._describe(layer)
        outputs = [layer.get_output(index) for index in range(results)]
        for output in outputs:
            self.check(output)
        return outputs[0] if results == 1 else outputs

    def check(self, tensor: Any) -> None:
        """Has TensorRT infer the type of a tensor.

        Raises:
            Refused: it cannot; with its own words.
        """
        try:
            length = len(tensor.shape)
        except (RuntimeError, ValueError):
            raise Refused(self.log.take() or "TensorRT cannot tell the shape") from None
        if length > RANK:
            raise Refused(f"TensorRT has at most {RANK} axes")

    def _describe(self, layer: Any) -> None:
        location = self._location
        kind = layer.type.name.lower()
        base = f"{location.module}/{kind}" if location.module else kind
        layer.name = self._layer_names.unique(base)
        made = f" by {', '.join(location.made_by)}" if location.made_by else ""
        if location:
            layer.metadata = f"{location}{made}"

    def binary(self, op: str, x: Any, y: Any) -> Any:
        """An elementwise layer; the operands get the same rank, as TensorRT wants it."""
        x, y = self.align(x, y)
        return self.add("elementwise", x, y, getattr(self.trt.ElementWiseOperation, op))

    def unary(self, op: str, x: Any) -> Any:
        """A unary layer."""
        return self.add("unary", x, getattr(self.trt.UnaryOperation, op))

    def activation(self, op: str, x: Any, **settings: Any) -> Any:
        """An activation layer."""
        return self.add("activation", x, getattr(self.trt.ActivationType, op), **settings)

    def align(self, *tensors: Any) -> list[Any]:
        """The tensors with axes of size 1 put in front, so that all have the same rank."""
        rank = max(len(tensor.shape) for tensor in tensors)
        return [self.lead(tensor, rank) for tensor in tensors]

    def lead(self, tensor: Any, rank: int) -> Any:
        """A tensor with axes of size 1 put in front."""
        missing = rank - len(tensor.shape)
        return self.unsqueeze(tensor, range(missing)) if missing else tensor

    def unsqueeze(self, tensor: Any, axes: Iterable[int]) -> Any:
        """A tensor with axes of size 1 put in; they count in the result."""
        axes = sorted(axes)
        if not axes:
            return tensor
        shape = list(tensor.shape)
        if shape.count(-1) > 1 or 0 in shape:
            return self.add("unsqueeze", tensor, self.ints(axes))
        for axis in axes:
            shape.insert(axis, 1)
        handle = self._handles.get(tensor.name)
        return self.reshape(tensor, shape) if handle is None else self.weight(handle, shape)

    def reshape(self, tensor: Any, shape: Sequence[int]) -> Any:
        """A tensor in another shape, of which -1 is what is left over."""
        return self.add("shuffle", tensor, reshape_dims=tuple(shape))

    def concat(self, tensors: Sequence[Any], axis: int) -> Any:
        """Tensors one behind the other."""
        return tensors[0] if len(tensors) == 1 else self.add("concatenation", list(tensors), axis=axis)

    def cast(self, tensor: Any, dtype: DType) -> Any:
        """A tensor in another element type."""
        wanted = library.enum(self.trt, dtype)
        return tensor if tensor.dtype == wanted else self.add("cast", tensor, wanted)

    # ---- constants

    def weights(self, weight: Weight) -> Any:
        """A weight as TensorRT takes it: a pointer to its array, which is kept, not copied."""
        dtype = library.enum(self.trt, weight.dtype)
        if not weight.size:
            return self.trt.Weights(dtype)
        array = self.array(weight)
        self.kept.append(array)
        return self.trt.Weights(dtype, array.ctypes.data, weight.size)

    def array(self, weight: Weight) -> Any:
        """A weight's content, row-major."""
        array = np.asarray(weight.array(), order="C")
        if weight.dtype is dtypes.i4:  # TensorRT packs them as ONNX does
            return np.frombuffer(b"".join(map(bytes, weight.chunks())), np.uint8)
        return array

    def weight(self, weight: Weight, shape: Sequence[int] | None = None, coded: bool = False) -> Any:
        """A weight as a tensor; equal handles, and small ones of equal content, share one.

        Args:
            weight: the weight.
            shape: another shape for it.
            coded: it goes straight to where it is dequantized, the only place where TensorRT has constants of 8-bit integers.
        """
        if weight.dtype is dtypes.u8 or (weight.dtype is dtypes.i8 and not coded):
            return self.cast(self.weight(ArrayWeight(weight.array().astype(np.int32)), shape), weight.dtype)
        shape = tuple(weight.shape if shape is None else shape)
        content: object = weight.array().tobytes() if weight.nbytes <= SMALL else weight.key
        key = (weight.dtype, shape, content)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.add("constant", shape, self.weights(weight))
            self._handles[found.name] = weight
        return found

    def constant(self, value: object, dtype: DType) -> Any:
        """A small constant."""
        return self.weight(ArrayWeight(np.asarray(value, dtype.numpy)))

    def full(self, tensor: Any, shape: Sequence[int], value: object) -> Any:
        """A constant of one element again and again, of the element type of a tensor."""
        dtype = next(known for known in dtypes.ALL if library.has(known) and library.enum(self.trt, known) == tensor.dtype)
        return self.constant(np.full(shape, value, dtype.numpy), dtype)

    def ints(self, values: Iterable[Any]) -> Any:
        """A list of integers, i64."""
        return self.constant(list(values), dtypes.i64)

    def is_made_in(self, graph: Graph, value: Value) -> bool:
        """Whether a node of a graph makes a value."""
        return value.weight is None and value.producer is not None and value.owner is graph

    def is_constant(self, tensor: Any) -> bool:
        """Whether a tensor is a weight."""
        return tensor.name in self._handles

    def unknown_size(self) -> Any:
        """An i64 list of one size that nobody knows; a probe has such."""
        raise IsthmusError("sizes are known where a graph is emitted")

    # ---- nodes

    def tensor(self, value: Value) -> Any:
        """The tensor of a value that was emitted before, or of a constant."""
        found = self._tensors.get(value)
        if found is None:
            weight = value.weight
            if weight is None:
                raise IsthmusError(f"{value!r} is used before it is emitted", location=value.location)
            found = self._tensors[value] = self.weight(weight)
        return found

    def define(self, value: Value, tensor: Any) -> None:
        """Lets a value be this tensor."""
        self._tensors[value] = tensor

    def node(self, node: Node) -> None:
        """Emits one node of the IR."""
        if node.op.is_constant:
            return
        self._location = node.location
        try:
            for value, tensor in zip(node.results, self.call(node), strict=True):
                self.define(value, tensor)
        except Refused as reason:
            raise IsthmusError(str(reason), op=node.op.name, location=node.location) from None

    def call(self, node: Node) -> Sequence[Any]:
        """The tensors that a node makes.

        Raises:
            Refused: it cannot be said.
        """
        entry = table.emitter(node.op.name)
        if entry is None:
            refuse(f"TensorRT has no layer for {node.op.name}")
        emit, values = entry
        operands: list[Any] = list(node.operands)
        if not values:
            operands = [None if value is None else self.tensor(value) for value in operands]
        found = emit(self, node, *node.op.group(operands))
        return () if found is None else found if isinstance(found, (tuple, list)) else (found,)

    def body(self, graph: Graph) -> list[Any]:
        """Emits the nodes of a graph, whose inputs are defined, and gives the tensors of its outputs."""
        outer = self._location
        skipped = effects.left_out(graph, self.binders)
        for node in graph.nodes:
            if node not in skipped:
                self.node(node)
            for text in effects.notes([node], "TensorRT"):
                self.note(text)
        self._location = outer
        return [self.tensor(value) for value in graph.outputs]

    def note(self, text: str) -> None:
        """Something that the user should know; each text once."""
        self.notes[text] = None


_MOVES: Final = {
    "identity", "reshape", "squeeze", "unsqueeze", "permute", "expand", "slice", "flip", "concat", "split", "gather",
    "gather_elements", "where", "tile", "roll", "if", "loop",
}  # fmt: skip
"""Ops that only move numbers."""


class Probe(Emitter):
    """Tries nodes one at a time, each in a network of its own whose inputs have the operands' types.

    Nothing is built: that TensorRT's inference of types agrees is what counts.
    """

    probing = True

    def __init__(self, trt: Any) -> None:
        super().__init__(trt, None, {})
        self._builder = trt.Builder(self.log)
        self._count = 0

    def refusal(self, node: Node) -> Refused | None:
        """Why a node cannot be emitted; None when it can."""
        if (why := opaque(node)) is not None:
            return Refused(f"{why}, and TensorRT has no layer for it")
        for value in (*node.operands, *node.results):
            refused = None if value is None else storable(value)
            if refused is not None:
                return refused
        self.network = self._builder.create_network(_flags(self.trt))
        self.sizes.clear()
        self._tensors.clear()
        self._constants.clear()
        self._handles.clear()
        self.kept.clear()
        self._count = 0
        self.log.take()
        try:
            self._check_narrow(node)
            for value in node.operands:
                if value is not None and value.weight is None and value not in self._tensors:
                    self.define(value, self.stand_in(value))
            found = self.call(node)
            for value, tensor in zip(node.results, found, strict=bool(found)):
                self._agree(value, tensor)
        except Refused as refused:
            return refused
        return None

    def _check_narrow(self, node: Node) -> None:
        """Where TensorRT takes 8-bit types, its inference lets more pass than it can build; and u8 is held as i32, where
        sums do not wrap."""
        if node.op.name in ("cast", "quantize", "dequantize", "constant"):
            return
        for value in (*node.operands, *node.results):
            dtype = None if value is None else value.tensor.dtype
            if dtype in (dtypes.i8, dtypes.i4, dtypes.f8e4m3fn) or (dtype is dtypes.u8 and node.op.name not in _MOVES):
                refuse(f"TensorRT has {dtype} at inputs and outputs, in casts and in quantization only")

    def _agree(self, value: Value, tensor: Any) -> None:
        """Holds what TensorRT infers against the value's type."""
        shape, found = value.tensor.shape or (), tuple(tensor.shape)
        wrong = len(shape) != len(found) or any(
            isinstance(dim, int) and size not in (-1, dim) for dim, size in zip(shape, found, strict=False)
        )
        if wrong or tensor.dtype != library.enum(self.trt, value.tensor.dtype):
            refuse(f"TensorRT makes {tensor.dtype.name}{list(found)} of it, not {value.type}")

    def stand_in(self, value: Value) -> Any:
        """A network input of a value's type."""
        shape = [dim if isinstance(dim, int) else -1 for dim in value.tensor.shape or ()]
        return self._input(library.enum(self.trt, value.tensor.dtype), shape)

    def unknown_size(self) -> Any:
        """A network input of one i64."""
        return self._input(self.trt.int64, (1,))

    def _input(self, dtype: Any, shape: Sequence[int]) -> Any:
        self._count += 1
        tensor = self.network.add_input(f"input{self._count}", dtype, tuple(shape))
        self.check(tensor)
        return tensor

    def array(self, weight: Weight) -> Any:
        """Only small weights are looked at; for large ones room stands in that is never touched."""
        return super().array(weight) if weight.nbytes <= SMALL else np.zeros(weight.shape, weight.dtype.numpy)


def storable(value: Value) -> Refused | None:
    """Why TensorRT has no tensor of a value's type; None when it has."""
    type = value.type
    if not isinstance(type, Tensor):
        return Refused("TensorRT has tensors only, no sequences and no optionals")
    if type.shape is None:
        return Refused("the rank is not known")
    if len(type.shape) > RANK:
        return Refused(f"TensorRT has at most {RANK} axes")
    if library.has(type.dtype):
        return None
    return Refused(f"TensorRT has no tensors of {type.dtype}", _NARROWER.get(type.dtype))


_NARROWER: Final[dict[DType, str | Remedy]] = {
    dtypes.f64: lambda graph, values: remedies.in_floats(graph),
    dtypes.i16: "cast to int32",
    dtypes.u16: "cast to int32",
    dtypes.u32: "cast to int64",
}
"""What to do about element types that TensorRT lacks."""


def _flags(trt: Any) -> int:
    return 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


def new_network(trt: Any, builder: Any) -> Any:
    """An empty, strongly typed network."""
    return builder.create_network(_flags(trt))


def shape_of(node: Node, index: int = 0) -> tuple[Dim, ...]:
    """The shape of an operand whose rank is known."""
    value = node.operands[index]
    assert value is not None
    shape = value.tensor.shape
    return refuse("the rank is not known") if shape is None else shape


def result_shape(node: Node) -> tuple[Dim, ...]:
    """The shape of the first result."""
    return node.results[0].tensor.shape or ()


def ints(dims: Iterable[Dim]) -> list[int] | None:
    """The dims as integers, or None where one is not."""
    dims = tuple(dims)
    found = [dim for dim in dims if isinstance(dim, int)]
    return found if len(found) == len(dims) else None


def mask(axes: Iterable[int]) -> int:
    """Axes as the bits that TensorRT wants."""
    return sum(1 << axis for axis in axes)
