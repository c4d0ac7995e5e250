"""Plainer forms: what readers take that lack a form of an op which the standard and onnxruntime have.

They are tried only for profiles that state what a reader takes, before the lowerings that hold for all, and each is legal
wherever the reader takes plain forms of the same ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.backends import taps
from isthmus.backends.onnx.neural import ints, shape_of
from isthmus.backends.onnx.table import Lower
from isthmus.ir import attributes, dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import product
from isthmus.ir.errors import IsthmusError
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Call, Trait
from isthmus.ir.ops.control import inline, own_symbols
from isthmus.ir.types import Tensor

_FORMS: Final[dict[str, Lower]] = {}

MOST: Final = 1 << 16
"""Up to so many elements, what constants alone give is computed at once: readers lack ops for what is no part of a model."""

NODES: Final = 1 << 12
"""Loops of more nodes than this, those of all turns together, are not written turn by turn."""


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


@_plainer("add")
def _taken_away(b: Builder, node: Node, x: Value, y: Value) -> Any:
    """The opposite is taken away."""
    return b.sub(x, b.neg(y)) if x.tensor.dtype.is_float else None


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


@_plainer("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean", "reduce_l2", "logsumexp")
def _along_one(b: Builder, node: Node, x: Value) -> Any:
    """Along several axes: these as one, the last one where they do not lie side by side."""
    axes, sizes = sorted(node.attrs["axes"]), list(x.tensor.shape or ())
    if len(axes) < 2:
        return None
    if axes[-1] - axes[0] >= len(axes):
        perm = [axis for axis in range(len(sizes)) if axis not in axes] + axes
        x, sizes = b.permute(x, perm=perm), [sizes[axis] for axis in perm]
        axes = list(range(len(sizes) - len(axes), len(sizes)))
    before = sizes[: axes[0]] or [1]  # which makes two axes at least
    merged = b.reshape(x, shape=[*before, product(sizes[axes[0] : axes[-1] + 1]), *sizes[axes[-1] + 1 :]])
    found = b.emit(node.op, [merged], {**node.attrs, "axes": [len(before)], "keepdims": True}).results[0]
    return b.reshape(found, shape=node.result.tensor.shape)


@_plainer("expand")
def _repeated(b: Builder, node: Node, x: Value) -> Any:
    """Axis by axis, as often as it is told."""
    shape, wanted = x.tensor.shape, ints(node.attrs["shape"])
    if shape is None or wanted is None or ints(shape) is None:
        return None
    aligned = [*[1] * (len(wanted) - len(shape)), *shape]
    x = x if len(aligned) == len(shape) else b.reshape(x, shape=aligned)
    return b.tile(x, repeats=[1 if old == new else new for old, new in zip(aligned, wanted, strict=True)])


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
    """At known places, rows of a matrix; else whole rows, at one place each: element by element."""
    axis, places = node.attrs["batch_dims"], indices.tensor.shape or ()
    held, sizes = indices.weight, ints(x.tensor.shape or ())
    if held is not None and sizes is not None and not axis:
        found = held.array()
        sized = np.array(sizes[: found.shape[-1]], np.int64)
        rows = np.where(found < 0, found + sized, found) @ np.cumprod([1, *sized[:0:-1]])[::-1]
        table = b.reshape(x, shape=[1, math.prod(sized.tolist()), math.prod(sizes[len(sized) :])])
        return b.reshape(b.gather(table, rows.reshape(-1), axis=1), shape=node.result.tensor.shape)
    if len(places) != axis + 2 or places[-1] != 1:
        return None
    rest = (x.tensor.shape or ())[axis + 1 :]
    spread = b.reshape(indices, shape=[*places[:-1], *(1 for _ in rest)])
    return b.gather_elements(x, b.expand(spread, shape=[*places[:-1], *rest]), axis=axis)


@_plainer("loop")
def _turn_by_turn(b: Builder, node: Node, trip: Value | None, cond: Value | None, inputs: Sequence[Value]) -> Any:
    """Where it is known how many turns there are, and no size in them differs: one after the other."""
    (body,) = node.regions
    count, goes_on = node.attrs["carried"], body.outputs[0].weight
    carried, scanned = inputs[:count], inputs[count:]
    limits = [ints((each.tensor.shape or ())[:1]) for each in scanned]
    if trip is not None:
        limits.append(None if trip.weight is None else [int(trip.weight.array())])
    endless = cond is None and goes_on is not None and bool(goes_on.array())
    if not (endless and limits) or own_symbols(body, [each.type for each in inputs]):
        return None
    known = [limit[0] for limit in limits if limit is not None]
    if len(known) < len(limits) or not 0 < min(known) * sum(1 for _ in body.walk()) <= NODES:
        return None
    turns = min(known)
    parts = [b.split(each, axis=0, sizes=[1] * turns) for each in scanned]
    stacks: list[list[Value]] = [[] for _ in body.outputs[1 + count :]]
    for turn in range(turns):
        slices = [b.squeeze(part[turn], axes=[0]) for part in parts]
        _, *made = inline(b, body, [b.constant(np.int64(turn)), *carried, *slices], {})
        carried = made[:count]
        for stack, each in zip(stacks, made[count:], strict=True):
            stack.append(b.unsqueeze(each, axes=[0]))
    return [*carried, *(b.concat(stack, axis=0) for stack in stacks)]


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
