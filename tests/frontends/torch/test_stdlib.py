"""Functions of Python's, numpy's and torch's modules that a watched model hands sizes and tensors to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from watching import agree

from isthmus.frontends.torch import capture, stdlib
from isthmus.ir.errors import CaptureError


def test_arrays_of_sizes_are_told_from_others() -> None:
    assert stdlib.unpacked("text") == ("text", None)
    assert stdlib.unpacked(array := np.array([1, None], dtype=object)) == (array, None)


def test_tensors_filled_with_numbers_that_are_tensors_by_position_and_by_name() -> None:
    def model(x: torch.Tensor) -> Any:
        total, count = x.sum(), x.shape[:1]
        named = torch.full(size=count, fill_value=total), torch.full_like(input=x, fill_value=total)
        return torch.full(count, total), x.new_full(size=count, fill_value=total), *named

    agree(model, (torch.randn(3, 2),), dynamic=({0: "N"},), sizes=[{"N": 1}, {"N": 5}])


def test_shapes_are_broadcast_without_a_question() -> None:
    def model(x: torch.Tensor) -> Any:
        n, size = x.shape[0], torch.broadcast_shapes(x.shape, (x.shape[0], 1), (5, 1, 1), 1)
        assert torch.broadcast_shapes((2, 1), 3) == (2, 3)
        return x.expand(size), torch.ones(torch.broadcast_shapes(n, (n,)))

    captured = agree(model, (torch.randn(3, 2),), dynamic=({0: "N"},), sizes=[{"N": 1}, {"N": 4}])
    assert not captured.graph.symbols.assumptions


def test_frequencies_of_as_many_samples_as_a_size_says() -> None:
    def model(x: torch.Tensor) -> Any:
        n = x.shape[0]
        whole = torch.fft.fftfreq(n), torch.fft.fftfreq(n, 0.1, dtype=torch.float64), torch.fft.rfftfreq(n, d=1 / n)
        return *whole, torch.fft.fftfreq(5), torch.fft.rfftfreq(4, 0.5), x + 1

    captured = agree(model, (torch.randn(6),), dynamic=({0: "N"},), sizes=[{"N": 1}, {"N": 9}])
    assert not captured.graph.symbols.assumptions


@pytest.mark.parametrize("model", [
    lambda x: F.max_pool1d(x[0], x.shape[3]), lambda x: torch.max_pool1d(x[0], kernel_size=x.shape[3], stride=x.shape[3]),
    lambda x: F.avg_pool2d(x, x.shape[2:]), lambda x: F.avg_pool2d(x, kernel_size=x.size()[2:], padding=0),
    lambda x: F.max_pool2d(x, (1, x.shape[3])), lambda x: F.avg_pool3d(x, (1, x.shape[2], x.shape[3])),
    lambda x: F.max_pool2d(x, 2, 2, 1) + F.max_pool2d(x, 2, stride=2, padding=1) + F.avg_pool2d(x, 2, 2, 1),
])  # fmt: skip
def test_pools_over_axes_of_any_size(model: Any) -> None:
    agree(model, (torch.randn(2, 3, 6, 5),), dynamic=({2: "H", 3: "W"},), sizes=[{"H": 3, "W": 9}, {"H": 8, "W": 4}])


@pytest.mark.parametrize("model", [lambda x: F.max_pool2d(x, (2, x.shape[3])), lambda x: F.max_pool1d(x[0], x.shape[3], 1, 1)])
def test_other_windows_of_unknown_sizes_are_refused(model: Any) -> None:
    with pytest.raises(CaptureError, match="fixes the size W to 5"):
        capture(model, (torch.randn(2, 3, 6, 5),), dynamic_shapes=({3: "W"},))
