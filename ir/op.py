"""What an op is: one row of the op table.

A row states operands, attributes, results, traits, type inference, evaluation, decomposition and samples. The builder's
method, the printer, the parser, the verifier, the generated documentation and the generated tests all come from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.attributes import REQUIRED, Attribute
from isthmus.ir.dims import Dim, Expr, bounds, hint, minimum, spread
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import EvaluationError, InferError, SizeLimitError, UnknownSizeError
from isthmus.ir.symbols import Symbols
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Graph, Value


class Trait(Flag):
    """What passes may rely on without knowing an op by name."""

    NONE = 0
    PURE = auto()
    """The results depend on operands and attributes alone, and nothing else happens."""
    ELEMENTWISE = auto()
    """Each element of the result depends on the elements at the same place, with numpy's broadcasting."""
    COMMUTATIVE = auto()
    """The first two operands may be swapped."""
    IDEMPOTENT = auto()
    """f(f(x)) is f(x)."""
    INVOLUTION = auto()
    """f(f(x)) is x."""
    RANDOM = auto()
    """The values (not dtypes and shapes) of the results differ from run to run."""
    EFFECT = auto()
    """Something happens besides the results; such nodes are kept, and in order."""
    CONSTANT = auto()
    """The result is the weight in the attribute `value`."""
    COARSE = auto()
    """Says what the author meant; `decompose` gives the finer ops."""
    ISOLATED = auto()
    """The regions use no values from outside; what they need is handed to them as operands."""
    LAYOUT = auto()
    """The elements of the result are those of the first operand, in row-major order, under another shape."""
    IDENTITY = auto()
    """Where the result has the first operand's type it is that operand: a slice of all of it, padding by nothing."""
    WIDER = auto()
    """Defined also where the like op of other formats or runtimes is not (a quotient of integers by 0, elements of other
    types): a target may need several nodes to say it."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand in a row.

    Attributes:
        name: its name.
        dtypes: element types that it may have; None for any type at all, sequences included.
        group: operands of one group have the same element type; empty for none.
        optional: it may be absent (None).
        variadic: it is a list of values of any length; at most one operand of a row is.
    """

    name: str
    dtypes: frozenset[DType] | None
    group: str = ""
    optional: bool = False
    variadic: bool = False


_CONSTRAINTS: Final = {
    "any": dtypes.ANY,
    "numeric": dtypes.NUMERIC,
    "real": dtypes.REAL,
    "float": dtypes.FLOAT,
    "int": dtypes.INTEGER,
    "index": dtypes.INDEX,
    "bool": dtypes.BOOL,
    "complex": dtypes.COMPLEX,
    "string": frozenset((dtypes.string,)),
    "bits": dtypes.INTEGER | dtypes.BOOL,
    "number": dtypes.NUMERIC | dtypes.BOOL,
    "ordered": dtypes.REAL | dtypes.BOOL,
    "inexact": dtypes.FLOAT | dtypes.COMPLEX,
}


def operands(text: str) -> tuple[Operand, ...]:
    """Reads a row's operands, such as ``x: float T, weight: float T, bias?: float T`` or ``xs*: any T``.

    After the colon stands a set of element types (`any`, `numeric`, `real`, `float`, `int`, `index`, `bool`,
    `complex`, `string`, `bits`, `ordered`, `inexact`, `number` (or bool), a dtype's name, or `type` for any type at
    all, sequences included), then perhaps the name of a group whose members have one element type. ``?`` marks an
    operand that may be absent, ``*`` a list.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, constraint = part.partition(":")
        words = constraint.split() or ["any"]
        allowed = None if words[0] == "type" else _CONSTRAINTS.get(words[0])
        if allowed is None and words[0] != "type":
            allowed = frozenset((dtypes.dtype(words[0]),))
        found.append(
            Operand(name.rstrip("?*"), allowed, words[1] if len(words) > 1 else "", name.endswith("?"), name.endswith("*"))
        )
    return tuple(found)


class Call:
    """An op applied to something: what `infer`, `evaluate` and `decompose` look at.

    Attributes:
        op: the op.
        types: the operands' types, flat; None for an absent one.
        attrs: every attribute of the row, in normal form.
        regions: nested graphs.
        symbols: where new symbols come from and equalities go.
        values: the operands themselves, flat, where there is a graph already; empty otherwise.
        run: evaluates one of the regions on arrays, in `evaluate` alone.
        size: the number that a dim outside the attributes stands for, None while that is not known; in `evaluate` alone.
        foreign: evaluates an op that the table does not know, on its operands; in `evaluate` alone.
    """

    __slots__ = ("attrs", "foreign", "op", "regions", "run", "size", "symbols", "types", "values")

    def __init__(
        self,
        op: Op,
        types: Sequence[Type | None],
        attrs: dict[str, Any],
        regions: Sequence[Graph] = (),
        symbols: Symbols | None = None,
        values: Sequence[Value | None] = (),
    ) -> None:
        self.op = op
        self.types = types
        self.attrs = attrs
        self.regions = regions
        self.symbols = Symbols() if symbols is None else symbols
        self.values = values
        self.run: Callable[[Graph, Sequence[Any]], list[Any]] = _no_run
        self.size: Callable[[Dim], int | None] = _no_size
        self.foreign: Callable[[Sequence[Any]], tuple[Any, ...]] = _no_foreign

    def __getitem__(self, attribute: str) -> Any:
        return self.attrs[attribute]

    def tensor(self, index: int) -> Tensor:
        """The type of an operand that is a tensor of known rank.

        Raises:
            InferError: it is absent, not a tensor, or of unknown rank.
        """
        type = self.types[index]
        if not isinstance(type, Tensor) or type.shape is None:
            raise self.error(f"operand {self.op.operand_name(index)} must be a tensor of known rank", found=str(type))
        return type

    def shape(self, index: int) -> tuple[Dim, ...]:
        """The shape of a tensor operand of known rank."""
        return self.tensor(index).shape  # type: ignore[return-value]

    def dtype(self, index: int) -> DType:
        """The element type of a tensor operand (its rank may be unknown).

        Raises:
            InferError: it is absent or not a tensor.
        """
        type = self.types[index]
        if not isinstance(type, Tensor):
            raise self.error(f"operand {self.op.operand_name(index)} must be a tensor", found=str(type))
        return type.dtype

    def axis(self, axis: int, rank: int) -> int:
        """The axis counted from the front.

        Raises:
            InferError: there is no such axis.
        """
        if not -rank <= axis < rank:
            raise self.error(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    def unify(self, left: Dim, right: Dim, what: str) -> Dim:
        """The dim that two dims must agree on; an unknown is assumed and recorded.

        Raises:
            InferError: they are known to differ.
        """
        if left.__class__ is int and right.__class__ is int:
            if left == right:
                return left
        elif self.symbols.unify(left, right):
            return left if right.__class__ is not int else right
        raise self.error(f"{what} do not agree", expected=str(left), found=str(right))

    def broadcast(self, *shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """The shape that several shapes broadcast to, by numpy's rules.

        Two unknown sizes are assumed equal and recorded, unless one is 1 at most, or the graph's symbols say that either may
        be 1.
        """
        first = shapes[0]
        if shapes.count(first) == len(shapes):
            return first
        rank = max(map(len, shapes))
        result: list[Dim] = []
        for axis in range(-rank, 0):
            dim: Dim = 1
            for shape in shapes:
                if len(shape) >= -axis:
                    other = shape[axis]
                    if other is dim or (other.__class__ is int and other == 1):
                        continue
                    dim = other if dim.__class__ is int and dim == 1 else self._together(dim, other)
            result.append(dim)
        return tuple(result)

    def _together(self, left: Dim, right: Dim) -> Dim:
        """The size that two sizes broadcast to."""
        what = "broadcast sizes"
        joins = self.symbols.joins
        for one, other in ((left, right), (right, left)):
            if one.__class__ is not int and bounds(one)[1] <= 1:
                if minimum(1, other) == one:
                    return other  # it is 0 only where the other is
                joins = False
        for one, other in ((left, right), (right, left)) if joins else ():
            if self.repeats(one, other):
                self.unify(one, 1, what)
                return other
        if joins or (isinstance(left, int) and isinstance(right, int)) or self.symbols.same(left, right):
            return self.unify(left, right, what)
        for one, other in ((left, right), (right, left)):
            if self.symbols.same(one, 1) is False:  # then the other is 1, or the same
                if isinstance(one, int) and self.symbols.same(other, 1) is False:
                    return self.unify(one, other, what)
                return one
            if bounds(other)[0] >= 1 and self.symbols.span(one - other)[0] >= 0:  # nor is it larger
                return one
        try:
            return spread(left, right)
        except SizeLimitError:
            return self.fresh()

    def repeats(self, size: Dim, wanted: Dim) -> bool:
        """Whether the example repeats what has a size that is not known: it is 1 there, and the wanted one is another."""
        return self.symbols.joins and size.__class__ is not int and hint(size) == 1 and hint(wanted) not in (None, 1)

    def fresh(self, prefix: str = "u", lo: float = 0, hi: float = float("inf")) -> Dim:
        """A dim that only running the model can tell."""
        return self.symbols.fresh(prefix, lo, hi)

    def error(self, message: str, *, expected: str | None = None, found: str | None = None) -> InferError:
        """An error about this call."""
        return InferError(message, op=self.op.name, expected=expected, found=found or self._operands())

    def unknown(self, message: str) -> UnknownSizeError:
        """An error about this call: it fits as far as is known, and a size that is not known tells what it gives."""
        return UnknownSizeError(message, op=self.op.name, found=self._operands())

    def _operands(self) -> str:
        return f"operands ({', '.join('none' if type is None else str(type) for type in self.types)})"


def _no_run(graph: Graph, arguments: Sequence[Any]) -> list[Any]:
    raise RuntimeError("regions can only be run while evaluating")


MOST_AXES: Final = 64
"""No tensor has more, as in numpy."""
HELD: Final = 64
"""For how many multiplications an element counts that an evaluation holds besides operands and results."""
ENDLESS: Final = 1 << 62
"""More multiplications than anybody waits for."""


def _no_size(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None


def _no_foreign(operands: Sequence[Any]) -> tuple[Any, ...]:
    raise EvaluationError("nobody here knows the op")


@dataclass(frozen=True)
class Typed:
    """An operand of a sample that does not show its type, such as an optional."""

    type: Type
    content: Any


@dataclass(frozen=True)
class Sample:
    """A well-typed use of an op, for the generated tests.

    Attributes:
        operands: numpy arrays, one an operand; None for an absent one; a list for a variadic one or a sequence; `Typed`
            where the content does not show the type.
        attrs: attributes.
        regions: makes the nested graphs, given a builder.
        note: what is special about it; part of the test's name.
        symbolic: whether it also holds with every dim of every operand replaced by a symbol; or the names of the operands
            for which it does.
        larger: those symbols stand for sizes that are no less than the sample's, as its attributes need it.
    """

    operands: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    regions: Any = None
    note: str = ""
    symbolic: bool | tuple[str, ...] = True
    larger: bool = False


def sample(
    *operands: Any, regions: Any = None, note: str = "", symbolic: bool | tuple[str, ...] = True, larger: bool = False,
    **attrs: Any,
) -> Sample:  # fmt: skip
    """A `Sample` in short."""
    return Sample(operands, attrs, regions, note, symbolic, larger)


def rng() -> np.random.Generator:
    """The generator that samples draw from: the same numbers at each call."""
    return np.random.default_rng(0)


class Op:
    """One row of the op table. Subclass it (or a family's subclass) and register an instance.

    Attributes:
        name: unique name, such as ``conv``.
        operands: see `operands`.
        attributes: attributes by name, in order.
        traits: what passes may rely on.
        regions: names of the nested graphs.
        source: where the semantics are defined, such as ``numpy.matmul`` or ``ONNX Conv-22``.
    """

    name: str = ""
    operands: tuple[Operand, ...] = ()
    attributes: Mapping[str, Attribute] = {}
    traits: Trait = Trait.PURE
    regions: tuple[str, ...] = ()
    source: str = ""

    def infer(self, call: Call) -> Sequence[Type]:
        """The results' types.

        Raises:
            InferError: the operands' types or the attributes do not fit.
        """
        raise NotImplementedError

    def evaluate(self, call: Call, *operands: Any) -> Any:
        """The results as numpy arrays: one, or a tuple when there are several.

        Args:
            call: the attributes hold plain integers here, and the types concrete shapes.
            operands: one an operand: an array, None for an absent one, a list for a variadic one or a sequence.

        By default the decomposition is evaluated.
        """
        from isthmus.ir.interpreter import evaluate_decomposed

        return evaluate_decomposed(self, call, operands)

    def effort(self, call: Call) -> int:
        """About how many multiplications `evaluate` takes, where those are more than the results have elements.

        An element of what is held on the way counts for `HELD`; `ENDLESS` stands for what the types do not tell.

        Args:
            call: the attributes hold plain integers here, and the types concrete shapes.
        """
        return 0

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        """The same in finer ops: the result, or a tuple; NotImplemented when there is no finer form.

        Args:
            b: builds the finer nodes in place.
            call: the attributes and types.
            operands: one an operand: a value, None for an absent one, a list for a variadic one.
        """
        return NotImplemented

    def infer_value(self, call: Call, *operands: tuple[Dim, ...] | None) -> Sequence[tuple[Dim, ...] | None] | None:
        """The results' elements as dims, for ops that small integer tensors are computed with; None when not followed.

        Args:
            call: the attributes and types.
            operands: the elements of each operand, in row-major order; None where they are not known.
        """
        return None

    def samples(self) -> Iterable[Sample]:
        """Well-typed uses, small and of every kind."""
        return ()

    def called(self, attrs: Mapping[str, Any]) -> str:
        """What people call it, with these attributes."""
        return self.name

    # ---- from the row

    @cached_property
    def is_constant(self) -> bool:
        """Whether the result is the weight in the attribute `value`."""
        return Trait.CONSTANT in self.traits

    @cached_property
    def is_function(self) -> bool:
        """Whether the results depend on operands and attributes alone, in every run, and nothing else happens."""
        return Trait.PURE in self.traits and not self.traits & (Trait.RANDOM | Trait.EFFECT)

    @cached_property
    def is_several(self) -> bool:
        """Whether a target that has no such op may have to say it by several nodes."""
        return bool(self.traits & (Trait.COARSE | Trait.WIDER | Trait.RANDOM))

    @cached_property
    def is_coarse(self) -> bool:
        """Whether the op says what the author meant, in finer ops."""
        return Trait.COARSE in self.traits

    @cached_property
    def has_effect(self) -> bool:
        """Whether something happens besides the results."""
        return Trait.EFFECT in self.traits

    @cached_property
    def variadic(self) -> bool:
        """Whether one of the operands is a list."""
        return any(operand.variadic for operand in self.operands)

    def operand_name(self, index: int) -> str:
        """The name of the operand at a flat index."""
        for number, operand in enumerate(self.operands):
            if operand.variadic or number == index:
                return operand.name
        return str(index)

    def group(self, flat: Sequence[Any]) -> list[Any]:
        """Flat operands as one an operand of the row, a variadic one as a list."""
        spare = len(flat) - len(self.operands)
        if not self.variadic:
            return [*flat[: len(self.operands)], *[None] * -spare]
        result: list[Any] = []
        position = 0
        for operand in self.operands:
            if operand.variadic:
                result.append(list(flat[position : position + spare + 1]))
                position += spare + 1
            else:
                result.append(flat[position] if position < len(flat) else None)
                position += 1
        return result

    def flatten(self, grouped: Sequence[Any]) -> list[Any]:
        """The inverse of `group`; operands left out at the end are absent."""
        if len(grouped) > len(self.operands):
            raise InferError(f"takes {len(self.operands)} operands, got {len(grouped)}", op=self.name)
        flat: list[Any] = []
        for number, operand in enumerate(self.operands):
            value = grouped[number] if number < len(grouped) else None
            if operand.variadic:
                flat.extend(value or ())
            else:
                flat.append(value)
        return flat

    def normalize(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Every attribute of the row in normal form and in the row's order.

        Raises:
            InferError: one is unknown, missing or of the wrong kind.
        """
        table = self.attributes
        result = {}
        for name, attribute in table.items():
            value = attrs.get(name, REQUIRED)
            if value is REQUIRED:
                if attribute.default is REQUIRED:
                    raise InferError(f"attribute {name} is missing", op=self.name, expected=attribute.kind)
                result[name] = attribute.default
            elif value is None and attribute.default is None:
                result[name] = None
            else:
                try:
                    result[name] = attribute.normalize(value)
                except (TypeError, ValueError, OverflowError) as error:
                    raise InferError(f"attribute {name}: {error}", op=self.name, expected=attribute.kind) from None
        if attrs and not attrs.keys() <= table.keys():
            unknown = ", ".join(sorted(attrs.keys() - table.keys()))
            raise InferError(f"has no attribute {unknown}", op=self.name, expected=", ".join(table) or "none")
        return result

    def check(self, call: Call) -> None:
        """Checks the operands against the row: number, presence, element types.

        Raises:
            InferError: they do not fit.
        """
        groups: dict[str, DType] = {}
        types = call.types
        spare = len(types) - len(self.operands)
        if spare and not (self.variadic and spare >= -1):
            raise call.error(f"takes {len(self.operands)} operands, got {len(types)}")
        rows: Iterable[Operand] = self.operands
        if self.variadic:
            rows = [row for row in self.operands for _ in range(spare + 1 if row.variadic else 1)]
        for operand, type in zip(rows, types, strict=True):
            if type is None:
                if not (operand.optional or operand.variadic):
                    raise call.error(f"operand {operand.name} must be given")
            elif operand.dtypes is not None:
                if type.__class__ is not Tensor:
                    raise call.error(f"operand {operand.name} must be a tensor", found=str(type))
                element = type.dtype
                if element not in operand.dtypes:
                    allowed = ", ".join(d.name for d in dtypes.ALL if d in operand.dtypes)
                    raise call.error(f"operand {operand.name} has a wrong dtype", expected=allowed, found=str(type))
                if operand.group and groups.setdefault(operand.group, element) is not element:
                    expected = f"{groups[operand.group]} as the operands before it"
                    raise call.error(f"operand {operand.name} has another dtype", expected=expected, found=str(type))

    def infer_checked(self, call: Call) -> Sequence[Type]:
        """`check`, then `infer`, without the operands' content where a size that it tells is too large to be followed; no
        result has more than `MOST_AXES` axes."""
        self.check(call)
        try:
            found = self.infer(call)
        except SizeLimitError:
            if not call.values:
                raise
            found = self.infer(Call(self, call.types, call.attrs, call.regions, call.symbols))
        for type in found:
            if type.__class__ is Tensor and len(type.shape or ()) > MOST_AXES:
                raise call.error(f"the result has more than {MOST_AXES} axes")
        return found

    def __repr__(self) -> str:
        return self.name


class OpTable:
    """Ops by name. Third parties add theirs with `register`."""

    def __init__(self) -> None:
        self._ops: dict[str, Op] = {}

    def register(self, op: Op) -> Op:
        """Adds a row.

        Raises:
            ValueError: the name is taken or not a name (letters, digits, ``_``, ``.``).
        """
        if not op.name or not op.name.replace(".", "_").isidentifier():
            raise ValueError(f"{op.name!r} is not a name for an op")
        if op.name in self._ops:
            raise ValueError(f"there is an op {op.name} already")
        self._ops[op.name] = op
        return op

    def __getitem__(self, name: str) -> Op:
        return self._ops[name]

    def get(self, name: str) -> Op | None:
        """The op of this name, or None."""
        return self._ops.get(name)

    def __iter__(self) -> Iterator[Op]:
        return iter(self._ops.values())

    def __contains__(self, name: object) -> bool:
        return name in self._ops

    def __len__(self) -> int:
        return len(self._ops)


OPS: Final = OpTable()
"""The op table."""


def register(op: type[Op]) -> type[Op]:
    """Class decorator: puts an instance of the row into the table."""
    OPS.register(op())
    return op


def is_symbolic(shape: Iterable[Dim]) -> bool:
    """Whether a shape has a dim that is not a plain integer."""
    return any(isinstance(dim, Expr) for dim in shape)
