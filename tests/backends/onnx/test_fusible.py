"""Coarse ops that an opset lacks take the forms that onnxruntime runs as one kernel, with the numbers of the op."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from emitted import Model, f

from isthmus.ir.dtypes import f16


def kernels(content: bytes, path: Path) -> Counter[str]:
    """The ops that onnxruntime runs in place of those in a file."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize(("approximate", "kernel", "nodes"), [("none", "Gelu", 5), ("tanh", "FastGelu", 8)])
def test_gelu(approximate: str, kernel: str, nodes: int, opset: int, tmp_path: Path) -> None:
    m = Model()
    artefact = m.emit(m.b.sin(m.b.gelu(m.input(m.dim("N"), 5), approximate=approximate)), opset=opset)
    assert artefact.node_count == nodes + 1
    assert kernels(artefact.serialize(), tmp_path / "optimized.onnx") == {kernel: 1, "Sin": 1}
    m.check(artefact, 3 * f(4, 5))
    m.check(artefact, np.array([[np.inf, -np.inf, np.nan, 0.0, -1e30]], np.float32))


@pytest.mark.parametrize("opset", [13, 18, 22])
def test_rms_norm(opset: int, tmp_path: Path) -> None:
    m = Model()
    scale = m.b.constant(f(5, seed=1))
    artefact = m.emit(m.b.rms_norm(m.input(m.dim("N"), 4, 5), scale, axis=2, eps=1e-6), opset=opset)
    assert kernels(artefact.serialize(), tmp_path / "optimized.onnx") == {"SimplifiedLayerNormalization": 1}
    m.check(artefact, f(2, 4, 5))
    m.check(artefact, 1e-4 * f(3, 4, 5))


def test_an_axis_that_may_have_no_elements_is_left_to_ops_that_take_it() -> None:
    m = Model()
    n = m.dim("N", lo=0)
    artefact = m.emit(m.b.rms_norm(m.input(3, n), None, axis=1, eps=1e-6))
    for size in (0, 1, 4):
        m.check(artefact, f(3, size))


def test_small_floats_are_computed_in_float32() -> None:
    m = Model()
    x = m.input(4, 6, dtype=f16)
    artefact = m.emit(m.b.gelu(x, approximate="tanh"), m.b.rms_norm(x, None, axis=1, eps=1e-6))
    m.check(artefact, (200 * f(4, 6)).astype(np.float16))
