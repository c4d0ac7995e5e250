"""Layers as they are made from nodes, and the tables of emitters and lowerings by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from isthmus.backends.caffe.dialect import Dialect
from isthmus.backends.caffe.schema import Message
from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value
from isthmus.ir.weights import Weight


class Refused(Exception):
    """A node cannot be said in layers; the argument says why, in one sentence."""


def refuse(reason: str) -> NoReturn:
    """Ends an emitter that cannot say its node."""
    raise Refused(reason)


@dataclass(eq=False, slots=True)
class Blob:
    """What a layer makes, before it has a name.

    Attributes:
        rank: the number of its axes.
        hint: what its name ends in where it is not a node's result.
    """

    rank: int
    hint: str = ""


@dataclass(slots=True)
class Layer:
    """One layer.

    Attributes:
        type: its type.
        bottoms: what it reads.
        tops: what it makes.
        parameters: its parameters; None for none.
        blobs: its weights, each with the shape that it has in the file.
    """

    type: str
    bottoms: list[Value | Blob]
    tops: list[Blob]
    parameters: Message | None = None
    blobs: list[tuple[Weight, tuple[int, ...]]] = field(default_factory=list)


class Layers:
    """The layers of one node while an emitter makes them.

    Attributes:
        dialect: what may be said.
        made: the layers so far.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.made: list[Layer] = []

    def add(
        self, type: str, *bottoms: Value | Blob, blobs: Sequence[tuple[Weight, Sequence[int]]] = (), rank: int | None = None,
        hint: str = "", **parameters: Any,
    ) -> Blob:  # fmt: skip
        """Adds a layer with one top, and returns that. See `several`."""
        return self.several(type, *bottoms, tops=1, blobs=blobs, rank=rank, hint=hint, **parameters)[0]

    def several(
        self, type: str, *bottoms: Value | Blob, tops: int, blobs: Sequence[tuple[Weight, Sequence[int]]] = (),
        rank: int | None = None, hint: str = "", **parameters: Any,
    ) -> list[Blob]:  # fmt: skip
        """Adds a layer and returns its tops.

        Args:
            type: the layer's type.
            bottoms: what it reads.
            tops: how many tops it has.
            blobs: its weights, each with its shape in the file.
            rank: the rank of the tops; that of the first bottom by default.
            hint: what the names of the tops end in where they are not results of the node.
            parameters: its parameters; those that are None are left out.

        Raises:
            Refused: a bottom is a constant, or the dialect does not take the layer.
        """
        for bottom in bottoms:
            if isinstance(bottom, Value) and bottom.weight is not None:
                refuse(f"a constant cannot be what {type} works on")
        if type not in self.dialect.layers:
            refuse(f"the dialect {self.dialect.name} has no layer {type}")
        first = bottoms[0] if bottoms else None
        found = rank_of(first) if first is not None else None
        given = {name: content for name, content in parameters.items() if content is not None}
        holder = self.dialect.parameter_field(type)
        message = None
        if given:
            if holder is None:
                refuse(f"{type} has no parameters in the dialect {self.dialect.name}")
            row = self.dialect.format.messages["LayerParameter"][holder]
            message = Message(row.type, given)
        objection = self.dialect.objection(type, message, len(bottoms), tops, len(blobs), found)
        if objection is not None:
            refuse(objection)
        made = [Blob(rank or found or 1, hint) for _ in range(tops)]
        held = [(weight, tuple(shape)) for weight, shape in blobs]
        self.made.append(Layer(type, list(bottoms), made, message, held))
        return made


def rank_of(value: Value | Blob) -> int:
    """The number of axes."""
    return value.rank if isinstance(value, Blob) else value.tensor.rank


Emit = Callable[..., "Blob | list[Blob]"]
"""``emit(s, node, *operands)``: adds layers and returns the blobs of the results. It calls `refuse` where it cannot."""

Lower = Callable[..., Any]
"""``lower(b, dialect, node, *operands)``: builds IR nodes and returns the value, a tuple of values, or None.

It returns None, or calls `refuse`, where it has no way; what it has built by then goes."""

EMITTERS: Final[dict[str, Emit]] = {}
LOWERINGS: Final[dict[str, Lower]] = {}


def emits(*ops: str) -> Callable[[Emit], Emit]:
    """Registers the emitter of ops."""
    return _register(EMITTERS, ops)


def lowers(*ops: str) -> Callable[[Lower], Lower]:
    """Registers the lowering of ops, tried before the ops' own decomposition."""
    return _register(LOWERINGS, ops)


def _register(table: dict[str, Any], ops: Sequence[str]) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        for op in ops:
            if op in table:
                raise ValueError(f"{op} has an entry already")
            table[op] = function
        return function

    return register


def say(dialect: Dialect, node: Node) -> tuple[list[Layer], list[Blob]]:
    """The layers that a node becomes, and the blobs of its results.

    Raises:
        Refused: it cannot be said.
    """
    emit = EMITTERS.get(node.op.name)
    if emit is None:
        refuse(f"Caffe has no layer for {node.op.name}")
    layers = Layers(dialect)
    found = emit(layers, node, *node.op.group(node.operands))
    return layers.made, [found] if isinstance(found, Blob) else found


# ---- what emitters and lowerings ask


def constant(value: Value | None, what: str) -> Weight:
    """The weight that an operand is.

    Raises:
        Refused: it is computed.
    """
    weight = None if value is None else value.weight
    return refuse(f"the {what} is computed by the model, and Caffe takes only constants there") if weight is None else weight


def sizes(value: Value) -> tuple[int, ...]:
    """The shape of a value whose sizes, but for the first perhaps, are known by now.

    The first is read as it is where nothing is done with it.
    """
    shape = value.tensor.shape
    assert shape is not None  # legality saw to it
    return shape  # type: ignore[return-value]


def length(value: Value, axis: int) -> int:
    """The size of an axis.

    Raises:
        Refused: it differs from run to run.
    """
    size = sizes(value)[axis]
    return size if isinstance(size, int) else refuse(f"the size {size} is not known")


def scalar(value: Value | None) -> float | None:
    """The number that a constant with one element is; None for anything else."""
    weight = None if value is None else value.weight
    return float(weight.array().reshape(-1)[0]) if weight is not None and weight.size == 1 else None


def dims(shape: Sequence[int]) -> Message:
    """Sizes as a message."""
    return Message("BlobShape", {"dim": list(shape)})


def build(b: Builder, op: str, *operands: Any, **attrs: Any) -> Value:
    """``b.op(...)`` of an op with one result."""
    found: Value = getattr(b, op)(*operands, **attrs)
    return found
