"""Files for whatever takes all of the standard, though onnxruntime has no kernel for it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import assembled

import isthmus
from isthmus.errors import EvaluationError, UnsupportedError


def model(node: onnx.NodeProto, given: int, made: int, opset: int) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", given, [3])
    y = helper.make_tensor_value_info("y", made, [3])
    return assembled(helper.make_graph([node], "g", [x], [y]), ("", opset))


def test_what_onnxruntime_has_no_kernel_for() -> None:
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT4E2M1)
    proto = model(cast, TensorProto.FLOAT, TensorProto.FLOAT4E2M1, 23)
    with pytest.raises(UnsupportedError, match=r"no kernel for Cast-23 to f4e2m1(.|\n)*the profile 'onnx'"):
        isthmus.compile(proto, opset=23)
    net = isthmus.compile(proto, opset=23, profile="onnx")
    found = net(np.array([0.6, -6.0, 1.2], np.float32))["y"]
    assert found.dtype == ml_dtypes.float4_e2m1fn
    assert found.astype(float).tolist() == [0.5, -6.0, 1.0]
    net.verify()


def test_element_types_are_those_of_the_standard() -> None:
    proto = model(helper.make_node("Abs", ["x"], ["y"]), TensorProto.BFLOAT16, TensorProto.BFLOAT16, 13)
    x = np.array([-1.0, 2.0, -0.5], ml_dtypes.bfloat16)
    for profile, ops in (("onnxruntime", {"Cast": 2, "Abs": 1}), ("onnx", {"Abs": 1})):
        net = isthmus.compile(proto, opset=13, profile=profile)
        assert net.artefact.op_counts == ops
        assert net(x)["y"].tolist() == [1.0, 2.0, 0.5]


def test_what_no_runtime_here_has() -> None:
    proto = model(helper.make_node("Strange", ["x"], ["y"], domain="somebody"), TensorProto.FLOAT, TensorProto.FLOAT, 18)
    proto.opset_import.add(domain="somebody", version=1)
    net = isthmus.compile(proto, profile="onnx")
    with pytest.raises(EvaluationError, match="evaluator refuses the model"):
        net(np.ones(3, np.float32))
