"""Division and remainders at the places where processors, ONNX and Python differ."""

from __future__ import annotations

import numpy as np
import pytest
from emitted import Model

from isthmus.ir import dtypes as T
from isthmus.ir.dtypes import DType

OPS = ("div", "floor_div", "mod", "fmod")
INTEGERS = [T.i8, T.i16, T.i32, T.i64, T.u8, T.u32]


def _edges(dtype: DType) -> np.ndarray:
    info = np.iinfo(dtype.numpy)
    near = {info.min, info.min + 1, info.max - 1, info.max, *range(max(info.min, -9), 10)}
    return np.array(sorted(near), dtype.numpy)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("opset", [13, 18])
def test_integers_by_anything(op: str, dtype: DType, opset: int) -> None:
    m = Model()
    edges = _edges(dtype)
    x, y = m.input(len(edges), 1, dtype=dtype, name="x"), m.input(len(edges), dtype=dtype, name="y")
    m.check(m.emit(getattr(m.b, op)(x, y), opset=opset), edges[:, None], edges)


@pytest.mark.parametrize("dtype", [T.i8, T.i32, T.i64], ids=str)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("divisor", [-7, -1, 0, 1, 7])
def test_integers_by_a_number(op: str, dtype: DType, divisor: int) -> None:
    m = Model()
    edges = _edges(dtype)
    x = m.input(len(edges), dtype=dtype)
    m.check(m.emit(getattr(m.b, op)(x, m.b.constant(divisor, dtype))), edges)


@pytest.mark.parametrize(("op", "nodes"), [("div", 1), ("mod", 1), ("floor_div", 4)])
def test_a_known_divisor_needs_no_guard(op: str, nodes: int) -> None:
    m = Model()
    assert m.emit(getattr(m.b, op)(m.input(4, dtype=T.i64), m.b.constant(3, T.i64))).node_count == nodes


@pytest.mark.parametrize("dtype", [T.f32, T.f64], ids=str)
@pytest.mark.parametrize("divisor", [-0.38411647, 0.1, 3.0, -2.5, 0.0, np.inf, -np.inf])
def test_floats_rounded_down(dtype: DType, divisor: float) -> None:
    m = Model()
    values = np.append(np.linspace(-20, 20, 4001), [np.inf, -np.inf, np.nan]).astype(dtype.numpy)
    artefact = m.emit(m.b.floor_div(m.input(len(values), dtype=dtype), m.b.constant(divisor, dtype)))
    with np.errstate(all="ignore"):
        assert np.array_equal(artefact.run([values])[0], np.floor_divide(values, dtype.numpy.type(divisor)), equal_nan=True)
