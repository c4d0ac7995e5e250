"""Python that takes data out of a captured model: the error names the expression, the inputs and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from isthmus.frontends.torch import capture
from isthmus.ir.errors import CaptureError

Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]
GIVEN = torch.rand(3, 4), torch.rand(3, 4) > 0.5, torch.tensor(2)


def if_(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    if mask.any():
        return x
    return -x


def named(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    flag = mask.any()
    return x if flag else -x


def while_(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    while not (x.abs().max() < 0.1):
        x = x / 2
    return x


def both(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x if x.sum() > 0 and x[mask].sum() > n else -x


def over_lines(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    if x.dim() > 1 and (
        x.sum()
        > 0
    ):  # fmt: skip
        x = -x
    return x


def within(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x if n in (1, 2) else -x


def equal(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x if torch.equal(x, x * mask) else -x


def close(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x if torch.allclose(x, x + 1) else -x


def greatest(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return sorted([x[0, 0], x[1, 1]])[0]


def any_(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x if any(mask[0]) else -x


def range_(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    for i in range(int(n) + 1):
        x = x + i
    return x


def chosen(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return [torch.sin, torch.cos, torch.tan][n](x)


def root(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x * math.sqrt(x.sum())


def shown(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x * float(f"{x[0, 0].item():.3f}")


def branch_on_item(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x if n.item() > 1 else -x


def matched(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    match n.item() + 1:
        case 3:
            return x
        case _:
            return -x


def content(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x + torch.from_numpy(np.stack([np.asarray(row) for row in x * mask]))


def for_(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    total = 0.0
    for item in x[0].tolist():
        total = total + item
    return x * total


def random(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    return x if torch.rand(()) > 0.5 else -x


def of_torch(x: torch.Tensor, mask: torch.Tensor, n: torch.Tensor) -> Any:
    try:
        return F.gaussian_nll_loss(x, x * 2, x)
    except ValueError:
        return x


@pytest.mark.parametrize(
    ("function", "message", "remedy"),
    [
        (if_, "the truth of a tensor, `mask.any()`, that depends on the input mask", "torch.where or torch.cond"),
        (named, "the truth of a tensor, `flag`, that depends on the input mask", "torch.where or torch.cond"),
        (while_, "the truth of a tensor, `x.abs().max() < 0.1`, that depends on the input x", "torch.while_loop"),
        (both, "the truth of a tensor, `x.sum() > 0`, that depends on the input x", "torch.where or torch.cond"),
        (over_lines, "the truth of a tensor, `x.sum() > 0`, that depends on the input x", "torch.where or torch.cond"),
        (within, "the truth of a tensor, `n in (1, 2)`, that depends on the input n", "assume={'n': 2} compiles for"),
        (equal, "`torch.equal(x, x * mask)`, that depends on the inputs x and mask", "(a == b).all()"),
        (close, "`torch.allclose(x, x + 1)`, that depends on the input x", "torch.isclose(a, b).all()"),
        (greatest, "`sorted([x[0, 0], x[1, 1]])`, that depends on the input x", "torch.sort in place of sorted()"),
        (any_, "`any(mask[0])`, that depends on the input mask", "torch.any in place of any()"),
        (range_, "the number of a tensor, `int(n)`, that depends on the input n", "torch.while_loop"),
        (range_, "`int(n)`", "assume={'n': 2} compiles for that value alone, and unrolls the loop"),
        (chosen, "the number of a tensor, `[torch.sin, torch.cos, torch.tan][n]`, that", "torch.stack(items)[index]"),
        (root, "the number of a tensor, `math.sqrt(x.sum())`, that depends on the input x", "t.sqrt() in place of math.sqrt"),
        (shown, "the number of a tensor, `x[0, 0].item()`, that depends on the input x", "leave the text out"),
        (branch_on_item, "the truth of a tensor, `n.item() > 1`, that depends on the input n", "torch.where or torch.cond"),
        (matched, "that depends on the input n", "torch.where or torch.cond"),
        (content, "the content (numpy) of a tensor, `np.asarray(row)`, that depends on the inputs x and mask", "torch's own"),
        (for_, "the content (tolist) of a tensor, `x[0].tolist()`, that depends on the input x", "torch.scan"),
        (random, "`torch.rand(()) > 0.5`, that depends on random numbers drawn at", "torch.where or torch.cond"),
        (of_torch, "`F.gaussian_nll_loss(x, x * 2, x)`, that depends on the input x", "asked by torch, at"),
    ],
)
def test_what_is_told(function: Function, message: str, remedy: str) -> None:
    with pytest.raises(CaptureError) as caught:
        capture(function, GIVEN)
    place = caught.value.location
    assert place is not None
    assert (place.file, place.function) == (__file__, function.__name__.replace("content", "<listcomp>"))
    assert place.line > function.__code__.co_firstlineno
    assert message in caught.value.message
    assert remedy in str(caught.value)


def test_where_a_value_was_made_is_told() -> None:
    with pytest.raises(CaptureError) as caught:
        capture(named, GIVEN)
    assert f"made at {__file__}:{named.__code__.co_firstlineno + 1} in named" in str(caught.value)


def test_assume_is_offered_for_single_numbers_alone() -> None:
    with pytest.raises(CaptureError) as caught:
        capture(both, GIVEN)
    assert "assume" not in str(caught.value)


class Swallowing(torch.nn.Module):
    def __init__(self, ask: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.ask = ask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            scale = self.ask(x)
        except Exception:
            scale = 1.0
        return x * scale


def into_array(x: torch.Tensor) -> float:
    found = np.zeros(2)
    found[0] = x[0]  # numpy raises an error of its own over ours
    return float(found.sum())


@pytest.mark.parametrize(
    "ask", [lambda x: float(x.sum()), lambda x: x.tolist()[0], lambda x: 2.0 if x.sum() > 0 else 1.0, into_array]
)
def test_an_error_that_the_model_catches_is_raised_all_the_same(ask: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(CaptureError, match=r"Python needs the .* of a tensor, .* that depends on the input x"):
        capture(Swallowing(ask), (torch.rand(3),))
    with pytest.raises(CaptureError, match=r"Python needs the .* of a tensor, .* that depends on the input x"):
        capture(ask, (torch.rand(3),))


def test_a_size_that_the_model_asks_for_in_vain_is_no_less_an_error() -> None:
    def repeated(x: torch.Tensor) -> float:
        return sum(range(x.shape[0]))

    with pytest.raises(CaptureError, match="N was declared dynamic"):
        capture(Swallowing(repeated), (torch.rand(3),), dynamic_shapes=({0: "N"},))


def test_what_torch_tries_in_vain_is_no_error() -> None:
    captured = capture(lambda x, n: (x.expand(n, -1), x.repeat(n, 1)), (torch.rand(1, 3), torch.tensor(2)))
    assert len(captured.graph.outputs) == 2


def test_data_by_way_of_a_loop() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        found = torch._higher_order_ops.while_loop(lambda v: v.sum() < 10, lambda v: (v * 2,), (x,))[0]
        return found if found.max() > 0 else -found

    with pytest.raises(CaptureError, match=r"`found.max\(\) > 0`, that depends on the input x"):
        capture(model, (torch.rand(3),))


def test_what_depends_on_sizes_alone() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * torch.from_numpy(torch.arange(x.shape[0]).numpy())

    with pytest.raises(CaptureError) as caught:
        capture(model, (torch.rand(3),), dynamic_shapes=({0: "N"},))
    assert "`torch.arange(x.shape[0]).numpy()`, that depends on the size N of the input x" in caught.value.message
    assert "declare N static" in str(caught.value)
