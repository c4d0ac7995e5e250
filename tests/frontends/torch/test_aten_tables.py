"""Lowerings of embedding tables: rows held to a norm, bags of rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from aten_cases import Case, cases, check, f, i


def bags(mode: str, **options: object) -> object:
    """Bags of one width, and bags that start at places that are data, the second one empty."""

    def run(k: torch.Tensor, table: torch.Tensor, width: torch.Tensor) -> tuple[torch.Tensor, ...]:
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), width[:1], width.cumsum(0)])
        return (
            F.embedding_bag(k, table, mode=mode, **options),
            F.embedding_bag(k.flatten(), table, offsets, mode=mode, **options),
            F.embedding_bag(k.flatten(), table, torch.cat([offsets, torch.full((1,), k.numel())]), mode=mode,
                include_last_offset=True, **options),
        )  # fmt: skip

    return run


@cases(
    renorm=[lambda x: (torch.renorm(x, 2, 0, 1.5), torch.renorm(x, 1, 1, 4), torch.renorm(x, 3.0, -1, 2.0)), f("N", 3, 2)],
    held=[lambda k, t: F.embedding(k, t * 1, max_norm=1.5), i("N", 3, low=0, high=3), f(6, 3)],
    held_by_sums=[lambda k, t: F.embedding(k, t * 1, max_norm=1.5, norm_type=1.0), i("N", low=0, high=3), f(6, 3)],
)  # fmt: skip
def test_norms(case: Case) -> None:
    check(case)


@cases(
    sum=[bags("sum"), i("N", 4, low=0, high=5), f(6, 3), i(2, low=1, high=3)],
    mean=[bags("mean"), i("N", 4, low=0, high=5), f(6, 3), i(2, low=1, high=3)],
    max=[bags("max"), i("N", 4, low=0, high=5), f(6, 3), i(2, low=1, high=3)],
    padded=[bags("sum", padding_idx=2), i("N", 4, low=1, high=3), f(6, 3), i(2, low=1, high=3)],
    padded_mean=[bags("mean", padding_idx=2), i("N", 4, low=1, high=3), f(6, 3), i(2, low=1, high=3)],
    padded_max=[bags("max", padding_idx=-4), i("N", 4, low=1, high=3), f(6, 3), i(2, low=1, high=3)],
    weighted=[lambda k, t, s: F.embedding_bag(k, t, per_sample_weights=s, mode="sum"), i("N", 4, low=0, high=5), f(6, 3),
        f("N", 4)],
)  # fmt: skip
def test_bags(case: Case) -> None:
    check(case)
