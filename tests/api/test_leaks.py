"""Ways by which data and sizes might become constants unseen: each is carried over, or refused with the line."""

from __future__ import annotations

import copy
import functools
import io
import math
import pickle
import queue
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

import isthmus
from isthmus.errors import CaptureError, UsageError


def held(model: Any, example: tuple[Any, ...], others: list[tuple[Any, ...]], **options: Any) -> isthmus.Compiled:
    """The compiled model, after it gave in onnxruntime what the model gives, at other inputs too."""
    net = isthmus.compile(model, example, **options)
    for args in (example, *others):
        with torch.no_grad():
            wanted = pytree.tree_leaves(copy.deepcopy(model)(*args))
        found = pytree.tree_leaves(net(*args))
        assert len(found) == len(wanted)
        for got, want in zip(found, wanted, strict=True):
            torch.testing.assert_close(torch.as_tensor(got), torch.as_tensor(want), rtol=1e-4, atol=1e-5)
    return net


# ---- integers from data


def sliced(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = n.item()
    changed = x.clone()
    changed[:k] = 0
    return x[:k], x[k:], x[:n], x[n : n + 2], x[-k:], x[k], changed, x.narrow(0, 0, k), x.select(0, k)  # type: ignore[misc]


def made(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = n.item()
    return (
        torch.zeros(k, 2), torch.ones(n, 2), torch.full((k,), 3), torch.arange(k), torch.arange(n), torch.arange(1, 2 * k, 2),
        torch.eye(k), torch.linspace(0, 1, k), x.new_zeros(k), F.one_hot(torch.arange(2), k + 2),
    )  # type: ignore[arg-type]  # fmt: skip


def shaped(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = n.item()
    first, rest = x.split([k, 9 - k])  # type: ignore[list-item, operator]
    tiled = x.repeat(k, 1), x[:1].expand(k, -1), x[:1].expand(n, 3), F.pad(x, (0, 0, 0, k))
    return first, rest, tiled, x.roll(k, 0), torch.arange(k * 4).view(k, 4), x.topk(k, dim=0)[0], x[: min(k, 5)], x[: max(k, 5)]


def numbers(x: torch.Tensor, n: torch.Tensor) -> Any:
    k, scale = n.item(), x[0, 0].abs()
    half, rest = divmod(k, 2)
    filled = torch.full((2,), scale), x.new_full((3,), n), torch.full_like(x, scale), x.masked_fill(x > k - 3, k)
    made = torch.tensor(k), torch.tensor([k, ~k]), torch.tensor([[k / 2, 1]]), torch.tensor([scale, k])
    return x * k + k / 2, x.clamp(-k, k), x.abs() ** k, x * half - rest, filled, made, x * math.sqrt(k), x * round(k / 3), k


@pytest.mark.parametrize("function", [sliced, made, shaped, numbers])
def test_integers_from_data_are_sizes(function: Callable[..., Any]) -> None:
    x = torch.randn(9, 3)
    others = [(torch.randn(9, 3), torch.tensor(n)) for n in (1, 2, 5, 6)]
    net = held(function, (x, torch.tensor(3)), others)
    assert all(re.match(r"(4\*)?i\d >=? -?\d, which ", told) for told in net.report.assumptions)


ASSUMING: dict[str, tuple[Callable[..., Any], str]] = {
    "sign": (lambda x, n: x[-n.item() :], "i0 > 0"),
    "reshaped": (lambda x, n: x.reshape(n.item(), 3), "3*N == 3*i0"),
    "joined": (lambda x, n: x + torch.zeros(n.item(), 3), "N == i0"),
    "guarded": (lambda x, n: x * 2 if _positive(n.item()) else x, "i0 > 0"),
}


def _positive(k: Any) -> bool:
    assert k > 0
    return True


@pytest.mark.parametrize("number", [torch.tensor(4), torch.tensor([4]), torch.tensor([[4]], dtype=torch.int32)])
@pytest.mark.parametrize("name", ASSUMING)
def test_what_is_assumed_of_an_integer_is_checked_at_each_call(name: str, number: torch.Tensor) -> None:
    function, told = ASSUMING[name]
    net = held(function, (torch.randn(4, 3), number), [], dynamic_shapes=({0: "N"}, None))
    x, other = torch.randn(5, 3), torch.full_like(number, 5)
    torch.testing.assert_close(net(x, other), function(x, other))
    with pytest.raises(UsageError, match=re.escape(f"the graph holds only for {told}")) as caught:
        net(x, torch.zeros_like(number))
    assert "i0=0" in str(caught.value.found)
    assert str(caught.value.location).startswith(f"{__file__}:")
    with pytest.raises(UsageError, match="the graph holds only for"):
        net.verify([(x, torch.zeros_like(number))])


def listed(lengths: torch.Tensor, x: torch.Tensor) -> Any:
    a, b = lengths.tolist()
    first, second = lengths
    made = torch.zeros(a, b), torch.zeros(first, second), torch.zeros(torch.Size(lengths.tolist())), F.pad(x, lengths.tolist())
    return [part.sum(0) for part in x.split([a, b, 9 - a - b])], made, x * sum(lengths.tolist()) * max(lengths.tolist())


def masked(lengths: torch.Tensor) -> Any:
    return torch.arange(lengths.max().item())[None] < lengths[:, None]  # type: ignore[arg-type]


def test_lists_of_integers_from_data() -> None:
    x = torch.randn(9, 3)
    held(listed, (torch.tensor([2, 3]), x), [(torch.tensor([4, 1]), x), (torch.tensor([1, 1]), x)])
    held(masked, (torch.tensor([2, 3, 1]),), [(torch.tensor([1, 1, 7]),), (torch.tensor([4, 2, 2]),)])


# ---- data in Python's hands

KEPT: list[torch.Tensor] = []


class Box:
    value: Any = None


@dataclass
class Pair:
    left: Any
    right: Any = None


def through_global(x: torch.Tensor) -> Any:
    KEPT[:] = [x.sin()]
    found = torch.from_numpy(KEPT[0].numpy() * 2)
    KEPT.clear()
    return found


def through_attribute(x: torch.Tensor) -> Any:
    Box.value = x.detach()
    found, Box.value = float(Box.value.sum()), None
    return x * found


def through_closure(x: torch.Tensor) -> Any:
    cell: list[torch.Tensor] = []

    def add(item: torch.Tensor) -> None:
        cell.append(item * 2)

    add(x)
    return torch.tensor(np.asarray(cell[0]))


def through_dataclass(x: torch.Tensor) -> Any:
    return torch.tensor(Pair(x, x.t()).right.tolist())


class ThroughModule(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x * 2)
        self.last = self.seen[-1].max()
        return x * self.last.item()


def through_buffer(x: torch.Tensor) -> Any:
    made = torch.zeros(4, 3)
    made.copy_(x)
    return x + made.numpy().sum().item()


def stored(x: torch.Tensor) -> Any:
    found = np.zeros(2)
    found[0] = x[0, 0]
    return torch.from_numpy(found)


def queued(x: torch.Tensor) -> Any:
    waiting: queue.Queue[Any] = queue.Queue()
    waiting.put(x.sum())
    return x * waiting.get().item()


LEAVES: dict[str, tuple[Any, str]] = {
    "global": (through_global, "`KEPT[0].numpy()`"),
    "attribute": (through_attribute, "`float(Box.value.sum())`"),
    "closure": (through_closure, "`np.asarray(cell[0])`"),
    "dataclass": (through_dataclass, "`Pair(x, x.t()).right.tolist()`"),
    "module": (ThroughModule(), "`self.last.item()`"),
    "buffer": (through_buffer, "`made.numpy()`"),
    "pickle": (lambda x: pickle.loads(pickle.dumps(x)), "(pickle) of a tensor, `pickle.dumps(x)`"),
    "save": (lambda x: torch.save({"x": x}, io.BytesIO()), "(pickle) of a tensor, `torch.save("),
    "struct": (lambda x: x * struct.unpack("f", struct.pack("f", x[0, 0]))[0], '`struct.pack("f", x[0, 0])`'),
    "bytes of it": (lambda x: x * len(bytes(x.to(torch.uint8)[0])), "`bytes(x.to(torch.uint8)[0])`"),
    "list of numbers": (stored, "`found[0] = x[0, 0]`"),
    "queue": (queued, "`waiting.get().item()`"),
    "data": (lambda x: torch.from_numpy(x.data.T.numpy()), "`x.data.T.numpy()`"),
    "storage": (lambda x: x + x.untyped_storage().nbytes(), "`x.untyped_storage()`"),
    "offset": (lambda x: x + x[1:].storage_offset(), "`x[1:].storage_offset()`"),
    "array of numbers": (lambda x: torch.from_numpy(np.array([x[0, 0], x[1, 1]])), "`np.array([x[0, 0], x[1, 1]])`"),
    "ufunc": (lambda x: np.sin(x), "`np.sin(x)`"),
    "stack": (lambda x: torch.from_numpy(np.stack([x[0], x[1]])), "`np.stack([x[0], x[1]])`"),
    "math": (lambda x: x * math.exp(x[0, 0]), "`math.exp(x[0, 0])`"),
    "round": (lambda x: x * round(x[0, 0].item(), 2), "`x[0, 0].item()`"),
    "text": (lambda x: x * float("%.4f" % x[0, 0]), '`"%.4f" % x[0, 0]`'),  # noqa: UP031
    "format": (lambda x: x * float("{:.4f}".format(x[0, 0].item())), "`x[0, 0].item()`"),  # noqa: UP032
    "max": (lambda x: max(x[0, 0], x[1, 1]), "`max(x[0, 0], x[1, 1])`"),
    "sorted": (lambda x: sorted(x[0])[0], "`sorted(x[0])`"),
    "all": (lambda x: x if all(x[0] > 0) else -x, "`all(x[0] > 0)`"),
    "is_nonzero": (lambda x: x if x[0, 0].is_nonzero() else -x, "`x[0, 0].is_nonzero()`"),
    "chain": (lambda x: x if 0 < x.sum() < 5 else -x, "`0 < x.sum() < 5`"),
    "not": (lambda x: x if not (x > 0).all() else -x, "`(x > 0).all()`"),
    "function": (lambda x: [torch.sin, torch.cos][x.argmax() % 2](x), "`[torch.sin, torch.cos][x.argmax() % 2]`"),
    "bytes": (lambda x: torch.frombuffer(bytearray(x.numpy().tobytes()), dtype=torch.float32), "`x.numpy()`"),
    "float tensor": (lambda x: torch.tensor([x[0, 0].item(), 2.0]), "`x[0, 0].item()`"),
    "assigned": (lambda x: np.zeros(2).__setitem__(0, x[0, 0]), "`np.zeros(2).__setitem__(0, x[0, 0])`"),
    "count": (lambda x: x * len(torch.unique(x)) * [1, 2, 3][torch.unique(x).shape[0] % 3], "that depends on the input"),
}


@pytest.mark.parametrize("name", LEAVES)
def test_data_that_leaves_is_refused_wherever_it_went(name: str) -> None:
    model, text = LEAVES[name]
    with pytest.raises(CaptureError) as caught:
        isthmus.compile(model, torch.randn(4, 3))
    assert "that depends on the input" in caught.value.message
    assert text in caught.value.message
    assert str(caught.value.location).startswith(f"{__file__}:")


def test_keys_that_are_data_or_sizes() -> None:
    x = torch.randn(4, 3)
    with pytest.raises(CaptureError, match=r"unhashable type: i0, an integer from data") as caught:
        isthmus.compile(lambda x: {0: x, 1: x * 2}.get(x.argmax().item(), x), x)
    assert "torch.stack([...])[index]" in str(caught.value.remedy)
    with pytest.raises(CaptureError, match="unhashable type") as caught:
        isthmus.compile(lambda x: {4: x}.get(x.shape[0], x * 2), x, dynamic_shapes=({0: "N"},))
    assert "a dynamic size is the key of a dict" in str(caught.value.remedy)


def through_python(x: torch.Tensor) -> Any:
    rows = [copy.deepcopy(row) for row in x]
    added = sum(rows) + functools.reduce(torch.add, list(x))
    kept = {x: 2, "a": Pair(x)}
    made = torch.tensor([[v * 2 for v in row] for row in x]), torch.tensor([x[0, 0], 3.0]), x.new_tensor([x[0, 0], 2.0])
    out = torch.zeros(2)
    out[0], out[1] = x[0, 0], x.sum()
    return added, copy.copy(x) * kept[x], kept["a"].left.data, made, out, torch.nn.Parameter(x) * 2, torch.asarray(x)


def test_what_python_only_moves_about_is_carried() -> None:
    held(through_python, (torch.randn(4, 3),), [(torch.randn(4, 3),)])


def test_texts_are_told() -> None:
    class Shown(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.tensor([2.0]))
            self.texts: list[str] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.texts[:] = [f"{x.sum():.3f}", f"{self.scale * 2}"]
            self.texts.append(repr(x))
            assert self.texts[1] == "tensor([4.])"
            return x * 2

    net = held(Shown(), (torch.randn(3),), [(torch.randn(3),)])
    (first, second) = [note for note in net.report.notes if "shows a tensor without its numbers" in note]
    assert "x.sum():.3f" in first
    assert "`repr(x)`" in second


# ---- memory that is shared with numpy


def followed(x: torch.Tensor) -> Any:
    made = torch.zeros(4, 3)
    array = made.numpy()
    array[0] = 3
    made[1] = 4
    other = np.ones((4, 3), np.float32)
    tensor = torch.from_numpy(other)
    first = x + tensor
    other += 1
    tensor[3] = 7
    return x + made, torch.from_numpy(array + 1), first, x * tensor, torch.from_numpy(other * 2)


GLOBAL = np.zeros(3, np.float32)


def test_writes_go_both_ways() -> None:
    held(followed, (torch.randn(4, 3),), [(torch.randn(4, 3),)])
    isthmus.compile(lambda x: torch.from_numpy(GLOBAL).add_(1) + x, torch.ones(3))
    assert not GLOBAL.any()


def late(x: torch.Tensor) -> Any:
    made = torch.zeros(4, 3)
    array = made.numpy()
    made += x
    return x * float(array.sum())


def copied_into(x: torch.Tensor) -> Any:
    array = np.zeros((4, 3), np.float32)
    torch.from_numpy(array).copy_(x)
    return x * float(array.sum())


@pytest.mark.parametrize("function", [late, copied_into])
def test_an_array_that_cannot_follow_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError, match="one memory with an array of numpy, which cannot follow") as caught:
        isthmus.compile(function, torch.randn(4, 3))
    line = function.__code__.co_firstlineno
    assert str(caught.value.location).startswith(f"{__file__}:{line + (3 if function is late else 2)}")
    assert f"the array is from {__file__}:{line + 2}" in str(caught.value)


def test_an_array_that_nobody_has_any_more_is_no_matter() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        made = torch.from_numpy(np.ones(3, np.float32))
        count = float(made.numpy().sum())
        made += x
        return made * count

    held(model, (torch.randn(3),), [(torch.randn(3),)])


# ---- chance, and what the model keeps


def test_random_numbers_of_python_and_numpy() -> None:
    state = random.getstate()
    for draw in (random.random, lambda: np.random.rand(3).astype(np.float32), lambda: np.random.randint(1000)):  # noqa: NPY002
        with pytest.raises(CaptureError, match=r"random numbers that Python's random or numpy.random draws"):
            isthmus.compile(lambda x, draw=draw: x * torch.as_tensor(draw()), torch.randn(3))
    held(lambda x: x * 2 if random.random() < 2 else x, (torch.randn(3),), [])
    assert random.getstate() != state  # by the plain runs; a compilation leaves it as it is
    state = random.getstate()
    isthmus.compile(lambda x: x * 2 if random.random() < 2 else x, torch.randn(3))
    assert random.getstate() == state


def test_seeds_are_told() -> None:
    def seeded(x: torch.Tensor) -> Any:
        generator = torch.Generator()
        return torch.rand(3, generator=generator.manual_seed(3)) + x

    def globally(x: torch.Tensor) -> Any:
        torch.manual_seed(3)
        return torch.rand(3) + x

    for model in (seeded, globally):
        notes = isthmus.compile(model, torch.ones(3)).report.notes
        assert any("the seed is not carried over" in note and __file__ in note for note in notes)


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.inner = torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.inner.last = x.dim()
        return x * self.calls


def test_a_counter_on_the_model() -> None:
    model = Counting()
    net = held(model, (torch.randn(3),), [(torch.randn(3),)])
    (note,) = net.report.notes
    assert note == "the model sets calls, inner.last on itself; the graph computes what the first call from here on does"
    assert model.calls == 0
    assert net.verify(seeds=2).ok
    model(torch.ones(1))
    model(torch.ones(1))
    assert torch.equal(isthmus.compile(model, torch.ones(3))(torch.ones(3)), torch.full((3,), 3.0))


class Caching(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mask: Any = None
        self.previous: Any = None

    def forward(self, x: torch.Tensor) -> Any:
        if self.mask is None or self.mask.shape[0] != x.shape[0]:
            self.mask = torch.ones(x.shape[0], x.shape[0]).tril()
        found = self.mask @ x if self.previous is None else self.mask @ x + self.previous
        self.previous = x.sum()
        return found


def test_a_mask_and_a_result_kept_on_the_model() -> None:
    net = held(Caching(), (torch.randn(4, 3),), [(torch.randn(7, 3),)], dynamic_shapes=({0: "N"},))
    assert {note for note in net.report.notes if "keeps a tensor on itself" in note} == {
        "the model keeps a tensor on itself as mask; the graph does not",
        "the model keeps a tensor on itself as previous; the graph does not",
    }
    model = Caching()
    model(torch.randn(4, 3))  # now there is a mask, and something to add
    held(model, (torch.randn(4, 3),), [(torch.randn(4, 3),)])


TABLES: dict[str, torch.Tensor] = {}


def test_tensors_left_in_a_global() -> None:
    def tabled(x: torch.Tensor) -> torch.Tensor:
        if "table" not in TABLES:
            TABLES["table"] = torch.arange(3.0).sin()
        return x * TABLES["table"]

    def averaged(x: torch.Tensor) -> torch.Tensor:
        if "mean" not in TABLES:
            TABLES["mean"] = x.mean()
        return x * TABLES["mean"]

    x = torch.randn(3)
    wanted = x * torch.arange(3.0).sin()
    net = isthmus.compile(tabled, x, dynamic_shapes=None)
    assert not net.report.notes
    torch.testing.assert_close(net(x), wanted)
    torch.testing.assert_close(tabled(x), wanted)  # what the capture left has its numbers
    (note,) = isthmus.compile(averaged, x).report.notes
    assert note.startswith("a tensor that depends on an input is kept in a global, a closure or a cache: the graph")
    assert f"{__file__}:{averaged.__code__.co_firstlineno + 2}" in note
    TABLES.clear()


def test_a_view_left_in_a_global_is_told_once() -> None:
    def averaged(x: torch.Tensor) -> torch.Tensor:
        TABLES["mean"] = x.sin()[:, None].transpose(0, 1)
        return x * TABLES["mean"]

    (note,) = isthmus.compile(averaged, torch.randn(3)).report.notes
    assert "is kept in a global" in note
    TABLES.clear()


def test_nothing_is_left_by_views_or_by_cycles() -> None:
    def views(x: torch.Tensor) -> Any:
        return x[:, torch.tensor([0, 2])][:, None], x.sin().reshape(4, 3).T.unsqueeze(0), (x + 1).unbind(0)

    def recursive(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()

        def times(n: int) -> torch.Tensor:
            return y if n == 0 else y * times(n - 1)

        return times(2)

    def excepting(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        try:
            raise ValueError
        except ValueError as error:
            seen = error
        return y + (seen is not None)

    for function in (views, recursive, excepting):
        assert not isthmus.compile(function, torch.randn(4, 3)).report.notes, function
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    assert not isthmus.compile(attention, (x, x, x), dynamic_shapes=None).report.notes


class Tabled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table: dict[str, Any] = {}
        self.seen: list[Any] = []

    def forward(self, x: torch.Tensor) -> Any:
        self.table["mean"] = x.mean()
        self.seen.append(x.sum())
        return x + self.table["mean"] + len(self.seen)


def test_results_kept_in_containers_on_the_model() -> None:
    net = held(Tabled(), (torch.randn(3),), [(torch.randn(3),)])
    assert net.report.notes == [
        "the model keeps a tensor on itself as table['mean']; the graph does not",
        "the model keeps a tensor on itself as seen[0]; the graph does not",
    ]


class Stepping(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.tensor(2))

    def forward(self, x: torch.Tensor) -> Any:
        self.step += 1
        return x * self.step.item() if self.step > 2 else x


def test_a_buffer_that_counts() -> None:
    net = held(Stepping(), (torch.randn(3),), [(torch.randn(3),)])
    assert any("the model writes to step" in note for note in net.report.notes)
    kept = isthmus.compile(Stepping(), torch.ones(3), buffers="output")
    found = kept.artefact.run([np.ones(3, np.float32)])
    assert [array.tolist() for array in found] == [[3.0, 3.0, 3.0], 3]
