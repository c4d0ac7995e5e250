"""Activations: their attributes, slopes that broadcast, integers, and the forms of old opsets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx_models import agrees, f32, model, node, text


@pytest.mark.parametrize(("call", "row", "opset"), [
    ("LeakyRelu<alpha = 0.3>", "leaky_relu(", 7), ("Elu<alpha = 0.5>", "elu(", 7), ("Selu", "selu(", 7),
    ("HardSigmoid", "hard_sigmoid(", 7), ("HardSigmoid<alpha = 0.5, beta = 0.25>", "hard_sigmoid(", 22),
    ("Softplus", "softplus(", 7), ("Softsign", "softsign(", 7), ("HardSwish", "hard_swish(", 14), ("Mish", "mish(", 18),
    ("Celu<alpha = 2.0>", "celu(", 12), ("Gelu", "gelu(", 20), ("Gelu<approximate = \"tanh\">", "gelu(", 20),
    ("ThresholdedRelu<alpha = 0.5>", "where(", 10), ("Shrink<lambd = 0.7, bias = 0.2>", "where(", 9),
    ("Selu<alpha = 1.5, gamma = 1.2>", "elu(", 7), ("Swish", "silu(", 24), ("Swish<alpha = 0.5>", "sigmoid(", 24),
])  # fmt: skip
def test_activation(call: str, row: str, opset: int) -> None:
    made = model(f"(float[N, 5] x) => (float y) {{ y = {call}(x) }}", opset)
    assert row in text(made)
    agrees(made, [f32(3, 5) * 3], [np.array([[0, -0.0, 30, -30, math.nan]], np.float32)])


def test_the_first_selu() -> None:
    x = f32(3, 5)
    wanted = 1.0507 * np.where(x > 0, x, 1.6732 * np.expm1(x))
    agrees(model("(float[N, 5] x) => (float y) { y = Selu<consumed_inputs = [0]>(x) }", 1), [x],
            wanted=[wanted.astype(np.float32)])


@pytest.mark.parametrize("shape", [(3, 1, 1), (1,), (5,), (4, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("opset", [7, 9, 16])
def test_slopes(shape: tuple[int, ...], opset: int) -> None:
    made = model(f"(float[N, 3, 4, 5] x, float{list(shape)} s) => (float y) {{ y = PRelu(x, s) }}", opset)
    agrees(made, [f32(2, 3, 4, 5), f32(*shape, seed=1)])


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("count", [1, 3])
def test_old_slopes_are_of_channels(opset: int, count: int) -> None:
    x, slope = f32(2, 3, 3, 3), f32(count, seed=1)
    made = model(f"(float[N, 3, H, W] x, float[{count}] s) => (float y) {{ y = PRelu(x, s) }}", opset)
    agrees(made, [x, slope], wanted=[np.where(x > 0, x, x * slope.reshape(-1, 1, 1))])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_slopes_of_integers(dtype: str) -> None:
    made = model(f"({dtype}[N] x, {dtype}[1] s) => ({dtype} y) {{ y = PRelu(x, s) }}", 16)
    x, slope = np.arange(6).astype(dtype) - (0 if dtype[0] == "u" else 3), np.array([2], dtype)
    agrees(made, [x.astype(dtype), slope], wanted=[np.where(x < 0, x * slope, x)])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "double"])
@pytest.mark.parametrize("attributes", ["", "lambd = 1.5, bias = 1.5", "lambd = 2.0, bias = 2.0"])
def test_shrunken(dtype: str, attributes: str) -> None:
    made = model(f"({dtype}[N] x) => ({dtype} y) {{ y = {node('Shrink', 'x', attributes)} }}", 9)
    agrees(made, [np.arange(9).astype(dtype) - np.array(0 if dtype[0] == "u" else 4, dtype)])


def test_doubles_keep_their_digits() -> None:
    made = model("(double[N] x) => (double y) { y = Softplus(x) }", 22)
    x = np.array([20.5, 25.0, 39.0, 41.0, -30.0])
    agrees(made, [x], wanted=[np.logaddexp(0, x)])
