"""Types of results where sizes are symbols, and the mistakes that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isthmus.ir import Builder, Dim, Graph, dims
from isthmus.ir.dims import bounds, floordiv
from isthmus.ir.dtypes import DType, bool_, f32, i64
from isthmus.ir.errors import InferError, UnknownSizeError
from isthmus.ir.shape_values import LIMIT, elements
from isthmus.ir.types import Tensor, resolved


class World:
    """A graph with the symbols N and M (1 and up), and a way to call ops on inputs of given shapes."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.b = Builder(self.graph)
        self.n = self.graph.symbols.declare("N").dim
        self.m = self.graph.symbols.declare("M").dim

    def x(self, *shape: Dim, dtype: DType = f32) -> Any:
        return self.graph.add_input(Tensor(dtype, shape))

    def shape(self, op: str, *operands: Any, **attrs: Any) -> Any:
        found = getattr(self.b, op)(*operands, **attrs)
        first = found[0] if isinstance(found, tuple) else found
        type = resolved(first.type)
        assert isinstance(type, Tensor)
        return type.shape

    @property
    def assumed(self) -> list[str]:
        return [str(assumption) for assumption in self.graph.symbols.assumptions]


@pytest.fixture
def w() -> World:
    return World()


def test_broadcast(w: World) -> None:
    n, m = w.n, w.m
    assert w.shape("add", w.x(n, 1), w.x(1, m)) == (n, m)
    assert w.shape("where", w.x(n, 1, dtype=bool_), w.x(m), w.x()) == (n, m)
    assert not w.assumed
    assert w.shape("add", w.x(n), w.x(m)) == (n,)
    assert len(w.assumed) == 1
    assert w.shape("add", w.x(n), w.x(m)) == (n,)
    assert len(w.assumed) == 1, "what is assumed once is known"


def test_reshape(w: World) -> None:
    n, m = w.n, w.m
    assert w.shape("reshape", w.x(n, m, 6), shape=[n, 2, m * 3]) == (n, 2, m * 3)
    assert w.shape("reshape", w.x(n, 4), shape=[n * 2, 2]) == (n * 2, 2)
    assert not w.assumed
    assert w.shape("reshape", w.x(n, m), shape=[12]) == (12,)
    assert len(w.assumed) == 1
    with pytest.raises(InferError, match="numbers of elements"):
        w.shape("reshape", w.x(n, 3), shape=[n, 4])
    with pytest.raises(InferError, match="numbers of elements"):
        w.shape("reshape", w.x(2, 3), shape=[7])
    with pytest.raises(InferError, match="negative"):
        w.shape("reshape", w.x(2, 3), shape=[-1, 3])


def test_squeeze_assumes_one(w: World) -> None:
    assert w.shape("squeeze", w.x(w.n, 3), axes=[0]) == (3,)
    assert w.assumed == ["N == 1"]
    with pytest.raises(InferError, match="squeezed axis 1"):
        w.shape("squeeze", w.x(1, 3), axes=[1])


def test_expand(w: World) -> None:
    n, m = w.n, w.m
    assert w.shape("expand", w.x(1, m), shape=[n, m]) == (n, m)
    assert not w.assumed
    assert w.shape("expand", w.x(n), shape=[5]) == (5,)
    assert w.assumed == ["N == 5"]
    with pytest.raises(InferError, match="expanded sizes"):
        w.shape("expand", w.x(3), shape=[4])
    with pytest.raises(InferError, match="cannot be expanded"):
        w.shape("expand", w.x(3, 3), shape=[3])


def test_slice(w: World) -> None:
    n = w.n
    assert w.shape("slice", w.x(n, 9), axes=[0, 1], starts=[0, 1], ends=[n, 8], steps=[2, 3]) == (dims.ceildiv(n, 2), 3)
    assert w.shape("slice", w.x(n), axes=[0], starts=[1], ends=[n], steps=[1]) == (n - 1,)
    for attrs, message in (
        ({"starts": [3], "ends": [2], "steps": [1]}, "no part 3:2"),
        ({"starts": [0], "ends": [10], "steps": [1]}, "no part 0:10"),
        ({"starts": [0], "ends": [2], "steps": [0]}, "not positive"),
        ({"starts": [0, 1], "ends": [2], "steps": [1]}, "same length"),
    ):
        with pytest.raises(InferError, match=message):
            w.shape("slice", w.x(9), axes=[0], **attrs)


def test_concat_and_split(w: World) -> None:
    n, m = w.n, w.m
    assert w.shape("concat", [w.x(n, 2), w.x(m, 2), w.x(3, 2)], axis=0) == (n + m + 3, 2)
    assert [value.tensor.shape for value in w.b.split(w.x(n * 3), axis=0, sizes=[n, n * 2])] == [(n,), (n * 2,)]
    assert not w.assumed
    w.b.split(w.x(m), axis=0, sizes=[2, 3])
    assert w.assumed == ["M == 5"]
    with pytest.raises(InferError, match="sum of the parts"):
        w.b.split(w.x(6), axis=0, sizes=[2, 3])
    with pytest.raises(InferError, match="sizes of axis 1"):
        w.b.concat([w.x(1, 2), w.x(1, 3)], axis=0)
    with pytest.raises(InferError, match="at least one"):
        w.b.concat([], axis=0)


def test_matmul(w: World) -> None:
    n, m = w.n, w.m
    assert w.shape("matmul", w.x(n, 1, 2, 3), w.x(m, 3, 4)) == (n, m, 2, 4)
    assert w.shape("matmul", w.x(3), w.x(n, 3, 4)) == (n, 4)
    assert w.shape("matmul", w.x(n, 2, 3), w.x(3)) == (n, 2)
    assert w.shape("linear", w.x(n, m, 3), w.x(5, 3), w.x(5)) == (n, m, 5)
    assert not w.assumed
    for operands in ((w.x(2, 3), w.x(4, 2)), (w.x(), w.x(3)), (w.x(3), w.x())):
        with pytest.raises(InferError):
            w.b.matmul(*operands)
    for operands in ((w.x(2, 3), w.x(4, 2)), (w.x(2, 3), w.x(3)), (w.x(2, 3), w.x(4, 3), w.x(3))):
        with pytest.raises(InferError):
            w.b.linear(*operands)


def test_einsum(w: World) -> None:
    n, m = w.n, w.m
    assert w.shape("einsum", [w.x(n, m, 3), w.x(3, n)], equation="abc,ca->ba") == (m, n)
    assert w.shape("einsum", [w.x(n, 1, 2, 3), w.x(m, 3, 4)], equation="...ij,...jk->...ki") == (n, m, 4, 2)
    for equation in ("ab,bc->ad", "ab->a", "ab,bc,c->a", "ab,bc->aa", "a!,bc->a", "abc,bc->a", "abcd...,bc->a"):
        with pytest.raises(InferError):
            w.b.einsum([w.x(2, 3), w.x(3, 4)], equation=equation)
    with pytest.raises(InferError, match="sizes of 'b'"):
        w.b.einsum([w.x(2, 3), w.x(4, 5)], equation="ab,bc->ac")


def test_reductions(w: World) -> None:
    n, m = w.n, w.m
    assert w.shape("reduce_sum", w.x(n, m, 3), axes=[0, -1]) == (m,)
    assert w.shape("reduce_sum", w.x(n, m, 3), axes=[1], keepdims=True) == (n, 1, 3)
    assert w.shape("argmax", w.x(n, m), axis=1) == (n,)
    with pytest.raises(InferError, match="twice"):
        w.b.reduce_sum(w.x(2, 3), axes=[1, -1])
    with pytest.raises(InferError, match="out of range"):
        w.b.reduce_sum(w.x(2, 3), axes=[2])


def test_shapes_from_dims(w: World) -> None:
    n, m = w.n, w.m
    assert w.shape("arange", stop=n) == (n,)
    assert w.shape("arange", start=n, stop=m) == (dims.maximum(0, m - n),)
    assert w.shape("arange", stop=n, step=2) == (dims.ceildiv(n, 2),)
    assert w.shape("pad", w.x(n, 3), before=[1, m], after=[0, 2]) == (n + 1, m + 5)
    assert w.shape("tile", w.x(n, 3), repeats=[m, 2]) == (n * m, 6)
    assert w.shape("one_hot", w.x(n, dtype=i64), depth=m, axis=0) == (m, n)
    assert w.shape("diagonal", w.x(n, n)) == (n,)
    assert w.shape("topk", w.x(n, 9), k=3, axis=1) == (n, 3)
    with pytest.raises(InferError, match="k is out of range"):
        w.b.topk(w.x(2), k=3, axis=0)
    with pytest.raises(InferError, match="step is 0"):
        w.b.arange(stop=3, step=0)


def test_gather_and_scatter(w: World) -> None:
    n, m = w.n, w.m
    assert w.shape("gather", w.x(n, 3), w.x(m, 2, dtype=i64), axis=0) == (m, 2, 3)
    assert w.shape("gather_elements", w.x(n, 3), w.x(m, 2, dtype=i64), axis=0) == (m, 2)
    assert w.shape("gather_nd", w.x(n, 3, 4), w.x(n, 5, 1, dtype=i64), batch_dims=1) == (n, 5, 4)
    assert w.shape("scatter_elements", w.x(n, 3), w.x(m, 2, dtype=i64), w.x(m, 2), axis=0) == (n, 3)
    assert w.shape("scatter_nd", w.x(n, 3), w.x(m, 1, dtype=i64), w.x(m, 3)) == (n, 3)
    assert not w.assumed
    with pytest.raises(InferError, match="reach out"):
        w.b.gather_elements(w.x(2, 3), w.x(2, 4, dtype=i64), axis=0)
    with pytest.raises(InferError, match="indices and updates"):
        w.b.scatter_elements(w.x(2, 3), w.x(2, 2, dtype=i64), w.x(1, 2), axis=0)
    with pytest.raises(UnknownSizeError, match="how many axes each names, is not known"):
        w.b.gather_nd(w.x(2, 3), w.x(2, n, dtype=i64))
    assert w.shape("scatter_nd", w.x(2, 3), w.x(2, n, dtype=i64), w.x(2, 3)) == (2, 3)
    assert w.b.graph.symbols.same(n, 1), "by the ranks"


def test_data_sized_results(w: World) -> None:
    (count, rank) = w.shape("nonzero", w.x(2, 3))
    assert bounds(count) == (0, 6)
    assert rank == 2
    (count,) = w.shape("unique", w.x(2, 3))
    assert bounds(count) == (1, 6)
    (count,) = w.shape("range", w.x(), w.x(), w.x())
    assert bounds(count) == (0, dims.INF)
    first, second = (w.shape("dynamic_reshape", w.x(w.n), w.x(2, dtype=i64)) for _ in range(2))
    assert not set(first) & set(second), "new symbols each time"
    value = w.b.dynamic_reshape(w.x(w.n), w.x(w.m, dtype=i64))
    assert value.tensor.shape is None


def test_computed_shapes_are_followed(w: World) -> None:
    n, m, b = w.n, w.m, w.b
    size = b.size
    # what shape -> gather -> arithmetic -> concat -> reshape comes to
    shape = b.concat([b.reshape(size(value), shape=[1]) for value in (n, m, 6)], axis=0)
    assert elements(shape) == (n, m, 6)
    head = b.gather(shape, b.constant(np.int64(0)), axis=0)
    rest = b.reduce_prod(b.slice(shape, axes=[0], starts=[1], ends=[3], steps=[1]), axes=[0])
    wanted = b.concat([b.unsqueeze(head, axes=[0]), b.unsqueeze(b.div(rest, b.constant(np.int64(3))), axes=[0])], axis=0)
    assert elements(wanted) == (n, m * 2)
    wanted = b.concat([wanted, b.constant(np.array([-1]))], axis=0)
    assert w.shape("dynamic_reshape", w.x(n, m, 6), wanted) == (n, m * 2, 3)
    assert w.shape("dynamic_expand", w.x(1, 1, 1), shape) == (n, m, 6)
    zero, one = b.constant(np.int64(0)), b.constant(np.int64(1))
    assert w.shape("range", zero, size(n), one) == (n,)
    ends = b.unsqueeze(b.sub(size(n), one), axes=[0])
    assert w.shape("dynamic_slice", w.x(n), b.constant(np.array([1])), ends, axes=[0], steps=[1]) == (dims.maximum(0, n - 2),)
    minus = b.constant(np.array([-1]))
    assert w.shape("dynamic_slice", w.x(n), b.constant(np.array([0])), minus, axes=[0], steps=[1]) == (n - 1,)
    assert not w.assumed


def test_elements_are_not_guessed(w: World) -> None:
    b, n = w.b, w.n
    assert elements(w.x(2, dtype=i64)) is None
    assert elements(None) is None
    assert elements(b.constant(np.float32(3))) is None
    assert elements(b.constant(np.zeros(65, np.int64))) is None
    three = b.constant(np.int64(3))
    assert elements(b.floor_div(b.size(n), three)) == (floordiv(n, 3),)
    unknown = b.size(w.graph.symbols.fresh("u", -5))
    (u,) = elements(unknown)
    assert elements(b.div(unknown, three)) == (dims.maximum(u, 0) // 3 - dims.maximum(-u, 0) // 3,), "rounded towards zero"
    assert elements(b.floor_div(three, unknown)) is None, "it may be zero"


def test_long_chains_are_given_up_not_recursed_into(w: World) -> None:
    value = w.b.size(w.n)
    one = w.b.constant(np.int64(1))
    for _ in range(10 * LIMIT):
        value = w.b.add(value, one)
    assert elements(value) is None


def test_unknown_rank_is_refused(w: World) -> None:
    x = w.graph.add_input(Tensor(f32, None))
    with pytest.raises(InferError, match="known rank"):
        w.b.relu(x)
