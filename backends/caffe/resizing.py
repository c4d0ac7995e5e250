"""Resizing by whole factors: blocks of equal elements, or a transposed convolution with triangles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from isthmus.backends.caffe.dialect import Dialect
from isthmus.backends.caffe.layers import build, lowers, sizes
from isthmus.backends.caffe.pieces import cut, picked, repeat
from isthmus.backends.caffe.weights import broadcast
from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value
from isthmus.ir.ops.resize import taps
from isthmus.ir.weights import ArrayWeight


@lowers("resize")
def _resize(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    attrs = node.attrs
    if x.tensor.rank == 3:
        return _one_axis(b, node, x)
    if x.tensor.rank != 4 or attrs["antialias"] or not all(isinstance(size, int) for size in attrs["sizes"]):
        return None
    lengths, wanted = sizes(x)[2:], attrs["sizes"]
    scales = attrs["scales"] or (None, None)
    rows = list(zip(lengths, wanted, scales, strict=True))
    if attrs["mode"] == "linear":
        if all(size % length == 0 and _is_triangle(node, *row) for row in rows for length, size, _ in [row]):
            return _linear_up(b, x, [size // length for length, size, _ in rows])
        return None
    if attrs["mode"] != "nearest":
        return None
    picks = [taps(node.call(), *row, np.float32)[0][0].tolist() for row in rows]
    factors = [size // length for length, size, _ in rows]
    blocks = [[place // max(factor, 1) for place in range(size)] for (_, size, _), factor in zip(rows, factors, strict=True)]
    if picks == blocks and min(factors) > 0:
        return repeat(b, x, factors)
    found: Value | None = x
    for axis, pick in enumerate(picks, 2):
        found = None if found is None else _strided(b, found, axis, pick)
    return found


def _one_axis(b: Builder, node: Node, x: Value) -> Value:
    """One spatial axis as the second of two of which the first has size 1."""
    attrs, shape = node.attrs, sizes(x)
    scales = attrs["scales"] and [1.0, *attrs["scales"]]
    flat = build(b, "reshape", x, shape=[*shape[:2], 1, shape[2]])
    found = build(b, "resize", flat, **{**attrs, "sizes": [1, *attrs["sizes"]], "scales": scales})
    return build(b, "reshape", found, shape=node.result.tensor.shape)


def _strided(b: Builder, x: Value, axis: int, indices: Sequence[int]) -> Value | None:
    """Elements at places of equal distance, by a slice; others by runs."""
    steps = {after - before for before, after in pairwise(indices)}
    if len(steps) == 1 and (step := steps.pop()) > 0:
        return build(b, "slice", x, axes=[axis], starts=[indices[0]], ends=[indices[-1] + 1], steps=[step])
    return picked(b, x, axis, indices)


def _is_triangle(node: Node, length: int, size: int, scale: float | None) -> bool:
    """Whether the taps are those of half-pixel interpolation by a whole factor, with the edges repeated."""
    indices, weights = taps(node.call(), length, size, scale, np.float32)
    at = (np.arange(size) + 0.5) * length / size - 0.5
    first = np.floor(at)
    found, wanted = np.zeros((2, size, length))
    for place, weight in zip(indices, weights, strict=True):
        np.add.at(found, (np.arange(size), place), weight)
    for step in (0, 1):
        np.add.at(wanted, (np.arange(size), np.clip(first + step, 0, length - 1).astype(int)), 1 - np.abs(at - first - step))
    return bool(np.allclose(found, wanted, atol=1e-6))


def _linear_up(b: Builder, x: Value, factors: Sequence[int]) -> Value:
    """Edges repeated once, then a transposed convolution with triangles, then what belongs to the edges cut away."""
    shape = sizes(x)
    channels = shape[1]
    edges = [1 if factor > 1 else 0 for factor in factors]
    wide = build(b, "pad", x, None, before=[0, 0, *edges], after=[0, 0, *edges], mode="edge")
    sides = [_triangle(factor) for factor in factors]
    kernel = np.outer(*sides)
    weight = b.constant(broadcast(ArrayWeight(kernel), (channels, 1, *kernel.shape)))
    attrs = {"strides": list(factors), "pads": [0] * 4, "output_padding": [0, 0], "dilations": [1, 1]}
    found = build(b, "conv_transpose", wide, weight, None, groups=channels, **attrs)
    cuts = []
    for length, factor, side in zip(shape[2:], factors, sides, strict=True):
        # Element i of the input, one behind the repeated edge, spreads from (i + 1) * factor on; its middle is the middle
        # of the triangle, and that of output place j is (j + 0.5) / factor - 0.5.
        start = factor + (len(side) - factor) // 2 if factor > 1 else 0
        cuts.append((start, length * factor))
    return cut(b, found, cuts)


def _triangle(factor: int) -> Any:
    size = 2 * factor - factor % 2
    middle = (size - 1) / 2
    return (1 - np.abs(np.arange(size) - middle) / factor).astype(np.float32)
