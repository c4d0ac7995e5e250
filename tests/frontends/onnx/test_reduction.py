"""Reductions whose axes are numbers, data, or none; running sums, order, and softmax as it used to be."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models import agrees, f32, i64, model

import isthmus

REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes_of_every_form(name: str) -> None:
    x = np.abs(f32(2, 3, 4)) + np.float32(0.1)
    for keep in (0, 1):
        known = f"(float[N, 3, M] x) => (float y) <int64[2] a = {{0, -1}}> {{ y = Reduce{name}<keepdims = {keep}>(x, a) }}"
        agrees(model(known), [x])
        data = f"(float[N, 3, M] x, int64[2] a) => (float y) {{ y = Reduce{name}<keepdims = {keep}>(x, a) }}"
        agrees(model(data), [x, i64(0, -1)], [x, i64(1, 0)])
        agrees(model(f"(float[N, 3, M] x) => (float y) {{ y = Reduce{name}<keepdims = {keep}>(x) }}"), [x])
        old = f"(float[N, 3, M] x) => (float y) {{ y = Reduce{name}<axes = [-2], keepdims = {keep}>(x) }}"
        agrees(model(old, 11), [x])
    agrees(model(f"(float x) => (float y) {{ y = Reduce{name}(x) }}"), [np.float32(3)])


@pytest.mark.parametrize("name", ["L1", "L2", "LogSum", "Max", "Mean", "Sum", "SumSquare"])
def test_no_axes_reduce_nothing_if_told_so(name: str) -> None:
    x = np.abs(f32(2, 3)) + np.float32(0.1)
    wanted = {"LogSum": np.log(x), "SumSquare": x * x}.get(name, x)
    for axes, feed in ((", a", [x, i64()]), ("", [x])):
        inputs = "float[N, 3] x, int64[0] a" if axes else "float[N, 3] x"
        proto = model(f"({inputs}) => (float y) {{ y = Reduce{name}<noop_with_empty_axes = 1>(x{axes}) }}")
        agrees(proto, feed, wanted=[wanted])


@pytest.mark.parametrize(("name", "wanted"), [
    ("Sum", 0.0), ("Prod", 1.0), ("Max", -np.inf), ("Min", np.inf), ("L1", 0.0), ("L2", 0.0), ("LogSum", -np.inf),
    ("LogSumExp", -np.inf), ("SumSquare", 0.0),
])  # fmt: skip
def test_of_nothing(name: str, wanted: float) -> None:
    proto = model(f"(float[2, N] x) => (float y) <int64[1] a = {{1}}> {{ y = Reduce{name}<keepdims = 0>(x, a) }}")
    agrees(proto, [f32(2, 0)], wanted=[np.full(2, wanted, np.float32)])


@pytest.mark.parametrize("name", ["L2", "Mean", "Max", "Sum", "SumSquare", "LogSum", "LogSumExp"])
def test_of_integers(name: str) -> None:
    x = np.array([[1, 2, 5], [7, 7, 4]], np.int32)
    agrees(model(f"(int32[2, 3] x) => (int32 y) <int64[1] a = {{1}}> {{ y = Reduce{name}(x, a) }}"), [x])


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_places_of_extremes(name: str, last: int) -> None:
    x = np.array([[1, 3, 3, 1], [2, 2, 2, 2]], np.float32)
    for axis in (0, -1):
        for keep in (0, 1):
            attributes = f"axis = {axis}, keepdims = {keep}, select_last_index = {last}"
            agrees(model(f"(float[N, M] x) => (int64 y) {{ y = {name}<{attributes}>(x) }}"), [x])


def test_the_greatest() -> None:
    proto = model("(float[N, M] x, int64[1] k) => (float v, int64 i) { v, i = TopK<axis = 0, largest = 0>(x, k) }")
    agrees(proto, [f32(4, 3), i64(2)], [f32(4, 3), i64(0)], [f32(4, 3), i64(4)])
    agrees(model("(float[N, M] x) => (float v, int64 i) { v, i = TopK<k = 2>(x) }", 9), [f32(4, 3)])


@pytest.mark.parametrize("attributes", ["reverse = 0", "exclusive = 1", "reverse = 1", "exclusive = 1, reverse = 1"])
def test_running_sums(attributes: str) -> None:
    agrees(model(f"(float[N, M] x) => (float y) <int32 a = {{-1}}> {{ y = CumSum<{attributes}>(x, a) }}"), [f32(2, 3)])
    agrees(model(f"(float[N, M] x, int64 a) => (float y) {{ y = CumSum<{attributes}>(x, a) }}"),
           *([f32(2, 3), np.int64(axis)] for axis in (0, 1, -2)))  # fmt: skip
    agrees(model(f"(float[2, 3] x) => (float y) <int64 a = {{0}}> {{ y = CumProd<{attributes}>(x, a) }}", 26),
           [f32(2, 3)])  # fmt: skip


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax(name: str) -> None:
    for axis in (-1, 0, 1):
        agrees(model(f"(float[N, 3, M] x) => (float y) {{ y = {name}<axis = {axis}>(x) }}"), [f32(2, 3, 4)])
        agrees(model(f"(float[N, 3, M] x) => (float y) {{ y = {name}<axis = {axis}>(x) }}", 11), [f32(2, 3, 4)])
    agrees(model(f"(float[N, 3, M] x) => (float y) {{ y = {name}(x) }}", 9), [f32(2, 3, 4)])
    agrees(model(f"(float[N, 3, M] x) => (float y) {{ y = {name}(x) }}"), [f32(2, 3, 4)])


@pytest.mark.parametrize(("size", "opset"), [("0", 13), ("N", 13), ("2, 0", 11)])
def test_the_places_of_the_greatest_of_nothing(size: str, opset: int) -> None:
    proto = model(f"(float[{size}] x) => (float y) {{ y = Hardmax<axis = -1>(x) }}", opset)
    x = f32(*(int(each) for each in size.replace("N", "0").split(",")))
    agrees(proto, [x])
    assert isthmus.compile(proto, opset=9)(x)["y"].shape == x.shape


def test_the_places_of_the_greatest_of_perhaps_nothing() -> None:
    net = isthmus.compile(model("(float[N] x) => (float y) { y = Hardmax<axis = 0>(x) }", 13), opset=9)
    for x in ([1, 3, 3], [-np.inf, -np.inf], []):
        found = net(np.array(x, np.float32))["y"].tolist()
        assert found == [float(index == (np.argmax(x) if x else -1)) for index in range(len(x))]
