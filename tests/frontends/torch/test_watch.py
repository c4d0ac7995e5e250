"""Whole modules, control flow, modules kept whole, and where nodes come from."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from watching import agree

from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.ir.errors import UnsupportedError


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
        self.b = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.b(self.a(x))
        y += x
        return F.relu_(y)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, 2, 1)
        self.mid = Residual(4)
        self.up = nn.ConvTranspose2d(4, 3, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mid(F.max_pool2d(self.down(x), 2))
        y = F.interpolate(y, scale_factor=2, mode="nearest")
        y = self.up(y)
        return torch.cat([y, F.pad(x, (0, y.shape[3] - x.shape[3], 0, y.shape[2] - x.shape[2]))], 1)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.position = nn.Parameter(torch.randn(1, 64, 8))
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False
        )
        self.head = nn.Linear(8, 20)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.position[:, : ids.shape[1]]
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        return self.head(self.encoder(x, mask=mask)).softmax(-1)


def attention(x: torch.Tensor) -> Any:
    b, n, c = x.shape
    q, k, v = x.reshape(b, n, 2, c // 2).transpose(1, 2).repeat(1, 1, 1, 3).chunk(3, -1)
    plain = (q @ k.transpose(-2, -1) * (c // 2) ** -0.5).softmax(-1) @ v
    return plain, F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, c)


def einsums(x: torch.Tensor) -> Any:
    return torch.einsum("bnc,bmc->bnm", x, x), torch.einsum("bnc->bcn", x).flatten(1)


def windows(x: torch.Tensor) -> Any:
    x = F.pad(x, (0, 0, 0, -x.shape[1] % 4))
    b, n, c = x.shape
    return torch.roll(x.view(b, n // 4, 4, c).permute(0, 2, 1, 3).reshape(b * 4, n // 4, c), 1, 1)


CASES: list[tuple[str, Callable[[], Any], tuple[Any, ...], Any, list[dict[str, int]]]] = [
    (
        "mlp",
        lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(), nn.LayerNorm(8)),
        (torch.randn(2, 4),),
        ({0: "N"},),
        [{"N": 5}],
    ),
    ("residual", lambda: Residual(3), (torch.randn(2, 3, 8, 8),), ({0: "N", 2: "H", 3: "W"},), [{"N": 1, "H": 5, "W": 9}]),
    ("unet", UNet, (torch.randn(2, 3, 16, 16),), ({0: "N", 2: "H", 3: "W"},), [{"N": 1, "H": 32, "W": 24}]),
    ("tokens", Tokens, (torch.randint(0, 20, (2, 7)),), ({0: "N", 1: "S"},), [{"N": 3, "S": 11}]),
    ("attention", lambda: attention, (torch.randn(2, 5, 8),), ({0: "N", 1: "S"},), [{"N": 3, "S": 9}]),
    ("einsums", lambda: einsums, (torch.randn(2, 5, 8),), ({0: "N", 1: "S"},), [{"N": 3, "S": 9}]),
    ("windows", lambda: windows, (torch.randn(2, 6, 3),), ({0: "N", 1: "S"},), [{"N": 3, "S": 13}]),
    ("vmap", lambda: torch.vmap(lambda x: x * 2 + x.sum()), (torch.randn(3, 4),), ({0: "N"},), [{"N": 5}]),
    (
        "conv1d",
        lambda: nn.Conv1d(3, 4, 3, stride=2, groups=1),
        (torch.randn(2, 3, 9),),
        ({0: "N", 2: "T"},),
        [{"N": 3, "T": 20}],
    ),
]


@pytest.mark.parametrize(("make", "args", "dynamic", "sizes"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_module(make: Callable[[], Any], args: tuple[Any, ...], dynamic: Any, sizes: list[dict[str, int]]) -> None:
    torch.manual_seed(0)
    model = make()
    if isinstance(model, nn.Module):
        model.eval()
    agree(model, args, dynamic=dynamic, sizes=sizes, tolerance=1e-4)
    agree(model, args, tolerance=1e-4)


def test_composites_arrive_whole() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    captured = capture(model, (torch.randn(2, 5, 8),))
    names = [node.op.name for node in captured.graph.nodes]
    assert names.count("attention") == 1
    assert names.count("layer_norm") == 2
    assert names.count("linear") == 4


def test_locations() -> None:
    captured = capture(UNet().eval(), (torch.randn(1, 3, 16, 16),))
    places = {node.op.name: node.location for node in captured.graph.nodes if node.op.name != "constant"}
    assert places["batch_norm"].module == "mid.a.1"
    assert places["concat"].module == ""
    assert places["concat"].file == __file__
    assert places["concat"].function == "forward"
    assert places["concat"].line == UNet.forward.__code__.co_firstlineno + 4
    assert places["conv_transpose"].line == UNet.forward.__code__.co_firstlineno + 3


@pytest.mark.parametrize("word", ["Residual", "mid", Residual])
def test_modules_kept_whole(word: Any) -> None:
    captured = agree(UNet().eval(), (torch.randn(1, 3, 16, 16),), dynamic=({0: "N"},), tolerance=1e-4, coarse=(word,))
    (node,) = [node for node in captured.graph.nodes if node.op.name == "composite"]
    assert node.attrs["name"] == "Residual"
    assert not list(node.regions[0].captured())


def branches(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: (x + 1, x.sum()), lambda x: (x * 2, x.mean() + 0), (x,))


def turns(x: torch.Tensor, n: torch.Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 2 + i), (torch.zeros((), dtype=torch.int64), x))


def scanned(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.scan import scan

    return scan(lambda total, row: (total + row, total * row), torch.zeros(x.shape[1]), x)


def mapped(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.map import map as each

    return each(lambda row, y: row * 2 + y, x, x.sum(0))


@pytest.mark.parametrize(
    ("function", "args", "op"),
    [
        (branches, (torch.randn(3, 4),), "if"),
        (turns, (torch.randn(3), torch.tensor(4)), "loop"),
        (scanned, (torch.randn(5, 3),), "loop"),
        (mapped, (torch.randn(5, 3),), "loop"),
    ],
)
def test_control_flow(function: Callable[..., Any], args: tuple[Any, ...], op: str) -> None:
    captured = agree(function, args, sizes=[{}, {}])
    assert [node.op.name for node in captured.graph.nodes].count(op) == 1


def test_views_taken_anew_inside_a_branch_stay_there() -> None:
    def model(x: torch.Tensor) -> Any:
        y = x + 0
        row = y[0]
        y.add_(1)
        inside = torch.cond(x.sum() > 0, lambda r: r + 1, lambda r: r - 1, (row,))
        return inside, row * 2

    agree(model, (torch.randn(3, 4),), sizes=[{}, {}])


def test_writes_from_inside_a_branch_are_refused() -> None:
    def model(x: torch.Tensor) -> Any:
        y = x + 0
        torch.cond(x.sum() > 0, lambda y: y.add_(1) + 0, lambda y: y + 0, (y,))
        return y

    with pytest.raises(UnsupportedError, match="writes to a tensor from outside"):
        capture(model, (torch.randn(3),))


def test_export_flags() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        flags = torch.compiler.is_exporting() and torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()
        return x + 1 if flags else x + 2

    agree_no = capture(model, (torch.randn(3),))
    assert [float(weight.array()) for weight in agree_no.graph.weights()] == [1.0]


def test_compiled_and_not_exported() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() and not torch.compiler.is_exporting() else x + 2

    captured = capture(model, (torch.randn(3),), options=CaptureOptions(export_flags="compiled"))
    assert [float(weight.array()) for weight in captured.graph.weights()] == [1.0]


@pytest.mark.parametrize("mode", ["generic", "pointwise"])
@pytest.mark.parametrize("dynamic", [None, {"x": {1: "S"}, "y": {1: "S"}}], ids=["static", "dynamic"])
def test_associative_scan(mode: str, dynamic: Any) -> None:
    from torch._higher_order_ops.associative_scan import associative_scan

    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        pairs = associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x, y), 1, combine_mode=mode)
        return pairs, associative_scan(lambda a, b: a + b, x, 0, reverse=True, combine_mode=mode)

    sizes = [{"S": 1}, {"S": 9}] if dynamic else []
    captured = agree(model, (torch.randn(3, 5), torch.randn(3, 5)), dynamic=dynamic, sizes=sizes)
    assert any(node.op.name == "loop" for node in captured.graph.nodes) == (dynamic is not None or mode == "pointwise")


def test_autocast_and_checkpoint_and_inference_mode() -> None:
    layer = nn.Linear(4, 4)

    def model(x: torch.Tensor) -> Any:
        with torch.inference_mode():
            y = layer(x)
        z = torch.utils.checkpoint.checkpoint(layer, y, use_reentrant=False)
        with torch.autocast("cpu", torch.bfloat16):
            w = x @ x.T
        return z, w

    captured = capture(model, (torch.randn(2, 4),))
    assert [str(value.tensor.dtype) for value in captured.graph.outputs] == ["f32", "bf16"]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x


@torch.jit.script
def scripted_straight(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: Square.apply(x) + 1,
        lambda x: scripted_straight(x),
        lambda x: copy.deepcopy(x) + 1,
        lambda x: torch.nn.functional.one_hot(x.argmax(1), 4) + torch.tensor([[1, 2], [3, 4]]).sum(),
        lambda x: x.where(x > 0, torch.zeros(())).nonzero(),
        lambda x: {"b": x, "a": [x + 1, (x, None)]},
    ],
    ids=["autograd.Function", "script", "deepcopy", "constants", "nonzero", "structure"],
)
def test_corners(function: Callable[[torch.Tensor], Any]) -> None:
    agree(function, (torch.randn(3, 4),), dynamic=({0: "N"},), sizes=[{"N": 6}])


def test_caches_that_outlive_a_call() -> None:
    @functools.lru_cache
    def positions(n: int) -> torch.Tensor:
        return torch.arange(n) * 2

    def model(x: torch.Tensor) -> torch.Tensor:
        return x + positions(x.shape[0])

    for _ in range(2):  # the second time the cache holds a tensor of the first capture
        agree(model, (torch.randn(3),))
    torch.testing.assert_close(model(torch.zeros(3)), torch.tensor([0.0, 2.0, 4.0]))


def test_an_op_that_has_to_do_with_no_tensor_is_run_as_it_is() -> None:
    versions: list[int] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        versions.append(torch.ops.torchvision._cuda_version())  # as torchvision does when it is imported
        return x + 1

    import torchvision  # noqa: F401

    capture(model, (torch.ones(2),))
    assert versions
    assert versions[0] == torch.ops.torchvision._cuda_version()
