"""Convolutions and pools in windows that Caffe has: padded alike on both sides, rounded up, over two axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from isthmus.backends.caffe.dialect import Dialect
from isthmus.backends.caffe.layers import build, lowers, sizes
from isthmus.backends.caffe.pieces import cut, depthwise
from isthmus.backends.caffe.weights import viewed
from isthmus.backends.formulas import dilated
from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value
from isthmus.ir.ops.pooling import AvgPool


@lowers("conv")
def _conv(b: Builder, dialect: Dialect, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    if x.tensor.rank == 3:
        return _one_axis(b, node, x, weight, bias)
    held = weight.weight
    if x.tensor.rank != 4 or held is None:
        return None
    attrs = node.attrs
    dilations = attrs["dilations"]
    if dilations[0] != dilations[1] and "dilation" in dialect.layers["Convolution"].single:
        return b.conv(x, b.constant(dilated(held, dilations, (0, 0))), bias, **{**attrs, "dilations": [1, 1]})
    spans = [(k - 1) * d + 1 for k, d in zip(held.shape[2:], dilations, strict=True)]
    return _even(b, node, x, spans, lambda pads: b.conv(x, weight, bias, **{**attrs, "pads": pads}), up=False)


def _one_axis(b: Builder, node: Node, x: Value, *more: Value | None) -> Any:
    """A window over one spatial axis, as one over two of which the first has size 1."""
    attrs: dict[str, Any] = dict(node.attrs)
    for name, unit in (("kernel", 1), ("strides", 1), ("dilations", 1), ("output_padding", 0)):
        if name in attrs:
            attrs[name] = [unit, *attrs[name]]
    attrs["pads"] = [0, attrs["pads"][0], 0, attrs["pads"][1]]
    operands: list[Value | None] = []
    if more:
        held = None if more[0] is None else more[0].weight
        if held is None:
            return None
        operands = [b.constant(viewed(held, (*held.shape[:2], 1, held.shape[2]))), *more[1:]]
    shape = sizes(x)
    flat = build(b, "reshape", x, shape=[*shape[:2], 1, shape[2]])
    found = build(b, node.op.name, flat, *operands, **attrs)
    return b.reshape(found, shape=node.result.tensor.shape)


def _even(
    b: Builder, node: Node, x: Value, spans: Sequence[int], make: Callable[[list[int]], Value], up: bool,
) -> Value | None:  # fmt: skip
    """A window with the same padding on both sides, of whose results those that are wanted are cut out.

    Args:
        b: builds.
        node: has the attributes `strides` and `pads`.
        x: what the windows slide over.
        spans: from the first to behind the last element of a window.
        make: builds the windows with other pads.
        up: whether the target rounds the number of windows up.
    """
    inside, wanted = sizes(x)[2:], sizes(node.result)[2:]
    strides, pads = node.attrs["strides"], node.attrs["pads"]
    even: list[int] = []
    cuts: list[tuple[int, int]] = []
    for axis, (size, count, span, stride) in enumerate(zip(inside, wanted, spans, strides, strict=True)):
        before = pads[axis]
        needed = max(before, (count - 1) * stride + span - before - size)
        pad = needed if not up else max(needed if pads[axis] != pads[axis + 2] else before, before)
        pad += -(pad - before) % stride
        even.append(pad)
        cuts.append(((pad - before) // stride, count))
    if up and any(pad >= span for pad, span in zip(even, spans, strict=True)):
        return None
    full_pads = [*even, *even]
    if not up and full_pads == list(pads):
        return None
    return cut(b, make(full_pads), cuts)


@lowers("max_pool", "avg_pool")
def _pool(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    attrs = node.attrs
    if x.tensor.rank == 3:
        return _one_axis(b, node, x)
    if x.tensor.rank != 4 or set(attrs.get("dilations", (1,))) != {1}:
        return None
    kernel, strides, pads = attrs["kernel"], attrs["strides"], attrs["pads"]
    mean = node.op.name == "avg_pool"
    inside, wanted = sizes(x)[2:], sizes(node.result)[2:]
    whole = [size + before + after for size, before, after in zip(inside, pads[:2], pads[2:], strict=True)]
    beyond = any(k > size for k, size in zip(kernel, whole, strict=True))
    if not mean and any(k > size and n == 1 for k, size, n in zip(kernel, whole, wanted, strict=True)):
        # A maximum over a window that is larger than all there is.
        fitting = [min(k, size) if n == 1 else k for k, size, n in zip(kernel, whole, wanted, strict=True)]
        return b.max_pool(x, **{**attrs, "kernel": fitting})
    if mean and (attrs["divisor"] is not None or beyond):
        return _summed(b, node, x)
    if mean and any(pads) and not attrs["count_include_pad"]:
        counting = {**attrs, "count_include_pad": True}
        ones = build(b, "add", build(b, "mul", x, 0.0), 1.0)
        return b.div(b.avg_pool(x, **counting), b.avg_pool(ones, **counting))
    reach = [(n - 1) * step - pad + k for n, step, pad, k in zip(wanted, strides, pads[:2], kernel, strict=True)]
    if any(step > k for step, k in zip(strides, kernel, strict=True)):
        if any(pads) or any(end > size for end, size in zip(reach, inside, strict=True)):
            return _summed(b, node, x) if mean else _picked(b, node, x)
        # A window behind the end cannot come about where nothing is left over.
        used = cut(b, x, [(0, end) for end in reach])
        return None if used is x else build(b, node.op.name, used, **attrs)
    if mean and any(pads) and (not dialect.pooling.padded_average or tuple(pads[:2]) != tuple(pads[2:])):
        padded = build(b, "pad", x, None, before=[0, 0, *pads[:2]], after=[0, 0, *pads[2:]])
        # A window that begins in the padding behind the end is counted there, and was not before.
        return cut(b, b.avg_pool(padded, **{**attrs, "pads": [0] * 4}), [(0, n) for n in wanted])

    def pool(even: list[int]) -> Value:
        return build(b, node.op.name, x, **{**attrs, "ceil_mode": True, "pads": even})

    found = _even(b, node, x, kernel, pool, up=True)
    return None if found is None or (found.producer is not None and found.producer.attrs == attrs) else found


def _summed(b: Builder, node: Node, x: Value) -> Any:
    """The sum of each window, by a kernel of ones, over what the average divides it by."""
    attrs, wanted = node.attrs, sizes(node.result)[2:]
    assert isinstance(node.op, AvgPool)
    counts = np.broadcast_to(node.op.divisor(node.call(), sizes(x)[2:], wanted), wanted)
    alike = counts.size > 0 and bool((counts == counts.flat[0]).all())
    share = 1 / float(counts.flat[0]) if alike else 1.0
    found = depthwise(b, x, attrs["kernel"], share, strides=attrs["strides"], pads=_reaching(node, x))
    return found if alike else b.mul(found, (1 / counts).astype(np.float32))


def _picked(b: Builder, node: Node, x: Value) -> Value:
    """The maxima at every place, and of these every so many."""
    strides = node.attrs["strides"]
    found = build(b, "max_pool", x, **{**node.attrs, "strides": [1, 1], "pads": _reaching(node, x), "ceil_mode": False})
    ends = [(n - 1) * step + 1 for n, step in zip(sizes(node.result)[2:], strides, strict=True)]
    return build(b, "slice", found, axes=[2, 3], starts=[0, 0], ends=ends, steps=list(strides))


def _reaching(node: Node, x: Value) -> list[int]:
    """The padding with which the last window does not reach behind the end."""
    attrs = node.attrs
    before = list(attrs["pads"][:2])
    rows = zip(sizes(node.result)[2:], attrs["strides"], attrs["kernel"], before, sizes(x)[2:], strict=True)
    return before + [max(0, (n - 1) * stride + k - pad - size) for n, stride, k, pad, size in rows]


@lowers("conv_transpose")
def _conv_transpose(b: Builder, dialect: Dialect, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    """Less padding and a cut in place of padding that is uneven, of output padding, and of what lies behind the end."""
    if x.tensor.rank == 3:
        return _one_axis(b, node, x, weight, bias)
    held = weight.weight
    if x.tensor.rank != 4 or held is None:
        return None
    attrs = node.attrs
    pads, extra, dilations = attrs["pads"], attrs["output_padding"], attrs["dilations"]
    spread_out = set(dilations) != {1} and (
        "dilation" not in dialect.layers["Deconvolution"].fields or dilations[0] != dilations[1]
    )
    beyond = [max(0, more - pad) for more, pad in zip(extra, pads[2:], strict=True)]
    if spread_out or any(beyond):
        if any(beyond) and set(dilations) != {1}:
            spread_out = True
        held = dilated(held, dilations if spread_out else (1, 1), beyond)
        weight = b.constant(held)
        dilations = [1, 1] if spread_out else dilations
    ends = [pad + more - out for pad, more, out in zip(pads[2:], beyond, extra, strict=True)]
    even = [min(begin, end) for begin, end in zip(pads[:2], ends, strict=True)]
    new = {**attrs, "pads": [*even, *even], "output_padding": [0, 0], "dilations": dilations}
    if new == attrs:
        return None
    found = build(b, "conv_transpose", x, weight, bias, **new)
    return cut(b, found, [(pad - less, n) for pad, less, n in zip(pads[:2], even, sizes(node.result)[2:], strict=True)])
