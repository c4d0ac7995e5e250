"""`as_strided`: rows of what lies in the storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from aten_cases import Case, cases, check, f

from isthmus.frontends.torch import capture
from isthmus.ir.errors import UnsupportedError


def chunks(x: torch.Tensor, width: int) -> torch.Tensor:
    """Pieces of the first axis that overlap by half, without copying."""
    size, stride = x.size(), x.stride()
    return x.as_strided((2 * (size[0] // width) - 1, width, *size[1:]), (width // 2 * stride[0], *stride))


def after_write(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    view = y.as_strided((2, 2), (1, 1))
    y[0, 0] = 9.0
    return view + 1


@cases(
    same=[lambda x: x.as_strided(x.shape, x.stride()) + 1, f("N", 3)],
    windows=[lambda x: x.as_strided((x.shape[0] - 1, 6), (3, 1)), f("N", 3)],
    axes=[lambda x: (x.as_strided((3, x.shape[0]), (1, 3)), x.as_strided((x.shape[0], 1, 3), (3, 7, 1))), f("N", 3)],
    some=[lambda x: (x.as_strided((3,), (4,)), x.as_strided((2, 2), (0, 1)), x.as_strided((), ())), f(3, 3)],
    offset=[lambda x: (x.as_strided((2, 2), (1, 2), 1), x.as_strided((2, 3), (3, 1), 3), x.as_strided((3,), (1,), 3)),
        f("N", 3)],
    batches=[lambda x: x.as_strided((x.shape[0], x.shape[1] - 1, 2, 2), (x.stride(0), 2, 2, 1)), f("N", "M", 2)],
    overlap=[lambda x: (chunks(x, 2), chunks(x + x, 2)), f("N", "M", 2)],
    transposed=[lambda x: chunks(x.transpose(0, 1), 2), f("M", "N", 2)],
    one_of_several=[lambda x: x[1:3].as_strided((2, 2), (1, 1)), f("N", 3)],
    after_write=[after_write, f("N", 3)],
)  # fmt: skip
def test_as_strided(case: Case) -> None:
    check(case)


@cases(
    parts=[lambda x, s: (torch.as_strided_scatter(x, s, (2, 2), (3, 1)), torch.as_strided_scatter(x, s, (2, 2), (1, 4), 1),
        torch.as_strided_scatter(x, s[0, 0], (), (), 2)), f("N", 3), f(2, 2)],
    transposed=[lambda x, s: torch.as_strided_scatter((x + 1).T, s, (2, 2), (3, 1)), f("N", 3), f(2, 2)],
    other_types=[lambda x, s: torch.as_strided_scatter(x > 0, s > 0, (2, 2), (3, 1)), f("N", 3), f(2, 2)],
)  # fmt: skip
def test_as_strided_scatter(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x[:, 1:].as_strided((2,), (1,)), "do not lie densely"),
        (lambda x: x[1:].as_strided((2,), (1,), 0), "with an offset, of a view"),
        (lambda x: torch.as_strided_scatter(x[1:], x[0], (3,), (1,), 0), "with an offset, of a view"),
        (lambda x: torch.as_strided_scatter(x, x, (4, 3), (4, 1)), "beyond the elements"),
        (lambda x: x[:2].as_strided((9,), (1,)), "beyond the elements"),
        (lambda x: x.clone().as_strided((2, 2), (1, 1)).add_(1), "a write through a view made by as_strided"),
    ],
)  # fmt: skip
def test_refuses(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        capture(function, (torch.rand(4, 3),))


def _by_layout(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_contiguous() else x * 3


def test_how_the_example_lies_is_no_part_of_the_graph() -> None:
    """It is taken to lie as what a call gives, and who asks is told where that is not so."""
    for example, notes in ((torch.randn(2, 3), 0), (torch.randn(3, 2).t(), 1)):
        captured = capture(_by_layout, (example,))
        told = [note for note in captured.notes if "as if its elements followed one another" in note]
        assert len(told) == len(captured.notes) == notes
        assert all(note.startswith("`x.is_contiguous()` asks how a tensor lies") for note in told)
        assert [node.op.name for node in captured.graph.nodes][-1] == "mul"
