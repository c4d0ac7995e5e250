"""Between what numbers the elements of a value lie, whatever the inputs: enough to answer some branches on data.

A mask of ones that is padded with zeros, say, lies between 0 and 1, and whether one of its elements is above 1 is known.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from isthmus.ir.dims import bounds
from isthmus.ir.dtypes import DType, bool_
from isthmus.ir.graph import Node, Value
from isthmus.ir.types import Tensor

Span: TypeAlias = "tuple[float, float]"
"""The least and the greatest number that an element may be; no element is nan."""
Rule: TypeAlias = "Callable[[Node, list[Span]], Span | None]"

_LARGEST: Final = 1 << 16
"""The number of elements up to which a constant is looked through."""
_TRUTH: Final = (0, 1)


def span_of(value: Value, found: dict[Value, Span | None]) -> Span | None:
    """Between what the elements of a value lie; None where nothing is known.

    Args:
        value: a tensor value.
        found: what was worked out before; added to.
    """
    stack = [value]
    while stack:
        top = stack[-1]
        if top in found:
            stack.pop()
            continue
        rule = None if top.producer is None else RULES.get(top.producer.op.name)
        used = [] if rule is None else _used(top)
        missing = [each for each in used if each not in found]
        if missing:
            stack += missing
            continue
        found[top] = _checked(top, rule, [found[each] for each in used])
    return found[value]


def _used(value: Value) -> list[Value]:
    node = value.producer
    assert node is not None
    operands = [operand for operand in node.operands if operand is not None]
    return operands[: _READ.get(node.op.name, len(operands))]


def _checked(value: Value, rule: Rule | None, spans: list[Span | None]) -> Span | None:
    """A rule's answer, held to the element type."""
    if not isinstance(value.type, Tensor):
        return None
    dtype = value.type.dtype
    known = [span for span in spans if span is not None]
    node = value.producer
    result = rule(node, known) if rule is not None and node is not None and len(known) == len(spans) else None
    if result is None or not all(map(math.isfinite, result)):
        return _TRUTH if dtype is bool_ else None
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return result if info.min <= result[0] and result[1] <= info.max else None
    return result


def _number(node: Node) -> DType:
    return node.result.tensor.dtype


def _constant(node: Node, spans: list[Span]) -> Span | None:
    weight = node.attrs["value"]
    if not 0 < weight.size <= _LARGEST or not (weight.dtype.is_float or weight.dtype.is_integer or weight.dtype is bool_):
        return None
    array = weight.array()
    least, greatest = array.min().item() + 0, array.max().item() + 0
    return (least, greatest) if least == least else None


def _union(node: Node, spans: list[Span]) -> Span | None:
    """Every element is one of an operand's."""
    return (min(lo for lo, _ in spans), max(hi for _, hi in spans)) if spans else None


def _with_zero(node: Node, spans: list[Span]) -> Span | None:
    return _union(node, [*spans, (0, 0)])


def _pad(node: Node, spans: list[Span]) -> Span | None:
    return _union(node, spans) if len(spans) > 1 or node.attrs["mode"] != "constant" else _with_zero(node, spans)


def _corners(function: Callable[[Any, Any], Any]) -> Rule:
    """A function that is monotone in each of its arguments, rounding included, is greatest and least at the ends."""

    def rule(node: Node, spans: list[Span]) -> Span | None:
        kind = np.dtype(object) if _number(node).is_integer else np.dtype(_number(node).numpy)
        if _number(node).is_complex or _number(node) is bool_:
            return None
        with np.errstate(all="ignore"):
            left, right = (np.array(span).astype(kind) for span in spans)
            ends = [function(a, b) for a in left for b in right]
        return (type(spans[0][0])(min(ends)), type(spans[0][0])(max(ends))) if all(e == e for e in ends) else None

    return rule


def _neg(node: Node, spans: list[Span]) -> Span | None:
    ((lo, hi),) = spans
    return -hi, -lo


def _cast(node: Node, spans: list[Span]) -> Span | None:
    ((lo, hi),) = spans
    dtype = _number(node)
    if dtype is bool_:
        return (1, 1) if lo > 0 or hi < 0 else (0, 0) if lo == hi == 0 else _TRUTH
    if dtype.is_integer:
        return int(lo), int(hi)
    return None if dtype.is_complex else (float(np.array(lo).astype(dtype.numpy)), float(np.array(hi).astype(dtype.numpy)))


def _compared(always: Callable[[Span, Span], bool], never: Callable[[Span, Span], bool]) -> Rule:
    def rule(node: Node, spans: list[Span]) -> Span | None:
        left, right = spans
        return (1, 1) if always(left, right) else (0, 0) if never(left, right) else _TRUTH

    return rule


def _less(left: Span, right: Span) -> bool:
    return left[1] < right[0]


def _at_most(left: Span, right: Span) -> bool:
    return left[1] <= right[0]


def _flipped(test: Callable[[Span, Span], bool]) -> Callable[[Span, Span], bool]:
    return lambda left, right: test(right, left)


def _equal(left: Span, right: Span) -> bool:
    return left == right and left[0] == left[1]


def _apart(left: Span, right: Span) -> bool:
    return _less(left, right) or _less(right, left)


def _where(node: Node, spans: list[Span]) -> Span | None:
    condition, *sides = spans
    return sides[0] if condition == (1, 1) else sides[1] if condition == (0, 0) else _union(node, sides)


def _both(node: Node, spans: list[Span]) -> Span | None:
    (a, b), (c, d) = spans
    return min(a, c), min(b, d)


def _either(node: Node, spans: list[Span]) -> Span | None:
    (a, b), (c, d) = spans
    return max(a, c), max(b, d)


def _not(node: Node, spans: list[Span]) -> Span | None:
    ((lo, hi),) = spans
    return 1 - hi, 1 - lo


def _reduced(empty: int) -> Rule:
    """`empty` is the answer where there are no elements, as there may be."""

    def rule(node: Node, spans: list[Span]) -> Span | None:
        x = node.operands[0]
        assert x is not None
        shape = x.tensor.shape
        some = shape is not None and all(bounds(shape[axis])[0] > 0 for axis in node.attrs["axes"])
        return _union(node, spans if some else [*spans, (empty, empty)])

    return rule


_SAME: Final = (
    "identity", "expand", "reshape", "permute", "slice", "squeeze", "unsqueeze", "flip", "tile", "roll", "gather", "split",
    "dynamic_slice", "dynamic_reshape", "dynamic_expand", "reduce_max", "reduce_min", "diagonal",
)  # fmt: skip
_READ: Final = dict.fromkeys(("gather", "dynamic_slice", "dynamic_reshape", "dynamic_expand"), 1)
"""How many of the operands the elements come from, where not all."""

RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_SAME, _union),
    "constant": _constant,
    "concat": _union,
    "pad": _pad,
    "trilu": _with_zero,
    "cast": _cast,
    "add": _corners(operator.add),
    "sub": _corners(operator.sub),
    "mul": _corners(operator.mul),
    "neg": _neg,
    "minimum": _both,
    "maximum": _either,
    "lt": _compared(_less, _flipped(_at_most)),
    "le": _compared(_at_most, _flipped(_less)),
    "gt": _compared(_flipped(_less), _at_most),
    "ge": _compared(_flipped(_at_most), _less),
    "eq": _compared(_equal, _apart),
    "ne": _compared(_apart, _equal),
    "where": _where,
    "logical_and": _both,
    "logical_or": _either,
    "logical_not": _not,
    "reduce_any": _reduced(0),
    "reduce_all": _reduced(1),
}
"""By op: between what the result lies, from what is known of the operands, all of which must be known."""
