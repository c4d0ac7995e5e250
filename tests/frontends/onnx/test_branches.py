"""Branches whose results have other ranks: each goes on by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import f32, imported, model, same, text

import isthmus
from isthmus.frontends.onnx.importing import import_model

CONDITION = """
    s = ReduceSum<keepdims = 0>(x)
    c = Greater(s, s0)
"""


def fork(name: str, given: str, made: str) -> str:
    """A sum or one sum a row, which add to any x alike but in rank."""
    return f"""{made} = If (c) <
        then_branch = t{name} () => (a{name}) {{ a{name} = ReduceSum<keepdims = 0>({given}) }},
        else_branch = e{name} () => (b{name}) {{ d{name} = Constant<value_ints = [1]>() b{name} = ReduceSum({given}, d{name}) }}
    >"""


def forked(count: int) -> Any:
    """So many of these, one behind the other."""
    lines, last = [], "x"
    for index in range(count):
        lines += [fork(str(index), last, f"y{index}"), f"z{index} = Mul(x, y{index})"]
        last = f"z{index}"
    return model(f"(float[2, 3] x, float s0) => (float z) {{ {CONDITION} {' '.join(lines)} z = Identity({last}) }}", 18)


def right(x: Any, bound: float, count: int) -> Any:
    found = x
    for _ in range(count):
        found = x * (found.sum() if x.sum() > bound else found.sum(1, keepdims=True))
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_comes_behind_goes_into_the_branches(count: int) -> None:
    made = forked(count)
    assert " = if(" in text(made)
    imported(made)
    for target in ("reference", "onnx"):
        net = isthmus.compile(made, target=target)
        for bound in (-100.0, 100.0):
            x = f32(2, 3)
            same(net(x, np.float32(bound))["z"], right(x, bound, count))


def test_forks_of_forks_are_few() -> None:
    graph = import_model(forked(12))
    assert len(list(graph.graph.walk())) < 500
    assert graph.opaque


def test_a_result_that_nothing_works_with_stays() -> None:
    made = model(f"(float[2, 3] x, float s0) => (float z) {{ {CONDITION} {fork('0', 'x', 'z')} }}", 18)
    assert "f32[?]" not in text(made)
    net = isthmus.compile(made)
    x = f32(2, 3)
    same(net(x, np.float32(-100))["z"], x.sum())
    same(net(x, np.float32(100))["z"], x.sum(1, keepdims=True))
