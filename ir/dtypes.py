"""Element types: every one of ONNX's enumeration, as numpy and ml_dtypes name them.

How sub-byte elements are packed into bytes is the affair of `isthmus.ir.weights`, not of the type.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np


class DType:
    """An element type.

    Attributes:
        name: short name used in the text form, such as ``f32``.
        bits: size of one element in bits (0 for strings).
        kind: one of ``float``, ``int``, ``uint``, ``bool``, ``complex``, ``string``.
        numpy: the numpy dtype that holds one element (a byte or more, also for sub-byte types).
    """

    __slots__ = ("bits", "is_complex", "is_float", "is_integer", "is_signed", "kind", "name", "numpy")

    def __init__(self, name: str, bits: int, kind: str, numpy: object) -> None:
        self.name = name
        self.bits = bits
        self.kind = kind
        self.numpy: np.dtype[Any] = np.dtype(numpy)  # type: ignore[call-overload]
        self.is_float = kind == "float"
        self.is_integer = kind in ("int", "uint")
        self.is_signed = kind in ("int", "float", "complex")
        self.is_complex = kind == "complex"

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value of an integer type."""
        half = self.bits - self.is_signed
        return -(1 << half) if self.is_signed else 0, (1 << half) - 1

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (dtype, (self.name,))


f64: Final = DType("f64", 64, "float", np.float64)
f32: Final = DType("f32", 32, "float", np.float32)
f16: Final = DType("f16", 16, "float", np.float16)
bf16: Final = DType("bf16", 16, "float", ml_dtypes.bfloat16)
f8e4m3fn: Final = DType("f8e4m3fn", 8, "float", ml_dtypes.float8_e4m3fn)
f8e4m3fnuz: Final = DType("f8e4m3fnuz", 8, "float", ml_dtypes.float8_e4m3fnuz)
f8e5m2: Final = DType("f8e5m2", 8, "float", ml_dtypes.float8_e5m2)
f8e5m2fnuz: Final = DType("f8e5m2fnuz", 8, "float", ml_dtypes.float8_e5m2fnuz)
f8e8m0: Final = DType("f8e8m0", 8, "float", ml_dtypes.float8_e8m0fnu)
f6e2m3: Final = DType("f6e2m3", 6, "float", ml_dtypes.float6_e2m3fn)
f6e3m2: Final = DType("f6e3m2", 6, "float", ml_dtypes.float6_e3m2fn)
f4e2m1: Final = DType("f4e2m1", 4, "float", ml_dtypes.float4_e2m1fn)
i64: Final = DType("i64", 64, "int", np.int64)
i32: Final = DType("i32", 32, "int", np.int32)
i16: Final = DType("i16", 16, "int", np.int16)
i8: Final = DType("i8", 8, "int", np.int8)
i4: Final = DType("i4", 4, "int", ml_dtypes.int4)
i2: Final = DType("i2", 2, "int", ml_dtypes.int2)
u64: Final = DType("u64", 64, "uint", np.uint64)
u32: Final = DType("u32", 32, "uint", np.uint32)
u16: Final = DType("u16", 16, "uint", np.uint16)
u8: Final = DType("u8", 8, "uint", np.uint8)
u4: Final = DType("u4", 4, "uint", ml_dtypes.uint4)
u2: Final = DType("u2", 2, "uint", ml_dtypes.uint2)
bool_: Final = DType("bool", 8, "bool", np.bool_)
c64: Final = DType("c64", 64, "complex", np.complex64)
c128: Final = DType("c128", 128, "complex", np.complex128)
string: Final = DType("str", 0, "string", object)

ALL: Final[tuple[DType, ...]] = (
    f64, f32, f16, bf16, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f6e2m3, f6e3m2, f4e2m1,
    i64, i32, i16, i8, i4, i2, u64, u32, u16, u8, u4, u2, bool_, c64, c128, string,
)  # fmt: skip

FLOAT: Final = frozenset(d for d in ALL if d.is_float)
INTEGER: Final = frozenset(d for d in ALL if d.is_integer)
COMPLEX: Final = frozenset((c64, c128))
REAL: Final = FLOAT | INTEGER
NUMERIC: Final = REAL | COMPLEX
BOOL: Final = frozenset((bool_,))
INDEX: Final = frozenset((i64, i32))
ANY: Final = frozenset(ALL)

BY_ONNX: Final[dict[int, DType]] = dict(enumerate((
    f32, u8, i8, u16, i16, i32, i64, string, bool_, f16, f64, u32, u64, c64, c128, bf16, f8e4m3fn, f8e4m3fnuz, f8e5m2,
    f8e5m2fnuz, u4, i4, f4e2m1, f8e8m0, u2, i2, f6e2m3, f6e3m2,
), 1))  # fmt: skip
"""The element types by their numbers in ONNX's ``TensorProto.DataType``."""

ONNX: Final = {each: number for number, each in BY_ONNX.items()}
"""These numbers by element type."""

_BY_NAME: Final = {d.name: d for d in ALL}
_BY_NUMPY: Final = {d.numpy: d for d in ALL}


def dtype(name: str) -> DType:
    """The element type with this short name.

    Raises:
        KeyError: there is none.
    """
    return _BY_NAME[name]


def is_dtype(name: str) -> bool:
    """Whether this is the short name of an element type."""
    return name in _BY_NAME


def from_numpy(numpy: object) -> DType:
    """The element type of a numpy (or ml_dtypes) dtype; any string dtype is ``str``.

    Raises:
        KeyError: isthmus has no such element type.
    """
    found = np.dtype(numpy)  # type: ignore[call-overload]
    return string if found.kind in "UST" else _BY_NUMPY[found]
