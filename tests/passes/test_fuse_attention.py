"""Attention is recovered from every spelling of its scores, scale, mask and heads, and not from what gives other numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from golden import assert_same, check, draw_inputs

from isthmus.ir import Builder, Graph, Node, Tensor
from isthmus.ir.dtypes import f32
from isthmus.ir.interpreter import run
from isthmus.passes import Canonicalize, CommonSubexpressions, DeadCode, Fold, Fuse, run_passes

LENGTH, HEADS, WIDTH = 5, 2, 8
LOWER = np.tri(LENGTH, dtype=bool)
HIDING = np.where(LOWER, 0, -np.inf).astype(np.float32)


def recovered(build: Any, *shape: Any) -> tuple[list[str], Node | None]:
    """The ops that are left, and the attention among them; numbers and validity are checked on the way."""
    g = Graph()
    b: Any = Builder(g)
    n = g.symbols.declare("N").dim
    x = g.add_input(Tensor(f32, (n, *(shape or (LENGTH, HEADS * WIDTH)))), "x")
    g.set_outputs([build(b, x)])
    inputs = draw_inputs(g)
    before = run(g, inputs)
    run_passes(g, [CommonSubexpressions(), Canonicalize(), Fuse(), Canonicalize(), Fold(), DeadCode()], verify=True)
    assert_same(before, run(g, inputs), 1e-5)
    nodes = [node for node in g.nodes if node.op.name != "constant"]
    return [node.op.name for node in nodes], next((node for node in nodes if node.op.name == "attention"), None)


def split(b: Any, x: Any, factor: float, heads: int = HEADS) -> Any:
    """Heads of x times a matrix of its own."""
    width = x.tensor.shape[2]
    weight = np.random.default_rng(int(factor * 10)).standard_normal((width, heads * WIDTH)).astype(np.float32)
    y = b.matmul(x, weight)
    return b.permute(b.reshape(y, shape=[x.tensor.shape[0], LENGTH, heads, WIDTH]), perm=[0, 2, 1, 3])


def qkv(b: Any, x: Any) -> Any:
    return [split(b, x, factor) for factor in (1.0, 2.0, 3.0)]


def turned(b: Any, k: Any) -> Any:
    return b.permute(k, perm=[0, 1, 3, 2])


ROOT = math.sqrt(WIDTH)
FOURTH = math.sqrt(ROOT)
SCORES: dict[str, Any] = {
    "plain": lambda b, q, k: b.matmul(q, turned(b, k)),
    "behind, by product": lambda b, q, k: b.mul(1 / ROOT, b.matmul(q, turned(b, k))),
    "behind, by quotient": lambda b, q, k: b.div(b.matmul(q, turned(b, k)), ROOT),
    "before, of the queries": lambda b, q, k: b.matmul(b.mul(q, 1 / ROOT), turned(b, k)),
    "before, by quotient": lambda b, q, k: b.matmul(b.div(q, ROOT), turned(b, k)),
    "before, of the keys": lambda b, q, k: b.matmul(q, turned(b, b.mul(k, 1 / ROOT))),
    "before, of the turned keys": lambda b, q, k: b.matmul(q, b.div(turned(b, k), ROOT)),
    "before, of both": lambda b, q, k: b.matmul(b.mul(q, 1 / FOURTH), turned(b, b.mul(k, 1 / FOURTH))),
    "before and behind": lambda b, q, k: b.div(b.matmul(b.mul(q, 0.5), turned(b, k)), 3.0),
    "keys that come turned": lambda b, q, k: b.mul(
        b.matmul(q, b.reshape(k, shape=[k.tensor.shape[0], HEADS, WIDTH, LENGTH])), 0.3
    ),
}  # fmt: skip
SCALES = {"plain": 1.0, "before and behind": 1 / 6, "keys that come turned": 0.3}
MASKS: dict[str, Any] = {
    "none": lambda b, s: s,
    "added": lambda b, s: b.add(s, np.random.default_rng(0).standard_normal((LENGTH, LENGTH)).astype(np.float32)),
    "added before": lambda b, s: b.add(HIDING, s),
    "kept": lambda b, s: b.where(np.eye(LENGTH, dtype=bool) | LOWER.T, s, np.float32(-np.inf)),
    "hidden": lambda b, s: b.where(~LOWER, np.float32(-np.inf), s),
}


@pytest.mark.parametrize(("scores", "mask"), list(itertools.product(SCORES, MASKS)))
def test_every_spelling(scores: str, mask: str) -> None:
    def build(b: Any, x: Any) -> Any:
        q, k, v = qkv(b, x)
        return b.matmul(b.softmax(MASKS[mask](b, SCORES[scores](b, q, k)), axis=3), v)

    names, node = recovered(build)
    assert node is not None
    assert names[-1] == "attention"
    assert not {"softmax", "where", "mul", "div", "add"} & set(names)
    assert node.attrs["causal"] is (mask in ("added before", "hidden"))
    assert node.attrs["scale"] == pytest.approx(SCALES.get(scores, 1 / ROOT))


EQUATIONS = [
    ("bhid,bhjd->bhij", "bhij,bhjd->bhid", [0, 1, 2, 3]),
    ("...id,...jd->...ij", "...ij,...jd->...id", [0, 1, 2, 3]),
    ("bihd,bjhd->bhij", "bhij,bjhd->bihd", [0, 2, 1, 3]),
    ("bdhi,bdhj->bhij", "abcd,aebd->aebc", [0, 2, 3, 1]),
    ("ihbd,jhbd->bhij", "bhij,jhbd->ihbd", [2, 1, 0, 3]),
]


@pytest.mark.parametrize(("scores", "values", "places"), EQUATIONS, ids=[each[0] for each in EQUATIONS])
@pytest.mark.parametrize("mask", MASKS)
def test_by_einsum(scores: str, values: str, places: list[int], mask: str) -> None:
    """In any order of the axes; `places` is where those of ``[batch, heads, length, width]`` lie."""

    def build(b: Any, x: Any) -> Any:
        q, k, v = (b.permute(each, perm=list(np.argsort(places))) for each in qkv(b, x))
        weights = b.softmax(MASKS[mask](b, b.div(b.einsum([q, k], equation=scores), ROOT)), axis=3)
        return b.einsum([weights, v], equation=values)

    names, node = recovered(build)
    assert node is not None
    assert not {"einsum", "softmax"} & set(names)
    assert [value.tensor.shape[1:] for value in node.operands[:3]] == [(HEADS, LENGTH, WIDTH)] * 3  # type: ignore[union-attr,index]


@pytest.mark.parametrize(
    ("scores", "values"), [("bhid,bhjd->bhij", None), (None, "bhij,bhjd->bhid"), (None, "bhij,bhjd->bihd")]
)
def test_by_one_einsum(scores: str | None, values: str | None) -> None:
    def build(b: Any, x: Any) -> Any:
        q, k, v = qkv(b, x)
        weights = b.softmax(b.einsum([q, k], equation=scores) if scores else b.matmul(q, turned(b, k)), axis=3)
        return b.einsum([weights, v], equation=values) if values else b.matmul(weights, v)

    assert recovered(build)[1] is not None


@pytest.mark.parametrize(
    ("scores", "values"),
    [
        pytest.param("bhid,bhjd->bhji", "bhij,bhjd->bhid", id="over the queries"),
        pytest.param("bhid,bhjd->bhij", "bhij,bhid->bhjd", id="the rows are summed"),
        pytest.param("bhid,bhjd->bhij", "bhij,bhjd->bhd", id="all is summed"),
        pytest.param("bhid,bhid->bhi", "bhi,bhid->bhd", id="pairs"),
        pytest.param("bhid,bcjd->bhij", "bhij,bhjd->bhid", id="over the heads of the keys"),
    ],
)
def test_other_equations_stay(scores: str, values: str) -> None:
    def build(b: Any, x: Any) -> Any:
        q, k, v = qkv(b, x)
        weights = b.softmax(b.einsum([q, k], equation=scores), axis=-1)
        return b.einsum([weights, v], equation=values)

    assert recovered(build)[1] is None


def test_one_key_for_several_values_stays() -> None:
    def build(b: Any, x: Any) -> Any:
        q, k, v = qkv(b, x)
        first = b.slice(k, axes=[2], starts=[0], ends=[1], steps=[1])
        weights = b.softmax(b.einsum([q, first], equation="bhid,bhjd->bhij"), axis=-1)
        return b.einsum([weights, v], equation="bhij,bhjd->bhid")

    assert recovered(build)[1] is None


def test_heads_without_an_axis_of_their_own() -> None:
    def build(b: Any, x: Any) -> Any:
        return b.matmul(b.softmax(b.mul(b.matmul(x, b.permute(x, perm=[0, 2, 1])), 0.25), axis=-1), x)

    assert recovered(build)[0] == ["attention"]


def repeated(b: Any, k: Any, times: int, interleaved: bool = True) -> Any:
    batch, heads, length, width = k.tensor.shape
    place = 2 if interleaved else 1
    wide = [batch, heads, times, length, width] if interleaved else [batch, times, heads, length, width]
    return b.reshape(b.expand(b.unsqueeze(k, axes=[place]), shape=wide), shape=[batch, heads * times, length, width])


def shared(b: Any, x: Any, times: int, interleaved: bool = True) -> Any:
    q = split(b, x, 1.0, HEADS * times)
    k, v = (repeated(b, split(b, x, factor), times, interleaved) for factor in (2.0, 3.0))
    return b.attention(q, k, v, HIDING)


@pytest.mark.parametrize("times", [2, 3])
def test_heads_of_keys_that_are_repeated(times: int) -> None:
    names, node = recovered(lambda b, x: shared(b, x, times))
    assert node is not None
    assert "expand" not in names
    assert [value.tensor.shape[1] for value in node.operands[:3]] == [HEADS * times, HEADS, HEADS]  # type: ignore[union-attr,index]


def test_heads_repeated_in_another_order_stay() -> None:
    names, _ = recovered(lambda b, x: shared(b, x, 2, interleaved=False))
    assert names.count("expand") == 2


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda b, s: b.where(b.lt(s, 0.0), s, np.float32(-np.inf)), id="a mask of data"),
        pytest.param(lambda b, s: b.where(LOWER, s, np.float32(-1e9)), id="a finite number"),
        pytest.param(lambda b, s: b.where(np.tri(LENGTH, k=-1, dtype=bool), s, np.float32(-np.inf)), id="a row of nothing"),
        pytest.param(lambda b, s: b.mul(s, b.reduce_max(s, axes=[0, 1, 2, 3])), id="a scale of data"),
        pytest.param(lambda b, s: b.div(s, 0.0), id="a quotient by zero"),
        pytest.param(lambda b, s: b.add(s, b.reduce_max(s, axes=[3], keepdims=True)), id="an added mask of data"),
        pytest.param(lambda b, s: b.sub(0.0, s), id="a negative that is no factor"),
    ],
)
def test_lookalikes_stay(spoil: Any) -> None:
    def build(b: Any, x: Any) -> Any:
        q, k, v = qkv(b, x)
        return b.matmul(b.softmax(spoil(b, b.matmul(q, turned(b, k))), axis=3), v)

    assert recovered(build)[1] is None


def test_a_softmax_that_is_an_output_stays() -> None:
    def build(b: Any, x: Any) -> Any:
        q, k, v = qkv(b, x)
        weights = b.softmax(b.matmul(q, turned(b, k)), axis=3)
        return b.add(b.matmul(weights, v), b.reduce_sum(weights, axes=[3], keepdims=True))

    assert recovered(build)[1] is None


@pytest.mark.parametrize("mask", [np.tri(LENGTH, k=1, dtype=bool), np.where(LOWER, 0, -100).astype(np.float32), LOWER[:, :1]])
def test_masks_that_are_not_causal_stay(mask: Any) -> None:
    _, node = recovered(lambda b, x: b.attention(*qkv(b, x), mask))
    assert node is not None
    assert not node.attrs["causal"]
    assert node.operands[3] is not None


def test_golden_text() -> None:
    check(
        Fuse(),
        """
        symbol N
        graph @main(%q: f32[N, 2, 5, 8], %k: f32[N, 5, 2, 8], %v: f32[N, 2, 5, 8]) {
          %s: f32[] = constant() {value=weight<f32[] [0.5]>}
          %0: f32[N, 2, 8, 5] = permute(%k) {perm=[0, 2, 3, 1]}
          %1: f32[N, 2, 5, 8] = mul(%q, %s)
          %2: f32[N, 2, 5, 5] = matmul(%1, %0)
          %3: f32[N, 2, 5, 5] = softmax(%2) {axis=3}
          %4: f32[N, 2, 5, 8] = matmul(%3, %v)
          return %4
        }
        """,
        """
        symbol N
        graph @main(%q: f32[N, 2, 5, 8], %k: f32[N, 5, 2, 8], %v: f32[N, 2, 5, 8]) {
          %0: f32[N, 2, 5, 8] = permute(%k) {perm=[0, 2, 1, 3]}
          %1: f32[N, 2, 5, 8] = attention(%q, %0, %v, none) {scale=0.5}
          return %1
        }
        """,
    )
