"""Calls that say the same as the example in another way, and calls that do not."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from isthmus.frontends.torch import capture
from isthmus.ir.errors import UsageError

A, B, T = (torch.full((2,), float(value)) for value in (1, 2, 3))
Pair = namedtuple("Pair", "left right")


def two(x: Any, y: Any, flag: bool = True) -> Any:
    return x - y if flag else y - x


def many(x: Any, *more: Any, scale: Any = None, **options: Any) -> Any:
    return x + sum(more) + (0 if scale is None else scale) + sum(options.values())


def mapped(d: Any) -> Any:
    return d["a"] - d["b"]["c"]


def nested(d: Any) -> Any:
    return d[0] - d[1]


@pytest.mark.parametrize(("model", "example", "call", "found"), [
    (two, ((A, B), {}), ((), {"y": B, "x": A}), [1, 2]),
    (two, ((A, B), {}), ((A,), {"y": B}), [1, 2]),
    (two, ((), {"y": B, "x": A}), ((A, B), {}), [2, 1]),
    (two, ((), {"x": A, "y": B}), ((), {"y": B, "x": A}), [1, 2]),
    (two, ((A, B), {}), ((A, B), {"flag": True}), [1, 2]),
    (two, ((A, B, True), {}), ((A,), {"y": B}), [1, 2]),
    (many, ((A, B, T), {}), ((A, B, T), {}), [1, 2, 3]),
    (many, ((A,), {"b": B, "a": T}), ((A,), {"a": T, "b": B}), [1, 2, 3]),
    (many, ((A,), {"b": B, "scale": T}), ((), {"scale": T, "x": A, "b": B}), [1, 2, 3]),
    (mapped, (({"a": A, "b": {"d": T, "c": B}},), {}), (({"b": {"c": B, "d": T}, "a": A},), {}), [1, 3, 2]),
    (mapped, ((OrderedDict(a=A, b={"c": B}),), {}), ((OrderedDict(b={"c": B}, a=A),), {}), [1, 2]),
    (mapped, ((defaultdict(int, a=A, b={"c": B}),), {}), ((defaultdict(int, b={"c": B}, a=A),), {}), [1, 2]),
    (nested, (([A, B],), {}), (([A.numpy(), B.numpy()],), {}), [1, 2]),
    (torch.sub, ((A, B), {}), ((A, B), {}), [1, 2]),
])  # fmt: skip
def test_the_same_in_other_words(model: Any, example: Any, call: Any, found: list[int]) -> None:
    captured = capture(model, *example)
    assert [int(array[0]) for array in captured.flatten(*call)] == found
    assert all(np.array_equal(*pair) for pair in zip(captured.flatten(*example), captured.flatten(*call), strict=True))


@pytest.mark.parametrize(("model", "example", "call", "told"), [
    (two, ((A, B), {}), ((A,), {}), "missing a required argument: 'y'"),
    (two, ((A, B), {}), ((A, B), {"z": B}), "unexpected keyword argument 'z'"),
    (two, ((A, B), {}), ((A, B, False), {}), "has flag, other than the example inputs\n  expected: x, y"),
    (two, ((A, B, False), {}), ((A, B), {}), "no tensor differs"),
    (many, ((A, B, T), {}), ((A, B), {}), r"lacks more\[1\]"),
    (many, ((A,), {"b": B}), ((A,), {"a": B}), "lacks b and has a,"),
    (many, ((A,), {}), ((A,), {"scale": T}), "has scale,"),
    (torch.sub, ((A, B), {}), ((A,), {}), "lacks argument 1"),
    (mapped, (({"a": A, "b": {"c": B}},), {}), (({"a": A, "b": {"d": B}},), {}), r"d\['b'\] has another(.|\n)*'c'(.|\n)*'d'"),
    (mapped, (({"a": A, "b": {"c": B}},), {}), ((A,), {}), "d has another(.|\n)*expected: a dict\n  found: a tensor"),
    (nested, (([A, B],), {}), (((A, B),), {}), "expected: a list\n  found: a tuple"),
    (nested, (([A, B],), {}), (([A, B, T],), {}), "expected: a list of 2\n  found: a list of 3"),
    (nested, ((Pair(A, B),), {}), (((A, B),), {}), "expected: a Pair"),
    (two, ((A, B), {}), ((A.to("meta"), B), {}), "the input x has no data"),
    (two, ((A, B), {}), ((A.to_sparse(), B), {}), "the input x must be a dense tensor\n  found: a sparse_coo one"),
    (two, ((A, B), {}), ((A, torch.nested.nested_tensor([A])), {}), "input y must be a dense tensor\n  found: a nested one"),
])  # fmt: skip
def test_anything_else_is_told_in_words(model: Any, example: Any, call: Any, told: str) -> None:
    captured = capture(model, *example)
    with pytest.raises(UsageError, match=told) as caught:
        captured.flatten(*call)
    assert "TreeSpec" not in str(caught.value)
