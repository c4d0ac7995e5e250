"""Reductions of segments: of runs of elements along an axis, each as long as a tensor says."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value

_KINDS: Final = {
    "sum": ("reduce_sum", "add", 0.0), "mean": ("reduce_sum", "add", 0.0), "prod": ("reduce_prod", "mul", 1.0),
    "max": ("reduce_max", "maximum", -math.inf), "min": ("reduce_min", "minimum", math.inf),
}  # fmt: skip
"""By torch's name: how many elements are reduced, how two are, and what changes nothing."""


@lowers("aten.segment_reduce")
def segment_reduce(
    w: Lowering, data: Value, reduce: str, lengths: Value | None = None, indices: Value | None = None,
    offsets: Value | None = None, axis: int = 0, unsafe: bool = False, initial: Scalar | None = None,
) -> Any:  # fmt: skip
    """Each segment is all of the axis, with what is outside of it left out; the mean of none is nan, or `initial`."""
    if indices is not None:
        w.unsupported("segments are given by their lengths or offsets")
    many, two, neutral = _KINDS[reduce]
    if offsets is not None:
        places, last = w.cast(offsets, i64), w.rank(offsets) - 1
        count = w.dims(places)[last] - 1
        starts, ends = part(w, places, last, 0, count), part(w, places, last, 1, count + 1)
    else:
        assert lengths is not None, "one of them is given"
        size, last = w.cast(lengths, i64), w.rank(lengths) - 1
        ends = w.b.cumsum(size, axis=last)
        starts = w.b.sub(ends, size)
        if not unsafe:
            whole = w.b.eq(w.b.reduce_sum(size, axes=[last]), w.tensor(w.dims(data)[axis], i64))
            w.b.check(whole, message="segment_reduce: the lengths do not add up to the size of the axis")
    dtype, rank = data.tensor.dtype, w.rank(data)
    place = w.b.arange(start=0, stop=w.dims(data)[axis], dtype=i64)
    first, behind = (w.b.unsqueeze(each, axes=[axis + 1]) for each in (starts, ends))
    inside = w.b.logical_and(w.b.ge(place, first), w.b.lt(place, behind))
    inside = w.b.unsqueeze(inside, axes=list(range(axis + 2, rank + 1))) if rank > axis + 1 else inside
    parts = w.b.where(inside, w.b.unsqueeze(data, axes=[axis]), w.tensor(neutral, dtype))
    found = getattr(w.b, many)(parts, axes=[axis + 1])
    if initial is not None:
        found = getattr(w.b, two)(found, w.tensor(initial, dtype))
    if reduce != "mean":
        return found
    counts = w.cast(w.b.sub(ends, starts), dtype)
    counts = w.b.unsqueeze(counts, axes=list(range(axis + 1, rank))) if rank > axis + 1 else counts
    return w.b.div(found, counts if initial is None else w.b.maximum(counts, 1.0))
