"""Common subexpressions: one of several equal nodes stays, where they are equal and where it can be seen."""

from __future__ import annotations

import numpy as np
import pytest
from golden import check

from isthmus.ir import Builder, Graph, Location, Tensor, verify
from isthmus.ir.dtypes import f32
from isthmus.ir.interpreter import run
from isthmus.passes import CommonSubexpressions, run_passes

SIXTEEN = f"weight<i64[16] {list(range(16))}>"

GOLDEN = {
    "lists of sizes": (
        f"""
        graph @main(%x: i64[16]) {{
          %a: i64[16] = constant() {{value={SIXTEEN}}}
          %b: i64[16] = constant() {{value={SIXTEEN}}}
          %0: i64[16] = add(%x, %a)
          %1: i64[16] = mul(%0, %b)
          return %1
        }}
        """,
        f"""
        graph @main(%x: i64[16]) {{
          %a: i64[16] = constant() {{value={SIXTEEN}}}
          %0: i64[16] = add(%x, %a)
          %1: i64[16] = mul(%0, %a)
          return %1
        }}
        """,
    ),
    "swapped": (
        """
        symbol N
        graph @main(%x: f32[N], %y: f32[N]) {
          %0: f32[N] = add(%x, %y)
          %1: f32[N] = add(%y, %x)
          %2: f32[N] = mul(%0, %1)
          return %2
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N], %y: f32[N]) {
          %0: f32[N] = add(%x, %y)
          %1: f32[N] = mul(%0, %0)
          return %1
        }
        """,
    ),
    "constants": (
        """
        graph @main(%x: f32[4]) {
          %a: f32[] = constant() {value=weight<f32[] [1.0]>}
          %b: f32[] = constant() {value=weight<f32[] [1.0]>}
          %c: f32[] = constant() {value=weight<f32[] [-0.0]>}
          %d: f32[] = constant() {value=weight<f32[] [0.0]>}
          %0: f32[4] = add(%x, %a)
          %1: f32[4] = add(%0, %b)
          %2: f32[4] = add(%1, %c)
          %3: f32[4] = add(%2, %d)
          return %3
        }
        """,
        """
        graph @main(%x: f32[4]) {
          %a: f32[] = constant() {value=weight<f32[] [1.0]>}
          %c: f32[] = constant() {value=weight<f32[] [-0.0]>}
          %d: f32[] = constant() {value=weight<f32[] [0.0]>}
          %0: f32[4] = add(%x, %a)
          %1: f32[4] = add(%0, %a)
          %2: f32[4] = add(%1, %c)
          %3: f32[4] = add(%2, %d)
          return %3
        }
        """,
    ),
    "inner uses outer": (
        """
        graph @main(%x: f32[4], %c: bool[]) {
          %0: f32[4] = exp(%x)
          %1: f32[4] = if(%c) then {
            %2: f32[4] = exp(%x)
            %3: f32[4] = sin(%2)
            return %3
          } else {
            %4: f32[4] = sin(%0)
            return %4
          }
          return %1
        }
        """,
        """
        graph @main(%x: f32[4], %c: bool[]) {
          %0: f32[4] = exp(%x)
          %1: f32[4] = if(%c) then {
            %3: f32[4] = sin(%0)
            return %3
          } else {
            %4: f32[4] = sin(%0)
            return %4
          }
          return %1
        }
        """,
    ),
    "data-sized": (
        """
        symbol u0 in [0, inf]
        symbol u1 in [0, inf]
        graph @main(%x: f32[4]) {
          %0: i64[u0, 1] = nonzero(%x)
          %1: i64[u1, 1] = nonzero(%x)
          %2: i64[u0 + u1, 1] = concat([%0, %1]) {axis=0}
          return %2
        }
        """,
        """
        symbol u0 in [0, inf]
        symbol u1 in [0, inf]
        join u1 = u0
        graph @main(%x: f32[4]) {
          %0: i64[u0, 1] = nonzero(%x)
          %2: i64[2*u0, 1] = concat([%0, %0]) {axis=0}
          return %2
        }
        """,
    ),
}


STAYS = {
    "other order of operands": """
        graph @main(%x: f32[4], %y: f32[4]) {
          %0: f32[4] = sub(%x, %y)
          %1: f32[4] = sub(%y, %x)
          return %0, %1
        }
        """,
    "other attributes": """
        graph @main(%x: f32[4, 4]) {
          %0: f32[4] = reduce_sum(%x) {axes=[0], keepdims=false}
          %1: f32[4] = reduce_sum(%x) {axes=[1], keepdims=false}
          return %0, %1
        }
        """,
    "effects": """
        graph @main(%x: f32[4], %c: bool[]) {
          print(%x) {message="a"}
          print(%x) {message="a"}
          return %x
        }
        """,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_becomes(name: str) -> None:
    before, after = GOLDEN[name]
    check(CommonSubexpressions(), before, after)


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    check(CommonSubexpressions(), STAYS[name])


def test_random_is_drawn_as_often_as_written() -> None:
    g = Graph()
    b = Builder(g)
    g.set_outputs([b.random_normal(shape=[2], dtype=f32), b.random_normal(shape=[2], dtype=f32)])
    record, = run_passes(g, [CommonSubexpressions()])
    assert not record.changed
    assert len(g) == 2


def test_locations_are_merged_and_tied_weights_shared() -> None:
    g = Graph()
    w = np.ones((64, 64), np.float32)
    x = g.add_input(Tensor(f32, (2, 64)))
    outputs = []
    for line in (3, 9):
        b = Builder(g, None, Location("model.py", line))
        outputs.append(b.matmul(x, b.constant(w)))
    g.set_outputs(outputs)
    run_passes(g, [CommonSubexpressions()], verify=True)
    assert [node.op.name for node in g.nodes] == ["constant", "matmul"]
    location = g.outputs[0].location
    assert (location.line, [other.line for other in location.merged]) == (3, [9])
    assert location.made_by == ("common_subexpressions",)


def test_isolated_bodies_take_nothing_from_outside() -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (2,)))
    outer = b.add(x, b.constant(np.float32(3)))
    body = b.subgraph([Tensor(f32, (2,))], lambda b, y: b.add(y, b.constant(np.float32(3))))
    g.set_outputs([outer, b.composite([x], regions=[body], name="block")])
    run_passes(g, [CommonSubexpressions()], verify=True)
    verify(g)
    assert [len(region) for region in g.graphs()] == [3, 2]
    np.testing.assert_array_equal(*run(g, [np.ones(2, np.float32)]))
