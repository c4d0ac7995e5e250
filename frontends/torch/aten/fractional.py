"""Pools whose windows stand at random places (Graham 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from isthmus.frontends.torch.aten.common import expand, per_axis, reshape
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value


def _starts(w: Lowering, sample: Value, size: Dim, kernel: int, count: int) -> Value:
    """Where the windows of each plane begin along an axis, ``[planes, count]``; `sample` is ``[planes, 1]``."""
    dtype = sample.tensor.dtype
    final = w.tensor(size - kernel, i64)
    if count == 1:
        return expand(w, w.b.reshape(final, shape=[1, 1]), [w.dims(sample)[0], 1])
    number = w.b.arange(start=0, stop=count, dtype=i64)
    step = w.b.div(w.cast(final, dtype), float(count - 1))
    shifted, first = (w.b.mul(each, step) for each in (w.b.add(sample, w.cast(number, dtype)), sample))
    found = w.b.sub(w.cast(shifted, i64), w.cast(first, i64))
    placed: Value = w.b.where(w.b.eq(number, count - 1), final, found)
    return placed


def _pool(
    w: Lowering, x: Value, kernel_size: Sequence[Dim], output_size: Sequence[Dim], samples: Value, order: Sequence[int]
) -> tuple[Value, Value]:
    """The greatest of each window, and its place in its plane; `order` says which sample is that of each axis."""
    rank, shape = len(order), w.dims(x)
    *batch, depth = shape[:-rank]
    sizes, planes = shape[-rank:], product(batch) * depth
    kernel = per_axis(w, kernel_size, rank, "a kernel size")
    counts = per_axis(w, output_size, rank, "an output size")
    samples = reshape(w, samples, [planes, rank])
    places: Value | None = None
    for axis, (size, width, count, number) in enumerate(zip(sizes, kernel, counts, order, strict=True)):
        sample = w.b.slice(samples, axes=[1], starts=[number], ends=[number + 1], steps=[1])
        starts = reshape(w, _starts(w, sample, size, width, count), [planes, *[1] * axis, count, *[1] * (2 * rank - axis - 1)])
        inner = reshape(w, w.b.arange(start=0, stop=width, dtype=i64), [width, *[1] * (rank - axis - 1)])
        along = w.b.add(starts, inner)
        places = along if places is None else w.b.add(w.b.mul(places, w.tensor(size, i64)), along)
    assert places is not None, "a pool has an axis"
    outputs, window = math.prod(counts), math.prod(kernel)
    flat = reshape(w, places, [planes, outputs * window])
    values = reshape(w, w.b.gather_elements(reshape(w, x, [planes, product(sizes)]), flat, axis=1), [planes, outputs, window])
    best = w.b.unsqueeze(w.b.argmax(values, axis=2), axes=[2])
    found = (w.b.gather_elements(each, best, axis=2) for each in (values, reshape(w, flat, [planes, outputs, window])))
    greatest, place = (reshape(w, each, [*shape[:-rank], *counts]) for each in found)
    return greatest, place


@lowers("aten.fractional_max_pool2d")
def fractional_max_pool2d(
    w: Lowering, x: Value, kernel_size: Sequence[Dim], output_size: Sequence[Dim], random_samples: Value
) -> Any:
    return _pool(w, x, kernel_size, output_size, random_samples, (1, 0))


@lowers("aten.fractional_max_pool3d")
def fractional_max_pool3d(
    w: Lowering, x: Value, kernel_size: Sequence[Dim], output_size: Sequence[Dim], random_samples: Value
) -> Any:
    return _pool(w, x, kernel_size, output_size, random_samples, (0, 1, 2))
