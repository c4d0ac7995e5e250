"""Functions that torch maps over elements: `torch.vmap`, and what scores of attention are modified by."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import vmap
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from watching import agree

SLOPES = torch.tensor([0.5, 0.25])
BLOCKS = create_block_mask(lambda b, h, q, k: q >= k, None, None, 6, 6, device="cpu")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 20) * 2.5 - 1 / x,
        lambda x: torch.where(x > 0, x, 0.0) + torch.where(x > 1, 1, 0),
        lambda x: x.clamp(min=0) ** 2 + torch.maximum(x, torch.tensor(0.5)) % 3,
        lambda x: (x > 0.5).long() * 3 + 7,
    ],
)
def test_of_each_element(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    agree(lambda x: vmap(vmap(function))(x), (torch.randn(3, 4),), dynamic={"x": {0: "N"}}, sizes=[{"N": 1}, {"N": 5}])


@pytest.mark.parametrize(
    "attention",
    [
        lambda x: flex_attention(x, x, x, lambda score, b, h, q, k: torch.where(q >= k, score, -float("inf"))),
        lambda x: flex_attention(x, x, x, lambda score, b, h, q, k: 9 * torch.tanh(score / 9) + SLOPES[h] * (k - q), scale=0.3),
        lambda x: flex_attention(x, x[:, :1], x[:, 1:], enable_gqa=True),
    ],
)
def test_modified_scores(attention: Callable[[torch.Tensor], torch.Tensor]) -> None:
    agree(attention, (torch.randn(2, 2, 6, 4),), dynamic={"x": {0: "N", 2: "S"}}, sizes=[{"N": 1, "S": 1}, {"N": 3, "S": 9}])


def test_masked_scores() -> None:
    agree(lambda x: flex_attention(x, x, x, block_mask=BLOCKS), (torch.randn(2, 2, 6, 4),))
