"""Structures of arguments and results, names, and every way to say which sizes are dynamic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim
from watching import agree

from isthmus.frontends.base import TensorSpec
from isthmus.frontends.torch import capture
from isthmus.frontends.torch.outline import outline
from isthmus.ir import dtypes, interpreter
from isthmus.ir.dims import symbols
from isthmus.ir.errors import UsageError
from isthmus.ir.symbols import Symbols
from isthmus.ir.types import Tensor


@dataclass
class Pair:
    left: torch.Tensor
    right: list[torch.Tensor]
    scale: float = 2.0


class Nested(torch.nn.Module):
    def forward(self, a: torch.Tensor, rest: Any, pair: Pair, *more: torch.Tensor, flag: bool = True, **options: Any) -> Any:
        x, mapping = rest
        total = a + x + mapping["key"] * pair.scale + pair.left
        for one in (*pair.right, *more):
            total = total + one
        result = {"total": total, "pair": Pair(total * 2, [total]), "nothing": None, "number": 3}
        return result, (options["bias"], flag)


def test_nested_structures() -> None:
    t = [torch.randn(3) for _ in range(7)]
    args = (t[0], (t[1], {"key": t[2]}), Pair(t[3], [t[4]]), t[5])
    captured = agree(Nested(), args, {"bias": t[6]})
    assert captured.input_names == ["a", "rest_0", "rest_1_key", "pair_left", "pair_right_0", "more_0", "bias"]
    assert captured.output_names == ["output_0_total", "output_0_pair_left", "output_0_pair_right_0", "output_1_0"]
    outputs = interpreter.run(captured.graph, captured.flatten(args, {"bias": t[6]}))
    result, (bias, flag) = captured.unflatten(outputs)
    expected, _ = Nested()(*args, bias=t[6])
    assert isinstance(result["pair"], Pair)
    torch.testing.assert_close(result["pair"].right[0], expected["total"])
    assert (result["nothing"], result["number"], flag) == (None, 3, True)
    torch.testing.assert_close(bias, t[6])


def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x[:, :1] + y[:1]


X, Y = torch.randn(4, 6), torch.randn(5, 1)


def shapes(*names: Any) -> list[list[str]]:
    captured = capture(two, (X, Y), dynamic_shapes=names[0])
    return [[str(dim) for dim in value.tensor.shape or ()] for value in captured.graph.inputs]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (None, [["4", "6"], ["5", "1"]]),
        ({"x": {0: "N"}}, [["N", "6"], ["5", "1"]]),
        ({"x": {0: "N"}, "y": None}, [["N", "6"], ["5", "1"]]),
        ({"x": {-1: "M"}, "y": {0: "K"}}, [["4", "M"], ["K", "1"]]),
        (({0: "N", 1: "M"}, {}), [["N", "M"], ["5", "1"]]),
        ([("N", None), (5, None)], [["N", "6"], ["5", "1"]]),
        (({0: Dim("n", min=2, max=9)}, None), [["n", "6"], ["5", "1"]]),
        (({0: Dim.AUTO}, {0: Dim.DYNAMIC}), [["x_0", "6"], ["y_0", "1"]]),
        (({0: Dim.STATIC}, (Dim.AUTO, Dim.STATIC)), [["4", "6"], ["y_0", "1"]]),
        (({0: Dim("n"), 1: Dim("n") + 2}, None), [["n", "n + 2"], ["5", "1"]]),
        (({1: 2 * Dim("k")}, None), [["4", "x_1"], ["5", "1"]]),
    ],
)
def test_dynamic_shapes(spec: Any, found: list[list[str]]) -> None:
    assert shapes(spec) == found


def test_ranges_and_hints() -> None:
    captured = capture(two, (X, Y), dynamic_shapes=({0: Dim("n", min=2, max=9)}, None))
    symbol = captured.graph.symbols.by_name["n"]
    assert (symbol.lo, symbol.hi, symbol.hint) == (2, 9, 4)


def test_a_derived_size_without_its_root() -> None:
    captured = agree(
        lambda x: x.reshape(-1, 2) * x.shape[0], (torch.randn(6),), dynamic=({0: 2 * Dim("k", max=50)},), sizes=[{"x_0": 10}]
    )
    assert str(captured.graph.symbols.assumptions[0]) == "x_0 % 2 == 0"


def test_nested_dynamic_shapes() -> None:
    def model(rest: Any, pair: Pair) -> torch.Tensor:
        return rest[0]["a"][:1] + pair.left[:1] + pair.right[0][:1]

    args = ([{"a": torch.randn(3)}], Pair(torch.randn(4), [torch.randn(5)]))
    captured = agree(model, args, dynamic={"rest": [{"a": {0: "A"}}], "pair": {"left": {0: "L"}, "right": [{0: "R"}]}})
    assert [str(value.tensor.shape[0]) for value in captured.graph.inputs if value.tensor.shape] == ["A", "L", "R"]


def test_hints_tell_sizes_apart() -> None:
    """Sizes that are 0, 1 or equal by chance must not be taken for what they are in the example."""
    captured = agree(
        two, (torch.randn(1, 5), torch.randn(5, 1)), dynamic=({0: "N", 1: "M"}, {0: "K"}), sizes=[{"N": 3, "M": 2, "K": 7}]
    )
    assert captured.notes == []


def test_specs_in_place_of_tensors() -> None:
    table = Symbols()
    n = table.declare("N", 1, 64, 4).dim
    captured = capture(two, (TensorSpec(dtypes.f32, (n, 6)), TensorSpec(dtypes.f32, (5, 1))))
    assert captured.graph.inputs[0].type == Tensor(dtypes.f32, captured.graph.inputs[0].tensor.shape)
    assert str(captured.graph.inputs[0].type) == "f32[N, 6]"
    assert captured.graph.symbols.by_name["N"].hi == 64
    args, kwargs = captured.fresh_inputs(0, {"N": 7})
    assert args[0].shape == (7, 6)
    assert kwargs == {}


def test_fresh_integers_stay_in_the_examples_range() -> None:
    captured = capture(lambda i, m: i + m, (torch.tensor([2, 5, 3]), torch.tensor([True, False, True])))
    (i, m), _ = captured.fresh_inputs(1)
    assert i.dtype is torch.int64
    assert 2 <= int(i.min()) <= int(i.max()) <= 5
    assert m.dtype is torch.bool


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.tied = self.fc

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) + self.tied(x)


def test_names_for_parameters() -> None:
    captured = capture(Net(), (torch.randn(1, 3),), input_names=["pixels", "kernel", "offset"], output_names=["score"])
    assert captured.input_names == ["pixels"]
    assert captured.output_names == ["score"]
    assert captured.graph.inputs[0].name == "pixels"
    names = {weight.name for weight in captured.graph.weights()}
    assert names == {"kernel", "offset"}, "tied weights are one constant"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dynamic_shapes": {"z": {0: "N"}}}, "names 'z', which is no argument of the model"),
        ({"dynamic_shapes": {"x": {2: "N"}}}, "names the dim 2, but the tensor has 2 dims"),
        ({"dynamic_shapes": {"x": ("N",)}}, "has 1 entries, but the tensor has 2 dims"),
        ({"dynamic_shapes": {"x": "N"}}, "must be a dict or a sequence"),
        ({"dynamic_shapes": ({}, {}, {})}, "has 3 entries for 2 arguments"),
        ({"dynamic_shapes": 3}, "neither a dict nor a sequence"),
        ({"dynamic_shapes": {"x": {0: 7}}}, "is declared to be 7, but is 4 in the example"),
        ({"dynamic_shapes": {"x": {0: "no name"}}}, "'no name', given for dim 0 of x, is not a name"),
        ({"dynamic_shapes": {"x": {0: 2.5}}}, "is neither a name, a Dim nor a size"),
        ({"dynamic_shapes": {"x": {0: Dim("n", min=5, max=9)}}}, "is 4, outside the range of n"),
        ({"dynamic_shapes": {"x": {0: "N", 1: "N"}}}, "the dynamic size N is 4 elsewhere and 6 in dim 1 of x"),
        ({"input_names": ["a", "b", "c"]}, "more input_names than inputs"),
        ({"output_names": ["a", "b"]}, "2 output_names for 1 outputs"),
    ],
)
def test_wrong_use(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        capture(two, (X, Y), **options)
    assert text in str(caught.value)


@pytest.mark.parametrize(("item", "spec", "told"), [
    ((X, Y), {0: "N"}, ["x has another structure than the argument, (f32[4, 6], f32[5, 1])", "expected: (..., ...) with a dict",
                        "found: {0: 'N'}"]),
    ([(X,), {"m": X > 0}], [{0: "N"}, None], ["structure than the argument, (f32[4, 6],)", "expected: (...,) with"]),
    (Pair(X, [Y]), 3, ["the argument, {'left': f32[4, 6], 'right': [f32[5, 1]], 'scale': 2.0}", "found: 3"]),
    ([X, Y], [None], ["has 1 entries for the 2 items of x, [f32[4, 6], f32[5, 1]]"]),
    (X, ({0: "N"},), ["1 entries, but the tensor has 2 dims", "an entry for each dim of f32[4, 6]", "found: ({0: 'N'},)"]),
])  # fmt: skip
def test_wrong_nesting_is_told_without_contents(item: Any, spec: Any, told: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        capture(lambda x: X + 1, (item,), dynamic_shapes={"x": spec})
    for text in told:
        assert text in str(caught.value)
    assert "tensor(" not in str(caught.value)


def test_outlines() -> None:
    kinds = [X.to_sparse(), X.to("meta"), torch.nested.nested_tensor([X[0], X[1, :2]])]
    assert outline(kinds) == "[f32[4, 6] (sparse_coo), f32[4, 6] (on the meta device), f32 (nested)]"
    others = (Pair(X, [Y]), np.zeros(3), "x" * 100, TensorSpec(dtypes.i8, (2,)))
    told = f"float64[3], '{'x' * 56}..., i8[2])"
    assert outline(others) == f"(Pair(left=f32[4, 6], right=[f32[5, 1]], scale=2.0), {told}"


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="the example inputs do not fit the model: missing a required argument: 'y'"):
        capture(two, (X,))
    captured = capture(two, (X, Y))
    with pytest.raises(UsageError, match="the call does not fit the model: missing a required argument: 'y'"):
        captured.flatten((X,))


def test_too_many_names_for_parameters() -> None:
    with pytest.raises(UsageError, match="3 input_names are left for the 2 parameters") as caught:
        capture(torch.nn.Linear(3, 2), (torch.randn(1, 3),), input_names=["x", "a", "b", "c"])
    assert caught.value.location is None


def test_models_that_cannot_be_captured() -> None:
    with pytest.raises(UsageError, match="the model cannot be called"):
        capture(3, ())


def test_exported_programs() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.BatchNorm1d(4)).eval()
    program = torch.export.export(model, (torch.randn(2, 3),), dynamic_shapes=({0: Dim("n", min=2, max=64)},))
    captured = agree(program, (torch.randn(2, 3),))
    shape = captured.graph.inputs[0].tensor.shape
    assert shape is not None
    assert not isinstance(shape[0], int)
    assert (shape[0].symbol.lo, shape[0].symbol.hi) == (2, 64)
    assert {weight.name for weight in captured.graph.weights()} >= {"0.weight", "0.bias"}


def test_fx_graphs_and_functions() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())
    agree(torch.fx.symbolic_trace(model), (torch.randn(2, 3),), dynamic=({0: "N"},), sizes=[{"N": 5}])
    agree(model.forward, (torch.randn(2, 3),))
    agree(torch.sigmoid, (torch.randn(2, 3),))


@pytest.mark.parametrize("given", [torch.randn(4, 5), TensorSpec(dtypes.f32, (4, 5))], ids=["tensor", "spec"])
def test_one_tensor_at_several_places_is_several_inputs(given: Any) -> None:
    shapes = {"a": {0: "N"}, "rest": [{0: "N"}, {1: "M"}]}
    captured = capture(lambda a, rest: (a + rest[0], rest[1]), (given, [given, given]), dynamic_shapes=shapes)
    assert captured.input_names == ["a", "rest_0", "rest_1"]
    assert [str(value.type) for value in captured.graph.inputs] == ["f32[N, 5]", "f32[N, 5]", "f32[4, M]"]
    a, b, c = torch.randn(2, 5), torch.randn(2, 5), torch.randn(4, 3)
    total, last = captured.unflatten(interpreter.run(captured.graph, captured.flatten((a, [b, c]))))
    torch.testing.assert_close(total, a + b)
    torch.testing.assert_close(last, c)


def test_an_exported_program_brings_its_inputs_and_ranges() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, *, by: torch.Tensor) -> torch.Tensor:
            return x * by

    shapes = {"x": {0: Dim("n", min=2, max=64)}, "by": None}
    program = torch.export.export(Scaled(), (torch.randn(4, 3),), {"by": torch.randn(3)}, dynamic_shapes=shapes)
    captured = agree(program, ())
    assert captured.input_names == ["x", "by"]
    (symbol,) = {symbol for value in captured.graph.inputs for symbol in symbols(value.tensor.shape[0])}
    assert (symbol.lo, symbol.hi) == (2, 64)


def test_a_spec_that_divides_by_0_at_its_hints() -> None:
    n = Symbols().declare("N", 1, 64, 4).dim
    with pytest.raises(UsageError, match=r"\[N, 8//\(N - 4\)\] divides by 0\n  found: N=4"):
        capture(lambda x: x + 1, (TensorSpec(dtypes.f32, (n, 8 // (n - 4))),))
