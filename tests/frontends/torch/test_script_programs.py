"""Scripts as people write them, and options of a capture."""

# ruff: noqa: UP006, UP035, UP045, PERF401 (TorchScript knows no other way of saying these)
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import pytest
import torch
from scripts import X, agree, n, scripted

import isthmus

# ---- more that people write


def dynamic(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    table = [x.sum()]
    squares: List[int] = []
    stack = [x, x * 2]
    for i in range(int(y)):
        table.append(table[i] + i)
        squares.append(i * i + 1)
        stack.insert(int(y) - i, stack.pop() + stack[0])
        stack[i % 2] = stack[i % 2] - i
    return torch.stack(table), torch.tensor(squares), torch.stack(stack)


def suppressed(scores: torch.Tensor, least: float = 0.5) -> torch.Tensor:
    keep: List[int] = []
    order = torch.argsort(scores, descending=True)
    while order.numel() > 0:
        best = int(order[0])
        keep.append(best)
        if order.numel() == 1:
            break
        rest = order[1:]
        order = rest[(scores[rest] - scores[best]).abs() > least]
    return torch.tensor(keep)


def windows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: List[torch.Tensor] = []
    for i in range(x.shape[1] - int(y) + 1):
        out.append(x[:, i : i + int(y)].mean(1))
    return torch.stack(out, 1)


def grown(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a, b = x, x * 2
    for _ in range(int(y)):
        a, b = torch.cat([a, x]), torch.cat([b, x])
        a = a + b
    return a


def grid(y: torch.Tensor) -> torch.Tensor:
    a, b = int(y), 36
    while b != 0:
        a, b = b, a % b
    return torch.tensor(a)


def choices(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, bool, List[torch.Tensor]]:
    k = int(y)
    many = k > 2 and bool(x.sum() > 0)
    if many or k == 0:
        found = {"a": x, "b": x + 1}
        items = [x]
        extra: Optional[torch.Tensor] = x * 3
    else:
        found = {"a": x * 2, "b": x}
        items = [x - 1]
        extra = None
    if extra is not None:
        x = x + extra
    return x + found["a"] * found["b"], many, items


def sliced(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, int, torch.Tensor]:
    numbers = list(range(5))
    some = numbers[1 : int(y)]
    queue = [x]
    turn = 0
    while len(queue) > 0 and turn < int(y):
        first = queue.pop(0)
        turn += 1
        queue.append(first + turn)
        if turn % 2 == 0:
            queue.append(first * 2)
    return torch.tensor(some), len(some), torch.stack(queue[: int(y)]).sum(0)


@pytest.mark.parametrize("source", [dynamic, windows, choices, grown, sliced])
def test_programs(source: Any) -> None:
    calls = [(X, n(2)), (X, n(3)), (X * -1, n(4))]
    agree(scripted(source), *calls)


def test_a_loop_that_drops_what_is_near() -> None:
    agree(scripted(suppressed), (torch.randn(8),), (torch.randn(8),), (torch.randn(8) * 5,), ops=["loop", "if"])


def test_numbers_alone() -> None:
    agree(scripted(grid), (n(48),), (n(7),), (n(0),), (n(-7),), ops=["loop"])


# ---- options of a capture


def test_a_long_loop_without_inputs_is_a_loop_or_unrolled() -> None:
    def decays(x: torch.Tensor) -> torch.Tensor:
        for i in range(100):
            x = x * 0.99 + i * 0.001
        return x

    def named(x: torch.Tensor) -> torch.Tensor:
        parts: Dict[str, torch.Tensor] = {}
        for i in range(100):
            parts[str(i)] = x * i
        return parts["7"] + parts["99"]

    agree(scripted(decays), (X,), (X * 2,), ops=["loop"])
    net = agree(scripted(named), (X,), (X * 2,))
    assert "loop" not in {node.op.name for node in net.graph.walk()}


def test_weights_of_ones_own_leave_a_scripted_module_as_it_was() -> None:
    model = scripted(torch.nn.Linear(6, 2).eval())
    before = model.bias.clone()
    net = isthmus.compile(model, (X,), weights={"weight": torch.ones(2, 6), "bias": torch.zeros(2)})
    torch.testing.assert_close(net(X)[:, 0], X.sum(1))
    assert bool((model.bias == before).all())


def test_sizes_come_in_as_numbers_and_go_out() -> None:
    @scripted
    def counted(x: torch.Tensor, k: int) -> Tuple[torch.Tensor, int]:
        for i in range(k):
            x = x + i
        return x, k * 2

    class Sized(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            first, k = counted(x, x.shape[0])
            second, m = counted(first, y.item())
            return second, k, torch.zeros(m)

    agree(Sized(), (X, n(2)), (torch.randn(5, 6), n(3)), ops=["loop"], dynamic_shapes={"x": {0: "N"}})
