"""Rules for loops: what every turn finds as it was is no carried value, and what turns pick one after the other is scanned."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.shape_values import elements
from isthmus.ir.types import Tensor
from isthmus.passes.rules import on


def _again(b: Builder, node: Node, body: Graph, trip: Value | None, inputs: list[Value | None], carried: int) -> list[Value]:
    """The loop's results with another body, as a list."""
    cond = node.operands[1]
    return list(b.emit(node.op, [trip, cond, *inputs], {"carried": carried}, [body]).results)


@on("loop")
def always_begun(b: Builder, node: Node) -> Any:
    """A loop of which nothing decides whether there is a first turn but that it is told so."""
    trip, cond, *inputs = node.operands
    if cond is None or cond.weight is None or not bool(cond.weight.array().all()):
        return None
    return b.emit(node.op, [trip, None, *inputs], node.attrs, [node.regions[0].clone()]).results


@on("loop")
def not_carried(b: Builder, node: Node) -> Any:
    """Values that every turn hands on as it got them: each turn may as well use the initial one."""
    carried, body = node.attrs["carried"], node.regions[0]
    trip, _, *inputs = node.operands
    ends = zip(inputs[:carried], body.inputs[1:], body.outputs[1:], strict=False)
    same = {
        place: given for place, (given, argument, output) in enumerate(ends)
        if output is argument and given is not None and given.type == argument.type
    }  # fmt: skip
    if not same:
        return None
    body = body.clone()
    for place, given in same.items():
        body.inputs[1 + place].replace_by(given)
    body.set_outputs([output for index, output in enumerate(body.outputs) if index - 1 not in same])
    for place in sorted(same, reverse=True):
        body.remove_input(1 + place)
    rest = [value for place, value in enumerate(inputs) if place not in same]
    found = iter(_again(b, node, body, trip, rest, carried - len(same)))
    return [same[place] if place in same else next(found) for place in range(len(node.results))]


@on("loop")
def scanned(b: Builder, node: Node) -> Any:
    """Tensors of which turn i takes the i-th part, as many as there are turns: each turn is handed its part."""
    trip, _, *inputs = node.operands
    body = node.regions[0]
    found = {
        user for user, index in body.inputs[0].uses
        if isinstance(user, Node) and user.op.name == "gather" and index == 1 and user.graph is body and _along(b, node, user)
    }  # fmt: skip
    if not found:
        return None
    mapping: dict[Value, Value] = {}
    parts = [part for part in body.nodes if part in found]
    lengths = [_length(part) for part in parts]
    body = body.clone(mapping)
    for part in parts:
        twin = mapping[part.result]
        source = twin.producer
        twin.replace_by(body.add_input(twin.type))
        assert source is not None
        source.erase()
        inputs.append(part.operands[0])
    return _again(b, node, body, _rest(b, trip, lengths[0]), inputs, node.attrs["carried"])


def _length(part: Node) -> Dim:
    shape = part.operands[0].tensor.shape if part.operands[0] is not None else None
    assert shape
    return shape[0]


def _along(b: Builder, node: Node, part: Node) -> bool:
    """Whether a gather in the body takes a part, along the first axis, of a tensor that has one for every turn."""
    x, (trip, _, *inputs) = part.operands[0], node.operands
    if x is None or x.owner is node.regions[0] or not isinstance(x.type, Tensor) or not x.tensor.shape:
        return False
    if part.attrs["axis"] not in (0, -x.tensor.rank):
        return False
    length, same = _length(part), b.graph.symbols.same
    before = inputs[node.attrs["carried"]] if len(inputs) > node.attrs["carried"] else None
    if before is not None:
        return same(before.tensor.shape[0], length) is True
    return trip is not None and (_is(b, trip, length) or _least(b, trip, length) is not None)


def _is(b: Builder, value: Value | None, length: Dim) -> bool:
    """Whether an integer is surely this size."""
    known = elements(value)
    return known is not None and len(known) == 1 and b.graph.symbols.same(known[0], length) is True


def _least(b: Builder, trip: Value, length: Dim) -> Value | None:
    """The other number, where a number of turns is the least of a length and of it."""
    node = trip.producer
    if node is None or node.op.name != "minimum":
        return None
    x, y = node.operands
    return x if _is(b, y, length) else y if _is(b, x, length) else None


def _rest(b: Builder, trip: Value | None, length: Dim) -> Value | None:
    """What still bounds the turns of a loop that ends with what is scanned."""
    return None if trip is None or _is(b, trip, length) else _least(b, trip, length) or trip


@on("loop")
def no_turn(b: Builder, node: Node) -> Any:
    """A loop that surely ends before its first turn gives the initial values, and stacks of nothing."""
    trip, _, *inputs = node.operands
    carried = node.attrs["carried"]
    none = [_is(b, trip, 0), *(value is not None and value.tensor.shape[:1] == (0,) for value in inputs[carried:])]  # type: ignore[index]
    stacks: list[Value] = []
    for value in node.results[carried:] if any(none) else ():
        shape = [dim for dim in (value.tensor.shape or ())[1:] if isinstance(dim, int)]
        if len(shape) + 1 < value.tensor.rank:
            return None
        stacks.append(b.constant(np.zeros((0, *shape), value.tensor.dtype.numpy)))
    return [*inputs[:carried], *stacks] if any(none) else None


LOOPS: Final = (no_turn, always_begun, not_carried, scanned)
