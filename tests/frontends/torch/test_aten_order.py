"""Lowerings of what depends on order: running extremes, middle elements, runs, distinct elements, counts."""

from __future__ import annotations

import math

import torch
from aten_cases import Case, b, cases, check, f, i

NAN = math.nan


def holes(x: torch.Tensor) -> torch.Tensor:
    """Some elements made nan, and a whole row."""
    x = torch.where(x > 2, NAN, x)
    return torch.where(torch.arange(x.shape[0])[:, None] == 1, NAN, x)


@cases(
    floats=[lambda x: (torch.cummax(x, 0), torch.cummin(x, -1), torch.cummax(holes(x), 1), torch.cummin(holes(x), 0)),
        f("N", 4)],
    known=[lambda x: (torch.cummax(x, 0), torch.cummin(x, 1), torch.cummax(holes(x), 1), torch.cummin(x[0, 0], 0)), f(5, 4)],
    integers=[lambda x: (torch.cummax(x, 0), torch.cummin(x, 1), torch.cummax(x.to(torch.int8), 1)), i("N", 7, low=0, high=2)],
    bools=[lambda x: (torch.cummax(x, 0), torch.cummin(x, 1), torch.cummin(x[:, 0], 0)), b("N", 5)],
    nothing=[lambda x: (torch.cummax(x[:0], 0), torch.cummin(x[:, :0], 0)), f(5, 4)],
)  # fmt: skip
def test_running_extremes(case: Case) -> None:
    check(case)


@cases(
    floats=[lambda x: (x.median(), x.median(0), x.median(1, keepdim=True), x.nanmedian(), x.nanmedian(0), x.nanmedian(1, True)),
        f("N", 4)],
    nans=[lambda x: (holes(x).median(1), holes(x).median(), holes(x).nanmedian(), holes(x).nanmedian(1)[0],
        holes(x).nanmedian(0, keepdim=True)), f("N", "M")],
    integers=[lambda x: (x.median(), x.nanmedian(), x.median(0)[0], x.nanmedian(1)[0]), i("N", 4)],
    scalars=[lambda x: (x[0].median(), x[0].median(0), x[0].nanmedian(-1), x[:0].median(), x[:0].nanmedian()), f(3)],
    of_no_integers=[lambda x: (x[:0].median(), x[:0].nanmedian()), i(3)],
)  # fmt: skip
def test_medians(case: Case) -> None:
    check(case)


@cases(
    floats=[lambda x, q: (torch.quantile(x, q), torch.quantile(x, q, 0), torch.quantile(x, q, 1, True), torch.quantile(x, 0.3),
        torch.quantile(x, 0.7, 1), torch.quantile(x, q[0], 0, True)), f("N", 4), f(3, low=0, high=1)],
    nans=[lambda x, q: (torch.nanquantile(holes(x), q), torch.nanquantile(holes(x), q, 0), torch.nanquantile(holes(x), q, 1,
        True), torch.nanquantile(holes(x), 0.3, 1), torch.quantile(holes(x), q, 1), torch.quantile(holes(x), 0.4),
        torch.nanquantile(x, 0.3, keepdim=True)), f("N", 4), f(3, low=0, high=1)],
    ways=[lambda x: tuple(function(holes(x), 0.3, 1, interpolation=way) for function in (torch.quantile, torch.nanquantile)
        for way in ("lower", "higher", "nearest", "midpoint")), f("N", 6)],
)  # fmt: skip
def test_quantiles(case: Case) -> None:
    check(case)


@cases(
    integers=[lambda x: (x.mode(), x.mode(0), x.mode(0, keepdim=True), x[0, 0].mode()), i("N", 7, low=0, high=3)],
    known=[lambda x: (x.mode(), x.mode(0)), i(9, 4, low=0, high=2)],
    floats=[lambda x: (x.mode(), x.round().mode(0), holes(x)[1].mode()), f("N", 5)],
    bools=[lambda x: (x.mode(), x.mode(0)), b(5, 7)],
)  # fmt: skip
def test_mode(case: Case) -> None:
    check(case)


@cases(
    runs=[lambda x: (torch.unique_consecutive(x), torch.unique_consecutive(x, return_inverse=True, return_counts=True)),
        i("N", 3, low=0, high=1)],
    runs_of_rows=[lambda x: (torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True),
        torch.unique_consecutive(x, dim=1), torch.unique_consecutive(x[0], dim=0)), i("N", 2, low=0, high=1)],
    runs_of_floats=[lambda x: (torch.unique_consecutive(x.round()), torch.unique_consecutive(holes(x).round(),
        return_counts=True)), f("N", 3)],
    runs_of_bools=[lambda x: (torch.unique_consecutive(x, return_inverse=True), torch.unique_consecutive(x, dim=1)), b("N", 4)],
    no_runs=[lambda x: torch.unique_consecutive(x[:0], return_inverse=True, return_counts=True), f(3)],
    of_data=[lambda x: torch.unique_consecutive(x[x > 0], return_inverse=True, return_counts=True), i("N")],
)  # fmt: skip
def test_runs(case: Case) -> None:
    check(case)


@cases(
    rows=[lambda x: (torch.unique(x, dim=0), torch.unique(x, dim=0, return_inverse=True, return_counts=True), torch.unique(x,
        dim=1), torch.unique(x[0], dim=0)), i("N", 2, low=0, high=1)],
    rows_of_floats=[lambda x: torch.unique(x.round() + 0.0, dim=0, return_counts=True), f("N", 1)],
    rows_of_bools=[lambda x: torch.unique(x, dim=-1, return_inverse=True), b(2, "N")],
    places=[lambda x: (torch.nonzero_static(x, size=5), torch.nonzero_static(x, size=40, fill_value=7), torch.nonzero(x[0, 0]),
        torch.nonzero_static(x[0, 0], size=2), torch.nonzero(x[:0])), i("N", 3, low=0, high=1)],
    combined=[lambda x: (torch.combinations(x), torch.combinations(x, 3), torch.combinations(x, with_replacement=True)), f(5)],
    none_read=[lambda x: (x.gather(0, torch.zeros((2, 0), dtype=torch.uint8)), x[:0].gather(0, torch.zeros(0).long())), f(5)],
)  # fmt: skip
def test_distinct(case: Case) -> None:
    check(case)


@cases(
    integers=[lambda x: (torch.hash_tensor(x), torch.hash_tensor(x, 0), torch.hash_tensor(x, 1, keepdim=True),
        torch.hash_tensor(x[:0], 1), torch.hash_tensor(x[0, 0])), i(5, 3)],
    some_sizes=[lambda x: torch.hash_tensor(x, dim=(1, 2)), i("N", 3, 4)],
    bools=[lambda x: torch.hash_tensor(x, 0), b(7, 2)],
)  # fmt: skip
def test_hashes(case: Case) -> None:
    check(case)


@cases(
    floats=[lambda x, y: (torch.diff(x), torch.diff(x, 2, 0), torch.diff(x, 9), torch.diff(x, 0, 0, y), torch.diff(x, 1, 0, y),
        torch.diff(x, 2, 0, y, y), torch.diff(x, 1, -1, None, x)), f("N", 4), f("N", 4)],
    bools=[lambda x: (torch.diff(x), torch.diff(x, 2), torch.diff(x, 1, 0, x)), b("N", 4)],
)  # fmt: skip
def test_differences(case: Case) -> None:
    check(case)
