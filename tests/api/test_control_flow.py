"""Branches and loops of torch's own, compiled, run on other inputs than the example, and compared with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from control_flow import PROGRAMS, n, r
from torch._higher_order_ops.map import map as each
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

import isthmus
from isthmus.errors import CaptureError, UnsupportedError, UsageError

TARGETS: list[dict[str, Any]] = [{}, {"opset": 13}, {"opset": 17}, {"target": "reference"}]


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch_has_it(name: str) -> None:
    program = PROGRAMS[name]
    results = program.plainly()
    for target in TARGETS:
        net = isthmus.compile(program.model, program.calls[0], dynamic_shapes=program.dynamic, verify_ir=True, **target)
        for call, theirs in zip(program.calls, results, strict=True):
            found, spec = pytree.tree_flatten(net(*call))
            expected, expected_spec = pytree.tree_flatten(theirs)
            assert spec == expected_spec
            for ours, other in zip(found, expected, strict=True):
                assert type(ours) is type(other)
                if isinstance(ours, torch.Tensor):
                    torch.testing.assert_close(ours, other, rtol=program.tolerance, atol=program.tolerance)
                else:
                    assert ours == other


@pytest.mark.parametrize("name", ["structures", "carried_integer", "scans", "maps"])
def test_as_the_compiler_of_torch_has_it(name: str) -> None:
    """Which runs these operators where they stand plainly."""
    program = PROGRAMS[name]
    with torch.no_grad():
        theirs = program.model(*program.calls[0])
    found, spec = pytree.tree_flatten(theirs)
    expected, expected_spec = pytree.tree_flatten(program.plainly()[0])
    assert spec == expected_spec
    for ours, other in zip(found, expected, strict=True):
        assert type(ours) is type(other)
        torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-4)


def test_random_numbers_inside() -> None:
    def model(x: torch.Tensor) -> Any:
        a = torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), lambda x: torch.randn(x.shape[0], 4), (x,))
        return a, while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, torch.cat([y[1:], torch.rand(1, 4)])), (n(0), x))[1]

    net = isthmus.compile(model, (r(3, 4),), dynamic_shapes=[{0: "N"}])
    assert net.verify().ok
    for x in (r(5, 4).abs(), -r(5, 4).abs()):
        (a, b), (c, d) = net(x), net(x)
        assert a.shape == b.shape == (5, 4)
        assert not torch.equal(a, c)
        assert not torch.equal(b, d)
        torch.testing.assert_close(b[:2], x[3:])
        assert len({float(row[0]) for row in b[2:]}) == 3  # each turn draws its own


def test_random_numbers_drawn_before_are_the_same_in_all_turns() -> None:
    def model(x: torch.Tensor) -> Any:
        drawn = torch.rand(4)
        return each(lambda row: row * 0 + drawn, x), torch.cond(x.sum() > 0, lambda: drawn + 0, lambda: drawn + 1), drawn

    rows, chosen, drawn = isthmus.compile(model, (r(3, 4),))(r(3, 4).abs())
    torch.testing.assert_close(rows, drawn.expand(3, 4))
    torch.testing.assert_close(chosen, drawn)


def test_passes_work_inside() -> None:
    program = PROGRAMS["convolutions"]
    net = isthmus.compile(program.model, program.calls[0], dynamic_shapes=program.dynamic)
    branches = [region for node in net.graph.nodes if node.op.name == "if" for region in node.regions]
    assert [node.op.name for node in branches[0].nodes if node.op.name != "constant"] == ["conv", "relu"]
    assert [node.op.name for node in branches[2].nodes if node.op.name != "constant"] == ["batch_norm"]  # the conv is an output


def test_what_parameters_decide_is_decided() -> None:
    program = PROGRAMS["parameters"]
    net = isthmus.compile(program.model, program.calls[0])
    assert [node.op.name for node in net.graph.nodes if node.regions] == ["loop"]


def test_nothing_is_taken_for_granted() -> None:
    for name in ("carried_integer", "integers_in_one_another", "writes_inside", "predicate_of_a_size", "decoder", "scans",
                 "sizes_known_from_the_predicate"):  # fmt: skip
        program = PROGRAMS[name]
        net = isthmus.compile(program.model, program.calls[0], dynamic_shapes=program.dynamic, strict=True)
        assert not net.report.assumptions


@pytest.mark.parametrize("name", ["closures", "carried_integer", "scans", "in_one_another"])
def test_an_exported_program(name: str) -> None:
    program = PROGRAMS[name]
    names = {word: torch.export.Dim.DYNAMIC for spec in program.dynamic or () for word in (spec or {}).values()}
    dynamic = tuple(spec and {axis: names[word] for axis, word in spec.items()} for spec in program.dynamic or ())

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = program.model

        def forward(self, *args: torch.Tensor) -> Any:
            return self.held(*args)

    exported = torch.export.export(Module(), program.calls[0], dynamic_shapes=(dynamic,) if dynamic else None)
    net = isthmus.compile(exported, program.calls[0], dynamic_shapes=(program.dynamic,) if dynamic else None)
    for call, theirs in list(zip(program.calls, program.plainly(), strict=True))[:2]:  # torch makes 2 the least size
        leaves = [[leaf for leaf in pytree.tree_leaves(tree) if leaf is not None] for tree in (net(*call), theirs)]
        for ours, other in zip(*leaves, strict=True):
            torch.testing.assert_close(torch.as_tensor(ours), torch.as_tensor(other), rtol=1e-4, atol=1e-4)


class Chosen(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.l(x), lambda x: x[x.shape[0] // 2 :].sum() + x, (x,))


@pytest.mark.parametrize("coarse", ["Chosen", "Linear"])
@pytest.mark.parametrize("keep", [False, True])
def test_modules_kept_whole_inside(coarse: str, keep: bool) -> None:
    torch.manual_seed(0)
    module = Chosen()

    def step(c: torch.Tensor, row: torch.Tensor) -> Any:
        return c + module(row[None])[0], module(row[None])[0]

    class Around(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = module

        def forward(self, x: torch.Tensor) -> Any:
            return scan(step, x[0], x)

    net = isthmus.compile(Around(), (r(3, 4),), dynamic_shapes=[{0: "N"}], coarse=(coarse,), keep_functions=keep)
    for x in (r(5, 4), r(1, 4)):
        total, rows = net(x)
        expected = torch.stack([module(row[None])[0] for row in x]).detach()
        torch.testing.assert_close(rows, expected)
        torch.testing.assert_close(total, x[0] + expected.sum(0), rtol=1e-4, atol=1e-4)


def test_what_a_body_watched_twice_takes_for_granted_is_told() -> None:
    """Its number falls from turn to turn, which shows when it was watched once."""

    def model(x: torch.Tensor) -> Any:
        return while_loop(lambda i, y: i > 0, lambda i, y: (i - 1, y + (1 if x.shape[0] > 2 else 2)), (3, x))[1]

    net = isthmus.compile(model, (r(3, 4),), dynamic_shapes=[{0: "N"}])
    assert [assumption.partition(":")[0].split(" (")[0] for assumption in net.report.assumptions] == ["N > 2"]
    with pytest.raises(UsageError, match="N > 2"):
        net(r(2, 4))


# ---- a loop of Python's


def repeated(x: torch.Tensor, n: int) -> torch.Tensor:
    for turn in range(n):
        x = (x + turn).sin()
    return x


def test_a_loop_over_an_integer_argument_is_unrolled() -> None:
    x = r(3)
    net = isthmus.compile(repeated, (x, 5))
    assert [node.op.name for node in net.graph.nodes].count("sin") == 5
    torch.testing.assert_close(net(x, 5), repeated(x, 5))
    torch.testing.assert_close(net(x, n=5), repeated(x, 5))
    with pytest.raises(UsageError, match=r"differs from the example's(.|\n)*expected: 5(.|\n)*found: 6"):
        net(x, 6)


# ---- what is refused


def leak(x: torch.Tensor) -> Any:
    kept = []
    torch.cond(x.sum() > 0, lambda x: (kept.append(x * 2), x + 1)[1], lambda x: x + 0, (x,))
    return x + kept[0]


def leak_into_the_other_branch(x: torch.Tensor) -> Any:
    kept = []
    return torch.cond(x.sum() > 0, lambda x: (kept.append(x * 2), x + 1)[1], lambda x: x + kept[0], (x,))


def leak_of_a_size(x: torch.Tensor) -> Any:
    kept = []
    torch.cond(x.sum() > 0, lambda x: (kept.append(x[x > 0].shape[0]), x + 1)[1], lambda x: x + 0, (x,))
    return x + kept[0]


def leak_of_a_number(x: torch.Tensor) -> Any:
    kept = []
    while_loop(lambda i, y: i < 3, lambda i, y: (kept.append(i), i + 1, y * 2)[1:], (0, x))
    return x + kept[0]


def lies_otherwise(x: torch.Tensor) -> Any:
    """A write to a view in the first turn, to a copy in the second."""

    def body(i: torch.Tensor, y: torch.Tensor) -> Any:
        z = y.clone()
        z.reshape(-1).add_(1)
        return i + 1, (z * 2).t().contiguous().t()

    return while_loop(lambda i, y: i < 3, body, (n(0), x))


def written_where_it_may_be_the_input(x: torch.Tensor) -> Any:
    y = torch.cond(x.sum() > 0, lambda x: x, lambda x: x + 1, (x,))
    y.add_(1)
    return x * 2


def read_where_it_may_be_the_input(x: torch.Tensor) -> Any:
    z = x.clone()
    y = torch.cond(x.sum() > 0, lambda z: z[0], lambda z: z[1] * 2, (z,))
    z.add_(1)
    return y


def loop(body: Callable[..., Any], start: Any = 0) -> Callable[..., Any]:
    return lambda x: while_loop(lambda i, y: i < 5, body, (start, x))


def branch(then: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: torch.cond(x.sum() > 0, then, other, (x,))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (leak, "a tensor that a branch or the body of a loop made is used outside of it"),
        (leak_into_the_other_branch, "a tensor that a branch or the body of a loop made is used outside of it"),
        (leak_of_a_size, "a size that a branch or the body of a loop found is used outside of it"),
        (leak_of_a_number, "a size that a branch or the body of a loop found is used outside of it"),
        (written_where_it_may_be_the_input, r"torch.cond at (.*) gave either it or another tensor"),
        (read_where_it_may_be_the_input, r"torch.cond at (.*) gave either it or another tensor"),
        (lies_otherwise, "another one, and reshape at (.*) made either a view or a copy of it"),
        (branch(lambda x: x[0], lambda x: x + 0), r"returns f32\[4\], the other f32\[N, 4\]"),
        (branch(lambda x: x.int(), lambda x: x + 0), r"returns i32\[N, 4\], the other f32\[N, 4\]"),
        (branch(lambda x: (x + 1, 2), lambda x: (x, x.sum().long())), "returns an integer, the other i64"),
        (branch(lambda x: (x + 1,), lambda x: x + 0), "different structures"),
        (branch(lambda x: (x + 1, None), lambda x: (x + 0, x)), "different structures"),
        (branch(lambda x: (x + 1, 2.0), lambda x: (x + 0, 3.0)), "gets or gives 2.0"),
        (loop(lambda i, y: (i + 1, torch.cat([y, y[:1]]))), r"f32\[N, 4\] before a turn and f32\[N \+ 1, 4\] after it"),
        (loop(lambda i, y: (i + 1, y[y[:, 0] > 0])), r"f32\[N, 4\] before a turn and f32\[u0, 4\] after it"),
        (loop(lambda i, y: (i + 1, y.double())), r"f32\[N, 4\] before a turn and f64\[N, 4\] after it"),
        (loop(lambda i, y: (i + 1.5, y), n(0)), r"i64\[\] before a turn and f32\[\] after it"),
        (loop(lambda i, y: (i + 1,)), "returns 1 values for the 2 carried ones"),
        (loop(lambda i, y: (i + 1, y * 2 if i > 1 else y + 1)), "Python needs the truth of a tensor, `i > 1`"),
        (loop(lambda i, y: (i + 1, y * 2 if y.sum() > 1 else y + 1)), "Python needs the truth of a tensor, `y.sum"),
        (loop(lambda i, y: (i + 1, y + sum(range(i)))), "Python needs the number"),
        (loop(lambda i, y: (i + 1, y.add_(1))), "writes to a tensor from outside, or to its argument"),
        (branch(lambda x: x.add_(1) * 1, lambda x: x + 2), "writes to a tensor from outside, or to its argument"),
        (lambda x: each(lambda row: row.add_(1) * 1, x), "writes to a tensor from outside, or to its argument"),
        (lambda x: scan(lambda c, row: (c + row, x.add_(1) * row), x[0] * 0, x), "writes to a tensor from outside"),
    ],
)
def test_refused(model: Callable[..., Any], text: str) -> None:
    with pytest.raises((CaptureError, UnsupportedError), match=text) as caught:
        isthmus.compile(model, (r(3, 4),), dynamic_shapes=[{0: "N"}])
    assert "test_control_flow.py" in str(caught.value)


def test_a_constant_may_be_kept_from_a_branch() -> None:
    def model(x: torch.Tensor) -> Any:
        kept = []
        y = torch.cond(x.sum() > 0, lambda x: (kept.append(torch.arange(4.0) * 2), x + kept[0])[1], lambda x: x + 0, (x,))
        return y + kept[0]

    net = isthmus.compile(model, (r(3, 4),))
    torch.testing.assert_close(net(-torch.ones(3, 4)), torch.arange(4.0) * 2 - torch.ones(3, 4))


def test_a_number_after_a_loop_is_no_branch() -> None:
    def model(x: torch.Tensor) -> Any:
        i, y = while_loop(lambda i, y: (y < 9).all(), lambda i, y: (i + 1, y * 2), (0, x))
        return y * 2 if i > 3 else y

    with pytest.raises(CaptureError, match=r"Python needs the truth of a tensor, `i > 3`, that depends on the input x"):
        isthmus.compile(model, (torch.ones(3),))


def test_tensorrt_and_caffe_say_what_they_cannot() -> None:
    program = PROGRAMS["sizes_from_data_inside"]
    with pytest.raises(UnsupportedError, match="the sizes of its result depend on data, and TensorRT must know them"):
        isthmus.compile(program.model, program.calls[0], dynamic_shapes=program.dynamic, target="tensorrt")
    with pytest.raises(UnsupportedError, match="Caffe has no control flow, and loop is some"):
        isthmus.compile(program.model, program.calls[0], target="caffe")
