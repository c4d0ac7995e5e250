"""Arithmetic against Python's own, and the corners where libraries differ."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from isthmus.ir import Builder, Graph
from isthmus.ir.interpreter import run
from isthmus.ir.ops import numerics

NAN, INF = math.nan, math.inf


def apply(name: str, *operands: Any, **attrs: Any) -> Any:
    """The op on arrays; a list of arrays for a variadic operand."""
    graph = Graph()
    found = getattr(Builder(graph), name)(*operands, **attrs)
    results = [found] if not isinstance(found, tuple) else list(found)
    graph.set_outputs(results)
    arrays = run(graph, [])
    return arrays[0] if len(arrays) == 1 else arrays


def test_erf() -> None:
    x = np.array([-INF, -1.0, 0.0, 0.3, 2.0, INF, NAN], np.float32)
    np.testing.assert_allclose(apply("erf", x), np.array([math.erf(each) for each in x], np.float32), rtol=1e-7)


def test_sigmoid_does_not_overflow() -> None:
    with np.errstate(all="raise"):
        found = numerics.sigmoid(np.array([-100.0, 0.0, 100.0]))
    np.testing.assert_allclose(found, [1 / (1 + math.exp(100)), 0.5, 1.0])


INTEGERS = [-9, -8, -7, -2, -1, 0, 1, 2, 7, 8, 9]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, ml_dtypes.int4])
def test_integer_division(dtype: Any) -> None:
    low = [each for each in INTEGERS if -8 <= each <= 7] if dtype is ml_dtypes.int4 else INTEGERS
    for x in low:
        for y in low:
            if y and not (x == -8 and y == -1):
                a, b = np.array(x, dtype), np.array(y, dtype)
                assert int(apply("floor_div", a, b)) == x // y
                assert int(apply("mod", a, b)) == x % y
                assert int(apply("div", a, b)) == int(x / y)
                assert int(apply("fmod", a, b)) == math.fmod(x, y)


@pytest.mark.parametrize("name", ["div", "floor_div", "mod", "fmod"])
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8])
def test_integers_divided_by_zero_are_zero(name: str, dtype: Any) -> None:
    assert apply(name, np.array([3, 0, 7], dtype), np.array([0, 0, 0], dtype)).tolist() == [0, 0, 0]


def test_floats_divided_by_zero() -> None:
    found = apply("div", np.array([1, -1, 0], np.float32), np.zeros(3, np.float32))
    np.testing.assert_array_equal(found, np.array([INF, -INF, NAN], np.float32))


def test_integer_powers() -> None:
    x, y = np.array([2, -2, 1, -1, -1, 0, 0, 3]), np.array([-1, -3, -9, -3, -4, -2, 0, 4])
    assert apply("pow", x, y).tolist() == [0, 0, 1, -1, 1, 0, 1, 81]


def test_integers_wrap() -> None:
    assert apply("add", np.int8(127), np.int8(1)) == -128
    assert apply("neg", np.int8(-128)) == -128
    assert apply("reduce_sum", np.full(3, 100, np.uint8), axes=[0]) == 300 % 256
    assert apply("cast", np.array([300, -1]), dtype=numerics.dtypes.u8).tolist() == [44, 255]


def test_shifts_beyond_the_width() -> None:
    assert apply("shift_left", np.int8(1), np.int8(9)) == 0
    assert apply("shift_right", np.array([-5, 5]), np.array([70, 70])).tolist() == [-1, 0]


def test_rounding() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    assert apply("round", x).tolist() == [-2, -2, 0, 0, 2, 2]
    big = np.array([2**62 + 1])  # not a float64
    for name in ("floor", "ceil", "round", "trunc"):
        assert apply(name, big).tolist() == big.tolist()


def test_nan_spreads() -> None:
    x, y = np.array([NAN, 1], np.float32), np.array([1, NAN], np.float32)
    for name in ("maximum", "minimum"):
        assert np.isnan(apply(name, x, y)).all()
    assert np.isnan(apply("relu", x[:1])).all()
    assert np.isnan(apply("clip", x[:1], np.float32(0), np.float32(1))).all()
    assert np.isnan(apply("reduce_max", x, axes=[0]))
    assert not apply("eq", x, x)[0]
    assert apply("ne", x, x)[0]


def test_small_floats_are_rounded_once() -> None:
    x = np.full(4096, 1, np.float16)
    assert apply("reduce_sum", x, axes=[0]) == 4096  # in float16, 2048 + 1 is 2048
    assert apply("reduce_mean", np.full(300, 300, np.float16), axes=[0]) == 300  # the sum alone is beyond float16
    assert apply("matmul", x, x) == 4096


def test_reductions_of_nothing() -> None:
    empty = np.zeros((2, 0), np.float32)
    assert apply("reduce_sum", empty, axes=[1]).tolist() == [0, 0]
    assert apply("reduce_prod", empty, axes=[1]).tolist() == [1, 1]
    assert apply("reduce_max", empty, axes=[1]).tolist() == [-INF, -INF]
    assert apply("reduce_min", empty.astype(np.int8), axes=[1]).tolist() == [127, 127]
    assert np.isnan(apply("reduce_mean", empty, axes=[1])).all()
    assert apply("logsumexp", empty, axes=[1]).tolist() == [-INF, -INF]
    assert apply("reduce_all", empty > 0, axes=[1]).tolist() == [True, True]
    assert np.isnan(apply("reduce_var", np.ones((2, 1), np.float32), axes=[1])).all()


def test_logsumexp_of_extremes() -> None:
    x = np.array([[1000, 1000], [-1000, -1000], [INF, 0], [-INF, -INF], [NAN, 0]], np.float32)
    expected = [1000 + math.log(2), -1000 + math.log(2), INF, -INF, NAN]
    np.testing.assert_allclose(apply("logsumexp", x, axes=[1]), np.array(expected, np.float32))


def test_places_of_extremes() -> None:
    assert apply("argmax", np.array([1, 3, 3]), axis=0) == 1
    assert apply("argmin", np.array([1, NAN, 0, NAN], np.float32), axis=0) == 1


@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_and_nan_is_greatest(descending: bool) -> None:
    x = np.array([2, NAN, 1, INF, 2, NAN, 1], np.float32)
    values, places = apply("sort", x, axis=0, descending=descending)
    order = [2, 6, 0, 4, 3, 1, 5] if not descending else [1, 5, 3, 0, 4, 2, 6]
    assert places.tolist() == order
    np.testing.assert_array_equal(values, x[order])


def test_topk_takes_the_first_of_equals() -> None:
    values, places = apply("topk", np.array([5, 7, 5, 7, 5]), k=3, axis=0)
    assert values.tolist() == [7, 7, 5]
    assert places.tolist() == [1, 3, 0]
    values, places = apply("topk", np.array([5, 7, 5, 7, 5]), k=2, axis=0, largest=False)
    assert places.tolist() == [0, 2]


def test_unique() -> None:
    values, inverse, counts = apply("unique", np.array([[3, 1], [3, 2]]))
    assert values.tolist() == [1, 2, 3]
    assert inverse.tolist() == [2, 0, 2, 1]
    assert counts.tolist() == [1, 1, 2]


def test_scatter_with_duplicates() -> None:
    x, places = np.arange(4), np.array([1, -3, 0])
    assert apply("scatter_elements", x, places, np.array([5, 6, 7]), axis=0).tolist() == [7, 6, 2, 3]
    expected = {"add": [7, 12, 2, 3], "mul": [0, 30, 2, 3], "min": [0, 1, 2, 3], "max": [7, 6, 2, 3]}
    for reduction, result in expected.items():
        found = apply("scatter_elements", x, places, np.array([5, 6, 7]), axis=0, reduction=reduction)
        assert found.tolist() == result
        found = apply("scatter_nd", x, places[:, None], np.array([5, 6, 7]), reduction=reduction)
        assert found.tolist() == result


def test_pad_modes() -> None:
    x = np.arange(4)
    for mode, expected in (
        ("reflect", [2, 1, 0, 1, 2, 3, 2]), ("edge", [0, 0, 0, 1, 2, 3, 3]), ("wrap", [2, 3, 0, 1, 2, 3, 0]),
        ("constant", [0, 0, 0, 1, 2, 3, 0]),
    ):  # fmt: skip
        assert apply("pad", x, before=[2], after=[1], mode=mode).tolist() == expected


def test_running_sums() -> None:
    x = np.array([1, 2, 3])
    assert apply("cumsum", x, axis=0).tolist() == [1, 3, 6]
    assert apply("cumsum", x, axis=0, exclusive=True).tolist() == [0, 1, 3]
    assert apply("cumsum", x, axis=0, reverse=True).tolist() == [6, 5, 3]
    assert apply("cumprod", x, axis=0, exclusive=True, reverse=True).tolist() == [6, 3, 1]


def test_one_hot_out_of_range_is_zero() -> None:
    assert apply("one_hot", np.array([1, -1, 2]), depth=2).tolist() == [[0, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize("bounds", [(0, 4, 1), (-3, 99, 2), (-9, 3, 2), (9, -99, -1), (-1, -99, -2), (3, 1, 1), (2, -5, -1)])
def test_dynamic_slice_reads_bounds_as_python_does_but_for_starts_in_front_of_all(bounds: tuple[int, int, int]) -> None:
    x = np.arange(5)
    start, end, step = bounds
    found = apply("dynamic_slice", x, np.array([start]), np.array([end]), axes=[0], steps=[step])
    assert found.tolist() == x[start:end:step].tolist()
    found = apply("dynamic_slice", x, np.array([-9]), np.array([-99]), axes=[0], steps=[-1])
    assert found.tolist() == [0]


def test_casts() -> None:
    x = np.array([-1.5, 0.0, 2.75, NAN], np.float32)
    assert apply("cast", x[:3], dtype=numerics.dtypes.i64).tolist() == [-1, 0, 2]
    assert apply("cast", x, dtype=numerics.dtypes.bool_).tolist() == [True, False, True, True]
    assert apply("cast", np.array([9, -9]), dtype=numerics.dtypes.i4).tolist() == [-7, 7]
    assert apply("cast", np.array(["2.5", "nan"], object), dtype=numerics.dtypes.f32)[0] == 2.5
    assert apply("cast", np.array([1, 2]), dtype=numerics.dtypes.string).tolist() == ["1", "2"]
