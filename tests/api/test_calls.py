"""Calls of a compiled model: what is held against what it was compiled for, and how arguments are bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import isthmus
from isthmus.errors import CaptureError, UsageError

X = torch.randn(4, 5)
HERE = Path(__file__).name


def branches(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 3 else x * 3


@pytest.mark.parametrize("target", ["onnx", "reference"])
@pytest.mark.parametrize(("given", "told"), [
    (torch.ones(2, 5), f"holds only for N > 3\n  at .*{HERE}:{branches.__code__.co_firstlineno + 1}"),
    (torch.ones(4, 6), r"x has another size(.|\n)*f32\[N, 5\]"), (torch.ones(4), "x has another type"),
    (torch.ones(4, 5, dtype=torch.float64), r"x has another type(.|\n)*f64\[4, 5\]"),
])  # fmt: skip
def test_a_call_that_the_graph_does_not_hold_for_is_refused(target: str, given: torch.Tensor, told: str) -> None:
    net = isthmus.compile(branches, X, dynamic_shapes={"x": {0: "N"}}, target=target)
    with pytest.raises(UsageError, match=told):
        net(given)
    with pytest.raises(UsageError, match=told):
        net.verify([(given,)])
    assert torch.equal(net(X), branches(X))


def test_a_declared_range_is_kept() -> None:
    net = isthmus.compile(torch.relu, X, dynamic_shapes=[{0: torch.export.Dim("q", min=2, max=6)}])
    assert net(torch.ones(6, 5)).shape == (6, 5)
    for size in (1, 7):
        with pytest.raises(UsageError, match=f"q is out of its range\n  expected: 2 to 6\n  found: {size}"):
            net(torch.ones(size, 5))


def test_the_report_says_what_the_model_holds_only_for() -> None:
    net: Any = isthmus.compile(branches, X, dynamic_shapes={"x": {0: "N"}})
    (line,) = [line for line in str(net.report).splitlines() if "N > 3" in line]
    assert line.startswith("holds only for N > 3 (at ")


@pytest.mark.parametrize("results", [None, (), 3, {"a": None}])
def test_a_model_without_tensors_among_its_results_is_refused(results: Any) -> None:
    with pytest.raises(CaptureError, match="has no tensor among its results"):
        isthmus.compile(lambda x: results, X)


@pytest.mark.parametrize("kwargs", [[1], [("x", X)], {1: X}, "x"])
def test_kwargs_are_arguments_by_name(kwargs: Any) -> None:
    with pytest.raises(UsageError, match="kwargs must be a dict"):
        isthmus.compile(lambda x: x, (X,), kwargs)


def test_arguments_by_name_in_a_call_and_in_verify() -> None:
    net = isthmus.compile(lambda x, y: x - y, (X, X + 1), dynamic_shapes=[{0: "N"}, {0: "N"}])
    torch.testing.assert_close(net(y=X, x=X + 1), torch.ones(4, 5))
    assert net.verify([((), {"y": X, "x": X + 1}), ((X,), {"y": X})]).ok


def test_a_tensor_without_data() -> None:
    with pytest.raises(UsageError, match="the input input_0 has no data"):
        isthmus.compile(torch.relu, X)(X.to("meta"))


def test_too_many_names() -> None:
    with pytest.raises(UsageError, match=r"which a function has not\n  found: b left over"):
        isthmus.compile(lambda x: x, X, input_names=["nope", "b"])


def test_a_fast_path_that_was_off_is_told() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = torch.tensor([[False, False, False, True]])
    for nested, count in ((True, 1), (False, 0)):
        model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested).eval()
        net = isthmus.compile(model, torch.randn(1, 4, 8), {"src_key_padding_mask": mask})
        assert sum("fast path of TransformerEncoder was off" in note for note in net.report.notes) == count


@pytest.mark.parametrize("target", ["onnx", "reference", "tensorrt"])
def test_a_size_at_which_an_assumption_divides_by_0(target: str) -> None:
    class Halves(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x[1:].chunk(2)

    net = isthmus.compile(Halves(), torch.randn(4, 3), dynamic_shapes=({0: "N"},), target=target)
    told = r"the graph holds only for .*//\(N//2\) == -2, which chunk needs(.|\n)*test_calls.py:\d+ in forward(.|\n)*N=1"
    with pytest.raises(UsageError, match=told):
        net(torch.randn(1, 3))
    assert net.report.assumptions[0].startswith("(-N + 1)//(N//2) == -2, which chunk needs (at ")


def test_what_is_no_pass_is_refused() -> None:
    with pytest.raises(isthmus.errors.UsageError, match="is no pass"):
        isthmus.compile(torch.nn.ReLU(), torch.ones(2), passes=[lambda graph: None])  # type: ignore[list-item]
