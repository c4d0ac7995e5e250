"""What of a script one graph cannot say is refused, with the script's line."""

# ruff: noqa: UP006, UP035, PERF401 (TorchScript knows no other way of saying these)
from __future__ import annotations

from typing import Any, Dict, List, Tuple

import pytest
import torch
from scripts import ONES, X, agree, n, scripted

import isthmus
from isthmus.errors import CaptureError

# ---- what is refused


def checked(x: torch.Tensor) -> torch.Tensor:
    assert bool((x > -100).all()), "too small"
    if bool(x.sum() > 1e6):
        raise RuntimeError("too large")
    return x + 1


def ranks(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 0):
        return x.sum(0)
    return x


def retyped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(int(y)):
        x = x + 0.5
    return x


def halved(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.t()


def raises(x: torch.Tensor, mode: str) -> torch.Tensor:
    if mode != "sum":
        raise ValueError("no mode " + mode)
    return x.sum()


def test_a_branch_that_only_raises_is_a_check() -> None:
    captured = agree(scripted(checked), (X,), (X * 2,))
    assert {node.attrs["message"] for node in captured.graph.walk() if node.op.name == "check"} == {
        "the model raises AssertionError: too small", "the model raises RuntimeError: too large",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "args", "told"),
    [
        (ranks, (X,), "if that depends on data give tensors of different dtypes or ranks, in `if bool"),
        (retyped, (ONES, n(2)), "a loop carries changes its dtype or rank, in `for _ in"),
        (halved, (X,), "the context autocast of a script is not carried over"),
        (raises, (X, "max"), "the model raised ValueError: no mode max"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_with_its_line(source: Any, args: Any, told: str) -> None:
    with pytest.raises(CaptureError, match=told) as caught:
        isthmus.compile(scripted(source), args)
    place = caught.value.location
    assert place is not None
    assert place.file == __file__
    assert place.function == source.__name__


def item_of_data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: List[torch.Tensor] = []
    for i in range(int(y)):
        out.append(x[i].clone())
    out[0].add_(1)
    return torch.stack(out)


def aliased(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    if int(y) > 1:
        z = x
    else:
        z = x * 2
    z.add_(1)
    return x, z


def kept(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    first = x.clone()
    last = first
    for _ in range(int(y)):
        last = last + 1
    last[0] = 0.0
    return first + last


def moved(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(int(y)):
        x.add_(1)
        x = x * 2
    return x


def tuples(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: List[Tuple[torch.Tensor, int]] = []
    for i in range(int(y)):
        out.append((x[i], i))
    return out[0][0]


def keyed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: Dict[str, torch.Tensor] = {}
    for i in range(int(y)):
        out[f"k{i}"] = x
    return out["k0"]


def listed(x: torch.Tensor, y: torch.Tensor) -> List[torch.Tensor]:
    return [x * i for i in range(int(y))]


def item_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = [x.clone(), x * 2]
    out[int(y)].add_(1)
    return torch.stack(out)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (item_of_data, "and it is an item of a list, at a place that only sizes or data can tell"),
        (item_written, "and it is an item of a list, at a place that only sizes or data can tell"),
        (aliased, "and only data can tell which of two tensors it is"),
        (kept, "and it is another tensor in the first turn of a loop than in later ones"),
        (moved, "and it is another tensor in the first turn of a loop than in later ones"),
        (tuples, "a list of neither tensors nor numbers has a length that only data can tell"),
        (keyed, "the key of a dict depends on sizes or data"),
        (listed, "the items of a list that leaves the script are needed one by one"),
    ],
)
def test_what_one_graph_cannot_say_is_refused(source: Any, told: str) -> None:
    with pytest.raises(isthmus.errors.IsthmusError, match=told):
        isthmus.compile(scripted(source), (X.clone(), n(2)))


@torch.jit.script
def digits(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + len(str(int(n)))


def test_what_a_text_of_data_looks_like_is_refused() -> None:
    with pytest.raises(isthmus.errors.CaptureError, match="the length of a text depends on sizes or data"):
        isthmus.compile(digits, (torch.ones(2), torch.tensor(7)))
