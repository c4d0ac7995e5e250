"""What the layers of TensorRT do, by its documentation: a function each, of the layer and the values of its inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

KINDS = {
    "FLOAT": torch.float32, "HALF": torch.float16, "BF16": torch.bfloat16, "INT64": torch.int64, "INT32": torch.int32,
    "INT8": torch.int8, "UINT8": torch.uint8, "BOOL": torch.bool, "FP8": torch.float8_e4m3fn,
}  # fmt: skip
LAYERS: dict[str, Callable[..., Any]] = {}


def reads(*kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what layers of these kinds do."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        LAYERS.update(dict.fromkeys(kinds, function))
        return function

    return register


def axes_of(mask: int) -> list[int]:
    """The axes in a bit mask."""
    return [axis for axis in range(32) if mask >> axis & 1]


def wide(x: Any) -> Any:
    """What a small float is computed in."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


@reads("CONSTANT")
def constant(trt: Any, layer: Any, weights: Any) -> Any:
    return weights.reshape(tuple(layer.shape))


@reads("IDENTITY", "CONDITIONAL_INPUT")
def identity(trt: Any, layer: Any, x: Any) -> Any:
    return x


@reads("SHAPE")
def shape(trt: Any, layer: Any, x: Any) -> Any:
    return torch.tensor(x.shape, dtype=torch.int64)


@reads("CAST")
def cast(trt: Any, layer: Any, x: Any) -> Any:
    return x.to(KINDS[layer.to_type.name])


UNARY: dict[str, Callable[[Any], Any]] = {
    "EXP": torch.exp, "LOG": torch.log, "SQRT": torch.sqrt, "RECIP": torch.reciprocal, "ABS": torch.abs, "NEG": torch.neg,
    "SIN": torch.sin, "COS": torch.cos, "TAN": torch.tan, "SINH": torch.sinh, "COSH": torch.cosh, "ASIN": torch.asin,
    "ACOS": torch.acos, "ATAN": torch.atan, "ASINH": torch.asinh, "ACOSH": torch.acosh, "ATANH": torch.atanh,
    "CEIL": torch.ceil, "FLOOR": torch.floor, "ERF": torch.erf, "NOT": torch.logical_not, "ROUND": torch.round,
    "SIGN": lambda x: torch.where(x != x, x, torch.sign(x)), "ISINF": torch.isinf, "ISNAN": torch.isnan,
}  # fmt: skip


@reads("UNARY")
def unary(trt: Any, layer: Any, x: Any) -> Any:
    found = UNARY[layer.op.name](wide(x))
    return found if found.dtype == torch.bool else found.to(x.dtype)


ELEMENTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": torch.add, "PROD": torch.mul, "MAX": torch.maximum, "MIN": torch.minimum, "SUB": torch.sub,
    "DIV": lambda x, y: torch.div(x, y, rounding_mode=None if x.is_floating_point() else "trunc"), "POW": torch.pow,
    "FLOOR_DIV": lambda x, y: torch.floor(x / y) if x.is_floating_point() else torch.div(x, y, rounding_mode="floor"),
    "AND": torch.logical_and, "OR": torch.logical_or, "XOR": torch.logical_xor, "EQUAL": torch.eq, "GREATER": torch.gt,
    "LESS": torch.lt,
}  # fmt: skip


def same_rank(*tensors: Any) -> None:
    """Broadcasting in TensorRT is between equal ranks."""
    assert len({len(tensor.shape) for tensor in tensors}) == 1, [tuple(tensor.shape) for tensor in tensors]


@reads("ELEMENTWISE")
def elementwise(trt: Any, layer: Any, x: Any, y: Any) -> Any:
    same_rank(x, y)
    assert x.dtype == y.dtype
    found = ELEMENTWISE[layer.op.name](wide(x), wide(y))
    return found if found.dtype == torch.bool else found.to(x.dtype)


ACTIVATION: dict[str, Callable[[Any, float, float], Any]] = {
    "RELU": lambda x, a, b: torch.relu(x), "SIGMOID": lambda x, a, b: torch.sigmoid(x),
    "TANH": lambda x, a, b: torch.tanh(x), "LEAKY_RELU": lambda x, a, b: torch.where(x >= 0, x, a * x),
    "ELU": lambda x, a, b: torch.where(x >= 0, x, a * torch.expm1(x)), "SELU": lambda x, a, b: F.selu(x),
    "SOFTSIGN": lambda x, a, b: x / (1 + x.abs()), "GELU_ERF": lambda x, a, b: 0.5 * x * (1 + torch.erf(0.5**0.5 * x)),
    "GELU_TANH": lambda x, a, b: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "HARD_SIGMOID": lambda x, a, b: torch.clamp(a * x + b, 0, 1),
    "SOFTPLUS": lambda x, a, b: a * torch.log1p(torch.exp(b * x)), "CLIP": lambda x, a, b: torch.clamp(x, a, b),
}  # fmt: skip


@reads("ACTIVATION")
def activation(trt: Any, layer: Any, x: Any) -> Any:
    return ACTIVATION[layer.type.name](wide(x), layer.alpha, layer.beta).to(x.dtype)


@reads("PARAMETRIC_RELU")
def parametric_relu(trt: Any, layer: Any, x: Any, slope: Any) -> Any:
    same_rank(x, slope)
    return torch.where(x > 0, x, x * slope)


@reads("SELECT")
def select(trt: Any, layer: Any, cond: Any, x: Any, y: Any) -> Any:
    same_rank(cond, x, y)
    assert x.dtype == y.dtype
    return torch.where(cond, x, y)


@reads("SOFTMAX")
def softmax(trt: Any, layer: Any, x: Any) -> Any:
    (axis,) = axes_of(layer.axes)
    return torch.softmax(wide(x), axis).to(x.dtype)


@reads("REDUCE")
def reduce(trt: Any, layer: Any, x: Any) -> Any:
    axes, keep, value = axes_of(layer.axes), layer.keep_dims, wide(x)
    name = layer.op.name
    if name in ("MAX", "MIN") and any(x.shape[axis] == 0 for axis in axes):
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
        return _extreme(x.dtype, name == "MIN").expand(shape)
    if name == "PROD":
        for axis in sorted(axes, reverse=True):
            value = value.prod(axis, keepdim=keep)
    else:
        function = {"SUM": torch.sum, "MAX": torch.amax, "MIN": torch.amin, "AVG": torch.mean}[name]
        value = function(value, axes, keepdim=keep)
    return value.to(x.dtype)


def _extreme(dtype: Any, greatest: bool) -> Any:
    if dtype.is_floating_point:
        return torch.tensor(torch.inf if greatest else -torch.inf, dtype=dtype)
    return torch.tensor(torch.iinfo(dtype).max if greatest else torch.iinfo(dtype).min, dtype=dtype)


@reads("CUMULATIVE")
def cumulative(trt: Any, layer: Any, x: Any, axis: Any) -> Any:
    at, value = int(axis), wide(x)
    value = value.flip(at) if layer.reverse else value
    total = torch.cumsum(value, at)
    total = total - value if layer.exclusive else total
    return (total.flip(at) if layer.reverse else total).to(x.dtype)


@reads("TOPK")
def topk(trt: Any, layer: Any, x: Any) -> Any:
    (axis,) = axes_of(layer.axes)
    assert len(x.shape) > 1
    assert 1 <= layer.k <= min(3840, x.shape[axis])
    values, places = torch.sort(wide(x), dim=axis, descending=layer.op.name == "MAX", stable=True)
    return values.narrow(axis, 0, layer.k).to(x.dtype), places.narrow(axis, 0, layer.k).to(KINDS[layer.indices_type.name])


@reads("MATRIX_MULTIPLY")
def matrix_multiply(trt: Any, layer: Any, x: Any, y: Any) -> Any:
    assert x.dtype == y.dtype
    kind, ops = x.dtype, (layer.op0.name, layer.op1.name)
    x, y = wide(x), wide(y)
    x = x.unsqueeze(-2) if ops[0] == "VECTOR" else x.transpose(-1, -2) if ops[0] == "TRANSPOSE" else x
    y = y.unsqueeze(-1) if ops[1] == "VECTOR" else y.transpose(-1, -2) if ops[1] == "TRANSPOSE" else y
    same_rank(x, y)
    found = torch.matmul(x, y)
    found = found.squeeze(-1) if ops[1] == "VECTOR" else found
    return (found.squeeze(-1 if ops[1] == "VECTOR" else -2) if ops[0] == "VECTOR" else found).to(kind)


@reads("EINSUM")
def einsum(trt: Any, layer: Any, *xs: Any) -> Any:
    return torch.einsum(layer.equation, *map(wide, xs)).to(xs[0].dtype)


# ---- convolutions and pools


def _kernel(layer: Any, weights: Any, given: Any, shape: Sequence[int]) -> Any:
    return given if given is not None else weights.reshape(tuple(shape))


def _pads(layer: Any) -> list[int]:
    """As torch's `pad` wants them: the last axis first."""
    pairs = zip(layer.pre_padding, layer.post_padding, strict=True)
    return [pad for pair in reversed(list(pairs)) for pad in pair]


@reads("CONVOLUTION")
def convolution(trt: Any, layer: Any, x: Any, weight: Any = None, offset: Any = None, *, kernel: Any, bias: Any) -> Any:
    sizes = tuple(layer.kernel_size_nd)
    weight = _kernel(layer, kernel, weight, (layer.num_output_maps, x.shape[1] // layer.num_groups, *sizes))
    offset = offset if offset is not None else bias if bias.numel() else None
    assert weight.dtype == x.dtype
    function = {2: F.conv2d, 3: F.conv3d}[len(sizes)]
    padded = F.pad(wide(x), _pads(layer))
    offset = None if offset is None else wide(offset)
    found = function(padded, wide(weight), offset, tuple(layer.stride_nd), 0, tuple(layer.dilation_nd), layer.num_groups)
    return found.to(x.dtype)


@reads("DECONVOLUTION")
def deconvolution(trt: Any, layer: Any, x: Any, weight: Any = None, offset: Any = None, *, kernel: Any, bias: Any) -> Any:
    sizes = tuple(layer.kernel_size_nd)
    weight = _kernel(layer, kernel, weight, (x.shape[1], layer.num_output_maps // layer.num_groups, *sizes))
    offset = offset if offset is not None else bias if bias.numel() else None
    function = {2: F.conv_transpose2d, 3: F.conv_transpose3d}[len(sizes)]
    offset = None if offset is None else wide(offset)
    full = function(wide(x), wide(weight), offset, tuple(layer.stride_nd), 0, 0, layer.num_groups, tuple(layer.dilation_nd))
    assert all(pad >= 0 for pad in (*layer.pre_padding, *layer.post_padding))
    return F.pad(full, [-pad for pad in _pads(layer)]).to(x.dtype)


@reads("POOLING")
def pooling(trt: Any, layer: Any, x: Any) -> Any:
    window, stride = tuple(layer.window_size_nd), tuple(layer.stride_nd)
    before, after = list(layer.pre_padding), list(layer.post_padding)
    value = wide(x)
    sizes = value.shape[-len(window) :]
    spare = [0] * len(window)
    if layer.padding_mode == trt.PaddingMode.EXPLICIT_ROUND_UP:
        for axis, size in enumerate(sizes):
            spare[axis] = -(size + before[axis] + after[axis] - window[axis]) % stride[axis]
    else:
        assert layer.padding_mode == trt.PaddingMode.EXPLICIT_ROUND_DOWN
    pads = [pad for axis in reversed(range(len(window))) for pad in (before[axis], after[axis] + spare[axis])]
    if layer.type == trt.PoolingType.MAX:
        padded = F.pad(value, pads, value=-torch.inf)
        return {2: F.max_pool2d, 3: F.max_pool3d}[len(window)](padded, window, stride).to(x.dtype)
    assert layer.type == trt.PoolingType.AVERAGE
    average = {2: F.avg_pool2d, 3: F.avg_pool3d}[len(window)]
    total = average(F.pad(value, pads), window, stride, divisor_override=1)
    if layer.average_count_excludes_padding:
        counted = F.pad(torch.ones_like(value), pads)
    else:
        assert not any(spare), "what TensorRT counts beyond the padding is not documented"
        counted = F.pad(torch.ones_like(value), pads, value=1)
    return (total / average(counted, window, stride, divisor_override=1)).to(x.dtype)


@reads("NORMALIZATION")
def normalization(trt: Any, layer: Any, x: Any, scale: Any, bias: Any) -> Any:
    assert layer.is_v2
    same_rank(x, scale, bias)
    value, axes = wide(x), axes_of(layer.axes)
    if layer.num_groups > 1:
        assert axes == list(range(2, x.dim()))
        grouped = value.reshape(x.shape[0], layer.num_groups, -1)
        normal = _normal(grouped, [2], layer.epsilon).reshape(x.shape)
    else:
        normal = _normal(value, axes, layer.epsilon)
    return (normal * wide(scale) + wide(bias)).to(x.dtype)


def _normal(x: Any, axes: Sequence[int], epsilon: float) -> Any:
    centred = x - x.mean(axes, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(axes, keepdim=True) + epsilon)


# ---- shapes


@reads("SHUFFLE")
def shuffle(trt: Any, layer: Any, x: Any, dims: Any = None) -> Any:
    rank = len(x.shape)
    x = x.permute(list(layer.first_transpose)[:rank])
    wanted = dims.tolist() if dims is not None else None if layer.reshape_dims is None else list(layer.reshape_dims)
    if wanted is not None and not (dims is None and len(wanted) == 0 and rank != 0 and x.numel() != 1):
        if layer.zero_is_placeholder:
            wanted = [x.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
        x = x.reshape(wanted)
    return x.permute(list(layer.second_transpose)[: len(x.shape)])


@reads("SQUEEZE")
def squeeze(trt: Any, layer: Any, x: Any, axes: Any) -> Any:
    for axis in sorted(axes.tolist(), reverse=True):
        assert x.shape[axis] == 1
        x = x.squeeze(axis)
    return x


@reads("UNSQUEEZE")
def unsqueeze(trt: Any, layer: Any, x: Any, axes: Any) -> Any:
    for axis in sorted(axes.tolist()):
        x = x.unsqueeze(axis)
    return x


@reads("CONCATENATION")
def concatenation(trt: Any, layer: Any, *xs: Any) -> Any:
    assert len({x.dtype for x in xs}) == 1
    return torch.cat(xs, layer.axis)


@reads("SLICE")
def slice_(trt: Any, layer: Any, x: Any, start: Any = None, size: Any = None, stride: Any = None, fill: Any = None) -> Any:
    assert layer.axes is None or not len(layer.axes)
    starts, sizes, strides = (
        given.tolist() if given is not None else list(own)
        for given, own in ((start, layer.start), (size, layer.shape), (stride, layer.stride))
    )
    outside = torch.zeros((1,) * len(sizes), dtype=torch.bool)
    mode = layer.mode.name
    for axis, (first, count, step) in enumerate(zip(starts, sizes, strides, strict=True)):
        length = x.shape[axis]
        places = first + torch.arange(count) * step
        beyond = (places < 0) | (places >= length)
        if mode == "STRICT_BOUNDS":
            assert not beyond.any(), (places, length)
        elif mode == "WRAP":
            places = places % length
        elif mode == "REFLECT":
            period = max(2 * (length - 1), 1)
            places = places % period
            places = torch.where(places >= length, period - places, places)
        elif mode == "FILL":
            outside = outside | beyond.reshape([-1 if other == axis else 1 for other in range(len(sizes))])
        if length == 0 and count:
            assert mode == "FILL"
            x = torch.zeros([count if other == axis else size for other, size in enumerate(x.shape)], dtype=x.dtype)
        else:
            x = x.index_select(axis, places.clamp(0, max(length - 1, 0)))
    if mode == "FILL":
        x = torch.where(outside, torch.zeros((), dtype=x.dtype) if fill is None else fill, x)
    return x


@reads("FILL")
def fill(trt: Any, layer: Any, dims: Any = None, alpha: Any = None, beta: Any = None) -> Any:
    sizes = dims.tolist() if dims is not None else list(layer.shape)
    kind = KINDS[layer.to_type.name]
    first = alpha if alpha is not None else layer.alpha
    second = beta if beta is not None else layer.beta
    if layer.operation == trt.FillOperation.LINSPACE:
        (count,) = sizes
        return (first + torch.arange(count) * second[0]).to(kind)
    drawn = torch.rand(sizes) if layer.operation == trt.FillOperation.RANDOM_UNIFORM else torch.randn(sizes)
    if layer.operation == trt.FillOperation.RANDOM_UNIFORM:
        return (first + drawn * (second - first)).to(kind)
    return (first + drawn * second).to(kind)


def _numpy_take(x: Any, places: Any, axis: int) -> Any:
    assert not ((places < 0) | (places >= x.shape[axis])).any()
    flat = x.index_select(axis, places.reshape(-1))
    return flat.reshape(*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])


@reads("GATHER")
def gather(trt: Any, layer: Any, x: Any, places: Any) -> Any:
    mode, places = layer.mode.name, places.long()
    if mode == "DEFAULT":
        assert layer.num_elementwise_dims == 0
        return _numpy_take(x, places, layer.axis)
    if mode == "ELEMENT":
        assert not ((places < 0) | (places >= x.shape[layer.axis])).any()
        return torch.gather(x, layer.axis, places)
    batch = layer.num_elementwise_dims
    assert not (places < 0).any()
    lead = torch.meshgrid(*(torch.arange(size) for size in places.shape[:batch]), indexing="ij") if batch else ()
    spread = (1,) * (places.dim() - 1 - batch)
    return x[(*(each.reshape(each.shape + spread) for each in lead), *places.unbind(-1))]


@reads("SCATTER")
def scatter(trt: Any, layer: Any, x: Any, places: Any, updates: Any) -> Any:
    places = places.long()
    assert not (places < 0).any()
    assert x.dtype == updates.dtype
    x = x.clone()
    if layer.mode.name == "ELEMENT":
        for at in itertools.product(*map(range, places.shape)):  # one after the other: the last write stays
            to = list(at)
            to[layer.axis] = int(places[at])
            x[tuple(to)] = updates[at]
        return x
    for at in itertools.product(*map(range, places.shape[:-1])):
        x[tuple(places[at].tolist())] = updates[at]
    return x


# ---- resize


@reads("RESIZE")
def resize(trt: Any, layer: Any, x: Any, dims: Any = None) -> Any:
    scales = list(layer.scales) if layer.scales else None
    if dims is not None:
        sizes = dims.tolist()
    elif scales:
        sizes = [int(size * scale) for size, scale in zip(x.shape, scales, strict=True)]
    else:
        sizes = list(layer.shape)
    assert not layer.exclude_outside
    value = wide(x)
    for axis, (length, size) in enumerate(zip(x.shape, sizes, strict=True)):
        scale = scales[axis] if scales and dims is None else size / length
        if size == length and scale == 1:
            continue
        found = 0
        for places, weights in _taps(layer, length, size, scale):
            part = value.index_select(axis, places.long().clamp(0, length - 1))
            found = found + part * weights.reshape([-1 if other == axis else 1 for other in range(x.dim())]).to(value.dtype)
        value = found
    return value.to(x.dtype)


@reads("GRID_SAMPLE")
def grid_sample(trt: Any, layer: Any, x: Any, grid: Any) -> Any:
    mode = {"LINEAR": "bilinear", "NEAREST": "nearest", "CUBIC": "bicubic"}[layer.interpolation_mode.name]
    padding = {"FILL": "zeros", "CLAMP": "border", "REFLECT": "reflection"}[layer.sample_mode.name]
    found = torch.nn.functional.grid_sample(wide(x), wide(grid), mode, padding, layer.align_corners)
    return found.to(x.dtype)


def _taps(layer: Any, length: int, size: int, scale: float) -> Iterator[tuple[Any, Any]]:
    """For each neighbour: its places, and its weights."""
    at = torch.arange(size, dtype=torch.float32)
    transformation = layer.coordinate_transformation.name
    if transformation == "ALIGN_CORNERS":
        at = at * ((length - 1) / (size - 1) if size > 1 else 0)
    elif transformation == "HALF_PIXEL":
        at = (at + 0.5) / scale - 0.5
    else:
        at = at / scale
    if size == 1 and layer.selector_for_single_pixel.name == "UPPER":
        at = torch.zeros(1)
    mode = layer.resize_mode.name
    if mode == "NEAREST":
        rounded = {"FLOOR": torch.floor(at), "CEIL": torch.ceil(at), "HALF_UP": torch.floor(at + 0.5),
                   "HALF_DOWN": torch.ceil(at - 0.5)}[layer.nearest_rounding.name]  # fmt: skip
        yield rounded, torch.ones(size)
        return
    low = torch.floor(at)
    rest = at - low
    if mode == "LINEAR":
        yield low, 1 - rest
        yield low + 1, rest
        return
    a = layer.cubic_coeff
    for offset in (-1, 0, 1, 2):
        d = (rest - offset).abs()
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        yield low + offset, torch.where(d <= 1, near, torch.where(d < 2, far, 0.0))


# ---- quantization


def _along(layer: Any, scale: Any, x: Any) -> Any:
    if scale.dim() == 0:
        return scale
    if scale.dim() == 1:
        return scale.reshape([-1 if axis == layer.axis else 1 for axis in range(x.dim())])
    blocks = [size // count for size, count in zip(x.shape, scale.shape, strict=True)]
    for axis, block in enumerate(blocks):
        scale = scale.repeat_interleave(block, axis)
    return scale


def _no_zeros(zero: Any) -> None:
    assert zero is None or not zero.float().any()


@reads("QUANTIZE")
def quantize(trt: Any, layer: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    _no_zeros(zero)
    kind = KINDS[layer.to_type.name]
    ratio = wide(x) / wide(_along(layer, scale, x))
    if kind == torch.int8:
        return ratio.round().clamp(-128, 127).to(kind)
    return ratio.clamp(-448, 448).to(kind)


@reads("DEQUANTIZE")
def dequantize(trt: Any, layer: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    _no_zeros(zero)
    return (x.float() * wide(_along(layer, scale, x))).to(KINDS[layer.to_type.name])
