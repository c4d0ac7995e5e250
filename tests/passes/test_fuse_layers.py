"""Biases, factors, norms and padding become part of layers; pixels are shuffled in one op; lookalikes stay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from golden import assert_same, check, draw_inputs

from isthmus.ir import Builder, Graph, Tensor
from isthmus.ir.dtypes import f32
from isthmus.ir.interpreter import run
from isthmus.passes import Canonicalize, DeadCode, Fold, FoldBatchNorm, Fuse, run_passes

CHANNELS = 4


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def left(build: Any, shape: tuple[int, ...] = (CHANNELS, 6, 5), tolerance: float = 1e-5) -> list[str]:
    """The ops that are left; numbers and validity are checked on the way."""
    g = Graph()
    b: Any = Builder(g)
    x = g.add_input(Tensor(f32, (g.symbols.declare("N").dim, *shape)), "x")
    found = build(b, x)
    g.set_outputs(found if isinstance(found, list) else [found])
    inputs = draw_inputs(g)
    before = run(g, inputs)
    run_passes(g, [Fuse(), FoldBatchNorm(), Canonicalize(), Fold(), DeadCode()], verify=True)
    assert_same(before, run(g, inputs), tolerance)
    return [node.op.name for node in g.nodes if node.op.name != "constant"]


def conv(b: Any, x: Any, pads: int = 1, bias: bool = True, groups: int = 2) -> Any:
    weight = b.constant(draw(6, CHANNELS // groups, 3, 3))
    return b.conv(x, weight, draw(6) if bias else None, strides=[1, 1], pads=[pads] * 4, dilations=[1, 1], groups=groups)


def conv_transpose(b: Any, x: Any, bias: bool = True) -> Any:
    return b.conv_transpose(
        x, b.constant(draw(CHANNELS, 3, 3, 3)), draw(6) if bias else None, strides=[2, 2], pads=[1] * 4,
        output_padding=[0, 0], dilations=[1, 1], groups=2,
    )  # fmt: skip


def linear(b: Any, x: Any, bias: bool = True) -> Any:
    return b.linear(x, b.constant(draw(6, 5)), draw(6) if bias else None)


def norm(b: Any, x: Any, offset: bool = True) -> Any:
    channels = x.tensor.shape[1]
    mean = draw(channels) if offset else np.zeros(channels, np.float32)
    bias = draw(channels) + 1 if offset else None
    return b.batch_norm(x, draw(channels), bias, mean, np.abs(draw(channels)) + 0.5)


# ---- biases and factors


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layer", [conv, conv_transpose])
@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1, 1)])
def test_offsets_a_channel(layer: Any, bias: bool, shape: tuple[int, ...]) -> None:
    assert left(lambda b, x: b.add(draw(*shape), layer(b, x, bias=bias))) == [layer.__name__]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layer", [conv, conv_transpose])
@pytest.mark.parametrize("factor", [draw(6, 1, 1), draw(1, 6, 1, 1), np.float32(2.5), draw(1)])
def test_factors_a_channel(layer: Any, bias: bool, factor: Any) -> None:
    assert left(lambda b, x: b.mul(layer(b, x, bias=bias), factor)) == [layer.__name__]
    assert left(lambda b, x: b.div(layer(b, x, bias=bias), factor)) == [layer.__name__]


@pytest.mark.parametrize("factor", [draw(6), draw(1, 6), np.float32(0.125)])
def test_factors_of_linear_layers(factor: Any) -> None:
    assert left(lambda b, x: b.add(b.mul(factor, linear(b, x)), draw(6))) == ["linear"]


def test_a_frozen_norm_by_hand() -> None:
    assert left(lambda b, x: b.add(b.mul(conv(b, x, bias=False), draw(1, 6, 1, 1)), draw(1, 6, 1, 1))) == ["conv"]


def shared(b: Any, x: Any) -> Any:
    y = conv(b, x)
    return [b.mul(y, 2.0), y]


@pytest.mark.parametrize(
    "build",
    [
        shared,
        lambda b, x: b.mul(conv(b, x), draw(6, 1, 5)),
        lambda b, x: b.mul(conv(b, x), b.reduce_max(x, axes=[0, 1, 2, 3])),
        lambda b, x: b.div(2.0, conv(b, x)),
        lambda b, x: b.div(conv(b, x), np.zeros((), np.float32)),
        lambda b, x: b.mul(conv(b, x), np.float32(np.inf)),
        lambda b, x: b.mul(linear(b, x), draw(6, 1)),
        lambda b, x: b.mul(conv(b, x), draw(1, 1, 1, 1, 1)),
    ],
)
def test_other_factors_stay(build: Any) -> None:
    assert {"mul", "div"} & set(left(build))


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: b.add(conv(b, x), draw(6, 6, 5)),
        lambda b, x: b.add(conv(b, x), draw(5)),
        lambda b, x: b.add(linear(b, x), draw(6, 1)),
        lambda b, x: b.add(conv(b, x), b.reduce_max(x, axes=[0, 1, 2, 3])),
    ],
)
def test_other_offsets_stay(build: Any) -> None:
    assert "add" in left(build)


# ---- batch norm before a layer


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_norm_before_a_convolution(groups: int, bias: bool) -> None:
    def build(b: Any, x: Any) -> Any:
        weight = b.constant(draw(8, CHANNELS // groups, 3, 3))
        y = norm(b, x)
        return b.conv(y, weight, draw(8) if bias else None, strides=[1, 1], pads=[0] * 4, dilations=[1, 1], groups=groups)

    assert left(build, tolerance=1e-4) == ["conv"]


@pytest.mark.parametrize("layer", [conv, conv_transpose])
def test_norm_without_an_offset_before_a_padded_layer(layer: Any) -> None:
    assert left(lambda b, x: layer(b, norm(b, x, offset=False))) == [layer.__name__]


@pytest.mark.parametrize("layer", [conv, conv_transpose])
def test_norm_with_an_offset_before_a_padded_layer_stays(layer: Any) -> None:
    assert left(lambda b, x: layer(b, norm(b, x))) == ["batch_norm", layer.__name__]


def test_norm_before_a_linear_layer() -> None:
    assert left(lambda b, x: linear(b, norm(b, x)), shape=(5,), tolerance=1e-4) == ["linear"]
    assert left(lambda b, x: linear(b, norm(b, x)), shape=(4, 5)) == ["batch_norm", "linear"]


def test_norms_on_both_sides() -> None:
    assert left(lambda b, x: norm(b, conv(b, norm(b, x), pads=0)), tolerance=1e-4) == ["conv"]


# ---- padding


def padded(b: Any, x: Any, value: float | None = None, mode: str = "constant", batch: int = 0) -> Any:
    return b.pad(x, value, before=[batch, 0, 1, 0], after=[0, 0, 1, 2], mode=mode)


def pool(b: Any, x: Any, name: str, **more: Any) -> Any:
    window: dict[str, Any] = {"kernel": [3, 3], "strides": [2, 2], "pads": [0] * 4}
    return getattr(b, name)(x, **(window | ({"dilations": [1, 1]} if name == "max_pool" else {}) | more))


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda b, x: conv(b, padded(b, x)), "conv"),
        (lambda b, x: conv(b, padded(b, x, 0.0)), "conv"),
        (lambda b, x: pool(b, padded(b, x), "avg_pool"), "avg_pool"),
        (lambda b, x: pool(b, padded(b, x), "avg_pool", count_include_pad=False), "avg_pool"),
        (lambda b, x: pool(b, padded(b, x), "avg_pool", divisor=5), "avg_pool"),
        (lambda b, x: pool(b, padded(b, x, -math.inf), "max_pool"), "max_pool"),
    ],
)
def test_padding(build: Any, name: str) -> None:
    assert left(build) == [name]


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: conv(b, padded(b, x, 1.0)),
        lambda b, x: conv(b, padded(b, x, None, "reflect")),
        lambda b, x: conv(b, padded(b, x, batch=1)),
        lambda b, x: pool(b, padded(b, x), "avg_pool", pads=[1] * 4, count_include_pad=False),
        lambda b, x: pool(b, padded(b, x), "avg_pool", ceil_mode=True),
        lambda b, x: pool(b, padded(b, x), "avg_pool", kernel=[2, 2]),
        lambda b, x: pool(b, padded(b, x), "max_pool"),
        lambda b, x: [conv(b, y := padded(b, x)), y],
    ],
)
def test_other_padding_stays(build: Any) -> None:
    assert left(build)[0] == "pad"


# ---- pixels and channels


def shuffled(order: str, block: int = 2) -> Any:
    def build(b: Any, x: Any) -> Any:
        n, channels, height, width = x.tensor.shape
        kept = channels // block**2
        parts, perm = {
            "crd": ([kept, block, block], [0, 1, 4, 2, 5, 3]), "dcr": ([block, block, kept], [0, 3, 4, 1, 5, 2]),
            "other": ([kept, block, block], [0, 1, 4, 3, 5, 2]),
        }[order]  # fmt: skip
        y = b.permute(b.reshape(x, shape=[n, *parts, height, width]), perm=perm)
        return b.reshape(y, shape=[n, kept, height * block, width * block])

    return build


@pytest.mark.parametrize("order", ["crd", "dcr"])
def test_pixel_shuffle(order: str) -> None:
    assert left(shuffled(order), shape=(12, 3, 5)) == ["depth_to_space"]


def test_pixel_shuffle_in_another_order_stays() -> None:
    assert left(shuffled("other"), shape=(12, 3, 5)) == ["reshape", "permute", "reshape"]


def test_channel_shuffle_stays_as_it_is() -> None:
    def build(b: Any, x: Any) -> Any:
        n, channels, height, width = x.tensor.shape
        y = b.permute(b.reshape(x, shape=[n, 2, channels // 2, height, width]), perm=[0, 2, 1, 3, 4])
        return b.reshape(y, shape=[n, channels, height, width])

    assert left(build) == ["reshape", "permute", "reshape"]


def test_golden_text() -> None:
    check(
        Fuse(),
        """
        symbol N
        graph @main(%x: f32[N, 4, 3, 5]) {
          %0: f32[N, 1, 2, 2, 3, 5] = reshape(%x) {shape=[N, 1, 2, 2, 3, 5]}
          %1: f32[N, 1, 3, 2, 5, 2] = permute(%0) {perm=[0, 1, 4, 2, 5, 3]}
          %2: f32[N, 1, 6, 10] = reshape(%1) {shape=[N, 1, 6, 10]}
          %3: f32[N, 1, 8, 11] = pad(%2, none) {before=[0, 0, 1, 0], after=[0, 0, 1, 1], mode="constant"}
          %4: f32[N, 1, 4, 5] = avg_pool(%3) {kernel=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0]}
          return %4
        }
        """,
        """
        symbol N
        graph @main(%x: f32[N, 4, 3, 5]) {
          %0: f32[N, 1, 6, 10] = depth_to_space(%x) {block=2}
          %1: f32[N, 1, 4, 5] = avg_pool(%0) {kernel=[2, 2], strides=[2, 2], pads=[1, 0, 1, 1]}
          return %1
        }
        """,
    )
