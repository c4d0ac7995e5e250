"""Sizes are read off the shapes of tensors that have them, where that takes fewer nodes than reckoning them."""

from __future__ import annotations

import numpy as np
import pytest
from emitted import Model, f

from isthmus.ir.dims import Dim, floordiv


@pytest.fixture
def m() -> Model:
    return Model()


def counts(m: Model, *outputs: object, opset: int = 18) -> dict[str, int]:
    """The ops that sizes took, and the runtime's numbers are the reference's."""
    artefact = m.emit(*outputs, opset=opset)  # type: ignore[arg-type]
    m.check(artefact, f(3, 9, 8))
    return {name: count for name, count in artefact.op_counts.items() if name in ("Shape", "Add", "Sub", "Mul", "Div", "Gather",
            "Squeeze", "Concat")}  # fmt: skip


def halves(m: Model) -> tuple[object, Dim, Dim]:
    """The maxima of pairs of rows and columns, and their numbers."""
    n, h, w = (m.dim(name, lo=2) for name in "NHW")
    x = m.b.unsqueeze(m.input(n, h, w), axes=[1])
    return m.b.max_pool(x, kernel=[2, 2], strides=[2, 2], pads=[0] * 4, dilations=[1, 1]), floordiv(h, 2), floordiv(w, 2)


def test_a_size_that_a_tensor_has_is_not_reckoned(m: Model) -> None:
    pooled, h, _ = halves(m)
    one = m.b.constant(np.float32(1))
    assert counts(m, pooled, m.b.expand(one, shape=[h, 5])) == {"Shape": 1, "Concat": 1}


def test_neighbouring_sizes_are_read_together(m: Model) -> None:
    pooled, h, w = halves(m)
    one = m.b.constant(np.float32(1))
    assert counts(m, pooled, m.b.expand(one, shape=[h, w]), m.b.expand(one, shape=[7, h, w])) == {"Shape": 1, "Concat": 1}


def test_a_number_out_of_sizes_that_are_there(m: Model) -> None:
    pooled, h, w = halves(m)
    plane = m.b.expand(m.b.constant(np.int64(1)), shape=[h, w])
    assert counts(m, pooled, plane, m.b.arange(stop=w)) == {"Shape": 1, "Gather": 1}


def test_sizes_that_are_there_already_are_not_read_again(m: Model) -> None:
    pooled, h, w = halves(m)
    one = m.b.constant(np.float32(1))
    made = [m.b.expand(one, shape=shape) for shape in ([h, 5], [w, 5], [2, h, w])]
    assert counts(m, pooled, *made) == {"Shape": 2, "Concat": 3}


def test_no_axes_of_a_shape_before_opset_15(m: Model) -> None:
    pooled, h, w = halves(m)
    found = counts(m, pooled, m.b.expand(m.b.constant(np.float32(1)), shape=[h, w]), opset=13)
    assert found["Div"] == 2


def test_a_nested_graph_does_not_hand_sizes_out(m: Model) -> None:
    """What a branch makes cannot be read outside of it, where the size is reckoned."""
    n = m.dim("N", lo=2)
    x = m.input(n, 2, 2)
    half = floordiv(n, 2)

    cond = m.b.gt(m.b.reduce_max(x, axes=[0, 1, 2]), 0.0)
    branches = [
        m.b.subgraph([], lambda b: b.reduce_sum(b.slice(x, axes=[0], starts=[0], ends=[half], steps=[1]), axes=[0, 1, 2])),
        m.b.subgraph([], lambda b: b.reduce_max(x, axes=[0, 1, 2])),
    ]
    found = m.b.if_(cond, regions=branches)
    ones = m.b.expand(m.b.constant(np.float32(1)), shape=[half, 3])
    artefact = m.emit(found, ones)
    assert artefact.op_counts["Div"] == 1
    m.check(artefact, f(5, 2, 2))


def test_the_shape_of_an_expansion_says_nothing_of_axes_in_front_that_stay(m: Model) -> None:
    n, h, w = (m.dim(name) for name in "NHW")
    x = m.input(n, h, w)
    column = m.b.reduce_sum(x, axes=[2], keepdims=True)
    assert counts(m, m.b.expand(column, shape=[n, h, w])) == {"Shape": 1}


def test_a_resize_by_whole_numbers_takes_no_sizes(m: Model) -> None:
    n, h, w = (m.dim(name, lo=2) for name in "NHW")
    x = m.b.unsqueeze(m.input(n, h, w), axes=[1])
    y = m.b.resize(x, sizes=[2 * h, 3 * w], mode="linear", coordinates="align_corners", nearest="floor")
    assert counts(m, y) == {}


def test_a_shape_is_read_at_once_where_its_parts_are_not_there(m: Model) -> None:
    n, h, w = (m.dim(name, lo=1) for name in "NHW")
    x = m.input(n, h, w)
    flat = m.b.reshape(x, shape=[n * h, w])
    back = [m.b.reshape(m.b.abs(flat), shape=[n, h, w]), m.b.reshape(m.b.neg(flat), shape=[n, h, w])]
    assert counts(m, *back) == {"Shape": 1}


def test_and_not_where_what_says_the_same_is_there(m: Model) -> None:
    n, h, w = (m.dim(name, lo=1) for name in "NHW")
    x, y = m.input(n, h, 4 * w), m.input(w)
    flat = m.b.reshape(x, shape=[n * h, 4 * w])
    pairs = [m.b.reshape(turned(flat), shape=[n, h, 2, 2 * w]) for turned in (m.b.abs, m.b.neg)]
    artefact = m.emit(y, *pairs)
    m.check(artefact, f(3, 9, 8), f(2))
    assert (artefact.op_counts["Shape"], artefact.op_counts["Concat"]) == (1, 1)
