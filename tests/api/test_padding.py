"""Padding in every mode, by amounts that add and that take away, at sizes other than the example's: as torch does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import isthmus
from isthmus.errors import UnsupportedError, UsageError

MODES = ("circular", "reflect", "replicate", "constant")
AMOUNTS = (
    (-1, 2), (2, -1), (-2, -1), (-3, 3), (0, -2), (-1, 2, 1, -2), (2, -1, -1, 2), (-1, -1, 2, 1), (1, -2, 2, 1, -1, 3),
    (-2, 2, 0, 0, -1, 1),
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("amounts", AMOUNTS, ids=str)
def test_amounts_that_take_away(mode: str, amounts: tuple[int, ...]) -> None:
    rank = len(amounts) // 2

    def model(x: torch.Tensor) -> Any:
        return F.pad(x, amounts, mode=mode)

    open_ = {axis + 2: f"N{axis}" for axis in range(rank)}
    net = isthmus.compile(model, torch.randn(2, 3, *[7] * rank), dynamic_shapes=[open_])
    for size in (6, 7, 11):
        x = torch.randn(2, 3, *range(size, size + rank))
        torch.testing.assert_close(net(x), model(x), rtol=0, atol=0)


def test_amounts_that_are_sizes() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        return F.pad(x, (-y.shape[0], y.shape[0]), mode="circular"), F.pad(x, (y.shape[0], 1 - y.shape[0]), mode="circular")

    net = isthmus.compile(model, (torch.randn(1, 2, 9), torch.randn(3)), dynamic_shapes=[{2: "N"}, {0: "K"}])
    for size, count in ((9, 3), (8, 2), (13, 5)):
        args = torch.randn(1, 2, size), torch.randn(count)
        torch.testing.assert_close(net(*args), model(*args), rtol=0, atol=0)


def test_a_module_that_cuts_what_it_wraps() -> None:
    model = nn.CircularPad2d((2, -1, -2, 3))
    net = isthmus.compile(model, torch.randn(1, 2, 8, 8), dynamic_shapes=[{2: "H", 3: "W"}])
    x = torch.randn(1, 2, 11, 6)
    torch.testing.assert_close(net(x), model(x), rtol=0, atol=0)
    assert net.verify().ok


def test_more_than_is_left_is_refused() -> None:
    """torch checks the amounts against the whole axis, and then reads elements that it has not written."""
    with pytest.raises(UnsupportedError, match="circular padding of 3 around 2 elements, which torch leaves unwritten"):
        isthmus.compile(lambda x: F.pad(x, (3, -4), mode="circular"), torch.randn(1, 2, 6))
    net = isthmus.compile(lambda x: F.pad(x, (3, -4), mode="circular"), torch.randn(1, 2, 9), dynamic_shapes=[{2: "N"}])
    with pytest.raises(UsageError, match="the graph holds only for N >= 7"):
        net(torch.randn(1, 2, 6))
