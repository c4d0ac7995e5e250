"""Branches whose results have other ranks: each goes on by itself, with all that comes behind it.

Of a value that is of one rank or of another nothing can be said; within a branch it is of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import onnx

from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor

MOST_FORKS: Final = 3
"""Every fork in another doubles what comes behind it."""
MOST_BYTES: Final = 1 << 20
"""More is not put into both branches."""


def forks(proto: Any, results: Sequence[Value | None], rest: Sequence[Any]) -> bool:
    """Whether nodes behind an `If` work with a result of it that has no rank by itself, and there are not too many of them."""
    open = {name for name, value in zip(proto.output, results, strict=False) if value is not None and _unranked(value)}
    return (
        any(not open.isdisjoint(node.input) for node in rest)
        and sum(node.ByteSize() for node in rest) <= MOST_BYTES
    )


def _unranked(value: Value) -> bool:
    node = value.producer
    if node is None or not isinstance(value.type, Tensor) or value.type.shape is not None:
        return False
    ends = [region.outputs[value.index].type for region in node.regions]
    return all(isinstance(end, Tensor) and end.shape is not None for end in ends)


def going_on(proto: Any, rest: Sequence[Any], wanted: Iterable[str]) -> Any:
    """An `If` each of whose branches has the nodes behind it as well.

    Args:
        proto: the `If`.
        rest: the nodes behind it.
        wanted: the names that these make for whoever is around.
    """
    names = list(wanted)
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    made.ClearField("output")
    made.output.extend(names)
    for each in made.attribute:
        ends = [end.name for end in each.g.output]
        each.g.node.extend(
            onnx.NodeProto(op_type="Identity", input=[inner], output=[outer])
            for inner, outer in zip(ends, proto.output, strict=False)
            if outer and outer != inner
        )
        each.g.node.extend(rest)
        each.g.ClearField("output")
        each.g.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return made
