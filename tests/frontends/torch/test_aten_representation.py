"""Signs, exponents and neighbours of floats; common divisors; running sums of exponentials; spaced numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from aten_cases import Case, T, b, cases, check, f, i

from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.frontends.torch.weights import contents
from isthmus.ir import interpreter
from isthmus.ir.errors import UnsupportedError

EDGES = torch.cat([
    torch.tensor([0.0, -0.0, 1.0, -1.0, 0.75, -3.0, 3.4e38, -3.4e38, 1e-40, -1e-45, math.inf, -math.inf, math.nan]),
    2.0 ** torch.arange(-148, 127, 9), -(2.0 ** torch.tensor([-126, -125, -1])),
])  # fmt: skip
I8, I32 = torch.int8, torch.int32


def exactly(function: Callable[..., object], *inputs: torch.Tensor) -> None:
    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> object:
            return function(*args)

    captured = capture(Model(), inputs, options=CaptureOptions())
    found = interpreter.run(captured.graph, [contents(each) for each in inputs])
    wanted = Model()(*inputs)
    for ours, theirs in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert ours.dtype == contents(theirs).dtype
        assert ours.tobytes() == contents(theirs).tobytes() or ((ours == contents(theirs)) | (ours != ours)).all()


@pytest.mark.parametrize("function", [torch.nextafter, torch.copysign])
def test_of_two_floats(function: Callable[..., object]) -> None:
    others = [EDGES, -EDGES.nan_to_num(), EDGES * 2, torch.zeros_like(EDGES), EDGES.roll(5)]
    for other in others:
        exactly(function, EDGES, other if function is torch.nextafter else other.nan_to_num())


def test_neighbours_of_bfloat16() -> None:
    narrow = EDGES.to(torch.bfloat16)
    exactly(lambda x, y: torch.nextafter(x, y).float(), narrow, narrow.roll(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parts(dtype: torch.dtype) -> None:
    exactly(torch.frexp, EDGES.to(dtype))
    exactly(lambda x: torch.signbit(x.nan_to_num()), EDGES.to(dtype))
    exactly(torch.angle, EDGES.to(dtype))


@cases(
    signs=[lambda x, y: (torch.copysign(x, -2), torch.copysign(x, y), torch.copysign(y, x[0]), torch.signbit(y)),
           f("N", 3), i("N", 1)],
    angles=[lambda x, y, z: (torch.angle(x), torch.angle(y), torch.angle(z), torch.angle(x[:0])), f("N"), i("N", 2), b(3)],
    complex_angles=[lambda x: torch.angle(torch.view_as_complex(x)), f("N", 2)],
    frexp=[lambda x: (torch.frexp(x), torch.frexp(x[:0])), f("N", 3)],
    neighbours=[lambda x, y: torch.nextafter(x, y), f("N", 3), f()],
    divisors=[lambda x, y: (torch.gcd(x, y), torch.lcm(x, y), torch.gcd(x[:0], y), torch.gcd(y[0], y)),
              i("N", 1, low=-90, high=90), i(3, low=-40, high=40)],
    narrow_divisors=[lambda x, y, z: (torch.gcd(x, y), torch.lcm(x, y), torch.lcm(y, z)), T(I8, "N", low=-128, high=127),
                     T(I8, low=-9, high=9), T(I32, "N", low=-99, high=99)],
    running=[lambda x: (torch.logcumsumexp(x, 0), torch.logcumsumexp(x, 1), torch.logcumsumexp(x[0, 0], 0),
                        torch.logcumsumexp(torch.cat([-1 / (x - x) ** 2, x * 100, 1 / (x - x) ** 2]), 0)), f("N", 3)],
    spaced=[lambda x, y: (torch.linspace(x, 9, 7), torch.linspace(x, y, 8, dtype=torch.int64), torch.linspace(y, x, 1),
                          torch.logspace(x, y, 5), torch.logspace(0, y, 4, 2, dtype=torch.int64), torch.logspace(x, 1, 1),
                          torch.linspace(-46, 38, 73, dtype=torch.int64), torch.linspace(4.3, -3, 5, dtype=torch.int64)),
            f(), i(low=2)],
    norms_of_nothing=[lambda x: [torch.linalg.norm(x, p) for p in (math.inf, 1, "fro", None)], f(0, 0)],
)  # fmt: skip
def test_others(case: Case) -> None:
    check(case)


def test_neighbours_of_doubles_are_refused() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nextafter(x, x + 1)

    with pytest.raises(UnsupportedError, match="use float32"):
        capture(Model(), (torch.ones(2, dtype=torch.float64),), options=CaptureOptions())
