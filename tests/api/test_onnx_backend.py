"""ONNX's own runner of backend tests drives isthmus, on a sample of the standard's models."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test import runner
from onnx_models import assembled

import isthmus
from isthmus import onnx_backend
from isthmus.errors import UnsupportedError, UsageError

SAMPLE = (
    r"test_(Linear|Conv2d|MaxPool2d|operator_(mm|permute2|params)|sequence_model\d"
    r"|single_relu_model|expand_shape_model\d)_cpu"
)


def test_the_standards_own_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its kinds those that lie in files: it takes seconds to make up the others."""
    load = runner.load_model_tests
    monkeypatch.setattr(runner, "load_model_tests", lambda kind: [] if kind in ("node", "real") else load(kind=kind))
    backend_test = runner.Runner(onnx_backend.IsthmusBackend, __name__).include(SAMPLE)
    result = unittest.TestResult()
    backend_test.test_suite.run(result)
    assert not result.failures + result.errors, "\n".join(text for _, text in result.failures + result.errors)
    assert result.testsRun - len(result.skipped) >= 14


@pytest.fixture
def model() -> Any:
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N"]) for name in ("x", "y", "sum", "prod.0")]
    nodes = [helper.make_node("Add", ["x", "y"], ["sum"]), helper.make_node("Mul", ["x", "y"], ["prod.0"])]
    return assembled(helper.make_graph(nodes, "g", ends[:2], ends[2:]), ("", 17))


@pytest.mark.parametrize("target", ["onnx", "reference"])
def test_prepare_and_run(model: Any, target: str) -> None:
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    prepared = isthmus.onnx_backend.prepare(model, device="CPU", target=target)
    for inputs in ([x, y], {"y": y, "x": x}):
        outputs = prepared.run(inputs)
        np.testing.assert_array_equal(outputs[0], x + y)
        np.testing.assert_array_equal(outputs["prod.0"], x * y)
    np.testing.assert_array_equal(onnx_backend.run_model(model, [x, y], target=target)["sum"], x + y)
    with pytest.raises(UsageError, match="do not fit the model"):
        prepared.run([x])


def test_the_files_own_opset_is_kept(model: Any) -> None:
    kept = onnx_backend.prepare(model).net.artefact.model.opset_import[0]  # type: ignore[attr-defined]
    other = onnx_backend.prepare(model, opset=14).net.artefact.model.opset_import[0]  # type: ignore[attr-defined]
    assert (kept.version, other.version) == (17, 14)


def test_one_node() -> None:
    node = helper.make_node("Split", ["x", "sizes"], ["a", "", "b"])
    a, b = onnx_backend.run_node(node, [np.arange(6.0), np.array([1, 2, 3])], opset_version=13)
    assert (a.tolist(), b.tolist()) == ([0.0], [3.0, 4.0, 5.0])


def test_devices(model: Any) -> None:
    assert onnx_backend.supports_device("CPU")
    assert onnx_backend.supports_device("CPU:0")
    assert not onnx_backend.supports_device("CUDA")
    with pytest.raises(ValueError, match="on the CPU, not on CUDA"):
        onnx_backend.prepare(model, device="CUDA")


def test_what_onnxruntime_does_not_run_onnxs_evaluator_does() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT4E2M1)
    (found,) = onnx_backend.run_node(node, [np.array([0.6, -6.0], np.float32)], opset_version=23)
    assert found.astype(float).tolist() == [0.5, -6.0]
    with pytest.raises(UnsupportedError, match="no kernel"):
        onnx_backend.run_node(node, [np.array([0.6], np.float32)], opset_version=23, profile="onnxruntime")
