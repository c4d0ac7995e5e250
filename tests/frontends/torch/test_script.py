"""Scripted, traced and frozen models: loops, branches, lists, dicts and numbers that only data can tell, in onnxruntime."""

# ruff: noqa: UP006, UP035, UP045, PERF401, RET505, SIM118 (TorchScript knows no other way of saying these)
from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Dict, List, Optional, Tuple

import pytest
import torch
from torch.utils import _pytree as pytree

import isthmus
from isthmus.errors import CaptureError

X = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
ONES = torch.ones(2, 3, dtype=torch.int64)


def scripted(source: Any) -> Any:
    """The scripted function or module; torch warns that scripts are of yesterday."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(source)


def traced(source: Any, *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(source, args)


def frozen(source: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.freeze(source)


def n(number: int) -> torch.Tensor:
    return torch.tensor(number)


def agree(
    model: Any, example: Sequence[Any], *others: Sequence[Any], ops: Sequence[str] = (), **options: Any
) -> isthmus.Compiled:
    """The compiled model, after it gave in onnxruntime what the model gives, at the example and at other arguments."""
    net = isthmus.compile(model, example, verify_ir=True, **options)
    for args in (example, *others):
        fresh = copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model  # it may change itself
        wanted, _ = pytree.tree_flatten(fresh(*args))
        found, _ = pytree.tree_flatten(net(*args))
        assert len(wanted) == len(found)
        for theirs, ours in zip(map(torch.as_tensor, wanted), map(torch.as_tensor, found), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    used = {node.op.name for node in net.graph.walk()}
    assert used >= set(ops)
    return net


# ---- the loop of the issue, in all its forms


def counting(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for i in range(int(y)):
        x = x + i
    return x


COUNTED = scripted(counting)


class Calls(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = COUNTED(x, y)
        return found


class Counts(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return counting(x, y)


FORMS: dict[str, Callable[[], Any]] = {
    "function": lambda: COUNTED,
    "called from a module": Calls,
    "scripted": lambda: scripted(Counts()),
    "traced": lambda: traced(Calls(), ONES, n(5)),
    "frozen": lambda: frozen(scripted(Counts().eval())),
    "traced and frozen": lambda: frozen(traced(Calls().eval(), ONES, n(5))),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_loop_over_data_is_a_loop(form: str) -> None:
    net = agree(FORMS[form](), (ONES, n(5)), (ONES, n(9)), (ONES, n(0)), (ONES * 4, n(1)), ops=["loop"])
    assert bool((net(ONES, n(9)) == 37).all())


def test_the_line_of_a_script_is_told() -> None:
    net = isthmus.compile(scripted(counting), (ONES, n(5)))
    places = {(node.location.file, node.location.function) for node in net.graph.walk() if node.op.name == "add"}
    assert places == {(__file__, "counting")}


def test_the_users_line_is_told_where_the_code_is_torchs() -> None:
    graph = isthmus.compile(scripted(Pieces().eval()), (X, n(2))).graph
    (place,) = {node.location for node in graph.walk() if node.op.name == "linear"}
    assert (place.file, place.function, place.module) == (__file__, "forward", "linear")


# ---- lists


def pieces(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: List[torch.Tensor] = []
    for i in range(int(y)):
        parts = torch.split(x, 2, dim=1)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        out.append(total * i)
    return torch.stack(out)


class Pieces(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = torch.split(x, 2, dim=1)
        out: List[torch.Tensor] = []
        for i in range(int(y)):
            total = torch.zeros_like(parts[0])
            for k in range(int(y)):
                total = total + parts[k] * i
            out.append(self.linear(total))
        return torch.stack(out)


def test_what_is_appended_and_stacked_is_a_scan_output() -> None:
    net = agree(scripted(pieces), (X, n(3)), (X, n(5)), (X * 2, n(1)), ops=["loop"])
    assert not any(node.op.name.startswith("sequence") for node in net.graph.walk())


@pytest.mark.parametrize("freeze", [False, True])
def test_items_of_a_list_are_taken_at_a_place_that_is_data(freeze: bool) -> None:
    model = scripted(Pieces().eval())
    agree(frozen(model) if freeze else model, (X, n(2)), (X, n(3)), (X * 2, n(1)), ops=["loop", "gather"])


def sometimes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = [x]
    for i in range(int(y)):
        if i % 2 == 0:
            out.append(x * i)
    return torch.cat(out, 0)


def looked_at(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, int]:
    out = [x]
    for _ in range(int(y)):
        out.append(out[-1] * 2 + len(out))
    return out[int(y)], len(out)


def rebound(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: List[torch.Tensor] = []
    for i in range(int(y)):
        out = [*out, x[i]]
    return torch.stack(out, 1)


@pytest.mark.parametrize("source", [sometimes, looked_at])
def test_lists_that_only_data_can_tell_the_length_of_are_sequences(source: Any) -> None:
    agree(scripted(source), (X, n(2)), (X, n(5)), (X, n(0)), ops=["loop", "sequence_insert"])


# ---- dicts, tuples, optionals


def containers(
    x: Dict[str, torch.Tensor], pair: Tuple[torch.Tensor, torch.Tensor],
) -> Tuple[Dict[str, torch.Tensor], Tuple[torch.Tensor, torch.Tensor]]:  # fmt: skip
    found = {"a": x["a"] + pair[0]}
    found["b"] = x["b"] * pair[1]
    return found, (pair[1], found["a"] - 1)


def changed(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, Dict[str, torch.Tensor]]:
    found = {"a": x, "b": x * 2}
    for _ in range(int(y)):
        found["a"] = found["a"] + found["b"]
        for key in found.keys():
            found[key] = found[key] * 0.5
    return found["a"], found


def masked(x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
    if mask is not None:
        x = x * mask
    return x + 1


def previous(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before: Optional[torch.Tensor] = None
    total = x * 0
    for i in range(int(y)):
        if before is not None:
            total = total + before
        before = x * i
    return total


def test_dicts_and_tuples_come_in_and_go_out() -> None:
    agree(scripted(containers), ({"a": X, "b": X + 1}, (X * 2, X)), ({"a": X * 3, "b": X}, (X, X - 1)))


def test_a_dict_is_changed_in_a_loop() -> None:
    agree(scripted(changed), (X, n(2)), (X, n(4)), (X, n(0)), ops=["loop"])


def test_optional_inputs() -> None:
    agree(scripted(masked), (X, None))
    agree(scripted(masked), (X,))
    agree(scripted(masked), (X, X), (X, X * 2))


def test_what_may_be_none_goes_from_turn_to_turn() -> None:
    agree(scripted(previous), (X, n(2)), (X, n(4)), (X, n(0)), (X, n(1)), ops=["loop", "if"])


# ---- branches, and ways out of loops


def shapes(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 0):
        y = x[:2]
    else:
        y = torch.cat([x, x])
    return y + 1


def ways_out(x: torch.Tensor) -> torch.Tensor:
    i = 0
    while bool(x.sum() < 10.0) and i < 7:
        if i == 3:
            break
        if i == 2:
            i += 1
            continue
        x = x * 2
        i += 1
    if i > 2:
        return x
    return x + 1


def returns(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for i in range(int(y)):
        x = x * 2
        if bool(x.sum() > 20):
            return x + i
    return x - 1


def halves(x: torch.Tensor) -> torch.Tensor:
    while bool(x.abs().max() > 0.1):
        x = x / 2
    return x


def nested(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    total = x * 0
    for i in range(int(y)):
        for j in range(int(z) - i):
            if (i + j) % 2 == 0:
                total = total + x * (i * 10 + j)
    return total


def elif_(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    k = int(y)
    if k > 2:
        return x * k
    elif k == 1:
        return x - 1
    else:
        return torch.zeros_like(x)


def test_branches_of_different_shapes() -> None:
    agree(scripted(shapes), (X.abs(),), (-X.abs(),), ops=["if"])


def test_break_continue_and_early_return() -> None:
    ones = torch.ones(2, 3)
    agree(scripted(ways_out), (ones,), (ones * 0.1,), (-ones,), (ones * 9,), ops=["loop", "if"])
    agree(scripted(returns), (ones, n(2)), (ones, n(6)), (ones, n(0)), (ones * 100, n(3)), ops=["loop"])


def test_while() -> None:
    agree(scripted(halves), (X,), (X * 100,), (X * 0,), ops=["loop"])


def test_loops_in_loops() -> None:
    agree(scripted(nested), (X, n(2), n(3)), (X, n(4), n(3)), (X, n(1), n(0)), ops=["loop", "if"])


def test_elif() -> None:
    agree(scripted(elif_), (X, n(2)), (X, n(3)), (X, n(1)), ops=["if"])


def of_size(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 4:
        return x.sum(0)
    return x.mean(0)


def of_rank(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 4:
        return x.sum(0)
    return x


def test_a_branch_on_a_declared_size_is_no_assumption() -> None:
    net = agree(scripted(of_size), (X,), (torch.randn(6, 6),), ops=["if"], dynamic_shapes={"x": {0: "N"}})
    assert not net.graph.symbols.assumptions


def test_a_branch_on_a_declared_size_that_changes_the_rank_is_taken_for_granted() -> None:
    net = agree(scripted(of_rank), (X,), dynamic_shapes={"x": {0: "N"}})
    assert [str(each) for each in net.graph.symbols.assumptions] == ["N <= 4"]


# ---- numbers


def fibonacci(y: torch.Tensor) -> torch.Tensor:
    a, b = 0, 1
    for _ in range(int(y)):
        a, b = b, a + b
    return torch.tensor([a, b])


def floats(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total = 0.0
    for i in range(int(y)):
        total += float(x[i].sum()) * 0.5
        if total > 3.0:
            break
    return x * total


def places(x: torch.Tensor, y: torch.Tensor) -> List[torch.Tensor]:
    k = int(y)
    return [x[:k], x[-k:], x[k], x[-k], x.narrow(0, 0, k), torch.arange(k), torch.zeros(k, 2)]


def steps(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, int, float, bool]:
    total = 0
    for i in range(int(y), 0, -2):
        total += i * i
    for j in range(2, int(y)):
        total -= j
    return x + total, total, total / 2, total > 3


def filled(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(3, 4)
    for i, length in enumerate([int(lengths[0]), int(lengths[1]), int(lengths[2])]):
        out[i, :length] = x[i, :length]
    return out


def test_ints_and_floats_go_from_turn_to_turn() -> None:
    agree(scripted(fibonacci), (n(5),), (n(0),), (n(20),), ops=["loop"])
    agree(scripted(floats), (X.abs(), n(2)), (X.abs() * 0.1, n(3)), (X, n(0)), (X.abs() * 5, n(3)), ops=["loop"])


def test_places_that_are_data() -> None:
    agree(scripted(places), (X, n(2)), (X, n(1)))
    agree(scripted(filled), (X[:, :4], torch.tensor([1, 2, 3])), (X[:, :4], torch.tensor([4, 0, -1])))


def test_numbers_are_results() -> None:
    agree(scripted(steps), (X, n(5)), (X, n(0)), (X, n(8)))


# ---- writes


def rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in range(int(y)):
        out[i] = x[i] * i
        if i > 0:
            out[i] += out[i - 1]
    return out


def after(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.clone()
    for i in range(int(y)):
        z = torch.tanh(z + i)
        z[0] = 0.5
    z[1] = 0.0
    if int(y) > 2:
        z = z * 2
    else:
        z = z + 1
    z[2, 1] = 3.0
    return z


def test_what_a_loop_or_if_made_is_written_to() -> None:
    agree(scripted(after), (X, n(2)), (X, n(3)), (X, n(0)), ops=["loop", "if"])


def test_writes_to_tensors_from_outside_are_carried() -> None:
    agree(scripted(rows), (X, n(2)), (X, n(3)), (X, n(0)), ops=["loop", "if"])


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.sum = torch.zeros(3, 6)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(int(y)):
            self.count += 1
            self.sum = self.sum + x
        return x * self.count + self.sum


def test_a_module_changes_itself_in_a_loop() -> None:
    agree(scripted(Counter().eval()), (X, n(2)), (X, n(0)), ops=["loop"])


# ---- networks


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 5)

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        h = torch.zeros(x.shape[1], 5)
        out: List[torch.Tensor] = []
        for t in range(x.shape[0]):
            h = self.cell(x[t], h)
            out.append(h)
        return torch.stack(out), h


class Around(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.inner = scripted(Recurrent())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner(self.linear(x))[0]
        return found.sum(-1)


class Convolutional(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        x = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest").mean([2, 3])
        for layer in self.layers:
            x = layer(x)
        return x


class Lstm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, 2, batch_first=True)

    def forward(self, x: torch.Tensor, state: Optional[Tuple[torch.Tensor, torch.Tensor]] = None) -> torch.Tensor:
        found: torch.Tensor = self.lstm(x, state)[0]
        return found


@pytest.mark.parametrize("model", [lambda: scripted(Recurrent().eval()), lambda: Around().eval()])
def test_a_loop_over_a_declared_size(model: Callable[[], Any]) -> None:
    dynamic = {"x": {0: "T", 1: "N"}}
    calls = [(torch.randn(*size),) for size in ((6, 2, 4), (9, 3, 4), (1, 1, 4))]
    agree(model(), *calls, ops=["loop"], dynamic_shapes=dynamic)


IMAGES = torch.randn(2, 3, 9, 9)


@pytest.mark.parametrize("form", [scripted, lambda model: frozen(scripted(model)), lambda model: traced(model, IMAGES)])
def test_a_convolutional_net(form: Callable[[Any], Any]) -> None:
    model = form(Convolutional().eval())
    agree(model, (IMAGES,), (torch.randn(5, 3, 9, 9),), dynamic_shapes={"x": {0: "N"}})


def test_an_lstm() -> None:
    model = scripted(Lstm().eval())
    agree(model, (torch.randn(2, 6, 4),), (torch.randn(3, 7, 4),), dynamic_shapes={"x": {0: "N", 1: "T"}})
    agree(model, (torch.randn(2, 6, 4), (torch.randn(2, 2, 5), torch.randn(2, 2, 5))))


def test_weights_have_their_names() -> None:
    net = isthmus.compile(frozen(scripted(Pieces().eval())), (X, n(2)))
    names = {value.name for node in net.graph.walk() for value in node.results}
    assert {"linear.weight", "linear.bias"} <= names


# ---- what is refused


def checked(x: torch.Tensor) -> torch.Tensor:
    assert bool((x > -100).all()), "too small"
    if bool(x.sum() > 1e6):
        raise RuntimeError("too large")
    return x + 1


def ranks(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 0):
        return x.sum(0)
    return x


def retyped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(int(y)):
        x = x + 0.5
    return x


def halved(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.t()


def raises(x: torch.Tensor, mode: str) -> torch.Tensor:
    if mode != "sum":
        raise ValueError("no mode " + mode)
    return x.sum()


def test_a_branch_that_only_raises_is_a_check() -> None:
    captured = agree(scripted(checked), (X,), (X * 2,))
    assert {node.attrs["message"] for node in captured.graph.walk() if node.op.name == "check"} == {
        "the model raises AssertionError: too small", "the model raises RuntimeError: too large",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "args", "told"),
    [
        (ranks, (X,), "if that depends on data give tensors of different dtypes or ranks, in `if bool"),
        (retyped, (ONES, n(2)), "a loop carries changes its dtype or rank, in `for _ in"),
        (halved, (X,), "the context autocast of a script is not carried over"),
        (raises, (X, "max"), "the model raised ValueError: no mode max"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_with_its_line(source: Any, args: Any, told: str) -> None:
    with pytest.raises(CaptureError, match=told) as caught:
        isthmus.compile(scripted(source), args)
    place = caught.value.location
    assert place is not None
    assert place.file == __file__
    assert place.function == source.__name__


def item_of_data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: List[torch.Tensor] = []
    for i in range(int(y)):
        out.append(x[i].clone())
    out[0].add_(1)
    return torch.stack(out)


def aliased(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    if int(y) > 1:
        z = x
    else:
        z = x * 2
    z.add_(1)
    return x, z


def kept(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    first = x.clone()
    last = first
    for _ in range(int(y)):
        last = last + 1
    last[0] = 0.0
    return first + last


def moved(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(int(y)):
        x.add_(1)
        x = x * 2
    return x


def tuples(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: List[Tuple[torch.Tensor, int]] = []
    for i in range(int(y)):
        out.append((x[i], i))
    return out[0][0]


def keyed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: Dict[str, torch.Tensor] = {}
    for i in range(int(y)):
        out[f"k{i}"] = x
    return out["k0"]


def listed(x: torch.Tensor, y: torch.Tensor) -> List[torch.Tensor]:
    return [x * i for i in range(int(y))]


def item_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = [x.clone(), x * 2]
    out[int(y)].add_(1)
    return torch.stack(out)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (item_of_data, "and it is an item of a list, at a place that only sizes or data can tell"),
        (item_written, "and it is an item of a list, at a place that only sizes or data can tell"),
        (aliased, "and only data can tell which of two tensors it is"),
        (kept, "and it is another tensor in the first turn of a loop than in later ones"),
        (moved, "and it is another tensor in the first turn of a loop than in later ones"),
        (tuples, "a list of neither tensors nor numbers has a length that only data can tell"),
        (keyed, "the key of a dict depends on sizes or data"),
        (listed, "the items of a list that leaves the script are needed one by one"),
    ],
)
def test_what_one_graph_cannot_say_is_refused(source: Any, told: str) -> None:
    with pytest.raises(isthmus.errors.IsthmusError, match=told):
        isthmus.compile(scripted(source), (X.clone(), n(2)))


# ---- more that people write


def dynamic(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    table = [x.sum()]
    squares: List[int] = []
    stack = [x, x * 2]
    for i in range(int(y)):
        table.append(table[i] + i)
        squares.append(i * i + 1)
        stack.insert(int(y) - i, stack.pop() + stack[0])
        stack[i % 2] = stack[i % 2] - i
    return torch.stack(table), torch.tensor(squares), torch.stack(stack)


def suppressed(scores: torch.Tensor, least: float = 0.5) -> torch.Tensor:
    keep: List[int] = []
    order = torch.argsort(scores, descending=True)
    while order.numel() > 0:
        best = int(order[0])
        keep.append(best)
        if order.numel() == 1:
            break
        rest = order[1:]
        order = rest[(scores[rest] - scores[best]).abs() > least]
    return torch.tensor(keep)


def windows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: List[torch.Tensor] = []
    for i in range(x.shape[1] - int(y) + 1):
        out.append(x[:, i : i + int(y)].mean(1))
    return torch.stack(out, 1)


def grown(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a, b = x, x * 2
    for _ in range(int(y)):
        a, b = torch.cat([a, x]), torch.cat([b, x])
        a = a + b
    return a


def grid(y: torch.Tensor) -> torch.Tensor:
    a, b = int(y), 36
    while b != 0:
        a, b = b, a % b
    return torch.tensor(a)


def choices(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, bool, List[torch.Tensor]]:
    k = int(y)
    many = k > 2 and bool(x.sum() > 0)
    if many or k == 0:
        found = {"a": x, "b": x + 1}
        items = [x]
        extra: Optional[torch.Tensor] = x * 3
    else:
        found = {"a": x * 2, "b": x}
        items = [x - 1]
        extra = None
    if extra is not None:
        x = x + extra
    return x + found["a"] * found["b"], many, items


def sliced(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, int, torch.Tensor]:
    numbers = list(range(5))
    some = numbers[1 : int(y)]
    queue = [x]
    turn = 0
    while len(queue) > 0 and turn < int(y):
        first = queue.pop(0)
        turn += 1
        queue.append(first + turn)
        if turn % 2 == 0:
            queue.append(first * 2)
    return torch.tensor(some), len(some), torch.stack(queue[: int(y)]).sum(0)


@pytest.mark.parametrize("source", [dynamic, windows, choices, grown, sliced])
def test_programs(source: Any) -> None:
    calls = [(X, n(2)), (X, n(3)), (X * -1, n(4))]
    agree(scripted(source), *calls)


def test_a_loop_that_drops_what_is_near() -> None:
    agree(scripted(suppressed), (torch.randn(8),), (torch.randn(8),), (torch.randn(8) * 5,), ops=["loop", "if"])


def test_numbers_alone() -> None:
    agree(scripted(grid), (n(48),), (n(7),), (n(0),), (n(-7),), ops=["loop"])


class Exported(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    @torch.jit.ignore
    def plain(self, x):  # torch reads no annotations of these that are texts
        return x * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.plain(self.linear(x))

    @torch.jit.export
    def again(self, x: torch.Tensor, k: int = 2) -> torch.Tensor:
        for _ in range(k):
            x = self.linear(x)
        return x


class Uses(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = scripted(Exported())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner.again(x, k=3) + self.inner(x)
        return found


def test_methods_of_scripted_modules() -> None:
    agree(Uses().eval(), (X,), (X * 2,))
    agree(scripted(Exported().eval()).again, (X,), (X * 2,))


def test_a_buffer_that_a_script_replaces_is_an_output() -> None:
    class Averages(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(6))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            for i in range(int(y)):
                self.mean = self.mean * 0.9 + x[i]
            return x - self.mean

    model = scripted(Averages().eval())
    net = isthmus.compile(model, (X, n(2)), buffers="output")
    assert list(net.report.outputs) == ["output", "mean"]
    net.verify([((X, n(3)), {}), ((X * 2, n(0)), {})])
    assert bool((model.mean == 0).all())


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}])
def test_the_fast_path_of_attention_that_scripts_have_chosen(options: Any) -> None:
    model = scripted(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options).eval())
    hidden = torch.zeros(2, 5, dtype=torch.bool)
    hidden[1, 3:] = True
    agree(model, (torch.randn(2, 5, 8), None, hidden), (torch.randn(2, 5, 8), None, ~hidden))
    agree(model, (torch.randn(2, 5, 8), torch.ones(5, 5, dtype=torch.bool).triu(1)))


def test_weights_of_attention_by_the_fast_path() -> None:
    agree(scripted(torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()), (torch.randn(2, 5, 8),) * 3)


class Cached(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Any = torch.jit.Attribute([], List[torch.Tensor])
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.seen.append(x * 2)
        self.count += 1
        return torch.stack(self.seen).sum(0) * self.count


def test_what_a_script_changes_on_its_module_is_told() -> None:
    model = scripted(Cached())
    net = agree(model, (X,), (X * 2,))
    assert net.report.notes == [
        "the model changes its attribute seen in place; the graph does not keep that",
        "the model sets its attribute count; the graph does not keep it",
    ]
    assert net.verify().ok
    assert (model.seen, model.count) == ([], 0)


# ---- options of a capture


def test_a_long_loop_without_inputs_is_a_loop_or_unrolled() -> None:
    def decays(x: torch.Tensor) -> torch.Tensor:
        for i in range(100):
            x = x * 0.99 + i * 0.001
        return x

    def named(x: torch.Tensor) -> torch.Tensor:
        parts: Dict[str, torch.Tensor] = {}
        for i in range(100):
            parts[str(i)] = x * i
        return parts["7"] + parts["99"]

    agree(scripted(decays), (X,), (X * 2,), ops=["loop"])
    net = agree(scripted(named), (X,), (X * 2,))
    assert "loop" not in {node.op.name for node in net.graph.walk()}


def test_an_assumed_number_unrolls_the_loop() -> None:
    net = isthmus.compile(COUNTED, (ONES, n(3)), assume={"y": 3})
    assert "loop" not in {node.op.name for node in net.graph.walk()}
    assert bool((net(ONES, n(3)) == 4).all())


def test_a_loop_over_data_takes_nothing_for_granted() -> None:
    assert not isthmus.compile(COUNTED, (ONES, n(3)), strict=True).report.assumptions


def test_weights_of_ones_own_leave_a_scripted_module_as_it_was() -> None:
    model = scripted(torch.nn.Linear(6, 2).eval())
    before = model.bias.clone()
    net = isthmus.compile(model, (X,), weights={"weight": torch.ones(2, 6), "bias": torch.zeros(2)})
    torch.testing.assert_close(net(X)[:, 0], X.sum(1))
    assert bool((model.bias == before).all())


def test_sizes_come_in_as_numbers_and_go_out() -> None:
    @scripted
    def counted(x: torch.Tensor, k: int) -> Tuple[torch.Tensor, int]:
        for i in range(k):
            x = x + i
        return x, k * 2

    class Sized(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            first, k = counted(x, x.shape[0])
            second, m = counted(first, y.item())
            return second, k, torch.zeros(m)

    agree(Sized(), (X, n(2)), (torch.randn(5, 6), n(3)), ops=["loop"], dynamic_shapes={"x": {0: "N"}})


@torch.jit.script
def digits(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + len(str(int(n)))


def test_what_a_text_of_data_looks_like_is_refused() -> None:
    with pytest.raises(isthmus.errors.CaptureError, match="the length of a text depends on sizes or data"):
        isthmus.compile(digits, (torch.ones(2), torch.tensor(7)))
