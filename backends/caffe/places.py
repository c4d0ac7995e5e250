"""Elements in other places: padding, slices, picks and permutations in what Caffe has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isthmus.backends.caffe.dialect import Dialect
from isthmus.backends.caffe.layers import build, length, lowers, scalar, sizes
from isthmus.backends.caffe.pieces import CHANNELS, NEUTRAL, PIECES, depthwise, picked, view
from isthmus.backends.caffe.weights import derived
from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Trait


@lowers("pad")
def _pad(b: Builder, dialect: Dialect, node: Node, x: Value, value: Value | None) -> Any:
    """With zeros, by a convolution that does nothing but pad; with the tensor's own elements, by cutting and joining."""
    before, after, mode = node.attrs["before"], node.attrs["after"], node.attrs["mode"]
    if not all(isinstance(size, int) for size in (*before, *after)):
        return None
    if mode != "constant":
        for axis, (low, high) in enumerate(zip(before, after, strict=True)):
            if low or high:
                order = np.pad(np.arange(length(x, axis)), (low, high), mode)
                found = picked(b, x, axis, order.tolist())
                if found is None:
                    return None
                x = found
        return x
    number = 0.0 if value is None else scalar(value)
    if number is None or not math.isfinite(number):
        return None
    if number:
        padded = build(b, "pad", build(b, "sub", x, number), None, before=before, after=after)
        return b.add(padded, number)
    rest = [axis for axis in range(x.tensor.rank) if before[axis] or after[axis]]
    if x.tensor.rank == 4 and set(rest) <= {2, 3}:
        return depthwise(b, x, [1, 1], 1.0, pads=[*before[2:], *after[2:]])
    for axis in rest:
        pads = [before[axis], 0, after[axis], 0]
        x = view(b, x, axis, axis, lambda seen, pads=pads: depthwise(b, seen, [1, 1], 1.0, pads=pads))  # type: ignore[misc]
    return x


@lowers("slice")
def _slice(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    """One axis at a time; a step, by a convolution that takes every so many elements."""
    attrs = node.attrs
    rows = list(zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True))
    if not all(isinstance(bound, int) for row in rows for bound in row):
        return None
    if node.result.tensor.shape == x.tensor.shape:
        return x
    if len(rows) == 1 and rows[0][3] == 1:
        return None
    rank = x.tensor.rank
    for axis, start, end, step in ((row[0] % rank, *row[1:]) for row in rows):
        if (start, end) != (0, length(x, axis)):
            x = build(b, "slice", x, axes=[axis], starts=[start], ends=[end], steps=[1])
        if step != 1:
            if rank == 4 and axis in (2, 3):
                x = depthwise(b, x, [1, 1], 1.0, strides=[step, 1] if axis == 2 else [1, step])
            else:
                x = view(b, x, axis, axis, lambda seen, n=step: depthwise(b, seen, [1, 1], 1.0, strides=[n, 1]))  # type: ignore[misc]
    return x


@lowers("gather")
def _gather(b: Builder, dialect: Dialect, node: Node, x: Value, indices: Value) -> Any:
    held = indices.weight
    axis = node.attrs["axis"] % x.tensor.rank
    size = sizes(x)[axis]
    if held is None or not isinstance(size, int) or held.size > 1 << 16:
        return None
    found = picked(b, x, axis, [int(index) % size for index in held.array().reshape(-1)])
    wanted = node.result.tensor.shape
    return found if found is None or found.tensor.shape == wanted else b.reshape(found, shape=wanted)


@lowers("flip", "roll")
def _turned(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    found: Value | None = x
    for place, axis in enumerate(node.attrs["axes"]):
        axis %= x.tensor.rank
        order = np.arange(length(x, axis))
        order = order[::-1] if node.op.name == "flip" else np.roll(order, node.attrs["shifts"][place])
        found = None if found is None else picked(b, found, axis, order.tolist())
    return found


@lowers("concat")
def _concat(b: Builder, dialect: Dialect, node: Node, xs: list[Value]) -> Any:
    """Empty parts left out, many parts in groups."""
    axis = node.attrs["axis"] % node.result.tensor.rank
    full_parts = [x for x in xs if sizes(x)[axis] != 0]
    if not full_parts or len(full_parts) == len(xs):
        return None
    return b.concat(full_parts, axis=axis) if len(full_parts) > 1 else build(b, "identity", full_parts[0])


@lowers("permute")
def _permute(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    found = _rearranged(b, node)
    if found is None or node.result.tensor.rank > dialect.max_rank:
        return None
    return b.reshape(found, shape=node.result.tensor.shape)


@lowers("reshape")
def _reshape(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    """Behind a permutation that has no blob of its own, together with it."""
    turn = x.producer
    if turn is None or turn.op.name != "permute":
        return None
    found = _rearranged(b, turn)
    wanted = node.result.tensor.shape
    return found if found is None or found.tensor.shape == wanted else b.reshape(found, shape=wanted)


def _rearranged(b: Builder, turn: Node) -> Value | None:
    """Something of rank 4 whose elements are, in row-major order, those of a permutation; None where there is no way.

    These are how people spell a shuffle of channels, and channels that move into space.
    """
    x = turn.operands[0]
    assert x is not None
    split, perm = sizes(x), list(turn.attrs["perm"])
    while x.producer is not None and Trait.LAYOUT in x.producer.op.traits and x.producer.operands[0] is not None:
        x = x.producer.operands[0]
    moved = [axis for axis in perm if split[axis] != 1]
    if moved == sorted(moved):
        return x
    if perm[0] != 0 or not all(isinstance(size, int) for size in split[1:]):
        return None
    origin = sizes(x)
    last = max(axis for axis, source in enumerate(perm) if axis != source)
    if len(split) == 6 and perm == [0, 1, 4, 2, 5, 3] and (*origin[:1], *origin[2:]) == (split[0], *split[4:]):
        return _to_space(b, x, *split[1:4])
    count = math.prod(split[1 : last + 1])
    if count > CHANNELS:
        return None
    order = np.arange(count).reshape(split[1 : last + 1]).transpose([axis - 1 for axis in perm[1 : last + 1]]).reshape(-1)
    if len(origin) != 4 or origin[:2] != (split[0], count):
        x = build(b, "reshape", x, shape=[split[0], count, math.prod(split[last + 1 :]), 1])
    return _channels(b, x, order)


def _channels(b: Builder, x: Value, order: Any) -> Value:
    """The channels in another order, by a convolution whose kernel is a permutation."""
    count = len(order)
    if count <= PIECES:
        found = picked(b, x, 1, order.tolist())
        if found is not None:
            return found
    def kernel() -> Any:
        return np.eye(count, dtype=np.float32)[order][:, :, None, None]

    weight = derived((count, count, 1, 1), kernel, (), ("order", order.tobytes()))
    return build(b, "conv", x, b.constant(weight), None, **NEUTRAL)


def _to_space(b: Builder, x: Value, channels: int, rows: int, columns: int) -> Value:
    """Channels as the elements of blocks, by a transposed convolution whose kernels each have one 1."""
    block = rows * columns
    eye = derived(
        (channels * block, 1, rows, columns),
        lambda: np.tile(np.eye(block, dtype=np.float32).reshape(block, 1, rows, columns), (channels, 1, 1, 1)), (), "to space",
    )  # fmt: skip
    attrs = {"strides": [rows, columns], "pads": [0] * 4, "output_padding": [0, 0], "dilations": [1, 1]}
    return build(b, "conv_transpose", x, b.constant(eye), None, groups=channels, **attrs)
