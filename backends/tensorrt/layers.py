"""Emitters and lowerings of linear layers, convolutions, normalizations, attention and resize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from isthmus.backends import formulas
from isthmus.backends.tensorrt.emitter import Emitter, ints, mask, shape_of
from isthmus.backends.tensorrt.table import emits, fix_size, lowers, refuse
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, same
from isthmus.ir.graph import Node, Value
from isthmus.ir.ops.attention import scale_of, shared_by
from isthmus.ir.ops.resize import taps

# ---- products


@emits("matmul")
def _matmul(e: Emitter, node: Node, x: Any, y: Any) -> Any:
    none, vector = e.trt.MatrixOperation.NONE, e.trt.MatrixOperation.VECTOR
    left, right = len(x.shape), len(y.shape)
    # A vector keeps its one axis less than a matrix in the batch's axes, too.
    rank = max(left + (left == 1), right + (right == 1))
    x, y = e.lead(x, rank - (left == 1)), e.lead(y, rank - (right == 1))
    return e.add("matrix_multiply", x, vector if left == 1 else none, y, vector if right == 1 else none)


@lowers("matmul")
def _matmul_of_integers(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """As a sum of products, which TensorRT has for integers."""
    if not x.tensor.dtype.is_integer or x.tensor.rank < 2 or y.tensor.rank < 2:
        return None
    left, right = b.unsqueeze(x, axes=[x.tensor.rank]), b.unsqueeze(y, axes=[y.tensor.rank - 2])
    products = b.mul(left, right)
    return b.reduce_sum(products, axes=[products.tensor.rank - 2])


@emits("linear")
def _linear(e: Emitter, node: Node, x: Any, weight: Any, bias: Any) -> Any:
    rank = len(x.shape)
    if rank < 2:
        refuse("TensorRT multiplies matrices")
    op = e.trt.MatrixOperation
    found = e.add("matrix_multiply", x, op.NONE, e.lead(weight, rank), op.TRANSPOSE)
    return found if bias is None else e.binary("SUM", found, bias)


@emits("einsum")
def _einsum(e: Emitter, node: Node, xs: list[Any]) -> Any:
    equation = node.attrs["equation"].replace(" ", "")
    sizes: dict[str, Dim] = {}
    for index, term in enumerate(equation.split("->")[0].split(",")):
        if "..." not in term:
            for letter, dim in zip(term, shape_of(node, index), strict=True):
                if same(sizes.setdefault(letter, dim), dim) is False:
                    refuse("TensorRT does not let a size of 1 stand for others here")
    return e.add("einsum", xs, equation)


# ---- convolutions


def _window(node: Node) -> dict[str, Any]:
    attrs = node.attrs
    count = len(attrs["strides"])
    return {
        "stride_nd": attrs["strides"], "pre_padding": attrs["pads"][:count], "post_padding": attrs["pads"][count:],
    }  # fmt: skip


@emits("conv", "conv_transpose", values=True)
def _conv(e: Emitter, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    attrs, kernel = node.attrs, ints(shape_of(node, 1))
    if kernel is None:
        refuse("the sizes of the kernel are not known", fix_size)
    if len(kernel) not in (4, 5):
        refuse("TensorRT convolves over two or three axes")
    forward = node.op.name == "conv"
    maps = kernel[0] if forward else kernel[1] * attrs["groups"]
    settings = {**_window(node), "dilation_nd": attrs["dilations"], "num_groups": attrs["groups"]}
    if not forward:
        if max(attrs["strides"]) > 1 and max(attrs["dilations"]) > 1:
            refuse("TensorRT builds no transposed convolution with both strides and dilations",
                   "a kernel that is a constant can be dilated beforehand")  # fmt: skip
        # TensorRT has no output padding: it pads less at the end, and there a negative padding adds.
        settings["post_padding"] = [
            pad - more for pad, more in zip(settings["post_padding"], attrs["output_padding"], strict=True)
        ]
        if any(pad < 0 for pad in settings["post_padding"]):
            refuse("TensorRT takes no output padding beyond the padding")
    none = e.trt.Weights(e.tensor(x).dtype)
    known = [None if value is None else value.weight for value in (weight, bias)]
    arguments = [none if handle is None else e.weights(handle) for handle in known]
    inputs = {
        index: e.tensor(value)
        for index, (value, handle) in enumerate(zip((weight, bias), known, strict=True), 1)
        if value is not None and handle is None
    }
    kind = "convolution_nd" if forward else "deconvolution_nd"
    return e.add(kind, e.tensor(x), maps, kernel[2:], *arguments, inputs=inputs, **settings)


@lowers("conv", "conv_transpose")
def _convolved(b: Builder, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    """Over one axis: as over two, of which the second has size 1. Transposed: see `_dilated` and `_extended`."""
    if x.tensor.rank != 3:
        return None if node.op.name == "conv" else _dilated(b, node, x, weight, bias) or _extended(b, node, x, weight, bias)
    neutral = {"strides": 1, "dilations": 1, "output_padding": 0}
    attrs = dict(node.attrs)
    attrs |= {name: (*attrs[name], value) for name, value in neutral.items() if name in attrs}
    begin, end = attrs["pads"]
    attrs["pads"] = (begin, 0, end, 0)
    found = getattr(b, node.op.name)(b.unsqueeze(x, axes=[3]), b.unsqueeze(weight, axes=[3]), bias, **attrs)
    return b.squeeze(found, axes=[3])


def _dilated(b: Builder, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    """Strides and dilations together: a kernel with zeros between its elements."""
    attrs, held = node.attrs, weight.weight
    if max(attrs["strides"]) == 1 or max(attrs["dilations"]) == 1 or held is None:
        return None
    kernel = b.constant(formulas.dilated(held, attrs["dilations"], [0] * len(attrs["strides"])))
    return b.conv_transpose(x, kernel, bias, **attrs | {"dilations": [1] * len(attrs["strides"])})


def _extended(b: Builder, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    """Output padding beyond the padding: zeros at the end."""
    attrs = dict(node.attrs)
    count = len(attrs["strides"])
    ends = attrs["pads"][count:]
    spare = [max(0, more - end) for more, end in zip(attrs["output_padding"], ends, strict=True)]
    if not any(spare):
        return None
    attrs["output_padding"] = [more - beyond for more, beyond in zip(attrs["output_padding"], spare, strict=True)]
    found = b.conv_transpose(x, weight, **attrs)
    found = b.pad(found, before=[0] * (count + 2), after=[0, 0, *spare])
    return found if bias is None else b.add(found, b.unsqueeze(bias, axes=list(range(1, count + 1))))


# ---- normalizations


def _normalize(
    e: Emitter, node: Node, x: Any, scale: Any, bias: Any, axes: Sequence[int], place: Sequence[int], groups: int = 1
) -> Any:
    """A normalization layer; scale and bias have the axes `place` of x."""
    rank = len(x.shape)
    shape = [size if axis in place else 1 for axis, size in enumerate(shape_of(node))]
    sizes = ints(shape)
    if sizes is None:
        refuse("the sizes of scale and bias are not known", fix_size)
    others = [axis for axis in range(rank) if axis not in place]

    def along(vector: Any, fill: float) -> Any:
        return e.full(x, sizes, fill) if vector is None else e.unsqueeze(vector, others)


    layer = e.network.add_normalization_v2(x, along(scale, 1.0), along(bias, 0.0), mask(axes))
    return e.finish(layer, settings={"epsilon": node.attrs["eps"], "num_groups": groups})


@emits("layer_norm")
def _layer_norm(e: Emitter, node: Node, x: Any, scale: Any, bias: Any) -> Any:
    rank = len(x.shape)
    axes = range(node.attrs["axis"] % rank, rank)
    return _normalize(e, node, x, scale, bias, axes, axes)


@emits("instance_norm")
def _instance_norm(e: Emitter, node: Node, x: Any, scale: Any, bias: Any) -> Any:
    return _normalize(e, node, x, scale, bias, range(2, len(x.shape)), (1,))


@emits("group_norm")
def _group_norm(e: Emitter, node: Node, x: Any, scale: Any, bias: Any) -> Any:
    return _normalize(e, node, x, scale, bias, range(2, len(x.shape)), (1,), node.attrs["groups"])


# ---- softmax and attention


@emits("softmax")
def _softmax(e: Emitter, node: Node, x: Any) -> Any:
    return e.add("softmax", x, axes=mask([node.attrs["axis"] % len(x.shape)]))


@lowers("attention")
def _attention_plain(b: Builder, node: Node, q: Value, k: Value, v: Value, mask: Value | None) -> Any:
    """Products and a softmax, which TensorRT fuses; in the element type of q, as it accumulates in float32 itself."""
    size, dtype = shape_of(node)[-1], q.tensor.dtype
    shared = shared_by(shape_of(node), shape_of(node, 1), shape_of(node, 2)) > 1
    if mask is not None or node.attrs["causal"] or not isinstance(size, int) or shared:
        return None
    scale = node.attrs["scale"]
    rank = k.tensor.rank
    turned = b.permute(k, perm=[*range(rank - 2), rank - 1, rank - 2])
    scaled = q if scale == 1 else b.mul(q, b.constant(scale_of(size) if scale is None else scale, dtype))
    scores = b.matmul(scaled, turned)
    return b.matmul(b.softmax(scores, axis=scores.tensor.rank - 1), v)


# ---- resize

_COORDINATES: Final = {
    "half_pixel": "HALF_PIXEL", "pytorch_half_pixel": "HALF_PIXEL", "align_corners": "ALIGN_CORNERS",
    "asymmetric": "ASYMMETRIC", "half_pixel_symmetric": "HALF_PIXEL",
}  # fmt: skip
_NEAREST: Final = {
    "floor": "FLOOR", "ceil": "CEIL", "round_prefer_floor": "HALF_DOWN", "round_prefer_ceil": "HALF_UP",
}  # fmt: skip


@emits("resize")
def _resize(e: Emitter, node: Node, x: Any) -> Any:
    trt, attrs, shape = e.trt, node.attrs, shape_of(node)
    sizes: tuple[Dim, ...] = attrs["sizes"]
    if attrs["antialias"]:
        refuse("TensorRT does not smooth before it resizes")
    lead = len(shape) - len(sizes)
    given = attrs["scales"]
    if given is not None and attrs["coordinates"] == "half_pixel_symmetric":
        refuse("TensorRT has no half_pixel_symmetric coordinates")
    settings: dict[str, Any] = {
        "resize_mode": getattr(trt.InterpolationMode, attrs["mode"].upper()),
        "coordinate_transformation": getattr(trt.ResizeCoordinateTransformation, _COORDINATES[attrs["coordinates"]]),
        "nearest_rounding": getattr(trt.ResizeRoundMode, _NEAREST[attrs["nearest"]]),
        "selector_for_single_pixel": trt.ResizeSelector.UPPER
        if attrs["coordinates"] == "pytorch_half_pixel" else trt.ResizeSelector.FORMULA,
        "cubic_coeff": attrs["cubic_coefficient"],
    }  # fmt: skip
    if given is not None:
        if not all(map(_follows, shape[lead:], sizes, given)):
            refuse("the sizes are not those that TensorRT works out from the scales")
        return e.add("resize", x, scales=[1.0] * lead + list(given), **settings)
    known = ints((*shape[:lead], *sizes))
    if known is not None:
        return e.add("resize", x, shape=known, **settings)
    return e.add("resize", x, inputs={1: e.sizes.vector((*shape[:lead], *sizes))}, **settings)


def _follows(dim: Dim, size: Dim, scale: float) -> bool:
    """Whether multiplying and rounding down gives this size."""
    if isinstance(dim, int):
        return math.floor(dim * scale) == size
    return scale == int(scale) and same(dim * int(scale), size) is True


@lowers("resize")
def _smoothed(b: Builder, node: Node, x: Value) -> Any:
    """With antialias: each axis is multiplied by the matrix of its weights."""
    attrs, shape = node.attrs, shape_of(node)
    lengths, sizes = ints(shape[2:]), ints(attrs["sizes"])
    if not attrs["antialias"] or lengths is None or sizes is None:
        return None
    rank = len(shape)
    for axis, (length, size) in enumerate(zip(lengths, sizes, strict=True), 2):
        scale = None if attrs["scales"] is None else attrs["scales"][axis - 2]
        matrix = np.zeros((size, length), np.float32)
        for places, weights in zip(*taps(node.call(), length, size, scale, np.float32), strict=True):
            np.add.at(matrix, (np.arange(size), places), weights)
        order = [*(other for other in range(rank) if other != axis), axis]
        turned = b.matmul(b.permute(x, perm=order), b.constant(matrix.T.copy(), x.tensor.dtype))
        x = b.permute(turned, perm=[order.index(other) for other in range(rank)])
    return x
