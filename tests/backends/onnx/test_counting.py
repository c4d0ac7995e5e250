"""Ranges whose ends may be negative, as indices: onnxruntime makes slices of them, in which such an end is another place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emitted import Model, f

from isthmus.backends.onnx.opsets import NEWEST
from isthmus.ir import dtypes as T
from isthmus.ir.dims import Dim

ENDS: dict[str, Any] = {
    "back": lambda n: (n - 1, -1, -1), "back by two": lambda n: (n - 1, -1, -2), "back by sizes": lambda n: (n - 1, -1, -n),
    "to the first": lambda n: (n - 1, 0, -1), "from behind": lambda n: (-n, 0, 1), "across": lambda n: (-2, n, 1),
    "perhaps none": lambda n: (0, n - 3, 1), "known": lambda n: (2, -1, -1), "forth": lambda n: (0, n, 1),
}  # fmt: skip


@pytest.mark.parametrize("opset", [13, NEWEST])
@pytest.mark.parametrize("dtype", [T.i64, T.i32], ids=str)
@pytest.mark.parametrize("ends", ENDS)
def test_sizes_as_ends(ends: str, dtype: T.DType, opset: int) -> None:
    m = Model()
    n: Dim = m.dim("N", lo=3 if ends == "known" else 2)
    x = m.input(n, 3)
    start, stop, step = ENDS[ends](n)
    places = m.b.arange(start=start, stop=stop, step=step, dtype=dtype)
    artefact = m.emit(m.b.gather(x, places, axis=0), opset=opset)
    for size in (3, 4, 7):
        m.check(artefact, f(size, 3))


@pytest.mark.parametrize("dtype", [T.i64, T.i32], ids=str)
def test_data_as_ends(dtype: T.DType) -> None:
    m = Model()
    x = m.input(5, 3)
    artefact = m.emit(m.b.gather(x, m.b.range(*(m.input(dtype=dtype, name=name) for name in "abc")), axis=0))
    for ends in ((4, -1, -1), (4, -1, -2), (0, -3, 1), (-5, 0, 2), (-2, 3, 1), (1, 4, 1), (3, 0, -2), (2, 2, 1)):
        m.check(artefact, f(5, 3), *np.array(ends).astype(dtype.numpy))


def test_what_cannot_be_negative_is_one_node() -> None:
    m = Model()
    n = m.dim("N")
    x, count = m.input(n, 3), m.input(dtype=T.i64, name="count")
    ends = m.b.size(n), m.b.maximum(count, 0), m.b.cast(m.b.constant(4, T.i32), dtype=T.i64)
    ranges = [m.b.range(m.b.constant(0, T.i64), end, m.b.constant(1, T.i64)) for end in ends]
    artefact = m.emit(*ranges, m.b.arange(stop=n), m.b.neg(x))
    assert (artefact.op_counts["Range"], artefact.op_counts.get("Sub")) == (4, None)
