"""Ops of a file written at a newer opset: as they were, where they mean the same there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import model

import isthmus
from isthmus.backends.onnx.versions import REWORDED, carries, since


@pytest.mark.parametrize(("name", "opset", "newer", "same"), [
    ("Relu", 13, 13, True), ("Pad", 11, 21, True), ("Resize", 13, 28, True), ("Slice", 10, 17, True),
    ("Unsqueeze", 13, 21, True), ("Pow", 12, 17, True), ("CumSum", 11, 17, True), ("RoiAlign", 16, 28, True),
    ("Softmax", 11, 13, False), ("OneHot", 9, 11, False), ("Unsqueeze", 11, 13, False), ("RoiAlign", 10, 16, False),
    ("GridSample", 16, 20, False), ("Pad", 21, 11, False), ("Gelu", 19, 20, False), ("NoSuchOp", 9, 13, True),
])  # fmt: skip
def test_what_means_the_same(name: str, opset: int, newer: int, same: bool) -> None:
    assert carries(name, opset, newer) is same


def test_the_versions_named_are_versions() -> None:
    assert all(since(name, version) == version for name, versions in REWORDED.items() for version in versions)


X, K = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1])


@pytest.mark.parametrize("newer", [13, 18, 28])
@pytest.mark.parametrize(("opset", "text", "inputs"), [
    (11, "(int64[N] x, int64[N] k) => (int64[N] y) { y = Div(x, k) }", [np.array([-7, 7]), np.array([2, 2])]),
    (11, "(int64[N] x, int64[N] k) => (int64[N] y) { y = Mod(x, k) }", [np.array([-7, 7]), np.array([2, 2])]),
    (12, "(int64[N] x, int64[N] k) => (int64[N] y) { y = Pow(x, k) }", [np.array([-7, 7]), np.array([2, 3])]),
    (11, "(float[N, M] x, int64[4] k) => (float y) { y = Pad(x, k) }", [X, np.array([1, 0, 0, 2])]),
    (10, "(float[N, M] x, int64[1] s, int64[1] e, int64[1] k) => (float y) { y = Slice(x, s, e, k) }", [X, K - 1, K + 1, K]),
    (10, "(float[N, M] x, int64[1] k) => (float y, int64 i) { y, i = TopK(x, k) }", [X, K + 1]),
    (11, "(float[N, M] x, int64 k) => (float y) { y = CumSum(x, k) }", [X, np.int64(1)]),
])  # fmt: skip
def test_an_op_is_carried_to_a_newer_opset(opset: int, newer: int, text: str, inputs: list[Any]) -> None:
    proto = model(text, opset)
    net = isthmus.compile(proto, opset=newer, keep_ops=True)
    assert net.artefact.node_count == 1
    for mine, wanted in zip(net(*inputs).values(), isthmus.compile(proto, target="reference")(*inputs).values(), strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_an_op_that_means_something_else_is_said_otherwise() -> None:
    """Before opset 11 an index below 0 is out of range, and not one from the end."""
    text = "(int64[N] i, int64 d) => (float y) <float[2] v = {0.0, 1.0}> { y = OneHot(i, d, v) }"
    net = isthmus.compile(model(text, 9), opset=13, keep_ops=True)
    assert net(np.array([-1, 1]), np.int64(2))["y"].tolist() == isthmus.compile(model(text, 9), target="reference")(
        np.array([-1, 1]), np.int64(2)
    )["y"].tolist()
