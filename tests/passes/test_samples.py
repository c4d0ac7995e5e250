"""Every sample of the op table goes through the default passes and comes out valid and with the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isthmus.ir import Graph, Op, Sample, Tensor, Trait
from isthmus.ir.interpreter import run
from isthmus.ir.testing import graph_of, samples
from isthmus.ir.verifier import verify
from isthmus.passes import cleanup_passes, default_passes, run_passes

SAMPLES = [pytest.param(op, sample, id=name) for op, sample, name in samples()]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if left is None or right is None:
        return left is right
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind in "OUb":
        return bool(np.array_equal(left, right))
    wide = np.complex128 if left.dtype.kind == "c" else np.float64
    tolerance = 1e-2 if left.dtype.itemsize <= 2 else 1e-5
    with np.errstate(all="ignore"):
        return bool(np.allclose(left.astype(wide), right.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True))


def with_constants(graph: Graph, inputs: list[Any]) -> list[Any]:
    """Turns the tensor inputs into constants; returns the inputs that are left."""
    from isthmus.ir import Builder

    first = next(graph.nodes)
    b = Builder(graph, first)
    left = []
    for index in reversed(range(len(inputs))):
        value = graph.inputs[index]
        if isinstance(value.type, Tensor):
            value.replace_by(b.constant(np.asarray(inputs[index])))
            graph.remove_input(index)
        else:
            left.append(inputs[index])
    return left[::-1]


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_default_passes_keep_numbers(op: Op, sample: Sample, symbolic: bool) -> None:
    graph, inputs = graph_of(op, sample, symbolic)
    before = run(graph, inputs)
    run_passes(graph, [*default_passes(), *cleanup_passes()], verify=True)
    after = run(graph, inputs)
    if Trait.RANDOM not in op.traits:
        assert all(map(same, before, after))


@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_folding_constants_keeps_numbers(op: Op, sample: Sample) -> None:
    graph, inputs = graph_of(op, sample)
    before = run(graph, inputs)
    inputs = with_constants(graph, inputs)
    verify(graph)
    run_passes(graph, default_passes(), verify=True)
    if Trait.RANDOM not in op.traits:
        assert all(map(same, before, run(graph, inputs)))
