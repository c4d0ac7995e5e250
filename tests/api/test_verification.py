"""Comparison of a compiled model with its source, on models that are made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from isthmus.errors import EvaluationError, MismatchError, UsageError
from isthmus.ir import Builder, Graph, Tensor
from isthmus.ir.dtypes import f32
from isthmus.verification import random_outputs, verify


def captured(eager: Any, outputs: int = 1) -> Any:
    """A model that takes one tensor of N elements."""
    graph = Graph()
    value = graph.add_input(Tensor(f32, (graph.symbols.declare("N", hint=4).dim,)), "x")
    graph.set_outputs([value] * outputs)

    def fresh(seed: int, sizes: dict[str, int] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (np.random.default_rng(seed).standard_normal((sizes or {"N": 4})["N"]).astype(np.float32),), {}

    return SimpleNamespace(
        graph=graph, output_names=[f"y{i}" for i in range(outputs)], flatten=lambda args, kwargs: list(args),
        eager=lambda args, kwargs: eager(*args), fresh_inputs=fresh, integers={},
    )  # fmt: skip


def test_what_agrees_passes_and_is_told() -> None:
    report = verify(captured(lambda x: [x * 2]), lambda inputs: [inputs[0] * 2])
    assert report.ok
    assert report.worst == 0
    assert report.rounds[0].sizes == {"N": 1}
    assert "y0" in str(report)
    assert "N=1" in str(report)


def test_a_wrong_value_is_told_with_its_place() -> None:
    def wrong(inputs: Any) -> Any:
        found = inputs[0].copy()
        found[-1] += 1
        return [found]

    with pytest.raises(MismatchError, match=r"disagree on y0(.|\n)*1 of 5 elements differ; at \[4\]"):
        verify(captured(lambda x: [x]), wrong)


def test_errors_are_held_against_the_output_s_scale() -> None:
    model = captured(lambda x: [x * 0 + np.float32([1000, 0])[: len(x)].repeat(len(x))[: len(x)]])
    assert verify(model, lambda inputs: [model.eager(inputs, {})[0] + np.float32(5e-3)]).worst == pytest.approx(5e-6, rel=0.1)
    with pytest.raises(MismatchError):
        verify(model, lambda inputs: [model.eager(inputs, {})[0] + np.float32(0.5)])


@pytest.mark.parametrize(("left", "right", "same"), [
    ([np.nan, np.inf, 1], [np.nan, np.inf, 1], True), ([np.nan], [0.0], False), ([np.inf], [-np.inf], False),
    ([0.0], [np.inf], False), ([0.0], [np.nan], False),
])  # fmt: skip
def test_what_is_not_a_number(left: list[float], right: list[float], same: bool) -> None:
    model = captured(lambda x: [np.float32(left)])
    if same:
        assert verify(model, lambda inputs: [np.float32(right)]).ok
    else:
        with pytest.raises(MismatchError):
            verify(model, lambda inputs: [np.float32(right)])


@pytest.mark.parametrize(("dtype", "other"), [(np.int64, 1), (np.bool_, True), (np.uint8, 1)])
def test_integers_and_truths_are_exact(dtype: Any, other: Any) -> None:
    model = captured(lambda x: [np.zeros(3, dtype)])
    assert verify(model, lambda inputs: [np.zeros(3, dtype)]).ok
    with pytest.raises(MismatchError, match="3 of 3 elements differ"):
        verify(model, lambda inputs: [np.full(3, other, dtype)])


def test_half_precision_is_not_asked_for_more_than_it_has() -> None:
    model = captured(lambda x: [x.astype(ml_dtypes.bfloat16)])
    assert verify(model, lambda inputs: [(inputs[0] * 1.004).astype(ml_dtypes.bfloat16)]).ok


def test_dtype_shape_and_number_of_outputs() -> None:
    with pytest.raises(MismatchError, match=r"gives f64\[1\]"):
        verify(captured(lambda x: [x]), lambda inputs: [inputs[0].astype(np.float64)])
    with pytest.raises(MismatchError, match=r"gives f32\[1, 1\]"):
        verify(captured(lambda x: [x]), lambda inputs: [inputs[0][None]])
    with pytest.raises(MismatchError, match="number of outputs"):
        verify(captured(lambda x: [x]), lambda inputs: [])


def test_sizes_that_the_model_refuses_are_skipped_and_told() -> None:
    def eager(x: Any) -> Any:
        if len(x) < 3:
            raise ValueError("too small")
        return [x]

    report = verify(captured(eager), list)
    assert report.skipped == ["N=1: the model raises ValueError: too small"]
    assert "skipped: N=1" in str(report)
    assert len(report.rounds) == 2


def test_nothing_compared_is_no_success() -> None:
    def eager(x: Any) -> Any:
        raise ValueError("never")

    with pytest.raises(MismatchError, match="nothing could be compared"):
        verify(captured(eager), list)


def test_a_runtime_that_refuses_what_the_model_takes() -> None:
    def run(inputs: Any) -> Any:
        raise EvaluationError("bad shape")

    with pytest.raises(MismatchError, match=r"cannot run at N=1(.|\n)*bad shape"):
        verify(captured(lambda x: [x]), run)


def test_given_calls_are_used() -> None:
    report = verify(captured(lambda x: [x]), list, [((np.ones(9, np.float32),), {})])
    assert [turn.title for turn in report.rounds] == ["the inputs given"]
    assert report.rounds[0].outputs[0].type == "f32[9]"


def test_behind_random_ops_only_types_count() -> None:
    model = captured(lambda x: [x, x], outputs=2)
    b = Builder(model.graph)
    noise = b.random_normal(shape=model.graph.inputs[0].type.shape, dtype=f32)
    model.graph.set_outputs([b.add(model.graph.inputs[0], noise), model.graph.inputs[0]])
    assert random_outputs(model.graph) == [True, False]
    report = verify(model, lambda inputs: [inputs[0] + 1, inputs[0]])
    assert report.rounds[0].outputs[0].verdict == "random"
    with pytest.raises(MismatchError):
        verify(model, lambda inputs: [inputs[0][:, None], inputs[0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, ml_dtypes.bfloat16, np.int64, np.bool_])
def test_outputs_without_dims(dtype: Any) -> None:
    model = captured(lambda x: [np.asarray(1, dtype)])
    assert verify(model, lambda inputs: [np.asarray(1, dtype)]).worst == 0
    with pytest.raises(MismatchError, match="1 of 1 elements differ"):
        verify(model, lambda inputs: [np.asarray(0, dtype)])


@pytest.mark.parametrize(("calls", "seeds"), [([], 3), (iter(()), 3), (None, 0), (None, -1)])
def test_to_compare_nothing_is_no_success(calls: Any, seeds: int) -> None:
    with pytest.raises(UsageError):
        verify(captured(lambda x: [x]), list, calls, seeds=seeds)


def test_that_equal_values_have_no_order_is_told() -> None:
    model = captured(lambda x: [np.int64([0, 1]), x], outputs=2)
    b = Builder(model.graph)
    value = model.graph.inputs[0]
    model.graph.set_outputs([b.sort(value, axis=0)[1], value])
    with pytest.raises(MismatchError, match="remedy: y0 lies behind a sort"):
        verify(model, lambda inputs: [np.int64([1, 0]), inputs[0]])
    with pytest.raises(MismatchError) as caught:
        verify(model, lambda inputs: [np.int64([0, 1]), inputs[0] + 1])
    assert caught.value.remedy is None
