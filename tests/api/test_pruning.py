"""What reaches no output falls away, the report tells how much; where nearly all does, it warns of an early exit."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import isthmus
from isthmus.errors import IsthmusWarning
from isthmus.pruning import Pruned

HERE = __file__


def held(net: isthmus.Compiled, model: Any, *args: torch.Tensor) -> None:
    """The compiled model gives what eager gives."""
    with torch.no_grad():
        np.testing.assert_allclose(net(*args).numpy(), model(*args).numpy(), rtol=1e-4, atol=1e-5)


def quietly(*args: Any, **kwargs: Any) -> isthmus.Compiled:
    """A compilation that may not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", IsthmusWarning)
        net = isthmus.compile(*args, **kwargs)
    assert net.report.warnings == net.captured.warnings == []
    return net


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.aside = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)


class Printing(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        print("after the first:", x)
        return self.second(x)


def test_a_print_between_two_layers_keeps_both(capsys: pytest.CaptureFixture[str]) -> None:
    model = Printing().eval()
    net = quietly(model, torch.randn(2, 4), dynamic_shapes={"x": {0: "N"}})
    assert "after the first:" in capsys.readouterr().out
    assert [node.op.name for node in net.graph.nodes].count("linear") == 2
    held(net, model, torch.randn(5, 4))
    found = net.report.pruned
    assert found is not None
    assert (found.recorded, found.reaching) == (2, 2)
    assert found.unused_modules == {"aside": 2}
    assert "2 of 6 parameters, 40 bytes of 200 bytes, go unused: aside (2)" in str(net.report)


class Dropping(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.aside(x).relu()
        y.sum()
        return self.second(self.first(x))


def test_what_reaches_no_output_is_dropped_with_all_that_only_fed_it() -> None:
    model = Dropping().eval()
    net = quietly(model, torch.randn(2, 4))
    assert [node.op.name for node in net.graph.nodes if node.op.name != "constant"] == ["linear", "linear"]
    held(net, model, torch.randn(2, 4))
    found = net.report.pruned
    assert found is not None
    assert (found.recorded, found.reaching) == (5, 2)
    assert found.modules == {"": 2, "aside": 1}
    assert (found.parameters, found.unused, found.unused_bytes) == (6, 2, 4 * (8 + 2))
    text = str(net.report)
    assert "3 of 5 nodes reach no output and fall away: the model itself (2), aside (1)" in text
    assert json.loads(net.report.model_dump_json())["pruned"]["modules"] == {"": 2, "aside": 1}


class Exiting(Layers):
    def forward(self, x: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if boxes.numel() == 0:
            return x.new_zeros(0, 4)
        return self.second(x[: boxes.shape[0]])


def line(text: str) -> int:
    """The line of this file that a text is in."""
    lines = enumerate(Path(HERE).read_text().splitlines(), 1)
    (found,) = [number for number, each in lines if text in each and "line(" not in each]
    return found


def test_an_early_exit_warns_loudly() -> None:
    model = Exiting().eval()
    with pytest.warns(IsthmusWarning, match="probably took an early exit: 1 of 1 nodes reach no output") as caught:
        net = isthmus.compile(model, (torch.randn(9, 4), torch.randn(0, 4)))
    assert caught[0].filename == HERE
    (warning,) = net.report.warnings
    assert net.captured.warnings == [warning] == [str(caught[0].message)]
    assert str(net.report).startswith(f"WARNING: {warning}"[:100])
    assert "6 of 6 parameters" in warning
    assert f"What the model returns was made at {HERE}:{line('return x.new_zeros(0, 4)')} in forward" in warning
    assert "Compile with an example input that goes all the way" in warning


def test_an_example_that_goes_all_the_way_does_not_warn() -> None:
    model = Exiting().eval()
    net = quietly(model, (torch.randn(9, 4), torch.randn(3, 4)))
    held(net, model, torch.randn(9, 4), torch.randn(3, 4))


class Leaving(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x))
        if x.shape[0] < 100:
            return x.new_zeros(1, 2)
        return self.aside(y)


def test_the_branch_that_was_taken_is_named() -> None:
    with pytest.warns(IsthmusWarning, match="early exit") as caught:
        net = isthmus.compile(Leaving().eval(), torch.randn(2, 4), dynamic_shapes={"x": {0: "N"}})
    place = f"{HERE}:{line('if x.shape[0] < 100:')} in forward"
    text = str(caught[0].message)
    assert "The last branch that it took: `x.shape[0] < 100` was answered yes and goes on at line" in text
    assert f"`return x.new_zeros(1, 2)`; no would go on at line {line('return self.aside(y)')}" in text
    assert f"(at {place})" in text
    assert net.report.assumptions[0].startswith(f"N < 100 (at {place}): `x.shape[0] < 100` was answered yes")


class FromNumpy(nn.Module):
    """Weights that the graph holds as constants only, since they went through numpy; a count that is one, too."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.way = nn.Parameter(torch.randn(4, 4)), way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "real":
            weight = torch.from_numpy(np.sin(self.weight.detach().clone().numpy()))
        elif self.way == "list":
            weight = torch.tensor(self.weight.tolist())
        else:
            weight = torch.from_numpy(np.sin((self.weight * 2).detach().numpy()))
        count = torch.zeros(4)
        for place in range(3):
            count[place : place + 2] += 1
        return x @ weight / torch.from_numpy(count.numpy())


@pytest.mark.parametrize("way", ["real", "list", "computed"])
def test_constants_do_not_fall_away(way: str) -> None:
    model = FromNumpy(way).eval()
    net = quietly(model, torch.randn(2, 4))
    held(net, model, torch.randn(2, 4))
    assert net.report.pruned is not None
    assert net.report.pruned.lines == []


class Auxiliary(Layers):
    def forward(self, x: torch.Tensor) -> Any:
        x = self.second(self.first(x))
        return (x, self.aside(x)) if self.training else x


def test_heads_for_training_do_not_warn() -> None:
    net = quietly(Auxiliary().eval(), torch.randn(2, 4))
    assert net.report.pruned is not None
    assert net.report.pruned.lines == ["2 of 6 parameters, 40 bytes of 200 bytes, go unused: aside (2)"]


@pytest.mark.parametrize(
    "model",
    [lambda x: x, lambda x: torch.zeros(x.shape), lambda x: x.shape[0], Auxiliary().eval().first.forward],
    ids=["identity", "sizes", "a size", "a method"],
)
def test_small_models_do_not_warn(model: Any) -> None:
    quietly(model, torch.randn(2, 4), dynamic_shapes=({0: "N"},))


class OneOfTwo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Linear(4, 4), nn.ModuleDict({"a": nn.Linear(4, 9), "b": nn.Linear(9, 9)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.small(x)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.small(x)


def test_most_parameters_unused_is_loud_for_a_model_and_not_for_a_method() -> None:
    with pytest.warns(IsthmusWarning, match=r"4 of 6 parameters, 540 bytes of 620 bytes, go unused: large \(4\)"):
        isthmus.compile(OneOfTwo(), torch.randn(2, 4))
    quietly(OneOfTwo().encode, torch.randn(2, 4))


def test_bytes_are_told_in_a_unit_that_suits_them() -> None:
    found = Pruned(
        recorded=1, reaching=1, parameters=3, unused=1, parameter_bytes=12_345_678, unused_bytes=4_000,
        unused_modules={"aux": 1},
    )  # fmt: skip
    assert found.lines == ["1 of 3 parameters, 4.0 kB of 12.3 MB, go unused: aux (1)"]


def test_tied_weights_are_one_parameter() -> None:
    model = OneOfTwo()
    model.large = nn.ModuleDict({"a": nn.Linear(4, 4)})
    model.large["a"].weight = model.small.weight
    net = quietly(model, torch.randn(2, 4))
    assert net.report.pruned is not None
    assert (net.report.pruned.parameters, net.report.pruned.unused) == (3, 1)


def test_random_numbers_that_fall_away_are_counted_and_branches_are() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        torch.rand(3)
        torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos().neg(), (x,))

    net = quietly(model, torch.randn(3))
    for sign in (-1, 1):
        held(net, lambda x: x.sin() if x.sum() > 0 else x.cos().neg(), sign * torch.rand(3))
    found = net.report.pruned
    assert found is not None
    assert (found.recorded, found.reaching) == (5 + 1 + 2 * 3, 3 + 3)
