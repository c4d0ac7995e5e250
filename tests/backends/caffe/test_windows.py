"""Windows that are larger than what they slide over."""

from __future__ import annotations

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


def test_an_average_over_more_than_there_is_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no window that is larger"):
        isthmus.compile(nn.AvgPool2d(3, 2, 0, ceil_mode=True), torch.randn(1, 2, 2, 4), target="caffe")
