"""Sizes computed in the model become sizes in attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import check

from isthmus.ir import Builder, Graph, Tensor
from isthmus.ir.dtypes import f32, i32, i64, u8
from isthmus.ir.interpreter import run
from isthmus.ir.shape_values import elements
from isthmus.passes import DeadCode, DimArithmetic, Fold, run_passes

GOLDEN = {
    "shape, gather, concat, reshape": (
        """
        symbol N
        graph @main(%x: f32[N, 4, 6]) {
          %n: i64[] = size() {dim=N}
          %four: i64[] = size() {dim=4}
          %six: i64[] = constant() {value=weight<i64[] [6]>}
          %0: i64[1] = unsqueeze(%n) {axes=[0]}
          %1: i64[] = mul(%four, %six)
          %2: i64[1] = unsqueeze(%1) {axes=[0]}
          %3: i64[2] = concat([%0, %2]) {axis=0}
          %4: f32[N, 24] = dynamic_reshape(%x, %3)
          return %4
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4, 6]) {
          %0: f32[N, 24] = reshape(%x) {shape=[N, 24]}
          return %0
        }
        """,
    ),
    "what is left, whose size nobody knew": (
        """
        symbol N
        symbol u0 in [0, inf]
        symbol u1 in [0, inf]
        graph @main(%x: f32[N, 4, 6]) {
          %n: i64[] = size() {dim=N}
          %0: i64[1] = unsqueeze(%n) {axes=[0]}
          %1: i64[1] = constant() {value=weight<i64[1] [-1]>}
          %2: i64[2] = concat([%0, %1]) {axis=0}
          %3: f32[u0, u1] = dynamic_reshape(%x, %2)
          %4: f32[u0, u1] = exp(%3)
          return %4
        }
        """,
        """
        symbol N
        symbol u0 in [0, inf]
        symbol u1 in [0, inf]
        join u0 = N
        join u1 = 24
        graph @main(%x: f32[N, 4, 6]) {
          %3: f32[N, 24] = reshape(%x) {shape=[N, 24]}
          %4: f32[N, 24] = exp(%3)
          return %4
        }
        """,
    ),
    "slice and range": (
        """
        symbol N in [2, inf]
        symbol u0 in [0, inf]
        graph @main(%x: f32[N, 4]) {
          %n: i64[] = size() {dim=N}
          %one: i64[] = constant() {value=weight<i64[] [1]>}
          %zero: i64[] = constant() {value=weight<i64[] [0]>}
          %0: i64[] = sub(%n, %one)
          %1: i64[1] = unsqueeze(%zero) {axes=[0]}
          %2: i64[1] = unsqueeze(%0) {axes=[0]}
          %3: f32[N - 1, 4] = dynamic_slice(%x, %1, %2) {axes=[0], steps=[1]}
          %4: i64[u0] = range(%zero, %n, %one)
          return %3, %4
        }
        """,
        """
        symbol N in [2, inf]
        symbol u0 in [0, inf]
        join u0 = N
        graph @main(%x: f32[N, 4]) {
          %3: f32[N - 1, 4] = slice(%x) {axes=[0], starts=[0], ends=[N - 1], steps=[1]}
          %4: i64[N] = arange() {start=0, stop=N, step=1, dtype=i64}
          return %3, %4
        }
        """,
    ),
    "a number that is data after all": (
        """
        symbol N
        symbol s
        graph @main(%x: f32[N, 4]) {
          %n: i64[] = size() {dim=N}
          %two: i64[] = constant() {value=weight<i64[] [2]>}
          %0: i64[] = mul(%n, %two)
          %1: i64[] = bind(%0) {symbol=$s}
          %2: f32[s] = random_uniform() {shape=[s], dtype=f32, low=0.0, high=0.0}
          %3: i64[] = add(%1, %two)
          return %2, %3
        }
        """,
        """
        symbol N
        symbol s
        join s = 2*N
        graph @main(%x: f32[N, 4]) {
          %2: f32[2*N] = random_uniform() {shape=[2*N], dtype=f32, low=0.0, high=0.0}
          %3: i64[] = size() {dim=2*N + 2}
          return %2, %3
        }
        """,
    ),
    "a division, which rounds towards zero": (
        """
        symbol N in [0, inf]
        symbol M
        graph @main(%x: f32[N, M]) {
          %n: i64[] = size() {dim=N}
          %m: i64[] = size() {dim=M}
          %one: i64[] = constant() {value=weight<i64[] [1]>}
          %two: i64[] = constant() {value=weight<i64[] [2]>}
          %0: i64[] = sub(%n, %one)
          %1: i64[] = div(%0, %two)
          %2: i64[] = sub(%m, %one)
          %3: i64[] = div(%2, %two)
          %4: i64[] = div(%m, %n)
          return %1, %3, %4
        }
        """,
        """
        symbol N in [0, inf]
        symbol M
        graph @main(%x: f32[N, M]) {
          %1: i64[] = size() {dim=max(0, N - 1)//2}
          %3: i64[] = size() {dim=(M + 1)//2 - 1}
          %4: i64[] = size() {dim=M//N}
          return %1, %3, %4
        }
        """,
    ),
}

STAYS = {
    "a list of known integers in a shape that is data": """
        symbol u0 in [0, inf]
        graph @main(%s: i64[1]) {
          %one: i64[1] = constant() {value=weight<i64[1] [1]>}
          %0: i64[1] = minimum(%s, %one)
          %1: i64[1] = maximum(%0, %one)
          %2: i64[u0] = dynamic_reshape(%one, %1)
          return %2
        }
        """,
    "a slice of a list of sizes up to a place that is data": """
        symbol N
        symbol u0 in [0, inf]
        graph @main(%x: f32[N], %end: i64[1]) {
          %n: i64[] = size() {dim=N}
          %0: i64[1] = unsqueeze(%n) {axes=[0]}
          %1: i64[1] = constant() {value=weight<i64[1] [0]>}
          %2: i64[u0] = dynamic_slice(%0, %1, %end) {axes=[0], steps=[1]}
          return %2
        }
        """,
    "a division by what may be on either side of zero": """
        symbol N
        graph @main(%x: f32[N]) {
          %0: i64[] = size() {dim=N}
          %1: i64[] = size() {dim=N - 3}
          %2: i64[] = div(%0, %1)
          return %2
        }
        """,
    "a shape that is data": """
        symbol u0 in [0, inf]
        symbol u1 in [0, inf]
        graph @main(%x: f32[1, 1], %s: i64[2]) {
          %one: i64[] = constant() {value=weight<i64[] [1]>}
          %0: i64[2] = minimum(%s, %one)
          %1: i64[2] = maximum(%0, %one)
          %2: f32[u0, u1] = dynamic_reshape(%x, %1)
          return %2
        }
        """,
    "an expansion of what may or may not be 1": """
        symbol N hint 3
        symbol M hint 3
        symbol u0 in [0, inf]
        graph @main(%x: f32[N], %y: f32[M]) {
          %0: i64[] = size() {dim=N}
          %1: i64[1] = unsqueeze(%0) {axes=[0]}
          %2: f32[N] = dynamic_expand(%y, %1)
          return %2
        }
        """,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_becomes(name: str) -> None:
    before, after = GOLDEN[name]
    check([DimArithmetic(), DeadCode()], before, after)


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    check([DimArithmetic(), DeadCode()], STAYS[name])


I32 = np.iinfo(np.int32)


@pytest.mark.parametrize(
    ("build", "exact"),
    [
        (lambda b, n: b.mul(np.int32(65536), np.int32(65536)), 0),
        (lambda b, n: b.add(np.int64(2**63 - 1), np.int64(1)), -(2**63)),
        (lambda b, n: b.neg(np.int32(I32.min)), I32.min),
        (lambda b, n: b.div(np.int32(I32.min), np.int32(-1)), I32.min),
        (lambda b, n: b.cast(np.int64(2**40 + 3), dtype=i32), 3),
        (lambda b, n: b.reduce_prod(np.array([65536, 65536, 3], np.int32), axes=[0]), 0),
        (lambda b, n: b.reduce_sum(np.array([I32.max, 1], np.int32), axes=[0]), I32.min),
        (lambda b, n: b.reduce_sum(b.cast(b.arange(start=-5, stop=5, dtype=u8), dtype=i64), axes=[0]), 5 * 256 - 5),
        (lambda b, n: b.cast(b.mul(b.cast(n, dtype=i32), np.int32(2**30)), dtype=i64), -(2**31)),
    ],
)
def test_numbers_that_wrap_are_not_followed(build: Any, exact: int) -> None:
    g = Graph()
    b = Builder(g)
    n = g.symbols.declare("N", 1, 8).dim
    x = g.add_input(Tensor(f32, (n,)), "x")
    found = build(b, b.size(n))
    assert elements(found) is None
    g.set_outputs([x, found])
    for _ in range(2):
        assert run(g, [np.zeros(2, np.float32)])[1] == exact
        run_passes(g, [DimArithmetic(), Fold(), DeadCode()], verify=True)


def test_a_size_is_followed_where_its_type_surely_holds_it() -> None:
    g = Graph()
    b = Builder(g)
    small, any_ = g.symbols.declare("N", 1, 8).dim, g.symbols.declare("M").dim
    assert elements(b.mul(b.cast(b.size(small), dtype=i32), np.int32(4))) == (4 * small,)
    assert elements(b.mul(b.size(any_), np.int64(4))) == (4 * any_,)
    assert elements(b.cast(b.size(any_), dtype=i32)) is None
