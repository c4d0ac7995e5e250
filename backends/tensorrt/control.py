"""Emitters of control flow and effects.

TensorRT has no nested graphs: what a loop or a branch holds is what hangs on its boundary layers.
"""

from __future__ import annotations

from typing import Any

from isthmus.backends.tensorrt.emitter import Emitter
from isthmus.backends.tensorrt.table import emits, refuse
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, maximum, minimum, symbols
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.shape_values import elements


@emits("if")
def _if(e: Emitter, node: Node, cond: Any) -> Any:
    if e.probing:
        return None
    conditional = e.network.add_if_conditional()
    conditional.set_condition(e.reshape(cond, ()))
    branches = [_branch(e, conditional, region) for region in node.regions]
    found = []
    for then, other in zip(*branches, strict=True):
        found.append(e.finish(conditional.add_output(then, other)))
    return tuple(found)


def _branch(e: Emitter, conditional: Any, region: Graph) -> list[Any]:
    """The tensors that a branch makes; outer values come in through layers of the conditional."""
    captured = list(region.captured())
    outer = [e.tensor(value) for value in captured if value.weight is None]
    values = [value for value in captured if value.weight is None]
    for value, tensor in zip(values, outer, strict=True):
        e.define(value, e.finish(conditional.add_input(tensor)))
    found = [tensor if e.is_made_in(region, value) else e.add("identity", tensor)
             for value, tensor in zip(region.outputs, e.body(region), strict=True)]  # fmt: skip
    for value, tensor in zip(values, outer, strict=True):
        e.define(value, tensor)
    return found


@emits("loop")
def _loop(e: Emitter, node: Node, trip: Any, cond: Any, inputs: list[Any]) -> Any:
    carried = node.attrs["carried"]
    (body,) = node.regions
    values = [value for value in node.operands[2:] if value is not None]
    stacked = node.results[carried:]
    for argument, value in zip(body.inputs[1 : 1 + carried], values, strict=False):
        if not _same_shape(node, argument, value):
            refuse("a carried value changes its size from turn to turn, which TensorRT does not allow")
    if stacked and _turns(node, stacked[0]) is None:
        refuse("how often it turns depends on data, and TensorRT must know how long stacked results are",
               "turn as often as an input is long, or keep the last value alone")  # fmt: skip
    return None if e.probing else _emit_loop(e, node, body, cond, inputs)


def _same_shape(node: Node, left: Value, right: Value) -> bool:
    assert node.graph is not None
    symbols_, pairs = node.graph.symbols, zip(left.tensor.shape or (), right.tensor.shape or (), strict=True)
    return all(symbols_.same(one, other) is True for one, other in pairs)


def _turns(node: Node, stacked: Value) -> Dim | None:
    """How often a loop turns, where sizes tell; None where its result alone does."""
    (turns, *_) = stacked.tensor.shape or ()
    given = [dim for value in node.operands if value is not None for dim in value.tensor.shape or ()]
    trip = None if node.operands[0] is None else elements(node.operands[0])
    outside = {symbol for dim in (*given, *(trip or ())) for symbol in symbols(dim)}
    return turns if set(symbols(turns)) <= outside else None


def _emit_loop(e: Emitter, node: Node, body: Graph, cond: Any, inputs: list[Any]) -> Any:
    trt, carried = e.trt, node.attrs["carried"]
    trip, values = node.operands[0], [value for value in node.operands[2:] if value is not None]
    stacked = node.results[carried:]
    limits: list[Dim] = [(value.tensor.shape or ())[0] for value in values[carried : carried + 1]]
    known = None if trip is None else elements(trip)
    limits += [] if known is None else [maximum(known[0], 0)]
    turns = _turns(node, stacked[0]) if stacked else minimum(*limits) if limits else None
    loop = e.network.add_loop()
    if turns is not None:
        e.finish(loop.add_trip_limit(e.cast(e.sizes.scalar(turns), dtypes.i32), trt.TripLimit.COUNT), results=0)
    turn = loop.add_recurrence(e.constant(0, dtypes.i64))
    states = [loop.add_recurrence(tensor) for tensor in inputs[:carried]]
    e.define(body.inputs[0], e.finish(turn))
    for argument, layer in zip(body.inputs[1:], states, strict=False):
        e.define(argument, e.finish(layer))
    for argument, tensor in zip(body.inputs[1 + carried :], inputs[carried:], strict=True):
        e.define(argument, e.finish(loop.add_iterator(tensor)))
    # What may end it early: its own condition, and a number of turns that is data, which no trip limit takes.
    early = None if known is not None or trip is None else e.reshape(e.tensor(trip), ())
    going = None
    if not stacked:
        start = e.constant(True, dtypes.bool_) if cond is None else e.reshape(cond, ())
        going = loop.add_recurrence(start)
        go_on = e.finish(going)
        if early is not None:
            go_on = e.binary("AND", go_on, e.binary("LESS", turn.get_output(0), early))
        e.finish(loop.add_trip_limit(go_on, trt.TripLimit.WHILE), results=0)
    outputs = e.body(body)
    turn.set_input(1, e.binary("SUM", turn.get_output(0), e.constant(1, dtypes.i64)))
    if going is not None:
        going.set_input(1, e.reshape(outputs[0], ()))
    for layer, tensor in zip(states, outputs[1:], strict=False):
        layer.set_input(1, tensor)
    found = [e.finish(loop.add_loop_output(layer.get_output(0), trt.LoopOutput.LAST_VALUE, 0)) for layer in states]
    for tensor in outputs[1 + carried :]:
        layer = loop.add_loop_output(tensor, trt.LoopOutput.CONCATENATE, 0)
        assert turns is not None
        found.append(e.finish(layer, inputs={1: e.cast(e.sizes.scalar(turns), dtypes.i32)}))
    return tuple(found)


@emits("check", "print")
def _left_out(e: Emitter, node: Node, x: Any) -> Any:
    """Nothing: `Emitter.body` tells the user."""
