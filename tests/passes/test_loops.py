"""Loops say no more than they need: what stays is not carried, what is picked turn by turn is scanned."""

from __future__ import annotations

import pytest
from golden import check

from isthmus.passes import Canonicalize, DeadCode

GOLDEN = {
    "the parts of a tensor, one a turn": (
        """
        graph @main(%x: f32[4, 3], %s: f32[3]) {
          %n: i64[] = constant() {value=weight<i64[] [4]>}
          %r: f32[3] = loop(%n, none, [%s]) {carried=1} body(%i: i64[], %t: f32[3]) {
            %0: bool[] = constant() {value=weight<bool[] [true]>}
            %1: f32[3] = gather(%x, %i)
            %2: f32[3] = add(%t, %1)
            return %0, %2
          }
          return %r
        }
        """,
        """
        graph @main(%x: f32[4, 3], %s: f32[3]) {
          %r: f32[3] = loop(none, none, [%s, %x]) {carried=1} body(%i: i64[], %t: f32[3], %0: f32[3]) {
            %1: bool[] = constant() {value=weight<bool[] [true]>}
            %2: f32[3] = add(%t, %0)
            return %1, %2
          }
          return %r
        }
        """,
    ),
    "no more turns than parts": (
        """
        symbol N
        graph @main(%x: f32[N], %s: f32[], %k: i64[]) {
          %n: i64[] = size() {dim=N}
          %m: i64[] = minimum(%k, %n)
          %r: f32[] = loop(%m, none, [%s]) {carried=1} body(%i: i64[], %t: f32[]) {
            %0: bool[] = constant() {value=weight<bool[] [true]>}
            %1: f32[] = gather(%x, %i)
            %2: f32[] = add(%t, %1)
            return %0, %2
          }
          return %r
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N], %s: f32[], %k: i64[]) {
          %r: f32[] = loop(%k, none, [%s, %x]) {carried=1} body(%i: i64[], %t: f32[], %0: f32[]) {
            %1: bool[] = constant() {value=weight<bool[] [true]>}
            %2: f32[] = add(%t, %0)
            return %1, %2
          }
          return %r
        }
        """,
    ),
    "a value that stays": (
        """
        graph @main(%n: i64[], %s: f32[3], %y: f32[3]) {
          %c: bool[] = constant() {value=weight<bool[] [true]>}
          %a: f32[3], %b: f32[3] = loop(%n, %c, [%y, %s]) {carried=2} body(%i: i64[], %z: f32[3], %t: f32[3]) {
            %0: bool[] = constant() {value=weight<bool[] [true]>}
            %1: f32[3] = add(%t, %z)
            return %0, %z, %1
          }
          return %a, %b
        }
        """,
        """
        graph @main(%n: i64[], %s: f32[3], %y: f32[3]) {
          %b: f32[3] = loop(%n, none, [%s]) {carried=1} body(%i: i64[], %t: f32[3]) {
            %0: bool[] = constant() {value=weight<bool[] [true]>}
            %1: f32[3] = add(%t, %y)
            return %0, %1
          }
          return %y, %b
        }
        """,
    ),
    "no turn": (
        """
        graph @main(%x: f32[0, 3], %s: f32[3]) {
          %r: f32[3], %a: f32[0, 3] = loop(none, none, [%s, %x]) {carried=1} body(%i: i64[], %t: f32[3], %p: f32[3]) {
            %0: bool[] = constant() {value=weight<bool[] [true]>}
            %1: f32[3] = add(%t, %p)
            return %0, %1, %t
          }
          return %r, %a
        }
        """,
        """
        graph @main(%x: f32[0, 3], %s: f32[3]) {
          %a: f32[0, 3] = constant() {value=weight<f32[0, 3] []>}
          return %s, %a
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), GOLDEN.values(), ids=GOLDEN)
def test_golden(before: str, after: str) -> None:
    check([Canonicalize(), DeadCode()], before, after)


KEPT = {
    "turns that may be more than the parts": """
        graph @main(%x: f32[4], %s: f32[], %n: i64[]) {
          %r: f32[] = loop(%n, none, [%s]) {carried=1} body(%i: i64[], %t: f32[]) {
            %0: bool[] = constant() {value=weight<bool[] [true]>}
            %1: f32[] = gather(%x, %i)
            %2: f32[] = add(%t, %1)
            return %0, %2
          }
          return %r
        }
    """,
    "parts of what the turn makes": """
        graph @main(%x: f32[4]) {
          %n: i64[] = constant() {value=weight<i64[] [4]>}
          %r: f32[4] = loop(%n, none, [%x]) {carried=1} body(%i: i64[], %t: f32[4]) {
            %0: bool[] = constant() {value=weight<bool[] [true]>}
            %1: f32[] = gather(%t, %i)
            %2: f32[4] = add(%t, %1)
            return %0, %2
          }
          return %r
        }
    """,
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_is_left(text: str) -> None:
    check(Canonicalize(), text, text)
