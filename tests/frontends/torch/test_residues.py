"""Branches on whether a size is a multiple of a number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from watching import agree

from isthmus.frontends.torch import capture
from isthmus.frontends.torch.residues import _multiples
from isthmus.ir.cursor import parse_dim
from isthmus.ir.dims import evaluate
from isthmus.ir.symbols import Symbols

SIZES = [{"N": 1, "S": size} for size in (1, 4, 5, 8, 11, 12, 16)]


def windows(x: torch.Tensor) -> torch.Tensor:
    """Sums of fours, of a signal that is padded where it has to be."""
    missing = (-x.shape[1]) % 4
    if missing > 0:
        x = F.pad(x, (0, missing))
    found = x - x.reshape(x.shape[0], -1, 4).mean(-1, keepdim=True).expand(-1, -1, 4).reshape(x.shape)
    return found[:, :-missing] if missing > 0 else found


def padded_always(x: torch.Tensor) -> torch.Tensor:
    """Pads by 4 where the remainder is 0, unless it is asked first."""
    if x.shape[1] % 4 != 0:
        x = F.pad(x, (0, 4 - x.shape[1] % 4))
    return x * 2


def halves(x: torch.Tensor) -> torch.Tensor:
    half = x[:, : x.shape[1] // 2 * 2].reshape(x.shape[0], -1, 2).sum(-1)
    missing = (-half.shape[1]) % 4
    return F.pad(half, (0, missing)) if missing > 0 else half


def tiles(x: torch.Tensor) -> torch.Tensor:
    """Height and width padded by themselves, and cut again."""
    n, h, w = x.shape
    down, across = (-h) % 4, (-w) % 2
    if down > 0:
        x = F.pad(x, (0, 0, 0, down))
    if across > 0:
        x = F.pad(x, (0, across))
    x = x + x.reshape(n, -1, 4, x.shape[2]).mean(2, keepdim=True).expand(-1, -1, 4, -1).reshape(x.shape)
    return x[:, :h, :w]


def both(x: torch.Tensor) -> torch.Tensor:
    """Something else where both are multiples."""
    found = x + 1 if x.shape[0] % 3 == 0 and x.shape[1] % 4 == 0 else x
    return found * 2


def assumed(captured: Any) -> list[str]:
    return [str(assumption) for assumption in captured.graph.symbols.assumptions]


@pytest.mark.parametrize("example", [7, 8])
def test_a_branch_that_does_nothing_at_multiples(example: int) -> None:
    """Whichever branch the example takes."""
    captured = agree(windows, (torch.randn(2, example),), dynamic={"x": {0: "N", 1: "S"}}, sizes=SIZES)
    assert assumed(captured) == []


def test_a_multiple_of_a_quotient() -> None:
    captured = agree(halves, (torch.randn(2, 13),), dynamic={"x": {0: "N", 1: "S"}}, sizes=SIZES[1:])
    assert assumed(captured) == ["S >= 2"]


@pytest.mark.parametrize("example", [(2, 9, 5), (2, 8, 6), (2, 8, 5)])
def test_two_sizes_in_every_combination(example: tuple[int, ...]) -> None:
    sizes = [{"N": 1, "H": h, "W": w} for h in (3, 4, 8, 11) for w in (1, 2, 4, 7)]
    captured = agree(tiles, (torch.randn(example),), dynamic={"x": {0: "N", 1: "H", 2: "W"}}, sizes=sizes)
    assert assumed(captured) == []


def test_what_both_together_change_stays() -> None:
    captured = capture(both, (torch.randn(7, 5),), dynamic_shapes={"x": {0: "N", 1: "S"}})
    assert assumed(captured)


@pytest.mark.parametrize(("example", "assumption"), [(7, "S % 4 != 0"), (8, "S % 4 == 0")])
def test_a_branch_that_does_something_stays(example: int, assumption: str) -> None:
    captured = capture(padded_always, (torch.randn(2, example),), dynamic_shapes={"x": {0: "N", 1: "S"}})
    assert assumed(captured) == [assumption]


@pytest.mark.parametrize("text", ["S % 4", "(-S) % 3", "(S + 5) % 4", "(-((S + 1)//2) + 2) % 3", "(S//5) % 2"])
def test_where_a_remainder_is_none(text: str) -> None:
    table = Symbols()
    symbol = table.declare("S", 1, 1000)
    dim = parse_dim(text, table)
    found = _multiples(dim)
    assert found is not None
    for size in range(1, 60):
        among = any((size - found.base - rest) % found.factor == 0 for rest in range(found.spread))
        assert among == (evaluate(dim, {symbol: size}) == 0)
