"""Control flow, nested modules and sequences, through the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from isthmus.ir import Builder, Graph, Optional, Tensor, Value, decompose
from isthmus.ir.dtypes import f32, i64
from isthmus.ir.errors import EvaluationError, InferError
from isthmus.ir.interpreter import run
from isthmus.ir.location import Location
from isthmus.ir.types import Sequence as SequenceType

COUNT = Tensor(i64, ())
SCALAR = Tensor(f32, ())


def numbers(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def vector(graph: Graph, name: str = "x", size: str | int = "N") -> Value:
    dim = size if isinstance(size, int) else graph.symbols.declare(size).dim
    return graph.add_input(Tensor(f32, (dim,)), name)


def shapes(values: Sequence[Value]) -> list[str]:
    return [str(value.type) for value in values]


# ---- if


def branch(then: Callable[..., Any], other: Callable[..., Any]) -> tuple[Graph, tuple[Value, ...]]:
    """A graph of a bool, a vector and an `if` whose branches are given a builder and the vector."""
    graph = Graph()
    b = Builder(graph)
    cond = graph.add_input(Tensor(b.constant(True).tensor.dtype, ()), "cond")
    x = vector(graph)
    regions = [b.subgraph([], lambda b: then(b, x), "then"), b.subgraph([], lambda b: other(b, x), "else")]
    found = b.if_(cond, regions=regions)
    results = found if isinstance(found, tuple) else (found,)
    graph.set_outputs(results)
    return graph, results


def test_if_takes_one_branch_and_sees_outer_values() -> None:
    graph, results = branch(lambda b, x: b.add(x, x), lambda b, x: x)
    assert shapes(results) == ["f32[N]"]
    assert run(graph, [np.True_, numbers(1, 2)])[0].tolist() == [2, 4]
    assert run(graph, [np.False_, numbers(1, 2)])[0].tolist() == [1, 2]


def test_if_runs_only_the_branch_that_is_taken() -> None:
    def failing(b: Builder, x: Value) -> Value:
        b.check(b.constant(False), message="not to be run")
        return x

    graph, _ = branch(lambda b, x: x, failing)
    assert run(graph, [np.True_, numbers(1)])[0].tolist() == [1]
    with pytest.raises(EvaluationError, match="not to be run"):
        run(graph, [np.False_, numbers(1)])


def test_if_merges_types() -> None:
    pair, row = np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32)
    graph, results = branch(lambda b, x: (b.constant(pair), x), lambda b, x: (b.constant(row), b.constant(numbers(1, 2))))
    assert shapes(results) == ["f32[u0, 3]", "f32[u1]"]
    first = results[0].tensor.shape
    assert first is not None
    assert [graph.symbols.by_name["u0"].lo, graph.symbols.by_name["u0"].hi] == [2, 4]
    assert [found.shape for found in run(graph, [np.True_, numbers(1, 2, 3)])] == [(2, 3), (3,)]
    assert [found.shape for found in run(graph, [np.False_, numbers(1, 2, 3)])] == [(4, 3), (2,)]

    _, results = branch(lambda b, x: x, lambda b, x: b.constant(1.0))
    assert shapes(results) == ["f32[*]"]
    _, results = branch(lambda b, x: b.sequence_construct([x]), lambda b, x: b.sequence_construct([b.constant(numbers(1))]))
    assert shapes(results) == ["seq<f32[?]>"]


@pytest.mark.parametrize(
    ("then", "other", "message"),
    [
        (lambda b, x: x, lambda b, x: b.constant(1), "output 0 has different types"),
        (lambda b, x: (x, x), lambda b, x: x, "the branches differ in the number of outputs"),
    ],
)
def test_if_refuses(then: Callable[..., Any], other: Callable[..., Any], message: str) -> None:
    with pytest.raises(InferError, match=message):
        branch(then, other)


# ---- loop


def loop(
    graph: Graph, types: Sequence[Any], body: Callable[..., Any], trip: Any, cond: Any, inputs: Sequence[Value], carried: int
) -> tuple[Value, ...]:
    """A loop at the end of a graph; its results become the graph's outputs."""
    b = Builder(graph)
    found = b.loop(trip, cond, list(inputs), carried=carried, regions=[b.subgraph([COUNT, *types], body)])
    results = found if isinstance(found, tuple) else (found,)
    graph.set_outputs(results)
    return results


def test_loop_carries_and_captures() -> None:
    graph = Graph()
    x = vector(graph)
    trip = graph.add_input(COUNT, "trip")
    results = loop(graph, [x.type], lambda b, turn, total: (b.constant(True), b.add(total, x)), trip, None, [x], 1)
    assert shapes(results) == ["f32[N]"]
    for turns in (0, 1, 5, -1):
        assert run(graph, [numbers(1, 2), np.int64(turns)])[0].tolist() == [1.0 + max(turns, 0), 2.0 + 2 * max(turns, 0)]


def test_while_ends_by_its_condition() -> None:
    graph = Graph()
    start = graph.add_input(SCALAR, "start")
    begin = Builder(graph).lt(start, 10.0)

    def double(b: Builder, turn: Value, x: Value) -> list[Value]:
        x = b.mul(x, 2.0)
        return [b.lt(x, 10.0), x, b.cast(turn, dtype=f32)]

    results = loop(graph, [SCALAR], double, None, begin, [start], 1)
    assert shapes(results) == ["f32[]", "f32[u0]"]
    last, turns = run(graph, [np.float32(1)])
    assert (last, turns.tolist()) == (16, [0, 1, 2, 3])
    last, turns = run(graph, [np.float32(11)])
    assert (last, turns.tolist(), turns.dtype) == (11, [], np.float32)


def test_scan_stacks_and_knows_the_number_of_turns() -> None:
    graph = Graph()
    rows = graph.add_input(Tensor(f32, (graph.symbols.declare("T", lo=0).dim, 3)), "rows")
    zero = Builder(graph).constant(np.zeros(3, np.float32))

    def add(b: Builder, turn: Value, total: Value, row: Value) -> list[Value]:
        total = b.add(total, row)
        return [b.constant(True), total, total]

    results = loop(graph, [zero.type, Tensor(f32, (3,))], add, None, None, [zero, rows], 1)
    assert shapes(results) == ["f32[3]", "f32[T, 3]"]
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    last, every = run(graph, [x])
    np.testing.assert_array_equal(every, x.cumsum(0))
    np.testing.assert_array_equal(last, x.sum(0))
    last, every = run(graph, [x[:0]])
    assert (last.tolist(), every.shape) == ([0, 0, 0], (0, 3))


def test_number_of_turns_from_a_size() -> None:
    def stack(limit: Callable[[Builder, Value], Any]) -> list[str]:
        graph = Graph()
        x = vector(graph)
        body = lambda b, turn: (b.constant(True), x)  # noqa: E731
        return shapes(loop(graph, [], body, limit(Builder(graph), x), None, [], 0))

    assert stack(lambda b, x: b.constant(4)) == ["f32[4, N]"]
    assert stack(lambda b, x: b.constant(-4)) == ["f32[0, N]"]
    assert stack(lambda b, x: b.size(x.tensor.shape[0])) == ["f32[N, N]"]  # type: ignore[index]
    assert stack(lambda b, x: b.graph.add_input(COUNT, "trip")) == ["f32[u0, N]"]


def test_a_carried_size_may_change() -> None:
    graph = Graph()
    x = vector(graph)
    trip = graph.add_input(COUNT, "trip")
    length = graph.symbols.fresh("length")

    def grow(b: Builder, turn: Value, grown: Value, kept: Value) -> list[Value]:
        return [b.constant(True), b.concat([grown, kept], axis=0), b.neg(kept)]

    kept = graph.symbols.fresh("kept")
    types = [Tensor(f32, (length,)), Tensor(f32, (kept,))]
    results = loop(graph, types, grow, trip, None, [x, x], 2)
    assert shapes(results) == ["f32[u0]", "f32[N]"]  # what the body hands on as it is keeps its size
    grown, negated = run(graph, [numbers(1, 2), np.int64(3)])
    assert grown.tolist() == [1, 2, 1, 2, -1, -2, 1, 2]
    assert negated.tolist() == [-1, -2]
    assert [found.tolist() for found in run(graph, [numbers(1, 2), np.int64(0)])] == [[1, 2], [1, 2]]


def test_scan_outputs_of_a_size_that_only_the_body_knows() -> None:
    graph = Graph()
    x = vector(graph)

    def body(b: Builder, turn: Value) -> list[Value]:
        return [b.constant(True), b.nonzero(x)]

    results = loop(graph, [], body, Builder(graph).constant(2), None, [], 0)
    (result,) = results
    assert result.tensor.shape is not None
    inner = next(node for node in graph.walk() if node.op.name == "nonzero").result.tensor.shape
    assert inner is not None
    assert result.tensor.shape[1] != inner[0]
    assert run(graph, [numbers(0, 5, 0, 6)])[0].tolist() == [[[1], [3]]] * 2


def test_nested_loops_and_branches() -> None:
    graph = Graph()
    x = vector(graph)
    n = graph.add_input(COUNT, "n")

    def outer(b: Builder, i: Value, total: Value) -> list[Value]:
        def inner(b: Builder, j: Value, total: Value) -> list[Value]:
            odd = b.eq(b.mod(b.add(i, j), 2), 1)
            step = b.if_(odd, regions=[b.subgraph([], lambda b: x), b.subgraph([], lambda b: b.mul(total, 2.0))])
            return [b.constant(True), b.add(total, step)]

        return [b.constant(True), b.loop(i, None, [total], carried=1, regions=[b.subgraph([COUNT, x.type], inner)])]

    loop(graph, [x.type], outer, n, None, [x], 1)
    start = numbers(1, -2)
    for turns in range(5):
        total = start
        for i in range(turns):
            for j in range(i):
                total = total + (start if (i + j) % 2 else total * 2)
        np.testing.assert_array_equal(run(graph, [start, np.int64(turns)])[0], total)


def test_a_sequence_is_carried() -> None:
    graph = Graph()
    b = Builder(graph)
    x = vector(graph)
    empty = b.sequence_empty(type=Tensor(f32, (None,)))  # type: ignore[arg-type]

    def body(b: Builder, turn: Value, items: Value) -> list[Value]:
        return [b.constant(True), b.sequence_insert(items, b.slice(x, axes=[0], starts=[0], ends=[1], steps=[1]))]

    results = loop(graph, [empty.type], body, b.constant(3), None, [empty], 1)
    assert shapes(results) == ["seq<f32[?]>"]
    joined = b.sequence_concat(results[0], axis=0)
    graph.set_outputs([joined, b.sequence_length(results[0]), b.sequence_at(results[0], -1)])
    joined, length, last = run(graph, [numbers(7, 8)])
    assert (joined.tolist(), int(length), last.tolist()) == ([7, 7, 7], 3, [7])


@pytest.mark.parametrize(
    ("types", "body", "message"),
    [
        ([SCALAR], lambda b, turn, x: (b.constant(True), b.cast(x, dtype=i64)), "carried value 0 after a turn has another"),
        ([SCALAR], lambda b, turn, x: (b.constant(1), x), "the body has wrong outputs"),
        ([SCALAR], lambda b, turn, x: (b.constant(True),), "the body has wrong outputs"),
        ([], lambda b, turn: (b.constant(True), turn), "the body has wrong arguments"),
        ([COUNT], lambda b, turn, x: (b.constant(True), x), "input 0 has another type"),
        ([Tensor(f32, (2,))], lambda b, turn, x: (b.constant(True), x), "input 0 has another type"),
    ],
)
def test_loop_refuses(types: list[Any], body: Callable[..., Any], message: str) -> None:
    graph = Graph()
    start = graph.add_input(SCALAR)
    with pytest.raises(InferError, match=message):
        loop(graph, types, body, None, None, [start], 1)


def test_loop_refuses_a_size_that_changes_unannounced() -> None:
    graph = Graph()
    start = vector(graph, size=2)
    with pytest.raises(InferError, match="carried value 0 after a turn and the body do not agree"):
        loop(graph, [start.type], lambda b, turn, x: (b.constant(True), b.concat([x, x], axis=0)), None, None, [start], 1)


# ---- composite


def test_composite_is_inlined_with_its_locations_and_sizes() -> None:
    graph = Graph()
    b = Builder(graph)
    m = graph.symbols.declare("M").dim
    rows = graph.symbols.declare("rows").dim
    x = graph.add_input(Tensor(f32, (m, 3)), "x")
    place = Location("model.py", 7, "forward", "block.0")

    def body(b: Builder, x: Value, y: Value) -> list[Value]:
        with b.at(place):
            return [b.reshape(b.add(x, y), shape=[rows * 3]), b.size(rows)]

    region = b.subgraph([Tensor(f32, (rows, 3)), Tensor(f32, (3,))], body)
    y = b.constant(numbers(1, 2, 3))
    results = b.composite([x, y], name="Block", regions=[region])
    graph.set_outputs(results)
    assert shapes(results) == ["f32[3*M]", "i64[]"]
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = run(graph, [array])
    assert expected[0].tolist() == [1, 3, 5, 4, 6, 8]
    assert int(expected[1]) == 2

    (node,) = (node for node in graph.nodes if node.op.name == "composite")
    values = decompose(node)
    assert values is not None
    node.replace_by(values)
    assert [node.op.name for node in graph.walk()] == ["constant", "add", "reshape", "size"]
    assert [node.location for node in graph.nodes if node.op.name in ("add", "reshape")] == [place, place]
    assert shapes(graph.outputs) == ["f32[3*M]", "i64[]"]
    for found, array_ in zip(run(graph, [array]), expected, strict=True):
        np.testing.assert_array_equal(found, array_)


def test_composite_with_control_flow_is_inlined() -> None:
    graph = Graph()
    b = Builder(graph)
    x = vector(graph)

    def body(b: Builder, x: Value) -> Value:
        turn = lambda b, i, total: [b.constant(True), b.add(total, x)]  # noqa: E731
        result: Value = b.loop(3, None, [x], carried=1, regions=[b.subgraph([COUNT, x.type], turn)])
        return result

    result = b.composite([x], name="Sum", regions=[b.subgraph([Tensor(f32, (graph.symbols.fresh("rows"),))], body)])
    graph.set_outputs([result])
    assert shapes([result]) == ["f32[N]"]
    (node,) = (node for node in graph.nodes if node.op.name == "composite")
    values = decompose(node)
    assert values is not None
    node.replace_by(values)
    assert shapes(graph.outputs) == ["f32[N]"]
    region = next(node for node in graph.nodes if node.regions).regions[0]
    assert str(region.inputs[1].type) == "f32[N]"
    assert run(graph, [numbers(1, 2)])[0].tolist() == [4, 8]


def test_composite_refuses_other_arguments() -> None:
    graph = Graph()
    b = Builder(graph)
    x = vector(graph, size=2)
    with pytest.raises(InferError, match="the body has another number of arguments"):
        b.composite([x, x], name="Block", regions=[b.subgraph([x.type], lambda b, x: x)])
    with pytest.raises(InferError, match="sizes of input 0 and the body do not agree"):
        b.composite([x], name="Block", regions=[b.subgraph([Tensor(f32, (3,))], lambda b, x: x)])


def test_custom_has_the_types_it_is_given_and_no_evaluation() -> None:
    graph = Graph()
    b = Builder(graph)
    x = vector(graph)
    result = b.custom([x], domain="acme", name="Magic", attributes={"level": 3}, types=[x.type])
    graph.set_outputs([result])
    assert shapes([result]) == ["f32[N]"]
    with pytest.raises(EvaluationError, match="nobody here knows the op"):
        run(graph, [numbers(1)])
    assert run(graph, [numbers(1)], foreign=lambda node, operands: (operands[0] * node.attrs["attributes"]["level"],)) == [3.0]


# ---- sequences and optionals


def test_sequences_of_different_sizes() -> None:
    graph = Graph()
    b = Builder(graph)
    x, y = vector(graph), vector(graph, "y", 3)
    seq = b.sequence_construct([x, y])
    more = b.sequence_insert(seq, x, 0)
    assert shapes([seq, more]) == ["seq<f32[?]>", "seq<f32[?]>"]
    taken = b.sequence_at(more, -1)
    joined = b.sequence_concat(more, axis=0)
    assert shapes([taken, joined]) == ["f32[u0]", "f32[u1]"]
    graph.set_outputs([more, taken, joined, b.sequence_length(more)])
    items, last, joined, length = run(graph, [numbers(1, 2), numbers(3, 4, 5)])
    assert [item.tolist() for item in items] == [[1, 2], [1, 2], [3, 4, 5]]
    assert (last.tolist(), joined.tolist(), int(length)) == ([3, 4, 5], [1, 2, 1, 2, 3, 4, 5], 3)


def test_sequences_refuse_mixed_dtypes_and_bad_places() -> None:
    graph = Graph()
    b = Builder(graph)
    x = vector(graph)
    with pytest.raises(InferError, match="dtype"):
        b.sequence_construct([x, b.constant(1)])
    seq = b.sequence_construct([x])
    with pytest.raises(InferError, match="the element has different types"):
        b.sequence_insert(seq, b.constant(numbers(1).astype(np.float64)))
    with pytest.raises(InferError, match="must be a sequence"):
        b.sequence_length(x)
    graph.set_outputs([b.sequence_insert(seq, x, 5)])
    with pytest.raises(EvaluationError, match="index 5 is out of range for a sequence of 1"):
        run(graph, [numbers(1)])


def test_optionals() -> None:
    graph = Graph()
    b = Builder(graph)
    o = graph.add_input(Optional(Tensor(f32, (3,))), "o")
    has = b.optional_has(o)

    def filled(b: Builder) -> Value:
        result: Value = b.optional_get(o)
        return result

    result = b.if_(has, regions=[b.subgraph([], filled), b.subgraph([], lambda b: b.constant(np.zeros(3, np.float32)))])
    graph.set_outputs([has, result, b.optional_some(result), b.optional_none(type=SequenceType(SCALAR))])
    assert shapes(graph.outputs) == ["bool[]", "f32[3]", "opt<f32[3]>", "opt<seq<f32[]>>"]
    for content in (numbers(1, 2, 3), None):
        has_it, found, some, nothing = run(graph, [content])
        assert bool(has_it) == (content is not None)
        assert found.tolist() == some.tolist() == ([0, 0, 0] if content is None else [1, 2, 3])
        assert nothing is None


# ---- random and effects


def test_random_ops_draw_anew_each_time() -> None:
    graph = Graph()
    b = Builder(graph)
    n = vector(graph).tensor.shape[0]  # type: ignore[index]
    p = b.expand(b.constant(0.25), shape=[4000])
    graph.set_outputs([
        b.random_uniform(shape=[n, 1000], dtype=f32, low=-1.0, high=3.0),
        b.random_normal(shape=[n, 1000], dtype=f32, mean=5.0, std=0.5),
        b.bernoulli(p),
    ])  # fmt: skip
    first, second = (run(graph, [numbers(1, 2, 3, 4)]) for _ in range(2))
    for left, right in zip(first, second, strict=True):
        assert (left != right).any()
    uniform, normal, coins = first
    assert -1 <= uniform.min() < -0.9
    assert 2.9 < uniform.max() < 3
    # Means of 4000 draws: five standard errors around what they must be.
    for array, mean, deviation in ((uniform, 1.0, 4 / 12**0.5), (normal, 5.0, 0.5), (coins, 0.25, 0.25**0.5)):
        assert array.mean(dtype=np.float64) == pytest.approx(mean, abs=5 * deviation / 4000**0.5)
    assert set(coins.tolist()) == {0, 1}


def test_check_and_print(capsys: pytest.CaptureFixture[str]) -> None:
    graph = Graph()
    b = Builder(graph)
    x = vector(graph)
    b.location = Location("model.py", 3)
    assert b.print(x, message="x is") == ()
    assert b.check(b.reduce_all(b.gt(x, 0.0), axes=[0]), message="x must be positive") == ()
    graph.set_outputs([x])
    run(graph, [numbers(1, 2)])
    assert capsys.readouterr().out == "x is [1. 2.]\n"
    with pytest.raises(EvaluationError, match="x must be positive") as failure:
        run(graph, [numbers(-1)])
    assert "model.py:3" in str(failure.value)
