"""Tables of embeddings: rows held to a norm, and sums, means and maxima of rows by bag."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.frontends.torch.aten.common import full, index
from isthmus.frontends.torch.aten.indexing import bucketize
from isthmus.frontends.torch.aten.reduction import vector_norm
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import bool_, i64
from isthmus.ir.graph import Value

# ---- norms


def _held(w: Lowering, x: Value, p: Scalar, axes: list[int], most: Scalar) -> tuple[Value, Value]:
    """Which norms over axes are above what is allowed, and `x` shrunk to it there."""
    norm = vector_norm(w, x, p, axes, True)
    return w.b.gt(norm, most), w.b.mul(x, w.b.div(w.tensor(most, x.tensor.dtype), w.b.add(norm, 1e-7)))


@lowers("aten.renorm")
def renorm(w: Lowering, x: Value, p: Scalar, dim: int, maxnorm: Scalar) -> Any:
    """Slices along a dim whose norm is greater are shrunk to it."""
    axis = w.axis(x, dim)
    above, shrunk = _held(w, x, p, [other for other in range(w.rank(x)) if other != axis], maxnorm)
    return w.b.where(above, shrunk, x)


@lowers("aten.embedding_renorm")
def embedding_renorm(w: Lowering, x: Value, indices: Value, max_norm: float, norm_type: float) -> Any:
    """The rows that are about to be looked up, shrunk where their norm is greater."""
    rows = w.b.reshape(index(w, indices), shape=[product(w.dims(indices)), 1])
    count = w.dims(x)[0]
    asked = w.b.scatter_nd(full(w, [count, 1], False, bool_), rows, full(w, [w.dims(rows)[0], 1], True, bool_))
    above, shrunk = _held(w, x, norm_type, [1], max_norm)
    return w.b.where(w.b.logical_and(asked, above), shrunk, x)


# ---- bags

_SUM: Final = 0
_MEAN: Final = 1
_MAX: Final = 2


def _width(w: Lowering, offsets: Value, count: Dim) -> Dim | None:
    """How many indices each bag has, when they are all of one width; None when that does not show."""
    node = offsets.producer
    if node is None or node.op.name != "arange" or node.attrs["start"] != 0:
        return None
    width: Dim = node.attrs["step"]
    return width if w.same(w.dims(offsets)[0] * width, count) else None


@lowers("aten._embedding_bag_forward_only", "aten._embedding_bag")
def embedding_bag(
    w: Lowering, weight: Value, indices: Value, offsets: Value, scale_grad_by_freq: bool = False, mode: int = _SUM,
    sparse: bool = False, per_sample_weights: Value | None = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """Rows of a table, combined bag by bag; an empty bag is 0. What else torch returns is for gradients and left empty."""
    dtype = weight.tensor.dtype
    places = index(w, indices)
    (count,) = w.dims(places)
    bags = w.dims(offsets)[0] - int(include_last_offset)
    width = None if include_last_offset else _width(w, offsets, count)
    if width is None:
        starts = part(w, w.cast(offsets, i64), 0, 0, bags)
        numbers = w.b.arange(start=0, stop=count, dtype=i64)
        bag = w.b.unsqueeze(w.b.sub(bucketize(w, numbers, starts, right=True), 1), axes=[1])
    else:
        places = w.b.reshape(places, shape=[bags, width])
    shape = (*w.dims(places), 1)

    def combined(rows: Value, start: float, op: str) -> Value:
        """Rows, one for each index, by bag."""
        found: Value
        if width is not None:
            found = getattr(w.b, f"reduce_{op}")(rows, axes=[1])
        else:
            held = full(w, [bags, w.dims(rows)[1]], start, dtype)
            found = w.b.scatter_nd(held, bag, rows, reduction="add" if op == "sum" else "max")
        return found

    rows = w.b.gather(weight, places, axis=0)
    if per_sample_weights is not None:
        rows = w.b.mul(rows, w.b.reshape(w.cast(per_sample_weights, dtype), shape=shape))
    kept = None if padding_idx < 0 else w.b.reshape(w.b.ne(places, padding_idx), shape=shape)
    if kept is not None:
        rows = w.b.where(kept, rows, -math.inf if mode == _MAX else 0.0)
    alike = width is not None and kept is None
    op = "max" if mode == _MAX else "mean" if mode == _MEAN and alike else "sum"
    found = combined(rows, -math.inf if mode == _MAX else 0.0, op)
    if mode != _SUM and not alike:
        sizes = combined(full(w, shape, 1, dtype) if kept is None else w.cast(kept, dtype), 0.0, "sum")
        found = w.b.div(found, w.b.maximum(sizes, 1)) if mode == _MEAN else w.b.where(w.b.eq(sizes, 0), 0, found)
    return found, *[full(w, [0], 0, i64)] * 3
