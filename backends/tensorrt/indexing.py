"""Emitters of reductions, searches, and ops that read or write at places given by data."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.backends import formulas
from isthmus.backends.tensorrt.emitter import Emitter, mask, shape_of
from isthmus.backends.tensorrt.table import emits, fix_size, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.graph import Node, Value
from isthmus.ir.weights import ArrayWeight

# ---- reductions

_REDUCTIONS: Final = {
    "reduce_sum": "SUM", "reduce_prod": "PROD", "reduce_max": "MAX", "reduce_min": "MIN", "reduce_mean": "AVG",
}  # fmt: skip


@emits(*_REDUCTIONS)
def _reduce(e: Emitter, node: Node, x: Any) -> Any:
    axes = [axis % max(1, len(x.shape)) for axis in node.attrs["axes"]]
    if not axes:
        return x
    kind = getattr(e.trt.ReduceOperation, _REDUCTIONS[node.op.name])
    return e.add("reduce", x, kind, mask(axes), node.attrs["keepdims"])


@lowers("reduce_any", "reduce_all")
def _reduce_logic(b: Builder, node: Node, x: Value) -> Any:
    """By counting: some are true, or none is false. That holds of nothing, too."""
    counted = x if node.op.name == "reduce_any" else b.logical_not(x)
    count = b.reduce_sum(b.cast(counted, dtype=dtypes.i32), **node.attrs)
    return b.gt(count, 0) if node.op.name == "reduce_any" else b.eq(count, 0)


lowers("cumprod")(formulas.cumprod)


@emits("cumsum")
def _cumsum(e: Emitter, node: Node, x: Any) -> Any:
    attrs = node.attrs
    axis = e.constant(attrs["axis"] % len(x.shape), dtypes.i32)
    return e.add("cumulative", x, axis, e.trt.CumulativeOperation.SUM, attrs["exclusive"], attrs["reverse"])


# ---- order

MOST: Final = 3840
"""The greatest k that TensorRT takes."""


@emits("topk")
def _topk(e: Emitter, node: Node, x: Any) -> Any:
    attrs = node.attrs
    return _top(e, x, attrs["k"], attrs["axis"], attrs["largest"])


@emits("sort")
def _sort(e: Emitter, node: Node, x: Any) -> Any:
    attrs, shape = node.attrs, shape_of(node)
    if not shape:
        refuse("a scalar has no axis to sort along")
    return _top(e, x, shape[attrs["axis"]], attrs["axis"], attrs["descending"])


@emits("argmax", "argmin")
def _arg(e: Emitter, node: Node, x: Any) -> Any:
    attrs = node.attrs
    axis = attrs["axis"] % len(x.shape)
    places = _top(e, x, 1, axis, node.op.name == "argmax")[1]
    return places if attrs["keepdims"] else e.add("squeeze", places, e.ints([axis]))


def _top(e: Emitter, x: Any, k: Dim, axis: int, largest: bool) -> tuple[Any, Any]:
    if not isinstance(k, int):
        refuse("the number of elements to find must be known", fix_size)
    if not 1 <= k <= MOST:
        refuse(f"TensorRT finds 1 to {MOST} elements, not {k}")
    rank = len(x.shape)
    kind = e.trt.TopKOperation.MAX if largest else e.trt.TopKOperation.MIN
    axis %= rank
    vector = rank == 1  # which TensorRT does not take
    if vector:
        x, axis = e.unsqueeze(x, [0]), 1
    found = e.add("topk", x, kind, k, mask([axis]), e.trt.int64, results=2)
    values, places = (e.add("squeeze", each, e.ints([0])) for each in found) if vector else found
    return values, places


# ---- reading


def places(e: Emitter, value: Value, size: Dim) -> Any:
    """Indices along an axis of this size, with those that count from the end brought to count from the front."""
    weight = value.weight
    if weight is not None and weight.nbytes <= 1 << 16:
        array = weight.array()
        if not np.any(array < 0):
            return e.weight(weight)
        if isinstance(size, int):
            return e.weight(ArrayWeight(np.where(array < 0, array + size, array).astype(array.dtype)))
    indices, dtype = e.tensor(value), value.tensor.dtype
    length = e.cast(e.sizes.scalar(size), dtype)
    negative = e.binary("LESS", indices, e.constant(0, dtype))
    return e.add("select", *e.align(negative, e.binary("SUM", indices, length), indices))


@emits("gather", values=True)
def _gather(e: Emitter, node: Node, x: Value, indices: Value) -> Any:
    shape = shape_of(node)
    axis = node.attrs["axis"] % len(shape)
    return _gathered(e, e.tensor(x), places(e, indices, shape[axis]), "DEFAULT", axis=axis)


@emits("gather_elements", values=True)
def _gather_elements(e: Emitter, node: Node, x: Value, indices: Value) -> Any:
    shape = shape_of(node)
    axis = node.attrs["axis"] % len(shape)
    return _gathered(e, e.tensor(x), places(e, indices, shape[axis]), "ELEMENT", axis=axis)


def _gathered(e: Emitter, x: Any, indices: Any, mode: str, **settings: Any) -> Any:
    layer = e.network.add_gather_v2(x, indices, getattr(e.trt.GatherMode, mode))
    return e.finish(layer, settings=settings)


@emits("gather_nd", values=True)
def _gather_nd(e: Emitter, node: Node, x: Value, indices: Value) -> Any:
    batch = node.attrs["batch_dims"]
    found = several_places(e, node, indices, batch)
    return _gathered(e, e.tensor(x), found, "ND", num_elementwise_dims=batch)


def several_places(e: Emitter, node: Node, indices: Value, batch: int = 0) -> Any:
    """Like `places`, for indices whose last axis names an index an axis from the front, after `batch` axes."""
    shape = shape_of(node)
    depth = (indices.tensor.shape or ())[-1]
    assert isinstance(depth, int)
    if not depth:
        refuse("TensorRT wants at least one index")
    dtype, tensor = indices.tensor.dtype, e.tensor(indices)
    lengths = e.cast(e.sizes.vector(shape[batch : batch + depth]), dtype)
    negative = e.binary("LESS", tensor, e.constant(0, dtype))
    return e.add("select", *e.align(negative, e.binary("SUM", tensor, lengths), tensor))


# ---- writing


@emits("scatter_elements", values=True)
def _scatter_elements(e: Emitter, node: Node, x: Value, indices: Value, updates: Value) -> Any:
    _no_reduction(node)
    shape = shape_of(node)
    axis = node.attrs["axis"] % len(shape)
    found = places(e, indices, shape[axis])
    return e.add("scatter", e.tensor(x), found, e.tensor(updates), e.trt.ScatterMode.ELEMENT, axis=axis)


@emits("scatter_nd", values=True)
def _scatter_nd(e: Emitter, node: Node, x: Value, indices: Value, updates: Value) -> Any:
    _no_reduction(node)
    return e.add("scatter", e.tensor(x), several_places(e, node, indices), e.tensor(updates), e.trt.ScatterMode.ND)


def _no_reduction(node: Node) -> None:
    if node.attrs["reduction"] != "none":
        refuse(f"TensorRT scatters without combining, not with {node.attrs['reduction']}")


# ---- sizes that are data


@emits("nonzero", "unique", "dynamic_reshape", "dynamic_expand", "dynamic_slice", "range", "bind")
def _data_sized(e: Emitter, node: Node, *operands: Any) -> Any:
    return refuse("the sizes of its result depend on data, and TensorRT must know them before it runs",
                  "keep the size and mask what does not count, or leave this step to the code around the engine")  # fmt: skip


# ---- random numbers


@emits("random_uniform", "random_normal")
def _random(e: Emitter, node: Node) -> Any:
    attrs = node.attrs
    uniform = node.op.name == "random_uniform"
    first, second = (attrs["low"], attrs["high"]) if uniform else (attrs["mean"], attrs["std"])
    kind = e.trt.FillOperation.RANDOM_UNIFORM if uniform else e.trt.FillOperation.RANDOM_NORMAL
    if attrs["dtype"] not in (dtypes.f32, dtypes.f16):
        refuse(f"TensorRT draws no random numbers in {attrs['dtype']}")
    vector = e.sizes.vector(attrs["shape"]) if attrs["shape"] else e.ints([1])
    parameters = {1: e.constant(first, attrs["dtype"]), 2: e.constant(second, attrs["dtype"])}
    dtype = e.trt.float32 if attrs["dtype"] is dtypes.f32 else e.trt.float16
    found = e.add("fill", (1,), kind, dtype, inputs={0: vector, **parameters})
    return found if attrs["shape"] else e.reshape(found, ())


@lowers("random_uniform", "random_normal")
def _random_cast(b: Builder, node: Node) -> Any:
    dtype = node.attrs["dtype"]
    if dtype in (dtypes.f32, dtypes.f16):
        return None
    return b.cast(getattr(b, node.op.name)(**{**node.attrs, "dtype": dtypes.f32}), dtype=dtype)


@lowers("bernoulli")
def _bernoulli(b: Builder, node: Node, p: Value) -> Any:
    drawn = b.random_uniform(shape=shape_of(node), dtype=dtypes.f32)
    return b.cast(b.lt(drawn, b.cast(p, dtype=dtypes.f32)), dtype=p.tensor.dtype)
