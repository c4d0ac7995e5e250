"""Random programs of branches and loops in one another, held against what they mean with branches and loops of Python's."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import control_flow
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import isthmus

OPSETS = (13, 17, 18, 21)
torch.manual_seed(5)
WEIGHT, NORM, LINEAR = torch.randn(4, 4) * 0.5, nn.LayerNorm(4), nn.Linear(4, 4)
CONV, BATCH = nn.Conv1d(4, 4, 3, padding=1), nn.BatchNorm1d(4).eval()
BATCH.running_mean.normal_()
BATCH.running_var.uniform_(0.5, 2)


def written(x: Tensor) -> Tensor:
    y = x.clone()
    y[0] = y[-1] * 0.5
    y[:, 1] += 1
    y.t()[2].mul_(0.5)
    return y


def written_part(x: Tensor) -> Tensor:
    y = x.clone()
    part = y[1:].tanh_()
    y[0] = part.sum()
    return y


# "m" is [N, 4], "v" is [4], "s" is a scalar.
UNARY: dict[str, list[Callable[..., Any]]] = {
    "m": [
        torch.tanh, torch.sin, NORM, LINEAR, F.gelu, written, lambda x: F.relu(x) * 0.7, lambda x: torch.softmax(x, -1),
        lambda x: BATCH(CONV(x.t()[None]))[0].t(), lambda x: CONV(x.t()[None]).squeeze(0).t().contiguous(),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None])[0], lambda x: x @ WEIGHT, lambda x: x.flip(0),
        lambda x: torch.cat([x[1:], x[:1]]), lambda x: torch.cumsum(x, 0).tanh(), lambda x: x.sort(dim=0).values,
        lambda x: x * x.shape[0] * 0.1, lambda x: (x @ x.t() @ x).tanh(), lambda x: x.reshape(-1).view(-1, 4) * 0.9,
        lambda x: x / (x.abs().sum(0, keepdim=True) + 1),
    ],
    "v": [
        torch.tanh, torch.cos, LINEAR, written_part, lambda x: x @ WEIGHT, lambda x: torch.softmax(x, -1),
        lambda x: x.flip(0), lambda x: F.layer_norm(x, (4,)), lambda x: x.sort().values, lambda x: F.pad(x[1:], (1, 0)),
    ],
    "s": [torch.tanh, torch.sin, torch.neg, lambda x: x * 0.5 + 0.1, lambda x: x.clamp(-1, 1)],
}  # fmt: skip
BINARY: list[Callable[..., Any]] = [
    torch.add, torch.maximum, torch.sub, lambda a, b: a * b * 0.5, lambda a, b: torch.where(a > b, a, b * 0.5),
]  # fmt: skip
REDUCED: dict[str, list[tuple[str, Callable[..., Any]]]] = {
    "m": [
        ("v", lambda x: x.mean(0)), ("v", lambda x: x[0]), ("v", lambda x: x.amax(0)), ("v", lambda x: x[-1] * 2),
        ("s", lambda x: x.mean()), ("s", lambda x: x[0, 1]), ("s", lambda x: x[x > 0].sum() * 0.1),
        ("s", lambda x: x[x[:, 0] > 0].shape[0] * torch.tensor(0.1)),
    ],
    "v": [("s", torch.sum), ("s", torch.norm), ("s", lambda x: x[2]), ("s", lambda x: x.argmax() * 0.1)],
    "s": [("v", lambda x: torch.full((4,), 0.3) + x)],
}  # fmt: skip
KINDS = ["apply"] * 6 + ["branch", "branch", "size branch", "counted", "integer", "scan", "map", "associative"]


@dataclass(frozen=True)
class Step:
    """What one step does with the values so far, by their places, and the kinds of values that it adds."""

    run: Callable[[Sequence[Any]], Sequence[Any]]
    gives: str


class Programs:
    """Draws programs.

    Attributes:
        r: draws.
        used: the kinds of steps that were drawn.
    """

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.used: set[str] = set()

    def place(self, known: str, kind: str) -> int:
        """The place of a value of some kind, mostly one of the last."""
        places = [place for place, each in enumerate(known) if each == kind]
        return self.r.choice(places[-3:] if self.r.random() < 0.7 else places)

    def block(self, known: str, wanted: str, depth: int) -> Callable[[Sequence[Any]], list[Tensor]]:
        """Some steps, of the values around them, that end in fresh values of the kinds wanted."""
        steps = []
        for _ in range(self.r.randint(2, 4)):
            steps.append(self.step(known, depth))
            known += steps[-1].gives
        places = [self.place(known, kind) for kind in wanted]

        def run(values: Sequence[Any]) -> list[Tensor]:
            values = list(values)
            for step in steps:
                values += step.run(values)
            return [values[place] * 1 for place in places]

        return run

    def step(self, known: str, depth: int) -> Step:
        kind = self.r.choice(KINDS) if depth else "apply"
        self.used.add(kind)
        return getattr(self, kind.replace(" ", "_"))(known, depth)  # type: ignore[no-any-return]

    def apply(self, known: str, depth: int) -> Step:
        kind = self.r.choice("mvs")
        place, other = self.place(known, kind), self.place(known, self.r.choice("svm"["svm".index(kind) :: -1]))
        how = self.r.random()
        if how < 0.4:
            unary = self.r.choice(UNARY[kind])
            return Step(lambda values: [unary(values[place])], kind)
        if how < 0.7:
            binary = self.r.choice(BINARY)
            return Step(lambda values: [binary(values[place], values[other])], kind)
        gives, reduce = self.r.choice(REDUCED[kind])
        return Step(lambda values: [reduce(values[place])], gives)

    def branch(self, known: str, depth: int) -> Step:
        gives = "".join(self.r.choices("mvs", k=self.r.randint(1, 2)))
        then, other = (self.block(known, gives, depth - 1) for _ in range(2))
        place, limit = self.place(known, "s"), self.r.choice([0.0, 0.3, -0.2])
        return Step(lambda values: torch.cond(values[place] > limit, lambda: then(values), lambda: other(values)), gives)

    def size_branch(self, known: str, depth: int) -> Step:
        then, other = (self.block(known, "mv", depth - 1) for _ in range(2))
        limit = self.r.randint(1, 5)
        return Step(lambda values: torch.cond(values[0].shape[0] > limit, lambda: then(values), lambda: other(values)), "mv")

    def _while(self, known: str, depth: int, start: Any) -> Step:
        carried = "".join(self.r.sample("mvs", self.r.randint(1, 2)))
        places = [self.place(known, kind) for kind in carried]
        body = self.block(known + "s" + carried, carried, depth - 1)
        limit = self.r.choice([None, 0, 1, 3])

        def run(values: Sequence[Any]) -> Sequence[Any]:
            def turn(i: Any, *now: Tensor) -> tuple[Any, ...]:
                return i + 1, *body([*values, i * torch.tensor(0.1), *now])

            first = start.clone() if isinstance(start, Tensor) else start
            most = values[2] * 2 if limit is None else limit
            state = (first, *(values[place] * 1 for place in places))
            return control_flow.while_loop(lambda i, *_: i < most, turn, state)[1:]  # type: ignore[no-any-return]

        return Step(run, carried)

    def counted(self, known: str, depth: int) -> Step:
        return self._while(known, depth, control_flow.zero)

    def integer(self, known: str, depth: int) -> Step:
        return self._while(known, depth, 0)

    def scan(self, known: str, depth: int) -> Step:
        rows, start, reverse = self.place(known, "m"), self.place(known, "v"), self.r.random() < 0.3
        body = self.block(known + "vv", "vv", depth - 1)

        def run(values: Sequence[Any]) -> Sequence[Any]:
            def turn(now: Tensor, row: Tensor) -> Any:
                return tuple(body([*values, now, row]))

            return control_flow.scan(turn, values[start] * 1, values[rows], reverse=reverse)  # type: ignore[no-any-return]

        return Step(run, "vm")

    def map(self, known: str, depth: int) -> Step:
        rows, body = self.place(known, "m"), self.block(known + "v", "v", depth - 1)
        return Step(lambda values: [control_flow.each(lambda row: body([*values, row])[0], values[rows])], "m")

    def associative(self, known: str, depth: int) -> Step:
        rows, mode, dim = self.place(known, "m"), self.r.choice(["generic", "pointwise"]), self.r.choice([0, 1])
        reverse = self.r.random() < 0.5

        def run(values: Sequence[Any]) -> Sequence[Any]:
            return [control_flow.associative_scan(torch.maximum, values[rows], dim, reverse=reverse, combine_mode=mode)]

        return Step(run, "m")


@pytest.mark.parametrize("seed", range(24))
def test_as_python_has_it(seed: int) -> None:
    programs = Programs(seed)
    steps = programs.block("mvs", "mvs", 3)

    def model(x: Tensor, y: Tensor, k: Tensor) -> Any:
        return steps([x, y, k * 0.5])

    draw = torch.Generator().manual_seed(seed)
    calls = tuple(
        (torch.randn(size, 4, generator=draw), torch.randn(4, generator=draw), torch.tensor(turns))
        for size, turns in ((3, 2), (3, 0), (5, 3), (1, 1))
    )
    dynamic = ({0: "N"}, None, None)
    expected = control_flow.Program(model, calls, dynamic).plainly()
    for target in ({"opset": OPSETS[seed % len(OPSETS)]}, {"target": "reference"}):
        net = isthmus.compile(model, calls[0], dynamic_shapes=dynamic, verify_ir=True, strict=True, **target)
        for call, theirs in zip(calls, expected, strict=True):
            for ours, other in zip(net(*call), theirs, strict=True):
                torch.testing.assert_close(ours, other, rtol=1e-3, atol=1e-4)


def test_all_kinds_are_drawn() -> None:
    used: set[str] = set()
    for seed in range(24):
        programs = Programs(seed)
        programs.block("mvs", "mvs", 3)
        used |= programs.used
    assert used == set(KINDS)
