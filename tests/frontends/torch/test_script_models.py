"""Scripted networks and modules: methods, buffers, what a script changes on its module."""

# ruff: noqa: UP006, UP035, UP045 (TorchScript knows no other way of saying these)
from __future__ import annotations

from collections.abc import Callable
from typing import Any, List, Optional, Tuple

import pytest
import torch
from scripts import X, agree, frozen, n, scripted, traced

import isthmus

# ---- networks


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 5)

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        h = torch.zeros(x.shape[1], 5)
        out: List[torch.Tensor] = []
        for t in range(x.shape[0]):
            h = self.cell(x[t], h)
            out.append(h)
        return torch.stack(out), h


class Around(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.inner = scripted(Recurrent())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner(self.linear(x))[0]
        return found.sum(-1)


class Convolutional(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        x = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest").mean([2, 3])
        for layer in self.layers:
            x = layer(x)
        return x


class Lstm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, 2, batch_first=True)

    def forward(self, x: torch.Tensor, state: Optional[Tuple[torch.Tensor, torch.Tensor]] = None) -> torch.Tensor:
        found: torch.Tensor = self.lstm(x, state)[0]
        return found


@pytest.mark.parametrize("model", [lambda: scripted(Recurrent().eval()), lambda: Around().eval()])
def test_a_loop_over_a_declared_size(model: Callable[[], Any]) -> None:
    dynamic = {"x": {0: "T", 1: "N"}}
    calls = [(torch.randn(*size),) for size in ((6, 2, 4), (9, 3, 4), (1, 1, 4))]
    agree(model(), *calls, ops=["loop"], dynamic_shapes=dynamic)


IMAGES = torch.randn(2, 3, 9, 9)


@pytest.mark.parametrize("form", [scripted, lambda model: frozen(scripted(model)), lambda model: traced(model, IMAGES)])
def test_a_convolutional_net(form: Callable[[Any], Any]) -> None:
    model = form(Convolutional().eval())
    agree(model, (IMAGES,), (torch.randn(5, 3, 9, 9),), dynamic_shapes={"x": {0: "N"}})


def test_an_lstm() -> None:
    model = scripted(Lstm().eval())
    agree(model, (torch.randn(2, 6, 4),), (torch.randn(3, 7, 4),), dynamic_shapes={"x": {0: "N", 1: "T"}})
    agree(model, (torch.randn(2, 6, 4), (torch.randn(2, 2, 5), torch.randn(2, 2, 5))))


class Exported(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    @torch.jit.ignore
    def plain(self, x):  # torch reads no annotations of these that are texts
        return x * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.plain(self.linear(x))

    @torch.jit.export
    def again(self, x: torch.Tensor, k: int = 2) -> torch.Tensor:
        for _ in range(k):
            x = self.linear(x)
        return x


class Uses(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = scripted(Exported())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner.again(x, k=3) + self.inner(x)
        return found


def test_methods_of_scripted_modules() -> None:
    agree(Uses().eval(), (X,), (X * 2,))
    agree(scripted(Exported().eval()).again, (X,), (X * 2,))


def test_a_buffer_that_a_script_replaces_is_an_output() -> None:
    class Averages(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(6))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            for i in range(int(y)):
                self.mean = self.mean * 0.9 + x[i]
            return x - self.mean

    model = scripted(Averages().eval())
    net = isthmus.compile(model, (X, n(2)), buffers="output")
    assert list(net.report.outputs) == ["output", "mean"]
    net.verify([((X, n(3)), {}), ((X * 2, n(0)), {})])
    assert bool((model.mean == 0).all())


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}])
def test_the_fast_path_of_attention_that_scripts_have_chosen(options: Any) -> None:
    model = scripted(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options).eval())
    hidden = torch.zeros(2, 5, dtype=torch.bool)
    hidden[1, 3:] = True
    agree(model, (torch.randn(2, 5, 8), None, hidden), (torch.randn(2, 5, 8), None, ~hidden))
    agree(model, (torch.randn(2, 5, 8), torch.ones(5, 5, dtype=torch.bool).triu(1)))


def test_weights_of_attention_by_the_fast_path() -> None:
    agree(scripted(torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()), (torch.randn(2, 5, 8),) * 3)


class Cached(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Any = torch.jit.Attribute([], List[torch.Tensor])
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.seen.append(x * 2)
        self.count += 1
        return torch.stack(self.seen).sum(0) * self.count


def test_what_a_script_changes_on_its_module_is_told() -> None:
    model = scripted(Cached())
    net = agree(model, (X,), (X * 2,))
    assert net.report.notes == [
        "the model changes its attribute seen in place; the graph does not keep that",
        "the model sets its attribute count; the graph does not keep it",
    ]
    assert net.verify().ok
    assert (model.seen, model.count) == ([], 0)
