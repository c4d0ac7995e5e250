"""Samples of the op table with a first axis whose size may vary, as OpenCV lets it: run right, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isthmus.backends.caffe import CaffeBackend, CaffeOptions
from isthmus.errors import InferError, UnsupportedError
from isthmus.ir import Builder, Graph, Tensor, interpreter, weight
from isthmus.ir.dtypes import f32
from isthmus.ir.op import Op, Sample
from isthmus.ir.testing import agree, samples
from isthmus.passes import cleanup_passes, legalize, run_passes


def plain(sample: Sample) -> bool:
    """Whether the first operand is a finite f32 array with more than one element along its first axis."""
    arrays = [item for item in sample.operands if item is not None]
    if sample.regions or not arrays or not all(isinstance(item, np.ndarray) for item in arrays):
        return False
    first = sample.operands[0]
    if first is None or first.dtype != np.float32 or first.ndim == 0 or len(first) < 2:
        return False
    return bool(np.isfinite(first).all())


def graph_of(op: Op, sample: Sample, held: bool) -> tuple[Graph, list[Any]]:
    """The sample with a symbol for the size of each first axis that is as long as that of the first operand."""
    graph = Graph(op.name)
    first, *rest = sample.operands
    batch = graph.symbols.declare("N", hint=len(first)).dim
    builder = Builder(graph)
    inputs = [first]
    operands: list[Any] = [graph.add_input(Tensor(f32, (batch, *first.shape[1:])), "x")]
    for place, content in enumerate(rest):
        if content is None or held:
            operands.append(None if content is None else builder.constant(weight(content)))
            continue
        alike = content.ndim == first.ndim and len(content) == len(first)
        shape = (batch, *content.shape[1:]) if alike else content.shape
        operands.append(graph.add_input(Tensor(weight(content).dtype, shape), f"y{place}"))
        inputs.append(content)
    graph.set_outputs(builder.emit(op, operands, dict(sample.attrs)).results)
    return graph, inputs


@pytest.mark.parametrize("held", [False, True], ids=["computed", "constants"])
@pytest.mark.parametrize(("op", "sample"), [pytest.param(op, each, id=name) for op, each, name in samples() if plain(each)])
def test_sample(op: Op, sample: Sample, held: bool) -> None:
    backend = CaffeBackend(CaffeOptions(dialect="opencv"))
    try:
        graph, inputs = graph_of(op, sample, held)
    except InferError:
        pytest.skip("the sample is not one for a size that varies")
    wanted = interpreter.run(graph, inputs)
    try:
        legalize(graph, backend)
    except UnsupportedError:
        return
    run_passes(graph, cleanup_passes())
    got = backend.emit(graph).run(inputs)
    assert all(map(agree, got, wanted))
