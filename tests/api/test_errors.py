"""Errors as a user meets them: what is wrong, where in the model, and what to do."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch

import isthmus
from isthmus.errors import CaptureError, FileError, IsthmusError, UnsupportedError, UsageError

X = torch.ones(2, 4)
HERE = Path(__file__).name


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def line_of(model: torch.nn.Module, text: str) -> int:
    lines, first = inspect.getsourcelines(type(model).forward)
    return first + next(number for number, line in enumerate(lines) if text in line)


UNKNOWN = torch.library.Library("isthmus_api_tests", "DEF")
for _name in ("first", "second"):
    UNKNOWN.define(f"{_name}(Tensor x) -> Tensor")
    UNKNOWN.impl(_name, torch.empty_like, "Meta")


def test_unsupported_ops_come_all_at_once_each_with_its_line() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            y = torch.ops.isthmus_api_tests.first(x)
            z = torch.ops.isthmus_api_tests.second(x + 1)
            return y + z

    with pytest.raises(UnsupportedError) as caught:
        isthmus.compile(Two(), X)
    text = str(caught.value)
    assert len(caught.value.refusals) == 2
    for op in ("isthmus_api_tests.first", "isthmus_api_tests.second"):
        assert op in text
        assert f"{HERE}:{line_of(Two(), op)}" in text


def test_an_unknown_name_in_dynamic_shapes() -> None:
    with pytest.raises(UsageError, match=r"image") as caught:
        isthmus.compile(Plain(), X, dynamic_shapes={"image": {0: "N"}})
    assert "x" in str(caught.value)


@pytest.mark.parametrize(("dynamic", "told"), [
    ({"x": {7: "N"}}, "7"), ({"x": {0: 5}}, "5"), ({"x": "N"}, "x"), ({"x": {0: 1.5}}, "1.5"),
    ({"x": {0: "not a name"}}, "not a name"), (({0: "N"}, {0: "N"}), "2"),
])  # fmt: skip
def test_a_wrong_dynamic_shape(dynamic: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        isthmus.compile(Plain(), X, dynamic_shapes=dynamic)
    assert told in str(caught.value)


def test_a_declared_dim_that_the_model_fixes() -> None:
    class Fixes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(2, 4)

    with pytest.raises(IsthmusError) as caught:
        isthmus.compile(Fixes(), X, dynamic_shapes={"x": {0: "N"}})
    text = str(caught.value)
    assert "N" in text
    assert "2" in text
    assert f"{HERE}:{line_of(Fixes(), 'torch.ones(2, 4)')}" in text


def test_a_branch_on_data_names_its_line() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                return x
            return -x

    with pytest.raises(CaptureError) as caught:
        isthmus.compile(Branches(), X)
    assert f"{HERE}:{line_of(Branches(), 'if x.sum')}" in str(caught.value)


@pytest.mark.parametrize("opset", [3, 6])
def test_an_opset_that_is_too_low(opset: int) -> None:
    with pytest.raises(UsageError, match=r"opset(.|\n)*7") as caught:
        isthmus.compile(Plain(), X, opset=opset)
    assert str(opset) in str(caught.value)


def test_an_opset_that_does_not_exist_yet() -> None:
    with pytest.raises(UsageError, match="opset"):
        isthmus.compile(Plain(), X, opset=999)


def test_an_op_that_the_opset_lacks_is_named() -> None:
    with pytest.raises(UsageError, match="seventeen"):
        isthmus.compile(Plain(), X, opset="seventeen")


def test_an_output_that_is_not_a_tensor() -> None:
    class Talks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x, object()

    with pytest.raises(CaptureError, match="object"):
        isthmus.compile(Talks(), X)


def test_a_model_that_raises() -> None:
    class Raises(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no such luck")

    with pytest.raises(CaptureError, match="no such luck") as caught:
        isthmus.compile(Raises(), X)
    assert f"{HERE}:{line_of(Raises(), 'raise ValueError')}" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_arguments_that_the_model_does_not_take() -> None:
    with pytest.raises(IsthmusError, match="positional argument"):
        isthmus.compile(Plain(), (X, X))


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    net = isthmus.compile(Plain(), X)
    with pytest.raises(FileError, match="missing"):
        net.save(tmp_path / "missing" / "net.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(FileError, match=r"folder.onnx"):
        net.save(tmp_path / "folder.onnx")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder.onnx"]


def test_an_unknown_target_lists_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"no target 'onxx'(.|\n)*onnx, reference"):
        isthmus.compile(Plain(), X, target="onxx")


def test_an_unknown_option_lists_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"no option opsett(.|\n)*opset(.|\n)*on_size_branch"):
        isthmus.compile(Plain(), X, opsett=17)


def test_arguments_of_another_structure_at_the_call() -> None:
    net = isthmus.compile(Plain(), X)
    with pytest.raises(IsthmusError):
        net(X, X)


@pytest.mark.parametrize("names", [["a", "a"], [""]])
def test_input_names_must_be_names(names: list[str]) -> None:
    with pytest.raises(UsageError):
        isthmus.compile(Plain(), X, input_names=names)


def test_an_output_has_no_name_of_an_input() -> None:
    with pytest.raises(UsageError, match="output_names has the name of an input\n  found: signal"):
        isthmus.compile(lambda signal: signal * 2, torch.ones(3), output_names=["signal"])


def test_too_many_output_names() -> None:
    with pytest.raises(UsageError, match="output"):
        isthmus.compile(Plain(), X, output_names=["a", "b"])


@pytest.mark.parametrize(("target", "reason"), [
    ("tensorrt", "TensorRT has no tensors of c64"), ("caffe", "Caffe has only f32 blobs, and this is c64[4, 3]"),
])  # fmt: skip
def test_complex_ends_are_refused_by_their_names(target: str, reason: str) -> None:
    x = torch.ones(4, 3, dtype=torch.complex64)
    with pytest.raises(UnsupportedError) as caught:
        isthmus.compile(lambda signal: signal * 2, x, target=target, output_names=["spectrum"])
    found = [(refusal.op, refusal.message) for refusal in caught.value.refusals]
    assert found == [("input signal", reason), ("output spectrum", reason)]
    assert "remedy: let its real and imaginary parts go in or come out" in str(caught.value)
