"""Emitters of ops that change a tensor's shape or take parts of it, and of tensors made from sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from isthmus.backends import formulas
from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.lists import sizes_in
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.sizes import target_shape
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, ceildiv, extreme, maximum, product, same
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.ops.slicing import clamped
from isthmus.ir.types import Tensor

END: Final = 2**63 - 1
"""Stands for the end of an axis in a Slice."""


@emits("reshape")
def _reshape(e: Emitter, node: Node, x: str) -> Any:
    value = node.operands[0]
    assert value is not None
    if (sizes := sizes_in(node.result)) is not None:
        return e.sizes.vector(sizes)
    shape, zeros = target_shape(value.tensor.shape, node.attrs["shape"], e.opset >= 14)
    computed = any(not isinstance(dim, int) for dim in shape)
    if computed and e.opset >= 9 and e.profile.has("Flatten") and (rows := _rows(value.tensor.shape, node.attrs["shape"])) >= 0:
        return e.op("Flatten", x, axis=rows)
    may_vanish = any(bounds(dim)[0] < 1 for dim in node.attrs["shape"])
    if e.opset < 14 and computed and may_vanish:
        refuse("a size that may be 0 needs opset 14")
    if computed and e.sizes.is_shape(node.attrs["shape"], shape):
        return e.op("Reshape", x, e.sizes.vector(node.attrs["shape"]), allowzero=int(may_vanish) or None)
    if e.opset < 14 and not computed and any(
        size == 0 and wanted.__class__ is int and not (axis < len(shape_of(node)) and shape_of(node)[axis] == 0)
        for axis, (size, wanted) in enumerate(zip(shape, node.attrs["shape"], strict=True))
    ):  # fmt: skip
        refuse("a size of 0 needs opset 14")
    return e.op("Reshape", x, e.sizes.vector(shape), allowzero=int(zeros) or None)


def _rows(source: Sequence[Dim] | None, target: Sequence[Dim]) -> int:
    """How many axes are the rows of a matrix of which the others are the columns; below 0 where it is none."""
    if source is None or len(target) != 2:
        return -1
    splits = ((product(source[:rows]), product(source[rows:])) for rows in range(len(source) + 1))
    fits = (all(same(size, wanted) is True for size, wanted in zip(sizes, target, strict=True)) for sizes in splits)
    return next((rows for rows, fit in enumerate(fits) if fit), -1)


@emits("dynamic_reshape")
def _dynamic_reshape(e: Emitter, node: Node, x: str, shape: str) -> Any:
    zeros = not node.attrs["keep"] and bounds(product(shape_of(node)))[0] < 1
    if zeros and e.opset < 14:
        refuse("a size that is data and may be 0 needs opset 14")
    return e.op("Reshape", x, shape, allowzero=1 if e.opset >= 14 and not node.attrs["keep"] else None)


@emits("squeeze")
def _squeeze(e: Emitter, node: Node, x: str) -> Any:
    if e.probing and _picked(node) is not None:  # what else used the slice may have gone since it was made legal
        refuse("with the slice before it, it is one Gather")
    return e.op("Squeeze", x, e.ints(_axes(node, len(shape_of(node))))) if node.attrs["axes"] else x


def _axes(node: Node, rank: int) -> list[int]:
    """Axes counted from the front, as readers of files before opset 11 know them alone."""
    return [axis % rank for axis in node.attrs["axes"]]


@lowers("squeeze")
def _pick(b: Builder, node: Node, x: Value) -> Any:
    """``x[:, i]``, a slice of one place whose axis then goes, is a gather at a scalar."""
    piece = _picked(node)
    if piece is None:
        return None
    (axis,), (start,) = piece.attrs["axes"], piece.attrs["starts"]
    from_end = start - shape_of(piece)[axis]
    place = start if isinstance(start, int) else from_end
    index = b.constant(np.int64(place)) if isinstance(place, int) else b.size(start)
    return b.gather(piece.operands[0], index, axis=axis)


def _picked(node: Node) -> Node | None:
    """The slice of one place, of no other use, along the one axis that a squeeze takes away."""
    x = node.operands[0]
    piece = x.producer if x is not None and len(x.uses) == 1 else None
    if piece is None or piece.op.name != "slice" or piece.attrs["axes"] != node.attrs["axes"] or len(piece.attrs["axes"]) != 1:
        return None
    (start,), (end,) = piece.attrs["starts"], piece.attrs["ends"]
    return piece if same(end - start, 1) is True and piece.graph is node.graph else None


@emits("unsqueeze")
def _unsqueeze(e: Emitter, node: Node, x: str) -> Any:
    if (sizes := sizes_in(node.result)) is not None:
        return e.sizes.vector(sizes)
    rank = len(shape_of(node)) + len(node.attrs["axes"])
    return e.op("Unsqueeze", x, e.ints(_axes(node, rank))) if node.attrs["axes"] else x


@emits("permute")
def _permute(e: Emitter, node: Node, x: str) -> Any:
    perm = node.attrs["perm"]
    halves = node.result.tensor.dtype in (dtypes.f16, dtypes.bf16)
    if halves and e.opset >= 13 and _is_batched_by(perm) and any(map(_multiplies, node.result.uses)):
        refuse("onnxruntime breaks down where it makes such a turn of 16 bits a part of the product behind it")
    return x if list(perm) == list(range(len(perm))) else e.op("Transpose", x, perm=perm)


def _is_batched_by(perm: Sequence[int]) -> bool:
    """Whether the first axis becomes one of the matrices', and those behind it batches: what FusedMatMul calls transBatch."""
    *batches, row, column = perm if len(perm) > 2 else (0, 0, 0)
    return batches == list(range(1, len(perm) - 1)) and {row, column} == {0, len(perm) - 1}


def _multiplies(use: tuple[Node | Graph, int]) -> bool:
    return isinstance(use[0], Node) and use[0].op.name in ("matmul", "linear")


@emits("expand")
def _expand(e: Emitter, node: Node, x: str) -> Any:
    shape, target = shape_of(node), node.attrs["shape"]
    aligned: list[Dim] = [*[1] * (len(target) - len(shape)), *shape]
    # A size of 1 in the shape of an Expand keeps what is there.
    kept = [same(old, new) is True for old, new in zip(aligned, target, strict=True)]
    if all(kept) and len(shape) == len(target):
        return x
    if _emptied(node):
        refuse("onnxruntime leaves out an Expand to no elements")
    wanted = [1 if keep else new for keep, new in zip(kept, target, strict=True)]
    while len(wanted) > 1 and wanted[0].__class__ is int and wanted[0] == 1 and len(wanted) <= len(shape):
        del wanted[0]  # nor need the shape say anything of axes in front that stay
    return e.op("Expand", x, e.sizes.vector(wanted))


def _emptied(node: Node) -> list[int]:
    """The axes of the operand that an expand leaves without elements."""
    shape, target = shape_of(node), node.attrs["shape"]
    pairs = enumerate(zip(shape, target[len(target) - len(shape) :], strict=True))
    return [axis for axis, (old, new) in pairs if new.__class__ is int and new == 0 and same(old, new) is not True]


@lowers("expand")
def _sliced(b: Builder, node: Node, x: Value) -> Any:
    """No elements are a slice."""
    axes = _emptied(node)
    if not axes:
        return None
    none = [0] * len(axes)
    return b.expand(b.slice(x, axes=axes, starts=none, ends=none, steps=[1] * len(axes)), **node.attrs)


@emits("dynamic_expand")
def _dynamic_expand(e: Emitter, node: Node, x: str, shape: str) -> Any:
    length = shape_of(node, 1)[0]
    if e.opset >= 8 or not isinstance(length, int):
        return e.op("Expand", x, shape)
    sizes = shape_of(node)
    missing = length - len(sizes)
    if missing < 0:
        shape = e.op("Concat", e.ints([1] * -missing), shape, axis=0)
    elif missing:
        x = e.op("Unsqueeze", x, e.ints(range(missing)))
    single = e.op("Cast", e.op("Equal", e.sizes.vector([1] * missing + [*sizes]), e.ints([1])), to=opsets.enum(dtypes.i64))
    return e.op("Tile", x, e.op("Add", e.op("Mul", e.op("Sub", shape, e.ints([1])), single), e.ints([1])))


@emits("slice")
def _slice(e: Emitter, node: Node, x: str) -> Any:
    attrs, shape = node.attrs, shape_of(node)
    ends = [END if same(end, shape[axis]) is True else end for axis, end in zip(attrs["axes"], attrs["ends"], strict=True)]
    whole = [
        same(start, 0) is True and end == END and step == 1
        for start, end, step in zip(attrs["starts"], ends, attrs["steps"], strict=True)
    ]
    if all(whole):
        return x
    keep = [index for index, skip in enumerate(whole) if not skip]

    def pick(items: Sequence[Any]) -> list[Any]:
        return [items[index] for index in keep]

    steps = pick(attrs["steps"])
    axes, starts = attrs["axes"], attrs["starts"]
    lows = [_numbered(start, 0, shape[axis]) for start, axis in zip(starts, axes, strict=True)]
    highs = [_numbered(end, start, shape[axis]) for end, start, axis in zip(ends, starts, axes, strict=True)]
    return e.op(
        "Slice", x, e.sizes.vector(pick(lows)), e.sizes.vector(pick(highs)), e.ints(pick(axes)),
        e.ints(steps) if any(step != 1 for step in steps) else None,
    )  # fmt: skip


def _numbered(bound: Dim, start: Dim, size: Dim) -> Dim:
    """A number that a Slice reads as this bound, counted from the front or, negative, from the back; the bound where there is
    none. What ends before the start is empty."""
    for part in () if isinstance(bound, int) else _parts(bound):
        number = part if isinstance(part, int) else part - size
        place = clamped(number, size) if isinstance(number, int) else None
        if place is not None and (same(place, bound) or same(maximum(start, place), bound)):
            return number
    return bound


def _parts(dim: Dim) -> Iterator[Dim]:
    """The sizes of which one is the least or the greatest."""
    found = extreme(dim)
    if found is None:
        yield dim
    else:
        for part in found[1]:
            yield from _parts(part)


@emits("dynamic_slice")
def _dynamic_slice(e: Emitter, node: Node, x: str, starts: str, ends: str) -> Any:
    axes, steps = node.attrs["axes"], node.attrs["steps"]
    return e.op("Slice", x, starts, ends, e.ints(axes), e.ints(steps) if any(step != 1 for step in steps) else None)


@emits("flip")
def _flip(e: Emitter, node: Node, x: str) -> Any:
    axes = node.attrs["axes"]
    if not axes:
        return x
    count = len(axes)
    return e.op("Slice", x, e.ints([-1] * count), e.ints([-END] * count), e.ints(axes), e.ints([-1] * count))


@emits("concat")
def _concat(e: Emitter, node: Node, xs: list[str]) -> Any:
    if (sizes := sizes_in(node.result)) is not None:
        return e.sizes.vector(sizes)
    return xs[0] if len(xs) == 1 else e.op("Concat", *xs, axis=node.attrs["axis"])


@emits("split")
def _split(e: Emitter, node: Node, x: str) -> Any:
    sizes, axis = node.attrs["sizes"], node.attrs["axis"]
    if len(sizes) == 1:
        return (x,)
    size, count = shape_of(node)[axis], len(sizes)
    if isinstance(size, int):
        even = e.opset >= 18 and size > 0 and all(same(part, sizes[0]) is True for part in sizes)
    else:  # sizes that are no numbers take nodes
        known = same if node.graph is None else node.graph.symbols.same
        even = known(sizes[0] * count, size) is True and all(known(part, sizes[0]) is True for part in sizes)
        if e.opset >= 18 and e.keep_ops and not even:  # only the file's own op says that the last part is what is left
            each = ceildiv(size, count)
            even = all(map(same, sizes, [*[each] * (count - 1), size - each * (count - 1)]))
    if even:
        return e.op("Split", x, results=count, axis=axis, num_outputs=count if e.opset >= 18 else None)
    return e.op("Split", x, e.sizes.vector(sizes), results=count, axis=axis)


@emits("pad")
def _pad(e: Emitter, node: Node, x: str, value: str | None) -> Any:
    attrs = node.attrs
    before, after, mode = attrs["before"], attrs["after"], attrs["mode"]
    if mode == "wrap" and e.opset < 19:
        refuse("padding by wrapping needs opset 19")
    if all(same(each, 0) is True for each in (*before, *after)):
        return x
    # Of all axes: when onnxruntime moves a transpose past a Pad, it takes no heed of its axes.
    pads = e.sizes.vector([*before, *after])
    return e.op("Pad", x, pads, value, mode=mode if mode != "constant" else None)


@lowers("pad")
def _wrap(b: Builder, node: Node, x: Value, value: Value | None) -> Any:
    """Wrapped around, axis by axis: the end, the whole, the beginning; more than once around by places."""
    attrs = node.attrs
    if attrs["mode"] != "wrap":
        return None
    for axis, (size, before, after) in enumerate(zip(shape_of(node), attrs["before"], attrs["after"], strict=True)):
        if same(before, 0) is True and same(after, 0) is True:
            continue
        if bounds(size - before)[0] < 0 or bounds(size - after)[0] < 0:
            if bounds(before + size + after)[0] < 0:
                return None
            places = b.mod(b.arange(start=-before, stop=size + after), b.maximum(b.size(size), 1))
            x = b.gather(x, places, axis=axis)
            continue
        tail = b.slice(x, axes=[axis], starts=[size - before], ends=[size], steps=[1])
        head = b.slice(x, axes=[axis], starts=[0], ends=[after], steps=[1])
        x = b.concat([tail, x, head], axis=axis)
    return x


@emits("tile")
def _tile(e: Emitter, node: Node, x: str) -> Any:
    return e.op("Tile", x, e.sizes.vector(node.attrs["repeats"])) if node.attrs["repeats"] else x


@emits("depth_to_space")
def _depth_to_space(e: Emitter, node: Node, x: str) -> Any:
    if len(shape_of(node)) != 4:
        refuse("ONNX's DepthToSpace takes [batch, channels, height, width]")
    return e.op("DepthToSpace", x, blocksize=node.attrs["block"], mode=node.attrs["order"].upper())


@emits("space_to_depth")
def _space_to_depth(e: Emitter, node: Node, x: str) -> Any:
    if len(shape_of(node)) != 4:
        refuse("ONNX's SpaceToDepth takes [batch, channels, height, width]")
    crd = node.attrs["order"] == "crd"
    if crd and e.opset < 28:
        refuse("ONNX's SpaceToDepth puts the places in front of the channels before opset 28")
    return e.op("SpaceToDepth", x, blocksize=node.attrs["block"], mode="CRD" if crd else None)


@emits("trilu", since=14)
def _trilu(e: Emitter, node: Node, x: str) -> Any:
    diagonal = node.attrs["diagonal"]
    k = None if isinstance(diagonal, int) and diagonal == 0 else e.sizes.scalar(diagonal)
    return e.op("Trilu", x, k, upper=int(node.attrs["upper"]))


@emits("arange")
def _arange(e: Emitter, node: Node) -> Any:
    attrs = node.attrs
    if attrs["dtype"] is not dtypes.i64:
        refuse("sizes count in i64")
    start, stop, step = (attrs[name] for name in ("start", "stop", "step"))
    if e.sizes.never_negative(start) and e.sizes.never_negative(stop):
        return e.op("Range", *map(e.sizes.scalar, (start, stop, step)))
    # onnxruntime makes a Slice of a Gather whose indices are a Range, which takes negative ends for ones from behind.
    taken = e.op("Range", *map(e.sizes.scalar, (0, start - stop, -step)))
    return e.op("Sub", e.sizes.scalar(start), taken)


@lowers("arange")
def _arange_cast(b: Builder, node: Node) -> Any:
    dtype = node.attrs["dtype"]
    return None if dtype is dtypes.i64 else b.cast(b.arange(**{**node.attrs, "dtype": dtypes.i64}), dtype=dtype)


@emits("range")
def _range(e: Emitter, node: Node, start: str, limit: str, delta: str) -> Any:
    first, last, step = node.operands
    assert first is not None
    assert last is not None
    assert step is not None
    dtype = node.result.tensor.dtype
    if dtype not in (dtypes.i32, dtypes.i64) or (formulas.never_negative(first) and formulas.never_negative(last)):
        return e.op("Range", start, limit, delta)
    taken = e.op("Range", e.constant(0, dtype), e.op("Sub", start, limit), e.op("Neg", delta))
    return e.op("Sub", start, taken)


lowers("diagonal")(formulas.diagonal)


# ---- sequences and optionals


@emits("sequence_construct")
def _sequence_construct(e: Emitter, node: Node, xs: list[str]) -> Any:
    return e.op("SequenceConstruct", *xs)


@emits("sequence_empty")
def _sequence_empty(e: Emitter, node: Node) -> Any:
    type = node.attrs["type"]
    element = type if isinstance(type, Tensor) else getattr(type, "element", None)
    if not isinstance(element, Tensor):
        refuse("ONNX has sequences of tensors only")
    return e.op("SequenceEmpty", dtype=opsets.enum(element.dtype))


@emits("sequence_at")
def _sequence_at(e: Emitter, node: Node, sequence: str, index: str) -> Any:
    return e.op("SequenceAt", sequence, index)


@emits("sequence_insert")
def _sequence_insert(e: Emitter, node: Node, sequence: str, x: str, index: str | None) -> Any:
    return e.op("SequenceInsert", sequence, x, index)


@emits("sequence_erase")
def _sequence_erase(e: Emitter, node: Node, sequence: str, index: str | None) -> Any:
    return e.op("SequenceErase", sequence, index)


@emits("sequence_split")
def _sequence_split(e: Emitter, node: Node, x: str, parts: str | None) -> Any:
    return e.op("SplitToSequence", x, parts, axis=node.attrs["axis"], keepdims=int(node.attrs["keepdims"]))


@emits("sequence_length")
def _sequence_length(e: Emitter, node: Node, sequence: str) -> Any:
    return e.op("SequenceLength", sequence)


@emits("sequence_concat")
def _sequence_concat(e: Emitter, node: Node, sequence: str) -> Any:
    return e.op("ConcatFromSequence", sequence, axis=node.attrs["axis"], new_axis=int(node.attrs["new_axis"]) or None)


@emits("optional_some", since=15)
def _optional_some(e: Emitter, node: Node, x: str) -> Any:
    return e.op("Optional", x)


@emits("optional_none", since=15)
def _optional_none(e: Emitter, node: Node) -> Any:
    type = node.attrs["type"]
    return e.op("Optional", type=opsets.type_proto(type))


@emits("optional_get", since=15)
def _optional_get(e: Emitter, node: Node, x: str) -> Any:
    return e.op("OptionalGetElement", x)


@emits("optional_has", since=15)
def _optional_has(e: Emitter, node: Node, x: str | None) -> Any:
    if x is None and e.opset < 18:
        refuse("asking for what is absent needs opset 18")
    return e.op("OptionalHasElement", x)
