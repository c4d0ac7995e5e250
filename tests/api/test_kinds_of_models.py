"""Models of all kinds: with weights of any kind, not quite modules, dressed with hooks, in training."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from signatures import T, right, same
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

import isthmus
from isthmus.errors import UsageError

# ---- weights


class Weights(nn.Module):
    """Tied, not contiguous, expanded and overlapping."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        self.turned = nn.Parameter(T(7, 7).t())
        self.conv = nn.Conv2d(1, 2, 2).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        base = T(9)
        for name, part in {"low": base[:7], "high": base[2:], "square": base.view(3, 3), "some": base[::3]}.items():
            self.register_buffer(name, part)
        self.register_buffer("wide", T(1).expand(7))

    def forward(self, i: torch.Tensor) -> Any:
        y = self.head(self.embed(i % 7)) @ self.turned + self.low + self.high * self.wide
        return y, self.square @ self.some, self.conv(y[None, None]).mean()


def test_weights_of_all_kinds() -> None:
    net = right(Weights(), (torch.tensor([1, 2, 6]),), None, ((torch.tensor([0, 0, 3]),), {}))
    names = [each.name for each in net.artefact.model.graph.initializer]
    assert sum("embed" in name or "head" in name for name in names) <= 2, "the tied one is there once, or once turned"


class Returned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(T(3))
        self.register_buffer("b", torch.arange(3))

    def forward(self, x: torch.Tensor | None = None) -> Any:
        return (self.w, self.b, self.w[1:]) if x is None else (x + self.w, self.w, self.b, self.w.view(3, 1))


@pytest.mark.parametrize("args", [(), (T(3),)])
def test_weights_returned(args: Any) -> None:
    right(Returned(), args)


class Graded(nn.Module):
    """Sets what a training run would read."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(T(3))
        self.v = nn.Parameter(T(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.w.requires_grad_(False)
        self.w.grad = None
        self.v.grad = x * 2
        return x * self.w + self.v


def test_gradients_are_as_before() -> None:
    model = Graded()
    model.w.grad = gradient = T(3)
    net = isthmus.compile(model, T(3), dynamic_shapes=[{0: torch.export.Dim.AUTO}])
    assert net.verify().ok
    assert model.w.requires_grad
    assert model.w.grad is gradient
    assert model.v.grad is None


# ---- models that are no plain modules


class Plain:
    """No module, and holds some."""

    w = T(3)

    def __init__(self) -> None:
        self.layer = nn.Linear(3, 3)
        self.more = [nn.Linear(3, 3)]

    def __call__(self, x: torch.Tensor, n: int = 2) -> torch.Tensor:
        return self.more[0](self.layer(x)) * n

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return self.w * self.layer(x)

    @staticmethod
    def static(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.w


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * 2

    def forward(self, x: torch.Tensor, mode: str = "a") -> torch.Tensor:
        return self.layer(x) if mode == "b" else x


LAYER = nn.Linear(3, 3)


def over_a_global(x: torch.Tensor) -> torch.Tensor:
    return LAYER(x)


def closed() -> Any:
    inner = nn.Linear(3, 3)

    def function(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    @functools.wraps(function)
    def wrapped(*args: torch.Tensor) -> torch.Tensor:
        return function(*args) + 1

    return wrapped


MODELS: dict[str, tuple[Any, set[str]]] = {
    "method": (Two().encode, {"layer.weight", "layer.bias"}),
    "partial of a module": (functools.partial(Two(), mode="b"), {"layer.weight", "layer.bias"}),
    "partial of a method": (functools.partial(Two().encode), {"layer.weight", "layer.bias"}),
    "partial of a function": (functools.partial(lambda f, x, k: f(x) * k, nn.Linear(3, 3), k=3), {"0.weight", "0.bias"}),
    "partial of a partial": (functools.partial(functools.partial(torch.add, alpha=2), T(3)), set()),
    "object": (Plain(), {"layer.weight", "layer.bias", "more.0.weight", "more.0.bias"}),
    "object's method": (Plain().method, {"layer.weight", "layer.bias"}),
    "static method": (Plain.static, set()),
    "class method": (Plain.of_class, set()),
    "builtin": (torch.sigmoid, set()),
    "lambda": (lambda x: LAYER(x) * 2, {"LAYER.weight", "LAYER.bias"}),
    "function over a global": (over_a_global, {"LAYER.weight", "LAYER.bias"}),
    "closure": (closed(), {"inner.weight", "inner.bias"}),
    "sequence": (nn.Sequential(OrderedDict(a=nn.Linear(3, 4), b=nn.Tanh())), {"a.weight", "a.bias"}),
    "data parallel": (nn.DataParallel(nn.Linear(3, 4)), {"module.weight", "module.bias"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    model, names = MODELS[name]
    net = right(model, (T(3),))
    assert {weight.name for weight in net.captured.weights} == names
    assert net.verify().ok


def test_functions_leave_the_modules_that_they_hold() -> None:
    norm = nn.BatchNorm1d(3)
    mean = norm.running_mean
    for model in (lambda x: norm(x), functools.partial(lambda layer, x: layer(x), norm), functools.partial(norm)):
        net: Any = isthmus.compile(model, T(4, 3), dynamic_shapes=[{0: "N"}])
        assert net.verify().ok
        assert norm.running_mean is mean
        assert norm.num_batches_tracked == 0
        assert torch.equal(norm.running_mean, torch.zeros(3))  # type: ignore[arg-type]
        assert any("the model writes to" in note for note in net.report.notes)


def test_objects_are_left_as_they_were() -> None:
    class Keeping:
        kept: Any = None

        def __init__(self) -> None:
            self.calls = 0
            self.log: list[Any] = []

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.kept = x * 2
            self.log.append(self.kept)
            return self.kept + 1

        def method(self, x: torch.Tensor) -> torch.Tensor:
            return self(x)

    thing = Keeping()
    for model in (thing, thing.method, functools.partial(thing)):
        net = isthmus.compile(model, T(3), dynamic_shapes=[{0: "N"}])
        assert net.verify().ok
        assert (thing.calls, thing.kept, thing.log) == (0, None, [])


def test_no_model() -> None:
    for thing in (Plain, nn.Linear, 3, None, [nn.Linear(3, 3)]):
        with pytest.raises(UsageError, match="takes no such model"):
            isthmus.compile(thing, T(3))


# ---- hooks, parametrizations, wrappers


def forward_hooks() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    model[0].register_forward_hook(lambda module, args, out: out * 3)
    model.register_forward_hook(lambda module, args, out: {"y": out, "n": None})
    model[1].register_full_backward_hook(lambda *_: None)
    return model


def pre_hooks() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    model[0].register_forward_pre_hook(lambda module, args, kwargs: ((args[0] + 1,), kwargs), with_kwargs=True)
    return model


class Second(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


def another_signature() -> nn.Module:
    model = Second()
    model.register_forward_pre_hook(lambda module, args: (args[0], args[0] * 2))
    return model


def pruned() -> nn.Module:
    model = nn.Linear(3, 4)
    prune.l1_unstructured(model, "weight", 0.5)
    return model


def lazy() -> nn.Module:
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    model(T(2, 3))
    return model


DRESSED: dict[str, Callable[[], nn.Module]] = {
    "forward hooks": forward_hooks,
    "hooks before": pre_hooks,
    "a hook that changes the arguments": another_signature,
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(3, 4)),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(3, 4)).eval(),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(3, 3)),
    "older weight norm": lambda: nn.utils.weight_norm(nn.Linear(3, 4)),
    "older spectral norm": lambda: nn.utils.spectral_norm(nn.Linear(3, 4)).eval(),
    "pruned": pruned,
    "lazy": lazy,
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", DRESSED)
def test_dressed_modules(name: str) -> None:
    model = DRESSED[name]()
    net = right(model, (T(2, 3),))
    assert net.verify().ok
    with torch.no_grad():
        same(net(x := T(2, 3)), model(x))


def test_lazy_modules_that_have_not_run() -> None:
    with pytest.raises(UsageError, match=r"parameters without a shape: 0\.weight\n  remedy: run it once"):
        isthmus.compile(nn.Sequential(nn.LazyLinear(4)), T(2, 3))


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


@pytest.mark.parametrize("kind", ["module", "function", "inside", "by its method"])
def test_what_torch_compile_has_compiled(kind: str) -> None:
    """It runs plainly: neither the capture nor the comparison waits for another compiler."""
    model: Any
    if kind == "by its method":
        model = nn.Sequential(nn.Linear(3, 4))
        model.compile()
    elif kind == "inside":
        inner, layer = torch.compile(doubled), torch.compile(nn.Linear(3, 4))
        model = lambda x: inner(layer(x)) + 1  # noqa: E731
    else:
        model = torch.compile(nn.Linear(3, 4) if kind == "module" else doubled)
    net = isthmus.compile(model, T(2, 3), dynamic_shapes=[{0: "N"}])
    assert net.verify().ok
    assert not any("_orig_mod" in weight.name for weight in net.captured.weights)
    with torch.compiler.set_stance("force_eager"), torch.no_grad():
        same(net(x := T(5, 3)), model(x))


# ---- training


def test_dropout_in_training_is_drawn_anew() -> None:
    net: Any = isthmus.compile(nn.Sequential(nn.Identity(), nn.Dropout(0.5)).train(), torch.ones(64, 64))
    (note,) = net.report.notes
    assert note.endswith("in each run of the graph, at (1); in eval mode, layers such as dropout draw none")
    first, second = net(torch.ones(64, 64)), net(torch.ones(64, 64))
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(first, second)
    assert net.verify().ok


def test_layers_that_draw_are_told_but_not_all() -> None:
    model = nn.Sequential(*(nn.Dropout(0.5) for _ in range(5)))
    (note,) = isthmus.compile(model, T(3)).report.notes
    assert "at (0), (1), (2) and 2 more places; in eval mode" in note
    (note,) = isthmus.compile(lambda x: x + torch.rand(3), T(3)).report.notes
    assert note.startswith("random numbers are drawn anew in each run of the graph, at ")
    assert "eval" not in note


def test_a_batch_norm_in_training_takes_the_batch() -> None:
    model = nn.BatchNorm1d(3).train()
    net = isthmus.compile(model, T(4, 3), dynamic_shapes=[{0: "N"}])
    names = "num_batches_tracked, running_mean, running_var"
    assert net.report.notes == [f"the model writes to {names}; the graph computes with the new values and does not keep them"]
    same(net(x := T(7, 3)), F.batch_norm(x, None, None, model.weight, model.bias, training=True))
