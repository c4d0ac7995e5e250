"""Emitters of linear layers, convolutions, pools, normalizations, attention, resize and quantization."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter, Transposed
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, same
from isthmus.ir.graph import Node, Value


def shape_of(node: Node, index: int = 0) -> tuple[Dim, ...]:
    """The shape of an operand whose rank is known."""
    value = node.operands[index]
    assert value is not None
    shape = value.tensor.shape
    return refuse("the rank is not known") if shape is None else shape


@emits("linear")
def _linear(e: Emitter, node: Node, x: str, weight: str, bias: str | None) -> Any:
    rank = len(shape_of(node))
    if rank == 2:
        return e.op("Gemm", x, weight, bias, transB=1)
    matrix = node.operands[1]
    assert matrix is not None
    handle = matrix.weight
    if handle is not None and all(_turns(user, index) for user, index in matrix.uses):
        turned = e.weight(Transposed(handle), f"{matrix.name or handle.name or 'weight'}.T")
    else:
        # The matrix as it is has other uses: turning it in the graph is cheaper than a second copy in the file.
        turned = e.op("Transpose", weight, perm=[1, 0])
    found = e.op("MatMul", x, turned)
    return found if bias is None else e.op("Add", found, bias)


def _turns(user: Any, index: int) -> bool:
    return isinstance(user, Node) and user.op.name == "linear" and index == 1 and len(shape_of(user)) != 2


@emits("einsum")
def _einsum(e: Emitter, node: Node, xs: list[str]) -> Any:
    equation = node.attrs["equation"].replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if any(len(set(term.replace(".", ""))) < len(term.replace(".", "")) for term in terms):
        refuse("onnxruntime's Einsum takes a diagonal wrongly")
    return e.op("Einsum", *xs, equation=equation)


@emits("conv")
def _conv(e: Emitter, node: Node, x: str, weight: str, bias: str | None) -> Any:
    attrs = node.attrs
    kernel = shape_of(node, 1)[2:]
    return e.op(
        "Conv", x, weight, bias, kernel_shape=_ints(kernel), strides=attrs["strides"], pads=attrs["pads"],
        dilations=attrs["dilations"], group=attrs["groups"],
    )  # fmt: skip


def _ints(dims: tuple[Dim, ...]) -> list[int] | None:
    found = [dim for dim in dims if isinstance(dim, int)]
    return found if len(found) == len(dims) else None


@emits("conv_transpose")
def _conv_transpose(e: Emitter, node: Node, x: str, weight: str, bias: str | None) -> Any:
    attrs = node.attrs
    return e.op(
        "ConvTranspose", x, weight, bias, kernel_shape=_ints(shape_of(node, 1)[2:]), strides=attrs["strides"],
        pads=attrs["pads"], output_padding=attrs["output_padding"], dilations=attrs["dilations"], group=attrs["groups"],
    )  # fmt: skip


# ---- pools


def _window(node: Node, dilations: bool) -> dict[str, Any]:
    attrs = node.attrs
    found = {"kernel_shape": attrs["kernel"], "strides": attrs["strides"], "pads": attrs["pads"]}
    if dilations:
        found["dilations"] = attrs["dilations"]
    if attrs["ceil_mode"]:
        _round_up(node, found)
    return found


def _round_up(node: Node, found: dict[str, Any]) -> None:
    """Says `ceil_mode` where ONNX counts windows as torch does, and otherwise in other words.

    Torch drops a last window that would start behind the input, which ONNX does since opset 22 only, and which cannot
    happen where the stride is not longer than what the kernel reaches beyond the padding. A size that is known can be had
    by padding more at the end, if padding does not count.
    """
    attrs = node.attrs
    count = len(attrs["kernel"])
    dilations = attrs.get("dilations", (1,) * count)
    ends, safe, plain = list(attrs["pads"][count:]), True, True
    for axis, (size, wanted) in enumerate(zip(shape_of(node)[2:], (node.results[0].tensor.shape or ())[2:], strict=True)):
        reach, stride = (attrs["kernel"][axis] - 1) * dilations[axis] + 1, attrs["strides"][axis]
        safe = safe and stride <= reach - ends[axis]
        plain = plain and same((size + attrs["pads"][axis] + ends[axis] - reach) // stride + 1, wanted) is True
        if isinstance(size, int) and isinstance(wanted, int):
            ends[axis] = max(ends[axis], (wanted - 1) * stride + reach - size - attrs["pads"][axis])
        elif not safe:
            refuse("with ceil_mode, ONNX may count another number of windows")
    if plain:
        return
    if safe:
        found["ceil_mode"] = 1
    elif node.op.name == "avg_pool" and attrs["count_include_pad"]:
        refuse("with ceil_mode, ONNX counts another number of windows")
    else:
        found["pads"] = [*attrs["pads"][:count], *ends]


@emits("max_pool")
def _max_pool(e: Emitter, node: Node, x: str) -> Any:
    _check_pads(node)
    return e.op("MaxPool", x, **_window(node, True))


@emits("max_pool_with_index")
def _max_pool_with_index(e: Emitter, node: Node, x: str) -> Any:
    _check_pads(node)
    if node.attrs["convention"] != "flat":
        refuse("ONNX counts the indices over the whole tensor")
    return e.op("MaxPool", x, results=2, **_window(node, True))


def _check_pads(node: Node) -> None:
    attrs = node.attrs
    count = len(attrs["kernel"])
    if any(pad >= kernel for pad, kernel in zip(attrs["pads"], attrs["kernel"] * 2, strict=True)):
        refuse("onnxruntime takes no padding as wide as the kernel")
    if count > 3:
        refuse("onnxruntime pools over at most three axes")


@lowers("max_pool_with_index")
def _planes(b: Builder, node: Node, x: Value) -> Any:
    """Indices in each plane are those over the whole, less what the planes before take up."""
    if node.attrs["convention"] != "per_plane":
        return None
    values, flat = b.max_pool_with_index(x, **{**node.attrs, "convention": "flat"})
    plane: Dim = 1
    for dim in shape_of(node)[2:]:
        plane = plane * dim
    return values, b.mod(flat, _size(b, plane))


def _size(b: Builder, dim: Dim) -> Value:
    return b.constant(np.int64(dim)) if isinstance(dim, int) else b.size(dim)


@emits("max_unpool")
def _max_unpool(e: Emitter, node: Node, x: str, indices: str) -> Any:
    # onnxruntime's MaxUnpool checks the given shape against kernel and strides, which the op does not have.
    return refuse("ONNX's MaxUnpool needs the kernel of the pool")


@emits("avg_pool")
def _avg_pool(e: Emitter, node: Node, x: str) -> Any:
    attrs = node.attrs
    _check_pads(node)
    if attrs["divisor"] is not None:
        refuse("ONNX's AveragePool has no divisor of its own")
    include = int(attrs["count_include_pad"] and any(attrs["pads"]))
    return e.op("AveragePool", x, **_window(node, False), count_include_pad=include or None)


@lowers("avg_pool")
def _avg_pool_by_sum(b: Builder, node: Node, x: Value) -> Any:
    """With a divisor of its own: the mean of each window of the input with zeros around it, times its size."""
    attrs = node.attrs
    count = len(attrs["kernel"])
    if attrs["divisor"] is None or attrs["ceil_mode"]:
        return None
    pads = attrs["pads"]
    if any(pads):
        x = b.pad(x, None, before=(0, 0, *pads[:count]), after=(0, 0, *pads[count:]), mode="constant")
    plain = {**attrs, "pads": [0] * 2 * count, "divisor": None}
    return b.mul(b.avg_pool(x, **plain), math.prod(attrs["kernel"]) / attrs["divisor"])


@emits("adaptive_avg_pool")
def _adaptive_avg_pool(e: Emitter, node: Node, x: str) -> Any:
    return _global(e, node, "GlobalAveragePool", x)


@emits("adaptive_max_pool")
def _adaptive_max_pool(e: Emitter, node: Node, x: str) -> Any:
    return _global(e, node, "GlobalMaxPool", x)


def _global(e: Emitter, node: Node, op_type: str, x: str) -> Any:
    if any(same(size, 1) is not True for size in node.attrs["output_size"]):
        refuse("ONNX pools adaptively only to one element")
    return e.op(op_type, x)


# ---- normalizations


def _channel_vector(e: Emitter, node: Node, given: str | None, fill: float) -> str:
    if given is not None:
        return given
    channels = shape_of(node)[1]
    if not isinstance(channels, int):
        refuse("the number of channels is not known")
    return e.constant(np.full(channels, fill), node.result.tensor.dtype)


@emits("batch_norm")
def _batch_norm(e: Emitter, node: Node, x: str, scale: str | None, bias: str | None, mean: str, var: str) -> Any:
    scale, bias = _channel_vector(e, node, scale, 1), _channel_vector(e, node, bias, 0)
    return e.op("BatchNormalization", x, scale, bias, mean, var, epsilon=node.attrs["eps"])


@emits("layer_norm", since=17)
def _layer_norm(e: Emitter, node: Node, x: str, scale: str | None, bias: str | None) -> Any:
    axis = node.attrs["axis"]
    return e.op("LayerNormalization", x, scale or _ones(e, node), bias, axis=axis, epsilon=node.attrs["eps"])


def _ones(e: Emitter, node: Node) -> str:
    trailing = _ints(shape_of(node)[node.attrs["axis"] :])
    if trailing is None:
        refuse("the normalized sizes are not known, and ONNX needs a scale")
    return e.constant(np.ones(trailing), node.result.tensor.dtype)


@emits("rms_norm", since=23)
def _rms_norm(e: Emitter, node: Node, x: str, scale: str | None) -> Any:
    return e.op("RMSNormalization", x, scale or _ones(e, node), axis=node.attrs["axis"], epsilon=node.attrs["eps"])


@emits("instance_norm")
def _instance_norm(e: Emitter, node: Node, x: str, scale: str | None, bias: str | None) -> Any:
    scale, bias = _channel_vector(e, node, scale, 1), _channel_vector(e, node, bias, 0)
    return e.op("InstanceNormalization", x, scale, bias, epsilon=node.attrs["eps"])


@emits("group_norm", since=21)
def _group_norm(e: Emitter, node: Node, x: str, scale: str | None, bias: str | None) -> Any:
    scale, bias = _channel_vector(e, node, scale, 1), _channel_vector(e, node, bias, 0)
    return e.op("GroupNormalization", x, scale, bias, num_groups=node.attrs["groups"], epsilon=node.attrs["eps"])


# ---- attention


@emits("attention", since=23)
def _attention(e: Emitter, node: Node, q: str, k: str, v: str, mask: str | None) -> Any:
    if len(shape_of(node)) != 4 or len(shape_of(node, 1)) != 4 or len(shape_of(node, 2)) != 4:
        refuse("ONNX's Attention takes [batch, heads, length, size]")
    leads = [shape_of(node, index)[:2] for index in range(3)]
    if any(same(left, right) is not True for lead in leads for left, right in zip(leads[0], lead, strict=True)):
        refuse("ONNX's Attention does not broadcast batch and heads")
    return e.op("Attention", q, k, v, mask, scale=node.attrs["scale"], is_causal=int(node.attrs["causal"]) or None)


# ---- resize

_COORDINATES: Final = {"half_pixel_symmetric": 19}


@emits("resize")
def _resize(e: Emitter, node: Node, x: str) -> Any:
    attrs = node.attrs
    shape, sizes, scales = shape_of(node), attrs["sizes"], attrs["scales"]
    mode = attrs["mode"]
    if attrs["coordinates"] == "half_pixel_symmetric" and e.opset < 19:
        refuse("half_pixel_symmetric coordinates need opset 19")
    if attrs["antialias"] and e.opset < 18:
        refuse("antialiasing needs opset 18")
    if mode == "cubic" and len(sizes) != 2:
        refuse("onnxruntime resizes cubically over two axes only")
    lead = len(shape) - len(sizes)
    more: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": attrs["coordinates"]}
    if mode == "nearest":
        more["nearest_mode"] = attrs["nearest"]
    if mode == "cubic":
        more["cubic_coeff_a"] = attrs["cubic_coefficient"]
    if attrs["antialias"]:
        more["antialias"] = 1
    if scales is not None:
        if not all(map(_follows, shape[lead:], sizes, scales)):
            refuse("the sizes are not those that ONNX works out from the scales")
        return e.op("Resize", x, None, e.constant([1.0] * lead + list(scales), dtypes.f32), **more)
    if e.opset >= 18:
        return e.op("Resize", x, None, None, e.sizes.vector(sizes), axes=list(range(lead, len(shape))), **more)
    return e.op("Resize", x, None, None, e.sizes.vector((*shape[:lead], *sizes)), **more)


def _follows(dim: Dim, size: Dim, scale: float) -> bool:
    """Whether ONNX, which multiplies and rounds down, gives this size."""
    if isinstance(dim, int):
        return math.floor(dim * scale) == size
    return scale == int(scale) and same(dim * int(scale), size) is True


# ---- quantization


@emits("quantize")
def _quantize(e: Emitter, node: Node, x: str, scale: str, zero: str | None) -> Any:
    attrs = node.attrs
    target = attrs["dtype"]
    more = _granularity(e, node)
    if zero is None and target is not dtypes.u8:
        zero = _zeros(e, node, target) if e.opset < 21 else None
        if zero is None:
            more["output_dtype"] = opsets.enum(target)
    return e.op("QuantizeLinear", x, scale, zero, **more)


@emits("dequantize")
def _dequantize(e: Emitter, node: Node, x: str, scale: str, zero: str | None) -> Any:
    return e.op("DequantizeLinear", x, scale, zero, **_granularity(e, node))


def _granularity(e: Emitter, node: Node) -> dict[str, Any]:
    attrs = node.attrs
    if attrs["block"] and e.opset < 21:
        refuse("scales for blocks need opset 21")
    return {"axis": attrs["axis"], "block_size": attrs["block"] or None}


def _zeros(e: Emitter, node: Node, dtype: dtypes.DType) -> str:
    shape = _ints(shape_of(node, 1))
    if shape is None:
        refuse("the number of scales is not known, and ONNX needs as many zero points")
    return e.constant(np.zeros(shape), dtype)
