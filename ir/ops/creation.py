"""Tensors made from sizes and from numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.attributes import DIM, DTYPE, INT
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, ceildiv, maximum
from isthmus.ir.errors import EvaluationError
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, sample
from isthmus.ir.ops.numerics import MAX_FOLLOWED, Elements, held
from isthmus.ir.shape_values import elements
from isthmus.ir.types import Tensor, Type


def _count(call: Call, start: Dim, stop: Dim, step: Dim) -> Dim:
    if step.__class__ is int and step == 0:
        raise call.error("the step is 0")
    return maximum(0, ceildiv(stop - start, step))


@register
class Arange(Op):
    """``start, start + step, ...`` up to, not including, `stop`: all integers, so that the length is a dim."""

    name = "arange"
    attributes = {"start": DIM(0), "stop": DIM, "step": DIM(1), "dtype": DTYPE(dtypes.i64)}
    source = "numpy.arange"

    def infer(self, call: Call) -> Sequence[Type]:
        if call["dtype"] not in dtypes.REAL:
            raise call.error("the dtype must be of a number", found=str(call["dtype"]))
        return (Tensor(call["dtype"], (_count(call, call["start"], call["stop"], call["step"]),)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.arange(call["start"], call["stop"], call["step"]).astype(call["dtype"].numpy)

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        count = _count(call, call["start"], call["stop"], call["step"])
        if not isinstance(count, int) or count > MAX_FOLLOWED or not call["dtype"].is_integer:
            return None
        return held(call["dtype"], (tuple(call["start"] + index * call["step"] for index in range(count)),))

    def samples(self) -> Iterable[Sample]:
        yield sample(stop=5)
        yield sample(start=2, stop=11, step=3, dtype=dtypes.i32, note="step-i32")
        yield sample(start=5, stop=-2, step=-2, dtype=dtypes.f32, note="down-f32")
        yield sample(start=5, stop=2, note="empty")
        yield sample(stop=3, dtype=dtypes.bf16, note="bf16")


MOST: Final = 1 << 28
"""No range that data asks for is longer."""


@register
class Range(Op):
    """``start, start + delta, ...`` up to, not including, `limit`, which are data.

    There are ``max(0, ceil((limit - start) / delta))`` elements, and each is ``start + index * delta``. The length is a new
    symbol, or what is known of it.
    """

    name = "range"
    operands = operands("start: real T, limit: real T, delta: real T")
    traits = Trait.PURE | Trait.WIDER
    source = "ONNX Range-11"

    def infer(self, call: Call) -> Sequence[Type]:
        if any(call.shape(index) != () for index in range(3)):
            raise call.error("expects scalars")
        known = [elements(value) for value in call.values]
        if known and None not in known:
            (start,), (limit,), (delta,) = known  # type: ignore[misc]
            if (isinstance(delta, int) and delta) or bounds(delta)[0] > 0:
                return (Tensor(call.dtype(0), (_count(call, start, limit, delta),)),)
        return (Tensor(call.dtype(0), (call.fresh(),)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        start, limit, delta = (operand.item() for operand in operands)
        if isinstance(start, int):
            count = len(range(start, limit, delta))
        else:
            start, limit, delta = float(start), float(limit), float(delta)
            count = max(0, math.ceil((limit - start) / delta))
        if count > MOST:
            raise EvaluationError(f"a range of {count} numbers is too long", expected=f"up to {MOST}")
        return (start + np.arange(count) * delta).astype(operands[0].dtype)

    def samples(self) -> Iterable[Sample]:
        yield sample(np.int64(1), np.int64(8), np.int64(3))
        yield sample(np.float32(1), np.float32(0), np.float32(-0.25), note="down-f32")
        yield sample(np.float16(0), np.float16(1), np.float16(0.5), note="f16")
        yield sample(np.int64(3), np.int64(3), np.int64(1), note="empty")


@register
class OneHot(Op):
    """An axis of size `depth` put in at `axis` of the result: 1 where its index is that in `indices`, else 0.

    An index out of ``0 <= index < depth`` gives zeros alone.
    """

    name = "one_hot"
    operands = operands("indices: int T")
    attributes = {"depth": DIM, "axis": INT(-1), "dtype": DTYPE(dtypes.i64)}
    traits = Trait.PURE | Trait.COARSE
    source = "torch.nn.functional.one_hot; ONNX OneHot-11 but for negative indices"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        axis = call.axis(call["axis"], len(shape) + 1)
        if call["dtype"].kind == "string":
            raise call.error("the dtype must be of a number or bool")
        return (Tensor(call["dtype"], (*shape[:axis], call["depth"], *shape[axis:])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        (indices,) = operands
        axis = call["axis"] % (indices.ndim + 1)
        numbers = np.arange(call["depth"]).reshape((-1,) + (1,) * (indices.ndim - axis))
        return (np.expand_dims(indices.astype(np.int64), axis) == numbers).astype(call["dtype"].numpy)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        rank = len(call.shape(0))
        axis = call["axis"] % (rank + 1)
        indices = b.unsqueeze(operands[0], axes=[axis])
        numbers = b.arange(stop=call["depth"], dtype=call.dtype(0))
        if axis < rank:
            numbers = b.unsqueeze(numbers, axes=list(range(1, rank + 1 - axis)))
        found = b.eq(indices, numbers)
        return found if call["dtype"] is dtypes.bool_ else b.cast(found, dtype=call["dtype"])

    def samples(self) -> Iterable[Sample]:
        yield sample(np.array([[0, 2], [1, 3]]), depth=3)
        yield sample(np.array([[0, 2], [1, -1]], np.int32), depth=4, axis=0, dtype=dtypes.f32, note="front-f32")
        yield sample(np.array([[0, 2]]), depth=3, axis=1, dtype=dtypes.bool_, note="middle-bool")
        yield sample(np.int64(1), depth=2, note="scalar")
        yield sample(np.zeros((0, 2), np.int64), depth=2, note="empty")
