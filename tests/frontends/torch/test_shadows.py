"""Python's own functions, asked about sizes and tensors of a watched model, in all of the user's files."""

from __future__ import annotations

import builtins
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from watching import agree

from isthmus.frontends.torch import capture
from isthmus.ir.errors import CaptureError

HELPERS = '''
import torch

def pair(size):
    return (size, size) if isinstance(size, int) else size

def kind(x):
    return "tensor" if type(x) is torch.Tensor else "int" if type(x) == int else "other"

def rows(x):
    return min(len(x), 3), max([2, len(x)])
'''


INTEGERS = '''
import math

def padded(size: int, by: int = 4) -> int:
    whole: int = int(math.ceil(size / by) * by)
    assert isinstance(whole, int) and isinstance(size, (float, int))
    return sum(map(int, [whole, size / 2, "0", 0.5])) + int("11", base=2)
'''


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """Makes a module in a file of its own, from which no module of the model is."""

    def make(text: str) -> Any:
        file = tmp_path / "user_helpers.py"
        file.write_text(text)
        module = types.ModuleType("user_helpers")
        module.__file__ = str(file)
        exec(compile(text, str(file), "exec"), vars(module))
        sys.modules["user_helpers"] = module
        return module

    yield make
    del sys.modules["user_helpers"]


@pytest.fixture
def helpers(made: Any) -> Any:
    return made(HELPERS)


def test_in_files_that_no_module_is_from(helpers: Any) -> None:
    def model(x: torch.Tensor) -> Any:
        assert helpers.kind(x) == "tensor"
        assert helpers.kind(x.shape[0]) == "int"
        assert helpers.kind(1.5) == "other"
        return x.new_zeros(helpers.pair(x.shape[0])), x.new_zeros(helpers.rows(x))

    agree(model, (torch.randn(4, 3),), dynamic=({0: "N"},), sizes=[{"N": 1}, {"N": 2}, {"N": 7}])
    assert not {"len", "isinstance", "type", "min", "max"} & set(vars(helpers))


def padded(module: Any) -> Any:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x.new_zeros(module.padded(x.shape[0]))])

    return model


REALS = '''
def scaled(size: int) -> float:
    whole: float = float(size) / 2
    assert isinstance(whole, float)
    return float("0.5") * whole / float(size + 1)
'''


def test_a_float_of_a_size_is_one(made: Any) -> None:
    module = made(REALS)

    def model(x: torch.Tensor) -> torch.Tensor:
        return x * module.scaled(x.shape[0])

    captured = agree(model, (torch.randn(4),), dynamic=({0: "N"},), sizes=[{"N": 2}, {"N": 9}])
    assert not captured.graph.symbols.assumptions


def test_an_integer_of_a_size_is_one(made: Any) -> None:
    module = made(INTEGERS)
    agree(padded(module), (torch.randn(4),), dynamic=({0: "N"},), sizes=[{"N": 1}, {"N": 2}, {"N": 7}])
    assert "int" not in vars(module)


RANGES = '''
def chunks(x):
    n = x.shape[0]
    parts = [x[start : start + n] * 2 for start in range(0, n, n)]
    return parts, [place - n for place in range(n, n + 3)], [x * at for at in range(3)]

def rows(x):
    return [x[row] for row in range(x.shape[0])]
'''


def test_a_range_over_sizes_of_a_known_number_of_turns(made: Any) -> None:
    module = made(RANGES)
    captured = agree(module.chunks, (torch.randn(4, 2),), dynamic={"x": {0: "N"}}, sizes=[{"N": 3}, {"N": 7}])
    assert not captured.graph.symbols.assumptions
    with pytest.raises(CaptureError, match="the model fixes the size N"):
        capture(module.rows, (torch.randn(4, 2),), dynamic_shapes={"x": {0: "N"}})
    assert "range" not in vars(module)


@pytest.mark.parametrize("use", ["KINDS = {int: 1}", "def of(x):\n    return type(x) is int"])
def test_files_that_compare_classes_keep_them(made: Any, use: str) -> None:
    with pytest.raises(CaptureError, match="the model fixes the size"):
        capture(padded(made(f"{INTEGERS}\n{use}\n")), (torch.randn(4),), dynamic_shapes=({0: "N"},))


def test_names_of_the_users_own_stay() -> None:
    names = {"len": 3}
    exec("def model(x):\n    return x * len", names)
    agree(names["model"], (torch.randn(3),))
    assert names["len"] == 3
    assert "isinstance" not in names


def test_all_is_as_it_was_after_an_error() -> None:
    def failing(x: torch.Tensor) -> Any:
        assert "len" in failing.__globals__
        assert len is not builtins.len
        return float(x.sum())

    with pytest.raises(CaptureError):
        capture(failing, (torch.randn(3),))
    assert "len" not in globals()
    assert len is builtins.len


def test_minimum_and_maximum_ask_only_where_they_must() -> None:
    found: list[Any] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        sizes = min(n, 3), max(n for n in (n, 2 * n)), min([n, 0])
        found[:] = [
            min(3, 2), max((1, 5)), min(iter([4, 2])), max([], default=7), min("ba"), max(2, 5, key=lambda k: -k), min(1.5, 2),
            *(str(size.node) if isinstance(size, torch.SymInt) else size for size in sizes),
        ]  # fmt: skip
        return x

    captured = capture(model, (torch.randn(4),), dynamic_shapes=({0: "N"},))
    assert found == [2, 5, 2, 7, "a", 2, 1.5, "min(3, N)", "2*N", 0]
    assert not captured.graph.symbols.assumptions
