"""Sorting, the greatest elements, and the distinct ones. Nan counts as greater than everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import BOOL, DIM, INT
from isthmus.ir.dims import bounds, product
from isthmus.ir.dtypes import i64
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.numerics import wide
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array


def order(x: Array, axis: int, descending: bool) -> Array:
    """The places of the elements in ascending or descending order, equal ones in the order in which they stand."""
    if not descending:
        return np.argsort(wide(x), axis=axis, kind="stable")
    # Twice reversed, so that equal elements keep their order and nan comes first.
    backwards = np.argsort(np.flip(wide(x), axis), axis=axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(backwards, axis))


@register
class TopK(Op):
    """The `k` greatest (or, without `largest`, least) elements along `axis`, and their places.

    Of equal elements the first ones are taken. With `sorted` they come in order; without, in any order.
    """

    name = "topk"
    operands = operands("x: ordered T")
    attributes = {"k": DIM, "axis": INT, "largest": BOOL(True), "sorted": BOOL(True)}
    source = "torch.topk"

    def infer(self, call: Call) -> Sequence[Type]:
        shape, k = call.shape(0), call["k"]
        axis = call.axis(call["axis"], len(shape))
        size = shape[axis]
        if isinstance(k, int) and (k < 0 or (isinstance(size, int) and k > size)):
            raise call.error("k is out of range", expected=f"0 to {size}", found=str(k))
        result = (*shape[:axis], k, *shape[axis + 1 :])
        return Tensor(call.dtype(0), result), Tensor(i64, result)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, axis = operands[0], call["axis"]
        if call["k"] > x.shape[axis]:
            raise ValueError(f"k is {call['k']}, the size only {x.shape[axis]}")
        places = np.take(order(x, axis, call["largest"]), np.arange(call["k"]), axis)
        return np.take_along_axis(x, places, axis), places.astype(np.int64)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 5)).astype(np.float32)
        yield sample(x, k=2, axis=1)
        yield sample(x, k=3, axis=-1, largest=False, note="least", larger=True)
        yield sample(np.array([1, 3, 3, 2, 1]), k=4, axis=0, note="ties-i64", larger=True)
        yield sample(np.array([1, np.nan, 3, -np.inf], np.float16), k=3, axis=0, note="nan-f16")
        yield sample(x.astype(ml_dtypes.bfloat16), k=1, axis=0, note="bf16")
        yield sample(x, k=0, axis=1, note="none")


@register
class Sort(Op):
    """The elements along `axis` in ascending or `descending` order, and the places that they stood at.

    With `stable`, equal elements keep their order; without, that is left open.
    """

    name = "sort"
    operands = operands("x: ordered T")
    attributes = {"axis": INT, "descending": BOOL(False), "stable": BOOL(True)}
    source = "torch.sort"

    def infer(self, call: Call) -> Sequence[Type]:
        call.axis(call["axis"], len(call.shape(0)))
        return call.tensor(0), Tensor(i64, call.shape(0))

    def evaluate(self, call: Call, *operands: Any) -> Any:
        places = order(operands[0], call["axis"], call["descending"])
        return np.take_along_axis(operands[0], places, call["axis"]), places.astype(np.int64)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 5)).astype(np.float32)
        yield sample(x, axis=1)
        yield sample(x, axis=0, descending=True, note="descending")
        yield sample(np.array([[1, 3, 3, 2, 1]]), axis=-1, descending=True, note="ties-i64")
        yield sample(np.array([1, np.nan, 3, -np.inf, np.nan], np.float32), axis=0, note="nan")
        yield sample(x > 0, axis=1, note="bool")
        yield sample(x[:, :0], axis=1, note="empty")


@register
class Unique(Op):
    """The distinct elements of `x`, all axes flattened, in ascending order; with `axis`, the distinct slices along it.

    Results: ``values[u]``, or `x` with `u` slices, in the order of their elements; ``inverse[n]``, i64: where each of the
    `n` elements or slices of `x` is found among the values; ``counts[u]``, i64: how often each stands there. Every nan is
    distinct.
    """

    name = "unique"
    operands = operands("x: ordered T")
    attributes = {"axis": INT.optional()}
    traits = Trait.PURE | Trait.WIDER
    source = "torch.unique; ONNX Unique-11"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        axis = None if call["axis"] is None else call.axis(call["axis"], len(shape))
        total = product(shape) if axis is None else shape[axis]
        lo, hi = bounds(total)
        count = call.fresh("u", min(lo, 1), hi)
        values = (count,) if axis is None else (*shape[:axis], count, *shape[axis + 1 :])
        return Tensor(call.dtype(0), values), Tensor(i64, (total,)), Tensor(i64, (count,))

    def evaluate(self, call: Call, *operands: Any) -> Any:
        (x,) = operands
        axis = call["axis"]
        rows = wide(x).reshape(1, -1) if axis is None else np.moveaxis(wide(x), axis, -1).reshape(-1, x.shape[axis])
        places = np.lexsort(rows[::-1]) if len(rows) else np.arange(rows.shape[1])
        rows = rows[:, places]
        first = np.ones(len(places), bool)
        first[1:] = (rows[:, 1:] != rows[:, :-1]).any(0)
        inverse = np.empty(len(places), np.int64)
        inverse[places] = np.cumsum(first) - 1
        values = np.take(x.reshape(-1) if axis is None else x, places[first], axis or 0)
        return values, inverse, np.bincount(inverse, minlength=int(first.sum())).astype(np.int64)

    def samples(self) -> Iterable[Sample]:
        yield sample(np.array([[3, 1, 3], [2, 1, 1]]))
        yield sample(np.array([np.nan, -1, np.nan], np.float32), note="f32")
        yield sample(np.array([0.5, -1, 0.5], np.float16), note="f16")
        yield sample(np.array([True, False, True]), note="bool")
        yield sample(np.zeros((0, 2), np.float32), note="empty")
        rows = np.array([[3, 1], [2, 5], [3, 1], [2, 4]])
        yield sample(rows, axis=0, note="rows")
        yield sample(rows.T.astype(np.float16), axis=-1, note="columns-f16")
        yield sample(rows.reshape(2, 2, 2) > 2, axis=1, note="planes-bool")
