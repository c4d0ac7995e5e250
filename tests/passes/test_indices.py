"""Gathers and comparisons whose indices only count."""

from __future__ import annotations

import pytest
from golden import check

from isthmus.passes import Canonicalize, DeadCode

GOLDEN = {
    "positions": (
        """
        symbol S in [1, 8]
        graph @main(%x: f32[8, 3], %y: f32[S]) {
          %0: i64[S] = arange() {stop=S}
          %1: i64[1, S] = unsqueeze(%0) {axes=[0]}
          %2: f32[1, S, 3] = gather(%x, %1)
          return %2, %y
        }
        """,
        """
        symbol S in [1, 8]
        graph @main(%x: f32[8, 3], %y: f32[S]) {
          %0: f32[S, 3] = slice(%x) {axes=[0], starts=[0], ends=[S], steps=[1]}
          %1: f32[1, S, 3] = unsqueeze(%0) {axes=[0]}
          return %1, %y
        }
        """,
    ),
    "a constant that counts": (
        """
        graph @main(%x: f32[2, 6]) {
          %0: i64[3, 1] = constant() {value=weight<i64[3, 1] [2, 3, 4]>}
          %1: f32[2, 3, 1] = gather(%x, %0) {axis=1}
          return %1
        }
        """,
        """
        graph @main(%x: f32[2, 6]) {
          %0: f32[2, 3] = slice(%x) {axes=[1], starts=[2], ends=[5], steps=[1]}
          %1: f32[2, 3, 1] = unsqueeze(%0) {axes=[2]}
          return %1
        }
        """,
    ),
    "a grid, transposed": (
        """
        symbol N
        symbol S
        graph @main(%x: f32[N, S, 4]) {
          %0: i64[N] = arange() {stop=N}
          %1: i64[S] = arange() {stop=S}
          %2: i64[1, N, 1] = unsqueeze(%0) {axes=[0, 2]}
          %3: i64[S, 1, 1] = unsqueeze(%1) {axes=[1, 2]}
          %4: i64[S, N, 1] = expand(%2) {shape=[S, N, 1]}
          %5: i64[S, N, 1] = expand(%3) {shape=[S, N, 1]}
          %6: i64[S, N, 2] = concat([%4, %5]) {axis=2}
          %7: f32[S, N, 4] = gather_nd(%x, %6)
          return %7
        }
        """,
        """
        symbol N
        symbol S
        graph @main(%x: f32[N, S, 4]) {
          %0: f32[S, N, 4] = permute(%x) {perm=[1, 0, 2]}
          return %0
        }
        """,
    ),
    "repeated indices and a uniform table": (
        """
        symbol N
        graph @main(%n: f32[N], %x: f32[5, 4], %i: i64[3]) {
          %0: i64[8] = constant() {value=weight<i64[8] [1, 1, 1, 1, 1, 1, 1, 1]>}
          %1: i64[3] = gather(%0, %i)
          %2: i64[N, 3] = expand(%1) {shape=[N, 3]}
          %3: f32[N, 3, 4] = gather(%x, %2)
          return %n, %3
        }
        """,
        """
        symbol N
        graph @main(%n: f32[N], %x: f32[5, 4], %i: i64[3]) {
          %0: i64[] = constant() {value=weight<i64[] [1]>}
          %1: f32[4] = gather(%x, %0)
          %2: f32[N, 3, 4] = expand(%1) {shape=[N, 3, 4]}
          return %n, %2
        }
        """,
    ),
    "a mask of places that all are seen": (
        """
        symbol N
        symbol S
        graph @main(%q: f32[N, 2, S, 4], %m: bool[N, S]) {
          %0: i64[S] = arange() {stop=S}
          %1: i64[1, 1, S, 1] = unsqueeze(%0) {axes=[0, 1, 3]}
          %2: i64[] = constant() {value=weight<i64[] [0]>}
          %3: bool[1, 1, S, 1] = ge(%1, %2)
          %4: bool[N, 1, 1, S] = unsqueeze(%m) {axes=[1, 2]}
          %5: bool[N, 1, S, S] = logical_and(%3, %4)
          %6: f32[N, 2, S, 4] = attention(%q, %q, %q, %5)
          return %6
        }
        """,
        """
        symbol N
        symbol S
        graph @main(%q: f32[N, 2, S, 4], %m: bool[N, S]) {
          %0: bool[N, 1, 1, S] = unsqueeze(%m) {axes=[1, 2]}
          %1: f32[N, 2, S, 4] = attention(%q, %q, %q, %0)
          return %1
        }
        """,
    ),
    "never": (
        """
        graph @main(%x: f32[4]) {
          %0: i64[4] = arange() {stop=4}
          %1: i64[] = constant() {value=weight<i64[] [4]>}
          %2: bool[4] = lt(%1, %0)
          %3: bool[4] = ge(%0, %1)
          return %x, %2, %3
        }
        """,
        """
        graph @main(%x: f32[4]) {
          %0: bool[] = constant() {value=weight<bool[] [false]>}
          %1: bool[4] = expand(%0) {shape=[4]}
          %2: bool[] = constant() {value=weight<bool[] [false]>}
          %3: bool[4] = expand(%2) {shape=[4]}
          return %x, %1, %3
        }
        """,
    ),
}

STAYS = {
    "places that may lie outside": """
        symbol S
        graph @main(%x: f32[8, 3], %y: f32[S]) {
          %0: i64[S] = arange() {stop=S}
          %1: f32[S, 3] = gather(%x, %0)
          return %1, %y
        }
        """,
    "counting that starts again from below": """
        graph @main(%x: f32[4]) {
          %0: u8[300] = arange() {stop=300, dtype=u8}
          %1: u8[] = constant() {value=weight<u8[] [100]>}
          %2: bool[300] = ge(%0, %1)
          %3: i8[200] = arange() {stop=200, dtype=i8}
          %4: i8[] = constant() {value=weight<i8[] [-1]>}
          %5: bool[200] = gt(%3, %4)
          return %x, %2, %5
        }
        """,
    "counting a size that may be too large": """
        symbol S
        graph @main(%x: f32[S]) {
          %0: i32[S] = arange() {stop=S, dtype=i32}
          %1: i32[] = constant() {value=weight<i32[] [0]>}
          %2: bool[S] = ge(%0, %1)
          return %x, %2
        }
        """,
    "every other place": """
        graph @main(%x: f32[8, 3]) {
          %0: i64[4] = arange() {start=0, stop=8, step=2}
          %1: f32[4, 3] = gather(%x, %0)
          return %1
        }
        """,
    "both along one axis": """
        symbol N
        graph @main(%x: f32[N, N]) {
          %0: i64[N] = arange() {stop=N}
          %1: i64[N, 1] = unsqueeze(%0) {axes=[1]}
          %2: i64[N, 2] = concat([%1, %1]) {axis=1}
          %3: f32[N] = gather_nd(%x, %2)
          return %3
        }
        """,
    "a comparison that depends on the place": """
        symbol S
        graph @main(%x: f32[S]) {
          %0: i64[S] = arange() {stop=S}
          %1: i64[] = constant() {value=weight<i64[] [0]>}
          %2: bool[S] = gt(%0, %1)
          return %2
        }
        """,
    "a mask that makes the batch": """
        symbol N
        graph @main(%q: f32[1, 2, 3, 4], %m: bool[3, 3], %n: f32[N]) {
          %0: bool[N, 1, 3, 3] = expand(%m) {shape=[N, 1, 3, 3]}
          %1: f32[N, 2, 3, 4] = attention(%q, %q, %q, %0)
          return %1, %n
        }
        """,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_becomes(name: str) -> None:
    before, after = GOLDEN[name]
    check([Canonicalize(), DeadCode()], before, after)


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    check([Canonicalize(), DeadCode()], STAYS[name])
