"""Rules that settle on one of several ways to say the same thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value
from isthmus.passes.rules import on


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


FORMS: Final = (whole_already, along_no_axis, rounded_up_to_the_same, no_padding_to_leave_out)
