"""What is said when a model cannot be captured: the line, the reason and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from watching import agree

from isthmus.frontends.torch import capture
from isthmus.ir.errors import CaptureError, UnsupportedError


def branch(x: torch.Tensor) -> Any:
    if x.sum() > 0:
        return x
    return -x


def number(x: torch.Tensor) -> Any:
    return x * float(x.max())


def integer(x: torch.Tensor) -> Any:
    return [x] * int(x.max())


def listed(x: torch.Tensor) -> Any:
    return x * x.tolist()[0][0]


def array(x: torch.Tensor) -> Any:
    return x + torch.from_numpy(np.sin(x.numpy()))


def as_array(x: torch.Tensor) -> Any:
    return x + float(np.asarray(x).sum())


def address(x: torch.Tensor) -> Any:
    return x if x.data_ptr() else x + 1


def equal(x: torch.Tensor) -> Any:
    return x if torch.equal(x, x + 1) else x + 1


def item(x: torch.Tensor) -> Any:
    return x * x[0, 0].item()


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (branch, ["Python needs the truth of a tensor, `x.sum() > 0`,", "both outcomes", "torch.where or torch.cond"]),
        (number, ["Python needs the number of a tensor, `float(x.max())`,", "compute with the tensor itself to the end"]),
        (integer, ["Python needs the number of a tensor, `int(x.max())`,"]),
        (listed, ["Python needs the content (tolist) of a tensor, `x.tolist()`,"]),
        (array, ["Python needs the content (numpy) of a tensor, `x.numpy()`,", "compute with torch's own functions"]),
        (as_array, ["Python needs the content (numpy) of a tensor, `np.asarray(x)`,"]),
        (address, ["Python needs the address"]),
        (equal, ["Python needs the truth of a tensor, `torch.equal(x, x + 1)`,", "(a == b).all()"]),
        (item, ["Python needs the number of a tensor, `x[0, 0].item()`,"]),
    ],
)
def test_data_that_leaves(function: Callable[[torch.Tensor], Any], texts: list[str]) -> None:
    with pytest.raises(CaptureError) as caught:
        capture(function, (torch.randn(2, 3),))
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    assert caught.value.location.function == function.__name__
    assert caught.value.location.line > function.__code__.co_firstlineno
    for text in [*texts, "that depends on the input x"]:
        assert text in str(caught.value)


class Constants(torch.nn.Module):
    """What leaves here depends on weights alone, and comes back as constants."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([3.0, -1.0]))
        self.register_buffer("steps", torch.tensor(2))

    def forward(self, x: torch.Tensor) -> Any:
        detour = torch.from_numpy(np.sin((self.weight * 2).detach().numpy()))
        if self.weight.sum() > 0:
            x = x + 1
        for _ in range(int(self.steps + 1)):
            x = x * 2
        scale = float(self.weight[0].exp()) + self.weight.tolist()[1] + (self.steps * 3).item()
        grown = torch.arange(5)[torch.tensor([True, False, True, True, False])].sum()
        return x * detour + scale + grown.item() + (torch.equal(self.weight, self.weight) and 1)


def test_data_that_depends_on_weights_becomes_constant() -> None:
    agree(Constants(), (torch.randn(4, 2),), dynamic=({0: "N"},), sizes=[{"N": 7}])


def wrong_shapes(x: torch.Tensor) -> Any:
    return x @ x


def test_an_error_of_the_model_names_its_line() -> None:
    with pytest.raises((CaptureError, UnsupportedError)) as caught:
        capture(wrong_shapes, (torch.randn(2, 3),))
    assert f"{__file__}:{wrong_shapes.__code__.co_firstlineno + 1}" in str(caught.value)


def raising(x: torch.Tensor) -> Any:
    if x.shape[0] == 3:
        raise ValueError("three is no size")
    return x


def test_an_attribute_that_tensors_lack_is_told_as_torch_tells_it() -> None:
    def model(x: torch.Tensor) -> Any:
        return x.var_mean(0)

    with pytest.raises(AttributeError) as plain:
        model(torch.ones(3))
    with pytest.raises(CaptureError, match="the model raised AttributeError: ") as caught:
        capture(model, (torch.ones(3),))
    assert str(plain.value) in str(caught.value)
    assert str(caught.value.location) == f"{__file__}:{model.__code__.co_firstlineno + 1} in model"
    assert "Watched" not in str(caught.value)
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith("check that the model runs on the example inputs")


def test_a_model_that_fails_for_what_it_heard_is_told() -> None:
    def model(x: torch.Tensor) -> Any:
        return x.expand(5, 4) if torch.compiler.is_compiling() else x

    with pytest.raises(CaptureError, match="the model raised") as caught:
        capture(model, (torch.ones(3),))
    assert caught.value.remedy is not None
    place = f"{__file__}:{model.__code__.co_firstlineno + 1}"
    assert caught.value.remedy.endswith(f", and heard that it is being exported or compiled at {place}: try export_flags=False")


def test_an_exception_of_the_model_is_the_cause() -> None:
    with pytest.raises(CaptureError, match="the model raised ValueError: three is no size") as caught:
        capture(raising, (torch.randn(3, 3),))
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.location is not None
    assert caught.value.location.line == raising.__code__.co_firstlineno + 2


UNKNOWN = torch.library.Library("isthmus_tests", "DEF")
for _name in ("first", "second"):
    UNKNOWN.define(f"{_name}(Tensor x) -> Tensor")
    UNKNOWN.impl(_name, torch.empty_like, "Meta")


def unsupported(x: torch.Tensor) -> Any:
    y = torch.ops.isthmus_tests.first(x @ x.T)
    z = torch.ops.isthmus_tests.second(x)
    return y.sum() + z, torch.ops.isthmus_tests.second(y)


def test_all_unsupported_ops_at_once() -> None:
    with pytest.raises(UnsupportedError, match="3 operations of the model cannot be carried over") as caught:
        capture(unsupported, (torch.randn(2, 3),), dynamic_shapes=({0: "N"},))
    lines = [
        refusal.location.line - unsupported.__code__.co_firstlineno for refusal in caught.value.refusals if refusal.location
    ]
    assert lines == [1, 2, 3]
    assert [refusal.op for refusal in caught.value.refusals] == [
        "isthmus_tests.first.default", "isthmus_tests.second.default", "isthmus_tests.second.default",
    ]  # fmt: skip


def test_results_that_are_no_tensors() -> None:
    with pytest.raises(CaptureError, match="the model returns a object, which is not a tensor"):
        capture(lambda x: (x, object()), (torch.randn(3),))


def counting(x: torch.Tensor) -> Any:
    counting.calls = getattr(counting, "calls", 0) + 1  # type: ignore[attr-defined]
    return x * counting.calls  # type: ignore[attr-defined]


def test_a_model_that_changes_between_watches() -> None:
    with pytest.raises(CaptureError, match="the model computes something else at N=") as caught:
        capture(counting, (torch.randn(3),), dynamic_shapes=({0: "N"},))
    assert "declare them static" in str(caught.value)


def test_a_tensor_on_the_meta_device() -> None:
    model = torch.nn.Linear(3, 2, device="meta")
    with pytest.raises(CaptureError, match="is on the meta device and has no content"):
        capture(model, (torch.randn(1, 3),))


def test_unknown_control_flow() -> None:
    def model(x: torch.Tensor) -> Any:
        return torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, x, x)

    with pytest.raises(
        CaptureError, match="the operator out_dtype, which takes functions or other operators, is not carried over"
    ) as caught:
        capture(model, (torch.ones(2, 2, dtype=torch.int8),))
    assert __file__ in str(caught.value)


def ends_early(x: torch.Tensor) -> Any:
    y = torch.ops.isthmus_tests.first(x)
    if y.sum() > 0:
        y = torch.ops.isthmus_tests.second(y)
    return y


def test_a_run_that_ends_early_says_so() -> None:
    with pytest.raises(UnsupportedError) as caught:
        capture(ends_early, (torch.randn(3, 3),))
    line = ends_early.__code__.co_firstlineno + 2
    assert f"1 operation of the model cannot be carried over; the run ended early, at {__file__}:{line}" in str(caught.value)
    assert "further ones may follow" in str(caught.value)


MISFITS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "linear": torch.nn.Linear(5, 8),
    "matmul": lambda x: x @ torch.ones(5, 2),
    "broadcast": lambda x: x + torch.ones(7),
    "conv": lambda x: torch.conv1d(x.t(), torch.ones(4, 3, 1)),
    "view": lambda x: x[0].view(7),
    "concat": lambda x: torch.cat([x, torch.ones(2, 3)], 0),
}


@pytest.mark.parametrize("dynamic", [None, ({0: "N"},)], ids=["static", "dynamic"])
@pytest.mark.parametrize("model", MISFITS.values(), ids=MISFITS)
def test_sizes_that_the_model_does_not_run_at_are_the_models_own_error(model: Any, dynamic: Any) -> None:
    x = torch.randn(4, 6)
    with pytest.raises(RuntimeError):
        model(x)
    with pytest.raises(CaptureError, match="the model raised RuntimeError: ") as caught:
        capture(lambda x: model(x), (x,), dynamic_shapes=dynamic)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_marks_for_a_profiler_are_no_ops() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("doubled"):
            return x * 2

    captured = capture(model, (torch.randn(3),))
    assert [node.op.name for node in captured.graph.nodes if node.op.name != "constant"] == ["mul"]
    capture(torch.nn.DataParallel(torch.nn.Linear(3, 2)), (torch.randn(1, 3),))
