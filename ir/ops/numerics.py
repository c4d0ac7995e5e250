"""Arithmetic where numpy alone is not enough: small element types, integers divided by zero, the error function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.ir import dims, dtypes
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import DType
from isthmus.ir.op import Call
from isthmus.ir.types import Tensor
from isthmus.ir.weights import Array

_WIDE: Final = {d.numpy: np.dtype(np.float32) for d in dtypes.FLOAT if d.bits < 32} | {
    dtypes.i2.numpy: np.dtype(np.int8), dtypes.i4.numpy: np.dtype(np.int8),
    dtypes.u2.numpy: np.dtype(np.uint8), dtypes.u4.numpy: np.dtype(np.uint8),
}  # fmt: skip


SMALL: Final = frozenset(_WIDE)
"""Element types too small for numpy to compute in."""


def wide(array: Any) -> Any:
    """The array in the type that it is computed in: float32 for smaller floats, whole bytes for smaller integers."""
    target = _WIDE.get(array.dtype)
    return array if target is None else array.astype(target)


def compute(function: Callable[..., Any], *arrays: Any, dtype: Any = None) -> Array:
    """`function` of the widened arrays, cast to a dtype (that of the first array by default); nothing warns."""
    with np.errstate(all="ignore"):  # nan, infinity and wrapped integers are results like any other
        return np.asarray(function(*map(wide, arrays))).astype(arrays[0].dtype if dtype is None else dtype, copy=False)


def lowest(dtype: Any) -> Any:
    """What `max` over no elements is: minus infinity, False, or the least integer."""
    return False if dtype == np.bool_ else -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """What `min` over no elements is: infinity, True, or the greatest integer."""
    return True if dtype == np.bool_ else np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def divide(x: Any, y: Any) -> Any:
    """True division of floats; of integers, rounded towards zero, and 0 by zero."""
    if x.dtype.kind not in "iu":
        return np.true_divide(x, y)
    quotient = np.floor_divide(x, y)
    inexact = (quotient * y != x) & (y != 0) & ((x < 0) != (y < 0))
    return quotient + inexact.astype(quotient.dtype)


def power(x: Any, y: Any) -> Any:
    """`x ** y`; an integer to a negative power is rounded towards zero, and 0 to one is 0."""
    if x.dtype.kind != "i":
        return np.power(x, y)
    inverse = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)).astype(x.dtype)
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


def sigmoid(x: Any) -> Any:
    """The logistic function, without overflow on either side."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def unless_integer(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rounding function that leaves integers as they are."""

    def rounded(x: Any) -> Any:
        return x if x.dtype.kind in "iu" else function(x)

    rounded.__name__ = getattr(function, "__name__", "rounded")
    return rounded


def powers_of_two(x: Any, saturate: bool, rounding: str) -> Array:
    """As f8e8m0: the power of two above, below or nearest; what is beyond the least and greatest is nan, or one of these."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        mantissa, exponent = np.frexp(wide)
        more = {"up": mantissa > 0.5, "down": mantissa > 1, "nearest": mantissa >= 0.75}[rounding]
        exponent = np.where(wide == 0, -200, np.where(np.isinf(wide), 200, exponent - 1 + more))
        inside = np.clip(exponent, -127, 127)
        lost = np.isnan(wide) | (wide < 0) | (not saturate and inside != exponent)
        codes = np.where(lost, 255, inside + 127).astype(np.uint8)
    return codes.view(dtypes.f8e8m0.numpy)


def texts(x: Any) -> Array:
    """Numbers written as C's ``%.8g`` does; infinities as INF."""
    words = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}

    def text(number: Any) -> str:
        if isinstance(number, (bool, int)):
            return str(int(number))
        written = f"{number:.8g}"
        return words.get(written, written)

    return np.array([text(number) for number in wide(x).reshape(-1).tolist()], object)


erf: Final = np.vectorize(math.erf, otypes=[np.float64])
"""The error function, to double precision."""


# ---- small integer tensors whose elements are dims

MAX_FOLLOWED: Final = 64
"""Tensors with more elements are not followed as dims."""

FOLLOWED: Final = dtypes.INDEX | dtypes.BOOL
"""The element types that are followed."""

Elements = tuple[Dim, ...] | None


def follow(
    call: Call, function: Callable[..., Any], operands: Sequence[Elements], indices: Sequence[int] | None = None
) -> Sequence[Elements] | None:
    """`infer_value` by an array function that also works on arrays of dims; only of i64 and i32, and of bools as 0 and 1.

    Ops that compute numbers, and do not only move them, ask `held` about the result.

    Args:
        call: where the operands' shapes are.
        function: gets an object array for each operand.
        operands: the elements of each operand.
        indices: flat positions of the operands among the call's types; all in order by default.
    """
    if any(elements is None for elements in operands):
        return None
    arrays = []
    for index, elements in zip(range(len(operands)) if indices is None else indices, operands, strict=True):
        type = call.types[index]
        if elements is None or not isinstance(type, Tensor) or type.shape is None or type.dtype not in FOLLOWED:
            return None
        if any(dim.__class__ is not int for dim in type.shape):
            return None
        array = np.empty(len(elements), object)
        array[:] = elements
        arrays.append(array.reshape(type.shape))  # type: ignore[arg-type]
    try:
        result = np.asarray(function(*arrays), object)
    except (ZeroDivisionError, IndexError):
        return None
    return None if result.size > MAX_FOLLOWED else (tuple(result.reshape(-1).tolist()),)


def held(dtype: DType, found: Sequence[Elements] | None) -> Sequence[Elements] | None:
    """The elements where an integer type surely holds each of them; None where one may wrap.

    A size without an upper limit counts as held by 64 bits, as the sizes of all tensors are.
    """
    least, most = dtype.limits
    unlimited = (-dims.INF, dims.INF) if dtype is dtypes.i64 else ()
    for lo, hi in (dims.bounds(dim) for elements in found or () for dim in elements or ()):
        if not ((lo >= least or lo in unlimited) and (hi <= most or hi in unlimited)):
            return None
    return found


def _divisor(dim: Dim) -> Dim:
    lo, hi = dims.bounds(dim)
    if lo < 0 < hi or lo == hi == 0:
        raise ZeroDivisionError
    return dim  # by a size that is 0 nothing is divided


def _div(x: Dim, y: Dim) -> Dim:
    quotient = dims.exact_quotient(x, _divisor(y))
    if quotient is not None:
        return quotient
    if dims.bounds(y)[0] < 0:
        x, y = -x, -y
    # Rounded towards zero: what is not negative down, what is negative up.
    return dims.maximum(x, 0) // y - dims.maximum(-x, 0) // y


def _differ(x: Dim, y: Dim) -> int:
    answer = dims.same(x, y)
    if answer is None:
        raise ZeroDivisionError  # who asks gets no answer
    return int(not answer)


def _less(x: Dim, y: Dim) -> int:
    lo, hi = dims.bounds(y - x)
    if lo <= 0 < hi:
        raise ZeroDivisionError
    return int(lo > 0)


differ_dims: Final = np.frompyfunc(_differ, 2, 1)
less_dims: Final = np.frompyfunc(_less, 2, 1)
div_dims: Final = np.frompyfunc(_div, 2, 1)
floor_div_dims: Final = np.frompyfunc(lambda x, y: x // _divisor(y), 2, 1)
mod_dims: Final = np.frompyfunc(lambda x, y: x % _divisor(y), 2, 1)
minimum_dims: Final = np.frompyfunc(dims.minimum, 2, 1)
maximum_dims: Final = np.frompyfunc(dims.maximum, 2, 1)
