"""Emitters of ops that change a tensor's shape or take parts of it, and of tensors made from sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isthmus.backends import formulas
from isthmus.backends.tensorrt import library
from isthmus.backends.tensorrt.emitter import Emitter, ints, result_shape, shape_of
from isthmus.backends.tensorrt.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, maximum, same
from isthmus.ir.graph import Node, Value


@emits("reshape")
def _reshape(e: Emitter, node: Node, x: Any) -> Any:
    return reshape(e, x, shape_of(node), node.attrs["shape"])


def reshape(e: Emitter, x: Any, source: Sequence[Dim], target: Sequence[Dim]) -> Any:
    """A tensor in another shape, said without computing sizes where possible.

    A shuffle takes 0 for "as before at this place" and -1 for what is left over.
    """
    known = ints(target)
    if known is not None:
        return e.add("shuffle", x, reshape_dims=known, zero_is_placeholder=False)
    unknown = [axis for axis, dim in enumerate(target) if not isinstance(dim, int)]
    kept = [axis for axis in unknown if axis < len(source) and same(source[axis], target[axis]) is True]
    rest = [axis for axis in unknown if axis not in kept]
    positive = all(bounds(dim)[0] > 0 for axis, dim in enumerate(target) if axis not in rest)
    if 0 not in target and (not rest or (len(rest) == 1 and positive)):
        dims = [0 if axis in kept else -1 if axis in rest else dim for axis, dim in enumerate(target)]
        return e.add("shuffle", x, reshape_dims=dims)
    return e.add("shuffle", x, inputs={1: e.sizes.vector(target)}, zero_is_placeholder=False)


@emits("squeeze")
def _squeeze(e: Emitter, node: Node, x: Any) -> Any:
    axes = [axis % max(1, len(x.shape)) for axis in node.attrs["axes"]]
    return e.add("squeeze", x, e.ints(axes)) if axes else x


@emits("unsqueeze")
def _unsqueeze(e: Emitter, node: Node, x: Any) -> Any:
    rank = len(result_shape(node))
    return e.unsqueeze(x, [axis % rank for axis in node.attrs["axes"]])


@emits("permute")
def _permute(e: Emitter, node: Node, x: Any) -> Any:
    perm = node.attrs["perm"]
    return x if list(perm) == list(range(len(perm))) else e.add("shuffle", x, first_transpose=perm)


@emits("expand")
def _expand(e: Emitter, node: Node, x: Any) -> Any:
    return expand(e, x, shape_of(node), node.attrs["shape"])


def expand(e: Emitter, x: Any, source: Sequence[Dim], target: Sequence[Dim]) -> Any:
    """A tensor repeated along its axes of size 1: a slice that stands still there."""
    x = e.lead(x, len(target))
    aligned = [*[1] * (len(target) - len(source)), *source]
    steps = [int(same(old, new) is True) for old, new in zip(aligned, target, strict=True)]
    if all(steps):
        return x
    if any(not step and not isinstance(old, int) for old, step in zip(aligned, steps, strict=True)):
        # A size that may be 1 or not: it stands still where it is 1.
        one = e.ints([1] * len(target))
        stride = e.binary("MIN", e.binary("SUB", e.add("shape", x), one), one)
        return part(e, x, [0] * len(target), target, stride)
    return part(e, x, [0] * len(target), target, steps)


def part(e: Emitter, x: Any, starts: Sequence[Dim], sizes: Sequence[Dim], steps: Any, **settings: Any) -> Any:
    """A slice layer; dims that are not known become shape tensors.

    Args:
        e: the emitter.
        x: the tensor.
        starts: the first place along each axis.
        sizes: how many along each axis.
        steps: the step along each axis, or a shape tensor of them.
        settings: the layer's attributes; ``fill`` is input 4.
    """
    rank = len(sizes)
    inputs: dict[int, Any] = {}
    fixed: list[Any] = []
    for index, dims in ((1, starts), (2, sizes)):
        known = ints(dims)
        if known is None:
            inputs[index] = e.sizes.vector(dims)
        fixed.append([0] * rank if known is None else known)
    if not isinstance(steps, (list, tuple)):
        inputs[3] = steps
        steps = [1] * rank
    fill = settings.pop("fill", None)
    if fill is not None:
        inputs[4] = fill
    return e.add("slice", x, *fixed, steps, inputs=inputs, **settings)


@emits("slice")
def _slice(e: Emitter, node: Node, x: Any) -> Any:
    attrs, sizes = node.attrs, result_shape(node)
    rank = len(sizes)
    starts: list[Dim] = [0] * rank
    steps = [1] * rank
    for axis, start, step in zip(attrs["axes"], attrs["starts"], attrs["steps"], strict=True):
        starts[axis], steps[axis] = start, step
    if all(same(start, 0) is True for start in starts) and all(
        same(old, new) is True for old, new in zip(shape_of(node), sizes, strict=True)
    ):
        return x
    return part(e, x, starts, sizes, steps)


@emits("flip")
def _flip(e: Emitter, node: Node, x: Any) -> Any:
    shape = shape_of(node)
    axes = {axis % len(shape) for axis in node.attrs["axes"]}
    if not axes or 0 in shape:
        return x
    starts = [dim - 1 if axis in axes else 0 for axis, dim in enumerate(shape)]
    return part(e, x, starts, shape, [-1 if axis in axes else 1 for axis in range(len(shape))])


@emits("concat")
def _concat(e: Emitter, node: Node, xs: list[Any]) -> Any:
    return e.concat(xs, node.attrs["axis"] % len(xs[0].shape))


@emits("split")
def _split(e: Emitter, node: Node, x: Any) -> Any:
    shape = shape_of(node)
    axis = node.attrs["axis"] % len(shape)
    sizes = node.attrs["sizes"]
    found = []
    start: Dim = 0
    for size in sizes:
        starts: list[Dim] = [0] * len(shape)
        starts[axis] = start
        found.append(x if len(sizes) == 1 else part(e, x, starts, [*shape[:axis], size, *shape[axis + 1 :]], [1] * len(shape)))
        start = start + size
    return tuple(found)


@emits("pad")
def _pad(e: Emitter, node: Node, x: Any, value: Any) -> Any:
    attrs = node.attrs
    if all(same(dim, 0) is True for dim in (*attrs["before"], *attrs["after"])):
        return x
    mode = {"constant": "FILL", "reflect": "REFLECT", "edge": "CLAMP", "wrap": "WRAP"}[attrs["mode"]]
    starts = [0 - dim for dim in attrs["before"]]
    more = {"fill": value if value is not None else e.full(x, (), 0)} if mode == "FILL" else {}
    return part(e, x, starts, result_shape(node), [1] * len(starts), mode=getattr(e.trt.SampleMode, mode), **more)


@emits("tile")
def _tile(e: Emitter, node: Node, x: Any) -> Any:
    shape = result_shape(node)
    return part(e, x, [0] * len(shape), shape, [1] * len(shape), mode=e.trt.SampleMode.WRAP)


@emits("roll")
def _roll(e: Emitter, node: Node, x: Any) -> Any:
    shape = shape_of(node)
    starts: list[Dim] = [0] * len(shape)
    for axis, shift in zip(node.attrs["axes"], node.attrs["shifts"], strict=True):
        starts[axis] = starts[axis] - shift
    if 0 in shape:
        return x
    starts = [start if same(start, 0) is True else start % maximum(size, 1) for start, size in zip(starts, shape, strict=True)]
    return part(e, x, starts, shape, [1] * len(shape), mode=e.trt.SampleMode.WRAP)


@emits("arange")
def _arange(e: Emitter, node: Node) -> Any:
    attrs = node.attrs
    dtype, start, stop, step = attrs["dtype"], attrs["start"], attrs["stop"], attrs["step"]
    known = ints((start, stop, step))
    if known is not None:
        return e.constant(np.arange(*known), dtype)
    if dtype is not dtypes.i64:
        refuse("sizes count in i64")
    sizes = e.sizes
    kind = e.trt.FillOperation.LINSPACE
    inputs = {0: sizes.vector(result_shape(node)), 1: sizes.scalar(start), 2: sizes.vector([step])}
    return e.add("fill", (1,), kind, library.enum(e.trt, dtype), inputs=inputs)


@lowers("arange")
def _arange_cast(b: Builder, node: Node) -> Any:
    dtype = node.attrs["dtype"]
    return None if dtype is dtypes.i64 else b.cast(b.arange(**{**node.attrs, "dtype": dtypes.i64}), dtype=dtype)


@lowers("trilu")
def _trilu(b: Builder, node: Node, x: Value) -> Any:
    """By comparison of the numbers of rows and columns."""
    rows, columns = shape_of(node)[-2:]
    row = b.unsqueeze(b.arange(stop=rows), axes=[1])
    diagonal = node.attrs["diagonal"]
    if same(diagonal, 0) is not True:
        row = b.add(row, b.size(diagonal))
    column = b.arange(stop=columns)
    keep = b.ge(column, row) if node.attrs["upper"] else b.le(column, row)
    return b.where(keep, x, b.constant(0, x.tensor.dtype))


lowers("diagonal")(formulas.diagonal)
