"""Golden tests of passes: a graph as text before, a graph as text after, and the same numbers from both."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from isthmus.ir import Graph, Tensor, parse, print_graph, verify
from isthmus.ir.dims import Symbol, evaluate, symbols
from isthmus.ir.interpreter import run
from isthmus.passes import Pass, run_passes


def text(graph: Graph) -> str:
    """The text of a graph without locations."""
    return print_graph(graph, locations=False).strip()


def draw_inputs(graph: Graph, seed: int = 0, sizes: dict[str, int] | None = None) -> list[Any]:
    """Random content for the tensor inputs of a graph; symbols get small sizes in their ranges, or those of `sizes`."""
    draws = np.random.default_rng(seed)
    values: dict[Symbol, int] = {}
    inputs: list[Any] = []
    for value in graph.inputs:
        type = value.type
        assert isinstance(type, Tensor)
        assert type.shape is not None
        for dim in type.shape:
            for symbol in symbols(dim):
                drawn = int(max(symbol.lo, min(symbol.hi, draws.integers(2, 5))))
                values.setdefault(symbol, (sizes or {}).get(symbol.name) or symbol.hint or drawn)
        shape = [evaluate(dim, values) for dim in type.shape]
        if type.dtype.kind == "bool":
            inputs.append(draws.random(shape) < 0.5)
        elif type.dtype.is_integer:
            inputs.append(draws.integers(0, 4, shape).astype(type.dtype.numpy))
        else:
            inputs.append(np.asarray(draws.standard_normal(shape)).astype(type.dtype.numpy))
    return inputs


def assert_same(left: Sequence[Any], right: Sequence[Any], tolerance: float = 1e-5) -> None:
    """Asserts that two lists of outputs agree in dtype, shape and, within a tolerance of their scale, in value."""
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        finite = a[np.isfinite(a)] if a.dtype.kind in "fc" else a
        scale = float(np.abs(finite).max()) if finite.size and a.dtype.kind != "b" else 0.0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, scale))


def check(steps: Pass | Sequence[Pass], before: str, after: str | None = None) -> Graph:
    """Applies passes to the graph in a text and compares it with another; None where it must stay as it is.

    The graph is verified after each pass, and evaluated on random inputs before and after all of them.
    """
    before = textwrap.dedent(before).strip()
    graph = parse(before)
    verify(graph)
    inputs = draw_inputs(graph)
    old = run(graph, inputs)
    run_passes(graph, list(steps) if isinstance(steps, (list, tuple)) else [steps], verify=True)  # type: ignore[list-item]
    wanted = text(parse(before if after is None else textwrap.dedent(after).strip()))
    assert text(graph) == wanted, text(graph)
    assert_same(old, run(graph, inputs))
    return graph
