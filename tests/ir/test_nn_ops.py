"""Neural-net ops against torch's eager mode, which is where their semantics come from."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from isthmus.ir import OPS
from isthmus.ir.dtypes import i8, u8
from isthmus.ir.errors import InferError
from isthmus.ir.interpreter import run
from isthmus.ir.op import sample
from isthmus.ir.testing import graph_of

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
MAX_UNPOOL = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE_AVG = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
ADAPTIVE_MAX = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def apply(name: str, *operands: Any, **attrs: Any) -> Any:
    """The op's results on tensors."""
    arrays = [None if operand is None else np.asarray(operand) for operand in operands]
    graph, inputs = graph_of(OPS[name], sample(*arrays, **attrs))
    results = run(graph, inputs)
    for value, result in zip(graph.outputs, results, strict=True):
        assert value.tensor.shape == result.shape
    return results[0] if len(results) == 1 else results


def close(found: Any, expected: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(found, expected.numpy(), rtol, atol)
    assert found.dtype == expected.numpy().dtype


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def both(pads: tuple[int, ...]) -> list[int]:
    return [*pads, *pads]


# ---- convolutions

axes = st.integers(1, 3)


def per_axis(draw: Any, count: int, lo: int, hi: int) -> tuple[int, ...]:
    return tuple(draw(st.integers(lo, hi)) for _ in range(count))


@st.composite
def convolutions(draw: Any) -> dict[str, Any]:
    count = draw(axes)
    kernel, stride, dilation = per_axis(draw, count, 1, 3), per_axis(draw, count, 1, 3), per_axis(draw, count, 1, 2)
    padding = per_axis(draw, count, 0, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = tuple(max(1, r - 2 * p) + draw(st.integers(0, 4)) for r, p in zip(reach, padding, strict=True))
    groups = draw(st.integers(1, 3))
    extra = tuple(draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True))
    return {
        "count": count, "kernel": kernel, "stride": stride, "dilation": dilation, "padding": padding, "sizes": sizes,
        "groups": groups, "channels": groups * draw(st.integers(1, 2)), "outputs": groups * draw(st.integers(1, 2)),
        "batch": draw(st.integers(1, 2)), "bias": draw(st.booleans()), "extra": extra,
    }  # fmt: skip


@given(convolutions())
@settings(deadline=None, max_examples=60)
def test_conv(c: dict[str, Any]) -> None:
    x = draw(c["batch"], c["channels"], *c["sizes"])
    weight = draw(c["outputs"], c["channels"] // c["groups"], *c["kernel"], seed=1)
    bias = draw(c["outputs"], seed=2) if c["bias"] else None
    expected = CONV[c["count"]](x, weight, bias, c["stride"], c["padding"], c["dilation"], c["groups"])
    found = apply("conv", x, weight, bias, strides=c["stride"], pads=both(c["padding"]), dilations=c["dilation"],
                  groups=c["groups"])  # fmt: skip
    close(found, expected)


@given(convolutions())
@settings(deadline=None, max_examples=60)
def test_conv_transpose(c: dict[str, Any]) -> None:
    weight = draw(c["channels"], c["outputs"] // c["groups"], *c["kernel"], seed=1)
    parts = zip(c["sizes"], c["stride"], c["dilation"], c["kernel"], c["padding"], c["extra"], strict=True)
    assume(all((n - 1) * s + d * (k - 1) + 1 + e - 2 * p > 0 for n, s, d, k, p, e in parts))  # something is left
    x = draw(c["batch"], c["channels"], *c["sizes"])
    bias = draw(c["outputs"], seed=2) if c["bias"] else None
    expected = CONV_TRANSPOSE[c["count"]](x, weight, bias, c["stride"], c["padding"], c["extra"], c["groups"], c["dilation"])
    found = apply("conv_transpose", x, weight, bias, strides=c["stride"], pads=both(c["padding"]),
                  output_padding=c["extra"], groups=c["groups"], dilations=c["dilation"])  # fmt: skip
    close(found, expected)


def test_conv_pads_each_side_by_its_own() -> None:
    x, weight = draw(1, 2, 5, 4), draw(3, 2, 3, 3, seed=1)
    expected = F.conv2d(F.pad(x, (2, 3, 1, 0)), weight)
    close(apply("conv", x, weight, strides=[1, 1], pads=[1, 2, 0, 3], dilations=[1, 1]), expected)
    whole = F.conv_transpose2d(x, weight.transpose(0, 1), stride=2)
    found = apply("conv_transpose", x, weight.transpose(0, 1), strides=[2, 2], pads=[1, 2, 0, 1], output_padding=[0, 0],
                  dilations=[1, 1])  # fmt: skip
    close(found, whole[:, :, 1:, 2:-1])


def test_conv_in_half_precision_is_rounded_once() -> None:
    x, weight = draw(1, 64, 6, 6), draw(4, 64, 3, 3, seed=1)
    for dtype in (torch.float16, torch.float32):
        exact = F.conv2d(x.to(dtype).double(), weight.to(dtype).double(), padding=1)
        found = apply("conv", x.to(dtype), weight.to(dtype), strides=[1, 1], pads=[1] * 4, dilations=[1, 1])
        # 576 products are summed in float32; only the last step rounds to the element type, whose steps are 2**-10 of a value.
        rtol = 1e-5 if dtype is torch.float32 else 2**-10
        np.testing.assert_allclose(found.astype(np.float64), exact.numpy(), rtol, 1e-4)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("conv", [(1, 3, 4, 4), (2, 2, 3, 3)], {}, "channels of x and weight do not agree"),
        ("conv", [(1, 4, 4, 4), (3, 2, 3, 3)], {"groups": 2}, "3 output channels do not divide into 2 groups"),
        ("conv", [(1, 2, 2, 4), (2, 2, 3, 3)], {}, "window is larger than the padded input"),
        ("conv", [(1, 2, 4, 4), (2, 2, 3)], {}, "weight must have the rank of x"),
        ("conv", [(1, 2, 4, 4), (2, 2, 3, 3)], {"strides": [1]}, "attribute strides has a wrong length"),
        ("conv", [(1, 2, 4, 4), (2, 2, 3, 3)], {"pads": [0, 0, 0, -1]}, "attribute pads has an element below 0"),
        ("conv", [(1, 2, 4, 4), (2, 2, 3, 3), (3,)], {}, "sizes of bias and weight do not agree"),
    ],
)
def test_conv_refuses(name: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], message: str) -> None:
    base = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
    with pytest.raises(InferError, match=message):
        apply(name, *(draw(*shape) for shape in shapes), **(base | attrs))


# ---- pooling


@st.composite
def pools(draw: Any, dilated: bool = True) -> dict[str, Any]:
    count = draw(axes)
    kernel = per_axis(draw, count, 1, 4)
    stride = per_axis(draw, count, 1, 5)
    dilation = per_axis(draw, count, 1, 2) if dilated else (1,) * count
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = tuple(max(1, r - 2 * p) + draw(st.integers(0, 6)) for r, p in zip(reach, padding, strict=True))
    return {
        "count": count, "kernel": kernel, "stride": stride, "dilation": dilation, "padding": padding, "sizes": sizes,
        "ceil": draw(st.booleans()), "batch": draw(st.integers(1, 2)), "channels": draw(st.integers(1, 2)),
    }  # fmt: skip


@given(pools())
@settings(deadline=None, max_examples=80)
def test_max_pool(c: dict[str, Any]) -> None:
    x = draw(c["batch"], c["channels"], *c["sizes"])
    values, indices = MAX_POOL[c["count"]](
        x, c["kernel"], c["stride"], c["padding"], c["dilation"], ceil_mode=c["ceil"], return_indices=True
    )
    attrs = {"kernel": c["kernel"], "strides": c["stride"], "pads": both(c["padding"]), "dilations": c["dilation"],
             "ceil_mode": c["ceil"]}  # fmt: skip
    close(apply("max_pool", x, **attrs), values, 0, 0)
    assume(values.isfinite().all())  # a dilated window may lie in the padding alone: there is no place to speak of
    found, places = apply("max_pool_with_index", x, convention="per_plane", **attrs)
    close(found, values, 0, 0)
    np.testing.assert_array_equal(places, indices.numpy())
    _, flat = apply("max_pool_with_index", x, convention="flat", **attrs)
    np.testing.assert_array_equal(x.numpy().reshape(-1)[flat], values.numpy())


def test_max_pool_with_index_takes_the_first_of_equals_and_nan() -> None:
    holes = draw(1, 2, 4, 4).where(draw(1, 2, 4, 4, seed=1) > 0, torch.nan)
    for x in (torch.zeros(1, 2, 4, 4), torch.full((1, 2, 4, 4), -torch.inf), holes):
        values, indices = F.max_pool2d(x, 3, 1, 1, return_indices=True)
        found, places = apply("max_pool_with_index", x, kernel=[3, 3], strides=[1, 1], pads=[1] * 4, dilations=[1, 1],
                              convention="per_plane")  # fmt: skip
        np.testing.assert_array_equal(found, values.numpy())
        np.testing.assert_array_equal(places, indices.numpy())


@given(pools(dilated=False), st.booleans(), st.one_of(st.none(), st.integers(1, 5)))
@settings(deadline=None, max_examples=100)
def test_avg_pool(c: dict[str, Any], include: bool, divisor: int | None) -> None:
    x = draw(c["batch"], c["channels"], *c["sizes"])
    if c["count"] == 3:
        assume(all(size >= k for size, k in zip(c["sizes"], c["kernel"], strict=True)))  # torch wants it there alone
    more = {} if c["count"] == 1 else {"divisor_override": divisor}
    expected = AVG_POOL[c["count"]](x, c["kernel"], c["stride"], c["padding"], c["ceil"], include, **more)
    found = apply("avg_pool", x, kernel=c["kernel"], strides=c["stride"], pads=both(c["padding"]), ceil_mode=c["ceil"],
                  count_include_pad=include, divisor=more.get("divisor_override"))  # fmt: skip
    close(found, expected)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3))
@settings(deadline=None, max_examples=60)
def test_adaptive_pools(pairs: list[tuple[int, int]]) -> None:
    x = draw(2, 2, *(size for size, _ in pairs))
    wanted = tuple(out for _, out in pairs)
    close(apply("adaptive_avg_pool", x, output_size=wanted), ADAPTIVE_AVG[len(pairs)](x, wanted))
    close(apply("adaptive_max_pool", x, output_size=wanted), ADAPTIVE_MAX[len(pairs)](x, wanted), 0, 0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_max_unpool(count: int) -> None:
    x = draw(2, 3, *(6, 5, 4)[:count])
    values, indices = MAX_POOL[count](x, 2, return_indices=True)
    expected = MAX_UNPOOL[count](values, indices, 2, output_size=list(x.shape[2:]))
    close(apply("max_unpool", values, indices, shape=x.shape[2:], convention="per_plane"), expected, 0, 0)
    _, flat = apply("max_pool_with_index", x, kernel=[2] * count, strides=[2] * count, pads=[0] * 2 * count,
                    dilations=[1] * count, convention="flat")  # fmt: skip
    close(apply("max_unpool", values, flat, shape=x.shape[2:], convention="flat"), expected, 0, 0)


# ---- resize


def _torch_mode(mode: str, count: int) -> str:
    return {"linear": {1: "linear", 2: "bilinear", 3: "trilinear"}[count], "cubic": "bicubic"}.get(mode, mode)


@st.composite
def resizes(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    count = draw(axes)
    return per_axis(draw, count, 1, 9), per_axis(draw, count, 1, 14)


@given(resizes(), st.sampled_from(["linear", "cubic"]), st.booleans())
@settings(deadline=None, max_examples=80)
def test_resize_to_sizes(sizes: tuple[tuple[int, ...], tuple[int, ...]], mode: str, aligned: bool) -> None:
    before, after = sizes if mode == "linear" else tuple(((*part, 5)[:2]) for part in sizes)
    x = draw(2, 2, *before)
    expected = F.interpolate(x, after, mode=_torch_mode(mode, len(before)), align_corners=aligned)
    coordinates = "align_corners" if aligned else "half_pixel"
    # Torch may contract a product and a sum into one rounding; the weights then differ in their last bits.
    close(apply("resize", x, sizes=after, mode=mode, coordinates=coordinates), expected, 1e-4, 1e-5)


@given(resizes())
@settings(deadline=None, max_examples=60)
def test_resize_nearest(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    before, after = sizes
    x = draw(1, 2, *before)
    found = apply("resize", x, sizes=after, mode="nearest", coordinates="asymmetric", nearest="floor")
    close(found, F.interpolate(x, after, mode="nearest"), 0, 0)
    found = apply("resize", x, sizes=after, mode="nearest", coordinates="half_pixel", nearest="round_prefer_ceil")
    close(found, F.interpolate(x, after, mode="nearest-exact"), 0, 0)


@pytest.mark.parametrize("factor", [0.4, 0.5, 1.3, 2.0, 2.7])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_by_a_scale_that_is_not_the_ratio_of_sizes(factor: float, mode: str) -> None:
    x = draw(1, 2, 7, 9)
    expected = F.interpolate(x, scale_factor=factor, mode=_torch_mode(mode, 2))
    style = {"coordinates": "asymmetric", "nearest": "floor"} if mode == "nearest" else {}
    found = apply("resize", x, sizes=expected.shape[2:], mode=mode, scales=[factor, factor], **style)
    close(found, expected, 1e-4, 1e-5)  # as above


@pytest.mark.parametrize(("mode", "sizes"), list(product(["linear", "cubic"], [(3, 4), (12, 5), (7, 20), (2, 2)])))
def test_resize_with_antialias(mode: str, sizes: tuple[int, int]) -> None:
    x = draw(1, 2, 7, 9)
    expected = F.interpolate(x, sizes, mode=_torch_mode(mode, 2), antialias=True)
    found = apply("resize", x, sizes=sizes, mode=mode, antialias=True, cubic_coefficient=-0.5)
    close(found, expected, 1e-4, 1e-5)  # as above


@pytest.mark.parametrize(
    ("coordinates", "sizes", "scales", "expected"),
    [
        # By hand, from the formulas of ONNX Resize-19, for the elements 0, 1, 2, 3.
        ("asymmetric", [2], None, [0, 2]),
        ("half_pixel", [2], None, [0.5, 2.5]),
        ("half_pixel", [1], None, [1.5]),
        ("pytorch_half_pixel", [1], None, [0]),
        ("align_corners", [3], None, [0, 1.5, 3]),
        ("half_pixel_symmetric", [2], [0.6], [0.666667, 2.333333]),
    ],
)
def test_coordinates(coordinates: str, sizes: list[int], scales: list[float] | None, expected: list[float]) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    found = apply("resize", x, sizes=sizes, mode="linear", coordinates=coordinates, scales=scales)
    np.testing.assert_allclose(found.reshape(-1), expected, 1e-5)


def test_rounding_to_the_nearest() -> None:
    x = np.arange(4, dtype=np.int64).reshape(1, 1, 4)  # looked at: 0.5 and 2.5
    wanted = {"floor": [0, 2], "ceil": [1, 3], "round_prefer_floor": [0, 2], "round_prefer_ceil": [1, 3]}
    for nearest, expected in wanted.items():
        found = apply("resize", x, sizes=[2], mode="nearest", nearest=nearest)
        assert found.reshape(-1).tolist() == expected


# ---- normalizations


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 5), (2, 4, 3, 5), (2, 4, 2, 3, 2)])
def test_normalizations(shape: tuple[int, ...], affine: bool) -> None:
    x = draw(*shape) * 3 + 1
    scale, bias = (draw(4, seed=1), draw(4, seed=2)) if affine else (None, None)
    mean, var = draw(4, seed=3), draw(4, seed=4).abs() + 0.1
    close(apply("batch_norm", x, scale, bias, mean, var, eps=1e-3), F.batch_norm(x, mean, var, scale, bias, eps=1e-3))
    close(apply("group_norm", x, scale, bias, groups=2), F.group_norm(x, 2, scale, bias))
    if len(shape) > 2:
        close(apply("instance_norm", x, scale, bias, eps=1e-4), F.instance_norm(x, weight=scale, bias=bias, eps=1e-4))
    for axis in range(1, len(shape)):
        trailing = shape[axis:]
        scale, bias = (draw(*trailing, seed=1), draw(*trailing, seed=2)) if affine else (None, None)
        close(apply("layer_norm", x, scale, bias, axis=axis, eps=1e-6), F.layer_norm(x, trailing, scale, bias, 1e-6))
        close(apply("rms_norm", x, scale, axis=axis, eps=1e-6), F.rms_norm(x, trailing, scale, 1e-6))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_normalizations_in_small_floats(dtype: torch.dtype) -> None:
    x = draw(2, 3, 64).to(dtype).float()  # exact in both types
    found = apply("layer_norm", x.half() if dtype is torch.float16 else x, axis=2)
    np.testing.assert_allclose(found.astype(np.float32), F.layer_norm(x, (64,)).numpy(), 2**-10, 1e-5)


# ---- attention

Q, K, V = (2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.5])
@pytest.mark.parametrize("shapes", [(Q, K, V), ((5, 8), (6, 8), (6, 8)), ((2, 1, 6, 8), (1, 3, 6, 8), (2, 3, 6, 8))])
def test_attention(shapes: tuple[tuple[int, ...], ...], scale: float | None, causal: bool) -> None:
    q, k, v = (draw(*shape, seed=seed) for seed, shape in enumerate(shapes))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    close(apply("attention", q, k, v, scale=scale, causal=causal), expected)


@pytest.mark.parametrize("shape", [(5, 6), (2, 1, 1, 6), (2, 3, 5, 6), (1, 6)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_attention_mask(shape: tuple[int, ...], kind: str) -> None:
    q, k, v = (draw(*shape, seed=seed) for seed, shape in enumerate((Q, K, V)))
    mask = draw(*shape, seed=5)
    mask = mask > -0.5 if kind == "bool" else mask
    close(apply("attention", q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask))


def test_attention_of_a_row_that_sees_nothing_is_zero() -> None:
    q, k, v = (draw(*shape, seed=seed) for seed, shape in enumerate((Q, K, V)))
    keep = torch.ones(5, 6, dtype=torch.bool)
    keep[2] = False
    added = torch.zeros(5, 6).masked_fill(~keep, -torch.inf)
    for mask in (keep, added):
        found = apply("attention", q, k, v, mask)
        assert not found[:, :, 2].any()
        close(found, F.scaled_dot_product_attention(q, k, v, mask))


# ---- activations

ACTIVATIONS = [
    ("leaky_relu", {"alpha": 0.2}, lambda x: F.leaky_relu(x, 0.2)),
    ("elu", {"alpha": 1.5}, lambda x: F.elu(x, 1.5)),
    ("selu", {}, F.selu),
    ("celu", {"alpha": 1.5}, lambda x: F.celu(x, 1.5)),
    ("gelu", {}, F.gelu),
    ("gelu", {"approximate": "tanh"}, lambda x: F.gelu(x, approximate="tanh")),
    ("silu", {}, F.silu),
    ("mish", {}, F.mish),
    ("hard_swish", {}, F.hardswish),
    ("hard_sigmoid", {}, F.hardsigmoid),
    ("softplus", {"beta": 2.0, "threshold": 3.0}, lambda x: F.softplus(x, 2.0, 3.0)),
    ("softplus", {}, F.softplus),
    ("softsign", {}, F.softsign),
    ("softmax", {"axis": 1}, lambda x: F.softmax(x, 1)),
    ("log_softmax", {"axis": 1}, lambda x: F.log_softmax(x, 1)),
]


@pytest.mark.parametrize(("name", "attrs", "function"), ACTIVATIONS, ids=lambda part: part if isinstance(part, str) else "")
def test_activations(name: str, attrs: dict[str, Any], function: Any) -> None:
    x = torch.cat([draw(20, 8) * 4, torch.linspace(-60, 60, 80).reshape(10, 8)])
    close(apply(name, x, **attrs), function(x))
    close(apply(name, x.double(), **attrs), function(x.double()), 1e-12, 1e-12)


@pytest.mark.parametrize(("name", "attrs", "function"), ACTIVATIONS, ids=lambda part: part if isinstance(part, str) else "")
def test_activations_in_half_precision(name: str, attrs: dict[str, Any], function: Any) -> None:
    x = (draw(20, 8) * 4).half()
    # Rounded once from float32 (torch rounds log_softmax in between): at most one step of the type, 2**-10 of a value.
    close(apply(name, x, **attrs), function(x.float()).half(), 2**-10, 1e-6)


def test_prelu() -> None:
    x, slope = draw(2, 3, 4), draw(3, seed=1)
    close(apply("prelu", x, slope.reshape(3, 1)), F.prelu(x, slope))


# ---- quantization


@pytest.mark.parametrize(("target", "low", "high"), [(u8, 0, 255), (i8, -128, 127)])
def test_quantize(target: Any, low: int, high: int) -> None:
    x = draw(4, 8) * 40
    expected = torch.fake_quantize_per_tensor_affine(x, 0.25, 3, low, high)
    zero = np.array(3, target.numpy)
    found = apply("quantize", x, np.float32(0.25), zero, dtype=target)
    assert found.dtype == target.numpy
    close(apply("dequantize", found, np.float32(0.25), zero), expected)


def test_quantize_along_an_axis() -> None:
    x = draw(3, 8) * 20
    scales, zeros = torch.tensor([0.5, 0.25, 1.0]), torch.tensor([1, -2, 3], dtype=torch.int32)
    expected = torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, -128, 127)
    found = apply("quantize", x, scales, zeros.to(torch.int8), dtype=i8, axis=0)
    close(apply("dequantize", found, scales, zeros.to(torch.int8), axis=0), expected)


def test_blocks_share_a_scale() -> None:
    x = np.arange(10, dtype=np.int8).reshape(1, 10)
    scale = np.array([[1.0, 10.0, 100.0]], np.float32)
    found = apply("dequantize", x, scale, axis=1, block=4)
    assert found.tolist() == [[0, 1, 2, 3, 40, 50, 60, 70, 800, 900]]
    assert apply("quantize", found, scale, dtype=i8, axis=1, block=4).tolist() == x.tolist()


def test_quantize_saturates_and_rounds_halves_to_even() -> None:
    x = np.array([-1e9, -200, -0.5, 0.5, 1.5, 2.5, 200, 1e9], np.float32)
    assert apply("quantize", x, np.float32(1), dtype=i8).tolist() == [-128, -128, 0, 0, 2, 2, 127, 127]
