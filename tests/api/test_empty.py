"""Sizes that nobody gave a least one may be 0, where neither the model nor the target's form of it asks for more."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import isthmus
from isthmus.errors import UsageError


class Rows(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.fc(x)
        return y.relu(), y.sum(0), torch.cat([y, y[:, :1].expand(-1, 3)])


class Steps(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = torch.nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.rnn(x[:, None])[0] + 1


def first(x: torch.Tensor) -> torch.Tensor:
    return x * x[0]


def wide(x: torch.Tensor) -> torch.Tensor:
    return x + x[:1]


@pytest.mark.parametrize("word", [Dim.DYNAMIC, Dim.AUTO])
@pytest.mark.parametrize("target", ["onnx", "reference"])
def test_no_rows(target: str, word: Any) -> None:
    model = Rows().eval()
    net = isthmus.compile(model, torch.randn(5, 4), dynamic_shapes=[{0: word}], target=target)
    for rows in (0, 1, 7):
        x = torch.randn(rows, 4)
        for found, wanted in zip(net(x), model(x), strict=True):
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("word", ["N", Dim("N", min=1), Dim.DYNAMIC(min=1)])
def test_a_size_that_is_declared_has_its_least(word: Any) -> None:
    net = isthmus.compile(Rows().eval(), torch.randn(5, 4), dynamic_shapes=[{0: word}])
    with pytest.raises(UsageError, match="is out of its range\n  expected: 1 to inf\n  found: 0"):
        net(torch.randn(0, 4))


@pytest.mark.parametrize("model", [Steps().eval(), first, wide])
def test_where_one_is_needed_there_is_one(model: Any) -> None:
    """A recurrence has no worse form for it, and a model that reads a row assumes nothing."""
    nets = [isthmus.compile(model, torch.randn(5, 4), dynamic_shapes=[{0: word}]) for word in ("N", Dim.DYNAMIC)]
    assert nets[0].artefact.node_count == nets[1].artefact.node_count
    assert nets[1].report.assumptions == []
    with pytest.raises(UsageError, match="is out of its range\n  expected: 1 to inf\n  found: 0"):
        nets[1](torch.randn(0, 4))
    assert nets[1].verify().ok
