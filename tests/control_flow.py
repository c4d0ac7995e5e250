"""Programs with branches and loops: `torch.cond`, `while_loop`, `scan`, `map`, `associative_scan`, in one another.

Each is a model, the example that it is compiled with, and other calls: both branches, other numbers of turns, other sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as each
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

N = {0: "N"}


@dataclass(frozen=True)
class Program:
    """A model and its calls, the first of which is the example.

    Attributes:
        dynamic: which sizes vary, an entry an argument.
        tolerance: how far floats may be apart.
    """

    model: Callable[..., Any]
    calls: tuple[tuple[Tensor, ...], ...]
    dynamic: tuple[dict[int, str] | None, ...] | None = None
    tolerance: float = 1e-4

    def plainly(self) -> list[Any]:
        """What the calls give where the operators are loops and branches of Python's."""
        with torch.no_grad(), patch.object(torch, "cond", _cond), patch.dict(globals(), _PLAIN):
            return [self.model(*call) for call in self.calls]


def _cond(predicate: Any, then: Any, other: Any, operands: Any = ()) -> Any:
    return (then if predicate else other)(*operands)


def _while_loop(test: Any, body: Any, carried: Any) -> Any:
    structure = pytree.tree_structure(body(*carried))
    while test(*carried):
        carried = body(*carried)
    return pytree.tree_unflatten(pytree.tree_leaves(carried), structure)


def _scan(step: Any, init: Any, xs: Any, dim: int = 0, reverse: bool = False, length: int | None = None) -> Any:
    leaves, structure = pytree.tree_flatten(xs)
    slices = [leaf.unbind(dim) for leaf in leaves if leaf is not None]
    turns = [pytree.tree_unflatten(rows, structure) for rows in zip(*slices, strict=True)] or [xs] * (length or 0)
    found = []
    for turn in reversed(turns) if reverse else turns:
        init, out = step(init, turn)
        found.append(out)
    if turns:
        return init, _stacked(found[::-1] if reverse else found, dim)
    one = step(init, pytree.tree_unflatten([leaf.new_zeros(leaf.shape[1:]) for leaf in leaves], structure))[1]
    return init, pytree.tree_map(lambda leaf: leaf.new_empty(0, *leaf.shape), one)


def _stacked(found: list[Any], dim: int = 0) -> Any:
    def stack(*parts: Any) -> Any:
        return None if parts[0] is None else torch.stack(parts, min(dim, parts[0].dim()) if dim >= 0 else dim)

    return pytree.tree_map(stack, *found)


def _each(function: Any, xs: Any, *args: Any) -> Any:
    return _scan(lambda _, x: (None, function(x, *args)), None, xs)[1]


def _associative_scan(combine: Any, xs: Any, dim: int, reverse: bool = False, combine_mode: str = "") -> Any:
    leaves, structure = pytree.tree_flatten(xs)
    rows = [pytree.tree_unflatten(parts, structure) for parts in zip(*(leaf.unbind(dim) for leaf in leaves), strict=True)]
    found = list(accumulate(rows[::-1] if reverse else rows, combine))
    return _stacked(found[::-1] if reverse else found, dim)


_PLAIN = {"while_loop": _while_loop, "scan": _scan, "each": _each, "associative_scan": _associative_scan}

PROGRAMS: dict[str, Program] = {}
_generator = torch.Generator().manual_seed(0)


def r(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=_generator)


def n(number: int) -> Tensor:
    return torch.tensor(number)


def signs(*shape: int) -> tuple[tuple[Tensor], ...]:
    """Calls that go into either branch of a test for positive sums."""
    return (r(*shape).abs(),), (r(*shape).abs(),), (-r(*shape).abs(),)


def program(*calls: tuple[Tensor, ...], dynamic: Any = None, **more: Any) -> Callable[[Any], Any]:
    def add(model: Any) -> Any:
        name = model.__name__.lower()
        if isinstance(model, type):
            torch.manual_seed(1)
            made = model().eval()
        PROGRAMS[name] = Program(made if isinstance(model, type) else model, calls, dynamic, **more)
        return model

    return add


zero = torch.zeros((), dtype=torch.int64)


# ---- branches


@program(*signs(3, 4))
def results(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: (x + 1, x.sum()), lambda x: (x * 2, x.mean()), (x,))


@program(*signs(3, 4))
def other_shapes(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x[:1] * 2, lambda x: x[:2] + 1, (x,)) * 3


@program(*signs(3, 4), (r(6, 4),), dynamic=(N,))
def other_sizes(x: Tensor) -> Any:
    y = torch.cond(x.sum() > 0, lambda x: torch.cat([x, x]), lambda x: x[: x.shape[0] // 2], (x,))
    return y.sum(0), y.shape[0], y @ y.t()


@program((r(3, 4),), (r(3, 4),), (r(3, 4).abs(),), (-r(3, 4).abs(),))
def sizes_from_data(x: Tensor) -> Any:
    y = torch.cond(x[0, 0] > 0, lambda x: x[x > 0], lambda x: x[x < 0] * 2, (x,))
    return y, y * y.shape[0], y.shape[0]


@program((r(6, 4),), (r(6, 4),), (r(8, 4).abs(),), dynamic=(N,))
def sizes_from_data_go_on(x: Tensor) -> Any:
    a = torch.cond(x[0, 0] > 0, lambda x: x[x[:, 0] > 0], lambda x: x[x[:, 1] > 0], (x,))
    return torch.cond(a.sum() > 0, lambda a: torch.cat([a, a]), lambda a: a * 2, (a,))


@program(*[(torch.randint(0, 5, (size,), generator=_generator),) for size in (6, 6, 9)], dynamic=(N,))
def unique_or_nonzero(t: Tensor) -> Any:
    u = torch.cond(t[0] > 1, lambda t: torch.unique(t), lambda t: t.nonzero()[:, 0], (t,))
    return u, u.sum(), u * u.shape[0]


@program(*signs(3, 4))
def integers(x: Tensor) -> Any:
    y, k, same = torch.cond(x.sum() > 0, lambda x: (x + 1, 2, 5), lambda x: (x + 2, 4, 5), (x,))
    return y * k, torch.ones(k, 3) * k, torch.arange(k * 2) * same, k, torch.zeros(same)


@program((r(3, 4),), (r(6, 4),), (r(1, 4),), (r(5, 4),), dynamic=(N,))
def predicate_of_a_size(x: Tensor) -> Any:
    shapes = torch.cond(x.shape[0] > 4, lambda x: x[:4] * 2, lambda x: F.pad(x, (0, 0, 0, 1)), (x,))
    odd = torch.cond(x.shape[0] % 2 == 1, lambda x: x.sin(), lambda x: x.cos() * x.shape[0], (x,))
    return shapes, odd


@program((r(3, 4),), (r(6, 4),), (r(1, 4),), (r(4, 4),), (r(5, 4),), dynamic=(N,))
def sizes_known_from_the_predicate(x: Tensor) -> Any:
    def many(x: Tensor) -> Any:
        factor = 2 if x.shape[0] > 4 else 3  # no branch: here it is
        return x[4] * factor + x[: x.shape[0] - 4].sum(0) + torch.ones(x.shape[0] - 4).sum()

    return torch.cond(x.shape[0] > 4, many, lambda x: x[0] * (5 if x.shape[0] > 4 else 7), (x,))


@program(*signs(3, 4))
def other_predicates(x: Tensor) -> Any:
    one = torch.cond(x.sum().reshape(1) > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    real = torch.cond(x.clamp(0).sum(), lambda x: x.sin(), lambda x: x.cos(), (x,))
    python = torch.cond(x.shape[0] == 3, lambda x: x.sin(), lambda x: x.cos(), (x,))
    item = torch.cond((x > 0).sum().item() > 5, lambda x: x.sin(), lambda x: x.cos(), (x,))
    return one, real, python, item


@program(*signs(3, 4))
def structures(x: Tensor) -> Any:
    given = {"a": x, "b": [x * 2, x.sum(0)]}
    return torch.cond(
        x.sum() > 0,
        lambda d: {"p": d["a"] + d["b"][1], "q": (d["b"][0] * 1,)},
        lambda d: {"p": d["a"] - 1, "q": (d["a"] * 5,)},
        (given,),
    )


@program(*signs(3, 4))
def the_operand_itself(x: Tensor) -> Any:
    same = torch.cond(x.sum() > 0, lambda x: x, lambda x: x + 2, (x,))
    view = torch.cond(x.sum() > 0, lambda x: x.t(), lambda x: x.t() + 2, (x,)).reshape(-1)
    return same, view


@program(*signs(2, 3))
def no_operands(x: Tensor) -> Any:
    y, w = x * 2, torch.arange(3.0)
    return torch.cond(x.sum() > 0, lambda: (y + 1, w + 0, torch.ones(2)), lambda: (y - 1, w * 2, torch.zeros(2)))


@program(*signs(3, 4), (r(3, 4),))
def in_one_another(x: Tensor) -> Any:
    def outer(x: Tensor) -> Any:
        greatest, y = x.max(), x * 2
        return torch.cond(y[0, 0] > 0, lambda x: x + greatest + y, lambda x: x - greatest, (x,))

    def other(x: Tensor) -> Any:
        return torch.cond(x[0, 0] < -1, lambda x: x.exp(), lambda x: x + x.shape[1], (x,))

    return torch.cond(x.sum() > 0, outer, other, (x,))


@program((r(3, 4),), (r(3, 4),), (r(7, 4),), (r(2, 4),), (r(2, 4),), dynamic=(N,))
class Closures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l, self.m = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("b", torch.randn(4))

    def forward(self, x: Tensor) -> Any:
        h, rows = self.l(x), x.shape[0]
        return torch.cond(h.sum() > 0, lambda x: self.m(x) + h + self.b * rows, lambda x: self.l(x) * h, (x,))


@program((r(1, 2, 5, 5),), (r(1, 2, 5, 5) + 1,), (r(1, 2, 5, 5) - 1,), (r(3, 2, 7, 5) - 1,), dynamic=({0: "N", 2: "H"},))
class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c, self.d, self.e = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(2, 3, 1), nn.Conv2d(2, 3, 1)
        self.n = nn.BatchNorm2d(3)
        self.n.running_mean.normal_()
        self.n.running_var.uniform_(0.5, 2)

    def forward(self, x: Tensor) -> Any:
        y = self.c(x)
        a = torch.cond(x.mean() > 0, lambda x: self.n(self.d(x)).relu(), lambda x: F.gelu(self.e(x)), (x,))
        b = torch.cond(x.mean() > 0, lambda y: self.n(y), lambda y: y * 2, (y,))
        return a, b, y


def boxes(count: int, sign: int = 1) -> tuple[Tensor, Tensor]:
    corner = torch.rand(count, 2, generator=_generator) * 10
    size = 1 + torch.rand(count, 2, generator=_generator) * 6
    return torch.cat([corner, corner + size], 1), sign * torch.rand(count, generator=_generator)


@program(boxes(6), boxes(9), boxes(1), boxes(4, -1), dynamic=(N, N))
def suppression(boxes: Tensor, scores: Tensor) -> Any:
    def kept(boxes: Tensor, scores: Tensor) -> Any:
        index = torchvision.ops.nms(boxes, scores, 0.3)
        return boxes[index], scores[index]

    return torch.cond(scores.sum() > 0, kept, lambda boxes, scores: (boxes * 2, scores + 1), (boxes, scores))


@program((r(6, 4),), (r(6, 4),), (-r(6, 4).abs(),), (r(8, 4).abs(),), dynamic=(N,))
def numbers_read_inside(x: Tensor) -> Any:
    count = (x > 0).sum()

    def yes(x: Tensor) -> Any:
        k = (x > 0).sum().item()
        return torch.zeros(k).sum() + x.sum() + k + torch.ones(count.item()).sum()

    a = torch.cond(x[0, 0] > 0, yes, lambda x: x.sum(), (x,))
    b = torch.cond(x[0, 1] > 0, yes, lambda x: x.sum(), (x,))
    return a, b, torch.arange(count.item())


@program((r(3, 4),), (r(3, 4),), (-r(3, 4).abs(),))
def views_and_writes_around(x: Tensor) -> Any:
    y = x.clone()
    row, part = y[0], y[:, 1:3]
    part += 1
    a = torch.cond(y.sum() > 0, lambda: part * 2 + y[:, :2], lambda: part * 3 - row[2:])
    part *= 2
    b = torch.cond(y.sum() > 0, lambda: part * 2 + y[:, :2], lambda: part * 3 - row[2:])
    a[1:] += b[1:]
    b.zero_()
    return a, b, row * 1, y


# ---- loops


@program((r(3), n(4)), (r(3), n(7)), (r(3), n(0)), (r(3), n(1)))
def counted(x: Tensor, k: Tensor) -> Any:
    return while_loop(lambda i, y: i < k, lambda i, y: (i + 1, y * 2 + i), (zero.clone(), x))


@program((r(3),), (r(3) * 9,), (r(3) * 0,))
def until_small(x: Tensor) -> Any:
    return while_loop(lambda y: y.abs().max() > 0.1, lambda y: (y * 0.5,), (x,))


@program((r(3), n(4)), (r(3), n(7)), (r(3), n(0)), (r(3), n(1)))
def carried_integer(x: Tensor, k: Tensor) -> Any:
    table = torch.arange(20.0)

    def body(i: Any, y: Tensor) -> Any:
        return i + 1, y * 2 + i + table[i] + table[: i + 1].sum()

    i, y = while_loop(lambda i, y: i < k, body, (0, x))
    return i, y, y * i


@program((r(3),), (r(6),), (r(1),), dynamic=(N,))
def integers_of_sizes(x: Tensor) -> Any:
    i, y = while_loop(lambda i, y: 2 * i < y.shape[0], lambda i, y: (i + 1, y + i), (0, x))
    j, k, z = while_loop(lambda j, k, z: j > 2, lambda j, k, z: (j - 1, k + z.shape[0], z + k), (x.shape[0] * 2, 5, x))
    return i, y, j, k + j, z


@program((r(3, 4), n(1)), (r(3, 4), n(2)), (r(5, 4), n(0)), dynamic=(N, None))
def integers_in_one_another(x: Tensor, k: Tensor) -> Any:
    def outer(i: Any, y: Tensor) -> Any:
        j, z = while_loop(lambda j, z: j < i + 2, lambda j, z: (j + 1, z + i * j + z.shape[0]), (0, y))
        return i + 1, z * 0.5 + j

    return while_loop(lambda i, y: i < k, outer, (0, x))


@program((r(3), n(2)), (r(3), n(5)), (r(3), n(0)))
def carried_structures(x: Tensor, k: Tensor) -> Any:
    def body(i: Tensor, d: Any) -> Any:
        return i + 1, {"a": d["a"] * 2, "b": [d["b"][0] + d["a"]]}

    tree = while_loop(lambda i, d: i < k, body, (zero.clone(), {"a": x, "b": [x * 0]}))
    return tree, while_loop(lambda i, y: i < k, lambda i, y: [i + 1, y + 1], (zero.clone(), x))


@program((r(3, 4),), (r(5, 4),), (r(1, 4),), dynamic=(N,))
def outer_sizes_and_values(x: Tensor) -> Any:
    total, rows, wide = x.sum(0), x.shape[0], x.t()

    def body(i: Tensor, y: Tensor) -> Any:
        return i + 1, y + total * rows + x[i] + wide[:, 0]

    return while_loop(lambda i, y: i < rows, body, (zero.clone(), torch.zeros(4)))


@program((r(3, 4), n(2)), (r(5, 4), n(4)), (r(1, 4), n(0)), dynamic=(N, None))
def writes_inside(x: Tensor, k: Tensor) -> Any:
    def body(i: Tensor, y: Tensor) -> Any:
        z = y.clone()
        z[0] = z[-1] + 1
        z.t()[1].mul_(2)
        z.view(-1).add_(1)
        return i + 1, z

    return while_loop(lambda i, y: i < k, body, (zero.clone(), x))


@program((r(3, 4), n(2)), (r(5, 4), n(4)), (r(1, 4), n(0)), dynamic=(N, None))
def sizes_from_data_inside(x: Tensor, k: Tensor) -> Any:
    def body(i: Tensor, y: Tensor) -> Any:
        positive = y[y > 0]
        return i + 1, y - positive.sum() / (positive.shape[0] + 1)

    return while_loop(lambda i, y: i < k, body, (zero.clone(), x))


@program((r(2, 3, 8), n(2)), (r(2, 3, 8), n(3)), (r(1, 5, 8), n(0)), dynamic=({0: "N", 1: "S"}, None))
class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.n, self.f = nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: Tensor, k: Tensor) -> Any:
        def body(i: Tensor, x: Tensor) -> Any:
            y = self.n(x)
            return i + 1, x + self.a(y, y, y, need_weights=False)[0] + self.f(F.gelu(y))

        return while_loop(lambda i, x: i < k, body, (zero.clone(), x))[1]


@program(
    (n(1).expand(3), r(3, 8), n(3)), (torch.tensor([4, 5]), r(2, 8), n(10)), (n(9).reshape(1), r(1, 8), n(0)),
    dynamic=(N, N, None),
)  # fmt: skip
class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.cell, self.o = nn.Embedding(11, 8), nn.LSTMCell(8, 8), nn.Linear(8, 11)

    def forward(self, token: Tensor, h: Tensor, k: Tensor) -> Any:
        def body(i: Tensor, token: Tensor, h: Tensor, c: Tensor, out: Tensor) -> Any:
            h, c = self.cell(self.e(token), (h, c))
            token = self.o(h).argmax(-1)
            return i + 1, token, h, c, out.index_copy(1, i.reshape(1), token.unsqueeze(1))

        out = torch.zeros(token.shape[0], 10, dtype=torch.int64)
        start = (zero.clone(), token, h, torch.zeros_like(h), out)
        return while_loop(lambda i, token, *_: (i < k) & (token != 3).any(), body, start)


@program((r(4, 6), n(1)), (r(4, 6), n(3)), (r(7, 6), n(0)), dynamic=(N, None), tolerance=1e-3)
def coarse_ops(x: Tensor, k: Tensor) -> Any:
    def body(i: Tensor, y: Tensor) -> Any:
        values, _ = y.topk(2, dim=-1)
        z = F.hardswish(F.layer_norm(y, (6,))) + F.gelu(y, approximate="tanh") + values.sum(-1, keepdim=True)
        z = z + F.one_hot(y.argmax(-1), 6) + torch.cumsum(y, 0) + F.pad(y[:, 1:], (1, 0))
        return i + 1, z / z.norm(dim=-1, keepdim=True) + torch.tril(y @ y.t()) @ y * 0.01

    return while_loop(lambda i, y: i < k, body, (zero.clone(), x))


@program((r(1, 2, 4, 4), n(1)), (r(1, 2, 4, 4), n(2)), (r(3, 2, 4, 4), n(0)), dynamic=(N, None))
def images(x: Tensor, k: Tensor) -> Any:
    def body(i: Tensor, y: Tensor) -> Any:
        z = F.interpolate(F.avg_pool2d(y, 2), scale_factor=2, mode="bilinear") + F.max_pool2d(y, 3, 1, 1)
        z = F.group_norm(z, 2) + F.interpolate(F.adaptive_avg_pool2d(y, 1), size=(4, 4))
        return i + 1, z + F.pixel_shuffle(F.pixel_unshuffle(y, 2), 2)

    return while_loop(lambda i, y: i < k, body, (zero.clone(), x))


@program((r(5, 3), r(3)), (r(7, 3), r(3)), (r(1, 3), r(3)), dynamic=(N, None))
def scans(x: Tensor, h: Tensor) -> Any:
    def step(c: Any, d: Any) -> Any:
        return {"s": c["s"] + d["a"], "n": c["n"] + 1}, [c["s"] * d["b"][0], (d["a"].sum(),), None]

    tree = scan(step, {"s": h, "n": zero.clone()}, {"a": x, "b": [x * 2]})
    backwards = scan(lambda c, row: (c + row, c * row), h, x, reverse=True)
    columns = scan(lambda c, column: (c + column, c * column), torch.zeros(x.shape[0]), x, dim=1)
    return tree, backwards, columns, scan(lambda c, _: (c * 2, c + 1), h, None, length=3)


@program((r(5, 3), r(3)), (r(5, 3) - 9, r(3)), (r(5, 3) + 9, r(3)))
def scan_of_a_size_from_data(x: Tensor, h: Tensor) -> Any:
    rows = x[x[:, 0] > 0]
    return scan(lambda c, row: (c + row, c * row), h, rows), rows.shape[0]


@program((r(5, 2, 3), r(2, 4)), (r(7, 2, 3), r(2, 4)), (r(1, 3, 3), r(3, 4)), dynamic=({0: "T", 1: "B"}, {0: "B"}))
class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out, self.n = nn.GRUCell(3, 4), nn.Linear(4, 2), nn.LayerNorm(4)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        def step(h: Tensor, x: Tensor) -> Any:
            h = self.n(self.cell(x, h))
            return h, self.out(h)

        return scan(step, h, x)


@program((r(5, 3), r(3)), (r(7, 3), r(3)), (r(1, 3), r(3)), dynamic=(N, None))
def maps(x: Tensor, b: Tensor) -> Any:
    total = x.sum(0)
    tree = each(lambda d, y: {"o": d["a"] * 2 + y + total, "p": [d["b"].sum() + y.sum()]}, {"a": x, "b": x.sin()}, b)
    numbers = each(lambda row, k, m: row * k + m, x, 3, x.shape[0])
    ordered = each(lambda row: (*torch.sort(row, descending=True), row.argmax()), x)
    return tree, numbers, ordered, each(lambda row: torch.cond(row.sum() > 0, torch.sin, lambda q: q * 3, (row,)), x)


def associative(mode: str, dynamic: bool) -> Callable[..., Any]:
    def model(x: Tensor) -> Any:
        def pairs(a: Any, b: Any) -> Any:
            return {"u": a["u"] * b["u"], "v": b["u"] * a["v"] + b["v"]}

        return [
            (
                associative_scan(lambda a, b: a * b, x, dim, reverse=reverse, combine_mode=mode),
                associative_scan(pairs, {"u": x, "v": x + 1}, dim, reverse=reverse, combine_mode=mode),
            )
            for reverse in (False, True)
            for dim in (0, 1, -1)
        ]

    return model


for _mode in ("generic", "pointwise"):
    PROGRAMS[f"associative_{_mode}"] = Program(associative(_mode, False), ((r(5, 3, 2),), (r(5, 3, 2),)))
    PROGRAMS[f"associative_{_mode}_of_any_size"] = Program(
        associative(_mode, True), ((r(5, 3, 2),), (r(7, 4, 2),), (r(1, 1, 2),)), ({0: "N", 1: "M"},)
    )


@program((r(3, 4), n(2)), (r(3, 4), n(3)), (-r(3, 4).abs(), n(2)), (r(3, 4), n(0)))
def branch_in_while_in_scan(x: Tensor, k: Tensor) -> Any:
    def step(c: Tensor, row: Tensor) -> Any:
        def body(i: Tensor, y: Tensor) -> Any:
            return i + 1, torch.cond(y.sum() > 0, lambda y: y - row * x[0], lambda y: y + c + i, (y,))

        y = while_loop(lambda i, y: i < k, body, (zero.clone(), row))[1]
        return c + y, y * c

    return scan(step, torch.zeros(4), x)


@program((r(5, 3), r(3)), (r(5, 3), r(3)), (r(8, 3), r(3)), dynamic=(N, None))
def scans_in_scan_and_map(x: Tensor, h: Tensor) -> Any:
    def step(c: Tensor, row: Tensor) -> Any:
        s, o = scan(lambda a, e: (a + e, a * e + c.sum() + row.sum()), c[0] * 1, row)
        return c + s, o

    inner = each(lambda row: scan(lambda a, e: (a + e, (a * e).sin()), row[0] * 0, row)[1] + x.shape[0], x)
    return *scan(step, h, x), inner


@program(*signs(5, 3), (r(8, 3),), dynamic=(N,))
def associative_in_branch(x: Tensor) -> Any:
    def sums(x: Tensor) -> Any:
        return associative_scan(lambda a, b: a + b, x, 0, combine_mode="pointwise")

    return torch.cond(x.sum() > 0, sums, lambda x: associative_scan(torch.mul, x, 0, combine_mode="generic"), (x,))


@program((r(2, 3), n(2)), (r(2, 3), n(0)), (r(2, 3), n(4)))
def unused_results(x: Tensor, k: Tensor) -> Any:
    y = while_loop(lambda i, y, z: i < k, lambda i, y, z: (i + 1, y * 2, z + y), (zero.clone(), x, x * 0))[1]
    t = scan(lambda c, row: (c + row, (c * 2, row * 3)), torch.zeros(3), x)[1][1]
    return y, t, torch.cond(x.sum() > 0, lambda x: (x + 1, x + 2), lambda x: (x + 3, x + 4), (x,))[1]


@program((r(2, 3),), (r(2, 3),))
class Parameters(nn.Module):
    """What it asks depends on parameters alone."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.tensor([3.0]))
        self.l = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Any:
        y = torch.cond(self.b.sum() > 2, lambda x: self.l(x), lambda x: x, (x,))
        return while_loop(lambda i, y: i < self.b[0], lambda i, y: (i + 1, self.l(y)), (zero.clone(), y))


# ---- element types


@program(*[(x.half(),) for (x,) in signs(3, 4)], tolerance=2e-2)
def half(x: Tensor) -> Any:
    y = torch.cond(x.sum() > 0, lambda x: torch.softmax(x, -1) @ x.t(), lambda x: x @ x.t() * 0.1, (x,))
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 0.5 + y.mean()), (zero.clone(), y))


@program((r(3, 4).double(), n(3)), (r(3, 4).double(), n(0)))
def double(x: Tensor, k: Tensor) -> Any:
    def body(i: Tensor, y: Tensor) -> Any:
        return i + 1, y * 0.5 + torch.cond(y.sum() > 0, lambda y: y.mean(), lambda y: y.std(), (y,))

    return while_loop(lambda i, y: i < k, body, (zero.clone(), x))


@program((torch.tensor([True, False, True]),), (torch.tensor([False, False, False]),))
def truths(m: Tensor) -> Any:
    return while_loop(lambda i, y, b: i < 3, lambda i, y, b: (i + 1, y ^ m, b | y.all()), (zero.clone(), m, m.any()))


@program(*[(torch.complex(r(2, 3), r(2, 3)), n(k)) for k in (2, 3, 0)])
def complex_numbers(z: Tensor, k: Tensor) -> Any:
    i, y = while_loop(lambda i, y: i < k, lambda i, y: (i + 1, y * y.conj() + 1j), (zero.clone(), z))
    return torch.cond(y.real.sum() > 0, lambda y: y * 2j, lambda y: y.abs() + 0j, (y,)), i
