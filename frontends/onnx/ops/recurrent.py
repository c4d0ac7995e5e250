"""Recurrent layers, whose rows are the standard's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.sizes import before_cast
from isthmus.frontends.onnx.table import converts
from isthmus.ir.graph import Value
from isthmus.ir.op import OPS
from isthmus.ir.ops.recurrent import ACTIVATIONS, DIRECTIONS, Recurrent

Numbers = Sequence[float] | None
Names = Sequence[str] | None


@converts("LSTM")
def lstm(
    c: Conversion, x: Value, weight: Value, recurrence: Value, bias: Value | None = None, lengths: Value | None = None,
    hidden: Value | None = None, cell: Value | None = None, peepholes: Value | None = None, *,
    activation_alpha: Numbers = None, activation_beta: Numbers = None, activations: Names = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int | None = None, input_forget: int = 0, layout: int = 0,
    output_sequence: int = 1,
) -> Any:  # fmt: skip
    """Long short-term memory."""
    functions = _functions(c, activations, activation_alpha, activation_beta)
    return _layer(
        c, "lstm", layout, x, weight, recurrence, bias, lengths, [hidden, cell], [None, peepholes],
        direction=direction, activations=functions, clip=clip, input_forget=bool(input_forget),
    )  # fmt: skip


@converts("GRU")
def gru(
    c: Conversion, x: Value, weight: Value, recurrence: Value, bias: Value | None = None, lengths: Value | None = None,
    hidden: Value | None = None, *, activation_alpha: Numbers = None, activation_beta: Numbers = None,
    activations: Names = None, clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0, linear_before_reset: int = 0, output_sequence: int = 1,
) -> Any:  # fmt: skip
    """Gated recurrent unit."""
    functions = _functions(c, activations, activation_alpha, activation_beta)
    return _layer(
        c, "gru", layout, x, weight, recurrence, bias, lengths, [hidden], [], direction=direction, activations=functions,
        clip=clip, linear_before_reset=bool(linear_before_reset),
    )  # fmt: skip


@converts("RNN")
def rnn(
    c: Conversion, x: Value, weight: Value, recurrence: Value, bias: Value | None = None, lengths: Value | None = None,
    hidden: Value | None = None, *, activation_alpha: Numbers = None, activation_beta: Numbers = None,
    activations: Names = None, clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0, output_sequence: int = 1,
) -> Any:  # fmt: skip
    """The plain cell."""
    functions = _functions(c, activations, activation_alpha, activation_beta)
    return _layer(c, "rnn", layout, x, weight, recurrence, bias, lengths, [hidden], [], direction=direction,
                  activations=functions, clip=clip)  # fmt: skip


def _functions(c: Conversion, names: Names, alphas: Numbers, betas: Numbers) -> tuple[tuple[Any, ...], ...] | None:
    """The activations; only those that have parameters take any from the lists."""
    if names is None:
        return None
    rest, found = [list(alphas or ()), list(betas or ())], []
    for name in names:
        word = _WORDS.get(name.lower())
        if word is None:
            raise c.malformed(f"there is no activation {name}")
        usual = ACTIVATIONS[word].parameters
        found.append((word, *(own.pop(0) if own else usual[place] for place, own in enumerate(rest[: len(usual)]))))
    return tuple(found)


_WORDS = {re.sub("_", "", word): word for word in ACTIVATIONS}


def _layer(
    c: Conversion, op: str, layout: int, x: Value, weight: Value, recurrence: Value, bias: Value | None,
    lengths: Value | None, states: Sequence[Value | None], more: Sequence[Value | None], **attrs: Any,
) -> Any:  # fmt: skip
    """One layer; with a layout of 1 the batch comes first wherever time or the directions did."""
    b, functions = c.b, attrs.pop("activations")
    if functions is not None:  # there may be more of them than directions need
        row, directions = OPS[op], len(DIRECTIONS[attrs["direction"]])
        assert isinstance(row, Recurrent)
        count = len(row.usual)
        every = functions[: count * directions]
        # Those of the first direction are the other's, too, where it is told no others.
        every = every[:count] if every == every[:count] * directions else every
        attrs["activations"] = None if every == tuple((name,) for name in row.usual) else every
    if layout:
        x = b.permute(x, perm=[1, 0, 2])
        states = [state and b.permute(state, perm=[1, 0, 2]) for state in states]
    y, *last = getattr(b, op)(x, weight, recurrence, bias, lengths and before_cast(lengths), *states, *more, **attrs)
    if layout:
        y, last = b.permute(y, perm=[2, 0, 1, 3]), [b.permute(each, perm=[1, 0, 2]) for each in last]
    return (y, *last)
