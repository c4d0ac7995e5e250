"""Coarse ops are recovered from what they are spelt with, and not from what only looks like it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden import assert_same, draw_inputs

from isthmus.ir import Builder, Graph, Tensor, Value
from isthmus.ir.dtypes import DType, bool_, c64, f32
from isthmus.ir.interpreter import run
from isthmus.passes import CommonSubexpressions, DeadCode, Fold, Fuse, run_passes

Build = Callable[[Builder, Value], Value]


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def fused(build: Build, *shape: Any) -> list[str]:
    """The ops that are left of a spelling, in order; numbers and validity are checked on the way."""
    g = Graph()
    b = Builder(g)
    n = g.symbols.declare("N").dim
    x = g.add_input(Tensor(f32, (n, *(shape or (6, 8)))), "x")
    g.set_outputs([build(b, x)])
    inputs = draw_inputs(g)
    before = run(g, inputs)
    run_passes(g, [CommonSubexpressions(), Fuse(), Fold(), DeadCode()], verify=True)
    assert_same(before, run(g, inputs), 1e-5)
    return [node.op.name for node in g.nodes if node.op.name != "constant"]


def gelu(b: Any, x: Any) -> Any:
    return b.mul(b.mul(x, 0.5), b.add(b.erf(b.div(x, math.sqrt(2))), 1.0))


def gelu_other_order(b: Any, x: Any) -> Any:
    return b.mul(b.mul(b.add(1.0, b.erf(b.mul(x, 0.70710678))), x), 0.5)


def gelu_inner_half(b: Any, x: Any) -> Any:
    return b.mul(x, b.mul(0.5, b.add(1.0, b.erf(b.div(x, 1.41421356)))))


def gelu_by_two(b: Any, x: Any) -> Any:
    return b.div(b.mul(x, b.add(1.0, b.erf(b.div(x, 1.41421356)))), 2.0)


def gelu_half_inside(b: Any, x: Any) -> Any:
    return b.mul(x, b.add(b.div(b.erf(b.div(x, math.sqrt(2))), 2.0), 0.5))


def gelu_by_normal(b: Any, x: Any) -> Any:
    """By the cumulative distribution of a normal one, whose mean and deviation leave a 0 and a 1."""
    return b.mul(x, b.mul(0.5, b.add(1.0, b.erf(b.div(b.mul(b.sub(x, 0.0), 1.0), math.sqrt(2))))))


def tanh_of(b: Any, x: Any, cube: Any) -> Any:
    return b.add(1.0, b.tanh(b.mul(0.7978845608, b.add(x, b.mul(0.044715, cube)))))


def gelu_tanh_pow(b: Any, x: Any) -> Any:
    return b.mul(b.mul(0.5, x), tanh_of(b, x, b.pow(x, 3.0)))


def gelu_tanh_mul(b: Any, x: Any) -> Any:
    return b.mul(b.mul(x, tanh_of(b, x, b.mul(x, b.mul(x, x)))), 0.5)


def gelu_fast(b: Any, x: Any) -> Any:
    inner = b.mul(b.mul(x, 0.7978845608), b.add(1.0, b.mul(b.mul(0.044715, x), x)))
    return b.mul(b.mul(0.5, x), b.add(1.0, b.tanh(inner)))


def gelu_factored(b: Any, x: Any) -> Any:
    inner = b.mul(b.mul(x, b.add(1.0, b.mul(0.044715, b.pow(x, 2.0)))), math.sqrt(2 / math.pi))
    return b.mul(x, b.mul(0.5, b.add(1.0, b.tanh(inner))))


def gelu_by_sigmoid(b: Any, x: Any) -> Any:
    return b.mul(x, b.sigmoid(b.mul(1.5957691216, b.add(x, b.mul(0.044715, b.pow(x, 3.0))))))


def silu_reciprocal(b: Any, x: Any) -> Any:
    return b.mul(x, b.reciprocal(b.add(1.0, b.exp(b.neg(x)))))


def mish_log(b: Any, x: Any) -> Any:
    return b.mul(x, b.tanh(b.log(b.add(1.0, b.exp(x)))))


def hard_swish_early(b: Any, x: Any) -> Any:
    return b.mul(b.div(x, 6.0), b.clip(b.add(x, 3.0), 0.0, 6.0))


def hard_sigmoid_line(b: Any, x: Any) -> Any:
    return b.clip(b.add(b.mul(x, 0.2), 0.4), 0.0, 1.0)


def length(b: Any, x: Any) -> Any:
    return b.sqrt(b.reduce_sum(b.pow(x, 2.0), axes=[1, 2]))


def silu(b: Any, x: Any) -> Any:
    return b.mul(b.sigmoid(x), x)


def silu_divided(b: Any, x: Any) -> Any:
    return b.div(x, b.add(1.0, b.exp(b.neg(x))))


def mish(b: Any, x: Any) -> Any:
    return b.mul(x, b.tanh(b.log1p(b.exp(x))))


def relu_by_maximum(b: Any, x: Any) -> Any:
    return b.maximum(0.0, x)


def relu_by_clip(b: Any, x: Any) -> Any:
    return b.clip(x, 0.0, None)


def hard_sigmoid(b: Any, x: Any) -> Any:
    return b.div(b.clip(b.add(x, 3.0), 0.0, 6.0), 6.0)


def hard_swish(b: Any, x: Any) -> Any:
    return b.div(b.mul(b.clip(b.add(x, 3.0), 0.0, 6.0), x), 6.0)


def hard_swish_by_sigmoid(b: Any, x: Any) -> Any:
    return b.mul(x, hard_sigmoid(b, x))


def softmax(b: Any, x: Any) -> Any:
    def powers() -> Any:
        return b.exp(b.sub(x, b.reduce_max(x, axes=[2], keepdims=True)))

    return b.div(powers(), b.reduce_sum(powers(), axes=[2], keepdims=True))


def standardized(b: Any, x: Any, axes: list[int], eps: Any = 1e-5) -> Any:
    centred = b.sub(x, b.reduce_mean(x, axes=axes, keepdims=True))
    return b.div(centred, b.sqrt(b.add(b.reduce_mean(b.pow(centred, 2.0), axes=axes, keepdims=True), eps)))


def layer_norm(b: Any, x: Any) -> Any:
    return b.add(b.mul(draw(8), standardized(b, x, [-1])), draw(8))


def layer_norm_two_axes(b: Any, x: Any) -> Any:
    return b.mul(standardized(b, x, [1, 2]), draw(6, 8))


def layer_norm_rsqrt(b: Any, x: Any) -> Any:
    centred = b.sub(x, b.reduce_mean(x, axes=[2], keepdims=True))
    return b.mul(centred, b.rsqrt(b.add(b.reduce_var(x, axes=[2], keepdims=True, correction=0.0), 1e-6)))


def rms_norm(b: Any, x: Any) -> Any:
    root = b.rsqrt(b.add(b.reduce_mean(b.mul(x, x), axes=[2], keepdims=True), 1e-6))
    return b.mul(draw(8), b.mul(x, root))


def linear(b: Any, x: Any) -> Any:
    return b.add(draw(5), b.matmul(x, draw(8, 5)))


def linear_bias(b: Any, x: Any) -> Any:
    return b.add(b.linear(x, draw(5, 8)), draw(5))


def conv_bias(b: Any, x: Any) -> Any:
    y = b.unsqueeze(x, axes=[1])
    y = b.conv(y, draw(3, 1, 3, 3), None, strides=[1, 1], pads=[0, 0, 0, 0], dilations=[1, 1])
    return b.add(y, draw(3, 1, 1))


def heads(b: Any, x: Any) -> tuple[Any, Any, Any]:
    q, k, v = (b.unsqueeze(b.mul(x, number), axes=[1]) for number in (1.5, 0.5, 2.5))
    return q, b.permute(k, perm=[0, 1, 3, 2]), v


def attention(b: Any, x: Any) -> Any:
    q, k, v = heads(b, x)
    return b.matmul(b.softmax(b.div(b.matmul(q, k), math.sqrt(8)), axis=-1), v)


def attention_mask(b: Any, x: Any) -> Any:
    q, k, v = heads(b, x)
    scores = b.add(draw(6), b.mul(b.matmul(q, k), 0.25))
    return b.matmul(b.softmax(scores, axis=3), v)


RECOVERED = [
    (gelu, ["gelu"]),
    (gelu_other_order, ["gelu"]),
    (gelu_inner_half, ["gelu"]),
    (gelu_by_two, ["gelu"]),
    (gelu_half_inside, ["gelu"]),
    (gelu_by_normal, ["gelu"]),
    (gelu_tanh_pow, ["gelu"]),
    (gelu_tanh_mul, ["gelu"]),
    (gelu_fast, ["gelu"]),
    (gelu_factored, ["gelu"]),
    (gelu_by_sigmoid, ["gelu"]),
    (silu_reciprocal, ["silu"]),
    (mish_log, ["mish"]),
    (hard_swish_early, ["hard_swish"]),
    (hard_sigmoid_line, ["hard_sigmoid"]),
    (length, ["reduce_l2"]),
    (silu, ["silu"]),
    (silu_divided, ["silu"]),
    (mish, ["mish"]),
    (relu_by_maximum, ["relu"]),
    (relu_by_clip, ["relu"]),
    (hard_sigmoid, ["hard_sigmoid"]),
    (hard_swish, ["hard_swish"]),
    (hard_swish_by_sigmoid, ["hard_swish"]),
    (softmax, ["softmax"]),
    (layer_norm, ["layer_norm"]),
    (layer_norm_two_axes, ["layer_norm"]),
    (layer_norm_rsqrt, ["layer_norm"]),
    (rms_norm, ["rms_norm"]),
    (linear, ["linear"]),
    (linear_bias, ["linear"]),
    (conv_bias, ["unsqueeze", "conv"]),
    (attention, ["mul", "unsqueeze"] * 3 + ["attention"]),
    (attention_mask, ["mul", "unsqueeze"] * 3 + ["attention"]),
]


@pytest.mark.parametrize(("build", "expected"), RECOVERED, ids=[build.__name__ for build, _ in RECOVERED])
def test_recovered(build: Build, expected: list[str]) -> None:
    found = fused(build)
    assert sorted(found) == sorted(expected)
    assert found[-1] == expected[-1]


def gelu_of_other_values(b: Any, x: Any) -> Any:
    return b.mul(b.mul(b.abs(x), 0.5), b.add(b.erf(b.div(x, math.sqrt(2))), 1.0))


def gelu_with_other_number(b: Any, x: Any) -> Any:
    return b.mul(b.mul(x, 0.5), b.add(b.erf(b.div(x, 1.5)), 1.0))


def quick_gelu(b: Any, x: Any) -> Any:
    return b.mul(x, b.sigmoid(b.mul(1.702, x)))


def softmax_that_overflows(b: Any, x: Any) -> Any:
    powers = b.exp(x)
    return b.div(powers, b.reduce_sum(powers, axes=[2], keepdims=True))


def softplus_that_overflows(b: Any, x: Any) -> Any:
    return b.log1p(b.exp(x))


def log_that_underflows(b: Any, x: Any) -> Any:
    """Where logits differ by more than 104, this is minus infinity, and a log_softmax is not."""
    return b.log(b.softmax(b.mul(x, 100.0), axis=2))


def line_with_computed_slope(b: Any, x: Any) -> Any:
    return b.clip(b.add(b.mul(x, b.reduce_max(x, axes=[0, 1, 2])), 0.4), 0.0, 1.0)


def flat_line(b: Any, x: Any) -> Any:
    return b.clip(b.add(b.mul(x, 0.0), 0.4), 0.0, 1.0)


def silu_backwards(b: Any, x: Any) -> Any:
    return b.div(b.sigmoid(x), x)


def clip_above_too(b: Any, x: Any) -> Any:
    return b.clip(x, 0.0, 1.0)


def softmax_over_two_axes(b: Any, x: Any) -> Any:
    powers = b.exp(b.sub(x, b.reduce_max(x, axes=[1, 2], keepdims=True)))
    return b.div(powers, b.reduce_sum(powers, axes=[1, 2], keepdims=True))


def softmax_of_different_axes(b: Any, x: Any) -> Any:
    powers = b.exp(b.sub(x, b.reduce_max(x, axes=[1], keepdims=True)))
    return b.div(powers, b.reduce_sum(powers, axes=[2], keepdims=True))


def log_softmax_that_cancels(b: Any, x: Any) -> Any:
    """Of numbers of -1e9 alone, which hide all of a row, it is 0: the sum's logarithm is lost beside them."""
    return b.sub(x, b.logsumexp(x, axes=[2], keepdims=True))


def norm_of_the_first_axes(b: Any, x: Any) -> Any:
    return standardized(b, x, [1])


def norm_with_computed_epsilon(b: Any, x: Any) -> Any:
    return standardized(b, x, [2], b.abs(b.reduce_max(x, axes=[0, 1, 2])))


def norm_with_unbiased_variance(b: Any, x: Any) -> Any:
    centred = b.sub(x, b.reduce_mean(x, axes=[2], keepdims=True))
    return b.mul(centred, b.rsqrt(b.add(b.reduce_var(x, axes=[2], keepdims=True, correction=1.0), 1e-6)))


def attention_over_other_axis(b: Any, x: Any) -> Any:
    q, k, v = heads(b, x)
    return b.matmul(b.softmax(b.mul(b.matmul(q, k), 0.25), axis=2), v)


def attention_with_computed_scale(b: Any, x: Any) -> Any:
    q, k, v = heads(b, x)
    return b.matmul(b.softmax(b.mul(b.matmul(q, k), b.reduce_max(x, axes=[0, 1, 2])), axis=3), v)


LOOKALIKES: list[Build] = [
    quick_gelu, softmax_that_overflows, softplus_that_overflows, log_that_underflows, log_softmax_that_cancels,
    line_with_computed_slope, flat_line, gelu_of_other_values, gelu_with_other_number, silu_backwards, clip_above_too,
    softmax_over_two_axes, softmax_of_different_axes, norm_of_the_first_axes, norm_with_computed_epsilon,
    norm_with_unbiased_variance, attention_over_other_axis, attention_with_computed_scale,
]  # fmt: skip
COARSE = {"softplus", "hard_sigmoid", "gelu", "silu", "relu", "layer_norm", "rms_norm", "linear", "attention", "log_softmax"}


@pytest.mark.parametrize("build", LOOKALIKES, ids=[build.__name__ for build in LOOKALIKES])
def test_lookalikes_stay(build: Build) -> None:
    found = fused(build)
    assert not COARSE & set(found)
    assert "softmax" not in found or build.__name__.startswith(("attention", "log"))


def test_what_is_no_bias_stays_beside_the_product() -> None:
    computed = fused(lambda b, x: b.add(b.matmul(x, draw(8, 5)), b.reduce_sum(x, axes=[0, 1, 2])))
    assert computed == ["linear", "reduce_sum", "add"]
    assert fused(lambda b, x: b.add(b.matmul(x, draw(8, 5)), draw(6, 5))) == ["linear", "add"]


def test_scale_of_another_shape_stays_beside_the_norm() -> None:
    assert fused(lambda b, x: b.mul(standardized(b, x, [2]), draw(6, 8))) == ["layer_norm", "mul"]
    assert fused(lambda b, x: b.add(standardized(b, x, [2]), 1.0)) == ["layer_norm", "add"]


def test_weight_used_otherwise_is_not_doubled() -> None:
    def otherwise(b: Any, x: Any) -> Any:
        w = b.constant(draw(8, 8))
        return b.matmul(b.matmul(w, b.permute(x, perm=[0, 2, 1])), b.matmul(x, w))

    assert sorted(fused(otherwise)) == ["matmul", "matmul", "matmul", "permute"]


def test_weight_of_several_layers_is_turned_once() -> None:
    g = Graph()
    b: Any = Builder(g)
    x = g.add_input(Tensor(f32, (g.symbols.declare("N").dim, 6, 8)), "x")
    w = b.constant(draw(8, 8))
    g.set_outputs([b.matmul(b.add(b.matmul(x, w), draw(8)), w)])
    inputs = draw_inputs(g)
    before = run(g, inputs)
    run_passes(g, [Fuse(), Fold(0), CommonSubexpressions(), DeadCode()], verify=True)
    assert_same(before, run(g, inputs), 1e-5)
    linears = [node for node in g.nodes if node.op.name == "linear"]
    assert len(linears) == 2
    assert len({node.operands[1] for node in linears}) == 1


def test_parts_read_elsewhere_are_not_fused_away() -> None:
    def both(b: Any, x: Any) -> Any:
        y = b.sigmoid(x)
        return b.concat([b.mul(x, y), y], axis=1)

    assert fused(both) == ["sigmoid", "mul", "concat"]


HIDING = np.where(np.tri(6, dtype=bool), 0, -np.inf).astype(np.float32)


@pytest.mark.parametrize(
    ("mask", "fuses"),
    [
        (lambda b, keep, free: HIDING, True),
        (lambda b, keep, free: np.where(np.tri(6, k=-1, dtype=bool), 0, -np.inf).astype(np.float32), False),
        (lambda b, keep, free: b.where(keep, 0.0, b.constant(np.float32(-1e9))), True),
        (lambda b, keep, free: b.where(keep, 0.0, b.constant(np.float32(-np.inf))), False),
        (lambda b, keep, free: b.mul(b.sub(1.0, b.cast(keep, dtype=f32)), np.finfo(np.float32).min), True),
        (lambda b, keep, free: b.mul(b.sub(1.0, free), np.finfo(np.float32).min), False),
        (lambda b, keep, free: b.mul(b.sub(1.5, b.cast(keep, dtype=f32)), np.finfo(np.float32).min), False),
        (lambda b, keep, free: b.trilu(b.expand(np.float32(-np.inf), shape=[6, 6]), upper=True, diagonal=1), True),
        (lambda b, keep, free: b.trilu(b.expand(np.float32(-np.inf), shape=[6, 6]), upper=True, diagonal=0), False),
        (lambda b, keep, free: free, False),
    ],
)
def test_attention_hides_no_row_that_a_softmax_makes_nan(mask: Any, fuses: bool) -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (2, 6, 8)), "x")
    keep, free = g.add_input(Tensor(bool_, (6, 6)), "keep"), g.add_input(Tensor(f32, (6, 6)), "free")
    scores = b.add(b.mul(b.matmul(x, b.permute(x, perm=[0, 2, 1])), 0.25), mask(b, keep, free))
    g.set_outputs([b.matmul(b.softmax(scores, axis=2), x)])
    inputs = [draw(2, 6, 8), np.arange(36).reshape(6, 6) % 7 > 2, HIDING.T[::-1].T]
    inputs[1][2] = False
    before = run(g, inputs)
    run_passes(g, [Fuse(), DeadCode()], verify=True)
    assert_same(before, run(g, inputs), 1e-5)
    assert any(node.op.name == "attention" for node in g.nodes) is fuses


def test_scores_divided_by_zero_stay() -> None:
    def build(b: Any, x: Any) -> Any:
        q, k, v = heads(b, x)
        return b.matmul(b.softmax(b.div(b.matmul(q, k), 0.0), axis=-1), v)

    assert "attention" not in fused(build)


@pytest.mark.parametrize("dtype", [bool_, c64])
def test_element_types_that_a_coarse_op_lacks_stay(dtype: DType) -> None:
    g = Graph()
    b: Any = Builder(g)
    x = g.add_input(Tensor(dtype, (4,)), "x")
    if dtype is bool_:
        g.set_outputs([b.maximum(x, b.constant(np.False_))])
    else:
        g.set_outputs([b.mul(x, b.rsqrt(b.add(b.reduce_mean(b.mul(x, x), axes=[0], keepdims=True), np.complex64(1e-6))))])
    before = len(list(g.nodes))
    run_passes(g, [Fuse()], verify=True)
    assert len(list(g.nodes)) == before
