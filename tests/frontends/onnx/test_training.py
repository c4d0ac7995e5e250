"""Steps of optimizers, and images in files."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_models import assembled

import isthmus
from isthmus.errors import FileError, UnsupportedError

DOMAIN = "ai.onnx.preview.training"


def optimizer(op: str, count: int, kept: int, **attributes: Any) -> onnx.ModelProto:
    """One step for `count` tensors, beside each of which its gradient and `kept` others are."""
    kinds = ["x", "g", *(f"k{index}_" for index in range(kept))]
    names = [f"{kind}{index}" for kind in kinds for index in range(count)]
    results = [f"new_{name}" for name in names if not name.startswith("g")]
    sizes = {str(index): ["N"] if index else [2] for index in range(count)}
    tensor = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes[name[-1]]) for name in names]
    scalars = {"r": TensorProto.DOUBLE, "t": TensorProto.INT64}
    first = [helper.make_tensor_value_info(name, kind, []) for name, kind in scalars.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes[name[-1]]) for name in results]
    node = helper.make_node(op, ["r", "t", *names], results, domain=DOMAIN, **attributes)
    return assembled(helper.make_graph([node], "step", [*first, *tensor], ends), ("", 18), (DOMAIN, 1))


@pytest.mark.parametrize("time", [0, 1, 7])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("op", "kept", "attributes"),
    [
        ("Adagrad", 1, {"norm_coefficient": 0.1, "epsilon": 1e-3, "decay_factor": 0.5}),
        ("Adam", 2, {"norm_coefficient": 0.1, "norm_coefficient_post": 0.2, "alpha": 0.8, "beta": 0.9, "epsilon": 1e-2}),
        ("Momentum", 1, {"norm_coefficient": 0.1, "alpha": 0.9, "beta": 0.5, "mode": "standard"}),
        ("Momentum", 1, {"norm_coefficient": 0.0, "alpha": 0.9, "beta": 0.5, "mode": "nesterov"}),
    ],
)
def test_optimizers(op: str, kept: int, attributes: dict[str, Any], count: int, time: int) -> None:
    model = optimizer(op, count, kept, **attributes)
    random = np.random.default_rng(3)
    sizes = [(2 if value.name[-1] == "0" else 3) for value in model.graph.input[2:]]
    inputs = [np.asarray(0.1), np.asarray(time), *(random.random(size).astype(np.float32) for size in sizes)]
    wanted = ReferenceEvaluator(model).run(None, dict(zip([each.name for each in model.graph.input], inputs, strict=True)))
    for target in ("reference", "onnx"):
        net = isthmus.compile(model, target=target)
        for got, want in zip(net(*inputs).values(), wanted, strict=True):
            np.testing.assert_allclose(got, want.astype(np.float32), rtol=1e-5, atol=1e-7)
            assert got.dtype == np.float32


def test_inputs_that_do_not_divide() -> None:
    model = optimizer("Adagrad", 1, 1)
    model.graph.node[0].input.append("x0")
    with pytest.raises(FileError, match="takes 3 inputs for each tensor"):
        isthmus.compile(model)


def decoder(pixels: str) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.UINT8, shape) for name, shape in (("x", ["N"]), ("y", [None] * 3))]
    node = helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format=pixels)
    graph = helper.make_graph([node], "g", *([end] for end in ends))
    return assembled(graph, ("", 20))


@pytest.mark.parametrize("pixels", ["RGB", "BGR", "Grayscale"])
def test_images(pixels: str) -> None:
    content = np.frombuffer(b"P6 2 1 255\n" + bytes([255, 0, 0, 10, 20, 30]), np.uint8)
    red, other = {"RGB": ([255, 0, 0], [10, 20, 30]), "BGR": ([0, 0, 255], [30, 20, 10]), "Grayscale": ([76], [18])}[pixels]
    nets = [isthmus.compile(decoder(pixels), **how) for how in ({"target": "reference"}, {"opset": 20, "profile": "onnx"})]
    for net in nets:
        assert net(content)["y"].tolist() == [[red, other]]
    assert nets[0](content[:4])["y"].shape == (0, 0, len(red))
    with pytest.raises(UnsupportedError, match=r"no kernel for ImageDecoder-20(.|\n)*the profile 'onnx'"):
        isthmus.compile(decoder(pixels), opset=20)
