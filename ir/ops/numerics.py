"""Arithmetic where numpy alone is not enough: small element types, integers divided by zero, the error function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.ir import dims, dtypes
from isthmus.ir.dims import Dim
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


# Rational approximations on three intervals: W. J. Cody, "Rational Chebyshev approximations for the error function",
# Mathematics of Computation 23 (1969); highest power first.
_SMALL: Final = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_MIDDLE: Final = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1, 2.98635138197400131e2,
     8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
_LARGE: Final = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1, 1.60837851487422766e-2,
     6.58749161529837803e-4),
    (1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3),
)  # fmt: skip


def erf(x: Any) -> Any:
    """The error function, to double precision."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)

    def ratio(part: tuple[tuple[float, ...], tuple[float, ...]], at: Any) -> Any:
        return np.polyval(part[0], at) / np.polyval(part[1], at)

    near = x * ratio(_SMALL, np.minimum(size, 0.5) ** 2)
    middle = np.clip(size, 0.4, 4.0)
    large = np.clip(size, 4.0, 10.0)  # beyond 6 the result rounds to 1
    inverse = 1 / large**2
    tail = (1 / np.sqrt(np.pi) - inverse * ratio(_LARGE, inverse)) / large
    rest = np.where(size <= 4, np.exp(-(middle**2)) * ratio(_MIDDLE, middle), np.exp(-(large**2)) * tail)
    return np.where(size <= 0.47, near, np.where(np.isnan(x), x, np.sign(x) * (1 - rest)))


# ---- small integer tensors whose elements are dims

MAX_FOLLOWED: Final = 64
"""Tensors with more elements are not followed as dims."""

Elements = tuple[Dim, ...] | None


def follow(
    call: Call, function: Callable[..., Any], operands: Sequence[Elements], indices: Sequence[int] | None = None
) -> Sequence[Elements] | None:
    """`infer_value` by an array function that also works on arrays of dims; only of i64 and i32, where nothing wraps.

    Args:
        call: where the operands' shapes are.
        function: gets an object array for each operand.
        operands: the elements of each operand.
        indices: flat positions of the operands among the call's types; all in order by default.
    """
    arrays = []
    for index, elements in zip(range(len(operands)) if indices is None else indices, operands, strict=True):
        type = call.types[index]
        if elements is None or not isinstance(type, Tensor) or type.shape is None or type.dtype not in dtypes.INDEX:
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


def _divisor(dim: Dim) -> Dim:
    lo, hi = dims.bounds(dim)
    if lo <= 0 <= hi:
        raise ZeroDivisionError
    return dim


def _div(x: Dim, y: Dim) -> Dim:
    quotient = dims.exact_quotient(x, _divisor(y))
    if quotient is None and (dims.bounds(x)[0] < 0 or dims.bounds(y)[0] < 0):
        raise ZeroDivisionError  # which way to round depends on signs that nobody knows
    return x // y if quotient is None else quotient


div_dims: Final = np.frompyfunc(_div, 2, 1)
floor_div_dims: Final = np.frompyfunc(lambda x, y: x // _divisor(y), 2, 1)
mod_dims: Final = np.frompyfunc(lambda x, y: x % _divisor(y), 2, 1)
minimum_dims: Final = np.frompyfunc(dims.minimum, 2, 1)
maximum_dims: Final = np.frompyfunc(dims.maximum, 2, 1)
