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
from isthmus.ir.ops.recurrent import DIRECTIONS, Recurrent


@emits("lstm", "gru", "rnn")
def _recurrent(
    e: Emitter, node: Node, x: str, weight: str, recurrence: str, bias: str | None, lengths: str | None,
    hidden: str | None, cell: str | None = None, projection: str | None = None, peepholes: str | None = None,
) -> Any:  # fmt: skip
    name, attrs, size = node.op.name, node.attrs, shape_of(node, 2)[2]
    if projection is not None:
        refuse("ONNX has no projection of the hidden state")
    if node.results[0].tensor.dtype is dtypes.f64:
        refuse(f"onnxruntime's kernel of {name.upper()} refuses f64, though it is listed for it")
    if not isinstance(size, int):
        refuse("the size of the hidden state is not known")
    if any(_lacking(shape_of(node))):
        refuse("onnxruntime ends the process, or loses the state, where there are no steps or no rows")
    if lengths is not None and node.operands[4] is not None and node.operands[4].tensor.dtype is not dtypes.i32:
        lengths = e.op("Cast", lengths, to=opsets.enum(dtypes.i32))
    more: dict[str, Any] = {"clip": attrs["clip"], **_activations(node)}
    state = [hidden, cell, peepholes] if name == "lstm" else [hidden]
    if name == "gru":
        more["linear_before_reset"] = int(attrs["linear_before_reset"])
    elif name == "lstm" and attrs["input_forget"]:
        more["input_forget"] = 1
    return e.op(
        name.upper(), x, weight, recurrence, bias, lengths, *state, results=len(node.results),
        hidden_size=size, direction=attrs["direction"], **more,
    )  # fmt: skip


def _activations(node: Node) -> dict[str, Any]:
    """The attributes for other functions than the usual ones, for all directions; those without parameters have none in the
    lists of these."""
    given, directions = node.attrs["activations"], len(DIRECTIONS[node.attrs["direction"]])
    if given is None:
        return {}
    op = node.op
    assert isinstance(op, Recurrent)
    every = [each for number in range(directions) for each in op.functions(node.call(), number)]
    alphas, betas = ([each[place] for each in every if len(each) > place] for place in (1, 2))
    names = ["".join(word.capitalize() for word in each[0].split("_")) for each in every]
    return {"activations": names, "activation_alpha": alphas or None, "activation_beta": betas or None}


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
    more = state[len(node.results) - 1 :]
    y, *last = getattr(b, node.op.name)(x, weight, recurrence, bias, ends, *wide, *more, **node.attrs)
    y = b.slice(y, axes=[0, 2], starts=[0, 0], ends=[time, batch], steps=[1, 1])
    last = [b.slice(each, axes=[1], starts=[0], ends=[batch], steps=[1]) for each in last]
    if steps:
        nothing = b.eq(b.size(time), 0)
        last = [b.where(nothing, 0.0 if old is None else old, new) for old, new in zip(given, last, strict=True)]
    return [y, *last]


@lowers("lstm")
def _projected(
    b: Builder, node: Node, x: Value, weight: Value, recurrence: Value, bias: Value | None, lengths: Value | None,
    hidden: Value | None, cell: Value | None, projection: Value | None, peepholes: Value | None,
) -> Any:  # fmt: skip
    """The state before it is projected: what it adds to the gates is the product of both matrices, and what is given out is
    projected afterwards. Not from a state that is handed over, which need not be the projection of any."""
    if projection is None:
        return _padded(b, node, x, weight, recurrence, bias, lengths, hidden, cell, None, peepholes)
    if hidden is not None or x.tensor.dtype is dtypes.f64:
        return None
    product = b.matmul(recurrence, projection)
    y, last, cell = b.lstm(x, weight, product, bias, lengths, None, cell, None, peepholes, **node.attrs)
    turned = b.permute(projection, perm=[0, 2, 1])
    return b.matmul(y, turned), b.matmul(last, turned), cell
