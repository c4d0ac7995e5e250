"""Recurrent layers, from PyTorch to onnxruntime: layers, directions, states, sequences of several lengths."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import isthmus
from isthmus.backends.onnx.opsets import NEWEST
from isthmus.errors import UnsupportedError
from isthmus.ir.weights import LazyWeight

OPSETS = [13, 17, NEWEST]


def flat(found: Any) -> list[torch.Tensor]:
    return [found] if isinstance(found, torch.Tensor) else [each for part in found for each in flat(part)]


def check(net: isthmus.Compiled, model: torch.nn.Module, *args: torch.Tensor) -> None:
    with torch.no_grad():
        for got, wanted in zip(flat(net(*args)), flat(model(*args)), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


def kinds(net: isthmus.Compiled) -> Counter[str]:
    artefact: Any = net.artefact
    return Counter(node.op_type for node in artefact.model.graph.node)


class Layer(torch.nn.Module):
    """A recurrent layer, with or without a state that is handed over."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = getattr(torch.nn, kind)(6, 8, **options)

    def forward(self, x: torch.Tensor, h: torch.Tensor | None = None, c: torch.Tensor | None = None) -> Any:
        return self.layer(x, h if c is None else (h, c))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    ("kind", "options", "count"),
    [
        ("LSTM", {}, 2),
        ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.5}, 9),
        ("GRU", {"bidirectional": True, "batch_first": True, "bias": False}, 4),
        ("RNN", {}, 2),
        ("RNN", {"nonlinearity": "relu", "bidirectional": True, "num_layers": 2}, 7),
    ],
)
def test_a_layer_is_one_node(kind: str, options: dict[str, Any], count: int, opset: int) -> None:
    model = Layer(kind, **options).eval()
    net = isthmus.compile(model, torch.randn(5, 3, 6), dynamic_shapes={"x": {0: "A", 1: "B"}}, opset=opset)
    for sizes in ((5, 3), (1, 1), (7, 2)):
        check(net, model, torch.randn(*sizes, 6))
    assert kinds(net)[kind] == options.get("num_layers", 1)
    assert sum(kinds(net).values()) == count


@pytest.mark.parametrize(("kind", "states"), [("LSTM", 2), ("GRU", 1), ("RNN", 1)])
def test_states_that_are_handed_over(kind: str, states: int) -> None:
    model = Layer(kind, num_layers=2, bidirectional=True).eval()
    args = (torch.randn(5, 3, 6), *(torch.randn(4, 3, 8) for _ in range(states)))
    sizes = ({0: "S", 1: "N"}, *({1: "N"} for _ in range(states)))
    net = isthmus.compile(model, args, dynamic_shapes=sizes)
    check(net, model, *args)
    check(net, model, torch.randn(2, 1, 6), *(torch.randn(4, 1, 8) for _ in range(states)))


@pytest.mark.parametrize("opset", OPSETS)
def test_projections(opset: int) -> None:
    model = Layer("LSTM", proj_size=3, bidirectional=True, batch_first=True).eval()
    sizes: Any = {0: "N", 1: "S"}
    net = isthmus.compile(model, torch.randn(3, 5, 6), dynamic_shapes={"x": sizes}, opset=opset)
    check(net, model, torch.randn(2, 7, 6))
    assert kinds(net)["LSTM"] == 1
    args = torch.randn(3, 5, 6), torch.randn(2, 3, 3), torch.randn(2, 3, 8)
    net = isthmus.compile(model, args, dynamic_shapes={"x": sizes, "h": {1: "N"}, "c": {1: "N"}}, opset=opset)
    check(net, model, *args)
    check(net, model, torch.randn(1, 2, 6), torch.randn(2, 1, 3), torch.randn(2, 1, 8))
    assert kinds(net)["Scan"] == 2  # the state handed over need not be the projection of any


def test_parameters_are_rearranged_while_they_are_written() -> None:
    torch.manual_seed(0)
    model = torch.nn.LSTM(256, 128, bidirectional=True).eval()
    net = isthmus.compile(model, torch.randn(2, 1, 256))
    (node,) = (node for node in net.graph.nodes if node.op.name == "lstm")
    for operand in node.operands[1:3]:
        assert operand is not None
        assert isinstance(operand.weight, LazyWeight)
        assert [source.name for source in operand.weight.sources if source.size > 1000] == [
            f"weight_{'ih' if operand is node.operands[1] else 'hh'}_l0{direction}" for direction in ("_reverse", "")
        ]
    check(net, model, torch.randn(2, 1, 256))


# ---- sequences of several lengths


class Packed(torch.nn.Module):
    """Packs, runs a layer, pads again."""

    def __init__(
        self, kind: str = "LSTM", ordered: bool = True, whole: bool = False, fill: float = 0.0, **options: Any
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = getattr(torch.nn, kind)(6, 8, **options)
        self.first, self.ordered, self.whole, self.fill = self.layer.batch_first, ordered, whole, fill

    def between(self, packed: PackedSequence) -> PackedSequence:
        return packed

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = self.between(pack_padded_sequence(x, lengths, self.first, self.ordered))
        y, state = self.layer(packed)
        return pad_packed_sequence(y, self.first, self.fill, x.shape[1 if self.first else 0] if self.whole else None), state


class Touched(Packed):
    """Works on the packed elements themselves, too."""

    def __init__(self) -> None:
        super().__init__(batch_first=True, ordered=False)
        self.inner = torch.nn.Linear(6, 6)

    def between(self, packed: PackedSequence) -> PackedSequence:
        return PackedSequence(self.inner(packed.data), *packed[1:])


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: Packed(batch_first=True),
        lambda: Packed(ordered=False, bidirectional=True, num_layers=2),
        lambda: Packed("GRU", whole=True, batch_first=True),
        lambda: Packed("RNN", fill=-1.5, bidirectional=True),
        lambda: Packed("GRU", fill=2.0, whole=True),
        Touched,
    ],
)
def test_packed_sequences(make: Any, opset: int) -> None:
    model = make().eval()

    def example(count: int, time: int, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = torch.randint(1, longest + 1, (count,)).sort(descending=True)[0]
        lengths[0] = longest
        lengths = lengths if model.ordered else lengths.flip(0)
        return torch.randn(*((count, time) if model.first else (time, count)), 6), lengths

    sizes = {"x": {0: "N", 1: "S"} if model.first else {0: "S", 1: "N"}, "lengths": {0: "N"}}
    net = isthmus.compile(model, example(3, 5, 5), dynamic_shapes=sizes, opset=opset)
    for count, time, longest in ((3, 5, 4), (1, 7, 7), (4, 1, 1), (6, 9, 5)):
        check(net, model, *example(count, time, longest))


def test_a_packed_sequence_that_is_only_taken_apart_again_leaves_no_trace() -> None:
    net = isthmus.compile(Packed(whole=True).eval(), (torch.randn(5, 3, 6), torch.tensor([5, 3, 2])))
    assert kinds(net) == {"LSTM": 1, "Squeeze": 1, "Cast": 1, "Identity": 1}  # the lengths


def test_lengths_that_are_constants() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.GRU(6, 8)

        def forward(self, x: torch.Tensor) -> Any:
            y, state = self.layer(pack_padded_sequence(x, [5, 3, 2]))
            return pad_packed_sequence(y), state, y.data, y.batch_sizes

    model, x = Net().eval(), torch.randn(6, 3, 6)
    check(isthmus.compile(model, x), model, torch.randn(6, 3, 6))


def test_how_sequences_were_packed_must_be_in_the_model() -> None:
    packed = pack_padded_sequence(torch.randn(5, 3, 6), torch.tensor([5, 3, 2]))

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.LSTM(6, 8)

        def forward(self, data: torch.Tensor, batch_sizes: torch.Tensor) -> Any:
            return self.layer(PackedSequence(data, batch_sizes))[0].data

    with pytest.raises(UnsupportedError, match="how these sequences were packed is not known") as caught:
        isthmus.compile(Net(), (packed.data, packed.batch_sizes))
    assert "pack them in the model, by pack_padded_sequence" in str(caught.value)
    assert "test_recurrent.py:" in str(caught.value)
