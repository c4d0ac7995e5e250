"""What models do with sizes: arithmetic, floats, branches, and numbers that may not be taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from watching import agree

import isthmus
from isthmus.frontends.torch import CaptureOptions, TorchCaptured, capture
from isthmus.frontends.torch.ratios import Ratio, square_root
from isthmus.ir.dims import Expr, Symbol, evaluate
from isthmus.ir.errors import CaptureError, IsthmusError
from isthmus.ir.symbols import Symbols

HW = ({0: "H", 1: "W"},)
OTHERS = [{"H": 7, "W": 9}, {"H": 12, "W": 5}, {"H": 33, "W": 2}]


def products(x: torch.Tensor) -> Any:
    h, w = x.shape
    return x.view(h * w), x.reshape(1, -1, w), x.numel() * x, x.new_zeros(h + w, 2 * h - 1), x.flatten()


def quotients(x: torch.Tensor) -> Any:
    h, w = x.shape
    return x[: h // 2], x[:, : (w + 1) // 2], F.pad(x, (0, -w % 4, 0, (8 - h % 8) % 8)), x[h // 3 : h // 3 + 1]


def rounded_floats(x: torch.Tensor) -> Any:
    h, w = x.shape
    up, down = math.ceil(h / 4) * 4, math.floor(w / 3) * 3
    return (
        torch.zeros(up, down), torch.zeros(math.ceil(h * 0.5), math.floor(w * 1.5)), torch.zeros(math.trunc(h * 0.25)),
        torch.zeros(round(h / 2), round(w / 3)), torch.zeros(torch.sym_int(h * 2.5)),
    )  # fmt: skip


def roots(x: torch.Tensor) -> Any:
    h, w = x.shape
    side = torch.sym_int((h * h * w * w) ** 0.5)
    return torch.zeros(side), x / (w**0.5), x * (h * w) ** -0.5, x / torch.sym_sqrt(h)


def promoted(x: torch.Tensor) -> Any:
    """A float made of sizes is a number, and not a tensor, to what it meets."""
    h, w = x.shape
    whole, third = torch.arange(4), w / 3
    return (
        torch.full((h,), third), whole * third, whole + h**0.5, whole / third, third * x, torch.clamp(whole, max=third),
        torch.where(whole > 1, third, 0.0), torch.full((2,), third, dtype=torch.float64), torch.tensor(third), whole > third,
    )  # fmt: skip


def extremes(x: torch.Tensor) -> Any:
    h, w = x.shape
    return torch.zeros(torch.sym_max(h, w)), x[: torch.sym_min(h, 3)], x[:4], x[-3:], x[2:], x[:, 1:-1]


def size_as_number(x: torch.Tensor) -> Any:
    h, w = x.shape
    return x * h + w, x / h, torch.full((2,), h), torch.arange(w), torch.tensor([h, w]), x.sum() / (h * w), x * (h / w)


def centres(x: torch.Tensor) -> Any:
    h, w = x.shape
    return torch.arange(0.5, h) / h, torch.arange(-1.3, w), torch.arange(0.1, w, dtype=torch.float64), torch.arange(1.5, 2 * w)


def text(x: torch.Tensor) -> Any:
    return {"a": x, "b": x + len(f"{x.shape} {x.shape[0]} {x.dtype} {x!r}") * 0}


def of_python(x: torch.Tensor) -> Any:
    h, w = x.shape
    whole, rest = divmod(h, 3)
    halves = torch.zeros(h >> 1, w << 1, h & 1), torch.zeros(*divmod(7, torch.sym_min(w, 7)))
    extremes = x[: min(h, 5)], torch.zeros(max(w, 3, h), min([4, h])), torch.zeros(max(n for n in (h, w)))
    kinds = 1 if isinstance(h, int) and isinstance(h / 2, (float, str)) and not isinstance(h, torch.Tensor) else 2
    kinds += (type(h) is int) + (type(x) is torch.Tensor) * 2 + isinstance(type("Made", (), {}), type) * 4
    return torch.zeros(len(x), whole, rest), halves, extremes, x * kinds, x / math.sqrt(w), x * len(x.shape), f"{h:d}" != ""


def of_numpy(x: torch.Tensor) -> Any:
    h, w = x.shape
    made = torch.from_numpy(np.array([h, 2])), torch.as_tensor(np.array([[h / 2, w]])), torch.asarray([h, 2.0])
    return x.reshape(np.prod(x.shape)), made, x / np.sqrt(h), x.new_tensor([h, w]), F.one_hot(torch.arange(2), h + 1)


def split_unevenly(x: torch.Tensor) -> Any:
    return torch.tensor_split(x, 2), x.tensor_split(3, dim=1)


def parts(x: torch.Tensor) -> Any:
    a, b = x.chunk(2, dim=1)
    c = torch.cat([x, x[1:]], 0)
    return a, b, c, c.shape[0] * x, torch.stack([x, x]), x.expand(3, *x.shape), x.repeat(2, 1)


@pytest.mark.parametrize(
    "function",
    [products, quotients, rounded_floats, roots, promoted, extremes, size_as_number, centres, text, of_python, of_numpy, parts],
)
def test_arithmetic(function: Callable[[torch.Tensor], Any]) -> None:
    agree(function, (torch.randn(8, 6),), dynamic=HW, sizes=OTHERS)


def test_what_must_hold_anyway_is_not_assumed() -> None:
    captured = agree(split_unevenly, (torch.randn(8, 6),), dynamic=HW, sizes=OTHERS)
    assert not captured.graph.symbols.assumptions


def data_sizes(x: torch.Tensor) -> Any:
    found = x.nonzero()
    kept = x[x > 0]
    return found, kept, kept.reshape(-1, 1) * 2, torch.cat([kept, kept]), kept[:3], found.shape[0] * x


def item_as_size(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = n.item()
    return torch.zeros(k, 3), torch.arange(k + 1), x.new_ones(2, k).sum(1), n + k


def test_sizes_from_data() -> None:
    agree(data_sizes, (torch.randn(5, 6),), dynamic=HW, sizes=OTHERS)


def test_items_as_sizes() -> None:
    captured = agree(item_as_size, (torch.randn(5), torch.tensor(4)))
    assert [node.op.name for node in captured.graph.nodes].count("bind") == 1


def narrowing(x: torch.Tensor) -> Any:
    if x.shape[0] > 4:
        return x + 1
    return x - 1


def test_an_inequality_narrows_and_is_recorded() -> None:
    captured = agree(narrowing, (torch.randn(8, 6),), dynamic=HW, sizes=[{"H": 5}])
    assert captured.graph.symbols.by_name["H"].lo == 5
    (assumption,) = captured.graph.symbols.assumptions
    assert str(assumption) == "H > 4"
    assert "test_sizes.py:" in str(assumption.location)


def test_the_default_range_proves_what_torch_asks() -> None:
    captured = agree(lambda x: x[0] if x.shape[0] > 0 else x.sum(0), (torch.randn(8, 6),), dynamic=HW)
    assert captured.notes == []


def even(x: torch.Tensor) -> Any:
    return x * 2 if x.shape[0] % 2 == 0 else x * 3


def test_an_equality_that_fixes_no_size_is_assumed() -> None:
    captured = agree(even, (torch.randn(8, 6),), dynamic=HW, sizes=[{"H": 10}])
    assert [str(a) for a in captured.graph.symbols.assumptions] == ["H % 2 == 0"]


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def test_sizes_that_must_be_equal_are_joined() -> None:
    captured = agree(joined, (torch.randn(4), torch.randn(4)), dynamic=({0: "A"}, {0: "B"}), second_watch=False)
    assert [str(a) for a in captured.graph.symbols.assumptions] == ["A == B"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + sum(range(x.shape[0])),
        lambda x: x * int(x.shape[0] * 0.5),
        lambda x: torch.stack(list(x)),
        lambda x: sum(row for row in x),
        lambda x: x * [1, 2, 3, 4, 5, 6, 7, 8, 9][x.shape[0]],
        lambda x: x * torch.from_numpy(np.ones((x.shape[0], 1))),
        lambda x: x * torch.LongTensor([x.shape[0], 2]).sum(),
        lambda x: x * x.shape.numel(),
        lambda x: x.view(8, -1) if x.shape[0] == 8 else x,
        lambda x: x + torch.randn(8, 1),
        lambda x: x.reshape(8, 6) + x.expand(8, 6),
    ],
    ids=[
        "range", "int", "list", "rows", "index", "numpy", "LongTensor", "numel", "branch", "broadcast",
        "expand",
    ],
)
def test_a_declared_size_may_not_become_a_number(function: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(CaptureError, match="but H was declared dynamic") as caught:
        capture(function, (torch.randn(8, 6),), dynamic_shapes=({0: torch.export.Dim("H", min=8, max=8000)},))
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("test_sizes.py")
    assert "declare H static" in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x * y, lambda x, y: torch.broadcast_tensors(x, y)[1], lambda x, y: torch.maximum(y, x),
        lambda x, y: torch.where(x > 0, x, y), lambda x, y: x.expand_as(y) if len(x) < len(y) else y.expand_as(x),
        lambda x, y: torch.baddbmm(y[..., None], x[..., None], x[:, None]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("one", [0, 1])
def test_a_size_that_the_example_repeats_is_1(function: Callable[..., Any], one: int) -> None:
    """Were it taken for as large as the other one, the graph would not take its own example."""
    args = [torch.randn(1, 3) if place == one else torch.randn(5, 3) for place in (0, 1)]
    with pytest.raises(CaptureError, match=f"fixes the size {'NM'[one]} to 1"):
        capture(function, tuple(args), dynamic_shapes=({0: "N"}, {0: "M"}))
    net = isthmus.compile(function, tuple(args), dynamic_shapes=({0: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO}))
    assert net.verify().ok


def test_a_graph_that_would_not_hold_for_its_own_example_is_refused() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tensordot(x, y, ([0, 1], [2, 0]))  # type: ignore[arg-type]

    dynamic = tuple({axis: f"{name}{axis}" for axis in range(3)} for name in "xy")
    with pytest.raises(CaptureError, match=r"(?s)not hold for its own example.*tensordot needs.*declare sizes that are 1"):
        capture(model, (torch.randn(1, 1, 1), torch.randn(2, 1, 2)), dynamic_shapes=dynamic)


def test_a_right_side_of_the_shape_of_the_rows_is_vectors() -> None:
    """As torch has it; at the sizes of the example, and at no others."""
    agree(torch.linalg.solve, (torch.eye(3).expand(2, 3, 3) * 2, torch.randn(2, 3)), dynamic=({0: "N"}, {0: "N"}))
    args = torch.eye(3).expand(2, 3, 3) * 2, torch.randn(2, 3)
    captured = capture(torch.linalg.solve, args, dynamic_shapes=({0: "N", 1: "A", 2: "A"}, {0: "M", 1: "B"}))
    assert "N == M" in map(str, captured.graph.symbols.assumptions)


def test_an_automatic_size_may_become_a_number() -> None:
    captured = agree(lambda x: x + sum(range(x.shape[0])), (torch.randn(8, 6),), dynamic=({0: torch.export.Dim.AUTO},))
    assert any("x_0 is fixed to 8" in note for note in captured.notes)
    assert captured.graph.inputs[0].tensor.shape == (8, 6)


COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "1 - 1/n": lambda n, m: 1 - 1 / n, "1/n + 1/m": lambda n, m: 1 / n + 1 / m, "n/3 + 1": lambda n, m: n / 3 + 1,
    "n/7 * 3": lambda n, m: n / 7 * 3, "2 pi / n": lambda n, m: 2 * math.pi / n, "root * 2": lambda n, m: math.sqrt(n) * 2,
    "root / m": lambda n, m: n**0.5 / m, "1/root": lambda n, m: 1 / math.sqrt(1 + 1 / n), "(1/n)**2": lambda n, m: (1 / n) ** 2,
    "length penalty": lambda n, m: ((5 + n) / 6) ** 0.6, "0.9**n": lambda n, m: 0.9**n, "n**-1": lambda n, m: n**-1,
    "log": lambda n, m: math.log(n) + math.log2(n) * math.log10(m) - math.log(n, 3), "exp": lambda n, m: math.exp(-n / 10),
    "pow": lambda n, m: math.pow(n, 0.3) - math.pow(0.5, m), "abs": lambda n, m: abs(0.1 - 1 / n), "neg": lambda n, m: -(1 / n),
    "least": lambda n, m: torch.sym_min(n / 7, 1 - 1 / m), "greatest": lambda n, m: torch.sym_max(n / 7, 1 - 1 / m),
}  # fmt: skip


@pytest.mark.parametrize("number", COMPUTED.values(), ids=COMPUTED)
def test_floats_of_sizes_are_computed_as_python_does(number: Callable[[Any, Any], Any]) -> None:
    """Step by step in f64, also where they are no ratios of sizes."""

    def model(x: torch.Tensor) -> Any:
        found = number(*x.shape)
        return x * found, torch.full((2,), found), torch.tensor(found, dtype=torch.float64) / 3

    captured = agree(model, (torch.randn(8, 6),), dynamic=HW, sizes=[*OTHERS, {"H": 1, "W": 1}])
    assert not captured.graph.symbols.assumptions


def squared(number: Any, times: int) -> Any:
    """Each step stands twice in the next one."""
    for _ in range(times):
        number = number * number
    return number


def coordinates(x: torch.Tensor) -> torch.Tensor:
    """The centres of as many parts of a line from -1 to 1."""
    step = 2 / (2 * x.shape[0])
    return x + (-1 + step + (2 * step) * torch.arange(x.shape[0]).float())[:, None]


def test_coordinates_of_as_many_places_as_a_size_says() -> None:
    agree(coordinates, (torch.randn(8, 6),), dynamic=HW, sizes=OTHERS)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.zeros(math.floor(x.shape[0] * 0.1 + 1)), r"\(0.1 \* \(H\) \+ 1.0\) rounded down is no exact"),
        (lambda x: torch.zeros(math.ceil(math.log2(x.shape[0]))), r"log2\(H\) rounded up is no exact expression"),
        (lambda x: x if 1 - 1 / x.shape[0] > 0.5 else x + 1, "no exact ratio of sizes"),
        (lambda x: x * 2 ** x.shape[0], r"2 \*\* H, an integer"),
        (lambda x: x * squared(1 / x.shape[0] + 1, 30), "in more than 200 steps"),
    ],
)  # fmt: skip
def test_inexact_floats_are_no_sizes_and_no_answers(function: Callable[[torch.Tensor], Any], message: str) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        capture(function, (torch.randn(8, 6),), dynamic_shapes=HW)
    assert "test_sizes.py" in str(caught.value)


@pytest.mark.parametrize("factor", [0.1, 0.7, 2.3])
def test_a_size_times_a_float(factor: float) -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.zeros(math.floor(x.shape[0] * factor)), x * (x.shape[0] * factor)

    net = isthmus.compile(function, torch.randn(8, 6), dynamic_shapes=HW)
    for size in (3, 10, 110, 170):
        x = torch.randn(size, 6)
        torch.testing.assert_close(net(x), function(x))


def on_data(x: torch.Tensor) -> Any:
    kept = x[x > 0]
    return kept if kept.shape[0] > 3 else kept * 2


def test_a_branch_on_a_size_from_data_is_recorded() -> None:
    captured = capture(on_data, (torch.randn(8, 6),))
    assert [str(a) for a in captured.graph.symbols.assumptions] == ["u0 > 3"]


def test_a_branch_on_a_size_from_data_is_refused() -> None:
    with pytest.raises(CaptureError, match="the model branches on u0 > 3, and u0 depends on data"):
        capture(on_data, (torch.randn(8, 6),), options=CaptureOptions(on_size_branch="refuse"))


def test_a_number_from_data_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"the number of a tensor, `range\(x.item\(\)\)`, that depends on the input x"):
        capture(lambda x: sum(range(x.item())) + x, (torch.tensor(3),))


def test_checks_are_recorded() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] <= 100)
        return x

    captured = capture(model, (torch.randn(8, 6),), dynamic_shapes=HW)
    assert captured.graph.symbols.by_name["H"].hi == 100


@pytest.mark.parametrize("den", [1, 2, 3, 4, 7, 12])
def test_ratios_round_as_floats_do(den: int) -> None:
    n = Symbol("n")
    ratio = Ratio(3 * n.dim + 1, den)
    for value in range(1, 200):
        exact = (3 * value + 1) / den
        rounded = (ratio.floor(), ratio.ceil(), ratio.round())
        assert [evaluate(dim, {n: value}) for dim in rounded if dim is not None] == [
            math.floor(exact), math.ceil(exact), round(exact),
        ]  # fmt: skip


def test_square_roots() -> None:
    table = Symbols()
    a, b = table.declare("a").dim, table.declare("b").dim
    assert square_root(a * a * b * b * 9) == 3 * a * b
    assert square_root(49) == 7
    assert square_root(a * b) is None
    assert square_root(a * a + 1) is None
    assert isinstance(a, Expr)


def test_sizes_of_an_earlier_capture_are_refused() -> None:
    kept: list[Any] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        kept.append(x.shape[0])
        return torch.zeros(kept[0])

    with pytest.raises(IsthmusError, match="a size of an earlier capture"):
        capture(model, (torch.randn(8),), dynamic_shapes=({0: "N"},))


def test_a_size_as_a_key() -> None:
    with pytest.raises(CaptureError, match="a dynamic size is the key of a dict") as caught:
        capture(lambda x: {x.shape[0]: x}, (torch.randn(8),), dynamic_shapes=({0: "N"},))
    assert "test_sizes.py" in str(caught.value)


@torch.jit.script
def scripted_loop(x: torch.Tensor) -> torch.Tensor:
    for i in range(x.size(0)):
        x = x + i
    return x


def test_a_scripted_loop_over_a_size_is_not_unrolled() -> None:
    captured = agree(lambda x: scripted_loop(x), (torch.randn(8),), dynamic=({0: "N"},), sizes=[{"N": 3}, {"N": 1}])
    assert "loop" in [node.op.name for node in captured.graph.nodes]


class Cache(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 8, 4))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.keys[:, position] = x
        return self.keys.sum(1) + x


def test_a_place_from_data() -> None:
    captured = agree(Cache(), (torch.randn(2, 4), torch.tensor(3)), buffers="output")
    assert "i0 < 8" in [str(a) for a in captured.graph.symbols.assumptions]


def assumed(captured: TorchCaptured) -> list[str]:
    return [str(assumption) for assumption in captured.graph.symbols.assumptions]


def asks_for_nothing(x: torch.Tensor) -> Any:
    flat = x.shape[0] > 1 and x.dim() == 1
    return x.sum(0, keepdim=bool(flat))


def test_a_branch_with_equal_outcomes_is_no_assumption() -> None:
    captured = agree(asks_for_nothing, (torch.randn(4, 3),), dynamic=({0: "N"},), sizes=[{"N": 1}, {"N": 7}])
    symbol = captured.graph.symbols.by_name["N"]
    assert not captured.graph.symbols.assumptions
    assert (symbol.lo, symbol.hint) == (1, 4)


def asks_for_a_reason(x: torch.Tensor) -> Any:
    return x + 1 if x.shape[0] > 1 else x * 2


def test_a_branch_with_other_outcomes_stays_an_assumption() -> None:
    captured = agree(asks_for_a_reason, (torch.randn(4, 3),), dynamic=({0: "N"},), sizes=[{"N": 2}, {"N": 7}])
    assert [str(assumption) for assumption in captured.graph.symbols.assumptions] == ["N > 1"]
    assert captured.graph.symbols.by_name["N"].lo == 2


def asks_twice(x: torch.Tensor) -> Any:
    many, long = bool(x.shape[0] > 1), bool(x.shape[1] > 1)
    return x * 2 if many or long else x + 1


def test_only_combinations_that_were_watched_are_let_go() -> None:
    captured = agree(asks_twice, (torch.randn(4, 3),), dynamic=({0: "N", 1: "S"},), sizes=[{"N": 1}])
    assert [str(assumption) for assumption in captured.graph.symbols.assumptions] == ["S > 1"]
    assert captured.graph.symbols.by_name["S"].lo == 2


def asks_all(x: torch.Tensor) -> Any:
    flat = x.shape[0] > 1 and x.shape[1] > 4 and x.shape[2] != 1 and x.dim() == 1
    return x.sum(0, keepdim=bool(flat)) * 2


def test_three_sizes_are_watched_in_every_combination() -> None:
    sizes = [{"N": 1, "S": 6, "T": 1}, {"N": 6, "S": 1, "T": 2}, {"N": 1, "S": 1, "T": 3}, {"N": 1, "S": 1, "T": 1}]
    captured = agree(asks_all, (torch.randn(4, 8, 5),), dynamic=({0: "N", 1: "S", 2: "T"},), sizes=sizes)
    assert not captured.graph.symbols.assumptions


def refuses_one(x: torch.Tensor) -> Any:
    if x.shape[0] < 2:
        raise ValueError("too few")
    return x + 1


def test_what_was_taken_for_granted_is_so_in_the_other_part() -> None:
    """The other watch asks `S <= 8` as well, where it is below anyway: the slice must be the same."""
    table = torch.randn(8, 3)

    def embedded(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 8:
            raise ValueError("too long")
        long = x.shape[1] > 1 and x.dim() == 5
        return x + table[: x.shape[1]] * (2 if long else 1)

    captured = agree(embedded, (torch.rand(2, 4, 3),), dynamic={"x": {0: "N", 1: "S"}}, sizes=[{"N": 3, "S": 1}])
    assert assumed(captured) == ["S <= 8"]


def test_attention_of_one_query_and_one_key_is_causal_or_not() -> None:
    def attention(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, is_causal=bool(x.shape[1] > 1))

    def other(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, is_causal=bool(x.shape[1] > 1 and x.dim() > 3))

    for model in (attention, other):
        captured = agree(model, (torch.rand(2, 4, 3),), dynamic={"x": {0: "N", 1: "S"}}, sizes=[{"N": 3, "S": 1}])
        assert not assumed(captured)


def test_what_does_nothing_at_one_size_is_no_other_graph() -> None:
    """Positions of a decoder, as transformers makes them where no mask is given."""

    def positions(x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])[None]
        if places.shape[0] != x.shape[0]:
            places = places.expand(x.shape[0], -1)
        steps = torch.diff(places, prepend=places[:, :1] - 1)
        return F.scaled_dot_product_attention(x, x, x, is_causal=bool(x.shape[1] > 1)) + steps[..., None]

    sizes = [{"N": 1, "S": 5}, {"N": 3, "S": 1}, {"N": 1, "S": 1}]
    captured = agree(positions, (torch.rand(2, 4, 3),), dynamic={"x": {0: "N", 1: "S"}}, sizes=sizes)
    assert not assumed(captured)


def test_what_does_something_at_one_size_is_another_graph() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[0] != 1 else x.expand(2, -1)

    captured = agree(doubled, (torch.rand(4, 3),), dynamic={"x": {0: "N"}}, sizes=[{"N": 2}])
    assert assumed(captured) == ["N != 1"]


def test_an_inequality_of_a_quotient_is_one_of_the_size() -> None:
    def pooled(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if (x.shape[0] + 10) // 20 - 1 > 1 else x

    captured = agree(pooled, (torch.rand(61),), dynamic={"x": {0: "N"}}, sizes=[{"N": 50}])
    assert assumed(captured) == ["N >= 50"]
    captured = agree(pooled, (torch.rand(31),), dynamic={"x": {0: "N"}}, sizes=[{"N": 49}], second_watch=False)
    assert assumed(captured)[-1] == "N <= 49"


def test_a_model_that_says_no_keeps_its_limit() -> None:
    captured = capture(refuses_one, (torch.randn(4, 3),), dynamic_shapes=({0: "N"},))
    assert [str(assumption) for assumption in captured.graph.symbols.assumptions] == ["N >= 2"]


def test_ranges_over_sizes() -> None:
    def model(x: torch.Tensor) -> Any:
        size = x.shape[0]
        ranges = torch.arange(size, 0, -1), torch.arange(2 * size, 0, -2)
        spaced = torch.linspace(x[0], 1, size), torch.logspace(-1, 1, size), torch.logspace(0, x[-1], size + 1, 2.0)
        return ranges, torch.linspace(0, 1, size), torch.linspace(2, -1, size + 1), spaced

    agree(model, (torch.randn(4),), dynamic=({0: "N"},), sizes=[{"N": size} for size in (1, 2, 3, 6, 7)])
