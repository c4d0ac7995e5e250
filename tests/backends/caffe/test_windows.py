"""Windows of every kind: larger than what they slide over, with gaps, over uneven padding, half behind the end."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

import isthmus
from isthmus.errors import UnsupportedError


@pytest.mark.parametrize("dialect", ["portable", "bvlc", "opencv", "mnn"])
@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.MaxPool2d(3, 2, 0, ceil_mode=True), (1, 2, 2, 4)),
        (nn.MaxPool2d((4, 3), (3, 3), (1, 0), ceil_mode=True), (1, 4, 1, 9)),
    ],
)
def test_the_largest_of_all_there_is(module: nn.Module, shape: tuple[int, ...], dialect: str) -> None:
    net = isthmus.compile(module, torch.randn(shape), target="caffe", dialect=dialect)
    x = torch.randn(shape)
    torch.testing.assert_close(net(x), module(x), rtol=0, atol=0)


@pytest.mark.parametrize("dialect", ["portable", "bvlc"])
@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.AvgPool2d(3, 2, 0, ceil_mode=True), (1, 2, 2, 4)),
        (nn.AvgPool2d((4, 4), (4, 4), (2, 1), ceil_mode=True, count_include_pad=False), (1, 4, 5, 15)),
        (nn.AvgPool2d((2, 3), (3, 4), 1), (1, 3, 13, 11)),
        (nn.AvgPool2d((2, 1), (3, 2), (1, 0), ceil_mode=True), (1, 3, 10, 6)),
        (nn.AvgPool2d((1, 2), (2, 5), (0, 1), ceil_mode=True, count_include_pad=False), (2, 2, 6, 9)),
        (nn.MaxPool2d((2, 2), (3, 4), ceil_mode=True), (1, 3, 13, 6)),
        (nn.MaxPool2d((5, 3), (3, 5), (2, 1), ceil_mode=True), (2, 2, 16, 9)),
    ],
)
def test_windows_behind_the_end_and_with_gaps(module: nn.Module, shape: tuple[int, ...], dialect: str) -> None:
    assert_right(module, shape, dialect)


def assert_right(module: nn.Module, shape: tuple[int, ...], dialect: str) -> None:
    net = isthmus.compile(module, torch.randn(shape), target="caffe", dialect=dialect)
    x = torch.randn(shape)
    torch.testing.assert_close(net(x), module(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(24))
def test_any_pool_is_right_or_refused_for_what_the_user_wrote(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    kernel, strides = ([draw.randint(1, 5), draw.randint(1, 5)] for _ in range(2))
    padding = [draw.randint(0, size // 2) for size in kernel]
    shape = (draw.randint(1, 2), draw.randint(1, 3), draw.randint(5, 16), draw.randint(5, 16))
    ceil, dilation = draw.random() < 0.5, draw.choice([1, 1, 1, 2])
    counted, divisor = draw.random() < 0.5, draw.choice([None, None, 3])
    dialect = draw.choice(["portable", "bvlc", "opencv", "mnn"])
    if seed % 2:
        assert_right(nn.AvgPool2d(kernel, strides, padding, ceil, counted, divisor), shape, dialect)
        return
    module = nn.MaxPool2d(kernel, strides, padding, dilation, ceil_mode=ceil)
    if dilation == 1:
        assert_right(module, shape, dialect)
    elif module(torch.randn(shape)).numel():
        with pytest.raises(UnsupportedError, match="max_pool: Caffe does not pool with dilation"):
            isthmus.compile(module, torch.randn(shape), target="caffe", dialect=dialect)
