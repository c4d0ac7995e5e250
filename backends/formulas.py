"""Ops in finer ones, for targets that lack them: each builds IR nodes in front of a node, as a backend's `lower` does.

They are here, not in the op table, since what is finer differs from target to target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import bounds
from isthmus.ir.graph import Node, Value
from isthmus.ir.weights import LazyWeight, Weight

SEARCHED: Final = 65536
"""Constants of up to so many elements are looked through for what may be in them."""


def along(b: Builder, x: Value, matrix: Value, axis: int) -> Value:
    """An axis multiplied by a matrix [result, operand]."""
    rank = len(x.tensor.shape or ())
    if axis == rank - 1:
        return b.matmul(x, b.permute(matrix, perm=[1, 0]))  # type: ignore[no-any-return]
    if axis == rank - 2:
        return b.matmul(matrix, x)  # type: ignore[no-any-return]
    order = [*(other for other in range(rank) if other != axis), axis]
    moved = b.matmul(b.permute(x, perm=order), b.permute(matrix, perm=[1, 0]))
    return b.permute(moved, perm=[order.index(other) for other in range(rank)])  # type: ignore[no-any-return]


def log1p(b: Builder, node: Node, x: Value) -> Any:
    """Exact for small x, where 1 + x loses it: W. Kahan's correction of the rounded sum."""
    up = b.add(x, 1.0)
    small = b.eq(up, 1.0)
    corrected = b.mul(b.log(up), b.div(x, b.where(small, 1.0, b.sub(up, 1.0))))
    # An infinite sum divides infinity by infinity.
    return b.where(small, x, b.where(b.eq(up, math.inf), up, corrected))


def expm1(b: Builder, node: Node, x: Value) -> Any:
    """exp(x) - 1 is tanh(x / 2) * (exp(x) + 1), which loses nothing for small x; plain where it could overflow."""
    power = b.exp(x)
    small = b.lt(b.abs(x), 1.0)
    return b.where(small, b.mul(b.tanh(b.mul(x, 0.5)), b.add(power, 1.0)), b.sub(power, 1.0))


_NEAR: Final = (
    (3.20937758913846947e3, 3.77485237685302021e2, 1.13864154151050156e2, 3.16112374387056560, 1.85777706184603153e-1),
    (2.84423683343917062e3, 1.28261652607737228e3, 2.44024637934444173e2, 2.36012909523441209e1, 1.0),
)
_FAR: Final = (
    (
        1.23033935479799725e3, 2.05107837782607147e3, 1.71204761263407058e3, 8.81952221241769090e2, 2.98635138197400131e2,
        6.61191906371416295e1, 8.88314979438837594, 5.64188496988670089e-1, 2.15311535474403846e-8,
    ),
    (
        1.23033935480374942e3, 3.43936767414372164e3, 4.36261909014324716e3, 3.29079923573345963e3, 1.62138957456669019e3,
        5.37181101862009858e2, 1.17693950891312499e2, 1.57449261107098347e1, 1.0,
    ),
)  # fmt: skip
"""Of W. J. Cody's rational approximations (Mathematics of Computation 23, 1969): erf(x) / x of x^2, and exp(x^2) erfc(x)."""


def erf(b: Builder, node: Node, x: Value) -> Any:
    """In f64, to two roundings; other floats are left to the target."""
    if x.tensor.dtype is not dtypes.f64:
        return None
    size = b.abs(x)
    low, high = b.clip(size, 0.0, 0.5), b.clip(size, 0.46875, 6.0)  # from 6 on it rounds to 1
    near = b.mul(low, _ratio(b, b.mul(low, low), _NEAR))
    far = b.sub(1.0, b.mul(b.exp(b.neg(b.mul(high, high))), _ratio(b, high, _FAR)))
    found = b.mul(b.sign(x), b.where(b.lt(size, 0.46875), near, far))
    return b.where(b.is_nan(x), x, found)


def _ratio(b: Builder, x: Value, polynomials: tuple[tuple[float, ...], tuple[float, ...]]) -> Value:
    return b.div(*(polynomial(b, x, factors) for factors in polynomials))  # type: ignore[no-any-return]


def polynomial(b: Builder, x: Value, factors: Sequence[float]) -> Value:
    """The sum of the factors times powers of x, the least power first."""
    found = b.add(b.mul(x, factors[-1]), factors[-2])
    for factor in factors[-3::-1]:
        found = b.add(b.mul(found, x), factor)
    return found  # type: ignore[no-any-return]


def log2(b: Builder, node: Node, x: Value) -> Any:
    """The logarithm to base 2."""
    return b.mul(b.log(x), 1 / math.log(2))


def log10(b: Builder, node: Node, x: Value) -> Any:
    """The logarithm to base 10."""
    return b.mul(b.log(x), 1 / math.log(10))


def exp2(b: Builder, node: Node, x: Value) -> Any:
    """A power of 2."""
    return b.pow(2.0, x)


def trunc(b: Builder, node: Node, x: Value) -> Any:
    """By sign and floor; an integer is itself."""
    return b.identity(x) if x.tensor.dtype.is_integer else b.mul(b.sign(x), b.floor(b.abs(x)))


def is_finite(b: Builder, node: Node, x: Value) -> Any:
    """Neither nan nor infinite."""
    return b.logical_not(b.logical_or(b.is_nan(x), b.is_inf(x)))


def atan2(b: Builder, node: Node, y: Value, x: Value) -> Any:
    """The inverse tangent of the quotient, turned by half a circle to the left of the axis; the sign of 0 is read off 1/y."""
    below = b.logical_or(b.lt(y, 0.0), b.lt(b.reciprocal(y), 0.0))
    turn = b.where(below, b.constant(-math.pi, x.tensor.dtype), math.pi)
    left = b.logical_or(b.lt(x, 0.0), b.lt(b.reciprocal(x), 0.0))
    both_zero = b.logical_and(b.eq(x, 0.0), b.eq(y, 0.0))
    both_infinite = b.logical_and(b.eq(b.abs(x), math.inf), b.eq(b.abs(y), math.inf))
    quotient = b.where(both_zero, b.mul(x, y), b.where(both_infinite, b.mul(b.sign(x), b.sign(y)), b.div(y, x)))
    angle = b.atan(quotient)
    return b.where(left, b.add(angle, turn), angle)


def bits_of_bool(b: Builder, node: Node, *operands: Value) -> Any:
    """Of bools: the logical ops; None for integers."""
    if operands[0].tensor.dtype is not dtypes.bool_:
        return None
    return getattr(b, node.op.name.replace("bit", "logical"))(*operands)


def float_mod(b: Builder, x: Value, y: Value) -> Any:
    """The remainder with the sign of y, exactly: that of C, moved by y where the signs differ."""
    rest = b.fmod(x, y)
    differs = b.logical_xor(b.lt(rest, 0.0), b.lt(y, 0.0))
    return b.where(b.logical_and(b.ne(rest, 0.0), differs), b.add(rest, y), rest)


def cumprod(b: Builder, node: Node, x: Value) -> Any:
    """Products of 1, 2, 4, ... neighbours: each step multiplies by what stands as far behind as was multiplied so far."""
    attrs, shape = node.attrs, x.tensor.shape or ()
    axis = attrs["axis"] % len(shape)
    size = shape[axis]
    if not isinstance(size, int) or size == 0:
        return None

    def moved(value: Value, by: int) -> Value:
        ones = b.expand(b.constant(1, x.tensor.dtype), shape=[*shape[:axis], by, *shape[axis + 1 :]])
        return b.concat([ones, b.slice(value, axes=[axis], starts=[0], ends=[size - by], steps=[1])], axis=axis)  # type: ignore[no-any-return]

    found = b.flip(x, axes=[axis]) if attrs["reverse"] else x
    if attrs["exclusive"]:
        found = moved(found, 1)
    reach = 1
    while reach < size:
        found = b.mul(found, moved(found, reach))
        reach *= 2
    return b.flip(found, axes=[axis]) if attrs["reverse"] else b.identity(found)


def diagonal(b: Builder, node: Node, x: Value) -> Any:
    """The two axes are made one, in which the diagonal goes in steps of one row and one element."""
    attrs, shape = node.attrs, x.tensor.shape or ()
    rank = len(shape)
    first, second, offset = attrs["axis1"] % rank, attrs["axis2"] % rank, attrs["offset"]
    rest = [axis for axis in range(rank) if axis not in (first, second)]
    rows, columns = shape[first], shape[second]
    length = (node.result.tensor.shape or ())[-1]
    lead = [shape[axis] for axis in rest]
    flat = b.reshape(b.permute(x, perm=[*rest, first, second]), shape=[*lead, rows * columns])
    start = offset if offset >= 0 else -offset * columns
    places = b.add(b.mul(b.arange(stop=length), b.size(columns + 1)), b.size(start))
    return b.gather(flat, places, axis=len(rest))


def dilated(weight: Weight, dilations: Sequence[int], after: Sequence[int]) -> Weight:
    """A kernel with zeros between its elements, and behind its last ones; made while it is written."""
    spans = [(k - 1) * d + 1 + more for k, d, more in zip(weight.shape[2:], dilations, after, strict=True)]
    shape = (*weight.shape[:2], *spans)
    places: tuple[Any, ...] = tuple(slice(0, (k - 1) * d + 1, d) for k, d in zip(weight.shape[2:], dilations, strict=True))

    def compute(kernel: Any) -> Any:
        result = np.zeros(shape, kernel.dtype)
        result[(..., *places)] = kernel
        return result

    signature = ("dilated", tuple(dilations), tuple(after))
    return LazyWeight(weight.dtype, shape, compute, [weight], signature, name=weight.name)


# ---- what is known of values

_MOVES: Final = {"identity", "expand", "reshape", "squeeze", "unsqueeze", "permute", "slice", "concat"}
"""Ops whose results' elements are all elements of their operands."""


def every(value: Value, holds: Callable[[Any], bool], told: Callable[[Node], Sequence[Value | None] | None]) -> bool:
    """Whether all elements of a value are known to have a property.

    Args:
        value: the value.
        holds: whether those of a constant all have it; not asked of large ones.
        told: of a node, the values whose elements must have it so that those of the result have; None where it is not known.
            It need not know the ops that only move elements.
    """
    stack, seen = [value], {value}
    while stack:
        found = stack.pop()
        weight, node = found.weight, found.producer
        if weight is not None:
            if weight.size > SEARCHED or not holds(weight.array()):
                return False
            continue
        sources = None if node is None else node.operands if node.op.name in _MOVES else told(node)
        if sources is None:
            return False
        fresh = [source for source in sources if source is not None and source not in seen]
        seen.update(fresh)
        stack += fresh
    return True


def never_zero(value: Value) -> bool:
    """Whether no element can be 0."""
    return never(value, 0)


def never(value: Value, number: int) -> bool:
    """Whether no element of an integer value can be this number."""

    def told(node: Node) -> Sequence[Value | None] | None:
        if node.op.name == "size":
            least, greatest = bounds(node.attrs["dim"])
            return None if least <= number <= greatest else ()
        if node.op.name == "cast":
            return _cast_from(node, number)
        if node.op.name == "where":
            cond, x, y = node.operands
            return [x] if _tells(cond, y, number) else [x, y]
        if node.op.name == "maximum":
            floors = [_only(operand) for operand in node.operands if operand is not None]
            return () if any(floor is not None and floor > number for floor in floors) else None
        return None

    return every(value, lambda array: bool(np.all(array != number)), told)


def never_negative(value: Value) -> bool:
    """Whether every element of an integer value is known to be 0 or more."""

    def told(node: Node) -> Sequence[Value | None] | None:
        if node.op.name == "size":
            return () if bounds(node.attrs["dim"])[0] >= 0 else None
        if node.op.name == "maximum":
            floors = [operand.weight for operand in node.operands if operand is not None and operand.weight is not None]
            return () if any(floor.size <= SEARCHED and holds(floor.array()) for floor in floors) else None
        source = node.operands[0] if node.op.name == "cast" else None
        dtype = None if source is None else source.tensor.dtype
        return [source] if dtype is not None and dtype.is_integer and dtype.bits < node.result.tensor.dtype.bits else None

    def holds(array: Any) -> bool:
        return bool(np.all(array >= 0))

    return every(value, holds, told)


def _cast_from(node: Node, number: int) -> Sequence[Value | None] | None:
    """Nothing where the source's type does not hold the number; the source where the cast only makes room."""
    source, target = node.operands[0], node.result.tensor.dtype
    if source is None or not source.tensor.dtype.is_integer or source.tensor.dtype.bits > target.bits:
        return None
    dtype = source.tensor.dtype
    if dtype.bits == target.bits and dtype is not target:
        return node.operands if number == 0 else None
    least = -(1 << dtype.bits - 1) if dtype.is_signed else 0
    if target.is_signed or not dtype.is_signed:
        return node.operands if least <= number < least + (1 << dtype.bits) else ()
    return node.operands if number == 0 else None


def _tells(cond: Value | None, value: Value | None, number: int) -> bool:
    """Whether a condition holds where a value is this number: ``value == number``, or ``clip(value, lo, hi) == value``, or one
    of several such."""
    node = cond.producer if cond is not None else None
    if node is not None and node.op.name == "logical_or":
        return any(_tells(each, value, number) for each in node.operands)
    if node is None or value is None or node.op.name != "eq" or value not in node.operands:
        return False
    other = node.operands[1 - node.operands.index(value)]
    if other is None:
        return False
    clip = other.producer
    if clip is not None and clip.op.name == "clip" and clip.operands[0] is value:
        lo, hi = (None if bound is None else _only(bound) for bound in clip.operands[1:])
        return lo is not None and hi is not None and lo <= number <= hi
    return _only(other) == number


def _only(value: Value) -> int | None:
    """The one element of a constant."""
    weight = value.weight
    return None if weight is None or weight.size != 1 else int(weight.array().reshape(-1)[0])
