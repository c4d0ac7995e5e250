"""What early opsets lack and is said in other ops: equal to the op itself, at infinities, nan, extremes and no elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emitted import Model, f

from isthmus.ir import dtypes as T
from isthmus.ir import interpreter
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Value
from isthmus.ir.testing import agree

INF, NAN = np.inf, np.nan
ODD = np.array([NAN, -INF, 2, -0.0, NAN, INF, 2, -1], np.float32)


def same_at(opset: int, build: Callable[[Model], Value | tuple[Value, ...]], *calls: tuple[Any, ...]) -> None:
    """What the runtime gives of a file of this opset is what the graph gives before anything is lowered."""
    m = Model()
    outputs = build(m)
    outputs = (outputs,) if isinstance(outputs, Value) else outputs
    m.graph.set_outputs(outputs)
    wanted = [interpreter.run(m.graph, list(call)) for call in calls]
    artefact = m.emit(*outputs, opset=opset)
    assert artefact.imports == {"": opset}
    for call, each in zip(calls, wanted, strict=True):
        assert agree(artefact.run(call), each)


@pytest.mark.parametrize("opset", [7, 8])
@pytest.mark.parametrize("dtype", [T.f16, T.f32, T.f64], ids=str)
@pytest.mark.parametrize("shapes", [("xx", "xx"), ("xx", "1"), ("1", "xx"), ("1", "1"), ("x", "x1")])
def test_choice_keeps_what_is_not_chosen_out(opset: int, dtype: DType, shapes: tuple[str, str]) -> None:
    """Even where that is infinite or nan."""

    def build(m: Model) -> Value:
        n = m.dim("n", lo=0)
        named = [tuple(1 if size == "1" else n for size in shape) for shape in shapes]
        x, y = (m.input(*shape, dtype=dtype, name=name) for shape, name in zip(named, "xy", strict=True))
        return m.b.where(m.input(n, n, dtype=T.bool_, name="cond"), x, y)

    calls = []
    for size in (8, 0):
        x, y = (
            np.resize(ODD[number:], [1 if axis == "1" else size for axis in shape]).astype(dtype.numpy)
            for number, shape in enumerate(shapes)
        )
        calls.append((x, y, f(size, size) > 0))
    same_at(opset, build, *calls)


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [T.f32, T.i64], ids=str)
@pytest.mark.parametrize("size", [8, "n"])
def test_order_of_any_number(opset: int, dtype: DType, descending: bool, size: Any) -> None:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    content = ODD if dtype is T.f32 else np.array([3, most, least, -1, most - 1, 3, least + 1, -1])

    def build(m: Model) -> tuple[Value, ...]:
        n = m.dim("n") if size == "n" else size
        return tuple(m.b.sort(m.input(2, n, dtype=dtype), axis=1, descending=descending))

    same_at(opset, build, (np.stack([content, content[::-1]]),))


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("k", [0, 3, "k"])
@pytest.mark.parametrize("largest", [False, True])
def test_some_of_the_greatest(opset: int, k: Any, largest: bool) -> None:
    def build(m: Model) -> tuple[Value, ...]:
        x, other = m.input(8), m.input(m.dim("k"), name="other")
        return *m.b.topk(x, k=m.graph.inputs[1].tensor.shape[0] if k == "k" else k, axis=0, largest=largest), m.b.neg(other)

    same_at(opset, build, (ODD, f(2)))


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17])
@pytest.mark.parametrize("op", ["bit_and", "bit_or", "bit_xor"])
@pytest.mark.parametrize("dtype", [T.i8, T.u8, T.i32, T.i64], ids=str)
def test_bits_of_extremes(opset: int, op: str, dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    edges = np.array([info.min, info.min + 1, 0, 1, 5, info.max // 3, info.max - 1, info.max], dtype.numpy)

    def build(m: Model) -> Value:
        return getattr(m.b, op)(m.input(8, 1, dtype=dtype, name="x"), m.input(8, dtype=dtype, name="y"))

    same_at(opset, build, (edges[:, None], edges))


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("op", ["fmod", "mod", "floor_div"])
def test_remainders_of_floats_are_exact(opset: int, op: str) -> None:
    tiny, huge = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    edges = np.array([*ODD, 0.1, -0.3, 1e30, -7.5, tiny, huge, 3 * tiny, 1 / 3], np.float32)
    divisors = np.array([0.1, -0.3, 7, tiny, huge, INF, 0, NAN], np.float32)
    if op == "floor_div":  # its quotients round
        edges, divisors = edges[np.abs(edges) < 10], divisors[:3]

    def build(m: Model) -> Value:
        return getattr(m.b, op)(m.input(len(edges), 1, name="x"), m.input(len(divisors), name="y"))

    same_at(opset, build, (edges[:, None], divisors))


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
@pytest.mark.parametrize("how", [{}, {"exclusive": True}, {"reverse": True}])
def test_running_sums_of_any_number(opset: int, op: str, how: dict[str, bool]) -> None:
    same_at(opset, lambda m: getattr(m.b, op)(m.input(m.dim("n", lo=0), 3, dtype=T.i64), axis=0, **how),
            *((np.arange(3 * size).reshape(size, 3) - 4,) for size in (1, 5, 0)))  # fmt: skip


@pytest.mark.parametrize(
    ("opset", "reduction"),
    [(7, "none"), *((opset, each) for opset in (7, 9, 11, 15, 17, 18) for each in ("add", "mul", "min", "max"))],
)
@pytest.mark.parametrize("dtype", [T.f16, T.f32, T.i64], ids=str)
def test_several_writes_to_one_place(opset: int, reduction: str, dtype: DType) -> None:
    """In their order; without reduction that is left open from opset 9 on."""

    def build(m: Model) -> Value:
        n = m.dim("n")
        x, updates = m.input(n, 2, dtype=dtype), m.input(4, 2, dtype=dtype, name="updates")
        places = m.input(4, 2, dtype=T.i64, name="places")
        return m.b.scatter_elements(x, places, updates, axis=0, reduction=reduction)

    places = np.array([[0, -1], [1, 1], [0, 1], [-2, 0]])
    x, updates = (np.round(f(*shape, seed=9) * 4).astype(dtype.numpy) for shape in ((3, 2), (4, 2)))
    same_at(opset, build, (x, updates, places))


@pytest.mark.parametrize("opset", [7, 8, 9])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 2)])
def test_places_of_what_is_not_zero(opset: int, shape: tuple[int, ...]) -> None:
    def build(m: Model) -> Value:
        return m.b.nonzero(m.input(*(m.dim(f"n{axis}", lo=0) for axis in range(len(shape)))))

    contents = [f(*shape) > 0, np.zeros(shape), np.full(shape, NAN), np.zeros((0, *shape[1:]))]
    same_at(opset, build, *((content.astype(np.float32),) for content in contents))


@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize("bounds", [(0, 5, 1), (5, 0, -2), (3, 3, 1), (0, 7, 3), (4, 2, 1)])
@pytest.mark.parametrize("dtype", [T.i32, T.i64, T.f32, T.f64], ids=str)
def test_numbers_from_bounds_that_are_data(opset: int, bounds: tuple[int, ...], dtype: DType) -> None:
    given = [np.asarray(number * (0.3 if dtype.is_float else 1), dtype.numpy) for number in bounds]
    same_at(opset, lambda m: m.b.range(*(m.input(dtype=dtype, name=name) for name in "abc")), tuple(given))
