"""The model comes back as it went in, also after an error, and so does torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.modules import module as module_file

import isthmus
from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.frontends.torch.weights import TorchWeight
from isthmus.ir import interpreter
from isthmus.ir.errors import CaptureError


class Messy(torch.nn.Module):
    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.register_buffer("state", torch.zeros(3))
        self.calls = 0
        self.seen: list[Any] = []
        self.cache: dict[str, Any] = {"old": 1}
        self.fails = fails

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(x)
        self.cache["new"] = x
        self.last = x * 2
        self.state = self.state + 1
        self.fc.extra = x  # type: ignore[assignment]
        self.register_buffer("late", x)
        with torch.no_grad():
            self.fc.weight.add_(1)
        if self.fails:
            raise ValueError("on purpose")
        return self.fc(x)


def picture(model: torch.nn.Module) -> list[Any]:
    found: list[Any] = []
    for module in model.modules():
        for name, held in sorted(module.__dict__.items()):
            content = list(held.items()) if isinstance(held, dict) else list(held) if isinstance(held, (list, set)) else held
            found.append(
                (name, id(held), [id(item) for pair in content for item in pair] if isinstance(held, dict) else content)
            )
    return found


SWAPPED = ("__bool__", "__int__", "__float__", "__index__", "item", "tolist", "numpy", "__array__", "data_ptr", "contiguous")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_restored(fails: bool, training: bool) -> None:
    model = Messy(fails).train(training)
    handle = model.fc.register_forward_hook(lambda *_: None)
    before, weight = picture(model), model.fc.weight.detach().clone()
    methods = {name: getattr(torch.Tensor, name) for name in SWAPPED}
    call, factories = torch.nn.Module.__call__, (torch.tensor, torch.as_tensor, torch.onnx.is_in_onnx_export)
    random = torch.get_rng_state()
    with torch.enable_grad():
        if fails:
            with pytest.raises(CaptureError, match="the model raised ValueError: on purpose"):
                capture(model, (torch.randn(2, 3),))
        else:
            random = torch.get_rng_state()
            x = torch.zeros(2, 3)
            capture(model, (x,))
            assert torch.equal(torch.get_rng_state(), random)
        assert torch.is_grad_enabled()
    assert picture(model) == before
    assert torch.equal(model.fc.weight, weight)
    assert model.training is training
    assert {name: getattr(torch.Tensor, name) for name in SWAPPED} == methods
    assert torch.nn.Module.__call__ is call
    assert (torch.tensor, torch.as_tensor, torch.onnx.is_in_onnx_export) == factories
    assert not torch.compiler.is_exporting()
    assert not torch.compiler.is_compiling()
    assert torch.backends.mha.get_fastpath_enabled()
    assert len(module_file._global_forward_hooks) == 0
    # The type's slots are as they were, too: a 0-d tensor is no sequence for C.
    assert torch.tensor([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1.0, 2.0]
    handle.remove()
    assert model.fc(torch.zeros(1, 3)).requires_grad


REPLACEMENTS: dict[str, Callable[[torch.nn.Linear], object]] = {
    "data": lambda layer: setattr(layer.weight, "data", torch.zeros(3, 5)),
    "vector": lambda layer: torch.nn.utils.vector_to_parameters(torch.zeros(18), layer.parameters()),
    "dtype": lambda layer: layer.double(),
}


@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_a_weight_never_lies_in_a_storage_of_the_capture(replace: Callable[[torch.nn.Linear], object]) -> None:
    class Replacing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(5, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            replace(self.layer)
            return self.layer(x)

    model = Replacing()
    before, address = model.layer.weight.detach().clone(), model.layer.weight.data_ptr()
    with pytest.raises(CaptureError, match=r"the model replaces the data of layer\.weight") as caught:
        capture(model, (torch.randn(4, 5),))
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    assert model.layer.weight.data_ptr() == address
    assert torch.equal(model.layer.weight, before)
    model.layer.weight.data = torch.zeros(3, 5)  # outside a capture, anybody may
    assert not model.layer.weight.any()


def test_a_weight_is_not_written_to_through_numpy() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            array = self.seen.numpy()
            array += 1
            return x + torch.from_numpy(array)

    model = Counting()
    with pytest.raises(CaptureError, match=r"the model raised ValueError: .* read-only"):
        capture(model, (torch.randn(3),))
    assert not model.seen.any()
    model(torch.randn(3))
    assert model.seen.all()


def test_the_data_of_a_computed_tensor_is_not_replaced() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.data = x
        return y.data * 2

    with pytest.raises(CaptureError, match="the model replaces the data of a tensor"):
        capture(model, (torch.randn(3),))


def test_a_module_that_is_cast_to_what_it_is_stays_as_it_is() -> None:
    class Casting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(5, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.layer = self.layer.to(torch.float32).cpu()
            return self.layer(x)

    model = Casting()
    address, x = model.layer.weight.data_ptr(), torch.randn(4, 5)
    captured = capture(model, (x,))
    assert model.layer.weight.data_ptr() == address
    (found,) = interpreter.run(captured.graph, captured.flatten((x,), {}))
    assert np.allclose(found, model(x).detach())


def test_what_is_kept_on_the_model_is_told() -> None:
    captured = capture(Messy(), (torch.randn(2, 3),))
    assert any("keeps a tensor on itself as last" in note for note in captured.notes)


def normed() -> torch.nn.Sequential:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(288, 40))
    model[1].running_mean.normal_()
    return model.eval()


def vector(model: torch.nn.Module) -> torch.Tensor:
    return torch.randn(sum(parameter.numel() for parameter in model.parameters()))


CHANGES: dict[str, Callable[[torch.nn.Sequential], object]] = {
    "counted": lambda model: torch.nn.init.ones_(model[0].weight),
    "past the count": lambda model: model[0].weight.data.mul_(2),
    "numpy": lambda model: np.multiply(array := model[3].weight.detach().numpy(), 2, out=array),
    "data": lambda model: setattr(model[0].weight, "data", torch.zeros(8, 3, 3, 3)),
    "vector": lambda model: torch.nn.utils.vector_to_parameters(vector(model), model.parameters()),
    "statistics": lambda model: model[1].running_mean.add_(1),
    "double": lambda model: model.double(),
    "half": lambda model: model.half(),
    "layout": lambda model: model.to(memory_format=torch.channels_last),
    "loaded": lambda model: model.load_state_dict(normed().state_dict()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_weights_changed_after_the_capture_are_told(change: Callable[[torch.nn.Sequential], object], tmp_path: Path) -> None:
    """Also those that are folded into others: none of a file's weights may be old and others new."""
    model, x = normed(), torch.randn(1, 3, 8, 8)
    net = isthmus.compile(model, x)
    net.captured.check()
    change(model)
    for use in (lambda: net.save(tmp_path / "net.onnx"), lambda: net(x), net.verify):
        with pytest.raises(CaptureError, match=r"the weight [0-3]\.\w+ was changed since the model was captured"):
            use()
    assert not list(tmp_path.iterdir())


REPLACED: dict[str, Callable[[torch.nn.Sequential], object]] = {
    "parameter": lambda model: setattr(model[0], "weight", torch.nn.Parameter(torch.zeros(8, 3, 3, 3))),
    "assigned": lambda model: model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()}, assign=True),
    "meta": lambda model: model.to("meta"),
}


@pytest.mark.parametrize("replace", REPLACED.values(), ids=REPLACED)
def test_new_weights_in_place_of_the_old_leave_the_compiled_model(replace: Callable[[torch.nn.Sequential], object]) -> None:
    model, x = normed(), torch.randn(1, 3, 8, 8)
    net = isthmus.compile(model, x)
    expected = model(x).detach()
    replace(model)
    torch.testing.assert_close(net(x), expected)


@pytest.mark.parametrize(
    "tensor", [torch.empty(0), torch.tensor(1.0), torch.full((3,), torch.nan), torch.randn(4, 6).t(), torch.ones(3).bfloat16(),
               torch.ones(3).expand(4, 3), torch.randn(2, dtype=torch.complex64).conj(), torch.randn(9, 9)[::2, 1:]],
)  # fmt: skip
def test_what_is_not_changed_is_not_told_as_changed(tensor: torch.Tensor) -> None:
    weight = TorchWeight(tensor)
    weight.seal()
    weight.check()
    assert weight.array().shape == tensor.shape


def test_weights_are_not_copied() -> None:
    model = torch.nn.Linear(3, 2)
    captured = capture(model, (torch.randn(1, 3),))
    (weight, *_) = captured.graph.weights()
    assert weight.array().__array_interface__["data"][0] == model.weight.data_ptr()


def test_bfloat16_weights() -> None:
    model = torch.nn.Linear(3, 2, dtype=torch.bfloat16)
    captured = capture(model, (torch.randn(1, 3, dtype=torch.bfloat16),))
    for weight, parameter in zip(captured.graph.weights(), model.parameters(), strict=True):
        assert weight.dtype.name == "bf16"
        assert weight.array().astype(float).tolist() == parameter.tolist()


def test_tensors_kept_beyond_the_capture_say_so() -> None:
    kept: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x + 1

    capture(model, (torch.randn(3),), options=CaptureOptions(second_watch=False))
    with pytest.raises(CaptureError, match="meets a tensor of a capture that has ended"):
        kept[0] + 1
