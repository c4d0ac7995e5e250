"""Norms are recovered from every spelling, with their parameters, and not from what only looks like one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from golden import assert_same, check, draw_inputs

from isthmus.ir import Builder, Graph, Tensor
from isthmus.ir.dtypes import DType, bf16, f16, f32
from isthmus.ir.interpreter import run
from isthmus.passes import Canonicalize, CommonSubexpressions, DeadCode, Fold, Fuse, run_passes

CHANNELS = 6


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def left(build: Any, shape: tuple[int, ...] = (CHANNELS, 4, 8), dtype: DType = f32, tolerance: float = 1e-5) -> list[str]:
    """The ops that are left; numbers and validity are checked on the way."""
    g = Graph()
    b: Any = Builder(g)
    x = g.add_input(Tensor(dtype, (g.symbols.declare("N").dim, *shape)), "x")
    g.set_outputs([build(b, x)])
    inputs = draw_inputs(g)
    before = run(g, inputs)
    run_passes(g, [CommonSubexpressions(), Canonicalize(), Fuse(), Canonicalize(), Fold(), DeadCode()], verify=True)
    assert_same(*([each.astype(np.float32) for each in outputs] for outputs in (before, run(g, inputs))), tolerance)
    return [node.op.name for node in g.nodes if node.op.name != "constant"]


def centred(b: Any, x: Any, axes: list[int]) -> Any:
    return b.sub(x, b.reduce_mean(x, axes=axes, keepdims=True))


SPREADS: dict[str, Any] = {
    "mean of powers": lambda b, x, c, axes: b.reduce_mean(b.pow(c, 2.0), axes=axes, keepdims=True),
    "mean of products": lambda b, x, c, axes: b.reduce_mean(b.mul(c, c), axes=axes, keepdims=True),
    "variance": lambda b, x, c, axes: b.reduce_var(x, axes=axes, keepdims=True, correction=0.0),
    "variance of the centred": lambda b, x, c, axes: b.reduce_var(c, axes=axes, keepdims=True, correction=0.0),
    "mean without its axes": lambda b, x, c, axes: b.unsqueeze(b.reduce_mean(b.mul(c, c), axes=axes), axes=axes),
}
QUOTIENTS: dict[str, Any] = {
    "over sqrt": lambda b, c, v: b.div(c, b.sqrt(v)),
    "by rsqrt": lambda b, c, v: b.mul(b.rsqrt(v), c),
    "by a power": lambda b, c, v: b.mul(c, b.pow(v, -0.5)),
    "over a power": lambda b, c, v: b.div(c, b.pow(v, 0.5)),
    "by a reciprocal": lambda b, c, v: b.mul(c, b.reciprocal(b.sqrt(v))),
    "by one over": lambda b, c, v: b.mul(c, b.div(1.0, b.sqrt(v))),
}


def standardized(b: Any, x: Any, axes: list[int], spread: str = "mean of products", quotient: str = "over sqrt") -> Any:
    c = centred(b, x, axes)
    return QUOTIENTS[quotient](b, c, b.add(SPREADS[spread](b, x, c, axes), 1e-5))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("quotient", QUOTIENTS)
def test_layer_norm(spread: str, quotient: str) -> None:
    def build(b: Any, x: Any) -> Any:
        return b.add(b.mul(standardized(b, x, [3], spread, quotient), draw(8)), draw(8))

    assert left(build) == ["layer_norm"]


@pytest.mark.parametrize("quotient", QUOTIENTS)
@pytest.mark.parametrize("square", [lambda b, x: b.pow(x, 2.0), lambda b, x: b.mul(x, x)])
def test_rms_norm(square: Any, quotient: str) -> None:
    def build(b: Any, x: Any) -> Any:
        mean = b.reduce_mean(square(b, x), axes=[3], keepdims=True)
        return b.mul(draw(8), QUOTIENTS[quotient](b, x, b.add(mean, 1e-6)))

    assert left(build) == ["rms_norm"]


@pytest.mark.parametrize("dtype", [f16, bf16])
@pytest.mark.parametrize("norm", ["rms", "layer", "softmax"])
def test_norms_of_halves_in_single(norm: str, dtype: DType) -> None:
    def build(b: Any, x: Any) -> Any:
        wide = b.cast(x, dtype=f32)
        if norm == "rms":
            mean = b.reduce_mean(b.pow(wide, 2.0), axes=[3], keepdims=True)
            found = b.mul(wide, b.rsqrt(b.add(mean, 1e-6)))
        else:
            found = standardized(b, wide, [3]) if norm == "layer" else b.softmax(wide, axis=3)
        return b.mul(b.cast(found, dtype=dtype), b.constant(np.full(8, 2.0), dtype))

    assert left(build, dtype=dtype, tolerance=1e-2) == (["softmax", "mul"] if norm == "softmax" else [f"{norm}_norm"])


@pytest.mark.parametrize(("narrow", "back"), [(f32, ml_dtypes.bfloat16), (f16, ml_dtypes.bfloat16)])
def test_norms_rounded_to_another_type_keep_their_casts(narrow: DType, back: Any) -> None:
    def build(b: Any, x: Any) -> Any:
        return b.cast(b.layer_norm(b.cast(x, dtype=f32), axis=3), dtype=bf16)

    assert left(build, dtype=narrow, tolerance=1e-2)[-1] == "cast"


def test_instance_norm() -> None:
    def build(b: Any, x: Any) -> Any:
        return b.add(b.mul(standardized(b, x, [2, 3]), draw(CHANNELS, 1, 1)), draw(1, CHANNELS, 1, 1))

    assert left(build) == ["instance_norm"]


def grouped(b: Any, x: Any, apart: list[int], axes: list[int], groups: int = 3) -> Any:
    batch, *shape = x.tensor.shape
    y = b.reshape(x, shape=[batch, groups, *apart])
    return b.reshape(standardized(b, y, axes), shape=[batch, *shape])


@pytest.mark.parametrize(("apart", "axes"), [([2 * 4 * 8], [2]), ([2, 32], [2, 3]), ([2, 4, 8], [2, 3, 4])])
def test_group_norm(apart: list[int], axes: list[int]) -> None:
    def build(b: Any, x: Any) -> Any:
        return b.add(b.mul(grouped(b, x, apart, axes), draw(CHANNELS, 1, 1)), draw(CHANNELS, 1, 1))

    assert left(build) == ["group_norm"]


def test_group_norm_by_instances() -> None:
    def build(b: Any, x: Any) -> Any:
        y = b.reshape(x, shape=[x.tensor.shape[0], 2, 3 * 4 * 8])
        y = b.instance_norm(y, np.ones(2, np.float32), np.zeros(2, np.float32), eps=1e-3)
        return b.mul(b.reshape(y, shape=x.tensor.shape), draw(CHANNELS, 1, 1))

    assert left(build) == ["group_norm"]


def by_difference(b: Any, x: Any) -> Any:
    mean = b.reduce_mean(x, axes=[3], keepdims=True)
    spread = b.sub(b.reduce_mean(b.mul(x, x), axes=[3], keepdims=True), b.mul(mean, mean))
    return b.div(b.sub(x, mean), b.sqrt(b.add(spread, 1e-5)))


def epsilon_outside(b: Any, x: Any) -> Any:
    c = centred(b, x, [3])
    return b.div(c, b.add(b.sqrt(b.reduce_mean(b.mul(c, c), axes=[3], keepdims=True)), 1e-5))


def unbiased(b: Any, x: Any) -> Any:
    spread = b.reduce_var(x, axes=[3], keepdims=True, correction=1.0)
    return b.mul(centred(b, x, [3]), b.rsqrt(b.add(spread, 1e-5)))


def of_other_axes(b: Any, x: Any) -> Any:
    c = centred(b, x, [3])
    return b.div(c, b.sqrt(b.add(b.reduce_mean(b.mul(c, c), axes=[2], keepdims=True), 1e-5)))


def over_channels(b: Any, x: Any) -> Any:
    return standardized(b, x, [1])


def by_a_sum(b: Any, x: Any) -> Any:
    return b.div(x, b.sqrt(b.add(b.reduce_sum(b.mul(x, x), axes=[3], keepdims=True), 1e-5)))


def groups_of_the_batch(b: Any, x: Any) -> Any:
    y = b.reshape(b.slice(x, axes=[0], starts=[0], ends=[1], steps=[1]), shape=[2, 3, 32])
    return b.reshape(standardized(b, y, [2]), shape=[1, CHANNELS, 4, 8])


def groups_that_do_not_come_back(b: Any, x: Any) -> Any:
    y = b.reshape(x, shape=[x.tensor.shape[0], 3, 64])
    return b.reshape(standardized(b, y, [2]), shape=[x.tensor.shape[0], 4, CHANNELS, 8])


@pytest.mark.parametrize(
    "build",
    [by_difference, epsilon_outside, unbiased, of_other_axes, over_channels, by_a_sum, groups_of_the_batch,
     groups_that_do_not_come_back],
)  # fmt: skip
def test_lookalikes_stay(build: Any) -> None:
    assert not {"rms_norm", "group_norm", "instance_norm"} & set(left(build))
    assert "layer_norm" not in left(build) or build.__name__.startswith("groups")


def test_parameters_of_other_axes_stay_beside_the_norm() -> None:
    assert left(lambda b, x: b.mul(standardized(b, x, [2, 3]), draw(4, 1))) == ["layer_norm", "mul"]
    assert left(lambda b, x: b.add(b.instance_norm(x), draw(8))) == ["instance_norm", "add"]
    assert left(lambda b, x: b.mul(b.group_norm(x, groups=2), 2.0)) == ["group_norm", "mul"]


def test_golden_text() -> None:
    check(
        Fuse(),
        """
        symbol N
        graph @main(%x: f32[N, 4, 3]) {
          %s: f32[1, 4, 1] = constant() {value=weight<f32[1, 4, 1] [1.0, 2.0, 3.0, 4.0]>}
          %e: f32[] = constant() {value=weight<f32[] [0.5]>}
          %0: f32[N, 2, 6] = reshape(%x) {shape=[N, 2, 6]}
          %1: f32[N, 2, 1] = reduce_mean(%0) {axes=[2], keepdims=true}
          %2: f32[N, 2, 6] = sub(%0, %1)
          %3: f32[N, 2, 6] = mul(%2, %2)
          %4: f32[N, 2, 1] = reduce_mean(%3) {axes=[2], keepdims=true}
          %5: f32[N, 2, 1] = add(%4, %e)
          %6: f32[N, 2, 1] = rsqrt(%5)
          %7: f32[N, 2, 6] = mul(%2, %6)
          %8: f32[N, 4, 3] = reshape(%7) {shape=[N, 4, 3]}
          %9: f32[N, 4, 3] = mul(%8, %s)
          return %9
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4, 3]) {
          %s: f32[1, 4, 1] = constant() {value=weight<f32[1, 4, 1] [1.0, 2.0, 3.0, 4.0]>}
          %0: f32[4] = reshape(%s) {shape=[4]}
          %1: f32[N, 4, 3] = group_norm(%x, %0, none) {groups=2, eps=0.5}
          return %1
        }
        """,
    )
