"""Loops, branches, lists, dicts and numbers in scripts that only data can tell, in onnxruntime."""

# ruff: noqa: UP006, UP035, UP045, PERF401, RET505, SIM118 (TorchScript knows no other way of saying these)
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Dict, List, Optional, Tuple

import pytest
import torch
from scripts import ONES, X, agree, frozen, n, scripted, traced

import isthmus

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


def test_an_assumed_number_unrolls_the_loop() -> None:
    net = isthmus.compile(COUNTED, (ONES, n(3)), assume={"y": 3})
    assert "loop" not in {node.op.name for node in net.graph.walk()}
    assert bool((net(ONES, n(3)) == 4).all())


def test_a_loop_over_data_takes_nothing_for_granted() -> None:
    assert not isthmus.compile(COUNTED, (ONES, n(3)), strict=True).report.assumptions


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


def test_weights_have_their_names() -> None:
    net = isthmus.compile(frozen(scripted(Pieces().eval())), (X, n(2)))
    names = {value.name for node in net.graph.walk() for value in node.results}
    assert {"linear.weight", "linear.bias"} <= names


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
