"""Constants that a builder makes of numbers and arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from isthmus.ir import Builder, Graph, Tensor
from isthmus.ir.dtypes import DType, bf16, bool_, c64, f16, f32, i4, i32, i64, u8, u64
from isthmus.ir.errors import InferError

FITS: list[tuple[Any, DType]] = [
    (2.0, i64), (7, i4), (-8, i4), (255, u8), (2**64 - 1, u64), (True, f32), (1, bool_), (0.1, bf16), (2**70, f32),
    (1e9, f16), (1, c64), ([], i64), (np.arange(3), u8),
]  # fmt: skip
BENDS: list[tuple[Any, DType]] = [
    (0.5, i64), (8, i4), (300, u8), (-1, u8), (2**63, i64), (2**70, i64), (float(2**63), i64), (math.inf, i32),
    (math.nan, i32), (2, bool_), (1 + 2j, f32), ([1, 2.5], i32), (np.array([1, 256]), u8),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype"), FITS, ids=repr)
def test_a_constant_is_what_was_given(value: Any, dtype: DType) -> None:
    with np.errstate(over="ignore"):
        weight = Builder(Graph()).constant(value, dtype).weight
        assert weight is not None
        assert weight.dtype is dtype
        np.testing.assert_array_equal(weight.array(), np.asarray(value).astype(dtype.numpy))


@pytest.mark.parametrize(("value", "dtype"), BENDS, ids=repr)
def test_a_number_that_a_type_does_not_hold_is_not_bent(value: Any, dtype: DType) -> None:
    g = Graph()
    b = Builder(g)
    with pytest.raises(InferError, match=f"{dtype} does not hold the constant"):
        b.constant(value, dtype)
    x = g.add_input(Tensor(dtype, ()), "x")
    with pytest.raises(InferError, match=f"{dtype} does not hold the constant"):
        b.eq(x, value)
    assert not list(g.nodes)
