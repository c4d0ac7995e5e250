"""Emitters and lowerings of pools."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.backends.tensorrt.emitter import Emitter, ints, result_shape, shape_of
from isthmus.backends.tensorrt.table import emits, lowers, refuse
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, product, same
from isthmus.ir.graph import Node, Value


@emits("max_pool", "avg_pool")
def _pool(e: Emitter, node: Node, x: Any) -> Any:
    trt, attrs = e.trt, node.attrs
    if len(attrs["kernel"]) not in (2, 3):
        refuse("TensorRT pools over two or three axes")
    if any(step != 1 for step in attrs.get("dilations", ())):
        refuse("TensorRT pools without dilation")
    begin, end, up = _pads(node)
    settings: dict[str, Any] = {"stride_nd": attrs["strides"], "pre_padding": begin, "post_padding": end}
    settings["padding_mode"] = trt.PaddingMode.EXPLICIT_ROUND_UP if up else trt.PaddingMode.EXPLICIT_ROUND_DOWN
    if node.op.name == "max_pool":
        return e.add("pooling_nd", x, trt.PoolingType.MAX, attrs["kernel"], **settings)
    if attrs["divisor"] is not None:
        refuse("TensorRT's average has no divisor of its own")
    settings["average_count_excludes_padding"] = not (attrs["count_include_pad"] and any(attrs["pads"]))
    return e.add("pooling_nd", x, trt.PoolingType.AVERAGE, attrs["kernel"], **settings)


def _pads(node: Node) -> tuple[list[int], list[int], bool]:
    """Padding before and after, and whether TensorRT is to round the number of windows up.

    It counts a last window that starts behind the input, which the op does not: then more padding at the end stands in
    for rounding up, where the sizes are known and padding does not count.
    """
    attrs = node.attrs
    count = len(attrs["kernel"])
    begin, end = list(attrs["pads"][:count]), list(attrs["pads"][count:])
    if not attrs["ceil_mode"]:
        return begin, end, False
    plain = True
    longer = list(end)
    dilations = attrs.get("dilations", (1,) * count)
    for axis, (size, wanted) in enumerate(zip(shape_of(node)[2:], result_shape(node)[2:], strict=True)):
        reach, stride = (attrs["kernel"][axis] - 1) * dilations[axis] + 1, attrs["strides"][axis]
        plain = plain and same((size + begin[axis] + end[axis] - reach) // stride + 1, wanted) is True
        if isinstance(size, int) and isinstance(wanted, int):
            longer[axis] = max(end[axis], (wanted - 1) * stride + reach - size - begin[axis])
        elif stride > reach - end[axis]:
            refuse("with ceil_mode, TensorRT may count another number of windows")
    if plain:
        return begin, end, False
    if node.op.name == "avg_pool" and attrs["count_include_pad"] and any(attrs["pads"]):
        refuse("with ceil_mode, TensorRT counts what is beyond the padding as well")
    if ints((*shape_of(node)[2:], *result_shape(node)[2:])) is not None:
        return begin, longer, False
    return begin, end, True


@lowers("max_pool", "avg_pool")
def _pool_otherwise(b: Builder, node: Node, x: Value) -> Any:
    attrs = dict(node.attrs)
    count = len(attrs["kernel"])
    pool = getattr(b, node.op.name)
    if count == 1:
        for name, neutral in (("kernel", 1), ("strides", 1), ("dilations", 1)):
            if name in attrs:
                attrs[name] = (*attrs[name], neutral)
        attrs["pads"] = (attrs["pads"][0], 0, attrs["pads"][1], 0)
        return b.squeeze(pool(b.unsqueeze(x, axes=[3]), **attrs), axes=[3])
    if node.op.name == "avg_pool" and attrs["divisor"] is not None and not attrs["ceil_mode"]:
        padded = _padded(b, x, attrs["pads"], 0)
        mean = b.avg_pool(padded, **{**attrs, "pads": [0] * 2 * count, "divisor": None})
        return b.mul(mean, float(np.prod(attrs["kernel"])) / attrs["divisor"])
    known = ints(shape_of(node)[2:]) is not None
    if node.op.name == "avg_pool" and known and attrs["ceil_mode"] and attrs["count_include_pad"] and any(attrs["pads"]):
        # The padding that counts becomes part of the input; what is beyond does not count.
        padded = _padded(b, x, attrs["pads"], 0)
        return b.avg_pool(padded, **{**attrs, "pads": [0] * 2 * count, "count_include_pad": False})
    if node.op.name == "max_pool" and (x.tensor.dtype.is_integer or any(step != 1 for step in attrs["dilations"])):
        values, _ = _places(b, node, x)
        return values
    return None


def _padded(b: Builder, x: Value, pads: Any, value: float) -> Value:
    count = len(pads) // 2
    if not any(pads):
        return x
    fill = b.constant(value, x.tensor.dtype)
    return b.pad(x, fill, before=(0, 0, *pads[:count]), after=(0, 0, *pads[count:]))  # type: ignore[no-any-return]


@lowers("max_pool_with_index")
def _with_index(b: Builder, node: Node, x: Value) -> Any:
    values, places = _places(b, node, x)
    if node.attrs["convention"] == "flat":
        shape = shape_of(node)
        planes = b.reshape(b.arange(stop=shape[0] * shape[1]), shape=[shape[0], shape[1], *[1] * (len(shape) - 2)])
        places = b.add(places, b.mul(planes, b.size(product(shape[2:]))))
    return values, places


def _places(b: Builder, node: Node, x: Value) -> tuple[Value, Value]:
    """A max pool one place of the windows after the other, keeping what is greatest and where it stands in its plane."""
    attrs, shape, wanted = node.attrs, shape_of(node), result_shape(node)
    count, dtype = len(attrs["kernel"]), x.tensor.dtype
    ends: list[Dim] = []
    for axis in range(count):
        reach = (attrs["kernel"][axis] - 1) * attrs["dilations"][axis] + 1
        ends.append((wanted[axis + 2] - 1) * attrs["strides"][axis] + reach)
    begin = attrs["pads"][:count]
    pads = any(attrs["pads"]) or attrs["ceil_mode"]
    lowest = -np.inf if dtype.is_float else int(np.iinfo(dtype.numpy).min)
    # Up to where the last windows end, which may be beyond the padding or short of the input.
    full = x
    if pads:
        spare = [end - size - low for end, size, low in zip(ends, shape[2:], begin, strict=True)]
        after = [_at_least_zero(more) for more in spare]
        full = b.pad(x, b.constant(lowest, dtype), before=(0, 0, *begin), after=(0, 0, *after))
    axes = list(range(2, 2 + count))
    best: Any = None
    index: Any = None
    for offset in np.ndindex(*attrs["kernel"]):
        starts = [step * dilation for step, dilation in zip(offset, attrs["dilations"], strict=True)]
        stops = [
            start + (size - 1) * stride + 1
            for start, size, stride in zip(starts, wanted[2:], attrs["strides"], strict=True)
        ]
        part = b.slice(full, axes=axes, starts=starts, ends=stops, steps=attrs["strides"])
        place, inside = _where(b, node, starts, pads)
        if best is None:
            best, index = part, b.expand(place if inside is None else b.where(inside, place, -1), shape=part.tensor.shape)
            continue
        better = b.gt(part, best)
        if dtype.is_float:
            better = b.logical_or(better, b.is_nan(part))
        if inside is not None:
            better = b.logical_and(b.logical_or(better, b.lt(index, 0)), inside)
        best, index = b.where(better, part, best), b.where(better, place, index)
    return best, index


def _at_least_zero(dim: Dim) -> Dim:
    return max(dim, 0) if isinstance(dim, int) else dim


def _where(b: Builder, node: Node, starts: list[int], pads: bool) -> tuple[Value, Value | None]:
    """Where one place of all windows stands in its plane, and whether that is inside."""
    attrs, sizes, wanted = node.attrs, shape_of(node)[2:], result_shape(node)[2:]
    count = len(sizes)
    place: Any = None
    inside: Any = None
    for axis in range(count):
        first, stride = starts[axis] - attrs["pads"][axis], attrs["strides"][axis]
        at = b.arange(start=first, stop=first + wanted[axis] * stride, step=stride)
        at = b.unsqueeze(at, axes=list(range(1, count - axis))) if axis < count - 1 else at
        place = at if place is None else b.add(b.mul(place, b.size(sizes[axis])), at)
        if pads:
            held = b.logical_and(b.ge(at, 0), b.lt(at, b.size(sizes[axis])))
            inside = held if inside is None else b.logical_and(inside, held)
    return place, inside
