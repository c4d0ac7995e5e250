"""Emitters and lowerings of pools."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.backends import taps
from isthmus.backends.formulas import along
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, ceildiv, exact_quotient, maximum, product, same
from isthmus.ir.graph import Node, Value


def _window(e: Emitter, node: Node, dilations: bool) -> dict[str, Any]:
    attrs = node.attrs
    if any(size == 0 for size in shape_of(node)[1:]):
        refuse("onnxruntime does not pool what has no elements")
    found = {"kernel_shape": attrs["kernel"], "strides": attrs["strides"], "pads": attrs["pads"]}
    if dilations and any(dilation != 1 for dilation in attrs["dilations"]):
        found["dilations"] = attrs["dilations"]
    if attrs["ceil_mode"]:
        _round_up(e, node, found)
    return found


def _round_up(e: Emitter, node: Node, found: dict[str, Any]) -> None:
    """Says `ceil_mode` where ONNX counts windows as torch does, and otherwise in other words.

    Torch drops a last window that would start behind the input, which ONNX does since opset 22 only, and which cannot
    happen where the stride is not longer than what the kernel reaches beyond the padding. A size that is known can be had
    by padding more at the end, if padding does not count.
    """
    attrs = node.attrs
    count = len(attrs["kernel"])
    dilations = attrs.get("dilations", (1,) * count)
    ends, safe, plain, known = list(attrs["pads"][count:]), True, True, True
    for axis, (size, wanted) in enumerate(zip(shape_of(node)[2:], (node.results[0].tensor.shape or ())[2:], strict=True)):
        reach, stride = (attrs["kernel"][axis] - 1) * dilations[axis] + 1, attrs["strides"][axis]
        safe = safe and (e.opset >= 22 or stride <= reach - ends[axis])
        plain = plain and same((size + attrs["pads"][axis] + ends[axis] - reach) // stride + 1, wanted) is True
        if isinstance(size, int) and isinstance(wanted, int):
            ends[axis] = max(ends[axis], (wanted - 1) * stride + reach - size - attrs["pads"][axis])
        else:
            known = False
    if plain:
        return
    if safe:
        found["ceil_mode"] = 1
    elif not known:
        refuse("with ceil_mode, ONNX may count another number of windows")
    elif node.op.name == "avg_pool" and attrs["count_include_pad"]:
        refuse("with ceil_mode, ONNX counts another number of windows")
    elif any(end >= size for end, size in zip(ends, attrs["kernel"], strict=True)):
        refuse("onnxruntime takes no padding as wide as the kernel")
    else:
        found["pads"] = [*attrs["pads"][:count], *ends]


@emits("max_pool")
def _max_pool(e: Emitter, node: Node, x: str) -> Any:
    _check_pads(node)
    return e.op("MaxPool", x, **_window(e, node, True))


@lowers("max_pool")
def _max_pool_padded(b: Builder, node: Node, x: Value) -> Any:
    """Padding as wide as the kernel, which a dilated one may have, is put around first; else place by place."""
    attrs, dtype = node.attrs, x.tensor.dtype
    count = len(attrs["kernel"])
    pads = attrs["pads"]
    if attrs["ceil_mode"] or dtype is not dtypes.f32 or not _wide_pads(node):
        return taps.max_pool(b, node, x)
    x = b.pad(x, b.constant(-math.inf, dtype), before=(0, 0, *pads[:count]), after=(0, 0, *pads[count:]))
    return b.max_pool(x, **{**attrs, "pads": [0] * 2 * count})


@emits("max_pool_with_index")
def _max_pool_with_index(e: Emitter, node: Node, x: str) -> Any:
    _check_pads(node)
    if node.attrs["convention"] != "flat":
        refuse("ONNX counts the indices over the whole tensor")
    return e.op("MaxPool", x, results=2, **_window(e, node, True))


def _check_pads(node: Node) -> None:
    if _wide_pads(node):
        refuse("onnxruntime takes no padding as wide as the kernel")
    if len(node.attrs["kernel"]) > 3:
        refuse("onnxruntime pools over at most three axes")


def _wide_pads(node: Node) -> bool:
    return any(pad >= kernel for pad, kernel in zip(node.attrs["pads"], node.attrs["kernel"] * 2, strict=True))


@lowers("max_pool_with_index")
def _planes(b: Builder, node: Node, x: Value) -> Any:
    """Indices in each plane are those over the whole, less what the planes before take up."""
    if node.attrs["convention"] != "per_plane" or x.tensor.dtype.is_integer or x.tensor.dtype is dtypes.f64:
        return taps.max_pool_with_index(b, node, x)
    values, flat = b.max_pool_with_index(x, **{**node.attrs, "convention": "flat"})
    return values, b.mod(flat, _plane(b, node))


def _plane(b: Builder, pool: Node) -> Value:
    """The number of elements of a plane; at least 1, since nothing is divided by 0 where there are no planes."""
    size = maximum(product(shape_of(pool)[2:]), 1)
    return b.constant(np.int64(size)) if isinstance(size, int) else b.size(size)


def _is_plane(value: Value, pool: Node) -> bool:
    """Whether a value is what `_plane` makes."""
    size = maximum(product(shape_of(pool)[2:]), 1)
    if value.weight is not None:
        return value.weight.size == 1 and same(int(value.weight.array().item()), size) is True
    node = value.producer
    return node is not None and node.op.name == "size" and same(node.attrs["dim"], size) is True


@emits("max_unpool")
def _max_unpool(e: Emitter, node: Node, x: str, indices: str) -> Any:
    if node.attrs["convention"] != "flat":
        refuse("ONNX counts the indices over the whole tensor")
    if len(node.attrs["shape"]) > 3:
        refuse("onnxruntime unpools over at most three axes")
    windows = [_unpooled(*sizes) for sizes in zip(shape_of(node)[2:], node.attrs["shape"], strict=True)]
    if None in windows:
        # The shape could be an operand, but then the standard counts the indices in that which kernel and strides give, and
        # onnxruntime in the one given.
        refuse("no kernel and strides give this shape")
    kernel, strides = zip(*filter(None, windows), strict=True)
    return e.op("MaxUnpool", x, indices, kernel_shape=kernel, strides=strides)


STRIDES: Final = 16
"""Where sizes are no numbers, strides up to this are looked at."""


def _unpooled(size: Dim, wanted: Dim) -> tuple[int, int] | None:
    """A kernel and a stride, as great as may be, by which an axis becomes so long; None where there are none."""
    known = isinstance(size, int) and isinstance(wanted, int) and size > 0
    for stride in range(max(int(wanted) // int(size), 1) if known else STRIDES, 0, -1):  # type: ignore[arg-type]
        kernel = wanted - (size - 1) * stride
        if isinstance(kernel, int) and kernel >= 1:
            return kernel, stride
    return None


@lowers("max_unpool")
def _unpool_over_all(b: Builder, node: Node, x: Value, indices: Value) -> Any:
    """Indices that `_planes` made of such as ONNX counts, for planes of this size, are taken as they were."""
    mod = indices.producer
    if node.attrs["convention"] != "per_plane" or mod is None or mod.op.name != "mod":
        return None
    flat, divisor = mod.operands
    pool = None if flat is None else flat.producer
    if pool is None or pool.op.name != "max_pool_with_index" or pool.attrs["convention"] != "flat":
        return None
    if flat is not pool.results[1] or divisor is None or not _is_plane(divisor, pool):
        return None
    if b.graph.symbols.same(product(node.attrs["shape"]), product(shape_of(pool)[2:])) is not True:
        return None
    return b.max_unpool(x, flat, shape=node.attrs["shape"], convention="flat")


@emits("avg_pool")
def _avg_pool(e: Emitter, node: Node, x: str) -> Any:
    attrs = node.attrs
    _check_pads(node)
    if attrs["divisor"] is not None:
        refuse("ONNX's AveragePool has no divisor of its own")
    include = int(attrs["count_include_pad"] and any(attrs["pads"]))
    return e.op("AveragePool", x, **_window(e, node, False), count_include_pad=include or None)


@lowers("avg_pool")
def _avg_pool_by_sum(b: Builder, node: Node, x: Value) -> Any:
    """With a divisor of its own: the mean of each window of the input with zeros around it, times its size."""
    attrs = node.attrs
    count = len(attrs["kernel"])
    if attrs["divisor"] is None or attrs["ceil_mode"] or x.tensor.dtype is not dtypes.f32:
        return taps.avg_pool(b, node, x)
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


@lowers("adaptive_avg_pool")
def _adaptive_by_matrices(b: Builder, node: Node, x: Value) -> Any:
    """Each axis is multiplied by a matrix that holds the weight of each element in each window."""
    shape, wanted = shape_of(node), node.attrs["output_size"]
    if _plain(shape, wanted) or x.tensor.dtype.bits < 32:
        return None
    for axis, out in enumerate(wanted, 2):
        size = shape[axis]
        if same(size, out) is True:
            continue
        x = along(b, x, _windows(b, size, out, x.tensor.dtype), axis)
    return x


def _plain(shape: tuple[Dim, ...], wanted: tuple[Dim, ...]) -> bool:
    """Whether the op's own decomposition says it better: by plain pools and reductions."""
    return all(same(out, 1) is True or _divides(size, out) for size, out in zip(shape[2:], wanted, strict=True))


def _divides(size: Dim, out: Dim) -> bool:
    return same(size, out) is True or isinstance(exact_quotient(size, out), int)


def _windows(b: Builder, size: Dim, out: Dim, dtype: dtypes.DType) -> Value:
    """The matrix [out, size] with 1 / length of the window in each window's places, 0 elsewhere."""
    if isinstance(size, int) and isinstance(out, int):
        matrix = np.zeros((out, size))
        for row in range(out):
            first, end = row * size // out, -(-(row + 1) * size // out)
            matrix[row, first:end] = 1 / (end - first)
        return b.constant(matrix.astype(dtype.numpy))
    start, stop = _bounds(b, size, out)  # the same, reckoned when the model runs
    place = b.arange(stop=size)
    inside = b.logical_and(b.ge(place, start), b.lt(place, stop))
    return b.div(b.cast(inside, dtype=dtype), b.cast(b.sub(stop, start), dtype=dtype))  # type: ignore[no-any-return]


def _bounds(b: Builder, size: Dim, out: Dim) -> tuple[Value, Value]:
    """Where windows begin and end, ``[out, 1]``: they go from ``row * size // out`` to ``ceil((row + 1) * size / out)``."""
    row = b.unsqueeze(b.arange(stop=out), axes=[1])
    sizes, outs = b.size(size), b.size(out)
    return b.div(b.mul(row, sizes), outs), b.div(b.add(b.mul(b.add(row, 1), sizes), b.size(out - 1)), outs)


@lowers("adaptive_max_pool")
def _adaptive_by_gathering(b: Builder, node: Node, x: Value) -> Any:
    """Axis by axis: each window's elements are gathered into an axis of their own, and its greatest is taken."""
    shape, wanted = shape_of(node), node.attrs["output_size"]
    if _plain(shape, wanted):
        return None
    for axis, out in enumerate(wanted, 2):
        size = shape[axis]
        if same(out, 1) is True:
            x = b.reduce_max(x, axes=[axis], keepdims=True)
        elif same(size, out) is not True:
            x = b.reduce_max(b.gather(x, _places(b, size, out), axis=axis), axes=[axis + 1])
    return x


def _places(b: Builder, size: Dim, out: Dim) -> Any:
    """The places of each window's elements ``[out, longest]``; a shorter window has its last place once more."""
    if isinstance(size, int) and isinstance(out, int):
        bounds = [(row * size // out, -(-(row + 1) * size // out)) for row in range(out)]
        longest = max(stop - start for start, stop in bounds)
        return np.array([[min(start + step, stop - 1) for step in range(longest)] for start, stop in bounds])
    start, stop = _bounds(b, size, out)
    return b.minimum(b.add(start, b.arange(stop=ceildiv(size, out) + 1)), b.sub(stop, 1))
