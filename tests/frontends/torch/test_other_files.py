"""Functions of Python that ask for sizes, called in files that no module of the model is from: carried all the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from watching import agree

from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.ir.errors import CaptureError

HELPERS = """
def first(x, count):
    return x[: min(count, len(x))]

def again(x, count):
    return first(x, count) * max(x.shape[0], count)

def caught(x, count):
    try:
        return first(x, count)
    except Exception:
        return x

def branches(x):
    return x * 2 if x.shape[0] > 2 else x
"""


@pytest.fixture
def helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of the user's that the model only calls."""
    (tmp_path / "helpers_of_a_model.py").write_text(HELPERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("helpers_of_a_model")
    del sys.modules["helpers_of_a_model"]


@pytest.mark.parametrize("name", ["first", "again", "caught"])
def test_sizes_stay_sizes(helpers: ModuleType, name: str) -> None:
    names = set(vars(helpers))
    function = getattr(helpers, name)

    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        return function(x, 5), function(y[y[:, 0] > 0], 5)

    captured = agree(model, (torch.randn(8, 6),) * 2, dynamic=({0: "N"},) * 2, sizes=[{"N": 3}, {"N": 5}, {"N": 20}])
    assert not captured.graph.symbols.assumptions
    assert set(vars(helpers)) == names


def test_what_is_refused_leaves_the_file_as_it_was(helpers: ModuleType) -> None:
    names = set(vars(helpers))

    def model(x: torch.Tensor) -> torch.Tensor:
        return helpers.branches(helpers.first(x[x[:, 0] > 0], 5))

    with pytest.raises(CaptureError, match="the model branches on min"):
        capture(model, (torch.randn(8, 6),), options=CaptureOptions(on_size_branch="refuse"))
    assert set(vars(helpers)) == names
