"""Empty axes, infinities, and element types that onnxruntime's kernels take by their signature and then refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emitted import Model, f

from isthmus.backends.onnx.opsets import NEWEST
from isthmus.ir import dtypes as T
from isthmus.ir import interpreter
from isthmus.ir.dtypes import DType

EXTREMES = [
    *((op, dtype) for op in ("reduce_max", "reduce_min") for dtype in (T.bool_, T.i8, T.i16, T.i32, T.u8, T.u16, T.f16, T.f32)),
    *((op, T.bool_) for op in ("reduce_any", "reduce_all")),
]
SCATTERED = [
    *((dtype, reduction) for dtype in (T.f16, T.bf16, T.i32) for reduction in ("add", "mul", "max", "min")),
    *((T.bool_, reduction) for reduction in ("max", "min")),
]


@pytest.mark.parametrize("opset", [13, 18, NEWEST])
@pytest.mark.parametrize(("op", "dtype"), EXTREMES, ids=str)
@pytest.mark.parametrize("size", [0, "n"])
def test_extremes_of_nothing(op: str, dtype: DType, opset: int, size: Any) -> None:
    m = Model()
    x = m.input(2, m.dim("n", lo=0) if size == "n" else 0, dtype=dtype)
    m.check(m.emit(getattr(m.b, op)(x, axes=[1]), opset=opset), np.zeros((2, 0), dtype.numpy))


def test_results_are_of_numpys_own_types() -> None:
    """onnxruntime gives unsigned integers of 64 bits in another of numpy's types, which torch does not know."""
    m = Model()
    (found,) = m.emit(m.b.cast(m.input(3, dtype=T.i64), dtype=T.u64)).run([np.arange(3)])
    assert found.dtype.type is np.uint64


@pytest.mark.parametrize(("op", "attrs"), [("layer_norm", {}), ("rms_norm", {}), ("group_norm", {"groups": 2})])
def test_norms_of_nothing(op: str, attrs: dict[str, int]) -> None:
    m = Model()
    more = attrs or {"axis": 2}
    artefact = m.emit(getattr(m.b, op)(m.input(2, 4, 0), eps=1e-5, **more), opset=NEWEST)
    m.check(artefact, np.zeros((2, 4, 0), np.float32))


@pytest.mark.parametrize("opset", [7, 8, 13, NEWEST])
@pytest.mark.parametrize(("shape", "target"), [((1, 3), (0, 3)), ((1, 1), (0, 0)), ((3, 1), (3, 0)), ((1, 3), (2, 0, 3))])
def test_nothing_is_expanded_of_what_was_computed(shape: tuple[int, ...], target: tuple[int, ...], opset: int) -> None:
    """Of an input onnxruntime does so anyhow; of what a node made it leaves the Expand out."""
    m = Model()
    x = m.b.neg(m.input(*shape))
    m.check(m.emit(m.b.add(x, m.b.expand(x, shape=target)), opset=opset), f(*shape))


@pytest.mark.parametrize("opset", [13, 17, NEWEST])
@pytest.mark.parametrize("dtype", [T.f16, T.bf16], ids=str)
@pytest.mark.parametrize("perm", [(1, 0, 2), (1, 2, 0), (1, 2, 0, 3), (1, 2, 3, 0)], ids=str)
def test_turned_halves_in_products(perm: tuple[int, ...], dtype: DType, opset: int) -> None:
    """Fused with the product behind it, such a turn ends the process: as behind a recurrence with the batch in front."""
    m = Model()
    x = m.input(m.dim("n"), *(2, 3, 4)[: len(perm) - 1], dtype=dtype)
    turned = m.b.permute(x, perm=perm)
    size = 3 if perm[-1] == 0 else (2, 3, 4)[perm[-1] - 1]
    weight = m.b.constant(f(5, size), dtype)
    array = f(3, *(2, 3, 4)[: len(perm) - 1]).astype(dtype.numpy)
    m.check(m.emit(m.b.linear(turned, weight, None) if perm[-1] else m.b.add(turned, turned), opset=opset), array)
    m = Model()
    x = m.input(3, *(2, 3, 4)[: len(perm) - 1], dtype=dtype)
    m.check(m.emit(m.b.matmul(m.b.permute(x, perm=perm), m.b.constant(f(size, 5), dtype)), opset=opset), array)


@pytest.mark.parametrize("opset", [13, NEWEST])
def test_bf16_is_expanded(opset: int) -> None:
    m = Model()
    n = m.dim("n")
    x = m.input(n, 1, dtype=T.bf16)
    m.check(m.emit(m.b.expand(x, shape=[n, 3]), opset=opset), f(4, 1).astype(T.bf16.numpy))


SETTINGS = [
    ("layer_norm", "eps", {"axis": 1}), ("rms_norm", "eps", {"axis": 1}), ("group_norm", "eps", {"groups": 2}),
    ("instance_norm", "eps", {}), ("batch_norm", "eps", {}), ("elu", "alpha", {}), ("celu", "alpha", {}),
    ("leaky_relu", "alpha", {}), ("hard_sigmoid", "alpha", {"beta": 0.5}), ("roi_align", "scale", {"output_size": [2, 2]}),
]  # fmt: skip


@pytest.mark.parametrize("opset", [17, NEWEST])
@pytest.mark.parametrize(("op", "key", "more"), SETTINGS)
@pytest.mark.parametrize("number", [0.3, 1e-5, 2.0**-7])
def test_settings_that_f32_would_round(op: str, key: str, more: dict[str, Any], number: float, opset: int) -> None:
    m = Model()
    x = m.input(2, 4, 5, 5, dtype=T.f64)
    statistics, box = [None, None, np.zeros(4), np.full(4, 1e-5)], [np.array([[0, 0, 3, 4.0]]), np.array([1])]
    others: dict[str, list[Any]] = {"batch_norm": statistics, "roi_align": box}
    artefact = m.emit(getattr(m.b, op)(x, *others.get(op, []), **more | {key: number}), opset=opset)
    given = f(2, 4, 5, 5).astype(np.float64) * 1e-2
    (got,), (wanted,) = artefact.run([given]), interpreter.run(m.graph, [given])
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("shape", [(1, 2, 0, 4), (1, 2, 4, 0), (1, 0, 4, 4)])
@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
def test_pools_of_nothing(op: str, shape: tuple[int, ...]) -> None:
    m = Model()
    more = {"dilations": [1, 1]} if op == "max_pool" else {}
    y = getattr(m.b, op)(m.input(*shape), kernel=[2, 2], strides=[1, 1], pads=[1] * 4, **more)
    m.check(m.emit(y), np.zeros(shape, np.float32))


TAPS = [T.f64, T.i64, T.i32, T.u8, T.f16]


@pytest.mark.parametrize("dtype", TAPS, ids=str)
@pytest.mark.parametrize(("sizes", "setting"), [
    ((7,), {"strides": [2], "dilations": [2], "pads": [1, 2]}),
    ((6, 5), {"strides": [1, 3], "dilations": [2, 1], "pads": [1, 0, 0, 1]}),
    ((4, 5, 3), {"strides": [2, 1, 1], "dilations": [1, 2, 1], "pads": [0, 1, 1, 1, 0, 0]}),
])  # fmt: skip
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("op", ["conv", "conv_transpose"])
def test_convolutions_of_types_without_a_kernel(
    op: str, groups: int, sizes: tuple[int, ...], setting: dict[str, list[int]], dtype: DType
) -> None:
    rank = len(sizes)
    draws = np.random.default_rng(0)
    x, weight, bias = (draws.integers(0, 9, shape).astype(dtype.numpy) for shape in (
        (2, 4, *sizes), (4, 4 // groups, *[2] * rank), (4,)
    ))  # fmt: skip
    m = Model()
    extra = {"output_padding": [1, *[0] * (rank - 1)]} if op == "conv_transpose" else {}
    arguments = [m.input(*each.shape, dtype=dtype, name=name) for name, each in zip("xwb", (x, weight, bias), strict=True)]
    m.check(m.emit(getattr(m.b, op)(*arguments, groups=groups, **setting, **extra)), x, weight, bias)


def test_output_padding_of_a_stride_and_more() -> None:
    m = Model()
    x, weight = m.input(1, 2, 4, name="x"), m.input(2, 3, 2, name="w")
    y = m.b.conv_transpose(x, weight, strides=[2], pads=[0, 0], output_padding=[3], dilations=[4])
    draws = np.random.default_rng(0)
    m.check(m.emit(y), *(draws.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 4), (2, 3, 2))))


@pytest.mark.parametrize("dtype", TAPS, ids=str)
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("op", ["max_pool", "max_pool_with_index", "avg_pool", "avg_pool/inside", "avg_pool/divisor"])
def test_pools_of_types_without_a_kernel(op: str, ceil_mode: bool, dtype: DType) -> None:
    name, _, how = op.partition("/")
    more: dict[str, object] = {} if name == "avg_pool" else {"dilations": [2, 1]}
    more |= {"inside": {"count_include_pad": False}, "divisor": {"divisor": 5}}.get(how, {})
    if name == "max_pool_with_index":
        more["convention"] = "per_plane"
    x = np.random.default_rng(0).integers(0, 9, (2, 3, 7, 6)).astype(dtype.numpy)  # with ties
    m = Model()
    window = {"kernel": [3, 2], "strides": [2, 3], "pads": [1, 1, 1, 0], "ceil_mode": ceil_mode}
    y = getattr(m.b, name)(m.input(*x.shape, dtype=dtype), **window, **more)
    m.check(m.emit(*(y if isinstance(y, tuple) else (y,))), x)


@pytest.mark.parametrize("opset", [18, NEWEST])
@pytest.mark.parametrize(("dtype", "reduction"), SCATTERED, ids=str)
@pytest.mark.parametrize("op", ["scatter_elements", "scatter_nd"])
def test_scattering_with_reductions(op: str, dtype: DType, reduction: str, opset: int) -> None:
    m = Model()
    x, updates = m.input(4, dtype=dtype, name="x"), m.input(3, dtype=dtype, name="updates")
    at = np.array([0, 1, 3])
    if op == "scatter_nd":
        y = m.b.scatter_nd(x, m.b.constant(at[:, None]), updates, reduction=reduction)
    else:
        y = m.b.scatter_elements(x, m.b.constant(at), updates, axis=0, reduction=reduction)
    given = np.array([1, 0, 1, 1]).astype(dtype.numpy), np.array([1, 1, 0]).astype(dtype.numpy)
    m.check(m.emit(y, opset=opset), *given)


@pytest.mark.parametrize("dtype", [T.f16, T.f32, T.f64, T.i32], ids=str)
@pytest.mark.parametrize("side", ["lo", "hi", "both"])
def test_infinity_is_within_a_bound_on_one_side(dtype: DType, side: str) -> None:
    m = Model()
    bound = m.b.constant(1, dtype)
    lo, hi = bound if side != "hi" else None, bound if side != "lo" else None
    values = np.array([np.inf, -np.inf, 3, -3, 0]) if dtype.is_float else np.array([2**31 - 1, -(2**31), 3, -3, 0])
    artefact = m.emit(m.b.clip(m.input(5, dtype=dtype), lo, hi))
    assert artefact.node_count == 1
    m.check(artefact, values.astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [T.f16, T.f32], ids=str)
@pytest.mark.parametrize("opset", [13, 18, NEWEST])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_softplus_of_what_the_exponential_overflows_for(dtype: DType, opset: int, beta: float) -> None:
    m = Model()
    y = m.b.softplus(m.input(6, dtype=dtype), beta=beta, threshold=20.0)
    m.check(m.emit(y, opset=opset), np.array([-1000, 20, 88, 90, 1000, np.finfo(dtype.numpy).max], dtype.numpy))


def test_products_of_an_axis_without_elements_and_of_unknown_size() -> None:
    m = Model()
    m.check(m.emit(m.b.cumprod(m.input(2, 0), axis=1, exclusive=True)), np.zeros((2, 0), np.float32))
    m = Model()
    made = m.emit(m.b.cumprod(m.input(2, m.dim("n")), axis=1, reverse=True))
    for size in (1, 4):
        m.check(made, np.linspace(-2, 2, 2 * size, dtype=np.float32).reshape(2, size))


@pytest.mark.parametrize("dtype", [T.i8, T.u8, T.i16, T.i32, T.i64], ids=str)
@pytest.mark.parametrize("exponent", [-3, -2, -1, 0, 1, 2, 3, 4, 5, 13, 100])
def test_powers_of_integers_wrap_around_as_products_do(dtype: DType, exponent: int) -> None:
    if exponent < 0 and not dtype.is_signed:
        exponent += 200
    m = Model()
    y = m.b.pow(m.input(8, dtype=dtype), m.b.constant([exponent], dtype))
    info = np.iinfo(dtype.numpy)
    given = np.array([info.min, 0, 1, 2, 3, 10, 11, info.max], dtype.numpy)
    m.check(m.emit(y), given)


@pytest.mark.parametrize("dtype", [T.i8, T.u8, T.i32, T.i64], ids=str)
def test_powers_that_only_a_run_tells_wrap_around_and_round_towards_0(dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    x = np.array([info.min, 0, 1, 2, 3, 10, 11, info.max], dtype.numpy)[:, None]
    exponents = np.array([info.min, 0, 1, 2, 3, 7, 62, 63, 64, 100], dtype.numpy)
    m = Model()
    m.check(m.emit(m.b.pow(m.input(8, 1, dtype=dtype), m.input(10, dtype=dtype))), x, exponents)
    m = Model()
    m.check(m.emit(m.b.pow(m.input(dtype=dtype), m.input(0, dtype=dtype))), x[3, 0], exponents[:0])


def test_a_known_power_of_integers_is_products() -> None:
    for exponent, nodes in ((2, 1), (3, 2), (4, 2), (5, 3)):
        m = Model()
        assert m.emit(m.b.pow(m.input(3, dtype=T.i64), m.b.constant(exponent, T.i64))).node_count == nodes


@pytest.mark.parametrize("opset", [18, NEWEST])
@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 3, 4)])
def test_a_group_norm_of_a_great_mean(shape: tuple[int, ...], opset: int) -> None:
    m = Model()
    artefact = m.emit(m.b.group_norm(m.input(*shape), groups=2), opset=opset)
    x = f(*shape)
    (near,), (far,) = artefact.run([x]), artefact.run([x + np.float32(1000)])
    np.testing.assert_allclose(far, near, atol=2e-3)
