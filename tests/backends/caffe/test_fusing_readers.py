"""OpenCV fuses layers when it loads a net, and not always rightly: nets are written so that it cannot go wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from caffe_readers import mnn
from torch import nn

import isthmus

DIALECTS = ["portable", "bvlc", "opencv", "mnn"]


class Net(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.conv = nn.Conv2d(4, 4, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(2))
        for norm in self.norms:
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.2, 1.2)
        self.factor = nn.Parameter(torch.randn(4, 1, 1))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def same(function: Callable[..., Any], dialect: str) -> None:
    torch.manual_seed(0)
    model = Net(function).eval()
    net = isthmus.compile(model, torch.randn(1, 4, 5, 6), target="caffe", dialect=dialect)
    x = torch.randn(1, 4, 5, 6)
    with torch.no_grad():
        expected = model(x)
    net.artefact.validate()
    torch.testing.assert_close(net(x), expected, rtol=1e-5, atol=1e-5)
    if dialect == "portable":
        artefact = net.artefact
        with tempfile.TemporaryDirectory() as folder:
            files = [str(path) for path in net.save(Path(folder, "net"))]
            found = mnn().run(files, {artefact.net.inputs[0]: x.numpy()}, artefact.net.outputs)
        for name, want in zip(artefact.net.outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
            torch.testing.assert_close(torch.from_numpy(found[name]), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_powers_behind_powers(dialect: str) -> None:
    same(lambda m, x: x**2 + 1, dialect)
    same(lambda m, x: x**3 * 2 - 1, dialect)
    same(lambda m, x: -2 / (x.abs() + 1), dialect)
    same(lambda m, x: (x.abs() + 1).sqrt() + 1, dialect)
    same(lambda m, x: ((x * 2 + 1) ** 2 * 3 + 4) ** 2, dialect)
    same(lambda m, x: (x**2, x**2 + 1), dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_outputs_that_the_net_reads_on(dialect: str) -> None:
    def both(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
        def run(m: Net, x: torch.Tensor) -> Any:
            between = first(m, x)
            return between, second(m, between)

        return run

    same(both(lambda m, x: m.norms[0](x), lambda m, a: 1 - a), dialect)
    same(both(lambda m, x: m.norms[0](x), lambda m, a: m.norms[1](a)), dialect)
    same(both(lambda m, x: m.conv(x) * 2, lambda m, a: a.relu()), dialect)
    same(both(lambda m, x: m.conv(x) * m.factor, lambda m, a: a.relu()), dialect)
    same(both(lambda m, x: 1 - m.conv(x), lambda m, a: F.leaky_relu(a, 0.2) + m.factor), dialect)
