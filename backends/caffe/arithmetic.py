"""Products, broadcasting, reductions and activations in what Caffe has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isthmus.backends.caffe.dialect import Dialect
from isthmus.backends.caffe.layers import build, lowers, refuse, sizes
from isthmus.backends.caffe.pieces import CHANNELS, NEUTRAL, PIECES, repeat, view
from isthmus.backends.caffe.weights import broadcast, derived, full, transposed, viewed
from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value
from isthmus.ir.ops.activations import SELU_ALPHA, SELU_SCALE
from isthmus.ir.weights import Weight


@lowers("linear")
def _linear(b: Builder, dialect: Dialect, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    """As one of rank 2 where the rows may become axis 0, else by convolutions."""
    held = weight.weight
    *rows, size = sizes(x)
    if held is None or len(rows) == 1:
        return None
    if all(row == 1 for row in rows[1:]):
        lead = rows[0] if rows else 1
    elif dialect.batch == "free" and all(isinstance(row, int) for row in rows):
        lead = math.prod(rows)
    else:
        return _rows(b, x, held, bias)
    found = build(b, "linear", build(b, "reshape", x, shape=[lead, size]), weight, bias)
    return b.reshape(found, shape=node.result.tensor.shape)


def _rows(b: Builder, x: Value, matrix: Weight, bias: Value | None) -> Value | None:
    """`linear` with the matrix ``[out, in]`` over every row of ``x[N, ..., in]``, axis 0 kept; None where that takes too much.

    A window as wide as a row makes channels of the row, and a transposed one a row of the channels. Whichever of the two
    has the smaller kernel only moves elements.
    """
    first, *rows, size = sizes(x)
    out, least = matrix.shape[0], min(matrix.shape)
    if least > CHANNELS or not all(isinstance(row, int) for row in rows):
        return None
    moves = derived((least, least), lambda: np.eye(least, dtype=np.float32), (), "moves")
    early = out < size
    gather, scatter = (matrix, moves) if early else (moves, transposed(matrix))
    seen = build(b, "reshape", x, shape=[first, 1, math.prod(rows), size])
    seen = build(b, "conv", seen, b.constant(viewed(gather, (least, 1, 1, size))), bias if early else None, **NEUTRAL)
    kernel = b.constant(viewed(scatter, (least, 1, 1, out)))
    seen = build(b, "conv_transpose", seen, kernel, None, output_padding=[0, 0], **NEUTRAL)
    found = build(b, "reshape", seen, shape=[first, *rows, out])
    return found if early or bias is None else build(b, "add", found, bias)


@lowers("matmul")
def _matmul(b: Builder, dialect: Dialect, node: Node, x: Value, y: Value) -> Any:
    held = y.weight
    if held is None or x.weight is not None or len(held.shape) > 2:
        return None
    if len(held.shape) == 1:
        found = build(b, "linear", x, b.constant(viewed(held, (1, *held.shape))), None)
        return b.reshape(found, shape=node.result.tensor.shape) if node.result.tensor.rank else None
    return b.linear(x, b.constant(transposed(held)), None)


# ---- broadcasting


@lowers("add", "sub", "mul", "div", "maximum", "minimum")
def _binary(b: Builder, dialect: Dialect, node: Node, x: Value, y: Value) -> Any:
    """Blobs are brought to the shape of the result; so are constants, to a shape with an element a channel."""
    wanted = sizes(node.result)
    if x.weight is None and y.weight is None:
        if sizes(x) == sizes(y):
            return None
        return getattr(b, node.op.name)(*(value if sizes(value) == wanted else expand(b, value, wanted) for value in (x, y)))
    if x.weight is not None and y.weight is not None:
        return None
    value, held = (x, y) if y.weight is not None else (y, x)
    if sizes(value) != wanted:
        return _flipped(b, node, expand(b, value, wanted), held, value is x)
    weight = held.weight
    if weight is None or weight.size == 1 or node.op.name in ("maximum", "minimum") or (node.op.name == "div" and value is y):
        return None
    aligned = (1,) * (len(wanted) - len(weight.shape)) + weight.shape
    lead = 0 if len(wanted) == 1 or aligned[0] != 1 else 1
    if lead == 0 and (dialect.batch == "kept" and wanted[0] != 1):
        return None
    if not lead and wanted[0] == 1:
        lead = 1
    if not all(isinstance(size, int) for size in wanted[lead:]):
        return None
    flat_size = int(np.prod(wanted[lead:], dtype=np.int64))
    flat = (wanted[0], flat_size) if lead else (1, flat_size)
    if flat == wanted:
        return None
    whole = viewed(broadcast(weight, (1, *wanted[1:]) if lead else wanted), (flat_size,))
    made = _flipped(b, node, build(b, "reshape", value, shape=flat), b.constant(whole), value is x)
    return b.reshape(made, shape=node.result.tensor.shape)


def _flipped(b: Builder, node: Node, value: Value, held: Value, first: bool) -> Value:
    return build(b, node.op.name, *((value, held) if first else (held, value)))


@lowers("expand")
def _lower_expand(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    return expand(b, x, sizes(node.result))


def expand(b: Builder, x: Value, wanted: tuple[int, ...]) -> Value:
    """x repeated: over the last axes by a transposed convolution with ones, over channels by a convolution with ones."""
    shape: tuple[Any, ...] = sizes(x)
    if len(shape) < len(wanted):
        shape = (*(1,) * (len(wanted) - len(shape)), *shape)
        x = build(b, "reshape", x, shape=shape)
    repeats = [axis for axis, (old, new) in enumerate(zip(shape, wanted, strict=True)) if old != new]
    if len(shape) == 4 and repeats and set(repeats) <= {2, 3} and repeats == [axis for axis in (2, 3) if axis in repeats]:
        kernel = [wanted[axis] if axis in repeats else 1 for axis in (2, 3)]
        return repeat(b, x, kernel)
    for axis in repeats:
        count = wanted[axis]
        if shape[axis] != 1 or not isinstance(count, int):
            refuse(f"the size {shape[axis]} cannot become {count}")
        if len(shape) == 4 and axis == 1:
            x = build(b, "conv", x, b.constant(full((count, 1, 1, 1), 1.0)), None, **NEUTRAL)
        elif axis == 0 or count <= 8:
            x = build(b, "concat", [x] * count, axis=axis)
        else:
            x = view(b, x, axis, axis, lambda seen, count=count: repeat(b, seen, [count, 1]))  # type: ignore[misc]
    return x if repeats else build(b, "identity", x)


@lowers("tile")
def _tile(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    repeats = node.attrs["repeats"]
    if len(repeats) != x.tensor.rank or max(repeats, default=0) > PIECES or min(repeats, default=0) < 1:
        return None
    for axis, count in enumerate(repeats):
        if count != 1:
            x = build(b, "concat", [x] * count, axis=axis)
    return x


# ---- reductions


@lowers("reduce_mean", "reduce_sum", "reduce_max", "reduce_min")
def _reduce(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    """A pool over a run of axes; over several runs one after the other."""
    shape, rank, name = sizes(x), x.tensor.rank, node.op.name
    axes = sorted(axis % rank for axis in node.attrs["axes"])
    if not axes or not all(isinstance(size, int) for size in (shape[axis] for axis in axes)):
        return None
    if name == "reduce_min":
        turned = build(b, "reduce_max", build(b, "neg", x), **node.attrs)
        return b.neg(turned)
    found = x
    while axes:
        last = first = axes.pop()
        while axes and axes[-1] == first - 1:
            first = axes.pop()
        count = math.prod(shape[first : last + 1])
        found = _over(b, found, first, last, name)
        if name == "reduce_sum" and count != 1:
            found = build(b, "mul", found, float(count))
    wanted = node.result.tensor.shape
    return found if found.tensor.shape == wanted else build(b, "reshape", found, shape=wanted)


def _over(b: Builder, x: Value, first: int, last: int, name: str) -> Value:
    def pool(seen: Value) -> Value:
        attrs = {"kernel": [*sizes(seen)[2:]] if both else [sizes(seen)[2], 1], "strides": [1, 1], "pads": [0] * 4}
        if name == "reduce_max":
            return build(b, "max_pool", seen, dilations=[1, 1], **attrs)
        return build(b, "avg_pool", seen, **attrs)

    both = x.tensor.rank == 4 and (first, last) == (2, 3)
    return pool(x) if both else view(b, x, first, last, pool)


# ---- activations, and nothing at all


@lowers("identity")
def _identity(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    return x


@lowers("selu")
def _selu(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    return b.mul(b.elu(x, alpha=SELU_ALPHA), SELU_SCALE)


@lowers("celu")
def _celu(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    alpha = node.attrs["alpha"]
    return b.mul(b.elu(b.div(x, alpha), alpha=1.0), alpha) if alpha > 0 else None


@lowers("log2", "log10", "log1p")
def _log(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    """OpenCV forgets another base, and a shift."""
    if node.op.name == "log1p":
        return b.log(b.add(x, 1.0))
    return b.mul(b.log(x), 1 / math.log(2 if node.op.name == "log2" else 10))


@lowers("mish")
def _mish(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    return b.mul(x, b.tanh(b.softplus(x)))
