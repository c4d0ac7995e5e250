"""Plainer forms: what readers take that lack a form of an op which the standard and onnxruntime have.

They are tried only for profiles that state what a reader takes, before the lowerings that hold for all, and each is legal
wherever the reader takes plain forms of the same ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from isthmus.backends import taps
from isthmus.backends.onnx.neural import ints, shape_of
from isthmus.backends.onnx.table import Lower
from isthmus.ir import attributes, dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.errors import IsthmusError
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Call, Trait
from isthmus.ir.types import Tensor

_FORMS: Final[dict[str, Lower]] = {}

MOST: Final = 1 << 16
"""Up to so many elements, what constants alone give is computed at once: readers lack ops for what is no part of a model."""


def _plainer(*ops: str) -> Callable[[Lower], Lower]:
    def register(lower: Lower) -> Lower:
        _FORMS.update(dict.fromkeys(ops, lower))
        return lower

    return register


def is_known(node: Node) -> bool:
    """Whether constants alone give the results of a node, and these are small."""
    if node.regions or Trait.PURE not in node.op.traits or node.op.is_constant:
        return False
    if any(value is not None and value.weight is None for value in node.operands):
        return False
    sizes = [ints(value.type.shape) if isinstance(value.type, Tensor) and value.type.shape is not None else None
             for value in node.results]  # fmt: skip
    free = (symbol for attr in node.attrs.values() for symbol in attributes.symbols_in(attributes.resolved(attr)))
    return next(free, None) is None and all(size is not None and math.prod(size) <= MOST for size in sizes)


def _computed(b: Builder, node: Node) -> Any:
    """What constants give, as constants; None where they give nothing, as where something is divided by 0."""
    arrays = [None if value is None or value.weight is None else value.weight.array() for value in node.operands]
    attrs = {name: attributes.resolved(attr) for name, attr in node.attrs.items()}
    call = Call(node.op, [None if value is None else value.type for value in node.operands], attrs)
    try:
        found = node.op.evaluate(call, *node.op.group(arrays))
    except (IsthmusError, ArithmeticError, ValueError, IndexError):
        return None
    return tuple(b.constant(np.asarray(array)) for array in (found if isinstance(found, tuple) else (found,)))


def lower(b: Builder, node: Node) -> Any:
    """What the plainer form of a node builds; None where there is none."""
    if is_known(node) and (found := _computed(b, node)) is not None:
        return found
    form = _FORMS.get(node.op.name)
    return None if form is None else form(b, node, *node.op.group(node.operands))


@_plainer("logical_and", "logical_or", "logical_xor")
def _logic(b: Builder, node: Node, x: Value, y: Value) -> Value:
    """By numbers: the product, the sum or the distance of 0 and 1."""
    x, y = (b.cast(each, dtype=dtypes.f32) for each in (x, y))
    if node.op.name == "logical_xor":
        found = b.abs(b.sub(x, y))
    else:
        found = b.mul(x, y) if node.op.name == "logical_and" else b.add(x, y)
    return b.gt(found, 0.5)  # type: ignore[no-any-return]


@_plainer("cast")
def _truth(b: Builder, node: Node, x: Value) -> Any:
    source, target = x.tensor.dtype, node.attrs["dtype"]
    if target is not dtypes.bool_ or not (source.is_float or source.is_integer):
        return None
    return b.logical_not(b.eq(x, 0))


@_plainer("where")
def _where_known(b: Builder, node: Node, cond: Value, x: Value, y: Value) -> Any:
    """Where no constant may be a truth: the condition as 0 and 1, plus 0 times what is computed, is compared; nan is false."""
    held, dtype = cond.weight, node.result.tensor.dtype
    if held is None or not dtype.is_float:
        return None
    chosen = b.constant(held.array().astype(dtype.numpy))
    computed = x if x.weight is None else y
    return b.where(b.gt(b.add(b.mul(computed, 0.0), chosen), 0.5), x, y)


@_plainer("unsqueeze", "squeeze")
def _one_by_one(b: Builder, node: Node, x: Value) -> Any:
    rank = max(x.tensor.rank, node.result.tensor.rank)
    axes = sorted(axis % rank for axis in node.attrs["axes"])
    if len(axes) < 2:
        return None
    for axis in axes if node.op.name == "unsqueeze" else reversed(axes):
        x = getattr(b, node.op.name)(x, axes=[axis])
    return x


@_plainer("flip")
def _flip(b: Builder, node: Node, x: Value) -> Any:
    """The places of each axis from the last to the first, where there is a number of them."""
    axes = node.attrs["axes"]
    sizes = ints(tuple(shape_of(node)[axis] for axis in axes))
    for axis, size in zip(axes, sizes or (), strict=False):
        x = b.gather(x, np.arange(size)[::-1].copy(), axis=axis)
    return x if sizes else None


@_plainer("gelu")
def _gelu(b: Builder, node: Node, x: Value) -> Any:
    """By tanh: half of x goes first; the other way round, OpenCV 4.14 takes it for its own and dies."""
    if node.attrs["approximate"] != "tanh":
        return None
    inner = b.mul(x, b.add(b.mul(b.mul(x, x), 0.044715), 1.0))
    return b.mul(b.mul(x, 0.5), b.add(b.tanh(b.mul(inner, math.sqrt(2 / math.pi))), 1.0))


@_plainer("matmul")
def _matmul(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """A constant on the right is repeated for all that it is multiplied with; a vector is a matrix of one row or column."""
    if 1 in (x.tensor.rank, y.tensor.rank):
        left, right = x.tensor.rank == 1, y.tensor.rank == 1
        found = b.matmul(b.unsqueeze(x, axes=[0]) if left else x, b.unsqueeze(y, axes=[1]) if right else y)
        rank = found.tensor.rank
        return b.squeeze(found, axes=[axis for axis, gone in ((rank - 2, left), (rank - 1, right)) if gone])
    held, batch = y.tensor.shape, (node.result.tensor.shape or ())[:-2]
    other = x.tensor.shape
    if other is None or held is None or len(held) < 3:
        return None
    shape, whole = [*batch, *other[-2:]], [*batch, *held[-2:]]
    if (list(other), list(held)) == (shape, whole):
        return None
    return b.matmul(b.expand(x, shape=shape), b.expand(y, shape=whole))


@_plainer("gather_elements")
def _along(b: Builder, node: Node, x: Value, indices: Value) -> Any:
    """Of the places that are looked at alone."""
    axis, wanted = node.attrs["axis"] % x.tensor.rank, indices.tensor.shape or ()
    others = [other for other in range(len(wanted)) if other != axis and (x.tensor.shape or ())[other] != wanted[other]]
    if not others:
        return None
    zeros, ones = [0] * len(others), [1] * len(others)
    x = b.slice(x, axes=others, starts=zeros, ends=[wanted[other] for other in others], steps=ones)
    return b.gather_elements(x, indices, axis=axis)


@_plainer("gather_nd")
def _gather_rows(b: Builder, node: Node, x: Value, indices: Value) -> Any:
    """Whole rows, at one place each: element by element."""
    axis, places = node.attrs["batch_dims"], indices.tensor.shape or ()
    if len(places) != axis + 2 or places[-1] != 1:
        return None
    rest = (x.tensor.shape or ())[axis + 1 :]
    spread = b.reshape(indices, shape=[*places[:-1], *(1 for _ in rest)])
    return b.gather_elements(x, b.expand(spread, shape=[*places[:-1], *rest]), axis=axis)


@_plainer("conv", "max_pool", "avg_pool")
def _padded(b: Builder, node: Node, x: Value, *rest: Value | None) -> Any:
    """What is padded goes around beforehand."""
    attrs, op = node.attrs, node.op.name
    pads, count = attrs["pads"], len(attrs["strides"])
    plain = op == "avg_pool" and (not attrs["count_include_pad"] or attrs["divisor"] is not None)
    if not any(pads) or attrs.get("ceil_mode") or plain or not x.tensor.dtype.is_float:
        return None
    value = b.constant(-math.inf, x.tensor.dtype) if op == "max_pool" else None
    x = b.pad(x, value, before=[0, 0, *pads[:count]], after=[0, 0, *pads[count:]])
    return b.emit(node.op, [x, *rest], {**attrs, "pads": [0] * 2 * count}).results[0]


@_plainer("conv_transpose")
def _cut(b: Builder, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    """What padding takes away is cut off afterwards."""
    attrs = node.attrs
    pads, more, count = attrs["pads"], attrs["output_padding"], len(attrs["strides"])
    if not any(pads) or any(extra > pad for extra, pad in zip(more, pads[count:], strict=True)):
        return None
    whole = b.conv_transpose(x, weight, bias, **{**attrs, "pads": [0] * 2 * count, "output_padding": [0] * count})
    wanted = (node.result.tensor.shape or ())[2:]
    return b.slice(
        whole, axes=list(range(2, count + 2)), starts=pads[:count], steps=[1] * count,
        ends=[start + size for start, size in zip(pads[:count], wanted, strict=True)],
    )  # fmt: skip


@_plainer("max_pool_with_index")
def _places(b: Builder, node: Node, x: Value) -> Any:
    return taps.max_pool_with_index(b, node, x)
