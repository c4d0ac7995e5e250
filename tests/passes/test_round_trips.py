"""What is taken apart or turned only for arithmetic that does not need it stays whole, and every bit of the results with it."""

from __future__ import annotations

import numpy as np
import pytest
from golden import check, draw_inputs

from isthmus.ir import parse
from isthmus.ir.interpreter import run
from isthmus.passes import Canonicalize, run_passes

GOLDEN = {
    "places of a grid, x and y by the same numbers": (
        """
        symbol N
        graph @main(%x: f32[N, 4, 2]) {
          %a: f32[] = constant() {value=weight<f32[] [2.0]>}
          %b: f32[] = constant() {value=weight<f32[] [15.0]>}
          %0: f32[N, 4, 1], %1: f32[N, 4, 1] = split(%x) {axis=2, sizes=[1, 1]}
          %2: f32[N, 4, 1] = mul(%a, %0)
          %3: f32[N, 4, 1] = div(%2, %b)
          %4: f32[N, 4, 1] = mul(%a, %1)
          %5: f32[N, 4, 1] = div(%4, %b)
          %6: f32[N, 4, 2] = concat([%3, %5]) {axis=2}
          return %6
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4, 2]) {
          %a: f32[] = constant() {value=weight<f32[] [2.0]>}
          %b: f32[] = constant() {value=weight<f32[] [15.0]>}
          %0: f32[N, 4, 2] = mul(%a, %x)
          %1: f32[N, 4, 2] = div(%0, %b)
          return %1
        }
        """,
    ),
    "places of a grid, x and y by numbers of their own": (
        """
        symbol N
        graph @main(%x: f32[N, 3, 4]) {
          %a: f32[] = constant() {value=weight<f32[] [15.0]>}
          %b: f32[] = constant() {value=weight<f32[] [7.0]>}
          %0: f32[N, 1, 4] = slice(%x) {axes=[1], starts=[0], ends=[1], steps=[1]}
          %1: f32[N, 2, 4] = slice(%x) {axes=[1], starts=[1], ends=[3], steps=[1]}
          %2: f32[N, 1, 4] = div(%0, %a)
          %3: f32[N, 1, 4] = tanh(%2)
          %4: f32[N, 2, 4] = div(%1, %b)
          %5: f32[N, 2, 4] = tanh(%4)
          %6: f32[N, 3, 4] = concat([%3, %5]) {axis=1}
          return %6
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 3, 4]) {
          %0: f32[3, 1] = constant() {value=weight<f32[3, 1] [15.0, 7.0, 7.0]>}
          %1: f32[N, 3, 4] = div(%x, %0)
          %2: f32[N, 3, 4] = tanh(%1)
          return %2
        }
        """,
    ),
    "parts that change places": (
        """
        graph @main(%x: f32[2, 4]) {
          %0: f32[2, 2], %1: f32[2, 2] = split(%x) {axis=1, sizes=[2, 2]}
          %2: f32[2, 2] = exp(%1)
          %3: f32[2, 2] = exp(%0)
          %4: f32[2, 4] = concat([%2, %3]) {axis=1}
          return %4
        }
        """,
        """
        graph @main(%x: f32[2, 4]) {
          %0: f32[2, 2], %1: f32[2, 2] = split(%x) {axis=1, sizes=[2, 2]}
          %2: f32[2, 4] = concat([%1, %0]) {axis=1}
          %3: f32[2, 4] = exp(%2)
          return %3
        }
        """,
    ),
    "an axis for a while": (
        """
        symbol N
        graph @main(%x: f32[N, 4]) {
          %a: f32[] = constant() {value=weight<f32[] [2.0]>}
          %0: f32[N, 1, 4] = unsqueeze(%x) {axes=[1]}
          %1: f32[N, 1, 4] = sub(%a, %0)
          %2: f32[N, 1, 4] = relu(%1)
          %3: f32[N, 4] = squeeze(%2) {axes=[1]}
          return %3, %0
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4]) {
          %a: f32[] = constant() {value=weight<f32[] [2.0]>}
          %0: f32[N, 1, 4] = unsqueeze(%x) {axes=[1]}
          %1: f32[N, 4] = sub(%a, %x)
          %2: f32[N, 4] = relu(%1)
          return %2, %0
        }
        """,
    ),
    "another order for a while": (
        """
        graph @main(%x: f32[2, 3, 4]) {
          %0: f32[4, 2, 3] = permute(%x) {perm=[2, 0, 1]}
          %1: f32[4, 2, 3] = sigmoid(%0)
          %2: f32[2, 3, 4] = permute(%1) {perm=[1, 2, 0]}
          return %2
        }
        """,
        """
        graph @main(%x: f32[2, 3, 4]) {
          %0: f32[2, 3, 4] = sigmoid(%x)
          return %0
        }
        """,
    ),
    "turned, repeated, turned": (
        """
        symbol N
        graph @main(%x: f32[2, 3, 4], %y: f32[N, 1]) {
          %0: f32[3, 2, 4] = permute(%x) {perm=[1, 0, 2]}
          %1: f32[3*N, 2, 8] = tile(%0) {repeats=[N, 1, 2]}
          %2: f32[3*N, 8, 2] = permute(%1) {perm=[0, 2, 1]}
          return %2, %y
        }
        """,
        """
        symbol N
        graph @main(%x: f32[2, 3, 4], %y: f32[N, 1]) {
          %0: f32[3, 4, 2] = permute(%x) {perm=[1, 2, 0]}
          %1: f32[3*N, 8, 2] = tile(%0) {repeats=[N, 2, 1]}
          return %1, %y
        }
        """,
    ),
    "a choice by what is not true": (
        """
        graph @main(%c: bool[4], %x: f32[4], %y: f32[2, 4]) {
          %0: bool[4] = logical_not(%c)
          %1: f32[2, 4] = where(%0, %x, %y)
          return %1, %0
        }
        """,
        """
        graph @main(%c: bool[4], %x: f32[4], %y: f32[2, 4]) {
          %0: bool[4] = logical_not(%c)
          %1: f32[2, 4] = where(%c, %y, %x)
          return %1, %0
        }
        """,
    ),
    "sums with what is negated": (
        """
        graph @main(%x: f32[4], %y: f32[2, 4]) {
          %0: f32[4] = neg(%x)
          %1: f32[2, 4] = add(%0, %y)
          %2: f32[2, 4] = neg(%1)
          %3: f32[2, 4] = add(%x, %2)
          return %3
        }
        """,
        """
        graph @main(%x: f32[4], %y: f32[2, 4]) {
          %0: f32[2, 4] = sub(%y, %x)
          %1: f32[2, 4] = sub(%x, %0)
          return %1
        }
        """,
    ),
}
STAYS = {
    "parts by other ops": """
        graph @main(%x: f32[2, 4]) {
          %0: f32[2, 2], %1: f32[2, 2] = split(%x) {axis=1, sizes=[2, 2]}
          %2: f32[2, 2] = sin(%0)
          %3: f32[2, 2] = cos(%1)
          %4: f32[2, 4] = concat([%2, %3]) {axis=1}
          return %4
        }
        """,
    "parts by an operand each": """
        graph @main(%x: f32[2, 4], %y: f32[2, 2], %z: f32[2, 2]) {
          %0: f32[2, 2], %1: f32[2, 2] = split(%x) {axis=1, sizes=[2, 2]}
          %2: f32[2, 2] = mul(%0, %y)
          %3: f32[2, 2] = mul(%1, %z)
          %4: f32[2, 4] = concat([%2, %3]) {axis=1}
          return %4
        }
        """,
    "minuend in one part, subtrahend in the other": """
        graph @main(%x: f32[2, 4], %a: f32[]) {
          %0: f32[2, 2], %1: f32[2, 2] = split(%x) {axis=1, sizes=[2, 2]}
          %2: f32[2, 2] = sub(%a, %0)
          %3: f32[2, 2] = sub(%1, %a)
          %4: f32[2, 4] = concat([%2, %3]) {axis=1}
          return %4
        }
        """,
    "parts of two values: what made these may take in what follows": """
        graph @main(%x: f32[2, 2], %y: f32[2, 2]) {
          %0: f32[2, 2] = relu(%x)
          %1: f32[2, 2] = relu(%y)
          %2: f32[2, 4] = concat([%0, %1]) {axis=1}
          return %2
        }
        """,
    "bounds that are not the same": """
        graph @main(%x: f32[2, 4], %a: f32[], %b: f32[]) {
          %0: f32[2, 2], %1: f32[2, 2] = split(%x) {axis=1, sizes=[2, 2]}
          %2: f32[2, 2] = clip(%0, %a, none)
          %3: f32[2, 2] = clip(%1, %b, none)
          %4: f32[2, 4] = concat([%2, %3]) {axis=1}
          return %4
        }
        """,
    "a vector beside what is turned": """
        graph @main(%x: f32[4, 4], %y: f32[4]) {
          %0: f32[4, 4] = permute(%x) {perm=[1, 0]}
          %1: f32[4, 4] = add(%0, %y)
          %2: f32[4, 4] = permute(%1) {perm=[1, 0]}
          return %2
        }
        """,
    "turned on": """
        graph @main(%x: f32[2, 3, 4]) {
          %0: f32[4, 2, 3] = permute(%x) {perm=[2, 0, 1]}
          %1: f32[4, 2, 3] = sigmoid(%0)
          %2: f32[3, 4, 2] = permute(%1) {perm=[2, 0, 1]}
          return %2
        }
        """,
    "what is between is read": """
        graph @main(%x: f32[2, 4]) {
          %0: f32[4, 2] = permute(%x) {perm=[1, 0]}
          %1: f32[4, 2] = exp(%0)
          %2: f32[2, 4] = permute(%1) {perm=[1, 0]}
          return %1, %2
        }
        """,
    "another shape": """
        graph @main(%x: f32[2, 6]) {
          %0: f32[12] = reshape(%x) {shape=[12]}
          %1: f32[12] = exp(%0)
          %2: f32[3, 4] = reshape(%1) {shape=[3, 4]}
          return %2
        }
        """,
    "repeated and turned": """
        graph @main(%x: f32[2, 4]) {
          %0: f32[2, 8] = tile(%x) {repeats=[1, 2]}
          %1: f32[8, 2] = permute(%0) {perm=[1, 0]}
          return %1
        }
        """,
    "a negative that is read": """
        graph @main(%x: f32[4], %y: f32[4]) {
          %0: f32[4] = neg(%x)
          %1: f32[4] = add(%0, %y)
          return %0, %1
        }
        """,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_becomes(name: str) -> None:
    before, after = GOLDEN[name]
    check(Canonicalize(), before, after)
    graph = parse(before)
    inputs = draw_inputs(graph)
    expected = run(graph, inputs)
    run_passes(graph, [Canonicalize()])
    for found, wanted in zip(run(graph, inputs), expected, strict=True):
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    check(Canonicalize(), STAYS[name])


def test_numbers_that_would_make_a_large_constant_stay_apart() -> None:
    stays = """
        graph @main(%x: f32[2, SIZE]) {
          %a: f32[] = constant() {value=weight<f32[] [15.0]>}
          %b: f32[] = constant() {value=weight<f32[] [7.0]>}
          %0: f32[2, HALF], %1: f32[2, HALF] = split(%x) {axis=1, sizes=[HALF, HALF]}
          %2: f32[2, HALF] = div(%0, %a)
          %3: f32[2, HALF] = div(%1, %b)
          %4: f32[2, SIZE] = concat([%2, %3]) {axis=1}
          return %4
        }
        """
    nodes = {}
    for half in (32, 33):
        graph = parse(stays.replace("SIZE", str(2 * half)).replace("HALF", str(half)))
        run_passes(graph, [Canonicalize()], verify=True)
        nodes[half] = [node.op.name for node in graph.walk() if node.op.name != "constant"]
    assert nodes == {32: ["div"], 33: ["split", "div", "div", "concat"]}
