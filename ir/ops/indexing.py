"""Reading at and writing to places that are data. Negative indices count from the end; others out of range are an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import INT, choice
from isthmus.ir.dims import Dim, bounds, product
from isthmus.ir.dtypes import i64
from isthmus.ir.op import Call, Op, Sample, is_symbolic, operands, register, rng, sample
from isthmus.ir.ops.numerics import FOLLOWED, MAX_FOLLOWED, Elements, follow, wide
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

if TYPE_CHECKING:
    from isthmus.ir.graph import Value


def _x(*shape: int) -> Array:
    return rng().standard_normal(shape).astype(np.float32)


@register
class Gather(Op):
    """The parts of `x` along `axis` that `indices` name; the axes of `indices` take the place of that axis."""

    name = "gather"
    operands = operands("x: any T, indices: index")
    attributes = {"axis": INT(0)}
    source = "numpy.take"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        axis = call.axis(call["axis"], len(shape))
        return (Tensor(x.dtype, shape[:axis] + call.shape(1) + shape[axis + 1 :]),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, indices = operands
        return np.take(x, indices, call["axis"])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        known, places = operands
        if known is None or places is None or any(place.__class__ is not int for place in places):
            return None
        if len(call.shape(0)) == 1 and call.dtype(0) in FOLLOWED:
            inside = len(places) <= MAX_FOLLOWED and all(-len(known) <= place < len(known) for place in places)  # type: ignore[operator]
            return (tuple(known[place] for place in places) if inside else None,)  # type: ignore[index]
        return follow(call, lambda x, indices: np.take(x, indices.astype(np.int64), call["axis"]), operands)

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(4, 3), np.array([[0, 2], [3, 0]]))
        yield sample(_x(4, 3), np.array([-1, 0, -3], np.int32), axis=1, note="negative-i32")
        yield sample(_x(4, 3), np.int64(-2), axis=-1, note="scalar")
        yield sample(np.arange(4), np.array([[2, -1], [0, 2]]), note="i64")
        yield sample(np.arange(4), np.zeros((0,), np.int64), note="none")
        yield sample(_x(2, 2).astype(ml_dtypes.bfloat16), np.array([1]), note="bf16")
        yield sample(_x(2, 2) > 0, np.array([1, 1]), note="bool")
        yield sample(np.array(["a", "b"], object), np.array([1, 0]), note="str")


def _along(indices: Array, axis: int) -> tuple[Array, ...]:
    """Indices for numpy that walk with `indices`, along `axis` to the places that it names."""
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices
    return tuple(grid)


def _check_elements(call: Call) -> int:
    shape, indices = call.shape(0), call.shape(1)
    axis = call.axis(call["axis"], len(shape))
    if len(indices) != len(shape):
        raise call.error("the indices have another rank")
    for place, (size, dim) in enumerate(zip(shape, indices, strict=True)):
        if place != axis and dim.__class__ is int and size.__class__ is int and dim > size:
            raise call.error(f"the indices reach out of axis {place}")
    return axis


@register
class GatherElements(Op):
    """``x[i][indices[i][j][k]][k]`` (for `axis` 1): one element for each index. Other axes of `indices` may be shorter."""

    name = "gather_elements"
    operands = operands("x: any T, indices: index")
    attributes = {"axis": INT}
    source = "torch.gather; ONNX GatherElements-13"

    def infer(self, call: Call) -> Sequence[Type]:
        _check_elements(call)
        return (Tensor(call.dtype(0), call.shape(1)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, indices = operands
        return x[_along(indices, call["axis"])]

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(3, 4), np.array([[0, 2, 1, 0], [2, 2, 0, 1]]), axis=0)
        yield sample(_x(3, 4), np.array([[-1, 0], [3, -4]], np.int32), axis=-1, note="negative-i32")
        yield sample(np.arange(4), np.array([3, 3]), axis=0, note="i64")
        yield sample(_x(3, 4), np.zeros((0, 4), np.int64), axis=0, note="empty")


@register
class GatherND(Op):
    """The parts of `x` at the places in the last axis of `indices`, each of which names one index an axis from the front.

    The first `batch_dims` axes of both walk together.
    """

    name = "gather_nd"
    operands = operands("x: any T, indices: index")
    attributes = {"batch_dims": INT(0)}
    source = "ONNX GatherND-13"

    def infer(self, call: Call) -> Sequence[Type]:
        x, indices, batch = call.shape(0), call.shape(1), call["batch_dims"]
        if not 0 <= batch < len(indices):
            raise call.error(f"batch_dims {batch} is out of range")
        depth = _depth(call, indices, len(x) - batch)
        for left, right in zip(x[:batch], indices[:batch], strict=True):
            call.unify(left, right, "batch sizes")
        return (Tensor(call.dtype(0), indices[:-1] + x[batch + depth :]),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, indices = operands
        batch = call["batch_dims"]
        lead = np.indices(indices.shape[:batch], sparse=True)
        spread = (1,) * (indices.ndim - 1 - batch)
        return x[(*(each.reshape(each.shape + spread) for each in lead), *np.moveaxis(indices, -1, 0))]

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 3, 4), np.array([[0, 1], [1, -1]]), symbolic=("x",))
        yield sample(_x(2, 3, 4), np.array([[0, 1, 2], [1, 2, 3]], np.int32), note="elements-i32", symbolic=("x",))
        yield sample(_x(2, 3, 4), np.array([[[0], [2]], [[1], [1]]]), batch_dims=1, note="batch", symbolic=("x",))
        yield sample(_x(2, 3, 4), np.array([[1, 2], [2, 0]]), batch_dims=1, note="batch-flat", symbolic=("x",))
        yield sample(np.arange(4), np.zeros((0, 1), np.int64), note="none-i64", symbolic=("x",))


def _depth(call: Call, indices: tuple[Dim, ...], most: int) -> int:
    if not indices:
        raise call.error("the indices have no axis of places")
    depth = indices[-1]
    if not isinstance(depth, int):
        raise call.unknown("the last size of the indices, which says how many axes each names, is not known")
    if not 0 <= depth <= most:
        raise call.error(f"the indices name {depth} axes, {most} are left")
    return depth


_REDUCTION: Final = choice("none", "add", "mul", "min", "max")("none")
_WRITE: Final[dict[str, Callable[..., None]]] = {
    "none": lambda x, index, updates: x.__setitem__(index, updates),
    "add": np.add.at,
    "mul": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


def _scatter(x: Array, index: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    result = np.array(wide(x))
    _WRITE[reduction](result, index, wide(updates))
    return result.astype(x.dtype, copy=False)


@register
class ScatterElements(Op):
    """`x` with ``updates[i][j][k]`` written to ``[i][indices[i][j][k]][k]`` (for `axis` 1).

    With a `reduction` it is combined with what is there. Without, of several writes to one place the last in row-major order
    stays; targets may leave that open.
    """

    name = "scatter_elements"
    operands = operands("x: any T, indices: index, updates: any T")
    attributes = {"axis": INT, "reduction": _REDUCTION}
    source = "ONNX ScatterElements-18; torch.scatter"

    def infer(self, call: Call) -> Sequence[Type]:
        _check_elements(call)
        indices, updates = call.shape(1), call.shape(2)
        if len(updates) != len(indices):
            raise call.error("the updates have another rank than the indices")
        for left, right in zip(indices, updates, strict=True):
            call.unify(left, right, "sizes of indices and updates")
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, indices, updates = operands
        return _scatter(x, _along(indices, call["axis"]), updates, call["reduction"])

    def samples(self) -> Iterable[Sample]:
        x = _x(3, 4)
        places = np.array([[0, -1], [3, 1]])
        yield sample(x, places, _x(2, 2), axis=1)
        duplicates = np.array([[0, 2, 1, 0], [2, 2, 0, 0]], np.int32)
        yield sample(x, duplicates, _x(2, 4), axis=0, reduction="add", note="add-duplicates")
        for reduction in ("mul", "min", "max"):
            yield sample(x, np.array([[1, 1], [0, 0]]), _x(2, 2), axis=-1, reduction=reduction, note=reduction)
        yield sample(np.arange(4), np.array([0, 0]), np.array([7, 8]), axis=0, note="last-i64")
        yield sample(x.astype(np.float16), places, _x(2, 2).astype(np.float16), axis=1, reduction="add", note="add-f16")
        yield sample(x.astype(ml_dtypes.bfloat16), places, _x(2, 2).astype(ml_dtypes.bfloat16), axis=1, note="bf16")
        yield sample(x, np.zeros((0, 4), np.int64), x[:0], axis=0, note="empty")


@register
class ScatterND(Op):
    """`x` with parts of `updates` written to the places in the last axis of `indices`.

    Each place names one index an axis of `x` from the front. Duplicates and `reduction` as in `scatter_elements`.
    """

    name = "scatter_nd"
    operands = operands("x: any T, indices: index, updates: any T")
    attributes = {"reduction": _REDUCTION}
    source = "ONNX ScatterND-18"

    def infer(self, call: Call) -> Sequence[Type]:
        x, indices, updates = call.shape(0), call.shape(1), call.shape(2)
        if is_symbolic(indices[-1:]):  # the ranks tell
            call.unify(indices[-1], len(x) + len(indices) - 1 - len(updates), "the last size of the indices and the ranks")
            indices = (*indices[:-1], len(x) + len(indices) - 1 - len(updates))
        depth = _depth(call, indices, len(x))
        wanted = indices[:-1] + x[depth:]
        if len(wanted) != len(updates):
            raise call.error("the updates have the wrong rank", expected=str(list(wanted)), found=str(list(updates)))
        for left, right in zip(wanted, updates, strict=True):
            call.unify(left, right, "sizes of the places and the updates")
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, indices, updates = operands
        return _scatter(x, tuple(np.moveaxis(indices, -1, 0)), updates, call["reduction"])

    def samples(self) -> Iterable[Sample]:
        x = _x(3, 4)
        yield sample(x, np.array([[0], [-1]]), _x(2, 4), symbolic=("x", "updates"))
        duplicates = np.array([[0, 1], [2, 3], [0, 1]], np.int32)
        yield sample(x, duplicates, _x(3), reduction="add", note="add-duplicates", symbolic=("x", "updates"))
        for reduction in ("mul", "min", "max"):
            twice = np.array([[1], [1]])
            yield sample(x, twice, _x(2, 4), reduction=reduction, note=reduction, symbolic=("x", "updates"))
        yield sample(np.arange(4), np.array([[0], [0]]), np.array([7, 8]), note="last-i64", symbolic=("x", "updates"))
        yield sample(x, np.zeros((0, 1), np.int64), x[:0], note="empty", symbolic=("x", "updates"))


def _is_set(value: Value | None) -> bool:
    """Whether no element is zero, as of a number that is repeated."""
    node = value.producer if value is not None else None
    value = node.operands[0] if node is not None and node.op.name == "expand" else value
    weight = value.weight if value is not None else None
    return weight is not None and 0 < weight.nbytes <= _LOOKED_INTO and bool(wide(weight.array()).all())


_LOOKED_INTO: Final = 1 << 16


@register
class NonZero(Op):
    """The places of the elements that are not zero (or false), in row-major order: ``i64[u, rank]``.

    There are as many as elements where those are known not to be zero.
    """

    name = "nonzero"
    operands = operands("x: number")
    source = "numpy.argwhere; torch.nonzero"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        every = product(shape)
        known = bool(call.values) and _is_set(call.values[0])
        return (Tensor(i64, (every if known else call.fresh("u", 0, bounds(every)[1]), len(shape))),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.argwhere(wide(operands[0])).astype(np.int64)

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 3) > 0)
        yield sample(np.array([0.0, 1.5, np.nan], np.float32), note="f32")
        yield sample(np.int64(3), note="scalar")
        yield sample(np.zeros((2, 0), np.int64), note="empty")
        yield sample(_x(2, 2).astype(ml_dtypes.bfloat16), note="bf16")
