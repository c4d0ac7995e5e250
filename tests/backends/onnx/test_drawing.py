"""Random numbers are spread as they should be, at every opset, and differ from one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isthmus
from isthmus.backends.onnx import OnnxBackend, OnnxOptions
from isthmus.backends.onnx.opsets import NEWEST
from isthmus.ir import Graph, parse
from isthmus.passes import legalize

COUNT = 20000


def drawn(op: str, attributes: str, dtype: str, opset: int) -> Any:
    graph = parse(f"""symbol N in [0, inf]
graph @g(%x: f32[N]) {{
  %y: {dtype}[N, 2] = {op}() {{shape=[N, 2], dtype={dtype}, {attributes}}}
  return %y
}}""")
    assert isinstance(graph, Graph)
    backend = OnnxBackend(OnnxOptions(opset=opset))
    legalize(graph, backend)
    (found,) = backend.emit(graph).run([np.zeros(COUNT // 2, np.float32)])
    return found


@pytest.mark.parametrize("opset", [13, 18, 22, NEWEST])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_spread(opset: int, dtype: str) -> None:
    uniform = drawn("random_uniform", "low=-1.0, high=3.0", dtype, opset)
    assert uniform.dtype == np.dtype({"f16": "float16", "f32": "float32", "f64": "float64"}[dtype])
    assert uniform.min() >= -1
    assert uniform.max() <= 3
    places = np.histogram(uniform.astype(np.float64), 8, (-1, 3))[0] / COUNT
    np.testing.assert_allclose(places, 1 / 8, atol=0.02)
    normal = drawn("random_normal", "mean=2.0, std=0.5", dtype, opset).astype(np.float64)
    assert abs(normal.mean() - 2) < 0.05
    assert abs(normal.std() - 0.5) < 0.05
    beyond = [np.mean(np.abs(normal - 2) > 0.5 * many) for many in (1, 2)]
    np.testing.assert_allclose(beyond, [0.317, 0.0455], atol=0.02)
    assert len(np.unique(uniform)) > (COUNT // 2 if dtype != "f16" else 500)


@pytest.mark.parametrize("opset", [18, 22])
def test_chances_that_differ(opset: int) -> None:
    import torch

    net = isthmus.compile(lambda p: torch.bernoulli(p), (torch.full((4, 5000), 0.5),), opset=opset)
    p = np.repeat(np.array([0, 0.2, 0.9, 1], np.float32), 5000).reshape(4, 5000)
    found = net(torch.from_numpy(p)).numpy()
    np.testing.assert_allclose(found.mean(1), [0, 0.2, 0.9, 1], atol=0.03)
    assert set(np.unique(found)) == {0, 1}
