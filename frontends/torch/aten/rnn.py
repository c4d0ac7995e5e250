"""Recurrent layers, as loops over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor

Step = Callable[[Builder, list[Value], Value, Value], list[Value]]
"""One step of a cell: builder, state, the input's share and the state's share of the gates -> the new state."""


def _gates(b: Builder, *shares: Value, count: int) -> tuple[list[Value], ...]:
    """Each share split into gates."""
    found = []
    for share in shares:
        size = share.tensor.shape[1]  # type: ignore[index]
        found.append(list(b.split(share, axis=1, sizes=[size // count] * count)))
    return tuple(found)


def _lstm(b: Builder, state: list[Value], x: Value, h: Value) -> list[Value]:
    (gates,) = _gates(b, b.add(x, h), count=4)
    enter, forget, output = (b.sigmoid(gates[number]) for number in (0, 1, 3))
    cell = b.add(b.mul(forget, state[1]), b.mul(enter, b.tanh(gates[2])))
    return [b.mul(output, b.tanh(cell)), cell]


def _gru(b: Builder, state: list[Value], x: Value, h: Value) -> list[Value]:
    ours, theirs = _gates(b, x, h, count=3)
    reset, update = (b.sigmoid(b.add(ours[number], theirs[number])) for number in (0, 1))
    new = b.tanh(b.add(ours[2], b.mul(reset, theirs[2])))
    return [b.add(new, b.mul(update, b.sub(state[0], new)))]


def _plain(activation: str) -> Step:
    return lambda b, state, x, h: [getattr(b, activation)(b.add(x, h))]


def _direction(
    w: Lowering, x: Value, state: list[Value], weights: Sequence[Value | None], step: Step, back: bool
) -> list[Value]:
    """One direction of one layer over ``x[T, B, I]``: the outputs ``[T, B, H]``, then the last state."""
    w_ih, w_hh, b_ih, b_hh, projection = weights
    if back:
        x = w.b.flip(x, axes=[0])
    shares = w.b.linear(x, w_ih, b_ih)  # for all of time at once
    slice_type = Tensor(shares.tensor.dtype, w.dims(shares)[1:])

    def body(b: Builder, turn: Value, *arguments: Value) -> list[Value]:
        *now, share = arguments
        made = step(b, list(now), share, b.linear(now[0], w_hh, b_hh))
        if projection is not None:
            made[0] = b.linear(made[0], projection, None)
        return [b.constant(True), *made, made[0]]

    region = w.b.subgraph([Tensor(i64, ()), *(each.type for each in state), slice_type], body)
    *last, outputs = w.b.loop(None, None, [*state, shares], carried=len(state), regions=[region])
    return [w.b.flip(outputs, axes=[0]) if back else outputs, *last]


def _layers(
    w: Lowering, x: Value, states: list[Value], params: list[Value], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool, step: Step,
) -> list[Value]:  # fmt: skip
    """All layers: the outputs, then the last states, ``[layers * directions, B, H]`` each."""
    if train and dropout and num_layers > 1:
        w.unsupported("dropout between recurrent layers is only for training", "call model.eval() first")
    if batch_first:
        x = w.b.permute(x, perm=[1, 0, 2])
    directions = 2 if bidirectional else 1
    cells = num_layers * directions
    width = len(params) // cells
    finals: list[list[Value]] = [[] for _ in states]
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            cell = layer * directions + direction
            own: list[Value | None] = list(params[cell * width : (cell + 1) * width])
            weights = own[:2] + (own[2:4] if has_biases else [None, None]) + (own[4 if has_biases else 2 :] or [None])
            start = [w.b.squeeze(part(w, state, 0, cell, cell + 1), axes=[0]) for state in states]
            output, *last = _direction(w, x, start, weights, step, direction == 1)
            outputs.append(output)
            for final, value in zip(finals, last, strict=True):
                final.append(w.b.unsqueeze(value, axes=[0]))
        x = outputs[0] if directions == 1 else w.b.concat(outputs, axis=2)
    if batch_first:
        x = w.b.permute(x, perm=[1, 0, 2])
    return [x, *(each[0] if cells == 1 else w.b.concat(each, axis=0) for each in finals)]


@lowers("aten.lstm.input")
def lstm(
    w: Lowering, x: Value, hx: list[Value], params: list[Value], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    return tuple(_layers(w, x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, _lstm))


def _single(name: str, step: Step) -> None:
    def lowering(
        w: Lowering, x: Value, hx: Value, params: list[Value], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        return tuple(_layers(w, x, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first, step))

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}.input")(lowering)


_single("gru", _gru)
_single("rnn_tanh", _plain("tanh"))
_single("rnn_relu", _plain("relu"))


def _cell(name: str, step: Step) -> None:
    def lowering(
        w: Lowering, x: Value, hx: Any, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
    ) -> Any:
        state = hx if isinstance(hx, list) else [hx]
        made = step(w.b, state, w.b.linear(x, w_ih, b_ih), w.b.linear(state[0], w_hh, b_hh))
        return tuple(made) if isinstance(hx, list) else made[0]

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}")(lowering)


_cell("lstm_cell", _lstm)
_cell("gru_cell", _gru)
_cell("rnn_tanh_cell", _plain("tanh"))
_cell("rnn_relu_cell", _plain("relu"))
