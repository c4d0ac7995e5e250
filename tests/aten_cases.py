"""Cases for lowerings of ATen: functions of tensors, held against eager torch at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.frontends.torch.weights import contents
from isthmus.ir import interpreter
from isthmus.ir.verifier import verify

SIZES = ({"N": 4, "M": 6}, {"N": 7, "M": 5}, {"N": 3, "M": 8})
"""The example's sizes first, then others to run at."""


class T:
    """A tensor argument: its dtype, its dims (a name for a dynamic one) and the range of its elements."""

    def __init__(self, dtype: torch.dtype, *dims: int | str, low: float = -3, high: float = 3) -> None:
        self.dtype, self.dims, self.low, self.high = dtype, dims, low, high

    def make(self, sizes: dict[str, int], generator: torch.Generator) -> torch.Tensor:
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in self.dims]
        if self.dtype is torch.bool:
            return torch.rand(shape, generator=generator) < 0.5
        if self.dtype.is_complex:
            real, imag = torch.rand([2, *shape], generator=generator) * (self.high - self.low) + self.low
            return torch.complex(real, imag).to(self.dtype)
        if not self.dtype.is_floating_point:
            return torch.randint(int(self.low), int(self.high) + 1, shape, generator=generator).to(self.dtype)
        return (torch.rand(shape, generator=generator) * (self.high - self.low) + self.low).to(self.dtype)

    @property
    def dynamic(self) -> dict[int, str]:
        return {axis: dim for axis, dim in enumerate(self.dims) if isinstance(dim, str)}


def f(*dims: int | str, low: float = -3, high: float = 3, dtype: torch.dtype = torch.float32) -> T:
    """Floats."""
    return T(dtype, *dims, low=low, high=high)


def i(*dims: int | str, low: int = -5, high: int = 5, dtype: torch.dtype = torch.int64) -> T:
    """Integers."""
    return T(dtype, *dims, low=low, high=high)


def c(*dims: int | str, low: float = -3, high: float = 3, dtype: torch.dtype = torch.complex64) -> T:
    """Complex numbers."""
    return T(dtype, *dims, low=low, high=high)


def b(*dims: int | str) -> T:
    """Bools."""
    return T(torch.bool, *dims)


class Case:
    """A function of tensors."""

    def __init__(self, function: Callable[..., Any], *inputs: T, name: str = "", **tolerance: float) -> None:
        self.function, self.inputs, self.tolerance = function, inputs, {"rtol": 1e-5, "atol": 1e-5} | tolerance
        self.name = name


class Model(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def flat(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for item in result for tensor in flat(item)]


def check(case: Case) -> None:
    draws = torch.Generator().manual_seed(0)
    calls = [[spec.make(sizes, draws) for spec in case.inputs] for sizes in SIZES]
    model = Model(case.function).eval()
    dynamic = any(spec.dynamic for spec in case.inputs)
    shapes = {"args": tuple(spec.dynamic for spec in case.inputs)} if dynamic else None
    captured = capture(model, tuple(calls[0]), dynamic_shapes=shapes, options=CaptureOptions())
    verify(captured.graph)
    for args in calls if dynamic else calls[:1]:
        wanted = flat(model(*(arg.clone() for arg in args)))
        found = interpreter.run(captured.graph, [contents(arg) for arg in args])
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, map(contents, wanted), strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            if ours.dtype.kind not in "fiubc":  # bfloat16, which numpy knows little of
                ours, theirs = ours.astype(np.float32), theirs.astype(np.float32)
            np.testing.assert_allclose(ours, theirs, equal_nan=True, **case.tolerance)


def cases(**named: Sequence[Any]) -> Any:
    """Parameters out of ``name=[function, inputs...]``."""
    return pytest.mark.parametrize("case", [pytest.param(Case(*parts), id=name) for name, parts in named.items()])


def each(names: str, *inputs: T, **ranges: tuple[float, float]) -> Any:
    """The torch functions of these names, each on the same inputs."""
    found = []
    for name in names.split():
        function = torch
        for part in name.split("."):
            function = getattr(function, part)
        specs = [T(x.dtype, *x.dims, low=ranges[name][0], high=ranges[name][1]) if name in ranges else x for x in inputs]
        found.append(pytest.param(Case(function, *specs), id=name))
    return pytest.mark.parametrize("case", found)
