"""Arguments and results as people have them: compiled, run in onnxruntime on other values, compared with the model."""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from signatures import T, other, right, same
from torch import nn

import isthmus
from isthmus.errors import CaptureError, UsageError

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
