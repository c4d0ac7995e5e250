"""Lists of tensors in loops and branches."""

from __future__ import annotations

import numpy as np
import pytest
from emitted import Model, f

from isthmus.ir import Builder, Tensor, Value
from isthmus.ir.dtypes import f32, i64
from isthmus.ir.errors import UnsupportedError


def turns(model: Model) -> list[Value]:
    """A list that grows in every other turn, beside a number."""
    x, count, b = model.input(2, 3), model.input(dtype=i64, name="n"), model.b
    items = b.sequence_insert(b.sequence_empty(type=Tensor(f32, (2, 3))), x)

    def body(b: Builder, turn: Value, total: Value, items: Value) -> list[Value]:
        grown = b.subgraph([], lambda b: [b.sequence_insert(items, b.mul(x, b.cast(turn, dtype=f32)))], "then")
        kept = b.subgraph([], lambda b: [items], "else")
        chosen = b.if_(b.eq(b.mod(turn, 2), 0), regions=[grown, kept])
        return [b.constant(True), b.add(total, turn), chosen]

    graph = b.subgraph([Tensor(i64, ()), Tensor(i64, ()), items.type], body)
    total, items = b.loop(count, None, [b.constant(0), items], regions=[graph], carried=2)
    return [total, b.sequence_concat(items, axis=0), b.sequence_length(items), b.sequence_at(items, b.constant(-1))]


@pytest.mark.parametrize("opset", [14, 18, 21])
def test_a_sequence_and_a_number_go_from_turn_to_turn(opset: int) -> None:
    model = Model()
    artefact = model.emit(*turns(model), opset=opset)
    for count in (0, 1, 4):
        model.check(artefact, f(2, 3), np.int64(count))


def test_a_sequence_is_handed_on_from_opset_14_on() -> None:
    model = Model()
    with pytest.raises(UnsupportedError, match="a sequence is, which needs opset 14"):
        model.emit(*turns(model), opset=13)
