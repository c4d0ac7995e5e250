"""Emitters of recurrent layers, whose rows are ONNX's own."""

from __future__ import annotations

from typing import Any

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
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


@lowers("lstm")
def _projected(
    b: Builder, node: Node, x: Value, weight: Value, recurrence: Value, bias: Value | None, lengths: Value | None,
    hidden: Value | None, cell: Value | None, projection: Value | None,
) -> Any:  # fmt: skip
    """The state before it is projected: what it adds to the gates is the product of both matrices, and what is given out is
    projected afterwards. Not from a state that is handed over, which need not be the projection of any."""
    if projection is None or hidden is not None or x.tensor.dtype is dtypes.f64:
        return None
    y, last, cell = b.lstm(x, weight, b.matmul(recurrence, projection), bias, lengths, None, cell, **node.attrs)
    turned = b.permute(projection, perm=[0, 2, 1])
    return b.matmul(y, turned), b.matmul(last, turned), cell
