"""ONNX's types, dims and tensors as the IR's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import onnx

from isthmus.frontends.onnx.names import check_texts
from isthmus.ir import dtypes
from isthmus.ir.cursor import parse_dim
from isthmus.ir.dims import Dim, resolve
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import FileError, InferError, ParseError, UsageError
from isthmus.ir.symbols import Symbols
from isthmus.ir.types import Map, Optional, Sequence, Tensor, Type, Unknown

_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_WORDS: Final = re.compile(r"[^\W\d]\w*")
_LONGEST: Final = 1000
"""Names of dims that have more characters are not read as expressions."""


def dtype_of(number: int, what: str) -> DType:
    """The element type with a number of ``TensorProto.DataType``.

    Args:
        number: the number.
        what: what has this type, for the error.

    Raises:
        FileError: there is no such element type.
    """
    found = dtypes.BY_ONNX.get(number)
    if found is None:
        raise FileError(f"{what} has the element type {number}, which ONNX does not define")
    return found


class Dims:
    """The names of one model's dims as symbols.

    A name stands for a symbol of that name. One that is an expression of others that inputs have, such as ``N//2``, stands for
    that expression. Sizes without a name are symbols of their own. A size may be 0, as far as the file says.

    Args:
        symbols: the graph's.
        numbers: what some names stand for.

    Attributes:
        named: what each name stands for.
    """

    def __init__(self, symbols: Symbols, numbers: Mapping[str, int] | None = None) -> None:
        self.symbols = symbols
        self.numbers = dict(numbers or {})
        self.named: dict[str, Dim] = {}

    def declare(self, types: Iterable[Any]) -> None:
        """Declares the names of dims that inputs have: plain words first, then what is computed of them."""
        found = dict.fromkeys(
            dim.dim_param for type in types if type.HasField("tensor_type") for dim in type.tensor_type.shape.dim
            if dim.dim_param
        )  # fmt: skip
        check_texts(*found)
        for name in sorted(found, key=lambda name: _WORD.fullmatch(name) is None):
            self.of_name(name)

    def of_name(self, name: str) -> Dim:
        """What a name stands for."""
        check_texts(name)
        found = self.named.get(name)
        if found is None:
            found = self._computed(name)
            found = self.named[name] = self._own(name) if found is None else self._given(name, resolve(found))
        return found

    def _given(self, name: str, computed: Dim) -> Dim:
        """What a name stands for that is computed of others."""
        number = self.numbers.get(name, computed)
        if isinstance(computed, int) and number != computed:
            raise UsageError(f"the size {name} cannot be {number}", expected=str(computed), found=str(number))
        return number

    def _own(self, name: str) -> Dim:
        if name in self.numbers:
            symbol = self.symbols.declare(name, 0)
            symbol.joined = self.numbers[name]  # for what is computed of it
            return self.numbers[name]
        return self.symbols.fresh("d") if name in self.symbols.by_name else self.symbols.declare(name, 0).dim

    def _computed(self, name: str) -> Dim | None:
        words = set(_WORDS.findall(name)) - {"min", "max"}
        if _WORD.fullmatch(name) or len(name) > _LONGEST or not words or not words <= self.named.keys():
            return None
        try:
            return parse_dim(name, self.symbols)
        except (ParseError, InferError, RecursionError):
            return None

    def dim(self, proto: Any, what: str) -> Dim:
        """One dim.

        Raises:
            FileError: it is negative.
        """
        if proto.HasField("dim_value"):
            size = int(proto.dim_value)
            if size < 0:
                raise FileError(f"{what} has a size of {size}", expected="0 or more",
                                remedy="let the file give a size that may vary no number, or a name (dim_param)")  # fmt: skip
            return size
        return self.of_name(proto.dim_param) if proto.dim_param else self.symbols.fresh("u")

    def told(self, proto: Any) -> Any:
        """A type as the file tells it, with numbers in place of names that stand for such."""
        tensor = proto.tensor_type
        if not any(isinstance(self.named.get(dim.dim_param), int) for dim in tensor.shape.dim):
            return proto
        made = onnx.TypeProto()
        made.CopyFrom(proto)
        for dim in made.tensor_type.shape.dim:
            number = self.named.get(dim.dim_param)
            if isinstance(number, int):
                dim.dim_value = number
        return made

    def type(self, proto: Any, what: str, inside: bool = False) -> Type | None:
        """A type; None where the file does not tell one.

        Args:
            proto: a TypeProto.
            what: whose it is, for errors.
            inside: whether it is that of a sequence's or an optional's element, whose sizes are known as numbers or not at all.

        Raises:
            FileError: it is of a kind that the IR has not (sparse tensors, those of other domains), or has a negative size.
        """
        kind = proto.WhichOneof("value")
        if kind is None:
            return None
        if kind == "tensor_type":
            tensor = proto.tensor_type
            if not tensor.elem_type:
                return None
            dtype = dtype_of(tensor.elem_type, what)
            if not tensor.HasField("shape"):
                return Tensor(dtype, None)
            shape: Any = tuple(_inner(dim) if inside else self.dim(dim, what) for dim in tensor.shape.dim)
            return Tensor(dtype, shape)
        if kind in ("sequence_type", "optional_type"):
            element = self.type(getattr(proto, kind).elem_type, what, True)
            wrapper = Sequence if kind == "sequence_type" else Optional
            return None if element is None else wrapper(element)
        if kind == "map_type":
            element = self.type(proto.map_type.value_type, what, True)
            return None if element is None else Map(dtype_of(proto.map_type.key_type, what), element)
        raise FileError(f"{what} is of the kind {kind.removesuffix('_type')}, which is not carried over")


def _inner(dim: Any) -> Dim | None:
    """A dim of a sequence's or an optional's element: known only as a number."""
    return int(dim.dim_value) if dim.HasField("dim_value") else None



def type_proto(type: Type) -> Any:
    """A type as ONNX writes it; sizes that are no numbers are left open, and what is unknown is no type."""
    proto = onnx.TypeProto()
    if isinstance(type, Tensor):
        proto.tensor_type.elem_type = dtypes.ONNX[type.dtype]
        if type.shape is not None:
            proto.tensor_type.shape.SetInParent()
            for dim in type.shape:
                entry = proto.tensor_type.shape.dim.add()
                if isinstance(dim, int):
                    entry.dim_value = dim
    elif isinstance(type, Map):
        proto.map_type.key_type = dtypes.ONNX[type.key]
        proto.map_type.value_type.CopyFrom(type_proto(type.element))
    elif not isinstance(type, Unknown):
        kind = "sequence_type" if isinstance(type, Sequence) else "optional_type"
        getattr(proto, kind).elem_type.CopyFrom(type_proto(type.element))
    return proto
