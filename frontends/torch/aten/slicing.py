"""Parts of tensors, tensors put together, and what goes around them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from isthmus.frontends.torch.aten.common import expand, integer, reshape
from isthmus.frontends.torch.lowering import LOWERINGS, Lowering, Scalar, lowers
from isthmus.ir.dims import Dim, Expr, bounds, ceildiv, hint, maximum
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value


def part(w: Lowering, x: Value, axis: int, start: Dim, end: Dim, step: int = 1) -> Value:
    """A slice with ``0 <= start <= end <= size``; the value itself where that is all of it."""
    if step == 1 and start == 0 and w.dims(x)[axis] == end:
        return x
    node = x.producer
    if start == 0 and node is not None and node.op.name == "concat" and node.attrs["axis"] == axis:
        first = node.operands[0]
        if first is not None and end == w.dims(first)[axis]:
            return part(w, first, axis, 0, end, step)
    found: Value = w.b.slice(x, axes=[axis], starts=[start], ends=[end], steps=[step])
    return found


def place(w: Lowering, size: Dim, position: Dim) -> Dim:
    """An index of one element, counted from the front."""
    lo, hi = bounds(position)
    negative = hi < 0 or (lo < 0 and w.decide("<", position, 0))
    return position + size if negative else position


@lowers("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(w: Lowering, x: Value, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: Dim = 1) -> Any:
    axis = w.axis(x, dim)
    first, last = w.clamp(w.dims(x)[axis], start, end)
    return part(w, x, axis, first, last, integer(w, step, "a step"))


@lowers("aten.select.int", "aten.select_copy.int")
def select(w: Lowering, x: Value, dim: int, index: Dim) -> Any:
    axis = w.axis(x, dim)
    size = w.dims(x)[axis]
    if isinstance(size, Expr) and isinstance(index, int) and index < 0:
        return w.b.gather(x, index, axis=axis)  # counted from an end that is not known
    start = place(w, size, index)
    if isinstance(size, int) and isinstance(start, int) and not 0 <= start < size:
        w.unsupported(f"index {index} is out of range for size {size}")
    return w.b.squeeze(part(w, x, axis, start, start + 1), axes=[axis])


@lowers("aten.narrow", "aten.narrow_copy")
def narrow(w: Lowering, x: Value, dim: int, start: Dim, length: Dim) -> Any:
    axis = w.axis(x, dim)
    first = place(w, w.dims(x)[axis], start)
    return part(w, x, axis, first, first + length)


@lowers("aten.narrow.Tensor")
def narrow_tensor(w: Lowering, x: Value, dim: int, start: Value, length: Dim) -> Any:
    """The start is data: the places are gathered, so that the length stays known."""
    places = w.b.add(w.b.arange(start=0, stop=length, dtype=i64), w.cast(start, i64))
    return w.b.gather(x, places, axis=w.axis(x, dim))


# ---- into parts


def _split(w: Lowering, x: Value, axis: int, sizes: Sequence[Dim]) -> list[Value]:
    if len(sizes) == 1:
        return [part(w, x, axis, 0, sizes[0])]
    parts = w.b.split(x, axis=axis, sizes=sizes)
    return list(parts) if isinstance(parts, tuple) else [parts]


def _count(w: Lowering, count: Dim) -> int:
    """How many parts there are, which the length of a Python list fixes."""
    if isinstance(count, int):
        return count
    expected = hint(count)
    if expected is None or not w.decide("==", count, expected):
        w.unsupported(
            f"the number of parts, {count}, is not known",
            "compute with the whole tensor, keep the loop over its parts in the model with torch.while_loop, or script the "
            "function that holds it (torch.jit.script)",
        )
    return expected


def _even(w: Lowering, x: Value, axis: int, size: Dim, count: Dim) -> list[Value]:
    """Parts of one size, the last of what is left."""
    number = max(1, _count(w, count))
    return _split(w, x, axis, [size] * (number - 1) + [w.dims(x)[axis] - size * (number - 1)])


@lowers("aten.split.Tensor", "aten.unsafe_split.Tensor", "aten.split_copy.Tensor")
def split(w: Lowering, x: Value, split_size: Dim, dim: int = 0) -> Any:
    axis = w.axis(x, dim)
    total = w.dims(x)[axis]
    if split_size == 0:
        return [x]
    return _even(w, x, axis, split_size, ceildiv(total, split_size))


@lowers("aten.split.sizes", "aten.split", "aten.split_with_sizes", "aten.unsafe_split_with_sizes")
@lowers("aten.split_with_sizes_copy")
def split_with_sizes(w: Lowering, x: Value, split_sizes: Sequence[Dim], dim: int = 0) -> Any:
    return _split(w, x, w.axis(x, dim), split_sizes)


@lowers("aten.chunk", "aten.unsafe_chunk")
def chunk(w: Lowering, x: Value, chunks: int, dim: int = 0) -> Any:
    """Parts of the rounded-up quotient each, so that there may be fewer than asked for."""
    axis = w.axis(x, dim)
    total = w.dims(x)[axis]
    if total == 0:
        return [x] * chunks
    size = ceildiv(total, chunks)
    return _even(w, x, axis, size, ceildiv(total, size))


@lowers("aten.tensor_split.sections")
def tensor_split_sections(w: Lowering, x: Value, sections: Dim, dim: int = 0) -> Any:
    """Parts that differ by at most 1, the longer ones first."""
    axis, count = w.axis(x, dim), integer(w, sections, "the number of sections")
    total = w.dims(x)[axis]
    sizes = [(total + count - 1 - number) // count for number in range(count)]
    w.b.graph.symbols.know(total, sum(sizes))
    return _split(w, x, axis, sizes)


@lowers("aten.tensor_split.indices")
def tensor_split_indices(w: Lowering, x: Value, indices: Sequence[Dim], dim: int = 0) -> Any:
    axis = w.axis(x, dim)
    size = w.dims(x)[axis]
    return [part(w, x, axis, *w.clamp(size, start, end)) for start, end in pairwise([0, *indices, None])]


def _split_along(name: str, axis_of: dict[int, int], default: int) -> None:
    def sections(w: Lowering, x: Value, sections: int) -> Any:
        return tensor_split_sections(w, x, sections, axis_of.get(w.rank(x), default))

    def indices(w: Lowering, x: Value, indices: Sequence[int]) -> Any:
        return tensor_split_indices(w, x, indices, axis_of.get(w.rank(x), default))

    lowers(f"aten.{name}.int")(sections)
    lowers(f"aten.{name}.array")(indices)


_split_along("hsplit", {1: 0}, 1)
_split_along("vsplit", {}, 0)
_split_along("dsplit", {}, 2)


@lowers("aten.unbind.int", "aten.unbind_copy.int")
def unbind(w: Lowering, x: Value, dim: int = 0) -> Any:
    axis = w.axis(x, dim)
    count = _count(w, w.dims(x)[axis])
    return [w.b.squeeze(each, axes=[axis]) for each in _split(w, x, axis, [1] * count)] if count else []


@lowers("aten.unfold", "aten.unfold_copy")
def unfold(w: Lowering, x: Value, dimension: int, size: int, step: int) -> Any:
    """Windows along a dim; the elements of each stand in a new last axis."""
    shape = w.dims(x)
    if not shape:
        return expand(w, w.b.reshape(x, shape=[1]), [size])
    axis = w.axis(x, dimension)
    places = windows(w, (shape[axis] - size) // step + 1, size, step)
    found = w.b.gather(x, places, axis=axis)
    rank = len(shape)
    return w.b.permute(found, perm=[*range(axis + 1), *range(axis + 2, rank + 1), axis + 1])


def windows(w: Lowering, count: Dim, size: Dim, step: int, dilation: int = 1) -> Value:
    """The places of each window's elements: ``[count, size]``."""
    starts = w.b.unsqueeze(w.b.arange(start=0, stop=count * step, step=step, dtype=i64), axes=[1])
    places: Value = w.b.add(starts, w.b.arange(start=0, stop=size * dilation, step=dilation, dtype=i64))
    return places


# ---- together


@lowers("aten.cat", "aten.concat", "aten.concatenate")
def cat(w: Lowering, tensors: list[Value], dim: int = 0) -> Any:
    """Empty vectors are left out, as torch does."""
    kept = [each for each in w.promote(*tensors) if w.dims(each) != (0,)] or w.promote(tensors[0])
    if len(kept) == 1:
        return kept[0]
    return w.b.concat(kept, axis=w.axis(kept[0], dim))


@lowers("aten.stack")
def stack(w: Lowering, tensors: list[Value], dim: int = 0) -> Any:
    axis = w.axis_in(w.rank(tensors[0]) + 1, dim)
    parts = [w.b.unsqueeze(each, axes=[axis]) for each in w.promote(*tensors)]
    return parts[0] if len(parts) == 1 else w.b.concat(parts, axis=axis)


def _stacked(name: str, count: int, axis_of: dict[int, int], default: int) -> None:
    def lowering(w: Lowering, tensors: list[Value]) -> Any:
        lifted = [LOWERINGS[f"aten.atleast_{count}d.default"](w, each) for each in tensors]
        return cat(w, lifted, axis_of.get(w.rank(lifted[0]), default))

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}")(lowering)


_stacked("hstack", 1, {1: 0}, 1)
_stacked("vstack", 2, {}, 0)
_stacked("row_stack", 2, {}, 0)
_stacked("dstack", 3, {}, 2)


@lowers("aten.column_stack")
def column_stack(w: Lowering, tensors: list[Value]) -> Any:
    columns = [each if w.rank(each) > 1 else reshape(w, each, [*w.dims(each), *[1] * (2 - w.rank(each))]) for each in tensors]
    return cat(w, columns, 1)


@lowers("aten.block_diag")
def block_diag(w: Lowering, tensors: list[Value]) -> Any:
    """Matrices along the diagonal, zeros beside them; vectors are rows."""
    blocks = [reshape(w, each, (1,) * (2 - w.rank(each)) + w.dims(each)) for each in w.promote(*tensors)]
    widths = [w.dims(block)[1] for block in blocks]
    before: Dim = 0
    rows = []
    for block, width in zip(blocks, widths, strict=True):
        rows.append(pad(w, block, [before, sum(widths) - before - width]))
        before = before + width
    return rows[0] if len(rows) == 1 else w.b.concat(rows, axis=0)


# ---- around

_MODES: Final = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@lowers("aten.pad")
def pad(w: Lowering, x: Value, pad: Sequence[Dim], mode: str = "constant", value: Scalar | None = None) -> Any:
    """`pad` has a pair for each axis, the last axis first; a negative amount takes elements away."""
    shape = w.dims(x)
    before: list[Dim] = [0] * len(shape)
    after: list[Dim] = [0] * len(shape)
    for number, amount in enumerate(pad):
        (after if number % 2 else before)[len(shape) - 1 - number // 2] = amount
    cuts: list[tuple[int, Dim, Dim]] = []
    wraps = mode == "circular"
    for axis, size in enumerate(shape):
        wanted = size + before[axis] + after[axis]
        start, end = (_taken(w, amount, mode == "constant") for amount in (before[axis], after[axis]))
        before[axis], after[axis] = before[axis] + start, after[axis] + end
        if not all(amount.__class__ is int and amount == 0 for amount in (start, end)):
            if not w.decide(">=", wanted, 0):
                w.unsupported(f"{wanted} elements would be left of {size}")
            cuts.append((axis, start, size - end if wraps else start + wanted))
    if wraps:  # only what is left is repeated; other modes repeat what is taken away, too
        x = _cut(w, x, cuts)
        for axis, _, _ in cuts:
            left = w.dims(x)[axis]
            for amount in (before[axis], after[axis]):
                if not w.decide("<=", amount, left):  # torch itself asks this of the whole axis only
                    w.unsupported(f"circular padding of {amount} around {left} elements, which torch leaves unwritten")
    if not all(amount.__class__ is int and amount == 0 for amount in (*before, *after)):
        fill = w.tensor(0 if value is None else value, x.tensor.dtype) if mode == "constant" else None
        x = w.b.pad(x, fill, before=before, after=after, mode=_MODES[mode])
    return x if wraps else _cut(w, x, cuts)


def _cut(w: Lowering, x: Value, cuts: list[tuple[int, Dim, Dim]]) -> Value:
    """Of some axes, what is between a start and an end."""
    for axis, start, end in cuts:
        x = part(w, x, axis, start, end)
    return x


def _taken(w: Lowering, amount: Dim, either: bool) -> Dim:
    """How many elements an amount of padding takes away.

    Args:
        w: the lowering.
        amount: the amount.
        either: where its sign is not known, it is left open.
    """
    lo, hi = bounds(amount)
    if lo >= 0:
        return 0
    negative = True if hi < 0 else w.always("<", amount, 0)
    if negative is None and either:
        return maximum(-amount, 0)
    return -amount if negative or (negative is None and w.decide("<", amount, 0)) else 0


@lowers("aten.constant_pad_nd")
def constant_pad_nd(w: Lowering, x: Value, padding: Sequence[Dim], value: Scalar = 0) -> Any:
    return pad(w, x, padding, "constant", value)


def _padding(mode: str, *names: str) -> None:
    def lowering(w: Lowering, x: Value, padding: Sequence[Dim]) -> Any:
        return pad(w, x, padding, mode)

    lowering.__qualname__ = lowering.__name__ = mode
    lowers(*(f"aten.{name}" for name in names))(lowering)


_padding("reflect", *(f"reflection_pad{count}d" for count in (1, 2, 3)))
_padding("replicate", *(f"replication_pad{count}d" for count in (1, 2, 3)))
_padding("circular", "_pad_circular")


# ---- parts replaced


@lowers("aten.slice_scatter")
def slice_scatter(
    w: Lowering, x: Value, src: Value, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: Dim = 1,
) -> Any:  # fmt: skip
    axis = w.axis(x, dim)
    size = w.dims(x)[axis]
    first, last = w.clamp(size, start, end)
    stride = integer(w, step, "a step")
    if stride == 1 and first == 0 and last == size:
        return w.cast(src, x.tensor.dtype)
    shape = (*w.dims(x)[:axis], ceildiv(last - first, stride), *w.dims(x)[axis + 1 :])
    update = expand(w, w.cast(src, x.tensor.dtype), shape)
    return w.b.slice_update(x, update, axes=[axis], starts=[first], ends=[last], steps=[stride])


@lowers("aten.select_scatter")
def select_scatter(w: Lowering, x: Value, src: Value, dim: int, index: Dim) -> Any:
    axis = w.axis(x, dim)
    first = place(w, w.dims(x)[axis], index)
    shape = w.dims(x)
    update = expand(w, w.cast(src, x.tensor.dtype), shape[:axis] + shape[axis + 1 :])
    update = w.b.unsqueeze(update, axes=[axis])
    return w.b.slice_update(x, update, axes=[axis], starts=[first], ends=[first + 1], steps=[1])
