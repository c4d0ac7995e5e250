"""Other element types."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.table import converts
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir import dtypes
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Value


def _cast(c: Conversion, x: Value, dtype: DType, saturate: int, rounding: str) -> Any:
    source = x.tensor.dtype
    attrs: dict[str, Any] = {}
    if dtype.is_float and dtype.bits == 8 and source is not dtype:
        attrs["saturate"] = bool(saturate)
    if dtype is dtypes.f8e8m0:
        attrs["rounding"] = rounding
    if (source is dtypes.string) != (dtype is dtypes.string):
        attrs["notation"] = "c"
    if dtype is dtypes.i32 and source is dtypes.i64:  # some exporters compute shapes so; sizes that wrap would be of no use
        for dim in c.numbers(x) or ():
            if not isinstance(dim, int):
                c.b.graph.symbols.constrain("<=", dim, dtype.limits[1])
    return c.b.cast(x, dtype=dtype, **attrs)


@converts("Cast", since=6)
def cast(c: Conversion, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """To another element type; what small floats cannot say becomes the greatest that they can, unless told otherwise."""
    return _cast(c, x, dtype_of(to, "the result"), saturate, round_mode)


_NAMES = {"FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BOOL": "bool", "STRING": "str"}


@converts("Cast")
def cast_old(c: Conversion, x: Value, *, to: str) -> Any:
    """The element type is named."""
    name = _NAMES.get(to, to.lower().replace("uint", "u").replace("int", "i"))
    if not dtypes.is_dtype(name):
        raise c.malformed(f"casts to {to!r}, which is no element type")
    return c.b.cast(x, dtype=dtypes.dtype(name))


@converts("CastLike")
def cast_like(c: Conversion, x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Any:
    """To the element type of another tensor."""
    return _cast(c, x, like.tensor.dtype, saturate, round_mode)


@converts("BitCast")
def bit_cast(c: Conversion, x: Value, *, to: int) -> Any:
    """The same bits as another element type."""
    return c.b.bitcast(x, dtype=dtype_of(to, "the result"))
