"""Resizing by other factors on each axis."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import isthmus


@pytest.mark.parametrize("size", [(1, 18), (4, 12), (24, 3), (12, 2)])
def test_nearest_up_one_axis_and_down_the_other(size: tuple[int, int]) -> None:
    net = isthmus.compile(lambda x: F.interpolate(x, size=size), torch.randn(1, 6, 12, 6), target="caffe")
    x = torch.randn(1, 6, 12, 6)
    torch.testing.assert_close(net(x), F.interpolate(x, size=size), rtol=1e-6, atol=1e-6)
