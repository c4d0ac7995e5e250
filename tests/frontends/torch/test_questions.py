"""Branches on sizes are told with what the code asked, the answer that it got, and where it goes on with either."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from watching import agree

from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.ir.errors import CaptureError
from isthmus.ir.symbols import Assumption, Question


def early_exit(boxes: torch.Tensor) -> torch.Tensor:
    boxes = boxes[boxes[:, 0] > 0]
    if boxes.numel() == 0:
        return boxes.new_zeros(0)
    return boxes.amax(1)


def truth_of_a_size(boxes: torch.Tensor) -> torch.Tensor:
    kept = boxes[boxes[:, 0] > 0]
    if kept.shape[1] and not kept.shape[0]:
        return boxes
    return kept


def conditional(boxes: torch.Tensor) -> torch.Tensor:
    kept = boxes[boxes[:, 0] > 0]
    return kept[:3] if kept.shape[0] > 3 else kept


def over_lines(boxes: torch.Tensor) -> torch.Tensor:
    kept = boxes[boxes[:, 0] > 0]
    while (kept.shape[0] >
           kept.shape[1]):  # fmt: skip
        kept = kept[:-1]
        break
    return kept


def raising(boxes: torch.Tensor) -> torch.Tensor:
    kept = boxes[boxes[:, 0] > 0]
    if kept.shape[0] == 5:
        raise ValueError("five")
    return kept


def no_branch(boxes: torch.Tensor) -> torch.Tensor:
    kept = boxes[boxes[:, 0] > 0]
    return kept[: sorted([kept.shape[0], 5])[1]]


def line(model: Callable[..., Any], text: str) -> str:
    """The line with a text in it, as a question tells it."""
    lines, first = inspect.getsourcelines(model)
    (place,) = [number for number, each in enumerate(lines) if text in each]
    return f"line {first + place}, `{lines[place].strip()}`"


def asked(model: Callable[..., Any]) -> Assumption:
    """What a model takes for granted, which is one thing."""
    captured = capture(model, (torch.randn(9, 4),))
    (assumption,) = captured.graph.symbols.assumptions
    return assumption


@pytest.mark.parametrize(
    ("model", "text", "answer", "taken", "other"),
    [
        (early_exit, "boxes.numel() == 0", False, "return boxes.amax", "return boxes.new_zeros"),
        (truth_of_a_size, "kept.shape[0]", True, "return kept", "return boxes"),
        (over_lines, "kept.shape[0] > kept.shape[1]", True, "kept = kept[:-1]", "return kept"),
    ],
)
def test_both_outcomes_are_told(model: Callable[..., Any], text: str, answer: bool, taken: str, other: str) -> None:
    ways = f"goes on at {line(model, taken)}", f"would go on at {line(model, other)}"
    assumption = asked(model)
    assert assumption.question == Question(text, answer, *ways)
    assert model.__name__ in str(assumption.location)
    yes, no = ("yes", "no") if answer else ("no", "yes")
    assert assumption.in_full.startswith(f"{assumption} (at {__file__}:")
    assert assumption.in_full.endswith(f" in {model.__name__}): `{text}` was answered {yes} and {ways[0]}; {no} {ways[1]}")


def test_a_branch_in_one_line() -> None:
    assert asked(conditional).question == Question("kept.shape[0] > 3", True)
    assert asked(conditional).in_full.endswith(": `kept.shape[0] > 3` was answered yes; no is not in the graph")


def part_of_a_value(boxes: torch.Tensor) -> torch.Tensor:
    kept = boxes[boxes[:, 0] > 0]
    many = kept.shape[0] > 3 and boxes.is_floating_point()
    return kept[:3] if many else kept


def test_an_operand_of_and_is_asked_by_itself() -> None:
    question = asked(part_of_a_value).question
    assert question is not None
    assert (question.text, question.answer) == ("kept.shape[0] > 3", True)


def test_what_would_raise() -> None:
    question = asked(raising).question
    assert question is not None
    assert (question.text, question.answer, question.other) == ("kept.shape[0] == 5", False, "would raise an exception")


def test_a_question_without_a_branch() -> None:
    assert asked(no_branch).question == Question("sorted([kept.shape[0], 5])")
    assert asked(no_branch).in_full.endswith("in no_branch): asked in `sorted([kept.shape[0], 5])`")


def test_what_an_op_needs_is_no_question_of_the_code() -> None:
    captured = agree(lambda x: x.chunk(3), (torch.randn(8, 6),), dynamic=({0: "N"},))
    (assumption,) = captured.graph.symbols.assumptions
    assert assumption.question is None
    assert ", which chunk needs (at " in assumption.in_full


def test_code_without_a_source() -> None:
    names: dict[str, Any] = {}
    exec(compile("def model(x):\n    x = x[x > 0]\n    return x if x.shape[0] > 3 else -x\n", "/nowhere.py", "exec"), names)
    assert asked(names["model"]).question is None


def test_a_refusal_tells_both_outcomes() -> None:
    with pytest.raises(CaptureError, match=r"the model branches on u0 != 0, and u0 depends on data") as caught:
        capture(early_exit, (torch.randn(9, 4),), options=CaptureOptions(on_size_branch="refuse"))
    text = str(caught.value)
    assert "found: `boxes.numel() == 0` was answered no and goes on at" in text
    assert f"yes would go on at {line(early_exit, 'new_zeros')}" in text
    assert "in early_exit" in text
    assert "remedy: make the code independent of that size" in text
