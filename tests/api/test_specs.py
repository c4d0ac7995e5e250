"""Example tensors in words."""

from __future__ import annotations

from typing import Any

import pytest

import isthmus
from isthmus.errors import UsageError
from isthmus.ir.dims import Expr, symbols
from isthmus.ir.dtypes import bf16, f32, i64


@pytest.mark.parametrize(("text", "dtype", "shape"), [
    ("f32[N,3,224,224]", f32, "N 3 224 224"), ("i64[]", i64, ""), (" bf16 [ a , b_1 ] ", bf16, "a b_1"), ("f32[0]", f32, "0"),
])  # fmt: skip
def test_what_it_says_is_what_it_is(text: str, dtype: object, shape: str) -> None:
    found = isthmus.spec(text)
    assert found.dtype is dtype
    assert " ".join(map(str, found.shape)) == shape


def test_a_hint_may_be_given_and_a_name_is_one_size() -> None:
    found = isthmus.spec("f32[N, H=64, H]")
    assert isinstance(found.shape[1], Expr)
    assert found.shape[1] == found.shape[2]
    assert [symbol.hint for dim in found.shape for symbol in symbols(dim)] == [None, 64, 64]


@pytest.mark.parametrize(("text", "told"), [
    ("f32", "is not a tensor"), ("f32[3", "is not a tensor"), ("float[3]", "has no known dtype"), ("f32[3,,4]", "'' in"),
    ("f32[-1]", "'-1' in"), ("f32[N=x]", "'N=x' in"), ("f32[3][4]", "is not a tensor"), ("", "is not a tensor"),
    ("f32[99999999999999999999]", "'99999999999999999999' in"), ("f32[N=0]", "'N=0' in"),
    ("f32[9223372036854775808]", "is no size"), (f"f32[{'9' * 5000}]", "is no size"), (None, "None is not a tensor"),
    (3, "3 is not a tensor"),
])  # fmt: skip
def test_anything_else_is_refused_with_its_reason(text: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        isthmus.spec(text)
