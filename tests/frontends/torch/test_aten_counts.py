"""Lowerings that count: histograms in one dimension and in several."""

from __future__ import annotations

import torch
from aten_cases import Case, cases, check, f, i


@cases(
    plain=[lambda x: (torch.histc(x), torch.histc(x, 5), torch.histc(x, 7, -1, 2), torch.histc(x[:1, :1], 4), torch.histc(x, 3,
        2, 2), torch.histc(x[:0], 3)), f("N", "M")],
    plain_of_numbers=[lambda x: torch.histc(x.float(), bins=6, min=0, max=5), i("N", low=-1, high=6)],
    counts=[lambda x: (torch.histogram(x, 4), torch.histogram(x, 5, range=(-1, 2)), torch.histogram(x, 3, range=(1, 1)),
        torch.histogram(x[:1, :1], 2), torch.histogram(x[:0], 2), torch.histogram(x, 4, density=True)), f("N", "M")],
    edges=[lambda x, e, v: (torch.histogram(x, e.cumsum(0)), torch.histogram(x, e.cumsum(0), weight=v, density=True),
        torch.histogram(x, 3, weight=v)), f("N", "M"), f(6, low=0.1, high=1), f("N", "M", low=0, high=2)],
    planes=[lambda x: (*torch.histogramdd(x, [2, 3, 4]), *torch.histogramdd(x, 2, range=[-1, 1, -2, 2, 0, 3]),
        *torch.histogramdd(x, [2, 1, 2], density=True)), f(5, 4, 3)],
    planes_of_edges=[lambda x, e, v: torch.histogramdd(x, (e.cumsum(0), e[:3].cumsum(0)), weight=v)[0], f("N", 2),
        f(6, low=0.1, high=1), f("N")],
    on_the_edge=[lambda x: (torch.histogram(x.float(), torch.tensor([0.0, 1, 2, 3])), torch.histogram(x.float(), 4)),
        i("N", low=-1, high=4)],
)  # fmt: skip
def test_histograms(case: Case) -> None:
    check(case)
