"""Rules that make one op of two in a row: reshapes, permutations, slices, casts, expansions, concatenations."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import DType, bool_, f8e8m0
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Trait
from isthmus.ir.symbols import Symbols
from isthmus.passes.rules import on, sole_producer


def _before(node: Node, name: str, index: int = 0) -> Node | None:
    """The producer of the first operand, or of another one, when it is of this op."""
    x = node.operands[index]
    source = None if x is None else x.producer
    return source if source is not None and source.op.name == name else None


def _shape(value: Value | None) -> tuple[Dim, ...] | None:
    return getattr(value.type, "shape", None) if value is not None else None


@on(Trait.LAYOUT)
def layout(b: Builder, node: Node) -> Any:
    """Changes of shape one after the other are one; one that only adds or drops sizes of 1 is an `unsqueeze` or `squeeze`."""
    x = node.operands[0]
    while x is not None and x.producer is not None and Trait.LAYOUT in x.producer.op.traits:
        x = x.producer.operands[0]
    old, new = _shape(x), _shape(node.results[0])
    if x is None or old is None or new is None:
        return None
    symbols = b.graph.symbols
    form = _layout_form(symbols, old, new)
    if x is node.operands[0] and form is not None and form[0] == node.op.name:
        return None
    if form is None:
        provable = old == new or symbols.same(product(old), product(new)) is True
        done = x is node.operands[0] and node.op.name == "reshape"
        return b.reshape(x, shape=new) if provable and not done else None
    name, axes = form
    return b.squeeze(x, axes=axes) if name == "squeeze" else b.unsqueeze(x, axes=axes)


def _layout_form(symbols: Symbols, old: tuple[Dim, ...], new: tuple[Dim, ...]) -> tuple[str, list[int]] | None:
    """The `squeeze` or `unsqueeze` that leads from one shape to the other, where there is one."""
    if len(old) == len(new):
        return None
    short, long = sorted((old, new), key=len)
    axes = []
    place = 0
    for axis, dim in enumerate(long):
        if place < len(short) and symbols.same(short[place], dim) is True:
            place += 1
        elif dim.__class__ is int and dim == 1:
            axes.append(axis)
        else:
            return None
    if place != len(short):
        return None
    return ("squeeze" if long is old else "unsqueeze"), axes


@on("max_unpool", behind="unsqueeze")
def thin_unpool(b: Builder, node: Node) -> Any:
    """An unpool along an axis of size 1 that its operands were given for it, as torch writes one along a line."""
    shape = node.attrs["shape"]
    x, indices = _before(node, "unsqueeze"), _before(node, "unsqueeze", 1)
    if x is None or indices is None:
        return None
    axes = set(x.attrs["axes"]) & set(indices.attrs["axes"])
    gone = [axis for axis, size in enumerate(shape, 2) if axis in axes and size.__class__ is int and size == 1]
    if not gone or len(gone) == len(shape):
        return None
    rest = [size for axis, size in enumerate(shape, 2) if axis not in gone]
    thin = b.max_unpool(*(b.squeeze(x, axes=gone) for x in node.operands), shape=rest, convention=node.attrs["convention"])
    return b.unsqueeze(thin, axes=gone)


@on("permute")
def permutations(b: Builder, node: Node) -> Any:
    """Two permutations are one; one that moves only sizes of 1 is a `reshape`."""
    inner = _before(node, "permute")
    perm = node.attrs["perm"]
    if inner is not None:
        return b.permute(inner.operands[0], perm=[inner.attrs["perm"][axis] for axis in perm])
    shape = _shape(node.operands[0])
    if shape is None:
        return None
    moved = [axis for axis in perm if not (shape[axis].__class__ is int and shape[axis] == 1)]
    if moved == sorted(moved):
        return b.reshape(node.operands[0], shape=[shape[axis] for axis in perm])
    return None


@on(Trait.LAYOUT, behind="permute")
def split_axes(b: Builder, node: Node) -> Any:
    """A change of shape, a permutation, and one that splits axes: the axes may be split at once, before the permutation."""
    inner = _before(node, "permute")
    first = inner.operands[0].producer if inner is not None and inner.operands[0] is not None else None
    if inner is None or first is None or Trait.LAYOUT not in first.op.traits:
        return None
    if len(inner.results[0].uses) != 1 or len(first.results[0].uses) != 1:
        return None
    x, perm, same = first.operands[0], inner.attrs["perm"], b.graph.symbols.same
    old, between, new = _shape(x), _shape(inner.results[0]), _shape(node.results[0])
    groups = None if between is None or new is None else _splits(b.graph.symbols, between, new)
    if groups is None or old is None:
        return None
    shape: list[Dim] = []
    places: dict[int, range] = {}
    for axis in range(len(perm)):
        group = groups[perm.index(axis)]
        places[axis] = range(len(shape), len(shape) + len(group))
        shape += group
    if same(product(old), product(shape)) is not True:
        return None
    return b.permute(b.reshape(x, shape=shape), perm=[place for axis in perm for place in places[axis]])


def _splits(symbols: Symbols, old: tuple[Dim, ...], new: tuple[Dim, ...]) -> list[list[Dim]] | None:
    """For each axis the sizes that it is split into, when a change of shape only splits axes."""
    groups: list[list[Dim]] = []
    rest = list(reversed(new))
    for dim in old:
        group: list[Dim] = []
        while symbols.same(product(group), dim) is not True:
            if not rest:
                return None
            group.append(rest.pop())
        groups.append(group)
    if any(not (dim.__class__ is int and dim == 1) for dim in rest) or not groups:
        return None
    groups[-1] += reversed(rest)
    return groups


@on(Trait.LAYOUT, behind=lambda op: "keepdims" in op.attributes)
def kept_axes(b: Builder, node: Node) -> Any:
    """A reduction whose axes are put back with size 1, or taken away, keeps them or not by itself."""
    inner = sole_producer(node.operands[0])
    if inner is None or "keepdims" not in inner.op.attributes or len(inner.results) != 1:
        return None
    found = b.emit(inner.op, inner.operands, {**inner.attrs, "keepdims": not inner.attrs["keepdims"]}).result
    old, new = _shape(node.results[0]), _shape(found)
    if old is None or new is None or len(old) != len(new):
        return None
    return found if all(b.graph.symbols.same(*pair) is True for pair in zip(old, new, strict=True)) else None


@on("slice")
def slices(b: Builder, node: Node) -> Any:
    """A slice of a slice is one slice; axes that are kept whole are not mentioned."""
    inner = _before(node, "slice")
    source = inner.operands[0] if inner is not None else node.operands[0]
    shape, rank = _shape(source), len(_shape(node.results[0]) or ())
    if source is None or shape is None:
        return None
    parts = _parts(inner, rank) if inner is not None else {}
    for axis, (start, end, step) in _parts(node, rank).items():
        if axis in parts:
            first, _, stride = parts[axis]
            if stride != 1:
                return None
            start, end = first + start, first + end
        parts[axis] = (start, end, step)
    same = b.graph.symbols.same
    kept = [
        (axis, *part) for axis, part in sorted(parts.items())
        if part[2] != 1 or same(part[0], 0) is not True or same(part[1], shape[axis]) is not True
    ]  # fmt: skip
    if not kept or (inner is None and len(kept) == len(node.attrs["axes"])):
        return None
    axes, starts, ends, steps = zip(*kept, strict=True)
    return b.slice(source, axes=axes, starts=starts, ends=ends, steps=steps)


def _parts(node: Node, rank: int) -> dict[int, tuple[Dim, Dim, int]]:
    columns = (node.attrs[name] for name in ("axes", "starts", "ends", "steps"))
    return {axis % rank: (start, end, step) for axis, start, end, step in zip(*columns, strict=True)}


@on(Trait.LAYOUT, behind="expand")
def axes_beside_expanded(b: Builder, node: Node) -> Any:
    """Sizes of 1 that are put among expanded axes, or taken from there, may as well come and go before."""
    source = sole_producer(node.operands[0])
    x = source.operands[0] if source is not None and source.op.name == "expand" else None
    old, wide, new = _shape(x), _shape(node.operands[0]), _shape(node.results[0])
    form = None if old is None or wide is None or new is None else _layout_form(b.graph.symbols, wide, new)
    if x is None or old is None or wide is None or new is None or form is None:
        return None
    name, axes = form
    front: tuple[Dim, ...] = (1,) * (len(wide) - len(old))
    thin = (*front, *old)
    kept: list[Dim] = [dim for axis, dim in enumerate(thin) if name == "unsqueeze" or axis not in axes]
    for axis in axes if name == "unsqueeze" else ():
        kept.insert(axis, 1)
    return b.expand(b.reshape(x, shape=kept), shape=new)


@on("permute", behind="tile")
def repeated_in_order(b: Builder, node: Node) -> Any:
    """Axes that are turned, repeated and turned again may be turned at once."""
    tile = sole_producer(node.operands[0])
    x = tile.operands[0] if tile is not None and tile.op.name == "tile" else None
    first = sole_producer(x)
    if tile is None or x is None or (x.weight is None and (first is None or first.op.name != "permute")):
        return None
    perm = node.attrs["perm"]
    return b.tile(b.permute(x, perm=perm), repeats=[tile.attrs["repeats"][axis] for axis in perm])


@on("expand", behind="expand")
def expansions(b: Builder, node: Node) -> Any:
    """Two expansions are one."""
    inner = _before(node, "expand")
    return b.expand(inner.operands[0], shape=node.attrs["shape"]) if inner is not None else None


@on(Trait.ELEMENTWISE, behind=("expand", "unsqueeze"))
def implied_expansion(b: Builder, node: Node) -> Any:
    """An operand that is brought only to the shape that broadcasting gives it anyhow."""
    if Trait.COARSE in node.op.traits or len(node.operands) < 2:
        return None
    result = _shape(node.results[0])
    for index, operand in enumerate(node.operands):
        source = operand.producer if operand is not None else None
        if source is not None and result is not None and _broadcasting(source):
            operands = [*node.operands]
            operands[index] = source.operands[0]
            if _broadcast_to(b.graph.symbols, [_shape(value) for value in operands if value is not None], result):
                return b.emit(node.op, operands, node.attrs).results
    return None


def _broadcasting(node: Node) -> bool:
    """Whether a node does to its operand only what broadcasting does: repeat it, and put sizes of 1 in front."""
    if node.op.name == "expand":
        return True
    return node.op.name == "unsqueeze" and sorted(node.attrs["axes"]) == list(range(len(node.attrs["axes"])))


def _broadcast_to(symbols: Symbols, shapes: list[tuple[Dim, ...] | None], result: tuple[Dim, ...]) -> bool:
    """Whether shapes surely broadcast to the result: each of its sizes is that of one of them."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes) or max(map(len, known)) != len(result):
        return False
    return all(
        any(len(shape) >= -axis and symbols.same(shape[axis], result[axis]) is True for shape in known)
        for axis in range(-len(result), 0)
    )


@on("concat")
def concatenations(b: Builder, node: Node) -> Any:
    """A concatenation of concatenations along the same axis is one."""
    rank = len(_shape(node.results[0]) or ())
    if not rank:
        return None
    axis = node.attrs["axis"] % rank
    flat: list[Value | None] = []
    for operand in node.operands:
        source = operand.producer if operand is not None else None
        alone = operand is not None and len(operand.uses) == 1
        if source is not None and source.op is node.op and alone and source.attrs["axis"] % rank == axis:
            flat.extend(source.operands)
        else:
            flat.append(operand)
    return b.concat(flat, axis=axis) if len(flat) != len(node.operands) else None


@on("concat")
def rejoined(b: Builder, node: Node) -> Any:
    """Neighbouring parts of one value that are put together again are the value, or one part of it."""
    rank = len(_shape(node.results[0]) or ())
    axis, same = node.attrs["axis"] % max(rank, 1), b.graph.symbols.same
    runs: list[tuple[list[Value | None], Value | None, Dim, Dim]] = []  # operands, what they are parts of, from where, to where
    for operand in node.operands:
        source, start, end = part(operand, axis, rank)
        last = runs[-1] if runs else None
        if last is not None and source is not None and source is last[1] and same(last[3], start) is True:
            runs[-1] = ([*last[0], operand], source, last[2], end)
        else:
            runs.append(([operand], source, start, end))
    parts: list[Value | None] = []
    for operands, source, start, end in runs:
        size = None if source is None else (_shape(source) or ())[axis]
        if len(operands) > 1 and size is not None and same(start, 0) is True and same(end, size) is True:
            parts.append(source)
        elif len(operands) > 1 and all(len(each.producer.results) == 1 for each in operands if each and each.producer):
            parts.append(b.slice(source, axes=[axis], starts=[start], ends=[end], steps=[1]))
        else:  # a split is not done over as a slice: the rest of it is needed
            parts += operands
    if len(parts) == len(node.operands):
        return None
    return parts[0] if len(parts) == 1 else b.concat(parts, axis=axis)


def part(value: Value | None, axis: int, rank: int) -> tuple[Value | None, Dim, Dim]:
    """What a value that has no other use is a part of along an axis, with the places where it begins and ends."""
    node = sole_producer(value)
    if node is None or value is None:
        return None, 0, 0
    if node.op.name == "split" and node.attrs["axis"] % rank == axis and all(len(each.uses) == 1 for each in node.results):
        start: Dim = sum(node.attrs["sizes"][: value.index])
        return node.operands[0], start, start + node.attrs["sizes"][value.index]
    if node.op.name == "slice" and [each % rank for each in node.attrs["axes"]] == [axis] and node.attrs["steps"][0] == 1:
        return node.operands[0], node.attrs["starts"][0], node.attrs["ends"][0]
    return None, 0, 0


@on("cast", behind="cast")
def ones_and_zeros(b: Builder, node: Node) -> Any:
    """What is drawn to be 1 or 0, as truths and as numbers again."""
    inner = _before(node, "cast")
    drawn = None if inner is None or inner.attrs["dtype"] is not bool_ else _before(inner, "bernoulli")
    if drawn is None:
        return None
    x, dtype = drawn.result, node.attrs["dtype"]
    return x if x.tensor.dtype is dtype else None if dtype.kind == "string" else b.cast(x, **node.attrs)


@on("cast", behind="cast")
def casts(b: Builder, node: Node) -> Any:
    """A cast behind one that loses nothing needs only the last."""
    inner = _before(node, "cast")
    x = inner.operands[0] if inner is not None else None
    if x is None or inner is None or not lossless(x.tensor.dtype, inner.attrs["dtype"]) or node.attrs["dtype"].kind == "string":
        return None
    return x if x.tensor.dtype is node.attrs["dtype"] else b.cast(x, **node.attrs)


def lossless(source: DType, target: DType) -> bool:
    """Whether every value of one element type has its exact equal in the other.

    Unsigned integers count as fitting only into wider ones, floats into floats with no fewer bits of either kind.
    """
    if source is target:
        return True
    if source.is_integer and target.is_integer:
        grows = target.bits > source.bits
        return grows and (source.kind == target.kind or target.kind == "int")
    if source.kind == "bool":
        return target.is_integer or (target.is_float and target is not f8e8m0)  # which has no zero
    if not target.is_float or not (source.is_float or source.is_integer) or min(source.bits, target.bits) < 8:
        return False
    if target.bits < 16:  # the small floats lack infinities, signs or zeros in ways of their own
        return False
    there = ml_dtypes.finfo(target.numpy)
    if source.is_integer:
        return bool(source.bits <= there.nmant + 1)
    here = ml_dtypes.finfo(source.numpy)
    return bool(here.nmant <= there.nmant and here.maxexp <= there.maxexp and here.minexp >= there.minexp)


CHAINS: Final = (
    layout, kept_axes, thin_unpool, permutations, split_axes, slices, repeated_in_order, axes_beside_expanded, expansions,
    implied_expansion, concatenations, rejoined, ones_and_zeros, casts,
)  # fmt: skip
