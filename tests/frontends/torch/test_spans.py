"""Branches on data whose answer is the same for all inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from watching import agree

from isthmus.frontends.torch.spans import RULES, span_of
from isthmus.ir import Builder, Graph, Tensor, dtypes, interpreter
from isthmus.ir.errors import CaptureError


def some(found: torch.Tensor) -> Any:
    return found.any().item()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, m: x + 1 if some(m.long() > 1) else x,
        lambda x, m: x + 1 if some((1 - F.pad(torch.ones(x.shape), (0, 3)).long()) * -5 > 0) else x,
        lambda x, m: x + 1 if (m | True).all() else x,
        lambda x, m: x * (m.float() * 2 >= 0).any(0).item(),
        lambda x, m: x * torch.where(m, 2.0, 2.0).amax().item(),
        lambda x, m: x + 1 if torch.cat([m.float(), m.float() - 1]).min() >= -1 else x,
    ],
)
def test_branches(function: Callable[..., Any]) -> None:
    x, m = torch.rand(3, 4), torch.tensor([True, False, True])
    agree(function, (x, m), dynamic={"x": {0: "N", 1: "M"}}, sizes=[{"N": 2, "M": 5}])


def test_asks_only_where_the_answer_is_the_same() -> None:
    with pytest.raises(CaptureError, match="both outcomes are possible"):
        agree(lambda x, m: x + 1 if (m.long() > 0).any() else x, (torch.rand(3), torch.tensor([True, False])))


RNG = np.random.default_rng(0)
BINARY = ("add", "sub", "mul", "minimum", "maximum", "lt", "le", "gt", "ge", "eq", "ne")


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i64], ids=str)
def test_elements_lie_within(name: str, dtype: dtypes.DType) -> None:
    assert name in RULES
    for _ in range(50):
        graph = Graph("main")
        b = Builder(graph)
        arrays = [RNG.integers(-3, 4, RNG.integers(1, 4)).astype(dtype.numpy)[:, None] for _ in range(2)]
        left, right = map(b.constant, arrays)
        result = getattr(b, name)(b.reshape(left, shape=[1, len(arrays[0])]), right)
        graph.set_outputs([result])
        (found,) = interpreter.run(graph, [])
        span = span_of(result, {})
        assert span is not None
        assert span[0] <= found.min() <= found.max() <= span[1]


def test_nothing_is_known_of_what_may_wrap_or_be_nan() -> None:
    graph = Graph("main")
    b = Builder(graph)
    most = b.constant(np.full(2, 2**63 - 1))
    assert span_of(b.add(most, most), {}) is None
    assert span_of(b.constant(np.array([1.0, np.nan], np.float32)), {}) is None
    x = graph.add_input(Tensor(dtypes.f32, (2,)), "x")
    assert span_of(b.maximum(x, b.constant(np.zeros(2, np.float32))), {}) is None
    assert span_of(b.gt(x, x), {}) == (0, 1)
