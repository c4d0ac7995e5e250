"""Reductions over axes, running sums, order, and the place of the greatest and least element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isthmus.frontends.onnx import axes_by_data
from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.sizes import places, sizes
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, bounds, product, same
from isthmus.ir.graph import Value


@dataclass(frozen=True)
class Reduction:
    """What an op does.

    Attributes:
        op: the reduction; that over several axes is that over one after the other.
        before: what is done to each element first.
        after: what is done to each result.
        floats: whether integers are computed in f64 and rounded towards zero.
    """

    op: str
    before: Callable[[Conversion, Value], Any] = lambda c, x: x
    after: Callable[[Conversion, Value], Any] = lambda c, x: x
    floats: bool = False

    def __call__(self, c: Conversion, x: Value, reduce: Callable[[Value], Value]) -> Any:
        """The op, given what reduces over the axes."""
        dtype = x.tensor.dtype
        if self.floats and dtype.is_integer:
            return c.b.cast(self(c, c.b.cast(x, dtype=dtypes.f64), reduce), dtype=dtype)
        return self.after(c, reduce(self.before(c, x)))


_REDUCTIONS: Final = {
    "ReduceSum": Reduction("reduce_sum"),
    "ReduceProd": Reduction("reduce_prod"),
    "ReduceMax": Reduction("reduce_max"),
    "ReduceMin": Reduction("reduce_min"),
    "ReduceMean": Reduction("reduce_mean", floats=True),
    "ReduceL1": Reduction("reduce_sum", before=lambda c, x: c.b.abs(x)),
    "ReduceL2": Reduction("reduce_l2", floats=True),
    "ReduceSumSquare": Reduction("reduce_sum", before=lambda c, x: c.b.mul(x, x)),
    "ReduceLogSum": Reduction("reduce_sum", after=lambda c, x: c.b.log(x), floats=True),
    "ReduceLogSumExp": Reduction("logsumexp", floats=True),
}


def _over(c: Conversion, x: Value, row: Reduction, axes: Sequence[Dim], keepdims: int, noop: int = 0) -> Any:
    """A reduction over these axes, or where there are none over all, or none with `noop`."""
    rank = c.rank(x)
    named = places(c, axes, rank)
    if not named and not noop:
        named = list(range(rank))
    return row(c, x, lambda x: getattr(c.b, row.op)(x, axes=named, keepdims=bool(keepdims)))


def _with_attribute(row: Reduction) -> Callable[..., Any]:
    def convert(c: Conversion, x: Value, *, axes: tuple[int, ...] = (), keepdims: int = 1) -> Any:
        return _over(c, x, row, axes, keepdims)

    return convert


def _with_input(row: Reduction) -> Callable[..., Any]:
    def convert(
        c: Conversion, x: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0,
    ) -> Any:  # fmt: skip
        named = () if axes is None or axes_by_data.counted(c, axes) == 0 else c.numbers(axes)
        if named is not None or axes is None:
            return _over(c, x, row, named or (), keepdims, noop_with_empty_axes)

        def one(x: Value, axis: int) -> Value:
            made: Value = getattr(c.b, row.op)(x, axes=[axis], keepdims=True)
            return made

        found = row(c, x, lambda x: axes_by_data.along(c, x, axes, one))
        return found if keepdims else axes_by_data.squeeze(c, found, axes)

    return convert


for _name, _row in _REDUCTIONS.items():
    converts(_name)(_with_attribute(_row))
    converts(_name, since=13 if _name == "ReduceSum" else 18)(_with_input(_row))


@converts("ArgMax", "ArgMin")
def arg_extreme(c: Conversion, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    """The place of the greatest or least element, the first or the last of several."""
    b = c.b
    find = b.argmax if c.proto.op_type == "ArgMax" else b.argmin
    axis = c.axis(axis, c.rank(x))
    if not select_last_index:
        return find(x, axis=axis, keepdims=bool(keepdims))
    behind = find(b.flip(x, axes=[axis]), axis=axis, keepdims=bool(keepdims))
    return b.sub(b.size(c.shape(x)[axis] - 1), behind)


@converts("TopK", since=10)
def top_k(c: Conversion, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """The greatest or least elements along an axis, and their places."""
    (count,) = sizes(c, k, "elements", lo=0)
    axis = c.axis(axis, c.rank(x))
    if sorted and same(count, c.shape(x)[axis]) is True:
        return c.b.sort(x, axis=axis, descending=bool(largest))
    return c.b.topk(x, k=count, axis=axis, largest=bool(largest), sorted=bool(sorted))


@converts("TopK")
def top_k_old(c: Conversion, x: Value, *, k: int, axis: int = -1) -> Any:
    """How many is an attribute."""
    return c.b.topk(x, k=k, axis=c.axis(axis, c.rank(x)))


@converts("CumSum", "CumProd")
def cumulative(c: Conversion, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """The running sum or product along an axis."""
    run = c.b.cumsum if c.proto.op_type == "CumSum" else c.b.cumprod

    def along(x: Value, at: int) -> Value:
        made: Value = run(x, axis=at, exclusive=bool(exclusive), reverse=bool(reverse))
        return made

    named = c.numbers(axis)
    if named is None:
        return axes_by_data.accumulate(c, x, axis, along)
    (at,) = places(c, named, c.rank(x))
    return along(x, at)


# ---- softmax and its kin

_KIN: Final[dict[str, Callable[[Conversion, Value, int], Any]]] = {
    "Softmax": lambda c, x, axis: c.b.softmax(x, axis=axis),
    "LogSoftmax": lambda c, x, axis: c.b.log_softmax(x, axis=axis),
    "Hardmax": lambda c, x, axis: _hardmax(c, x, axis),
}


def _hardmax(c: Conversion, x: Value, axis: int) -> Any:
    """1 at the first of the greatest; nothing where there is none, for which a least one stands at the end."""
    size, before = c.shape(x)[axis], [0] * c.rank(x)
    if size.__class__ is int and size == 0:
        return x
    found = x
    if bounds(size)[0] < 1:
        after = [int(place == axis) for place in range(c.rank(x))]
        found = c.b.pad(x, c.b.constant(-math.inf, x.tensor.dtype), before=before, after=after)
    return c.b.one_hot(c.b.argmax(found, axis=axis), depth=size, axis=axis, dtype=x.tensor.dtype)


@converts(*_KIN, since=13)
def softmax(c: Conversion, x: Value, *, axis: int = -1) -> Any:
    """Along one axis."""
    return _KIN[c.proto.op_type](c, x, c.axis(axis, c.rank(x)))


@converts(*_KIN)
def softmax_old(c: Conversion, x: Value, *, axis: int = 1) -> Any:
    """Over all axes from one on, taken as one."""
    dims = c.shape(x)
    if not -len(dims) <= axis <= len(dims):
        raise c.malformed(f"axis {axis} is not within the rank {len(dims)}")
    at = axis + len(dims) if axis < 0 else axis
    if at == len(dims) - 1:
        return softmax(c, x, axis=at)
    rows = c.b.reshape(x, shape=[product(dims[:at]), product(dims[at:])])
    return c.b.reshape(_KIN[c.proto.op_type](c, rows, 1), shape=dims)
