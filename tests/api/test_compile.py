"""`isthmus.compile` and what it returns, on small models."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import isthmus
from isthmus.errors import UsageError


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 2)
        self.note = ["mine"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


@pytest.fixture
def small() -> Small:
    torch.manual_seed(0)
    return Small().eval()


def test_compile_call_verify_save(small: Small, tmp_path: Path) -> None:
    x = torch.randn(2, 3, 8, 8)
    net = isthmus.compile(small, (x,), dynamic_shapes={"x": {0: "N", 2: "H"}}, input_names=["image"], output_names=["score"])
    assert (net.input_names, net.output_names) == (["image"], ["score"])
    with torch.no_grad():
        torch.testing.assert_close(net(x), small(x), rtol=1e-4, atol=1e-5)
    assert net.verify().ok
    (path,) = net.save(tmp_path / "small.onnx")
    assert path.stat().st_size > small.head.weight.nbytes
    assert "conv" in str(net.graph)
    assert repr(net).startswith("Compiled(Small -> onnx")


def test_a_tensor_may_be_given_bare(small: Small) -> None:
    assert isthmus.compile(small, torch.randn(2, 3, 8, 8)).verify().ok


def test_a_spec_stands_for_a_tensor(small: Small) -> None:
    net = isthmus.compile(small, isthmus.spec("f32[N,3,H,W]"))
    assert net.report.inputs == {"x": "f32[N, 3, H, W]"}
    assert {name for turn in net.verify().rounds for name in turn.sizes} == {"N", "H", "W"}


@pytest.mark.parametrize("dynamic", [
    {"x": {0: "N"}}, ({0: "N"},), {"x": {0: torch.export.Dim("N", min=1, max=64)}}, {"x": {0: torch.export.Dim.DYNAMIC}},
    {"x": {0: torch.export.Dim.AUTO}}, {"x": ("N", None, None, None)}, [{0: "N"}], {"x": {0: "N", 1: 3}},
])  # fmt: skip
def test_forms_of_dynamic_shapes(small: Small, dynamic: Any) -> None:
    net = isthmus.compile(small, (torch.randn(2, 3, 8, 8),), dynamic_shapes=dynamic)
    assert net(torch.randn(5, 3, 8, 8)).shape == (5, 2)


def test_nothing_is_dynamic_by_default(small: Small) -> None:
    net = isthmus.compile(small, torch.randn(2, 3, 8, 8))
    assert net.report.inputs == {"x": "f32[2, 3, 8, 8]"}


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


torch.export.register_dataclass(Pair)


def test_nested_arguments_and_results() -> None:
    class Nested(torch.nn.Module):
        def forward(self, pair: Pair, more: dict[str, list[torch.Tensor]], *, scale: torch.Tensor) -> Any:
            total = pair.left + pair.right
            return {"sum": total * scale, "all": (more["a"][0], [more["a"][1] - total])}

    def call() -> tuple[Any, Any]:
        a, b, c, d, scale = torch.randn(5, 2, 3)
        return (Pair(a, b), {"a": [c, d]}), {"scale": scale}

    model = Nested()
    args, kwargs = call()
    net = isthmus.compile(model, args, kwargs)
    args, kwargs = call()
    found, wanted = net(*args, **kwargs), model(*args, **kwargs)
    assert found.keys() == wanted.keys()
    torch.testing.assert_close(found["sum"], wanted["sum"])
    torch.testing.assert_close(found["all"][1][0], wanted["all"][1][0])
    assert net.verify([(args, kwargs)]).ok
    assert net.verify().ok


def test_a_trailing_dict_stays_an_argument() -> None:
    class Last(torch.nn.Module):
        def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> torch.Tensor:
            return x + more["y"]

    net = isthmus.compile(Last(), (torch.ones(2), {"y": torch.ones(2)}))
    assert net(torch.ones(2), {"y": torch.full((2,), 3.0)}).tolist() == [4.0, 4.0]


def test_further_input_names_name_the_parameters(small: Small, tmp_path: Path) -> None:
    import onnx

    names = ["image", "conv_w", "conv_b"]
    net = isthmus.compile(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)).eval(), torch.randn(1, 3, 8, 8), input_names=names)
    (path,) = net.save(tmp_path / "named.onnx")
    graph = onnx.load(str(path)).graph
    assert [value.name for value in graph.input] == ["image"]
    assert {weight.name for weight in graph.initializer} == {"conv_w", "conv_b"}


def test_the_reference_target(small: Small) -> None:
    net = isthmus.compile(small, torch.randn(2, 3, 8, 8), target="reference")
    assert net.verify(seeds=1).ok


def test_own_passes_replace_the_default_ones(small: Small) -> None:
    net = isthmus.compile(small, torch.randn(2, 3, 8, 8), passes=[])
    assert net.report.nodes["captured"] == net.report.nodes["passes"]
    assert net.verify(seeds=1).ok


def test_the_ir_may_be_checked_after_every_pass(small: Small) -> None:
    assert isthmus.compile(small, torch.randn(2, 3, 8, 8), verify_ir=True).verify(seeds=1).ok


def test_the_report_tells_what_was_done(small: Small) -> None:
    report = isthmus.compile(small, torch.randn(2, 3, 8, 8), dynamic_shapes=({0: "N"},), opset=17).report
    assert list(report.seconds) == ["capture", "passes", "legalize", "cleanup", "emit"]
    assert list(report.nodes) == ["captured", "passes", "legal", "artefact"]
    assert report.nodes["artefact"] < report.nodes["captured"] + 1
    assert report.options["opset"] == 17
    assert report.inputs == {"x": "f32[N, 3, 8, 8]"}
    assert report.passes
    text = str(report)
    assert "Small -> onnx (opset=17" in text
    assert report.passes[0].name in text
    assert json.loads(report.model_dump_json())["nodes"] == report.nodes


def test_weights_changed_since_capture_are_not_used_silently(small: Small) -> None:
    net = isthmus.compile(small, torch.randn(2, 3, 8, 8))
    with torch.no_grad():
        small.head.weight.add_(1)
    with pytest.raises(isthmus.errors.IsthmusError, match="changed"):
        net.verify()


def test_a_model_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match=r"takes no such model(.|\n)*builtins.dict"):
        isthmus.compile({}, ())
    with pytest.raises(UsageError, match=r"takes no such model(.|\n)*make an instance"):
        isthmus.compile(Small, ())


def test_numpy_values_do_not_leak(small: Small) -> None:
    assert not isinstance(isthmus.compile(small, torch.randn(2, 3, 8, 8))(torch.randn(2, 3, 8, 8)), np.ndarray)
