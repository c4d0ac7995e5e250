"""Emitters of reductions, searches, and ops that read or write at places given by data."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.backends import formulas
from isthmus.backends.onnx.early_turns import running
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, minimum, product
from isthmus.ir.graph import Node, Value

# ---- reductions

_REDUCTIONS: Final = {
    "reduce_sum": "ReduceSum", "reduce_prod": "ReduceProd", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin",
    "reduce_mean": "ReduceMean", "logsumexp": "ReduceLogSumExp", "reduce_l2": "ReduceL2",
}  # fmt: skip


@emits(*_REDUCTIONS)
def _reduce(e: Emitter, node: Node, x: str) -> Any:
    axes, keep = node.attrs["axes"], int(node.attrs["keepdims"])
    if not axes:
        return e.op("Abs", x) if node.op.name == "reduce_l2" else x
    if node.op.name == "reduce_mean" and _may_be_empty(node):
        refuse("onnxruntime gives 0 for the mean of nothing")
    if node.op.name in ("reduce_max", "reduce_min") and e.dtype(x) is dtypes.bool_ and _may_be_empty(node):
        refuse("onnxruntime has no greatest and least of no bools")
    return e.op(_REDUCTIONS[node.op.name], x, e.ints(axes), keepdims=keep)


def _may_be_empty(node: Node) -> bool:
    return any(bounds(shape_of(node)[axis])[0] < 1 for axis in node.attrs["axes"])


@lowers("reduce_mean")
def _mean_of_perhaps_nothing(b: Builder, node: Node, x: Value) -> Any:
    """A quotient, which of nothing is 0 / 0 and so nan."""
    if not _may_be_empty(node):
        return None
    count = product([shape_of(node)[axis] for axis in node.attrs["axes"]])
    return b.div(b.reduce_sum(x, **node.attrs), b.cast(b.size(count), dtype=x.tensor.dtype))


@lowers("reduce_max", "reduce_min")
def _extreme_of_perhaps_nothing(b: Builder, node: Node, x: Value) -> Any:
    """In a wider type, where that of nothing is beyond what the element type holds."""
    dtype = x.tensor.dtype
    if not _may_be_empty(node) or not (dtype is dtypes.bool_ or dtype is dtypes.i16):
        return None
    if dtype is dtypes.bool_:
        return b.cast(getattr(b, node.op.name)(b.cast(x, dtype=dtypes.u8), **node.attrs), dtype=dtype)
    found = getattr(b, node.op.name)(b.cast(x, dtype=dtypes.i32), **node.attrs)
    return b.cast(b.clip(found, -(1 << 15), (1 << 15) - 1), dtype=dtype)


@lowers("reduce_any", "reduce_all")
def _reduce_logic(b: Builder, node: Node, x: Value) -> Any:
    """Over numbers: any is the greatest, all the least. The greatest of nothing is below zero."""
    reduce = b.reduce_max if node.op.name == "reduce_any" else b.reduce_min
    return b.gt(reduce(b.cast(x, dtype=dtypes.i32), **node.attrs), 0)


@emits("argmax", "argmin")
def _arg(e: Emitter, node: Node, x: str) -> Any:
    name = "ArgMax" if node.op.name == "argmax" else "ArgMin"
    return e.op(name, x, axis=node.attrs["axis"], keepdims=int(node.attrs["keepdims"]))


@emits("cumsum")
def _cumsum(e: Emitter, node: Node, x: str) -> Any:
    return _cumulative(e, node, "CumSum", x)


@emits("cumprod")
def _no_cumprod(e: Emitter, node: Node, x: str) -> Any:
    return refuse("ONNX has CumProd from opset 26 on")


@emits("cumprod", since=26)
def _cumprod(e: Emitter, node: Node, x: str) -> Any:
    return _cumulative(e, node, "CumProd", x)


def _cumulative(e: Emitter, node: Node, op_type: str, x: str) -> Any:
    attrs = node.attrs
    axis = e.constant(attrs["axis"], dtypes.i64)
    return e.op(op_type, x, axis, exclusive=int(attrs["exclusive"]) or None, reverse=int(attrs["reverse"]) or None)


@lowers("cumprod")
def _cumprod_by_steps(b: Builder, node: Node, x: Value) -> Any:
    size = shape_of(node)[node.attrs["axis"]]
    if not isinstance(size, int):
        return running(b, node, x)
    return formulas.cumprod(b, node, x) if size else b.identity(x)


# ---- order


@emits("topk")
def _topk(e: Emitter, node: Node, x: str) -> Any:
    attrs = node.attrs
    if e.opset < 10 and attrs["k"] == 0:
        refuse("the first none needs opset 10")
    return _top(e, x, e.sizes.vector([attrs["k"]]), attrs["axis"], attrs["largest"])


@emits("sort")
def _sort(e: Emitter, node: Node, x: str) -> Any:
    # TopK breaks ties by the lower index either way, which makes it a stable sort.
    attrs = node.attrs
    if not shape_of(node):
        refuse("a scalar has no axis to sort along")
    if e.opset < 10 and shape_of(node)[attrs["axis"]] == 0:
        refuse("sorting nothing needs opset 10")
    return _top(e, x, e.sizes.vector([shape_of(node)[attrs["axis"]]]), attrs["axis"], attrs["descending"])


def _top(e: Emitter, x: str, k: str, axis: int, largest: bool) -> Any:
    return e.op("TopK", x, k, results=2, axis=axis, largest=None if largest else 0)


@lowers("topk", "sort")
def _order_of_unsigned(b: Builder, node: Node, x: Value) -> Any:
    """onnxruntime orders no u64: moved to both sides of 0, it is i64."""
    if x.tensor.dtype is not dtypes.u64:
        return None
    half = b.constant(np.uint64(1 << 63))
    values, places = getattr(b, node.op.name)(b.cast(b.add(x, half), dtype=dtypes.i64), **node.attrs)
    return b.add(b.cast(values, dtype=dtypes.u64), half), places


@emits("unique")
def _unique(e: Emitter, node: Node, x: str) -> Any:
    axis = node.attrs["axis"]
    if axis is None and node.results[0].tensor.dtype.is_float:
        refuse("onnxruntime takes nan for equal to any number")
    values, _, inverse, counts = e.op("Unique", x, results=4, axis=axis)
    shape = node.results[1].tensor.shape
    if shape is None or len(shape) != 1:
        inverse = e.op("Reshape", inverse, e.op("Shape", x))
    return values, inverse, counts


@lowers("unique")
def _unique_of_floats(b: Builder, node: Node, x: Value) -> Any:
    return _unique_by_order(b, node, x) if x.tensor.dtype.is_float else None


@lowers("unique", below=11)
def _unique_by_order(b: Builder, node: Node, x: Value) -> Any:
    """Sorted, each run of equals is one value; no nan equals another."""
    dtype = x.tensor.dtype
    if node.attrs["axis"] is not None or dtype.kind == "string":
        return None
    size = product(shape_of(node))
    ordered, places = b.sort(b.reshape(x, shape=[size]), axis=0)

    def between(value: Value, start: Dim, end: Dim) -> Value:
        return b.slice(value, axes=[0], starts=[start], ends=[end], steps=[1])  # type: ignore[no-any-return]

    first = minimum(size, 1)
    changes = b.ne(between(ordered, first, size), between(ordered, 0, size - first))
    starts = b.concat([b.expand(True, shape=[first]), changes], axis=0)
    run = b.sub(b.cumsum(b.cast(starts, dtype=dtypes.i64), axis=0), 1)
    inverse = b.scatter_elements(b.expand(np.int64(0), shape=[size]), places, run, axis=0)
    begin = b.squeeze(b.nonzero(starts), axes=[1])
    (count,) = begin.tensor.shape
    ends = b.concat([begin, b.reshape(b.size(size), shape=[1])], axis=0)
    return b.gather(ordered, begin), inverse, b.sub(between(ends, 1, count + 1), begin)


@emits("nonzero")
def _nonzero(e: Emitter, node: Node, x: str) -> Any:
    if not shape_of(node):
        refuse("ONNX's NonZero takes no scalar")
    return e.op("Transpose", e.op("NonZero", x), perm=[1, 0])


@lowers("nonzero")
def _nonzero_of_others(b: Builder, node: Node, x: Value) -> Any:
    """Of a scalar that of one element, without its place; of types without a kernel that of bools."""
    if shape_of(node):
        return None if x.tensor.dtype is dtypes.bool_ else b.nonzero(b.cast(x, dtype=dtypes.bool_))
    return b.slice(b.nonzero(b.reshape(x, shape=[1])), axes=[1], starts=[0], ends=[0], steps=[1])


# ---- reading


@emits("gather")
def _gather(e: Emitter, node: Node, x: str, indices: str) -> Any:
    return e.op("Gather", x, indices, axis=node.attrs["axis"])


@emits("gather_elements")
def _gather_elements(e: Emitter, node: Node, x: str, indices: str) -> Any:
    return e.op("GatherElements", x, indices, axis=node.attrs["axis"])


@emits("gather_nd")
def _gather_nd(e: Emitter, node: Node, x: str, indices: str) -> Any:
    return e.op("GatherND", x, indices, batch_dims=node.attrs["batch_dims"] or None)


@lowers("gather_nd", "scatter_nd")
def _wide_indices(b: Builder, node: Node, x: Value, indices: Value, *rest: Value) -> Any:
    """ONNX takes i64 alone."""
    if indices.tensor.dtype is dtypes.i64:
        return None
    return getattr(b, node.op.name)(x, b.cast(indices, dtype=dtypes.i64), *rest, **node.attrs)


@lowers("one_hot")
def _one_hot(b: Builder, node: Node, indices: Value) -> Any:
    """By comparison in i64; other element types are cast."""
    if indices.tensor.dtype in (dtypes.i64, dtypes.i32):
        return None
    return b.one_hot(b.cast(indices, dtype=dtypes.i64), **node.attrs)


# ---- writing

_REDUCTION_SINCE: Final = {"none": 7, "add": 16, "mul": 16, "max": 18, "min": 18}


def _reduction(e: Emitter, node: Node) -> str | None:
    reduction: str = node.attrs["reduction"]
    dtype = node.result.tensor.dtype
    if reduction != "none" and dtype in (dtypes.f16, dtypes.bf16, dtypes.bool_):
        refuse(f"onnxruntime scatters {dtype} without reduction only")
    since = _REDUCTION_SINCE[reduction]
    if e.opset < since:
        refuse(f"scattering with {reduction} needs opset {since}")
    return None if reduction == "none" else reduction


@emits("scatter_elements")
def _scatter_elements(e: Emitter, node: Node, x: str, indices: str, updates: str) -> Any:
    return e.op("ScatterElements", x, indices, updates, axis=node.attrs["axis"], reduction=_reduction(e, node))


@emits("scatter_nd")
def _scatter_nd(e: Emitter, node: Node, x: str, indices: str, updates: str) -> Any:
    return e.op("ScatterND", x, indices, updates, reduction=_reduction(e, node))
