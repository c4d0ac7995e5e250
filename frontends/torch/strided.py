"""`as_strided`: a tensor read or written at other sizes and strides, by taking rows of what lies in its storage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from isthmus.frontends.torch.aliases import Entry, view
from isthmus.frontends.torch.aten.common import inverse, permute, reshape
from isthmus.frontends.torch.lowering import Lowering
from isthmus.frontends.torch.relations import contiguous
from isthmus.frontends.torch.tensors import Watched
from isthmus.frontends.torch.views import order_of, refused
from isthmus.ir.dims import Dim, bounds, floordiv, product
from isthmus.ir.dtypes import i64
from isthmus.ir.errors import Refusal
from isthmus.ir.graph import Value

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher

_aten: Final = torch.ops.aten


def as_strided(
    watcher: Watcher, tensor: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Any:
    """A view of the elements of `tensor`, which must lie densely in their storage, and of nothing beside them.

    Raises:
        Refusal: it is not known how they lie, or the offset counts from the start of another tensor.
    """
    w = watcher.w
    base = watcher.entry(tensor)
    sizes, strides = watcher.take(size), watcher.take(stride)
    if storage_offset is not None and base.base is not None:
        raise Refusal("as_strided with an offset, of a view, is not carried over", remedy="take it of the whole tensor")
    offset = 0 if storage_offset is None else watcher.take(storage_offset)
    order = _dense_order(w, base)

    def take(value: Value) -> Value:
        return _strided(w, permute(w, value, order), sizes, strides, offset)

    result = take(watcher.aliases.read(base))
    push = refused("a view made by as_strided")
    return watcher.tensor(result, view(base, result, take, push, tuple(strides), True), tensor.device)


def _dense_order(w: Lowering, entry: Entry) -> list[int]:
    """The axes as they lie in the storage, the outermost first."""
    shape = w.dims(entry.value)
    if entry.strides is None and entry.certain:
        return list(range(len(shape)))
    order = order_of(entry.strides) if entry.strides is not None and entry.certain else None
    if order is not None:
        assert entry.strides is not None
        wanted = contiguous(tuple(shape[axis] for axis in order))
        if all(w.same(shape[axis], 1) or w.same(entry.strides[axis], step) for axis, step in zip(order, wanted, strict=True)):
            return order
    raise Refusal("as_strided of a tensor whose elements do not lie densely, as far as is known", remedy="call .contiguous()")


def as_strided_scatter(
    watcher: Watcher, tensor: torch.Tensor, src: torch.Tensor, size: Sequence[Any], stride: Sequence[Any],
    storage_offset: Any = None,
) -> Any:  # fmt: skip
    """A copy of `tensor`, which must lie densely in its storage, with `src` written to what `as_strided` shows of it.

    Raises:
        Refusal: it is not known how the elements lie, or the offset counts from the start of another tensor.
    """
    w = watcher.w
    base = watcher.entry(tensor)
    sizes, strides = watcher.take(size), watcher.take(stride)
    if storage_offset is not None and base.base is not None:
        raise Refusal("as_strided_scatter with an offset, of a view, is not carried over", remedy="call .clone() before it")
    offset = 0 if storage_offset is None else watcher.take(storage_offset)
    order = _dense_order(w, base)
    value = permute(w, watcher.aliases.read(base), order)
    _check_reach(w, w.dims(value), sizes, strides, offset)
    places = reshape(w, _places(w, sizes, strides, offset), [product(sizes)])
    source = reshape(w, w.cast(watcher.value(src), value.tensor.dtype), [product(sizes)])
    flat = reshape(w, value, [product(w.dims(value))])
    written = reshape(w, w.b.scatter_elements(flat, places, source, axis=0, reduction="none"), w.dims(value))
    result = permute(w, written, inverse(order))
    return watcher.tensor(result, Entry(result, base.strides), tensor.device)


def become(watcher: Watcher, tensor: torch.Tensor, view: Watched) -> torch.Tensor:
    """Makes a tensor another view of its elements, in place.

    Raises:
        Refusal: it is a weight, or from outside of the branch or loop that is watched.
    """
    if watcher.value(tensor) is view.entry.value:
        return tensor
    if tensor.__class__ is not Watched:
        raise Refusal("the shape of a weight is changed in place", remedy="take a view of it out of place")
    watcher.aliases.written(tensor.entry.owner)
    with torch._C._DisableTorchDispatch():
        torch._C.TensorBase.data.__set__(tensor, view)  # sizes and strides
    tensor.entry = view.entry
    return tensor


def resize(watcher: Watcher, tensor: torch.Tensor, size: Sequence[Any], memory_format: Any = None) -> Any:
    """``resize_``: the first elements in another shape.

    Raises:
        Refusal: there are not so many, or it is not certain that they lie in order.
    """
    w, entry = watcher.w, watcher.entry(tensor)
    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        raise Refusal(f"resizing to {memory_format} is not carried over", remedy="reshape out of place")
    sizes, shape = watcher.take(size), w.dims(watcher.value(tensor))
    if len(sizes) == len(shape) and all(w.same(own, wanted) for own, wanted in zip(shape, sizes, strict=True)):
        return tensor
    if entry.strides is not None or not entry.certain:
        raise Refusal("resizing a tensor that may not be contiguous is not carried over", remedy="reshape out of place")
    if not w.decide("<=", product(sizes), product(shape)):
        raise Refusal("resizing to more elements than there are leaves open what they are", remedy="pad out of place")
    flat = watcher.__torch_dispatch__(_aten.view.default, (), (tensor, [-1]))
    first = watcher.__torch_dispatch__(_aten.slice.Tensor, (), (flat, 0, 0, math.prod(size)))
    return become(watcher, tensor, watcher.__torch_dispatch__(_aten.view.default, (), (first, list(size))))


def resize_as(watcher: Watcher, tensor: torch.Tensor, the_template: torch.Tensor, memory_format: Any = None) -> Any:
    """``resize_as_``: see `resize`."""
    return resize(watcher, tensor, the_template.shape, memory_format)


def _check_reach(w: Lowering, shape: Sequence[Dim], sizes: list[Dim], strides: list[Dim], offset: Dim) -> None:
    last = offset + sum(((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)), start=0)
    if not w.decide("<", last, product(list(shape))):
        raise Refusal("it reaches beyond the elements of the tensor", remedy="take it of the whole tensor")


def _places(w: Lowering, sizes: list[Dim], strides: list[Dim], offset: Dim) -> Value:
    """Where each element lies, counted from the first one: of the shape `sizes`."""
    index = w.tensor(offset, i64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        places = w.b.mul(w.b.arange(start=0, stop=size, dtype=i64), w.tensor(stride, i64))
        index = w.b.add(index, reshape(w, places, [size if at == axis else 1 for at in range(len(sizes))]))
    return index


def _strided(w: Lowering, x: Value, sizes: list[Dim], strides: list[Dim], offset: Dim) -> Value:
    """A contiguous value read at other sizes and strides.

    Axes that run along the first one, and those that together run along the last elements, stay whole: the others are
    one index of rows.
    """
    shape = w.dims(x)
    _check_reach(w, shape, sizes, strides, offset)
    left = [axis for axis, size in enumerate(sizes) if not w.same(size, 1)]

    outer = [axis for axis in left if shape and not offset and _whole(w, axis, left, sizes, strides, shape)][:1]
    left = [axis for axis in left if axis not in outer]
    inner: list[int] = []
    row: Dim = 1
    while (axis := next((axis for axis in left if w.same(strides[axis], row)), None)) is not None:
        rest = [other for other in left if other != axis]
        wider = row * sizes[axis]
        whole = (offset, product(shape[len(outer) :]), *(strides[other] for other in rest))
        if not all(w.same(floordiv(each, wider) * wider, each) for each in whole):
            break
        inner.insert(0, axis)
        left, row = rest, wider

    index = _places(w, [sizes[axis] for axis in left], [floordiv(strides[axis], row) for axis in left], floordiv(offset, row))
    rows = floordiv(product(shape[len(outer) :]), row)
    taken = reshape(w, x, [*shape[: len(outer)], rows, row])
    if left or not w.same(rows, 1):
        taken = w.b.gather(taken, index, axis=len(outer))
    kept = [*outer, *left, *inner]
    split = reshape(w, taken, [sizes[axis] for axis in kept])
    return reshape(w, permute(w, split, sorted(range(len(kept)), key=kept.__getitem__)), sizes)


def _whole(
    w: Lowering, axis: int, left: list[int], sizes: list[Dim], strides: list[Dim], shape: tuple[Dim, ...],
) -> bool:  # fmt: skip
    """Whether an axis runs along the first one of `shape`, and the others stay between its places."""
    step = product(shape[1:])
    if not (w.same(strides[axis], step) and w.same(sizes[axis], shape[0])):
        return False
    room = step - sum(((sizes[other] - 1) * strides[other] for other in left if other != axis), start=0)
    return bounds(room)[0] > 0
