"""Which scale torch's kernels compute with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import interpolate

import isthmus


class Resize(nn.Module):
    def __init__(self, mode: str, factor: float) -> None:
        super().__init__()
        self.mode, self.factor = mode, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return interpolate(x, scale_factor=self.factor, mode=self.mode)


@pytest.mark.parametrize("size", [2, 3, 9])
@pytest.mark.parametrize("factor", [1.3, 2.3])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"])
def test_sizes_that_rounding_leaves_as_they_are_or_doubles(mode: str, factor: float, size: int) -> None:
    for rank in {"linear": [1], "trilinear": [3], "nearest": [1, 2, 3], "nearest-exact": [1, 2, 3]}.get(mode, [2]):
        x = torch.randn(1, 2, *[size] * rank)
        isthmus.compile(Resize(mode, factor).eval(), x).verify(seeds=1)


def test_a_size_that_may_stay_is_assumed_not_to() -> None:
    net = isthmus.compile(Resize("bilinear", 1.3).eval(), torch.randn(1, 2, 10, 20), dynamic_shapes=({2: "H"},))
    net.verify([torch.randn(1, 2, size, 20) for size in (4, 11)])
    with pytest.raises(isthmus.errors.UsageError, match=r"holds only for H >= 4, which(.|\n)*remedy: call it where that holds"):
        net(torch.randn(1, 2, 3, 20))


def test_a_size_that_may_double_is_assumed_not_to() -> None:
    """The size of the result is computed by the graph, and what is assumed is of the input's size, so each call checks it."""
    net = isthmus.compile(Resize("nearest", 2.3).eval(), torch.randn(1, 2, 10, 20), dynamic_shapes=({2: "H"},))
    net.verify([torch.randn(1, 2, size, 20) for size in (4, 11)])
    with pytest.raises(isthmus.errors.UsageError, match="holds only for H >= 4, which"):
        net(torch.randn(1, 2, 3, 20))
    small = isthmus.compile(Resize("nearest", 2.3).eval(), torch.randn(1, 2, 3, 20), dynamic_shapes=({2: "H"},))
    small.verify([torch.randn(1, 2, size, 20) for size in (1, 2, 3)])


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize(("factor", "low"), [(0.7, [10, 19, 170, 171]), (2.3, [110, 7, 40]), (1.0000001, [5]), (0.013, [400])])
def test_factors_whose_products_round_below_a_whole_number(factor: float, low: list[int], mode: str) -> None:
    """170 * 0.7 is 118.99999999999999: no quotient of whole numbers gives torch's size."""
    net = isthmus.compile(Resize(mode, factor).eval(), torch.randn(1, 2, 500, 100), dynamic_shapes=({2: "H"},))
    net.verify([torch.randn(1, 2, size, 100) for size in low])


@pytest.mark.parametrize("factor", [0.7, 1.7, 2.3])
@pytest.mark.parametrize("how", [{"mode": "area"}, {"recompute_scale_factor": True}], ids=["area", "recomputed"])
def test_sizes_that_torch_computes_with_a_factor(how: dict[str, Any], factor: float) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return interpolate(x, scale_factor=factor, **how)

    net = isthmus.compile(function, torch.randn(1, 2, 6, 6), dynamic_shapes=({2: "H", 3: "W"},))
    assert not net.report.assumptions
    net.verify([torch.randn(1, 2, *sizes) for sizes in ((2, 3), (10, 20), (7, 110))])
