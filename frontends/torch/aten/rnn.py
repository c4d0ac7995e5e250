"""Recurrent layers: each layer as one op, its parameters rearranged from torch's layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.frontends.torch.aten.packed import Padded, pack, packing, padded
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.graph import Value

GATES: Final = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""By op: where torch has each of the op's gates."""


class _Layers:
    """A call of a recurrent module: all its layers.

    Args:
        w: what lowers it.
        op: the op of a layer.
        states: the initial states, ``[layers * directions, batch, size]`` each.
        params: torch's parameters, in its order.
        has_biases: whether there are two biases among them for each layer and direction.
        bidirectional: whether there are two directions.
        attrs: more attributes of the op.
    """

    def __init__(
        self, w: Lowering, op: str, states: Sequence[Value], params: Sequence[Value], has_biases: bool, num_layers: int,
        bidirectional: bool, **attrs: Any,
    ) -> None:  # fmt: skip
        self.w, self.op, self.num_layers = w, op, num_layers
        self.states = [None if _is_zero(state) else state for state in states]
        self.directions = 2 if bidirectional else 1
        self.attrs = {"direction": "bidirectional" if bidirectional else "forward", **attrs}
        width = len(params) // (num_layers * self.directions)
        self.biases = 2 if has_biases else 0
        self.params = [params[start : start + width] for start in range(0, len(params), width)]

    def run(self, x: Value, lengths: Value | None = None, batch_first: bool = False) -> list[Value]:
        """The outputs, ``[time, batch, directions * size]`` as the input is, then the last states."""
        w = self.w
        if batch_first:
            x = w.b.permute(x, perm=[1, 0, 2])
        finals: list[list[Value]] = []
        for layer in range(self.num_layers):
            y, *last = self._layer(x, layer, lengths)
            finals.append(last)
            swapped = batch_first and layer == self.num_layers - 1
            x = self._side_by_side(y, swapped)
        return [x, *(each[0] if len(each) == 1 else w.b.concat(each, axis=0) for each in zip(*finals, strict=True))]

    def _layer(self, x: Value, layer: int, lengths: Value | None) -> Sequence[Value]:
        first, last = layer * self.directions, (layer + 1) * self.directions
        given = self.params[first:last]
        weight, recurrence = (self._joined([[each[place]] for each in given]) for place in range(2))
        bias = self._joined([each[2:4] for each in given]) if self.biases else None
        projections = [each[2 + self.biases :] for each in given]
        more = [self._stack([each[0] for each in projections])] if projections[0] else []
        states = [None if state is None else part(self.w, state, 0, first, last) for state in self.states]
        found: Sequence[Value] = getattr(self.w.b, self.op)(x, weight, recurrence, bias, lengths, *states, *more, **self.attrs)
        return found

    def _joined(self, given: Sequence[Sequence[Value]]) -> Value:
        """Parameters of the gates, in the op's order: for each direction one behind the other, and the directions stacked."""
        w = self.w
        ordered = [[self._ordered(each) for each in direction] for direction in given]
        return self._stack([each[0] if len(each) == 1 else w.b.concat(each, axis=0) for each in ordered])

    def _ordered(self, parameter: Value) -> Value:
        order = GATES[self.op]
        if len(order) == 1:
            return parameter
        rows, *rest = self.w.dims(parameter)
        gates = self.w.b.reshape(parameter, shape=[len(order), rows // len(order), *rest])
        return self.w.b.reshape(self.w.b.gather(gates, np.array(order), axis=0), shape=[rows, *rest])  # type: ignore[no-any-return]

    def _stack(self, values: Sequence[Value]) -> Value:
        wide = [self.w.b.unsqueeze(value, axes=[0]) for value in values]
        return wide[0] if len(wide) == 1 else self.w.b.concat(wide, axis=0)  # type: ignore[no-any-return]

    def _side_by_side(self, y: Value, batch_first: bool) -> Value:
        """``[time, directions, batch, size]`` with the directions side by side."""
        b = self.w.b
        if self.directions == 1:
            y = b.squeeze(y, axes=[1])
            return b.permute(y, perm=[1, 0, 2]) if batch_first else y
        y = b.permute(y, perm=[2, 0, 1, 3] if batch_first else [0, 2, 1, 3])
        first, second, count, size = self.w.dims(y)
        return b.reshape(y, shape=[first, second, count * size])  # type: ignore[no-any-return]


def _is_zero(value: Value) -> bool:
    """Whether it is one 0 again and again, as `torch.zeros` makes it. What is stored is not read for this."""
    node = value.producer
    while node is not None and node.op.name == "expand" and node.operands[0] is not None:
        value = node.operands[0]
        node = value.producer
    return value.weight is not None and value.weight.size == 1 and not value.weight.array().any()


def _no_dropout(w: Lowering, dropout: float, train: bool, num_layers: int) -> None:
    if train and dropout and num_layers > 1:
        w.unsupported("dropout between recurrent layers is only for training", "call model.eval() first")


def _register(name: str, op: str, **attrs: Any) -> None:
    def lowering(
        w: Lowering, x: Value, hx: Any, params: list[Value], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        _no_dropout(w, dropout, train, num_layers)
        states = hx if isinstance(hx, list) else [hx]
        layers = _Layers(w, op, states, params, has_biases, num_layers, bidirectional, **attrs)
        return tuple(layers.run(x, batch_first=batch_first))

    def packed(
        w: Lowering, data: Value, batch_sizes: Value, hx: Any, params: list[Value], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool,
    ) -> Any:  # fmt: skip
        _no_dropout(w, dropout, train, num_layers)
        states = hx if isinstance(hx, list) else [hx]
        how = packing(w, batch_sizes)
        layers = _Layers(w, op, states, params, has_biases, num_layers, bidirectional, **attrs)
        y, *last = layers.run(padded(w, data, how).x, how.lengths)
        return pack(w, Padded(y, True), how), *last

    for function, overload in ((lowering, "input"), (packed, "data")):
        function.__qualname__ = function.__name__ = f"{name}_{overload}"
        lowers(f"aten.{name}.{overload}")(function)


_register("lstm", "lstm")
_register("gru", "gru")
_register("rnn_tanh", "rnn")
_register("rnn_relu", "rnn", activations=(("relu",),))


# ---- single steps

Step = Callable[[Lowering, "list[Value]", Value, Value], "list[Value]"]
"""One step of a cell: the state, the input's share and the state's share of the gates -> the new state."""


def _gates(w: Lowering, share: Value, count: int) -> list[Value]:
    size = w.dims(share)[1]
    return list(w.b.split(share, axis=1, sizes=[size // count] * count))


def _lstm(w: Lowering, state: list[Value], x: Value, h: Value) -> list[Value]:
    b = w.b
    gates = _gates(w, b.add(x, h), 4)
    enter, forget, output = (b.sigmoid(gates[number]) for number in (0, 1, 3))
    cell = b.add(b.mul(forget, state[1]), b.mul(enter, b.tanh(gates[2])))
    return [b.mul(output, b.tanh(cell)), cell]


def _gru(w: Lowering, state: list[Value], x: Value, h: Value) -> list[Value]:
    b = w.b
    ours, theirs = _gates(w, x, 3), _gates(w, h, 3)
    reset, update = (b.sigmoid(b.add(ours[number], theirs[number])) for number in (0, 1))
    new = b.tanh(b.add(ours[2], b.mul(reset, theirs[2])))
    return [b.add(new, b.mul(update, b.sub(state[0], new)))]


def _plain(activation: str) -> Step:
    return lambda w, state, x, h: [getattr(w.b, activation)(w.b.add(x, h))]


def _cell(name: str, step: Step) -> None:
    def lowering(
        w: Lowering, x: Value, hx: Any, w_ih: Value, w_hh: Value, b_ih: Value | None = None, b_hh: Value | None = None
    ) -> Any:
        state = hx if isinstance(hx, list) else [hx]
        made = step(w, state, w.b.linear(x, w_ih, b_ih), w.b.linear(state[0], w_hh, b_hh))
        return tuple(made) if isinstance(hx, list) else made[0]

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}")(lowering)


_cell("lstm_cell", _lstm)
_cell("gru_cell", _gru)
_cell("rnn_tanh_cell", _plain("tanh"))
_cell("rnn_relu_cell", _plain("relu"))
