"""Batch norm becomes part of the layer before it, as a lazy weight, where nothing else sees the difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import assert_same

from isthmus.ir import Builder, Graph, LazyWeight, Tensor, Value
from isthmus.ir.dtypes import DType, f16, f32
from isthmus.ir.interpreter import run
from isthmus.passes import FoldBatchNorm, run_passes


def draw(*shape: int, dtype: DType = f32) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype.numpy)


def normed(b: Builder, x: Value, affine: bool = True) -> Value:
    assert x.tensor.shape is not None
    channels, dtype = x.tensor.shape[1], x.tensor.dtype
    assert isinstance(channels, int)
    a, c, mean, var = (draw(channels, dtype=dtype) + n for n in range(4))
    result: Value = b.batch_norm(x, a if affine else None, c if affine else None, mean, np.abs(var) + 0.5, eps=1e-3)
    return result


def conv(b: Builder, x: Value, bias: bool) -> Value:
    w = b.constant(draw(6, 2, 3, 3, dtype=x.tensor.dtype), name="conv.weight")
    c = b.constant(draw(6, dtype=x.tensor.dtype), name="conv.bias") if bias else None
    result: Value = b.conv(x, w, c, strides=[1, 1], pads=[1, 1, 1, 1], dilations=[1, 1], groups=2)
    return result


def conv_transpose(b: Builder, x: Value, bias: bool) -> Value:
    result: Value = b.conv_transpose(
        x, b.constant(draw(4, 3, 3, 3), name="conv.weight"), draw(6) if bias else None, strides=[2, 2], pads=[1, 1, 1, 1],
        output_padding=[0, 0], dilations=[1, 1], groups=2,
    )  # fmt: skip
    return result


def linear(b: Builder, x: Value, bias: bool) -> Value:
    flat = b.reshape(x, shape=[x.tensor.shape[0], 4 * 25])  # type: ignore[index]
    result: Value = b.linear(flat, b.constant(draw(6, 100), name="conv.weight"), draw(6) if bias else None)
    return result


def model(layer: Any, bias: bool, affine: bool, dtype: DType = f32) -> Graph:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(dtype, (g.symbols.declare("N").dim, 4, 5, 5)), "x")
    g.set_outputs([b.relu(normed(b, layer(b, x, bias), affine))])
    return g


@pytest.mark.parametrize("affine", [False, True], ids=["plain", "affine"])
@pytest.mark.parametrize("bias", [False, True], ids=["no-bias", "bias"])
@pytest.mark.parametrize("layer", [conv, conv_transpose, linear])
def test_becomes_part_of_the_weights(layer: Any, bias: bool, affine: bool) -> None:
    g = model(layer, bias, affine)
    x = draw(3, 4, 5, 5)
    before = run(g, [x])
    (record,) = run_passes(g, [FoldBatchNorm()], verify=True)
    assert record.counts == {"into_weights": 1}
    names = [node.op.name for node in g.nodes if node.op.name not in ("constant", "reshape")]
    assert names == [layer.__name__, "relu"]
    kernel = next(node for node in g.nodes if node.op.name == layer.__name__).operands[1]
    assert kernel is not None
    assert isinstance(kernel.weight, LazyWeight)
    assert kernel.weight.row_wise
    assert kernel.name == "conv.weight"
    assert b"".join(kernel.weight.chunks()) == kernel.weight.array().tobytes()
    assert_same(before, run(g, [x]), 1e-5)


def test_half_precision_is_scaled_in_single() -> None:
    g = model(conv, True, True, f16)
    x = draw(2, 4, 5, 5, dtype=f16)
    before = run(g, [x])
    run_passes(g, [FoldBatchNorm()], verify=True)
    assert {weight.dtype for weight in g.weights()} == {f16}
    assert_same([a.astype(np.float32) for a in before], [a.astype(np.float32) for a in run(g, [x])], 1e-2)


def shared_result(b: Builder, x: Value) -> list[Value]:
    y = conv(b, x, True)
    return [normed(b, y), b.relu(y)]


def shared_weight(b: Builder, x: Value) -> list[Value]:
    y = normed(b, conv(b, x, False))
    assert y.producer is not None
    layer = y.producer.operands[0]
    assert layer is not None
    assert layer.producer is not None
    return [y, b.neg(layer.producer.operands[1])]


def computed_weight(b: Builder, x: Value) -> list[Value]:
    w = b.graph.add_input(Tensor(f32, (6, 4, 1, 1)))
    return [normed(b, b.conv(x, w, None, strides=[1, 1], pads=[0, 0, 0, 0], dilations=[1, 1]))]


def something_between(b: Builder, x: Value) -> list[Value]:
    return [normed(b, b.relu(conv(b, x, True)))]


def channels_last(b: Builder, x: Value) -> list[Value]:
    return [normed(b, b.linear(x, draw(3, 5)))]


def infinite_factor(b: Builder, x: Value) -> list[Value]:
    """A channel that was constant in training: as it is, infinite or nan where x is the mean; folded, nan all over."""
    ones = np.ones(6, np.float32)
    return [b.batch_norm(conv(b, x, True), ones, ones, ones, np.array([1, 0, 1, 1, 1, 1], np.float32), eps=0.0)]


def infinite_factor_of_inputs(b: Builder, x: Value) -> list[Value]:
    ones = np.ones(4, np.float32)
    return [conv(b, b.batch_norm(x, ones, None, ones * 0, ones * 0, eps=0.0), True)]


UNLIKE = [
    shared_result, shared_weight, computed_weight, something_between, channels_last, infinite_factor, infinite_factor_of_inputs,
]  # fmt: skip


@pytest.mark.parametrize("build", UNLIKE)
def test_stays(build: Any) -> None:
    g = Graph()
    b = Builder(g)
    x = g.add_input(Tensor(f32, (2, 4, 5, 5)))
    g.set_outputs(build(b, x))
    (record,) = run_passes(g, [FoldBatchNorm()], verify=True)
    assert not record.counts
    assert "batch_norm" in [node.op.name for node in g.nodes]
