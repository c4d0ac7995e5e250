"""Rules: what a pattern matches, what it does not, and what `explain` says about that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from golden import check

from isthmus.ir import Builder, Graph, Location, Tensor, parse
from isthmus.ir.dtypes import DType, bf16, bool_, c64, f16, f32, f64, i64
from isthmus.ir.errors import IsthmusError, UsageError
from isthmus.passes import Rewriting, Rule, explain, on, refuse, rule, run_passes
from isthmus.passes.patterns import close


def swish_rule() -> Rule:
    @rule
    def swish(p: Any, x: Any) -> Any:
        return x * p.clip(x + 3.0, 0.0, 6.0) / 6.0

    @swish.becomes
    def _(b: Any, m: Any) -> Any:
        return b.hard_swish(m.x) if m.x.tensor.dtype.is_float else refuse("integer input", m.x)

    return swish


def spelt(dtype: str = "f32", three: str = "3.0", swapped: bool = False, escapes: bool = False) -> str:
    factors = "%2, %x" if swapped else "%x, %2"
    return f"""
        graph @main(%x: {dtype}[4]) {{
          %three: {dtype}[] = constant() {{value=weight<{dtype}[] [{three}]>}}
          %zero: {dtype}[] = constant() {{value=weight<{dtype}[] [{"0.0" if dtype == "f32" else "0"}]>}}
          %six: {dtype}[] = constant() {{value=weight<{dtype}[] [{"6.0" if dtype == "f32" else "6"}]>}}
          %1: {dtype}[4] = add({"%three, %x" if swapped else "%x, %three"})
          %2: {dtype}[4] = clip(%1, %zero, %six)
          %3: {dtype}[4] = mul({factors})
          %4: {dtype}[4] = div(%3, %six)
          return %4{", %2" if escapes else ""}
        }}
        """


FUSED = """
    graph @main(%x: f32[4]) {
      %0: f32[4] = hard_swish(%x)
      return %0
    }
    """


@pytest.mark.parametrize("swapped", [False, True])
def test_operands_may_be_swapped(swapped: bool) -> None:
    check(Rewriting("test", [swish_rule()]), spelt(swapped=swapped), FUSED)


@pytest.mark.parametrize(
    ("number", "found", "dtype", "same"),
    [
        (3.0, 3.0, f32, True),
        (3.0, float(np.nextafter(np.float32(3), np.float32(4))), f32, False),
        (0.5, 0.5 + 1e-9, f64, False),
        (math.sqrt(2), 1.41421356, f64, True),
        (math.sqrt(2), 1.4142, f32, False),
        (1.702, float(np.float32(1.702)), f32, True),
        (0.044715, float(np.float16(0.044715)), f16, True),
        (0.044715, float(np.nextafter(np.float16(0.044715), np.float16(1))), f16, False),
        (1.0, 1.0078125, bf16, False),
        (1e-12, 0.0, f16, False),
        (1e9, math.inf, f16, False),
        (2.0, 2, i64, True),
        (0.5, 0, i64, False),
        (1.0, True, bool_, False),
        (1.0, 1 + 0j, c64, False),
    ],
)
def test_a_number_is_found_as_its_element_type_rounds_it(number: float, found: Any, dtype: DType, same: bool) -> None:
    assert close(number, found, dtype) is same


def test_integers_know_no_other_spelling() -> None:
    @rule
    def half(p: Any, x: Any) -> Any:
        return p.mul(x, 0.5)

    @half.becomes
    def _(b: Any, m: Any) -> Any:
        return b.neg(m.x)

    for dtype, counts in ((f32, {"half": 1}), (i64, {})):
        g = Graph()
        x = g.add_input(Tensor(dtype, (4,)), "x")
        g.set_outputs([Builder(g).div(x, 2)])
        assert run_passes(g, [Rewriting("test", [half])])[0].counts == counts


def test_division_by_a_number_is_multiplication_by_its_inverse() -> None:
    text = spelt().replace("%4: f32[4] = div(%3, %six)", "%4: f32[4] = mul(%s, %3)")
    text = text.replace("%1: f32", "%s: f32[] = constant() {value=weight<f32[] [0.16666667]>}\n          %1: f32", 1)
    check(Rewriting("test", [swish_rule()]), text, FUSED)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (spelt(three="2.5"), "expected the constant 3.0, found 2.5"),
        (spelt(dtype="i64", three="3"), "integer input"),
        (spelt(escapes=True), "the result of clip is used elsewhere, by an output"),
        (spelt().replace("clip(%1, %zero, %six)", "clip(%1, none, %six)"), "expected the constant 0.0, found nothing"),
        (spelt().replace("%2: f32[4] = clip(%1", "%2: f32[4] = clip(%x"), "expected add, found the input x"),
    ],
)
def test_near_misses_stay_and_are_explained(text: str, reason: str) -> None:
    swish = swish_rule()
    graph = check(Rewriting("test", [swish]), text)
    version = graph.version
    nearest = explain(swish, graph)[0]
    assert nearest.node.op.name == "div"
    assert nearest.reason == reason
    assert 1 <= nearest.matched <= nearest.size == 4
    assert reason in str(nearest)
    assert graph.version == version


def test_names_are_bound_once() -> None:
    text = """
        graph @main(%x: f32[4], %y: f32[4]) {
          %0: f32[4] = sigmoid(%y)
          %1: f32[4] = mul(%x, %0)
          return %1
        }
        """

    @rule
    def silu(p: Any, x: Any) -> Any:
        return x * p.sigmoid(x)

    @silu.becomes
    def _(b: Any, m: Any) -> Any:
        return b.silu(m.x)

    check(Rewriting("test", [silu]), text)
    assert explain(silu, parse(text.strip()))[0].reason == "x would stand for two values"


def test_shared_parts_attributes_lists_and_absent_operands() -> None:
    @rule
    def odd(p: Any, *xs: Any, axis: Any) -> Any:
        whole = p.concat(xs, axis=axis)
        return p.reduce_sum(p.exp(whole) - whole, axes=axis, keepdims=True)

    @rule
    def everything(p: Any, x: Any, weight: Any, bias: Any = None, *, attrs: Any) -> Any:
        return p.neg(p.conv(x, weight, bias, attrs=attrs))

    seen = {}

    @everything.becomes
    def _(b: Any, m: Any) -> Any:
        seen.update(bias=m.bias, **m.attrs)
        return b.conv(m.x, b.neg(m.weight), m.bias, **m.attrs)

    g = Graph()
    b = Builder(g)
    x, w = g.add_input(Tensor(f32, (1, 2, 5, 5))), g.add_input(Tensor(f32, (3, 2, 3, 3)))
    g.set_outputs([b.neg(b.conv(x, w, None, strides=[2, 1], pads=[0, 1, 0, 1], dilations=[1, 1]))])
    run_passes(g, [Rewriting("test", [everything])], verify=True)
    assert [node.op.name for node in g.nodes] == ["neg", "conv"]
    assert seen == {"bias": None, "strides": (2, 1), "pads": (0, 1, 0, 1), "dilations": (1, 1), "groups": 1}
    assert [part.op.name for part in odd.patterns[0].parts()] == ["reduce_sum", "sub", "concat", "exp"]


def test_locations_names_and_order() -> None:
    g = Graph()
    x = g.add_input(Tensor(f32, (4,)), "x")
    b = Builder(g)
    with b.at(Location("m.py", 1)):
        y = b.add(x, 3.0)
    with b.at(Location("m.py", 2)):
        y = b.clip(y, 0.0, 6.0)
    with b.at(Location("m.py", 3)):
        y = b.div(b.mul(x, y), 6.0)
    y.name = "out"
    g.set_outputs([b.exp(y), y])
    run_passes(g, [Rewriting("test", [swish_rule()])], verify=True)
    first, second = g.nodes
    assert (first.op.name, second.op.name, first.result.name) == ("hard_swish", "exp", "out")
    assert first.location.line == 3
    assert {place.line for place in first.location.merged} == {1, 2}
    assert first.location.made_by == ("test.swish",)


def test_a_refused_replacement_leaves_nothing_behind() -> None:
    @on("exp")
    def undecided(b: Any, node: Any) -> Any:
        b.sin(b.cos(node.operands[0]))
        return refuse("not today", node.operands[0])

    @on("exp")
    def wrong_type(b: Any, node: Any) -> Any:
        return b.cast(b.exp(node.operands[0]), dtype=i64)

    text = """
        graph @main(%x: f32[4]) {
          %0: f32[4] = exp(%x)
          return %0
        }
        """
    check(Rewriting("test", [undecided, wrong_type]), text)


def test_a_replacement_that_is_not_valid_is_a_refusal() -> None:
    @rule
    def wrong(p: Any, x: Any) -> Any:
        return p.exp(x)

    @wrong.becomes
    def _(b: Any, m: Any) -> Any:
        return b.logical_not(b.neg(m.x))

    text = "graph @main(%x: f32[4]) {\n%0: f32[4] = exp(%x)\nreturn %0\n}"
    graph = check(Rewriting("test", [wrong]), text)
    assert explain(wrong, graph)[0].reason == "logical_not: operand x has a wrong dtype"


def test_values_used_elsewhere_stay_where_a_rule_says_so() -> None:
    @rule
    def pattern(p: Any, x: Any) -> Any:
        return p.neg(p.exp(x))

    kept = Rule(lambda p, x: p.neg(p.exp(x)), keep=True)
    for each in (pattern, kept):
        each.becomes(lambda b, m: b.sin(m.x))
    for each, expected in ((pattern, ["exp", "neg"]), (kept, ["exp", "sin"])):
        g = Graph()
        b = Builder(g)
        y = b.exp(g.add_input(Tensor(f32, (4,))))
        g.set_outputs([b.neg(y), y])
        run_passes(g, [Rewriting("test", [each])], verify=True)
        assert [node.op.name for node in g.nodes] == expected


def test_a_match_inside_a_region_does_not_reach_outside() -> None:
    g = Graph()
    b = Builder(g)
    x, c = g.add_input(Tensor(f32, (4,))), g.add_input(Tensor(bool_, ()))
    outer = b.sigmoid(x)
    y = b.if_(c, regions=[b.subgraph([], lambda b: b.mul(x, outer)), b.subgraph([], lambda b: b.mul(x, b.sigmoid(x)))])
    g.set_outputs([y])

    @rule
    def silu(p: Any, x: Any) -> Any:
        return x * p.sigmoid(x)

    silu.becomes(lambda b, m: b.silu(m.x))
    run_passes(g, [Rewriting("test", [silu])], verify=True)
    assert [node.op.name for node in g.walk()] == ["sigmoid", "if", "mul", "silu"]


def test_rules_that_undo_each_other_are_stopped() -> None:
    @on("exp")
    def there(b: Any, node: Any) -> Any:
        return b.sin(node.operands[0])

    @on("sin")
    def back(b: Any, node: Any) -> Any:
        return b.exp(node.operands[0])

    g = Graph()
    g.set_outputs([Builder(g).exp(g.add_input(Tensor(f32, (4,))))])
    with pytest.raises(IsthmusError, match="undo each other") as error:
        Rewriting("circle", [there, back]).apply(g)
    assert "there" in str(error.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda p, x: p.no_such_op(x), "there is no op no_such_op"),
        (lambda p, x: p.softmax(x), "attribute axis must be mentioned"),
        (lambda p, x: p.exp(x, y=3), "has no attribute y"),
        (lambda p, x: x, "must return what an op gives"),
        (lambda p, x: p.exp("x"), "cannot stand in a pattern"),
    ],
)
def test_wrong_patterns_are_told(function: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _ = rule(function).patterns
