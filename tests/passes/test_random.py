"""Random graphs mean the same before and after each pass, at several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from fake_target import Fine
from golden import draw_inputs
from hypothesis import HealthCheck, given, settings
from strategies import graphs

from isthmus.ir import Graph, verify
from isthmus.ir.interpreter import run
from isthmus.passes import cleanup_passes, count_nodes, default_passes, legalize, run_passes

SIZES = [{"N": 3, "M": 2}, {"N": 1, "M": 1}, {"N": 2, "M": 5}]


def assert_close(left: list[Any], right: list[Any]) -> None:
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_every_pass_keeps_the_meaning(graph: Graph) -> None:
    verify(graph)
    inputs = [draw_inputs(graph, seed, sizes) for seed, sizes in enumerate(SIZES)]
    before = [run(graph, each) for each in inputs]
    nodes = count_nodes(graph)
    weights = sum(weight.nbytes for weight in graph.weights())

    def compare(*_: object) -> None:
        for old, each in zip(before, inputs, strict=True):
            assert_close(old, run(graph, each))

    run_passes(graph, default_passes(), verify=True, listener=compare)
    assert count_nodes(graph) <= nodes
    assert sum(weight.nbytes for weight in graph.weights()) <= weights + 256 * nodes
    version = graph.version
    run_passes(graph, default_passes())
    assert graph.version == version  # nothing is left to do
    legalize(graph, Fine("relu", "add"))
    verify(graph)
    compare()
    run_passes(graph, cleanup_passes(), verify=True, listener=compare)
