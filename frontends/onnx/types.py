"""ONNX's types, dims and tensors as the IR's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import onnx

from isthmus.ir import dtypes
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import DType, is_dtype
from isthmus.ir.errors import FileError
from isthmus.ir.symbols import Symbols
from isthmus.ir.types import Optional, Sequence, Tensor, Type

_BY_NUMBER: Final[dict[int, DType]] = dict(enumerate((
    dtypes.f32, dtypes.u8, dtypes.i8, dtypes.u16, dtypes.i16, dtypes.i32, dtypes.i64, dtypes.string, dtypes.bool_, dtypes.f16,
    dtypes.f64, dtypes.u32, dtypes.u64, dtypes.c64, dtypes.c128, dtypes.bf16, dtypes.f8e4m3fn, dtypes.f8e4m3fnuz, dtypes.f8e5m2,
    dtypes.f8e5m2fnuz, dtypes.u4, dtypes.i4, dtypes.f4e2m1, dtypes.f8e8m0, dtypes.u2, dtypes.i2, dtypes.f6e2m3, dtypes.f6e3m2,
), 1))  # fmt: skip
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def dtype_of(number: int, what: str) -> DType:
    """The element type with a number of ``TensorProto.DataType``.

    Args:
        number: the number.
        what: what has this type, for the error.

    Raises:
        FileError: there is no such element type.
    """
    found = _BY_NUMBER.get(number)
    if found is None:
        raise FileError(f"{what} has the element type {number}, which ONNX does not define")
    return found


class Dims:
    """The names of one model's dims as symbols.

    A name that is no word becomes a symbol of a name that is one; sizes without a name are symbols of their own. A size may be
    0, as far as the file says.

    Attributes:
        named: the symbol that each name stands for.
    """

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.named: dict[str, Dim] = {}

    def dim(self, proto: Any, what: str) -> Dim:
        """One dim.

        Raises:
            FileError: it is negative.
        """
        if proto.HasField("dim_value"):
            size = int(proto.dim_value)
            if size < 0:
                raise FileError(f"{what} has a size of {size}", expected="0 or more")
            return size
        if not proto.dim_param:
            return self.symbols.fresh("u")
        found = self.named.get(proto.dim_param)
        if found is None:
            word = re.sub(r"\W", "_", proto.dim_param)
            if not _WORD.fullmatch(word) or is_dtype(word) or word in self.symbols.by_name:
                found = self.symbols.fresh("d")
            else:
                found = self.symbols.declare(word, 0).dim
            self.named[proto.dim_param] = found
        return found

    def type(self, proto: Any, what: str, unknown: Callable[[Any], Dim | None] | None = None) -> Type | None:
        """A type; None where the file does not tell one.

        Args:
            proto: a TypeProto.
            what: whose it is, for errors.
            unknown: the dim for a proto of one, in place of `dim`.

        Raises:
            FileError: it is of a kind that the IR has not (maps, sparse tensors), or has a negative size.
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
            take = unknown or (lambda dim: self.dim(dim, what))
            shape: Any = tuple(take(dim) for dim in tensor.shape.dim)
            return Tensor(dtype, shape)
        if kind in ("sequence_type", "optional_type"):
            element = self.type(getattr(proto, kind).elem_type, what, _inner)
            wrapper = Sequence if kind == "sequence_type" else Optional
            return None if element is None else wrapper(element)
        raise FileError(f"{what} is of the kind {kind.removesuffix('_type')}, which is not carried over")


def _inner(dim: Any) -> Dim | None:
    """A dim of a sequence's or an optional's element: known only as a number."""
    return int(dim.dim_value) if dim.HasField("dim_value") else None



def type_proto(type: Type) -> Any:
    """A type as ONNX writes it; sizes that are no numbers are left open."""
    proto = onnx.TypeProto()
    if isinstance(type, Tensor):
        proto.tensor_type.elem_type = next(number for number, dtype in _BY_NUMBER.items() if dtype is type.dtype)
        if type.shape is not None:
            proto.tensor_type.shape.SetInParent()
            for dim in type.shape:
                entry = proto.tensor_type.shape.dim.add()
                if isinstance(dim, int):
                    entry.dim_value = dim
    else:
        kind = "sequence_type" if isinstance(type, Sequence) else "optional_type"
        getattr(proto, kind).elem_type.CopyFrom(type_proto(type.element))
    return proto
