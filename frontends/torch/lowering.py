"""The interface between the watcher and the table of ATen lowerings: one function an op, and the helper it works with.

A lowering takes the `Lowering` and the op's arguments and returns a value, a tuple or list of values (in the schema's
order), a dim for a result that is an integer, or None for no result. Arguments arrive translated:

* a tensor as a `Value`, a list of tensors as a list of values (None where one is absent);
* an integer size as a dim (an `int` or an expression), also inside lists; other numbers, bools and strings as they are;
* a dtype as a `DType`; device, layout, memory format, pinning and generators not at all;
* arguments that the caller left out with the schema's default.

Parameters are matched by the schema's names; one without a default whose name is not in the schema takes the argument
at its own position (so the first may be called `x`). A parameter with a default that the schema lacks keeps it. When
the caller gives an argument that the lowering has no parameter for, and it is not the schema's default, the op is refused.

Only functional overloads are lowered: the watcher turns in-place, ``out=`` and other writing overloads into the
functional overload and a write.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
import torch

from isthmus.frontends.torch.known import Known
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, Expr, bounds, maximum, minimum, resolve
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import Refusal
from isthmus.ir.graph import Value

Scalar: TypeAlias = "int | float | bool | complex | Expr"
Function: TypeAlias = Callable[..., Any]

LOWERINGS: Final[dict[str, Function]] = {}
"""Lowerings by overload, such as ``aten.add.Tensor`` or ``torchvision.nms.default``."""

_OF_TORCH: Final[dict[torch.dtype, DType]] = {
    torch.float64: dtypes.f64, torch.float32: dtypes.f32, torch.float16: dtypes.f16, torch.bfloat16: dtypes.bf16,
    torch.float8_e4m3fn: dtypes.f8e4m3fn, torch.float8_e4m3fnuz: dtypes.f8e4m3fnuz, torch.float8_e5m2: dtypes.f8e5m2,
    torch.float8_e5m2fnuz: dtypes.f8e5m2fnuz, torch.float8_e8m0fnu: dtypes.f8e8m0,
    torch.int64: dtypes.i64, torch.int32: dtypes.i32, torch.int16: dtypes.i16, torch.int8: dtypes.i8,
    torch.uint64: dtypes.u64, torch.uint32: dtypes.u32, torch.uint16: dtypes.u16, torch.uint8: dtypes.u8,
    torch.bool: dtypes.bool_, torch.complex64: dtypes.c64, torch.complex128: dtypes.c128,
}  # fmt: skip
_TO_TORCH: Final = {ours: theirs for theirs, ours in _OF_TORCH.items()}


def dtype_of(theirs: torch.dtype) -> DType:
    """The element type of a torch dtype.

    Raises:
        Refusal: isthmus has no such element type.
    """
    found = _OF_TORCH.get(theirs)
    if found is None:
        raise Refusal(f"there is no element type for {theirs}", remedy="cast to another dtype")
    return found


def torch_dtype(ours: DType) -> torch.dtype:
    """The torch dtype of an element type.

    Raises:
        Refusal: torch has no such dtype.
    """
    found = _TO_TORCH.get(ours)
    if found is None:
        raise Refusal(f"torch has no dtype for {ours}")
    return found


def lowers(*names: str) -> Callable[[Function], Function]:
    """Decorator: puts a lowering into the table for these overloads (``.default`` where there is no overload name).

    Raises:
        ValueError: one has a lowering already.
    """

    def register(function: Function) -> Function:
        for name in names:
            full = name if name.count(".") >= 2 else f"{name}.default"
            if full in LOWERINGS:
                raise ValueError(f"there is a lowering for {full} already")
            LOWERINGS[full] = function
        return function

    return register


def plan(function: Function, arguments: Iterable[str]) -> dict[str, str]:
    """Which schema argument each parameter of a lowering takes: schema name -> parameter name.

    Args:
        function: the lowering.
        arguments: the schema's argument names, in order.

    Raises:
        TypeError: a parameter without a default has no argument.
    """
    names = list(arguments)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    found: dict[str, str] = {}
    for position, parameter in enumerate(parameters):
        if parameter.name in names:
            found[parameter.name] = parameter.name
        elif parameter.default is inspect.Parameter.empty:
            if position >= len(names) or names[position] in found:
                where = f"{function.__qualname__}({parameter.name})"
                raise TypeError(f"{where} matches no argument of ({', '.join(names)})")
            found[names[position]] = parameter.name
    return found


class Lowering:
    """What a lowering works with; one a capture.

    Attributes:
        b: builds the nodes, at the user's line.
        knowledge: what is known about values.
        floats: 0-d values that are Python's floats, computed from sizes: in promotion they count as numbers.
        places: where values were found not to be zero, by how they are computed.
        packings: how sequences were packed, by their batch sizes; see `isthmus.frontends.torch.aten.packed`.
        padded: the padded batch that packed elements are those of.
    """

    def __init__(self, builder: Builder) -> None:
        self.b = builder
        self.knowledge = Known()
        self.floats: set[Value] = set()
        self.places: dict[Hashable, Value] = {}
        self.packings: dict[Value, Any] = {}
        self.padded: dict[Value, Any] = {}

    # ---- about values

    def dims(self, value: Value) -> tuple[Dim, ...]:
        """The shape of a tensor value."""
        shape = value.tensor.shape
        assert shape is not None, "a watched tensor has a rank"
        for dim in shape:
            if dim.__class__ is not int:
                return tuple(resolve(dim) for dim in shape)
        return shape

    def rank(self, value: Value) -> int:
        """The number of dims of a tensor value."""
        return value.tensor.rank

    def axis(self, value: Value, dim: int) -> int:
        """A dim of a tensor value counted from the front; a 0-d tensor takes 0 and -1, as torch has it.

        Raises:
            Refusal: there is none.
        """
        return self.axis_in(self.rank(value), dim)

    def axis_in(self, rank: int, dim: int) -> int:
        """A dim counted from the front, for a rank."""
        rank = rank or 1
        if not -rank <= dim < rank:
            self.unsupported(f"dim {dim} is out of range for rank {rank}")
        return dim % rank

    def axes(self, value: Value, dims: int | Iterable[int] | None) -> list[int]:
        """Several dims counted from the front; every dim for None or an empty list."""
        if isinstance(dims, int):
            dims = [dims]
        found = [self.axis(value, dim) for dim in dims or ()] if self.rank(value) else []
        return found or list(range(self.rank(value)))

    def known(self, value: Value, limit: int = 1 << 16) -> np.ndarray[Any, Any] | None:
        """The content of a value that depends on no input and no random number; None for another.

        Args:
            value: a tensor value.
            limit: how many elements the computation may touch in all.
        """
        return self.knowledge.content(value, limit)

    # ---- making values

    def cast(self, value: Value, dtype: DType) -> Value:
        """The value with this element type; the value itself when it has it already."""
        if value.type.dtype is dtype:  # type: ignore[union-attr]
            return value
        cast: Value = self.b.cast(value, dtype=dtype)
        return cast

    def tensor(self, x: Value | Scalar, dtype: DType) -> Value:
        """A value, number or dim as a value of this element type; numbers and dims become 0-d."""
        if isinstance(x, Value):
            return self.cast(x, dtype)
        if isinstance(x, Expr):
            return self.cast(self.b.size(x), dtype)
        return self.b.constant(np.asarray(x).astype(dtype.numpy), dtype)

    def result_type(self, *xs: Value | Scalar) -> DType:
        """The element type that torch promotes these to (`torch.result_type`).

        Tensors with dims decide before 0-d tensors, and those before numbers, unless one behind is of a higher kind
        (bool, integer, float, complex).
        """
        groups: list[DType | None] = [None, None, None]
        for x in xs:
            if isinstance(x, Value) and x not in self.floats:
                rank, dtype = (0 if x.tensor.shape else 1), x.tensor.dtype
            elif isinstance(x, Value):
                rank, dtype = 2, dtype_of(torch.get_default_dtype())
            else:
                rank, dtype = 2, _scalar_dtype(x)
            groups[rank] = _promoted(groups[rank], dtype)
        result = _combined(groups[0], _combined(groups[1], groups[2]))
        assert result is not None, "nothing to promote"
        return result

    def promote(self, *xs: Value | Scalar, floating: bool = False) -> list[Value]:
        """All as values of the element type that torch promotes them to.

        Args:
            xs: values, numbers and dims.
            floating: integers and bools go on to the default float type, as in ``torch.sin`` or true division.
        """
        dtype = self.result_type(*xs)
        if floating and not (dtype.is_float or dtype.is_complex):
            dtype = dtype_of(torch.get_default_dtype())
        return [self.tensor(x, dtype) for x in xs]

    def floating(self, value: Value) -> Value:
        """The value, cast to the default float type when it holds integers or bools."""
        return self.promote(value, floating=True)[0]

    def clamp(self, size: Dim, start: Dim | None, end: Dim | None) -> tuple[Dim, Dim]:
        """The bounds of a Python-style slice as ``0 <= start <= end <= size``."""
        first = self._clamp(size, 0 if start is None else start)
        last = size if end is None or (end.__class__ is int and end >= 2**62) else self._clamp(size, end)
        if first.__class__ is int and first == 0:
            return first, last
        return first, maximum(first, last)

    def _clamp(self, size: Dim, place: Dim) -> Dim:
        lo, hi = bounds(resolve(place))
        if hi < 0 or (lo < 0 and self.decide("<", place, 0)):
            place = place + size
            return maximum(0, place)
        return minimum(place, size)

    # ---- deciding and refusing

    def same(self, left: Dim, right: Dim) -> bool | None:
        """Whether two dims are the same; None when that is not known."""
        return self.b.graph.symbols.same(left, right)

    def always(self, relation: str, left: Dim, right: Dim) -> bool | None:
        """Whether a relation holds between dims at all sizes that this capture is to hold for; None when not known."""
        raise NotImplementedError

    def decide(self, relation: str, left: Dim, right: Dim) -> bool:
        """Whether a relation (``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``) holds between dims.

        What cannot be proved is answered from the sizes that the capture runs at, and recorded as an assumption or
        refused, as the capture's policy says. Ask only where the result depends on the answer.
        """
        raise NotImplementedError

    def unsupported(self, reason: str, remedy: str | None = None) -> NoReturn:
        """Refuses the op; the capture goes on and reports all refusals together, with the user's line.

        Raises:
            Refusal: always.
        """
        raise Refusal(reason, remedy=remedy)


def _scalar_dtype(x: Scalar) -> DType:
    if isinstance(x, bool):
        return dtypes.bool_
    if isinstance(x, float):
        return dtype_of(torch.get_default_dtype())
    if isinstance(x, complex):
        return dtypes.c128 if torch.get_default_dtype() is torch.float64 else dtypes.c64
    return dtypes.i64


def _promoted(left: DType | None, right: DType | None) -> DType | None:
    if left is None or right is None or left is right:
        return left or right
    return dtype_of(torch.promote_types(torch_dtype(left), torch_dtype(right)))


def _combined(higher: DType | None, lower: DType | None) -> DType | None:
    """The element type of two groups of which one takes precedence, unless the other is of a higher kind."""
    if higher is None or lower is None or higher.is_complex:
        return higher or lower
    if higher.is_float:
        return dtypes.c128 if lower.is_complex and higher is dtypes.f64 else dtypes.c64 if lower.is_complex else higher
    return _promoted(higher, lower) if higher is dtypes.bool_ or lower.is_float or lower.is_complex else higher
