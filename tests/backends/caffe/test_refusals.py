"""What a refusal tells the user to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import isthmus
from isthmus.backends.caffe import CaffeBackend
from isthmus.errors import UnsupportedError
from isthmus.ir import Graph, Tensor
from isthmus.ir.dtypes import i64

NET = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
FIXED = "leave {} out of dynamic_shapes, and compile once for each size that you need"


def remedies(module: nn.Module, x: torch.Tensor, **options: Any) -> set[str | None]:
    with pytest.raises(UnsupportedError) as caught:
        isthmus.compile(module, x, target="caffe", **options)
    return {refusal.remedy for refusal in caught.value.refusals}


@pytest.mark.parametrize(
    ("dialect", "sizes", "remedy"),
    [
        ("portable", {0: "N"}, FIXED.format("N") + ", or choose the dialect opencv, in which the batch may vary"),
        ("portable", {2: "H"}, FIXED.format("H")),
        ("opencv", {0: "N", 2: "H"}, FIXED.format("H")),
        ("portable", {2: "H", 3: "W"}, FIXED.format("H and W")),
    ],
)
def test_sizes_that_vary(dialect: str, sizes: dict[int, str], remedy: str) -> None:
    assert remedies(NET, torch.randn(2, 3, 16, 16), dialect=dialect, dynamic_shapes=(sizes,)) == {remedy}


def test_sizes_that_come_from_data() -> None:
    class Found(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nonzero(x)

    told = {"keep this part outside the model: its sizes come from the data, and Caffe's never do"}
    assert remedies(Found(), torch.randn(2, 3)) == told


def test_other_types() -> None:
    assert remedies(nn.ReLU(), torch.randn(2, 3, dtype=torch.float64)) == {
        "give the model and its inputs in float32: model.float()",
    }  # fmt: skip
    assert remedies(nn.Embedding(4, 3), torch.tensor([1, 2])) == {
        "keep this part outside the model: Caffe computes with floats only",
    }  # fmt: skip


def test_another_dialect() -> None:
    class Turned(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.permute(0, 2, 3, 1)

    assert remedies(Turned(), torch.randn(1, 2000, 2, 2)) == {"choose the dialect mnn or opencv, which takes it"}


def test_an_input_that_no_node_reads() -> None:
    g = Graph()
    g.add_input(Tensor(i64, (2,)), "ids")
    with pytest.raises(UnsupportedError, match="remedy: keep this part outside the model: Caffe computes with floats only"):
        CaffeBackend().emit(g)
