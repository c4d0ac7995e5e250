"""Recurrent layers without rows or without steps, for which onnxruntime's kernels end the process or lose the state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emitted import Model, f

from isthmus.backends.onnx.opsets import NEWEST
from isthmus.ir import dtypes as T
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import DType

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def recurrence(
    m: Model, kind: str, time: Dim, batch: Dim, state: bool = True, lengths: bool = False, dtype: DType = T.f32, **attrs: Any
) -> list[Any]:
    """The results of a layer with 3 features and 5 units."""
    ways, rows = 2 if attrs.get("direction") == "bidirectional" else 1, 5 * GATES[kind]
    weights = [m.b.constant(f(ways, *shape), dtype) for shape in ((rows, 3), (rows, 5), (2 * rows,))]
    x = m.input(time, batch, 3, dtype=dtype)
    ends = m.input(batch, dtype=T.i64, name="lengths") if lengths else None
    states = [m.input(ways, batch, 5, dtype=dtype, name=name) for name in "hc"[: 2 if kind == "lstm" else 1] if state]
    return list(getattr(m.b, kind)(x, *weights, ends, *states, **attrs))


def given(m: Model, time: int, batch: int) -> list[Any]:
    sizes = {"T": time, "N": batch}
    made: list[Any] = []
    for seed, value in enumerate(m.graph.inputs):
        shape = [dim if isinstance(dim, int) else sizes[str(dim)] for dim in value.tensor.shape or ()]
        lengths = value.tensor.dtype is T.i64
        made.append(np.arange(batch) % max(time, 1) + 1 if lengths else f(*shape, seed=seed).astype(value.tensor.dtype.numpy))
    return made


@pytest.mark.parametrize("opset", [13, NEWEST])
@pytest.mark.parametrize("time", [0, 2])
@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("kind", GATES)
def test_no_rows_and_no_steps(kind: str, batch: int, time: int, opset: int) -> None:
    m = Model()
    m.check(m.emit(*recurrence(m, kind, time, batch), opset=opset), *given(m, time, batch))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_rows_and_steps_of_which_there_may_be_none(kind: str, lengths: bool, state: bool, direction: str) -> None:
    m = Model()
    artefact = m.emit(*recurrence(m, kind, m.dim("T", lo=0), m.dim("N", lo=0), state, lengths, direction=direction))
    assert artefact.op_counts[kind.upper()] == 1
    for time, batch in ((3, 4), (1, 1), (0, 3), (3, 0), (0, 0)):
        m.check(artefact, *given(m, time, batch))


@pytest.mark.parametrize("kind", GATES)
def test_a_type_without_a_kernel(kind: str) -> None:
    m = Model()
    artefact = m.emit(*recurrence(m, kind, m.dim("T", lo=0), m.dim("N", lo=0), dtype=T.f64))
    for time, batch in ((3, 4), (0, 3), (3, 0), (0, 0)):
        m.check(artefact, *given(m, time, batch))


def test_projection_of_no_rows() -> None:
    m = Model()
    x = m.input(2, m.dim("N", lo=0), 3)
    found = m.b.lstm(x, f(1, 20, 3), f(1, 20, 2), f(1, 40), None, None, None, f(1, 2, 5))
    artefact = m.emit(*found)
    assert artefact.op_counts["LSTM"] == 1
    for batch in (0, 3):
        m.check(artefact, f(2, batch, 3))


@pytest.mark.parametrize("kind", GATES)
def test_declared_sizes_stay_as_they_are(kind: str) -> None:
    m = Model()
    found = recurrence(m, kind, m.dim("T"), m.dim("N"))
    assert m.emit(*found).op_counts == {kind.upper(): 1}
