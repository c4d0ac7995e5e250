"""One of several ways to say the same thing."""

from __future__ import annotations

import pytest
from golden import check

from isthmus.passes import Canonicalize, DeadCode

GOLDEN = {
    "choices of integers": (
        """
        graph @main(%c: bool[2, 1], %x: i64[3], %y: i64[2, 3], %v: f32[3]) {
          %one: i64[] = constant() {value=weight<i64[] [1]>}
          %0: i64[2, 1] = cast(%c) {dtype=i64}
          %1: i64[2, 3] = mul(%0, %x)
          %2: i64[2, 1] = sub(%one, %0)
          %3: i64[2, 3] = mul(%2, %y)
          %alone: i64[2, 3] = add(%0, %3)
          %4: i64[2, 3] = add(%1, %3)
          %real: f32[] = constant() {value=weight<f32[] [1.0]>}
          %5: f32[2, 1] = cast(%c) {dtype=f32}
          %6: f32[2, 3] = mul(%5, %v)
          %7: f32[2, 1] = sub(%real, %5)
          %8: f32[2, 3] = mul(%7, %v)
          %9: f32[2, 3] = add(%6, %8)
          return %4, %9, %alone
        }
        """,
        """
        graph @main(%c: bool[2, 1], %x: i64[3], %y: i64[2, 3], %v: f32[3]) {
          %0: i64[] = constant() {value=weight<i64[] [1]>}
          %alone: i64[2, 3] = where(%c, %0, %y)
          %1: i64[2, 3] = where(%c, %x, %y)
          %real: f32[] = constant() {value=weight<f32[] [1.0]>}
          %2: f32[2, 1] = cast(%c) {dtype=f32}
          %3: f32[2, 3] = mul(%2, %v)
          %4: f32[2, 1] = sub(%real, %2)
          %5: f32[2, 3] = mul(%4, %v)
          %6: f32[2, 3] = add(%3, %5)
          return %1, %6, %alone
        }
        """,
    ),
    "scales that sizes tell": (
        """
        symbol N
        graph @main(%x: f32[1, 2, 2*N, 4], %y: f32[N]) {
          %0: f32[1, 2, 3*N, 12] = resize(%x) {sizes=[3*N, 12], mode="cubic", scales=[1.5, 3.0]}
          %1: f32[1, 2, 3*N, 13] = resize(%x) {sizes=[3*N, 13], mode="cubic", scales=[1.5, 3.25]}
          %2: f32[1, 2, 3*N, 13] = resize(%x) {sizes=[3*N, 13], mode="cubic", scales=[1.5, 3.3]}
          return %0, %1, %2
        }
        """,
        """
        symbol N
        graph @main(%x: f32[1, 2, 2*N, 4], %y: f32[N]) {
          %0: f32[1, 2, 3*N, 12] = resize(%x) {sizes=[3*N, 12], mode="cubic"}
          %1: f32[1, 2, 3*N, 13] = resize(%x) {sizes=[3*N, 13], mode="cubic"}
          %2: f32[1, 2, 3*N, 13] = resize(%x) {sizes=[3*N, 13], mode="cubic", scales=[1.5, 3.3]}
          return %0, %1, %2
        }
        """,
    ),
    "all of the greatest": (
        """
        symbol N
        graph @main(%x: f32[2, N]) {
          %v: f32[2, N], %p: i64[2, N] = topk(%x) {k=N, axis=1, largest=false}
          return %v, %p
        }
        """,
        """
        symbol N
        graph @main(%x: f32[2, N]) {
          %v: f32[2, N], %p: i64[2, N] = sort(%x) {axis=1}
          return %v, %p
        }
        """,
    ),
    "equations with spaces and capitals": (
        """
        graph @main(%x: f32[2, 3], %y: f32[3, 4]) {
          %0: f32[2, 4] = einsum([%x, %y]) {equation="k B, Bc -> kc"}
          %1: f32[4, 2] = einsum([%x, %y]) {equation="kj,jC"}
          return %0, %1
        }
        """,
        """
        graph @main(%x: f32[2, 3], %y: f32[3, 4]) {
          %0: f32[2, 4] = einsum([%x, %y]) {equation="ca,ab->cb"}
          %1: f32[4, 2] = einsum([%x, %y]) {equation="cb,ba"}
          return %0, %1
        }
        """,
    ),
    "texts of whole numbers": (
        """
        graph @main(%x: i64[3]) {
          %0: str[3] = cast(%x) {dtype=str, notation="c"}
          %1: f32[3] = cast(%0) {dtype=f32, notation="c"}
          return %1
        }
        """,
        """
        graph @main(%x: i64[3]) {
          %0: str[3] = cast(%x) {dtype=str}
          %1: f32[3] = cast(%0) {dtype=f32}
          return %1
        }
        """,
    ),
    "a range that counts down from 0": (
        """
        symbol n in [0, inf]
        graph @main(%x: i64[], %y: i64[], %d: i64[]) {
          %0: i64[] = constant() {value=weight<i64[] [0]>}
          %1: i64[] = constant() {value=weight<i64[] [1]>}
          %s: i64[] = add(%d, %1)
          %2: i64[] = sub(%x, %y)
          %3: i64[] = neg(%s)
          %4: i64[n] = range(%0, %2, %3)
          %5: i64[n] = sub(%x, %4)
          return %5
        }
        """,
        """
        symbol n in [0, inf]
        symbol u0 in [0, inf]
        join n = u0
        graph @main(%x: i64[], %y: i64[], %d: i64[]) {
          %0: i64[] = constant() {value=weight<i64[] [1]>}
          %s: i64[] = add(%d, %0)
          %1: i64[u0] = range(%x, %y, %s)
          return %1
        }
        """,
    ),
    "places counted from the end": (
        """
        symbol N
        graph @main(%x: f32[N]) {
          %0: i64[] = size() {dim=N - 1}
          %1: i64[N] = arange() {stop=N}
          %2: i64[N] = sub(%0, %1)
          return %2, %x
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N]) {
          %0: i64[N] = arange() {start=N - 1, stop=-1, step=-1}
          return %0, %x
        }
        """,
    ),
    "places of what is never 0, and of nothing": (
        """
        symbol N
        symbol n in [0, inf]
        graph @main(%x: f32[N], %y: f32[0, 2]) {
          %0: i64[] = constant() {value=weight<i64[] [1]>}
          %1: i64[N] = expand(%0) {shape=[N]}
          %2: i64[N, 1] = nonzero(%1)
          %3: i64[n, 2] = nonzero(%y)
          return %2, %3, %x
        }
        """,
        """
        symbol N
        symbol n in [0, inf]
        join n = 0
        graph @main(%x: f32[N], %y: f32[0, 2]) {
          %0: i64[N] = arange() {stop=N}
          %1: i64[N, 1] = unsqueeze(%0) {axes=[1]}
          %2: i64[0, 2] = constant() {value=weight<i64[0, 2] []>}
          return %1, %2, %x
        }
        """,
    ),
    "a border and a zero point of 0": (
        """
        graph @main(%x: f32[3], %s: f32[]) {
          %0: f32[] = constant() {value=weight<f32[] [0.0]>}
          %1: f32[5] = pad(%x, %0) {before=[1], after=[1]}
          %2: i8[] = constant() {value=weight<i8[] [0]>}
          %3: i8[5] = quantize(%1, %s, %2) {dtype=i8}
          return %3
        }
        """,
        """
        graph @main(%x: f32[3], %s: f32[]) {
          %0: f32[5] = pad(%x, none) {before=[1], after=[1]}
          %1: i8[5] = quantize(%0, %s, none) {dtype=i8}
          return %1
        }
        """,
    ),
    "a tensor in the place of an optional": (
        """
        graph @main(%x: f32[3]) {
          %0: f32[3] = optional_get(%x)
          %1: bool[] = optional_has(%x)
          return %0, %1
        }
        """,
        """
        graph @main(%x: f32[3]) {
          %0: bool[] = constant() {value=weight<bool[] [true]>}
          return %x, %0
        }
        """,
    ),
    "a bound value of which nothing has the symbol": (
        """
        symbol n
        symbol m in [0, inf]
        graph @main(%x: i64[], %y: i64[]) {
          %0: i64[] = bind(%x) {symbol=$n}
          %1: i64[] = bind(%y) {symbol=$m}
          %2: i64[m] = arange() {stop=m}
          return %0, %1, %2
        }
        """,
        """
        symbol n
        symbol m in [0, inf]
        graph @main(%x: i64[], %y: i64[]) {
          %0: i64[] = bind(%y) {symbol=$m}
          %1: i64[m] = arange() {stop=m}
          return %x, %0, %1
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), GOLDEN.values(), ids=GOLDEN)
def test_golden(before: str, after: str) -> None:
    check([Canonicalize(), DeadCode()], before, after)
