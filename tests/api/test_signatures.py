"""Arguments and results as people have them: compiled, run in onnxruntime on other values, compared with the model."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune
from torch.utils import _pytree as pytree

import isthmus
from isthmus.errors import CaptureError, UnsupportedError, UsageError

T = torch.randn


def same(found: Any, wanted: Any, path: str = "result") -> None:
    """The same structure, types and values."""
    if isinstance(wanted, torch.Tensor):
        assert isinstance(found, torch.Tensor), path
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), path
        narrow = wanted.dtype in (torch.float16, torch.bfloat16)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if narrow else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(found, wanted.detach(), equal_nan=True, msg=lambda told: f"{path}: {told}", **tolerance)
        return
    assert type(found) is type(wanted), path
    if isinstance(wanted, (dict, UserDict)):
        assert list(found) == list(wanted), path
        for key, part in wanted.items():
            same(found[key], part, f"{path}[{key!r}]")
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted), path
        for index, part in enumerate(wanted):
            same(found[index], part, f"{path}[{index}]")
    elif dataclasses.is_dataclass(wanted) or isinstance(wanted, SimpleNamespace):
        for name, part in vars(wanted).items():
            same(getattr(found, name), part, f"{path}.{name}")
    else:
        assert found == wanted, path


def other(item: Any) -> Any:
    """Another tensor of the same kind; what is no tensor stays."""
    if not isinstance(item, torch.Tensor):
        return item
    if item.dtype.is_floating_point or item.dtype.is_complex:
        return torch.randn_like(item, dtype=torch.float32 if item.itemsize < 4 else None).to(item.dtype)
    return torch.randint(0, 2 if item.dtype is torch.bool else 50, item.shape).to(item.dtype)


def mapped(change: Callable[[Any], Any], call: Any) -> Any:
    """With other leaves. Torch would make a plain tuple of a size."""
    return pytree.tree_map(change, call, is_leaf=lambda item: isinstance(item, torch.Size))


def right(model: Any, args: Any, kwargs: Any = None, *calls: Any, **options: Any) -> Any:
    """The compiled model, after it gave what the model gives, in its own structure."""
    kwargs = kwargs or {}
    net: Any = isthmus.compile(model, args, kwargs, **options)
    for new_args, new_kwargs in (*calls, mapped(other, (args, kwargs))):
        theirs = mapped(lambda item: item.clone() if isinstance(item, torch.Tensor) else item, (new_args, new_kwargs))
        with torch.no_grad():
            wanted = model(*theirs[0], **theirs[1])
        same(net(*new_args, **new_kwargs), wanted)
    return net


# ---- containers

Point = namedtuple("Point", "a b")


class Typed(NamedTuple):
    a: torch.Tensor
    b: int = 3


@dataclasses.dataclass
class Box:
    left: torch.Tensor
    right: Any = None
    scale: float = 2.0


@dataclasses.dataclass(frozen=True)
class Named:
    left: torch.Tensor
    name: str = "x"


class Config(dict[str, Any]):
    """A dict whose entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Many(list[Any]):
    pass


class Mode(enum.Enum):
    ONCE = 1
    TWICE = 2


CONTAINERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "dict": (lambda d: d["a"] - d["b"], ({"a": T(3), "b": T(3)},)),
    "nested": (lambda x, r: {"y": [x + r[0]["k"], (r[1][0],)], "z": r[1][1]}, (T(3), [{"k": T(3)}, (T(2), T(4))])),
    "dataclass": (lambda box: Box(box.left * box.scale, [box.right, box.left]), (Box(T(3), T(2), 4.0),)),
    "frozen dataclass": (lambda box: Named(box.left * 2, box.name), (Named(T(3), "q"),)),
    "namedtuple": (lambda p: Point(p.b, p.a + 1), (Point(T(3), T(2)),)),
    "typed namedtuple": (lambda p: Typed(p.a * p.b, p.b), (Typed(T(3), 5),)),
    "ordered dict": (lambda d: OrderedDict(z=d["q"], a=d["p"] * 2), (OrderedDict(q=T(3), p=T(2)),)),
    "defaultdict": (lambda d: defaultdict(list, z=[d["q"] + 1]), (defaultdict(list, q=T(3)),)),
    "dict subclass": (lambda d: Config(y=d.a - d.b, n=1), (Config(a=T(3), b=T(3)),)),
    "mapping": (lambda d: UserDict(y=d["a"] * 2), (UserDict(a=T(3)),)),
    "list subclass": (lambda xs: Many([xs[1], xs[0] * 2]), (Many([T(3), T(2)]),)),
    "namespace": (lambda n: SimpleNamespace(y=n.x * n.scale), (SimpleNamespace(x=T(3), scale=3),)),
    "keys of any kind": (lambda d: {1: d[1], ("a", 2): d[("a", 2)] * 2}, ({1: T(3), ("a", 2): T(2)},)),
    "empty ones": (lambda x, e: (x * 2, [], {}, (), e), (T(3), {"a": [], "b": {}})),
    "torch's own tuple": (lambda x: torch.max(x, 1), (T(3, 4),)),
    "size": (lambda x: (x + 1, x.shape, x.shape[0], x.numel(), list(x.shape)), (T(3, 4),)),
    "size given": (lambda x, size: x.reshape(size.numel()), (T(3, 4), torch.Size((3, 4)))),
    "list that is filled": (lambda xs: (xs.append(xs[0] + 1), xs)[1], ([T(3)],)),
    "dict that is emptied": (lambda d: d.update(b=d.pop("a") * 2) or d, ({"a": T(3)},)),
    "numbers, texts and None": (
        lambda x, n, f, flag, s, none: ((x * n + f) if flag else x, n, f, flag, s, none), (T(3), 2, 0.5, True, "mode", None),
    ),
    "texts inside": (
        lambda d: {"y": d["x"] * 2 if d["mode"] == "double" else d["x"], "n": (1, "a", None, True, 2.5, 3j, b"b")},
        ({"mode": "double", "x": T(3)},),
    ),
    "torch's words": (lambda x, to: (x.to(to), to, x.device, x.layout), (T(3), torch.float64)),
    "enum": (lambda x, mode: (x * 2 if mode is Mode.TWICE else x, mode), (T(3), Mode.TWICE)),
    "slices": (lambda x, at: x[at], (T(3, 4), (slice(1, None), Ellipsis))),
    "function": (lambda x, f: f(x), (T(3), torch.relu)),
    "nan": (lambda x, n: x + (0 if n != n else n), (T(3), float("nan"))),
    "numpy's number": (lambda x, n: x * float(n), (T(3), np.float32(3))),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name: str) -> None:
    model, args = CONTAINERS[name]
    right(model, args)


def test_a_models_own_output_class() -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")

    def model(x: torch.Tensor, o: Any) -> Any:
        return outputs.BaseModelOutputWithPast(last_hidden_state=x + o.last_hidden_state, hidden_states=(x, x * 2))

    right(model, (T(3), outputs.BaseModelOutputWithPast(last_hidden_state=T(3))))


@pytest.mark.parametrize(("example", "given"), [(2, 2.0), (True, 1), ("a", "b"), (None, 3), (2, np.int64(2))])
def test_what_is_no_tensor_must_be_what_it_was(example: Any, given: Any) -> None:
    """A float in an integer's place makes another element type."""
    net: Any = isthmus.compile(lambda x, n: x if n is None or isinstance(n, str) else x * n, (torch.arange(3), example))
    with pytest.raises(UsageError, match="differs from the example's"):
        net(torch.arange(3), given)


class Opaque:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def test_tensors_that_nobody_looks_for() -> None:
    with pytest.raises(UsageError, match=r"is a Opaque, whose tensors are not looked into(.|\n)*found: \.x"):
        isthmus.compile(lambda o: o.x * 2, (Opaque(T(3)),))


@pytest.mark.parametrize(("result", "told"), [
    (lambda x: Opaque(x), "a Opaque"), (lambda x: {x}, "a set"), (lambda x: (y for y in [x]), "a generator"),
    (lambda x: [x, object()], "a object"),
])  # fmt: skip
def test_results_that_cannot_be_given_back(result: Any, told: str) -> None:
    with pytest.raises(CaptureError, match=f"the model returns {told}, which is not a tensor"):
        isthmus.compile(result, T(3))


def test_sizes_among_the_results() -> None:
    def model(x: torch.Tensor) -> Any:
        return x * 2, x.shape, x.shape[0], x.numel(), x.shape[0] / 2, x.dtype, x.shape[0] > 1

    net = right(model, (T(3, 4),), dynamic_shapes=[{0: "N"}])
    _, shape, size, count, half, dtype, many = net(T(5, 4))
    assert many is True
    assert (shape, size, count, half, dtype) == ((5, 4), 5, 20, 2.5, torch.float32)
    assert isinstance(shape, torch.Size)


# ---- the same tensor, views and writes


def written(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1)


def by_parts(x: torch.Tensor) -> Any:
    x[0] = 5
    x[:, 1].mul_(3)
    return x, x.sum()


def copied(x: torch.Tensor) -> Any:
    y = x.t().contiguous().add_(1)
    return x, y


def turned(x: torch.Tensor) -> Any:
    y = x.T.reshape(-1)
    y.mul_(2)
    return x * 1, y


def viewed(x: torch.Tensor) -> Any:
    y = x.reshape(-1)
    y[2:5] = 7
    return x * 1, y


def twice(x: torch.Tensor) -> Any:
    y = x + 1
    return y, y, [y, x, x], {"again": y.view(-1)}


SHARING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "inputs returned": (lambda a, b: (b, a), (T(3), T(2))),
    "views of an input": (lambda a: (a.t(), a[0], a.view(-1), a[:, None], a, a.expand(2, 3, 4)), (T(3, 4),)),
    "one result often": (twice, (T(3, 4),)),
    "write": (written, (T(3),)),
    "writes to parts": (by_parts, (T(3, 4),)),
    "a contiguous copy is another tensor": (copied, (T(3, 4),)),
    "unless it is none": (copied, (T(1, 4),)),
    "a reshape that copies": (turned, (T(3, 4),)),
    "a reshape that does not": (viewed, (T(3, 4),)),
    "unused": (lambda a, b, c: a * 2, (T(3), T(2), torch.tensor([1]))),
    "unused in a dict": (lambda d: d["a"] * 2, ({"a": T(3), "u": T(2)},)),
}


@pytest.mark.parametrize("name", SHARING)
def test_sharing(name: str) -> None:
    model, args = SHARING[name]
    net = right(model, args)
    assert len(net.input_names) == sum(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(args))
    assert len(net.artefact.model.graph.input) == len(net.input_names), "unused ones are kept"
    assert net.verify().ok


def test_one_tensor_for_two_arguments() -> None:
    x = T(3)
    net = right(lambda a, b: a - 2 * b, (x, x), None, ((T(3), T(3)), {}))
    assert net.input_names == ["a", "b"]


def test_a_write_to_one_of_two_inputs_with_one_memory() -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * 2

    base = T(4)
    for args in ((base, base), (base[:3], base[1:])):
        with pytest.raises(CaptureError, match=r"writes to the input a, which shares its memory with the input b"):
            isthmus.compile(model, args)
    right(model, (T(3), T(3)))


def test_a_write_to_what_may_be_a_view() -> None:
    """Of an input that is not contiguous in the example, nobody knows whether it will be in a call."""

    def model(x: torch.Tensor) -> Any:
        y = x.contiguous()
        y.add_(1)
        return x * 2, y

    with pytest.raises(UnsupportedError, match=r"contiguous at .* made either a view or a copy"):
        isthmus.compile(model, T(3, 4).t())
    right(model, (T(3, 4),))
    right(lambda x: x.contiguous().view(-1) + 1, (T(3, 4).t(),))


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


# ---- element types and sizes

DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
    torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_element_types(dtype: torch.dtype) -> None:
    x, y = (other(torch.zeros(3, 4, dtype=dtype)) for _ in range(2))
    right(lambda x, y: (x, x.reshape(-1), torch.stack([y, x]), y.t()), (x, y))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_layers_of_other_floats(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.LayerNorm(5), nn.Softmax(-1)).to(dtype).eval()
    right(model, (T(2, 4).to(dtype),))


@pytest.mark.parametrize("opset", [9, 18])
def test_the_error_function_of_doubles(opset: int) -> None:
    x = torch.cat([torch.linspace(-7, 7, 1001).double(), torch.tensor([torch.inf, -torch.inf, torch.nan, 1e-300]).double()])
    net: Any = isthmus.compile(torch.erf, x, opset=opset)
    torch.testing.assert_close(net(x), torch.erf(x), rtol=1e-15, atol=0, equal_nan=True)


def test_numbers_as_tensors() -> None:
    right(lambda a, b: (a * b, a.sum(), b.reshape(1), a.expand(2), a[None]), (torch.tensor(2.0), torch.tensor(3)))


def test_empty_tensors() -> None:
    right(lambda a, b: (torch.cat([a, b]), a * 2, a.sum(), a.reshape(0, 2, 2), a.any(0)), (T(0, 4), T(3, 4)))


# ---- signatures


class Only(nn.Module):
    def forward(self, x: torch.Tensor, *, scale: torch.Tensor, bias: Any = None) -> torch.Tensor:
        return x * scale if bias is None else x * scale + bias


class Any_(nn.Module):
    def forward(self, *xs: torch.Tensor, **named: torch.Tensor) -> Any:
        return sum(xs) * named["k"], [named[name] for name in sorted(named)]


def positional(x: torch.Tensor, /, y: torch.Tensor, *, z: torch.Tensor) -> torch.Tensor:
    return x * y - z


def defaults(x: torch.Tensor, n: int = 2, mode: str = "a", w: Any = None) -> torch.Tensor:
    return x * n if mode == "a" else x


def difference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x - y


SIGNATURES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], list[Any]]] = {
    "by keyword only": (
        Only(), (T(3),), {"scale": T(3)}, [((), {"scale": T(3), "x": T(3)}), ((T(3),), {"scale": T(3), "bias": None})],
    ),
    "any": (Any_(), (T(3), T(3)), {"k": T(3), "a": T(2)}, [((T(3), T(3)), {"a": T(2), "k": T(3)})]),
    "by position only": (positional, (T(3), T(3)), {"z": T(3)}, [((T(3),), {"z": T(3), "y": T(3)})]),
    "defaults": (defaults, (T(3),), {}, [((T(3), 2), {}), ((T(3),), {"mode": "a"}), ((T(3), 2, "a", None), {})]),
    "all by keyword": (difference, (), {"y": T(3), "x": T(3)}, [((T(3), T(3)), {}), ((T(3),), {"y": T(3)})]),
    "left out": (lambda x, m=None: x if m is None else x * m, (T(3), None), {}, [((T(3),), {})]),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    model, args, kwargs, calls = SIGNATURES[name]
    right(model, args, kwargs, *calls)


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


# ---- tensors that are no plain ones


class Tagged(torch.Tensor):
    pass


class Odd(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, x: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)  # type: ignore[attr-defined]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


def in_inference(made: Callable[[], Any]) -> Any:
    with torch.inference_mode():
        return made()


INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "requires a gradient": lambda: T(3).requires_grad_(),
    "has a gradient's function": lambda: T(3).requires_grad_() * 2,
    "inference": lambda: in_inference(lambda: T(3)),
    "parameter": lambda: nn.Parameter(T(3)),
    "class without ways of its own": lambda: T(3).as_subclass(Tagged),
    "turned": lambda: T(2, 3).t()[:, 0],
    "expanded": lambda: T(1).expand(3),
    "conjugate's part": lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
}


@pytest.mark.parametrize("name", INPUTS)
def test_tensors_of_all_kinds(name: str) -> None:
    made = INPUTS[name]
    net: Any = isthmus.compile(lambda x: x * 2 + 1, made())
    x = made()
    same(net(x), (x * 2 + 1).as_subclass(torch.Tensor))


def test_weights_made_for_inference() -> None:
    right(in_inference(lambda: nn.Linear(3, 4)), (T(3),))


NO_INPUTS: list[tuple[Callable[[], torch.Tensor], str]] = [
    (lambda: torch.eye(3).to_sparse(), r"found: a sparse_coo one\n  remedy: give x\.to_dense"),
    (lambda: torch.eye(4).to_sparse_csr(), "found: a sparse_csr one"),
    (lambda: torch.quantize_per_tensor(T(3), 0.1, 0, torch.qint8), r"found: a quantized one\n  remedy: give x\.dequantize"),
    (lambda: torch.nested.nested_tensor([T(2), T(3)]), "found: a nested one"),
    (lambda: torch.nested.nested_tensor([T(2), T(3)], layout=torch.jagged), "found: a nested one"),
    (lambda: T(3).as_subclass(Odd), r"found: a Odd, which computes in its own way(.|\n)*as_subclass"),
    (lambda: Wrapper(T(3)), "found: a Wrapper, which computes in its own way"),
]


@pytest.mark.filterwarnings("ignore:.*(nested|Sparse|quantize).*")
@pytest.mark.parametrize(("made", "told"), NO_INPUTS)
def test_tensors_that_are_refused(made: Callable[[], torch.Tensor], told: str) -> None:
    with pytest.raises(UsageError, match=f"the input x must be a dense tensor\n  {told}"):
        isthmus.compile(lambda x: x, made())
    net: Any = isthmus.compile(lambda x: x, T(3))
    with pytest.raises(UsageError, match=f"the input x must be a dense tensor\n  {told}"):
        net(made())


def test_a_sparse_weight_is_refused() -> None:
    layer = nn.Module()
    layer.register_buffer("s", torch.eye(3).to_sparse())
    layer.forward = lambda x: torch.sparse.mm(layer.s, x)  # type: ignore[assignment]
    with pytest.raises(UnsupportedError, match=r"a tensor s of layout torch\.sparse_coo"):
        isthmus.compile(layer, T(3, 3))


# ---- what stands for tensors


def test_arrays_of_numpy() -> None:
    net: Any = isthmus.compile(nn.Linear(3, 4).eval(), np.ones((2, 3), np.float32), dynamic_shapes=[{0: "N"}])
    assert net.verify().ok
    assert net(np.ones((5, 3), np.float32)).shape == (5, 4)
    assert net(T(1, 3)).shape == (1, 4)


def test_specs() -> None:
    net: Any = isthmus.compile(lambda x, d: x @ d["y"], (isthmus.spec("f32[N,3]"), {"y": isthmus.spec("f32[3,4]")}))
    x, y = T(5, 3), T(3, 4)
    same(net(x, {"y": y}), x @ y)


@pytest.mark.parametrize("made", [
    lambda: torch.ones(3, 4, device="meta"),
    lambda: torch._subclasses.FakeTensorMode().from_tensor(T(3, 4)),  # type: ignore[attr-defined]
])  # fmt: skip
def test_examples_without_content(made: Callable[[], torch.Tensor]) -> None:
    net: Any = isthmus.compile(lambda x: x * 2, made())
    same(net(x := T(3, 4)), x * 2)
