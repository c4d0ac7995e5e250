"""Recurrent layers: every attribute, states and lengths that are given or not, batches first, and sizes only a run tells."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx_models import agrees, f32, model, text

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _layer(op: str, directions: int, opset: int, attributes: str, given: str, layout: int = 0) -> tuple[Any, Any]:
    """A model of one layer, and what makes its inputs for a number of steps and members."""
    rows = 5 * GATES[op]
    step, member = ("B", "T") if layout else ("T", "B")
    state = f"B, {directions}, 5" if layout else f"{directions}, B, 5"
    every = {
        "x": f"float[{step}, {member}, 3]", "w": f"float[{directions}, {rows}, 3]", "r": f"float[{directions}, {rows}, 5]",
        "b": f"float[{directions}, {2 * rows}]", "n": "int32[B]", "h": f"float[{state}]", "c": f"float[{state}]",
        "p": f"float[{directions}, 15]",
    }  # fmt: skip
    inputs = ", ".join(f"{every[name]} {name}" for name in every if name in given)
    order = [name if name in given else "" for name in every][: 8 if op == "LSTM" else 6]
    while not order[-1]:
        order.pop()
    results = "y, yh, yc" if op == "LSTM" else "y, yh"
    more = f", layout = {layout}" if opset >= 14 else ""
    way = {1: "", 2: ", direction = \"bidirectional\""}[directions]
    call = f"{op}<hidden_size = 5{way}{more}{', ' if attributes else ''}{attributes}>({', '.join(order)})"
    outputs = ", ".join(f"float {name}" for name in results.split(", "))
    made = model(f"({inputs}) => ({outputs}) {{ {results} = {call} }}", opset)

    def feed(time: int, batch: int) -> list[Any]:
        lead = (batch, directions) if layout else (directions, batch)
        arrays = {
            "x": f32(*((batch, time) if layout else (time, batch)), 3, seed=1), "w": f32(directions, rows, 3, seed=2),
            "r": f32(directions, rows, 5, seed=3), "b": f32(directions, 2 * rows, seed=4),
            "n": np.array([time, 1, *[2] * 9][:batch], np.int32), "h": f32(*lead, 5, seed=5), "c": f32(*lead, 5, seed=6),
            "p": f32(directions, 15, seed=7),
        }  # fmt: skip
        return [array for name, array in arrays.items() if name in given]

    return made, feed


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize(("directions", "opset", "given"), [
    (1, 7, "xwr"), (2, 7, "xwrb"), (1, 14, "xwrbnhc"), (2, 22, "xwrbnhcp"), (1, 22, "xwrhcp"), (2, 14, "xwrn"),
])  # fmt: skip
def test_layer(op: str, directions: int, opset: int, given: str) -> None:
    if op != "LSTM":
        given = given.replace("c", "").replace("p", "")
    made, feed = _layer(op, directions, opset, "", given)
    assert f"{op.lower()}(" in text(made)
    agrees(made, feed(4, 2), feed(2, 3))


@pytest.mark.parametrize("op", GATES)
def test_layer_back_in_time(op: str) -> None:
    made, feed = _layer(op, 1, 14, "direction = \"reverse\"", "xwrbn")
    agrees(made, feed(4, 2), feed(3, 1))


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("directions", [1, 2])
def test_batch_first(op: str, directions: int) -> None:
    """As with the axes turned around the layer: onnxruntime does not take it itself."""
    made, feed = _layer(op, directions, 14, "", "xwrbhc" if op == "LSTM" else "xwrbh", layout=1)
    plain, _ = _layer(op, directions, 14, "", "xwrbhc" if op == "LSTM" else "xwrbh")
    from isthmus.frontends.onnx.original import Original

    x, w, r, b, *state = feed(4, 2)
    names = [value.name for value in plain.graph.input]
    turned = [x.transpose(1, 0, 2), w, r, b, *(each.transpose(1, 0, 2) for each in state)]
    y, *last = Original(plain, None, names)(turned)
    agrees(made, feed(4, 2), wanted=[y.transpose(2, 0, 1, 3), *(each.transpose(1, 0, 2) for each in last)])


@pytest.mark.parametrize(("op", "attributes"), [
    ("GRU", "linear_before_reset = 1"), ("GRU", "clip = 0.5"), ("RNN", "clip = 0.4"), ("LSTM", "clip = 0.6"),
    ("LSTM", "input_forget = 1"),
    ("LSTM", "activations = [\"HardSigmoid\", \"Relu\", \"Softsign\"], activation_alpha = [0.3], activation_beta = [0.4]"),
    ("LSTM", "activations = [\"Sigmoid\", \"LeakyRelu\", \"Elu\"], activation_alpha = [0.2, 0.7]"),
    ("GRU", "activations = [\"HardSigmoid\", \"ScaledTanh\"], activation_alpha = [0.25, 1.5], activation_beta = [0.5, 0.7]"),
    ("GRU", "activations = [\"Sigmoid\", \"Softplus\"]"), ("RNN", "activations = [\"Affine\"], activation_alpha = [0.5], "
            "activation_beta = [0.1]"),
    ("RNN", "activations = [\"ThresholdedRelu\"], activation_alpha = [0.2]"), ("RNN", "activations = [\"Relu\"]"),
])  # fmt: skip
def test_attributes(op: str, attributes: str) -> None:
    made, feed = _layer(op, 1, 14, attributes, "xwrb")
    agrees(made, feed(4, 2), feed(3, 1))


def test_activations_of_both_directions() -> None:
    words = ["Tanh", "HardSigmoid", "Relu", "Affine"]
    for first, second in itertools.product(words, repeat=2):
        counts = sum(word in ("HardSigmoid", "Affine") for word in (first, second))
        lists = f", activation_alpha = {[0.3] * counts}, activation_beta = {[0.6] * counts}" if counts else ""
        made, feed = _layer("RNN", 2, 14, f"activations = [\"{first}\", \"{second}\"]{lists}", "xwr")
        agrees(made, feed(3, 2))


