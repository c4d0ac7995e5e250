"""Max-unpooling: torch's indices count in each plane, ONNX's over all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import isthmus
from isthmus.backends.onnx.opsets import NEWEST

OPSETS = [11, 13, 17, NEWEST]


class Pair(nn.Module):
    """A pool and its unpool, to the input's own size where asked for."""

    def __init__(self, rank: int, kernel: Any, own_size: bool = False, **how: Any) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{rank}d")(kernel, return_indices=True, **how)
        window = {name: how[name] for name in ("stride", "padding") if name in how}
        self.unpool = getattr(nn, f"MaxUnpool{rank}d")(kernel, **window)
        self.own_size = own_size

    def forward(self, x: torch.Tensor) -> Any:
        y, indices = self.pool(x)
        return self.unpool(y, indices, output_size=x.shape[-len(x.shape) + 2 :] if self.own_size else None)


def ops(net: Any) -> dict[str, int]:
    return dict(Counter(node.op_type for node in net.artefact.model.graph.node))


def right(net: isthmus.Compiled, model: Any, *inputs: torch.Tensor) -> None:
    for x in inputs:
        for found, wanted in zip(flat(net(x)), flat(model(x)), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def flat(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


PAIRS: dict[str, tuple[Pair, tuple[int, ...]]] = {
    "2x2": (Pair(2, 2), (2, 3, 4, 6)),
    "overlap": (Pair(2, 3, stride=2), (2, 3, 7, 9)),
    "every place": (Pair(2, 3, stride=1), (2, 3, 5, 6)),
    "padding": (Pair(2, 3, stride=2, padding=1), (2, 3, 7, 9)),
    "every place, padded": (Pair(2, 3, True, stride=1, padding=1), (2, 3, 5, 6)),
    "odd sizes": (Pair(2, 2, True), (2, 3, 5, 7)),
    "unlike sides": (Pair(2, (2, 3), True, stride=(2, 3), padding=(0, 1)), (2, 3, 5, 8)),
    "ceil": (Pair(2, 3, True, stride=2, ceil_mode=True), (2, 3, 6, 8)),
    "dilation": (Pair(2, 2, True, stride=2, dilation=2), (2, 3, 5, 7)),
    "line": (Pair(1, 2), (2, 3, 8)),
    "line, odd": (Pair(1, 2, True), (2, 3, 9)),
    "volume": (Pair(3, 2), (2, 3, 4, 4, 6)),
    "volume, padded": (Pair(3, 3, True, stride=2, padding=1), (2, 2, 5, 5, 7)),
    "volume, overlap": (Pair(3, (1, 3, 2), stride=(1, 2, 1)), (1, 2, 2, 5, 4)),
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_is_two_nodes(name: str, opset: int) -> None:
    """Nothing is converted there and back."""
    model, shape = PAIRS[name]
    net = isthmus.compile(model, torch.randn(shape), dynamic_shapes=[{0: "N"}], opset=opset)
    assert ops(net) == {"MaxPool": 1, "MaxUnpool": 1}
    right(net, model, torch.randn(shape), torch.randn(5, *shape[1:]), torch.randint(-2, 2, (1, *shape[1:])).float())


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_before_there_was_a_mod(name: str) -> None:
    model, shape = PAIRS[name]
    net = isthmus.compile(model, torch.randn(shape), dynamic_shapes=[{0: "N"}], opset=9)
    right(net, model, torch.randn(shape), torch.randn(5, *shape[1:]))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("rank", "shape"), [(1, (3, 8)), (2, (3, 4, 6)), (3, (2, 4, 4, 6))])
def test_without_a_batch(rank: int, shape: tuple[int, ...], opset: int) -> None:
    model = Pair(rank, 2)
    net = isthmus.compile(model, torch.randn(shape), opset=opset)
    assert ops(net) == {"Unsqueeze": 1, "MaxPool": 1, "MaxUnpool": 1, "Squeeze": 1}
    right(net, model, torch.randn(shape))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("how", [{"stride": 2}, {"stride": 3}, {"stride": 2, "padding": 1}])
def test_sizes_that_vary(how: dict[str, int], opset: int) -> None:
    """The result has the input's size, which no kernel and strides tell: a scatter, of indices as ONNX counts them."""
    model = Pair(2, 3, True, **how)
    net = isthmus.compile(model, torch.randn(2, 3, 9, 11), dynamic_shapes=[{0: "N", 2: "H", 3: "W"}], opset=opset)
    found = ops(net)
    assert found["ScatterElements"] == 1
    assert not {"Mod", "Add", "Sub"} & set(found)
    right(net, model, *(torch.randn(shape) for shape in [(2, 3, 9, 11), (1, 3, 7, 8), (4, 3, 12, 5)]))


def test_sizes_that_vary_at_every_place() -> None:
    model = Pair(2, 3, True, stride=1)
    net = isthmus.compile(model, torch.randn(2, 3, 9, 11), dynamic_shapes=[{0: "N", 2: "H", 3: "W"}])
    assert ops(net) == {"MaxPool": 1, "MaxUnpool": 1}
    right(net, model, *(torch.randn(shape) for shape in [(2, 3, 9, 11), (1, 3, 7, 8), (4, 3, 12, 5)]))


def test_sizes_that_vary_and_are_left_to_the_unpool() -> None:
    """It is as long as the pooled windows reach: half of the planes, where the width is odd, and then torch refuses it."""
    model = Pair(2, 2)
    net = isthmus.compile(model, torch.randn(2, 3, 6, 4), dynamic_shapes=[{0: "N", 2: "H", 3: "W"}])
    right(net, model, *(torch.randn(shape) for shape in [(2, 3, 6, 4), (1, 3, 8, 2), (3, 3, 2, 10)]))


class Level(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm = nn.BatchNorm2d(outputs)
        nn.init.uniform_(self.norm.running_mean)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)))


class SegNet(nn.Module):
    """Encoder and decoder, the pools' indices handed across."""

    def __init__(self, own_size: bool = False) -> None:
        super().__init__()
        widths = [3, 4, 6, 8]
        self.down = nn.ModuleList(map(Level, widths, widths[1:]))
        self.up = nn.ModuleList(map(Level, widths[:0:-1], widths[-2::-1]))
        self.own_size = own_size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for level in self.down:
            x = level(x)
            size = x.shape
            x, indices = F.max_pool2d(x, 2, 2, return_indices=True)
            kept.append((indices, size))
        for level in self.up:
            indices, size = kept.pop()
            x = level(F.max_unpool2d(x, indices, 2, 2, output_size=list(size[2:]) if self.own_size else None))
        return x


@pytest.mark.parametrize("opset", OPSETS)
def test_several_levels(opset: int) -> None:
    model = SegNet().eval()
    net = isthmus.compile(model, torch.randn(2, 3, 16, 24), dynamic_shapes=[{0: "N"}], opset=opset)
    found = ops(net)
    assert (found["MaxPool"], found["MaxUnpool"], found["Conv"]) == (3, 3, 6)
    assert not set(found) - {"MaxPool", "MaxUnpool", "Conv", "Relu"}
    right(net, model, torch.randn(3, 3, 16, 24), torch.randn(1, 3, 16, 24))


def test_several_levels_of_any_size() -> None:
    model = SegNet(own_size=True).eval()
    net = isthmus.compile(model, torch.randn(2, 3, 16, 24), dynamic_shapes=[{0: "N", 2: "H", 3: "W"}])
    assert (ops(net)["MaxPool"], ops(net)["ScatterElements"], ops(net).get("Mod")) == (3, 3, None)
    assert net.report.assumptions == [], "that a level is about twice the next is known"
    right(net, model, torch.randn(3, 3, 17, 9), torch.randn(1, 3, 10, 30))


class Readers(nn.Module):
    """Others that read the indices want them as torch counts them."""

    def forward(self, x: torch.Tensor) -> Any:
        y, indices = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        picked = x.flatten(2).gather(2, indices.flatten(2))
        return F.max_unpool2d(y, indices, 3, 2, 1, output_size=x.shape[2:]), indices, picked, indices + 1


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dynamic", [{0: "N"}, {0: "N", 2: "H", 3: "W"}])
def test_other_readers_of_the_indices(dynamic: dict[int, str], opset: int) -> None:
    model = Readers()
    net = isthmus.compile(model, torch.randn(2, 3, 7, 8), dynamic_shapes=[dynamic], opset=opset)
    assert ops(net)["Mod"] == 1, "converted once, for these, and not for the unpool"
    assert sum(ops(net).get(name, 0) for name in ("MaxUnpool", "ScatterElements")) == 1
    right(net, model, *(torch.randn(n, 3, 7, 8) for n in (2, 5)), *[torch.randn(1, 3, 11, 6)] * (len(dynamic) > 1))


def test_the_indices_alone() -> None:
    net = isthmus.compile(nn.MaxPool2d(2, return_indices=True), torch.randn(2, 3, 4, 6), dynamic_shapes=[{0: "N"}])
    assert ops(net) == {"MaxPool": 1, "Mod": 1}
    right(net, nn.MaxPool2d(2, return_indices=True), torch.randn(3, 3, 4, 6))


@pytest.mark.parametrize("opset", OPSETS)
def test_indices_from_elsewhere(opset: int) -> None:
    """They are torch's: nothing is known of the tensor that they count in."""
    model = nn.MaxUnpool2d(2)
    x, indices = F.max_pool2d(torch.randn(3, 2, 4, 6), 2, return_indices=True)
    net = isthmus.compile(model, (x, indices), dynamic_shapes=[{0: "N"}, {0: "N"}], opset=opset)
    other = F.max_pool2d(torch.randn(5, 2, 4, 6), 2, return_indices=True)
    torch.testing.assert_close(net(*other), model(*other))
    assert not {"Mod", "Add"} & set(ops(net))


def test_planes_of_another_size() -> None:
    """Indices of one size read in another one are other places: they are converted, as torch takes them."""

    def model(x: torch.Tensor) -> torch.Tensor:
        y, indices = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y, indices, 2, output_size=(5, 7))

    net = isthmus.compile(model, torch.randn(2, 3, 4, 6))
    assert ops(net)["Mod"] == 1
    right(net, model, torch.randn(2, 3, 4, 6))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_element_types(dtype: torch.dtype) -> None:
    model = Pair(2, 2)
    x, other = (torch.randint(-9, 9, (2, 3, 4, 6)).to(dtype) for _ in range(2))
    net = isthmus.compile(model, x)
    right(net, model, x, other)


@pytest.mark.parametrize("target", ["onnx", "reference"])
def test_no_rows(target: str) -> None:
    model = Pair(2, 2)
    net = isthmus.compile(model, torch.randn(2, 3, 4, 6), dynamic_shapes=[{0: torch.export.Dim.DYNAMIC}], target=target)
    right(net, model, torch.randn(0, 3, 4, 6), torch.randn(1, 3, 4, 6))
