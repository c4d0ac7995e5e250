"""Models that ask whether they are being exported: what they hear, that it is told, and that verification finds it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.compiler import is_compiling as imported
from torch.onnx import is_in_onnx_export

import isthmus
from isthmus.errors import CaptureError, MismatchError

HERE = __file__
X = torch.tensor([1.0, 2.0, 3.0])


def constants(net: isthmus.Compiled) -> list[float]:
    return [float(weight.array()) for weight in net.graph.weights()]


def line(function: Callable[..., Any], offset: int = 1) -> str:
    return f"{HERE}:{function.__code__.co_firstlineno + offset}"


def answers() -> tuple[bool, ...]:
    return (
        torch.compiler.is_compiling(), imported(), torch.compiler.is_exporting(), torch.onnx.is_in_onnx_export(),
        is_in_onnx_export(), torch.compiler._is_compiling_flag, torch.compiler._is_exporting_flag,
    )  # fmt: skip


def others() -> tuple[bool, ...]:
    return torch.jit.is_tracing(), torch.jit.is_scripting(), torch.compiler.is_dynamo_compiling(), torch._C._is_tracing()


@pytest.mark.parametrize(
    ("flags", "heard"),
    [(True, (True,) * 7), (False, (False,) * 7), ("compiled", (True, True, False, False, False, True, False))],
)
def test_what_models_hear_by_whatever_name_they_ask(flags: Any, heard: tuple[bool, ...]) -> None:
    asked = []

    def model(x: torch.Tensor) -> torch.Tensor:
        asked.append((answers(), others()))
        return x + 1

    isthmus.compile(model, X, export_flags=flags)
    assert asked == [(heard, (False,) * 4)]
    assert answers() == (False,) * 7


def test_the_flags_are_put_back_when_the_model_raises() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no luck") if is_in_onnx_export() else KeyError

    code = is_in_onnx_export.__code__
    with pytest.raises(CaptureError, match="no luck"):
        isthmus.compile(model, X)
    assert answers() == (False,) * 7
    assert is_in_onnx_export.__code__ is code


def same_either_way(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.compiler.is_exporting() else x + x


def test_lines_that_ask_are_noted() -> None:
    net = isthmus.compile(same_either_way, X)
    (note,) = [note for note in net.report.notes if "asks" in note]
    assert note.startswith("the model asks whether it is being exported or compiled, and heard yes, at ")
    assert line(same_either_way) in note
    assert net.verify().ok
    assert not [note for note in isthmus.compile(same_either_way, X, export_flags=False).report.notes if "asks" in note]


def asks() -> bool:
    return torch.onnx.is_in_onnx_export()


def asks_by_another(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if asks() else x + x


def test_who_only_hands_the_answer_on_does_not_ask() -> None:
    (place,) = isthmus.compile(asks_by_another, X).captured.asks
    assert place == line(asks_by_another)


def test_many_lines_are_not_all_told() -> None:
    names: dict[str, Any] = {"torch": torch}
    questions = "".join("    torch.compiler.is_exporting()\n" for _ in range(9))
    exec(compile(f"def model(x):\n{questions}    return x + 1\n", "/somewhere/model.py", "exec"), names)
    (note,) = [note for note in isthmus.compile(names["model"], X).report.notes if "asks" in note]
    assert "/somewhere/model.py:2, " in note
    assert "/somewhere/model.py:5 and 5 more lines;" in note


class Differs(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if torch.onnx.is_in_onnx_export():
            return y + 1
        return y


def test_verification_tells_where_the_model_differs_only_because_it_is_exported() -> None:
    net = isthmus.compile(Differs(), X)
    np.testing.assert_array_equal(net(X).numpy(), X.numpy() * 2 + 1)
    with pytest.raises(MismatchError) as caught:
        net.verify()
    text = str(caught.value)
    assert text.startswith(
        "the compiled model and the model disagree on output: it computes something else when it hears that it is being "
        f"exported, which it asks at {line(Differs.forward, 2)}, and the compiled model agrees with that"
    )
    assert "3 of 3 elements differ" in text
    assert "remedy: compile with export_flags=False" in text
    assert isthmus.compile(Differs(), X, export_flags=False).verify().ok


def other_structure(x: torch.Tensor) -> Any:
    return x + 1 if torch.compiler.is_compiling() else (x, x + 1)


def test_another_structure_is_a_difference_too() -> None:
    with pytest.raises(MismatchError, match="another structure than it did while it was captured: it computes") as caught:
        isthmus.compile(other_structure, X).verify()
    assert line(other_structure) in str(caught.value)
    assert isthmus.compile(other_structure, X, export_flags=False).verify().ok


def test_other_differences_are_not_laid_to_the_flags() -> None:
    net = isthmus.compile(same_either_way, X)
    right = net.artefact.run

    def wrong(inputs: Any) -> Any:
        return [output + 1 for output in right(inputs)]

    net.artefact.run = wrong  # type: ignore[method-assign]
    with pytest.raises(MismatchError, match="disagree on output\n") as caught:
        net.verify()
    assert "export" not in str(caught.value)
