"""What is assigned to a part of a tensor: torch leaves out sizes of 1 at its front, and nothing depends on where they end."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import isthmus
from isthmus.errors import UsageError

K = {0: "K"}


class Cache(nn.Module):
    """Writes to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 3, 6, 2))

    def forward(self, places: torch.Tensor, new: torch.Tensor) -> Any:
        self.kept[: new.shape[0], :, places] = new
        return self.kept * 2


def at_places(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> Any:
    x = x.clone()
    x[i] = v
    return x


def added_at_places(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> Any:
    x = x.clone()
    x[i] += v
    x[i, 1:] = v[:, :1]
    return x


def columns(x: torch.Tensor) -> Any:
    x = x.clone()
    x[:, [0, -1]] *= 2
    return x


def in_every_row(x: torch.Tensor, p: torch.Tensor, v: torch.Tensor) -> Any:
    x = x.clone()
    x[:, :, p] = v
    return x


def slices(x: torch.Tensor, v: torch.Tensor) -> Any:
    x = x.clone()
    x[:, 1:3] = v
    x[:, x.shape[1] // 2 :] = v[:, :1]
    return x


def rows(x: torch.Tensor, v: torch.Tensor) -> Any:
    """The front of what is assigned has sizes of 1 that are known."""
    x = x.clone()
    x[0] = v
    x[..., 0, :] = v[0]
    return x


def under_a_mask(x: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> Any:
    x = x.clone()
    x[m] = v
    return x


def places(k: int) -> torch.Tensor:
    return torch.randperm(5)[:k]


@pytest.mark.parametrize(
    ("model", "shapes", "args"),
    [
        (at_places, (None, K, K), lambda k: (torch.randn(5, 4), places(k), torch.randn(k, 4))),
        (at_places, ({1: "K"}, None, {1: "K"}), lambda k: (torch.randn(5, k), places(1), torch.randn(1, k))),
        (added_at_places, (None, K, K), lambda k: (torch.randn(5, 4), places(k), torch.randn(k, 4))),
        (columns, (K,), lambda k: (torch.randn(k, 4),)),
        (in_every_row, (K, None, K), lambda k: (torch.randn(k, 3, 6, 4), places(2), torch.randn(k, 3, 2, 4))),
        (slices, (K, K), lambda k: (torch.randn(k, 6), torch.randn(k, 2))),
        (rows, ({2: "K"}, {2: "K"}), lambda k: (torch.randn(2, 2, k), torch.randn(1, 1, k))),
        (under_a_mask, (K, K, K), lambda k: (torch.randn(k, 2), torch.ones(k, dtype=torch.bool), torch.randn(k, 2))),
        (Cache(), (None, K), lambda k: (places(2), torch.randn(k, 3, 2, 2))),
    ],
)
def test_one_is_a_size_like_any_other(
    model: Callable[..., Any], shapes: Sequence[Any], args: Callable[[int], tuple[torch.Tensor, ...]]
) -> None:
    net = isthmus.compile(model, args(2), dynamic_shapes=shapes)
    for k in (1, 2, 4):
        given = args(k)
        torch.testing.assert_close(net(*given), copy.deepcopy(model)(*given))


def test_what_the_model_itself_asks_there_is_told() -> None:
    def model(x: torch.Tensor) -> Any:
        x = x.clone()
        x[0 if x.shape[0] != 1 else 1 :] = 3
        return x

    net = isthmus.compile(model, torch.randn(3, 2), dynamic_shapes=[K])
    with pytest.raises(UsageError, match="K != 1"):
        net(torch.randn(1, 2))
