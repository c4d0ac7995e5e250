"""Rules that settle on one of several ways to say the same thing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import bool_, i64
from isthmus.ir.graph import Node, Value
from isthmus.ir.ops.linalg import plain_equation
from isthmus.ir.ops.resize import is_ratio
from isthmus.ir.shape_values import elements
from isthmus.passes.matcher import Match
from isthmus.passes.rules import Rule, on, refuse, rule, sole_producer


@on("floor", "ceil", "round", "trunc")
def whole_already(b: Builder, node: Node) -> Any:
    """Integers are whole."""
    x = node.operands[0]
    return x if x is not None and x.tensor.dtype.is_integer else None


_OF_ONE: Final[dict[str, Callable[[Builder, Value], Value]]] = {"logsumexp": lambda b, x: x, "reduce_l2": lambda b, x: b.abs(x)}


@on(*_OF_ONE)
def along_no_axis(b: Builder, node: Node) -> Any:
    """A reduction of each element by itself."""
    x = node.operands[0]
    if x is None or node.attrs["axes"]:
        return None
    return _OF_ONE[node.op.name](b, x)


@on("max_pool", "max_pool_with_index", "avg_pool")
def rounded_up_to_the_same(b: Builder, node: Node) -> Any:
    """Pooling that rounds up the number of windows where it need not."""
    if not node.attrs["ceil_mode"]:
        return None
    made = b.emit(node.op, node.operands, {**node.attrs, "ceil_mode": False})
    return made.results if [value.type for value in made.results] == [value.type for value in node.results] else None


@on("avg_pool")
def no_padding_to_leave_out(b: Builder, node: Node) -> Any:
    """A mean that leaves out padding that there is not."""
    if node.attrs["count_include_pad"] or any(node.attrs["pads"]):
        return None
    return b.emit(node.op, node.operands, {**node.attrs, "count_include_pad": True}).results


@on("resize")
def scales_that_sizes_tell(b: Builder, node: Node) -> Any:
    """Scales that are the ratios of the sizes, which say them already."""
    x, scales, sizes = node.operands[0], node.attrs["scales"], node.attrs["sizes"]
    shape = None if x is None else x.tensor.shape
    if scales is None or shape is None or not all(map(is_ratio, scales, shape[2:], sizes)):
        return None
    return b.resize(x, **{**node.attrs, "scales": None})


@on("topk")
def all_of_them(b: Builder, node: Node) -> Any:
    """As many of the greatest elements as there are."""
    attrs, x = node.attrs, node.operands[0]
    shape = None if x is None else x.tensor.shape
    if not attrs["sorted"] or shape is None or b.graph.symbols.same(shape[attrs["axis"]], attrs["k"]) is not True:
        return None
    return b.sort(x, axis=attrs["axis"], descending=attrs["largest"], stable=True)


@on("cast")
def either_notation(b: Builder, node: Node) -> Any:
    """Whole numbers are written alike in both notations, and real ones are read alike."""
    x, target = node.operands[0], node.attrs["dtype"]
    if node.attrs["notation"] == "python" or x is None:
        return None
    written = target.kind == "string" and x.tensor.dtype.is_integer
    read = x.tensor.dtype.kind == "string" and target.is_float
    return b.cast(x, **{**node.attrs, "notation": "python"}) if written or read else None


@on("einsum")
def equations(b: Builder, node: Node) -> Any:
    """An equation with spaces, which say nothing, or with capitals, which not every reader knows."""
    equation = plain_equation(node.attrs["equation"])
    return b.einsum(node.operands, equation=equation) if equation != node.attrs["equation"] else None


@rule
def counted_down(p: Any, start: Any, limit: Any, delta: Any) -> Any:
    """A range of integers that is taken from a number, and counts from 0 down where it could count from that number up."""
    return p.range(0, start - limit, -delta)


@counted_down.becomes
def _(b: Builder, m: Match) -> Any:
    uses = list(m.root.result.uses)
    user, index = uses[0] if uses else (None, 0)
    taken = isinstance(user, Node) and user.op.name == "sub" and index == 1 and user.operands[0] is m.start
    if len(uses) != 1 or not taken or not m.start.tensor.dtype.is_integer:
        return refuse("it is not taken from the number at which it would start")
    return b.sub(m.start, b.range(m.start, m.limit, m.delta))


@rule
def taken_twice(p: Any, x: Any, y: Any) -> Any:
    """``x - (x - y)`` of integers."""
    return x - (x - y)


@taken_twice.becomes
def _(b: Builder, m: Match) -> Any:
    return m.y if m.x.tensor.dtype.is_integer else refuse("it would be rounded otherwise")


@partial(Rule, keep=True)
def chosen(p: Any, cond: Any, x: Any, y: Any, *, attrs: Any) -> Any:
    """``c * x + (1 - c) * y`` of integers, where c is 1 for what is true and 0 for what is not."""
    picked = p.cast(cond, attrs=attrs)
    return picked * x + (1 - picked) * y


@chosen.or_
def _one_or(p: Any, cond: Any, y: Any, *, attrs: Any) -> Any:
    picked = p.cast(cond, attrs=attrs)
    return picked + (1 - picked) * y


@chosen.becomes
def _(b: Builder, m: Match) -> Any:
    dtype = m.y.tensor.dtype
    if m.cond.tensor.dtype is not bool_ or not dtype.is_integer:
        return refuse("it is no choice of integers")
    return b.where(m.cond, b.constant(1, dtype) if m.x is None else m.x, m.y)


@on("sub")
def counted_from(b: Builder, node: Node) -> Any:
    """A size less places that are counted from 0: counted from there, the other way."""
    x, y = node.operands
    source = sole_producer(y)
    if source is None or source.op.name != "arange" or node.result.tensor.rank != 1:
        return None
    attrs, number = source.attrs, elements(x)
    counts = attrs["dtype"] is i64 and attrs["start"].__class__ is int and attrs["start"] == 0
    if not counts or number is None or len(number) != 1:
        return None
    return b.arange(start=number[0], stop=number[0] - attrs["stop"], step=-attrs["step"], dtype=i64)


FORMS: Final = (
    whole_already, along_no_axis, rounded_up_to_the_same, no_padding_to_leave_out, scales_that_sizes_tell, all_of_them,
    either_notation, equations, counted_down, taken_twice, chosen, counted_from,
)  # fmt: skip
