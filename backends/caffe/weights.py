"""Weights made from other weights while they are written: reshaped, repeated, padded with zeros; and fixed ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from isthmus.ir.dtypes import f32
from isthmus.ir.weights import ArrayWeight, LazyWeight, Weight

_COPIES = 1 << 10
"""Results of up to so many elements are computed at once."""


def derived(shape: Sequence[int], compute: Callable[..., Any], sources: Sequence[Weight], signature: Hashable) -> Weight:
    """A weight of this shape that is computed from others, now where it is small, else while it is written."""
    name = sources[0].name if sources else ""
    made = LazyWeight(f32, shape, compute, sources, ("caffe", signature, tuple(shape)), name=name)
    return ArrayWeight(np.ascontiguousarray(made.array()).reshape(shape), name) if made.size <= _COPIES else made


def full(shape: Sequence[int], number: float) -> Weight:
    """The same number all over."""
    return derived(shape, lambda: np.full(tuple(shape), number, np.float32), (), ("full", number))


def viewed(weight: Weight, shape: Sequence[int]) -> Weight:
    """The same elements under another shape."""
    shape = tuple(shape)
    return weight if weight.shape == shape else derived(shape, lambda x: x.reshape(shape), [weight], "view")


def spread(weight: Weight, shape: Sequence[int]) -> Weight:
    """A vector, of whatever shape, as one of this size; or one element repeated."""
    shape = tuple(shape)
    if weight.shape == shape:
        return weight
    return derived(shape, lambda x: np.broadcast_to(x.reshape(-1), shape), [weight], "spread")


def broadcast(weight: Weight, shape: Sequence[int]) -> Weight:
    """The weight as numpy broadcasts it."""
    shape = tuple(shape)
    return weight if weight.shape == shape else derived(shape, lambda x: np.broadcast_to(x, shape), [weight], "broadcast")


def transposed(weight: Weight) -> Weight:
    """A matrix with rows and columns swapped."""
    return derived(weight.shape[::-1], lambda x: x.T, [weight], "transposed")
