"""Losses, pools at random places and reductions of segments, held against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from aten_cases import Case, cases, check, f, i

D = torch.float64
CHUNKS = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_by_chunks(reduction: str) -> None:
    def function(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, classes: torch.Tensor) -> Any:
        loss, kinds = F.linear_cross_entropy, {"reduction": reduction, "options": CHUNKS}
        found = [loss(x, weight, target, **kinds), loss(x, weight, target, linear_bias=classes, weight=classes, **kinds)]
        found.append(loss(x[:2], weight, target[:2] * 0, ignore_index=0, **kinds))
        return *found, loss(x, weight, target, ignore_index=1, **kinds)

    check(Case(function, f("N", 3), f(5, 3), i("N", low=0, high=4), f(5, low=0.1)))


# ---- sequences


def ctc(x: torch.Tensor, targets: torch.Tensor, frames: Any, letters: Any, **more: Any) -> Any:
    return [F.ctc_loss(x.log_softmax(2), targets, frames, letters, reduction=kind, **more) for kind in ("none", "mean", "sum")]


@cases(
    lists=[lambda x, y: ctc(x, y, [9, 8, 5], [4, 2, 0], blank=2), f(9, 3, 6), i(3, 4, low=3, high=5)],
    tensors=[lambda x, y, n, m: ctc(x, y, n, m, zero_infinity=True), f(9, "N", 6), i("N", 4, low=1, high=3),
             i("N", low=0, high=9), i("N", low=0, high=4)],
    repeated_and_too_short=[lambda x, y: ctc(x, y, [9, 4, 0], [4, 4, 0]), f(9, 3, 6, dtype=D), i(3, 4, low=1, high=1)],
    behind_each_other=[lambda x, y: ctc(x, y, [9, 8, 5], [4, 2, 0]), f(9, 3, 6), i(6, low=1, high=5)],
    one=[lambda x, y: F.ctc_loss(x.log_softmax(1), y, torch.tensor(9), torch.tensor(3)), f(9, 6), i(3, low=1, high=5)],
)  # fmt: skip
def test_ctc(case: Case) -> None:
    check(case)


# ---- pools


@cases(
    planes=[lambda x, r: F.fractional_max_pool2d(x, 3, output_size=(4, 3), return_indices=True, _random_samples=r),
            f("N", 3, 9, 8), f("N", 3, 2, low=0, high=1)],
    one=[lambda x, r: F.fractional_max_pool2d(x, (2, 3), output_size=(1, 2), return_indices=True, _random_samples=r),
         f(3, 7, 8), f(1, 3, 2, low=0, high=1)],
    volumes=[lambda x, r: F.fractional_max_pool3d(x, (2, 3, 2), output_size=(4, 2, 3), return_indices=True, _random_samples=r),
             f("N", 2, 7, 6, 8, dtype=D), f("N", 2, 3, low=0, high=1, dtype=D)],
)  # fmt: skip
def test_fractional_pools(case: Case) -> None:
    check(case)


# ---- segments


@pytest.mark.parametrize("kind", ["sum", "mean", "prod", "max", "min"])
def test_segments(kind: str) -> None:
    lengths = torch.tensor([[1, 0, 3], [2, 2, 0]])
    offsets = torch.tensor([0, 2, 2, 4])

    def function(x: torch.Tensor) -> Any:
        reduce = torch.segment_reduce
        found = [reduce(x, kind, lengths=lengths, axis=1), reduce(x[0, :, 0], kind, offsets=offsets)]
        return *found, reduce(x[0], kind, lengths=lengths[0], initial=2, axis=0)

    check(Case(function, f(2, 4, "N")))
