"""Control flow in control flow: as deep as readers of the file can go, and refused beyond."""

from __future__ import annotations

import numpy as np
import pytest

from isthmus.backends.onnx import OnnxBackend
from isthmus.backends.onnx.emitter import DEEPEST
from isthmus.ir import Builder, Graph, Tensor, Value
from isthmus.ir.dtypes import bool_, f32, i64
from isthmus.ir.errors import UnsupportedError
from isthmus.passes.legalize import legalize


def branches(b: Builder, x: Value, cond: Value, inner: Graph | None) -> Value:
    other = b.subgraph([], lambda b: b.exp(x))
    return b.if_(cond, regions=[inner or b.subgraph([], lambda b: b.neg(x)), other])  # type: ignore[no-any-return]


def turns(b: Builder, x: Value, cond: Value, inner: Graph | None) -> Value:
    types = [Tensor(i64, ()), Tensor(f32, (2,))]

    def body(b: Builder, number: Value, y: Value) -> list[Value]:
        return [cond, b.neg(y)]

    return b.loop(b.constant(np.int64(1)), cond, [x], regions=[inner or b.subgraph(types, body)], carried=1)  # type: ignore[no-any-return]


def nest(depth: int, kind: str) -> Graph:
    g = Graph()
    b = Builder(g)
    x, cond = g.add_input(Tensor(f32, (2,)), "x"), g.add_input(Tensor(bool_, ()), "cond")
    inner: Graph | None = None
    for _ in range(depth - 1):
        if kind == "if":
            inner = b.subgraph([], lambda b, inner=inner: branches(b, x, cond, inner))
        else:
            types = [Tensor(i64, ()), Tensor(f32, (2,))]
            inner = b.subgraph(types, lambda b, number, y, inner=inner: [cond, turns(b, y, cond, inner)])
    g.set_outputs([branches(b, x, cond, inner) if kind == "if" else turns(b, x, cond, inner)])
    return g


@pytest.mark.parametrize("kind", ["if", "loop"])
def test_as_deep_as_the_file_allows(kind: str) -> None:
    g = nest(DEEPEST, kind)
    backend = OnnxBackend()
    legalize(g, backend)
    artefact = backend.emit(g)
    artefact.validate()
    (y,) = artefact.run([np.ones(2, np.float32), np.array(True)])
    assert y.tolist() == [-1, -1]


@pytest.mark.parametrize("kind", ["if", "loop"])
@pytest.mark.parametrize("depth", [DEEPEST + 1, 300])
def test_deeper_is_refused(depth: int, kind: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        legalize(nest(depth, kind), OnnxBackend())
    assert {refusal.message for refusal in caught.value.refusals} == {
        f"control flow is nested deeper than the {DEEPEST} levels that readers of ONNX files take"
    }
