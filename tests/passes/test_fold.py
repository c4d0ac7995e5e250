"""Folding makes constants, lazily where they are large, and never a larger model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isthmus.ir import Builder, Graph, LazyWeight, Tensor
from isthmus.ir.dtypes import f32, i64
from isthmus.ir.interpreter import run
from isthmus.passes import DeadCode, Fold, run_passes


def ops(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.walk()]


def weight_bytes(graph: Graph) -> int:
    return sum({weight.key: weight.nbytes for weight in graph.weights()}.values())


def draw(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_small_is_computed_at_once() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (3,)))
    g.set_outputs([b.add(x, b.mul(b.constant(draw(3)), 2.0))])
    Fold().apply(g)
    assert ops(g) == ["constant", "add"]
    (held,) = g.weights()
    np.testing.assert_array_equal(held.array(), draw(3) * 2)


def test_large_chain_becomes_one_lazy_weight_read_row_by_row() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (64, 64)))
    w, s = draw(64, 64), draw(64, 1)
    value = b.sub(b.mul(b.constant(w), b.constant(s)), 1.0)
    g.set_outputs([b.add(x, value)])
    Fold().apply(g)
    assert ops(g) == ["constant", "add"]
    (held,) = g.weights()
    assert isinstance(held, LazyWeight)
    assert held.row_wise
    np.testing.assert_array_equal(held.array(), w * s - 1)
    np.testing.assert_array_equal(held.rows(3, 9), (w * s - 1)[3:9])


def test_transposed_weight_is_lazy() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (2, 64)))
    w = draw(128, 64)
    g.set_outputs([b.matmul(x, b.permute(b.constant(w, name="w"), perm=[1, 0]))])
    Fold().apply(g)
    (held,) = g.weights()
    assert isinstance(held, LazyWeight)
    assert held.name == "w"
    assert b"".join(held.chunks()) == np.ascontiguousarray(w.T).tobytes()


@pytest.mark.parametrize("shared", [False, True])
def test_weight_used_elsewhere_is_not_doubled(shared: bool) -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (64, 64)))
    w = draw(64, 64)
    first = b.constant(w)
    second = first if shared else b.constant(w)  # two constants, one weight
    g.set_outputs([b.add(x, b.neg(first)), b.mul(x, second)])
    before = weight_bytes(g)
    Fold().apply(g)
    assert "neg" in ops(g)
    assert weight_bytes(g) == before


def test_expand_of_a_scalar_stays() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (64, 64)))
    g.set_outputs([b.add(x, b.expand(b.constant(1.0), shape=[64, 64]))])
    Fold().apply(g)
    assert ops(g) == ["constant", "expand", "add"]


def _table(count: int, weights: int) -> Graph:
    """A table of f32[count] that three nodes make of one number, in a model with so many bytes of weights."""
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (count,)))
    table = b.neg(b.exp(b.expand(b.constant(1.0), shape=[count])))
    w = b.constant(np.arange(weights // 4, dtype=np.float32))
    g.set_outputs([b.add(x, table), w])
    return g


@pytest.mark.parametrize(("weights", "folded"), [(0, False), (32 * 3000, False), (32 * 5000, True)])
def test_nodes_that_hang_together_are_folded_where_the_model_hardly_grows(weights: int, folded: bool) -> None:
    g = _table(1000, weights)
    before, (expected, _) = weight_bytes(g), run(g, [draw(1000)])
    Fold().apply(g)
    assert ("expand" not in ops(g)) is folded
    assert weight_bytes(g) <= before * 33 / 32 + 256
    np.testing.assert_array_equal(run(g, [draw(1000)])[0], expected)


def test_what_several_parts_add_counts_together() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (1000,)))
    tables = [b.neg(b.expand(b.constant(float(number)), shape=[1000])) for number in range(4)]
    g.set_outputs([*(b.add(x, table) for table in tables), b.constant(np.zeros(32 * 2100, np.float32))])
    Fold().apply(g)
    assert ops(g).count("expand") == 2


def test_symbolic_random_and_failing_nodes_stay() -> None:
    g = Graph()
    b = Builder(g)
    n = g.symbols.declare("N").dim
    g.add_input(Tensor(f32, (n,)))
    out_of_range = b.gather(b.constant(draw(3)), b.constant(np.array([7])), axis=0)
    g.set_outputs([b.arange(stop=n), b.bernoulli(b.constant(np.float32(0.5))), out_of_range])
    before = ops(g)
    Fold().apply(g)
    assert ops(g) == before


def test_data_sized_result_of_constants_gets_its_size() -> None:
    g = Graph()
    b = Builder(g)
    found = b.nonzero(b.constant(np.array([0, 1, 0, 2])))
    (count, _) = found.tensor.shape or ()
    g.set_outputs([found, b.expand(b.constant(3), shape=[count])])
    Fold().apply(g)
    assert [str(value.type) for value in g.outputs] == ["i64[2, 1]", "i64[2]"]
    np.testing.assert_array_equal(run(g, [])[0], [[1], [3]])


def test_long_chains_need_no_recursion_and_diamonds_no_time() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (64, 64)))
    value = b.constant(draw(64, 64))
    for _ in range(5000):
        value = b.neg(value)
    for _ in range(60):
        value = b.maximum(value, value)
    g.set_outputs([b.add(x, value)])
    Fold().apply(g)
    assert ops(g) == ["constant", "add"]
    (held,) = g.weights()
    np.testing.assert_array_equal(held.array(), draw(64, 64))
    assert isinstance(hash(held.key), int)


def test_split_of_a_weight() -> None:
    g = Graph()
    b = Builder(g)
    w = draw(6, 512)
    parts = b.split(b.constant(w), axis=0, sizes=[2, 2, 2])
    xs = [g.add_input(Tensor(f32, (2, 512))) for _ in parts]
    g.set_outputs([b.add(x, part) for x, part in zip(xs, parts, strict=True)])
    before = weight_bytes(g)
    records = run_passes(g, [Fold(), DeadCode()])
    assert "split" not in ops(g)
    assert weight_bytes(g) == before
    assert records[0].counts == {"split": 1}
    assert records[0].changed
    assert not records[1].changed
    zeros = [np.zeros((2, 512), np.float32)] * 3
    np.testing.assert_array_equal(np.concatenate(run(g, zeros)), w)


def test_integers_of_sizes() -> None:
    g = Graph()
    b = Builder(g)
    g.set_outputs([b.add(b.size(3), b.size(4))])
    Fold().apply(g)
    assert g.outputs[0].tensor.dtype is i64
    assert run(g, [])[0] == 7
    assert ops(g) == ["constant"]
