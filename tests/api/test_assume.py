"""Values of inputs that are taken for granted, so that Python may read them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import isthmus
from isthmus.errors import CaptureError, UsageError


def loop(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for i in range(y):  # type: ignore[call-overload]
        x = x + i
    return x


def test_a_loop_is_unrolled() -> None:
    with pytest.raises(CaptureError, match=r"Python needs the number of a tensor, `range\(y\)`"):
        isthmus.compile(loop, (torch.ones(2, 3), torch.tensor(5)))
    net = isthmus.compile(loop, (torch.ones(2, 3), torch.tensor(5)), assume={"y": 5})
    assert [node.op.name for node in net.graph.nodes].count("add") >= 1
    (told,) = net.report.assumptions
    line = loop.__code__.co_firstlineno + 1
    assert told == f"y == 5 (at {__file__}:{line} in loop): asked in `range(y)`"
    x = torch.randn(2, 3)
    torch.testing.assert_close(net(x, torch.tensor(5)), loop(x, torch.tensor(5)))
    assert net.verify(seeds=2).ok
    with pytest.raises(UsageError, match="the model was compiled for y = 5 alone") as caught:
        net(x, torch.tensor(6))
    assert caught.value.found == "6"
    with pytest.raises(UsageError, match="the model was compiled for y = 5 alone"):
        net.verify([(x, torch.tensor(4))])


def nested(x: torch.Tensor, how: dict[str, torch.Tensor]) -> torch.Tensor:
    if how["flip"]:
        x = -x
    return x * float(how["scale"]) + how["scale"] * 2


def test_bools_and_floats_and_inputs_in_dicts() -> None:
    how = {"flip": torch.tensor(True), "scale": torch.tensor([0.1])}
    net = isthmus.compile(nested, (torch.ones(3), how), assume={"how_flip": True, "how_scale": 0.1})
    assert [told.partition(" (")[0] for told in net.report.assumptions] == ["how_flip == 1", "10*how_scale == 1"]
    x = torch.randn(3)
    torch.testing.assert_close(net(x, how), nested(x, how))
    with pytest.raises(UsageError, match="how_flip = True alone"):
        net(x, {**how, "flip": torch.tensor(False)})


def computed(x: torch.Tensor, n: torch.Tensor) -> Any:
    count = int(n.max() * 2 - 1)
    if n > 1:
        x = x.repeat(count, 1)
    return x, n + 1, torch.zeros(n.item())  # type: ignore[call-overload]


def test_what_is_computed_from_it_is_known_too() -> None:
    net = isthmus.compile(computed, (torch.ones(1, 3), torch.tensor([2])), assume={"n": 2}, dynamic_shapes=({0: "n"}, None))
    assert net.report.assumptions[0].startswith("value_n == 2")  # the size n is another one
    for rows in (1, 4):
        x = torch.randn(rows, 3)
        for got, wanted in zip(net(x, torch.tensor([2])), computed(x, torch.tensor([2])), strict=True):
            torch.testing.assert_close(got, wanted)


def test_a_spec_takes_the_value() -> None:
    net = isthmus.compile(loop, (isthmus.spec("f32[N, 3]"), isthmus.spec("i64[]")), assume={"y": 3})
    x = torch.randn(7, 3)
    torch.testing.assert_close(net(x, torch.tensor(3)), loop(x, torch.tensor(3)))


def test_what_nothing_needs_is_told_and_not_assumed() -> None:
    net = isthmus.compile(lambda x, y: x + y, (torch.ones(3), torch.tensor(5)), assume={"y": 5})
    assert not net.report.assumptions
    assert "assume says that y is 5, which nothing needs: it is an input like any other" in net.report.notes
    torch.testing.assert_close(net(torch.ones(3), torch.tensor(9)), torch.full((3,), 10.0))


@pytest.mark.parametrize(
    ("assume", "message"),
    [
        ({"z": 5}, "assume names 'z', which is no tensor among the inputs"),
        ({"y": 6}, "assume says that y is 6, and the example is 5"),
        ({"y": 5.5}, "assume says that y is 5.5, which torch.int64 does not hold"),
        ({"y": 2**70}, "which torch.int64 does not hold"),
        ({"y": float("nan")}, "which torch.int64 does not hold"),
        ({"x": 1}, r"assume is for inputs of one element, and x has the shape \[2, 3\]"),
        ({"y": "five"}, "an option has a wrong value"),
    ],
)
def test_what_cannot_be_assumed(assume: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        isthmus.compile(loop, (torch.ones(2, 3), torch.tensor(5)), assume=assume)
