"""Sizes that nobody gave a least one may be 0, where neither the model nor the target's form of it asks for more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import isthmus
from isthmus.errors import CaptureError, UsageError


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


MEANS: dict[str, Callable[[torch.Tensor], Any]] = {
    "mean": lambda x: (x.mean(1), x.mean(0), x.mean()),
    "spread": lambda x: (x.std(1), x.var(0), x.var(1, correction=0), torch.var_mean(x)),
    "norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "loss": lambda x: (F.mse_loss(x, x * 2), F.l1_loss(x, x + 1)),
    "others": lambda x: (x.sum(1), x.softmax(1), x.prod(0), x.logsumexp(1), (x > 0).any(1), (x > 0).all(), x.roll(1, 1)),
}


@pytest.mark.parametrize("model", MEANS.values(), ids=MEANS)
def test_a_size_that_is_said_to_go_down_to_0_does(model: Any) -> None:
    any_size = Dim.DYNAMIC(min=0)
    net = isthmus.compile(model, torch.randn(5, 7), dynamic_shapes=[{0: any_size, 1: any_size}])
    assert not [note for note in net.report.notes if "at least" in note]
    for shape in ((2, 3), (0, 3), (2, 0), (0, 0), (9, 4)):
        x = torch.randn(shape)
        torch.testing.assert_close(net(x), model(x), equal_nan=True)


def test_where_it_cannot_that_is_told() -> None:
    net = isthmus.compile(first, torch.randn(5, 7), dynamic_shapes=[{0: Dim.DYNAMIC(min=0)}])
    assert any(" is 1 at least, though it was declared to go down to 0: " in note for note in net.report.notes)
    with pytest.raises(UsageError, match="the graph holds only for x_0 > 0"):
        net(torch.randn(0, 7))


def test_a_recurrence_over_no_batch() -> None:
    model = Steps().eval()
    net = isthmus.compile(model, torch.randn(5, 4), dynamic_shapes=[{0: Dim.DYNAMIC(min=0)}])
    for rows in (0, 3):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(net(x), model(x))


def test_a_branch_on_another_size_leaves_0_to_it() -> None:
    """Of a size of which both parts of the range were watched."""

    def model(x: torch.Tensor) -> Any:
        return x.sum(0) * 2 if x.shape[0] == 1 else 2 * x.sum(0)

    net = isthmus.compile(model, torch.randn(5, 4), dynamic_shapes=[{0: Dim.DYNAMIC(min=0)}])
    for rows in (0, 1, 3):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(net(x), model(x))


@pytest.mark.parametrize("model", [Steps().eval(), first, wide])
def test_where_one_is_needed_there_is_one(model: Any) -> None:
    """A recurrence has no worse form for it, and a model that reads a row assumes nothing."""
    nets = [isthmus.compile(model, torch.randn(5, 4), dynamic_shapes=[{0: word}]) for word in ("N", Dim.DYNAMIC)]
    assert nets[0].artefact.node_count == nets[1].artefact.node_count
    assert nets[1].report.assumptions == []
    with pytest.raises(UsageError, match="is out of its range\n  expected: 1 to inf\n  found: 0"):
        nets[1](torch.randn(0, 4))
    assert nets[1].verify().ok


def test_what_is_taken_to_be_no_less_than_1_for_a_better_form_is_told() -> None:
    """A `Dim` says 0 also where nobody does."""
    net = isthmus.compile(lambda x: x.mean(0), torch.randn(5, 4), dynamic_shapes=[{0: Dim("N")}])
    assert "N is taken to be 1 at least, which takes fewer nodes" in net.report.notes
    assert net.artefact.node_count == 1


@pytest.mark.parametrize("model", [wide, lambda x: x.where(x[:1] > 0, -x), lambda x: torch.cat([x, x]) * x[:1]])
def test_a_row_that_there_may_not_be_is_spread_over_all(model: Any) -> None:
    """The first row has min(1, N) of them, which fits any N."""
    net = isthmus.compile(model, torch.randn(5, 4), dynamic_shapes=[{0: Dim.DYNAMIC(min=0)}])
    assert not net.report.assumptions
    for rows in (0, 1, 5, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(net(x), model(x))


def test_strict_takes_no_size_to_be_more_than_declared() -> None:
    net = isthmus.compile(lambda x: x.mean(0), torch.randn(5, 4), dynamic_shapes=[{0: Dim("N")}], strict=True)
    assert net.report.notes == []
    assert net(torch.randn(0, 4)).isnan().all()


def test_what_is_taken_apart_for_no_less_than_1_is_not_called_with_0() -> None:
    """A lowering that leaves out what only 0 needs makes a file that fails there."""
    net = isthmus.compile(lambda x: x.roll(1, 0), torch.randn(3, 4), dynamic_shapes=[{0: Dim("N")}])
    assert "N is taken to be 1 at least, which takes fewer nodes" in net.report.notes
    with pytest.raises(UsageError, match="is out of its range"):
        net(torch.randn(0, 4))
    for model in (lambda x: x.roll(1, 0), lambda x: torch.unique(x)):
        net = isthmus.compile(model, torch.randn(3, 4), dynamic_shapes=[{0: Dim("N")}], strict=True)
        for rows in (0, 3):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(net(x), model(x))


def test_strict_refuses_what_cannot_be_empty() -> None:
    with pytest.raises(CaptureError, match=r"(?s)N is 1 at least: .*min=1 for N"):
        isthmus.compile(first, torch.randn(5, 7), dynamic_shapes=[{0: Dim("N")}], strict=True)
