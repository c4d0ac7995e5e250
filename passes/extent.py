"""Between which numbers the elements of a value lie, and what a mask of attention leaves of each row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import ml_dtypes
import numpy as np

from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Node, Value
from isthmus.ir.types import Tensor
from isthmus.ir.weights import Array

MAX_DEPTH: Final = 16
"""How far a value is followed back."""
MAX_BYTES: Final = 1 << 24
"""Constants up to this size are looked into."""

Extent: TypeAlias = "tuple[float, float]"
UNKNOWN: Final[Extent] = (-math.inf, math.inf)

_MOVING: Final = frozenset(
    ("identity", "expand", "reshape", "squeeze", "unsqueeze", "permute", "slice", "flip", "roll", "tile", "gather")
)
_ARITHMETIC: Final[dict[str, Callable[[float, float], float]]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "maximum": max, "minimum": min,
}  # fmt: skip


def extent(value: Value | None, depth: int = MAX_DEPTH) -> Extent:
    """Bounds of a value's elements, nan aside; infinite where nothing better is known or an element may be infinite."""
    if value is None or not isinstance(value.type, Tensor):
        return UNKNOWN
    dtype, node = value.type.dtype, value.producer
    if dtype.kind == "bool":
        return 0.0, 1.0
    if not dtype.is_float and not dtype.is_integer:
        return UNKNOWN
    found = UNKNOWN
    if value.weight is not None and value.weight.size and value.weight.nbytes <= MAX_BYTES:
        array = value.weight.array().astype(np.float64)
        found = float(np.fmin.reduce(array, None)), float(np.fmax.reduce(array, None))
    elif node is not None and depth:
        found = _computed(node, depth - 1)
    return _rounded(found, dtype)


def _computed(node: Node, depth: int) -> Extent:
    name = node.op.name
    if name in _MOVING or name == "cast":
        return extent(node.operands[0], depth)
    if name == "neg":
        lo, hi = extent(node.operands[0], depth)
        return -hi, -lo
    if name == "where":
        return _around(bound for operand in node.operands[1:] for bound in extent(operand, depth))
    if name not in _ARITHMETIC:
        return UNKNOWN
    left, right = (extent(operand, depth) for operand in node.operands)
    if not all(map(math.isfinite, (*left, *right))):
        return UNKNOWN
    return _around(_ARITHMETIC[name](x, y) for x in left for y in right)


def _around(numbers: Iterable[float]) -> Extent:
    found = list(numbers)
    return UNKNOWN if any(map(math.isnan, found)) else (min(found), max(found))


def _rounded(found: Extent, dtype: DType) -> Extent:
    """What becomes of an extent in an element type: integers wrap, floats overflow."""
    lo, hi = found
    if dtype.is_integer:
        least, most = map(float, dtype.limits)
        return found if least <= lo and hi <= most else (least, most)
    most = float(ml_dtypes.finfo(dtype.numpy).max)
    return lo if lo >= -most else -math.inf, hi if hi <= most else math.inf


def leaves_something(mask: Value, hidden: bool = False) -> bool:
    """Whether a mask surely hides no row whole, of which a softmax would make nan.

    Args:
        mask: added to the scores, when it is of floats; else it says what is kept.
        hidden: a mask of bools says what is hidden.
    """
    added = mask.tensor.dtype.is_float
    if added and extent(mask)[0] >= _least(mask.tensor.dtype):
        return True
    node = mask.producer
    while node is not None and node.op.name in ("expand", "unsqueeze") and _keeps_rows(node):
        mask = node.operands[0]  # type: ignore[assignment]
        node = mask.producer
    if added and node is not None and node.op.name == "trilu" and node.attrs["upper"]:
        diagonal = node.attrs["diagonal"]
        return isinstance(diagonal, int) and diagonal >= 1  # the first column is zeros
    shown = _shown(mask, hidden)
    return shown is not None and bool(shown.any(-1).all())


def _least(dtype: DType) -> float:
    """The least number that leaves something of a score that it is added to."""
    most = float(ml_dtypes.finfo(dtype.numpy).max)
    # A half has so little room that scores and a mask of its least number may add up to minus infinity.
    return -most if most > 1e6 else -most / 2


def _shown(mask: Value, hidden: bool) -> Array | None:
    """What a constant mask leaves, as bools."""
    weight = mask.weight
    if weight is None or weight.nbytes > MAX_BYTES or not weight.shape:
        return None
    array = weight.array()
    shown: Array = array.astype(np.float64) >= _least(weight.dtype) if weight.dtype.is_float else array.astype(bool) ^ hidden
    return shown


def _keeps_rows(node: Node) -> bool:
    """Whether the last two axes are those of the operand."""
    before, after = node.operands[0].tensor.shape, node.results[0].tensor.shape  # type: ignore[union-attr]
    return before is not None and after is not None and len(before) > 1 and before[-2:] == after[-2:]
