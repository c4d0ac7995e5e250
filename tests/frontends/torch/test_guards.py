"""Questions that only keep bad inputs out: their answer is known, and the graph checks it."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from aten_cases import Model

from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.ir import interpreter
from isthmus.ir.errors import CaptureError, EvaluationError

Function = Callable[[torch.Tensor], torch.Tensor]
LOCK = threading.Lock()


def raising(x: torch.Tensor) -> torch.Tensor:
    if (x < 0).any():
        raise ValueError(f"negative numbers among {tuple(x.shape)}" if x.dim() > 1 else "a negative number")
    return x.sqrt()


def asserting(x: torch.Tensor) -> torch.Tensor:
    assert (x >= 0).all(), "no negative numbers"
    return x.sqrt()


def negated(x: torch.Tensor) -> torch.Tensor:
    if not torch.all(x >= 0):
        raise ValueError
    return x.sqrt()


def several(x: torch.Tensor) -> torch.Tensor:
    if (x.dim() > 3 or x.max() > 100) or x.min() < 0:
        message = "out of range"
        raise ValueError(message)
    return x.sqrt()


def managed(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        if (x < 0).any():
            raise ValueError("negative")
    return x.sqrt()


def managed_by_several(x: torch.Tensor) -> torch.Tensor:
    held = torch.no_grad()
    with warnings.catch_warnings(), nullcontext(), held, torch.enable_grad() if x.dim() > 5 else contextlib.nullcontext():
        warnings.simplefilter("ignore")
        with torch.autocast("cpu", enabled=False), LOCK:
            assert (x >= 0).all()
            return x.sqrt()


@torch.no_grad()
def decorated(x: torch.Tensor) -> torch.Tensor:
    return raising(x)


def asserted(x: torch.Tensor) -> torch.Tensor:
    torch._assert((x >= 0).all(), "no negative numbers")
    return x.sqrt()


def all_checked(x: torch.Tensor) -> torch.Tensor:
    torch._check_tensor_all(x >= 0, lambda: f"negative numbers in {x}")
    return x.sqrt()


def otherwise(x: torch.Tensor) -> torch.Tensor:
    if (x >= 0).all():
        return x.sqrt()
    raise ValueError("negative")


def called(x: torch.Tensor) -> torch.Tensor:
    return raising(x) * 1


def of_torch(x: torch.Tensor) -> torch.Tensor:
    return F.gaussian_nll_loss(x, x * 2, x, reduction="none")


@pytest.mark.parametrize(
    "function",
    [
        raising, asserting, negated, several, managed, managed_by_several, decorated, asserted, all_checked, otherwise, called,
        of_torch,
    ],
)
def test_goes_on_with_the_only_answer(function: Function) -> None:
    x = torch.rand(3, 4)
    graph = capture(Model(function), (x,), options=CaptureOptions()).graph
    other = torch.rand(3, 4)
    np.testing.assert_allclose(interpreter.run(graph, [other.numpy()])[0], function(other).numpy(), rtol=1e-5)
    with pytest.raises(EvaluationError, match="the model raises an exception at `"):
        interpreter.run(graph, [other.numpy() - 1])


def test_what_both_answers_leave_possible_is_checked() -> None:
    graph = capture(Model(several), (torch.rand(3),), options=CaptureOptions()).graph
    messages = [node.attrs["message"] for node in graph.walk() if node.op.name == "check"]
    assert messages == ["the model raises an exception at `if (x.dim() > 3 or x.max() > 100) or x.min() < 0:`"] * 2


# ---- both answers give a result


def branching(x: torch.Tensor) -> torch.Tensor:
    if (x < 0).any():
        x = x.abs()
    return x.sqrt()


def catching(x: torch.Tensor) -> torch.Tensor:
    try:
        if (x < 0).any():
            raise ValueError("negative")
    except ValueError:
        x = x.abs()
    return x.sqrt()


def caught(x: torch.Tensor) -> torch.Tensor:
    try:
        return raising(x)
    except ValueError:
        return raising(x.abs())


class Swallowing(contextlib.ContextDecorator):
    def __enter__(self) -> None: ...

    def __exit__(self, *of: object) -> bool:
        return True


@contextlib.contextmanager
def swallowing() -> Iterator[None]:
    with contextlib.suppress(ValueError):
        yield


def suppressed(x: torch.Tensor) -> torch.Tensor:
    with contextlib.suppress(ValueError):
        if (x < 0).any():
            raise ValueError("negative")
        x = x + 1
    return x


def suppressed_around(x: torch.Tensor) -> torch.Tensor:
    with suppress(AssertionError), torch.no_grad(), torch.enable_grad():
        asserting(x)
        return x
    return -x


def suppressed_by_own(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), Swallowing():
        return raising(x)
    return -x


def suppressed_by_a_generator(x: torch.Tensor) -> torch.Tensor:
    manager = swallowing()
    with manager:
        return raising(x)
    return -x


def suppressed_by_a_stack(x: torch.Tensor) -> torch.Tensor:
    with contextlib.ExitStack() as stack:
        stack.enter_context(suppress(ValueError))
        return raising(x)
    return -x


def suppressed_by_a_decorator(x: torch.Tensor) -> torch.Tensor:
    return x if Swallowing()(raising)(x) is None else -x


def suppressed_by_a_decorating_generator(x: torch.Tensor) -> torch.Tensor:
    return x if swallowing()(raising)(x) is None else -x


def caught_around_a_with(x: torch.Tensor) -> torch.Tensor:
    try:
        with torch.no_grad():
            return raising(x)
    except ValueError:
        return -x


def asserted_and_caught(x: torch.Tensor) -> torch.Tensor:
    try:
        torch._assert((x >= 0).all(), "negative")
    except AssertionError:
        return -x
    return x


def repeating(x: torch.Tensor) -> torch.Tensor:
    while (x < 10).any():
        x = x * 2 + 1
    return x


def telling(x: torch.Tensor) -> torch.Tensor:
    return x.sqrt() if (x >= 0).all() else x.abs()


def both_raise(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("negative" if (x < 0).any() else "positive")


@pytest.mark.parametrize(
    "function",
    [
        branching, catching, caught, repeating, telling, both_raise, suppressed, suppressed_around, suppressed_by_own,
        suppressed_by_a_generator, suppressed_by_a_stack, suppressed_by_a_decorator,
        suppressed_by_a_decorating_generator, caught_around_a_with, asserted_and_caught,
    ],
)  # fmt: skip
def test_refuses_where_both_answers_go_on(function: Function) -> None:
    with pytest.raises(CaptureError, match="Python needs the truth of a tensor"):
        capture(Model(function), (torch.rand(3),), options=CaptureOptions())


@pytest.mark.parametrize("kind", [AttributeError, StopIteration, IndexError, KeyError, TypeError])
def test_exceptions_that_python_itself_expects_are_no_check(kind: type[Exception]) -> None:
    """`getattr` with a default, a loop over an iterator and the like handle them, and no frame shows it."""

    def positive(x: torch.Tensor) -> float:
        if (x < 0).any():
            raise kind
        return 1.0

    with pytest.raises(CaptureError, match="the truth"):
        capture(lambda x: x * positive(x), (torch.ones(3),))
