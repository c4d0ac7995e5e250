"""How single things are said: constants, inputs that are outputs, quantization, sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tensorrt_reader import evaluate

from isthmus.backends.tensorrt import TensorRTBackend
from isthmus.backends.tensorrt.artefact import TensorRTArtefact
from isthmus.ir import interpreter
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, ceildiv, maximum, minimum
from isthmus.ir.dtypes import DType, bf16, bool_, f8e4m3fn, f16, f32, i8, i64, u8
from isthmus.ir.errors import UnsupportedError
from isthmus.ir.graph import Graph
from isthmus.ir.testing import agree
from isthmus.ir.types import Tensor
from isthmus.passes.legalize import legalize

x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def emitted(graph: Graph) -> TensorRTArtefact:
    copy = graph.clone()
    legalize(copy, TensorRTBackend())
    return TensorRTBackend().emit(copy)


def check(graph: Graph, *inputs: Any, build: bool = True) -> TensorRTArtefact:
    artefact = emitted(graph)
    wanted, got = interpreter.run(graph, list(inputs)), evaluate(artefact, list(inputs))
    assert all(map(agree, got, wanted)), (got, wanted)
    if build:
        assert len(memoryview(artefact.build(["sm86", "sm89"]))) > 1000
    return artefact


def kinds(artefact: TensorRTArtefact) -> list[str]:
    layers = [artefact.network.get_layer(index) for index in range(artefact.network.num_layers)]
    return [artefact.trt.ILayer.type.fget(layer).name for layer in layers]


def test_outputs_that_are_inputs_constants_or_twice_the_same() -> None:
    graph = Graph()
    a, unused = graph.add_input(Tensor(f32, (4, 6)), "a"), graph.add_input(Tensor(bool_, (2,)), "unused")
    b = Builder(graph)
    total = b.add(a, 1.0)
    graph.set_outputs([a, total, total, b.constant(x)])
    artefact = check(graph, x, np.array([True, False]))
    assert artefact.input_names == ["a", "unused"]
    assert len(set(artefact.output_names)) == 4
    assert unused.name == "unused"


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_constants_of_every_float(dtype: DType) -> None:
    graph = Graph()
    a = graph.add_input(Tensor(dtype, (4, 6)), "a")
    b = Builder(graph)
    weight = b.constant(x[:3].astype(dtype.numpy))
    graph.set_outputs([b.linear(a, weight, b.constant(x[0, :3].astype(dtype.numpy)))])
    check(graph, x.astype(dtype.numpy))


def test_small_constants_are_shared_and_come_in_the_shape_that_is_wanted() -> None:
    graph = Graph()
    a = graph.add_input(Tensor(f32, (4, 6)), "a")
    b = Builder(graph)
    graph.set_outputs([b.mul(b.add(a, np.float32(2)), np.float32(2))])
    assert kinds(check(graph, x)) == ["CONSTANT", "CONSTANT", "ELEMENTWISE", "ELEMENTWISE"]


def test_a_reshape_that_needs_no_sizes() -> None:
    graph = Graph()
    n = graph.symbols.declare("N", hint=4).dim
    a = graph.add_input(Tensor(f32, (n, 6)), "a")
    b = Builder(graph)
    graph.set_outputs([b.reshape(b.reshape(a, shape=[n, 2, 3]), shape=[n * 2, 3])])
    assert kinds(check(graph, x)) == ["SHUFFLE", "SHUFFLE"]


@pytest.mark.parametrize("size", [3, 4, 7])
def test_sizes(size: int) -> None:
    graph = Graph()
    n = graph.symbols.declare("N", lo=2, hint=4).dim
    graph.add_input(Tensor(f32, (n, 2)), "a")
    b = Builder(graph)
    dims: list[Dim] = [
        n, n * 2 + 1, 5 - n, n * n, n // 2, ceildiv(n, 2), (n - 5) // 2, n % 3, minimum(n, 5), maximum(n, 5, n * 3 - 10), 4,
    ]  # fmt: skip
    graph.set_outputs([b.size(dim) for dim in dims])
    artefact = check(graph, np.zeros((size, 2), np.float32), build=size == 3)
    assert kinds(artefact).count("SHAPE") == 1


@pytest.mark.parametrize("target", [i8, f8e4m3fn])
@pytest.mark.parametrize("axis", [None, 0])
def test_quantization(target: DType, axis: int | None) -> None:
    graph = Graph()
    a = graph.add_input(Tensor(f32, (4, 6)), "a")
    b = Builder(graph)
    scale = b.constant(np.float32(0.02) if axis is None else np.float32([0.02, 0.01, 0.03, 0.02]))
    coded = b.quantize(a, scale, None, dtype=target, axis=axis)
    graph.set_outputs([b.dequantize(coded, scale, None, axis=axis)])
    artefact = emitted(graph)
    assert {"QUANTIZE", "DEQUANTIZE"} <= set(kinds(artefact))
    wanted, got = interpreter.run(graph, [x]), evaluate(artefact, [x])
    assert agree(got[0], wanted[0])
    assert len(memoryview(artefact.build(["sm89"]))) > 1000


def test_quantized_weights() -> None:
    graph = Graph()
    a = graph.add_input(Tensor(f32, (4, 6)), "a")
    b = Builder(graph)
    codes = b.constant(np.arange(-9, 9, dtype=np.int8).reshape(3, 6))
    weight = b.dequantize(codes, b.constant(np.float32([0.1, 0.2, 0.3])), None, axis=0)
    graph.set_outputs([b.linear(a, weight, None)])
    check(graph, x)


def test_a_zero_point_decomposes() -> None:
    graph = Graph()
    a = graph.add_input(Tensor(f32, (4, 6)), "a")
    b = Builder(graph)
    coded = b.quantize(a, np.float32(0.02), np.uint8(128), dtype=u8)
    graph.set_outputs([b.dequantize(coded, np.float32(0.02), b.constant(np.uint8(128)))])
    assert "QUANTIZE" not in kinds(check(graph, x))


def test_indices_known_to_count_from_the_end_cost_nothing() -> None:
    graph = Graph()
    a = graph.add_input(Tensor(f32, (4, 6)), "a")
    b = Builder(graph)
    graph.set_outputs([b.gather(a, np.array([-1, 0, 2]), axis=1)])
    assert kinds(check(graph, x)) == ["CONSTANT", "GATHER"]


def test_random_numbers() -> None:
    graph = Graph()
    n = graph.symbols.declare("N", hint=4).dim
    graph.add_input(Tensor(f32, (n,)), "a")
    b = Builder(graph)
    graph.set_outputs([b.random_uniform(shape=[n, 500], dtype=f32, low=2.0, high=3.0),
                       b.random_normal(shape=[500, n], dtype=f16, mean=5.0, std=0.5)])  # fmt: skip
    artefact = emitted(graph)
    uniform, normal = evaluate(artefact, [np.zeros(4, np.float32)])
    assert (uniform.shape, normal.shape) == ((4, 500), (500, 4))
    assert 2 <= uniform.min() < 2.1 < 2.9 < uniform.max() < 3
    assert abs(normal.astype(np.float32).mean() - 5) < 0.1
    assert len(memoryview(artefact.build(["sm86"]))) > 1000


def test_more_axes_than_tensorrt_has() -> None:
    graph = Graph()
    a = graph.add_input(Tensor(f32, (1,) * 9), "a")
    graph.set_outputs([Builder(graph).relu(a)])
    with pytest.raises(UnsupportedError, match="at most 8 axes"):
        emitted(graph)


def test_bfloat16_arrays_reach_the_reader() -> None:
    graph = Graph()
    a = graph.add_input(Tensor(bf16, (1, 2, 5, 5)), "a")
    b = Builder(graph)
    kernel = np.random.default_rng(1).standard_normal((3, 2, 3, 3)).astype(ml_dtypes.bfloat16)
    conv = {"strides": [1, 1], "pads": [1, 1, 1, 1], "dilations": [1, 1]}
    graph.set_outputs([b.conv(a, kernel, np.ones(3, ml_dtypes.bfloat16), **conv)])
    check(graph, np.random.default_rng(2).standard_normal((1, 2, 5, 5)).astype(ml_dtypes.bfloat16))


def test_integer_division_by_what_may_be_zero_is_guarded() -> None:
    graph = Graph()
    a, c = graph.add_input(Tensor(i64, (3,)), "a"), graph.add_input(Tensor(i64, (3,)), "c")
    b = Builder(graph)
    graph.set_outputs([b.div(a, c), b.floor_div(a, c), b.mod(a, c), b.mod(a, 2)])
    check(graph, np.array([7, -7, 5]), np.array([2, 2, 0]))


@pytest.mark.parametrize("dtype", [u8, i8])
def test_small_integers_wrap(dtype: DType) -> None:
    graph = Graph()
    n = graph.symbols.declare("N", hint=4).dim
    a = graph.add_input(Tensor(dtype, (n, 6)), "a")
    b = Builder(graph)
    numbers = np.arange(24).reshape(4, 6).astype(dtype.numpy)
    doubled = b.concat([b.permute(b.mul(b.add(a, b.constant(numbers[:1])), 3), perm=[1, 0]), b.permute(a, perm=[1, 0])], axis=0)
    graph.set_outputs([doubled, b.cast(doubled, dtype=f32), a, b.gt(a, 9), b.reduce_max(a, axes=[1])])
    check(graph, numbers)


def test_pixels() -> None:
    graph = Graph()
    a = graph.add_input(Tensor(u8, (2, 3, 3)), "a")
    b = Builder(graph)
    graph.set_outputs([b.mul(b.cast(b.permute(a, perm=[2, 0, 1]), dtype=f32), 1 / 255)])
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 3)).astype(np.uint8)
    assert kinds(check(graph, pixels)) == ["CAST", "SHUFFLE", "CAST", "CONSTANT", "CONSTANT", "ELEMENTWISE"]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("strides", "dilations"), [((2, 2), (1, 1)), ((1, 1), (2, 2)), ((2, 2), (2, 2)), ((1, 3), (2, 1))])
def test_transposed_convolution_with_strides_and_dilations(
    strides: tuple[int, int], dilations: tuple[int, int], groups: int
) -> None:
    graph = Graph()
    b = Builder(graph)
    weight = b.constant(np.random.default_rng(0).standard_normal((2, 3, 3, 3)).astype(np.float32))
    a = graph.add_input(Tensor(f32, (1, 2, 5, 5)), "a")
    attrs = {"strides": strides, "pads": [1, 0, 1, 2], "output_padding": [0, 1], "dilations": dilations, "groups": groups}
    graph.set_outputs([b.conv_transpose(a, weight, None, **attrs)])
    found = check(graph, np.random.default_rng(1).standard_normal((1, 2, 5, 5)).astype(np.float32))
    assert kinds(found) == ["DECONVOLUTION"]


def test_a_kernel_that_is_no_constant_is_not_dilated() -> None:
    graph = Graph()
    a, weight = graph.add_input(Tensor(f32, (1, 2, 5, 5)), "a"), graph.add_input(Tensor(f32, (2, 3, 3, 3)), "weight")
    attrs = {"strides": [2, 2], "pads": [0] * 4, "output_padding": [0, 0], "dilations": [2, 2]}
    graph.set_outputs([Builder(graph).conv_transpose(a, weight, None, **attrs)])
    with pytest.raises(UnsupportedError, match="both strides and dilations") as caught:
        emitted(graph)
    assert "remedy: a kernel that is a constant can be dilated" in str(caught.value)
