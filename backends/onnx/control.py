"""Emitters of control flow, effects, whole modules and ops from other domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import FUNCTIONS, Emitter
from isthmus.backends.onnx.table import emits, refuse
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, alike, bounds, symbols
from isthmus.ir.graph import Node, Value
from isthmus.ir.types import Tensor


@emits("if")
def _if(e: Emitter, node: Node, cond: str) -> Any:
    if e.opset < 11 and any(
        isinstance(a.type, Tensor) and isinstance(b.type, Tensor) and not alike(a.type.shape, b.type.shape)
        for a, b in zip(*(region.outputs for region in node.regions), strict=True)
    ):
        refuse("branches whose results have other sizes need opset 11")
    then, otherwise = (e.subgraph(region) for region in node.regions)
    found = e.op("If", cond, results=len(node.results), then_branch=then, else_branch=otherwise)
    return (found,) if len(node.results) == 1 else found


@emits("loop")
def _loop(e: Emitter, node: Node, trip: str | None, cond: str | None, inputs: list[str]) -> Any:
    carried = node.attrs["carried"]
    if _is_scan(e, node):
        return _scan(e, node, inputs)
    scanned = list(zip(inputs[carried:], [value for value in node.operands[2 + carried :] if value is not None], strict=True))
    for _, value in scanned[:1]:
        length = (value.tensor.shape or ())[0]
        trip = e.sizes.scalar(length) if trip is None else _fewer(e, trip, length)
    if cond is None and not carried:
        cond = e.constant(True, dtypes.bool_)  # a Loop has two inputs at least
    (body,) = node.regions

    def enter(proto: Any) -> Sequence[Value]:
        """ONNX's body is told the condition as well, and has no scanned inputs: they are gathered by the turn's number."""
        iteration, *arguments = body.inputs
        e.argument(proto, iteration)
        condition = onnx.ValueInfoProto(name=e.unique("condition"), type=opsets.type_proto(Tensor(dtypes.bool_, ())))
        proto.input.append(condition)
        for argument, (name, _) in zip(arguments[carried:], scanned, strict=True):
            e.define(argument, e.op("Gather", name, e.name(iteration), axis=0))
        return arguments[:carried]

    inner = e.subgraph(body, enter)
    initial = inputs[:carried]
    if lone := e.opset < 11 and not carried:  # a Loop carries something there
        initial = [e.constant(True, dtypes.bool_)]
        if inner is not None:
            _carry_along(e, inner)
    made = e.op("Loop", trip, cond, *initial, results=len(node.results) + lone, body=inner)
    found = [made] if isinstance(made, str) else list(made)[lone:]
    for index in range(carried, len(found)):
        found[index] = _stacked(e, node, node.results[index], found[index])
    return tuple(found)


def _is_scan(e: Emitter, node: Node) -> bool:
    """Whether a loop is a `Scan`: one turn for each slice, of which onnxruntime wants one at least, all carried values of one
    type."""
    carried, (body,), (trip, cond) = node.attrs["carried"], node.regions, node.operands[:2]
    given = [value for value in node.operands[2:] if value is not None]
    iteration, *arguments = body.inputs
    if e.opset < 9 or trip is not None or cond is not None or iteration.uses or not given[carried:] or len(body.outputs) < 2:
        return False
    on = body.outputs[0].source.weight
    if on is None or not on.array() or not e.profile.has("Scan"):
        return False
    some = all(bounds((value.tensor.shape or (0,))[0])[0] >= 1 for value in given[carried:])
    triples = zip(given[:carried], arguments, body.outputs[1:], strict=False)
    return (some or e.keep_ops or e.profile.base == "onnx") and all(a.type == b.type == c.type for a, b, c in triples)


def _scan(e: Emitter, node: Node, inputs: list[str]) -> Any:
    (body,) = node.regions

    def enter(proto: Any) -> Sequence[Value]:
        return body.inputs[1:]

    inner = e.subgraph(body, enter, body.outputs[1:])
    count = len(inputs) - node.attrs["carried"]
    found = e.op("Scan", *inputs, results=len(node.results), body=inner, num_scan_inputs=count)
    return (found,) if len(node.results) == 1 else tuple(found)


def _fewer(e: Emitter, trip: str, length: Dim) -> str:
    """The least of two numbers of turns."""
    if e.opset >= 12:
        return e.sizes.extreme("min", trip, e.sizes.scalar(length))
    least = e.sizes.extreme("min", e.op("Unsqueeze", trip, e.ints([0])), e.sizes.vector([length]))
    return str(e.op("Squeeze", least, e.ints([0])))


def _carry_along(e: Emitter, body: Any) -> None:
    """Has a body carry a bool that nothing looks at."""
    given, kept = (
        onnx.ValueInfoProto(name=e.unique("carried"), type=opsets.type_proto(Tensor(dtypes.bool_, ()))) for _ in range(2)
    )
    body.input.append(given)
    body.node.add(op_type="Identity", name=kept.name, input=[given.name], output=[kept.name])
    outputs = [body.output[0], kept, *body.output[1:]]
    del body.output[:]
    body.output.extend(outputs)


def _stacked(e: Emitter, node: Node, value: Value, name: str) -> str:
    """A scan output with the sizes that it has after no turn, too, where onnxruntime takes those not known to it for 0."""
    shape = value.tensor.shape if isinstance(value.type, Tensor) else None
    if e.opset < 14 or not shape or bounds(shape[0])[0] >= 1 or all(isinstance(size, int) for size in shape[1:]):
        return name
    binders = (e.binders.get(symbol) for size in shape for symbol in symbols(size))
    if any(binder is None or binder[0].producer is node for binder in binders):
        return name
    return str(e.op("Reshape", name, e.sizes.vector(shape), allowzero=1))


@emits("composite", since=15)
def _composite(e: Emitter, node: Node, inputs: list[str]) -> Any:
    if not e.keep_functions:
        refuse("whole modules are taken apart unless keep_functions is set")
    found = e.op(e.function(node.attrs["name"], node.regions[0]), *inputs, results=len(node.results), domain=FUNCTIONS)
    return (found,) if len(node.results) == 1 else found


@emits("check", "print")
def _left_out(e: Emitter, node: Node, x: str) -> Any:
    """Nothing: `Emitter.body` tells the user."""


