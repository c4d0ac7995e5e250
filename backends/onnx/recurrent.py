"""Emitters of recurrent layers, whose rows are ONNX's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, maximum
from isthmus.ir.graph import Node, Value
from isthmus.ir.ops.recurrent import DIRECTIONS


@emits("lstm", "gru", "rnn")
def _recurrent(
    e: Emitter, node: Node, x: str, weight: str, recurrence: str, bias: str | None, lengths: str | None, *state: str | None
) -> Any:
    name, attrs, size = node.op.name, node.attrs, shape_of(node, 2)[2]
    if state[2:] not in ((), (None,)):
        refuse("ONNX has no projection of the hidden state")
    if node.results[0].tensor.dtype is dtypes.f64:
        refuse(f"onnxruntime's kernel of {name.upper()} refuses f64, though it is listed for it")
    if not isinstance(size, int):
        refuse("the size of the hidden state is not known")
    if any(_lacking(shape_of(node))):
        refuse("onnxruntime ends the process, or loses the state, where there are no steps or no rows")
    if lengths is not None and node.operands[4] is not None and node.operands[4].tensor.dtype is not dtypes.i32:
        lengths = e.op("Cast", lengths, to=opsets.enum(dtypes.i32))
    more: dict[str, Any] = {}
    if name == "gru":
        more["linear_before_reset"] = int(attrs["linear_before_reset"])
    elif name == "rnn" and attrs["activation"] != "tanh":
        more["activations"] = ["Relu"] * len(DIRECTIONS[attrs["direction"]])
    return e.op(
        name.upper(), x, weight, recurrence, bias, lengths, *state[:2], results=len(node.results),
        hidden_size=size, direction=attrs["direction"], **more,
    )  # fmt: skip


def _lacking(shape: Sequence[Dim]) -> list[int]:
    """How many steps and rows x lacks so that there surely is one of each."""
    return [int(bounds(dim)[0] < 1) for dim in shape[:2]]


@lowers("gru", "rnn")
def _padded(
    b: Builder, node: Node, x: Value, weight: Value, recurrence: Value, bias: Value | None, lengths: Value | None,
    *state: Value | None,
) -> Any:  # fmt: skip
    """With a step and a row more, which are cut off again; without any step, the state is the one from before."""
    dtype, shape = x.tensor.dtype, shape_of(node)
    steps, rows = _lacking(shape)
    if dtype is not dtypes.f32 or not (steps or rows):
        return None
    time, batch = shape[:2]
    if steps and lengths is None:
        lengths = b.expand(b.size(maximum(time, 1)), shape=[batch])
    given = state[: len(node.results) - 1]
    wide = [each if each is None else b.pad(each, before=[0, 0, 0], after=[0, rows, 0]) for each in given]
    ends = lengths if lengths is None else b.pad(lengths, b.constant(1, lengths.tensor.dtype), before=[0], after=[rows])
    x = b.pad(x, before=[0, 0, 0], after=[steps, rows, 0])
    y, *last = getattr(b, node.op.name)(x, weight, recurrence, bias, ends, *wide, **node.attrs)
    y = b.slice(y, axes=[0, 2], starts=[0, 0], ends=[time, batch], steps=[1, 1])
    last = [b.slice(each, axes=[1], starts=[0], ends=[batch], steps=[1]) for each in last]
    if steps:
        nothing = b.eq(b.size(time), 0)
        last = [b.where(nothing, 0.0 if old is None else old, new) for old, new in zip(given, last, strict=True)]
    return [y, *last]


@lowers("lstm")
def _projected(
    b: Builder, node: Node, x: Value, weight: Value, recurrence: Value, bias: Value | None, lengths: Value | None,
    hidden: Value | None, cell: Value | None, projection: Value | None,
) -> Any:  # fmt: skip
    """The state before it is projected: what it adds to the gates is the product of both matrices, and what is given out is
    projected afterwards. Not from a state that is handed over, which need not be the projection of any."""
    if projection is None:
        return _padded(b, node, x, weight, recurrence, bias, lengths, hidden, cell)
    if hidden is not None or x.tensor.dtype is dtypes.f64:
        return None
    y, last, cell = b.lstm(x, weight, b.matmul(recurrence, projection), bias, lengths, None, cell, **node.attrs)
    turned = b.permute(projection, perm=[0, 2, 1])
    return b.matmul(y, turned), b.matmul(last, turned), cell
