"""Other element types."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.table import converts
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Value


def _cast(c: Conversion, x: Value, dtype: DType, saturate: int, round_mode: str) -> Any:
    return c.b.cast(x, dtype=dtype)


@converts("Cast", since=6)
def cast(c: Conversion, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """To another element type."""
    return _cast(c, x, dtype_of(to, "the result"), saturate, round_mode)


@converts("CastLike")
def cast_like(c: Conversion, x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Any:
    """To the element type of another tensor."""
    return _cast(c, x, like.tensor.dtype, saturate, round_mode)
