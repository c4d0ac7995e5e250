"""What several families of lowerings need: numbers out of arguments, tensors of one number, moved axes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from isthmus.frontends.torch.lowering import Lowering, Scalar, dtype_of
from isthmus.ir.dims import Dim, Expr
from isthmus.ir.dtypes import DType, bool_, i32, i64
from isthmus.ir.graph import Value

Number: TypeAlias = "Value | Scalar"


def integer(w: Lowering, x: Dim, what: str) -> int:
    """A dim that must be a plain integer.

    Raises:
        Refusal: it is an expression.
    """
    if isinstance(x, Expr):
        w.unsupported(f"{what} must be a number, not the size {x}", "make it a constant of the model")
    return int(x)


def per_axis(w: Lowering, x: Dim | Sequence[Dim], count: int, what: str) -> list[int]:
    """One integer for each of `count` axes, where torch also takes one for all."""
    found = [integer(w, each, what) for each in (x if isinstance(x, (list, tuple)) else (x,))]
    return found * count if len(found) == 1 else found


def default_float() -> DType:
    """The element type that torch gives new floats."""
    return dtype_of(torch.get_default_dtype())


def full(w: Lowering, shape: Iterable[Dim], value: Number, dtype: DType) -> Value:
    """A tensor of one number, kept as the expansion of a scalar."""
    scalar, shape = w.tensor(value, dtype), tuple(shape)
    return expand(w, scalar, shape)


def expand(w: Lowering, x: Value, shape: Sequence[Dim]) -> Value:
    """The value broadcast to a shape; the value itself when it has it."""
    if w.dims(x) == tuple(shape):
        return x
    expanded: Value = w.b.expand(x, shape=shape)
    return expanded


def reshape(w: Lowering, x: Value, shape: Sequence[Dim]) -> Value:
    """The value under another shape; the value itself when it has it."""
    if w.dims(x) == tuple(shape):
        return x
    reshaped: Value = w.b.reshape(x, shape=shape)
    return reshaped


def permute(w: Lowering, x: Value, order: Sequence[int]) -> Value:
    """The value with axes in another order; the value itself where that is the present one."""
    if list(order) == list(range(len(order))):
        return x
    permuted: Value = w.b.permute(x, perm=order)
    return permuted


def moved(rank: int, sources: Sequence[int], destinations: Sequence[int]) -> list[int]:
    """The order of axes that brings `sources` to `destinations` and keeps the others in order."""
    order = [axis for axis in range(rank) if axis not in sources]
    for destination, source in sorted(zip(destinations, sources, strict=True)):
        order.insert(destination, source)
    return order


def inverse(order: Sequence[int]) -> list[int]:
    """The order of axes that undoes `order`."""
    found = [0] * len(order)
    for position, axis in enumerate(order):
        found[axis] = position
    return found


def index(w: Lowering, x: Value) -> Value:
    """The value as what the IR takes for an index: i32 and i64 as they are, other integers as i64."""
    return x if x.tensor.dtype in (i32, i64) else w.cast(x, i64)


def places_of(w: Lowering, x: Value) -> Value:
    """The places of the elements that are not zero, ``i64[count, rank]``: a constant where the elements are known.

    Those of one value are found once, so that what a mask takes of two tensors is known to be equally long; so are those of
    masks that are written alike, as in ``y[~mask] = x[~mask]``.
    """
    formula = _formula(w, x)
    found = w.places.get(formula)
    if found is None or found.owner is not w.b.graph:
        known = w.known(x)
        found = w.places[formula] = w.b.nonzero(x) if known is None else w.b.constant(np.argwhere(known).astype(np.int64))
    return found


def _formula(w: Lowering, x: Value, depth: int = 4) -> Hashable:
    """How a value is computed, the same for two that are computed alike from the same values."""
    node = x.producer
    if node is None or not depth or not node.op.is_function or node.regions:
        return x
    if node.op.is_constant:
        known = None if w.rank(x) else w.known(x)
        return x if known is None else (x.tensor.dtype, known.item())
    attrs = tuple(f"{name}={value}" for name, value in node.attrs.items())
    operands = (each if each is None else _formula(w, each, depth - 1) for each in node.operands)
    return node.op.name, x.index, attrs, *operands


def truth(w: Lowering, x: Number) -> Value:
    """The value as bool: whether it is not zero."""
    return w.tensor(x, bool_)


def broadcast(w: Lowering, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape that shapes broadcast to; unknown sizes are asked about only where the answer is needed."""
    rank = max(map(len, shapes))
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            if result[axis] == 1:
                result[axis] = dim
            elif dim != 1 and not w.same(result[axis], dim) and not w.decide("==", result[axis], dim):
                if w.decide("==", result[axis], 1):
                    result[axis] = dim
                else:
                    w.decide("==", dim, 1)
    return tuple(result)


def listed(x: Any) -> list[Any]:
    """A list argument that may be a single element."""
    return list(x) if isinstance(x, (list, tuple)) else [x]
