"""Rules for what is taken apart or turned, and put together or turned back: elementwise arithmetic between does not need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Trait
from isthmus.passes.chains import part
from isthmus.passes.keys import attrs_key, weight_key
from isthmus.passes.rules import on, sole_producer

MOST_NUMBERS: Final = 64
"""Numbers that differ from part to part become one constant of at most so many elements."""


def _place(node: Node | None) -> int | None:
    """Which operand an elementwise node computes with single numbers, where that is all that it does."""
    if node is None or Trait.ELEMENTWISE not in node.op.traits or Trait.PURE not in node.op.traits or len(node.results) != 1:
        return None
    places = [place for place, value in enumerate(node.operands) if value is not None and value.tensor.shape != ()]
    return places[0] if len(places) == 1 else None


def _undoes(b: Builder, node: Node, first: Node) -> bool:
    """Whether a node leads back to the shape and order before another one."""
    if Trait.LAYOUT in node.op.traits and Trait.LAYOUT in first.op.traits:
        x = first.operands[0]
        old, new = None if x is None else x.tensor.shape, node.results[0].tensor.shape
        if old is None or new is None or len(old) != len(new):
            return False
        return all(b.graph.symbols.same(*pair) is True for pair in zip(old, new, strict=True))
    if node.op.name == first.op.name == "permute":
        perm = first.attrs["perm"]
        return all(perm[axis] == place for place, axis in enumerate(node.attrs["perm"]))
    return False


@on("permute", Trait.LAYOUT, behind=Trait.ELEMENTWISE)
def undone(b: Builder, node: Node) -> Any:
    """Another shape or order of axes, for arithmetic that treats all elements alike, and back."""
    steps: list[tuple[Node, int]] = []
    value = node.operands[0]
    while (step := sole_producer(value)) is not None and (place := _place(step)) is not None:
        steps.append((step, place))
        value = step.operands[place]
    first = None if value is None else value.producer
    if not steps or first is None or not _undoes(b, node, first):
        return None
    x: Any = first.operands[0]
    for step, place in reversed(steps):
        x = _again(b, step, place, x)
    return x


def _again(b: Builder, step: Node, place: int, x: Value, others: Sequence[Value | None] | None = None) -> Any:
    """The step's result on another value, with other numbers where these are given."""
    operands = list(step.operands if others is None else others)
    operands[place] = x
    return b.emit(step.op, operands, step.attrs).result


@on("concat")
def same_to_all_parts(b: Builder, node: Node) -> Any:
    """Parts of one value that undergo the same arithmetic, with numbers of their own, and are put together again."""
    axis, rank = node.attrs["axis"], node.results[0].tensor.rank
    parts = list(node.operands)
    steps: list[tuple[Node, int, list[Value | None]]] = []
    while (found := _alike(b, parts, axis % max(rank, 1))) is not None:
        steps.append(found)
        parts = [_operand(each, found[1]) for each in parts]
    sources = {part(each, axis % rank, rank)[0] for each in parts} if steps else {None}
    if len(sources) != 1 or None in sources:  # else the ops may be better off with what made the parts
        return None
    x: Any = b.concat(parts, axis=axis)
    for step, place, others in reversed(steps):
        x = _again(b, step, place, x, others)
    return x


def _operand(value: Value | None, place: int) -> Value | None:
    """What the node that makes a value works on."""
    node = None if value is None else value.producer
    return None if node is None else node.operands[place]


def _alike(b: Builder, parts: list[Value | None], axis: int) -> tuple[Node, int, list[Value | None]] | None:
    """The step that all parts come from, which of its operands goes on, and the numbers that are its others."""
    steps = [sole_producer(each) for each in parts]
    first = steps[0]
    place = _place(first)
    if len(parts) < 2 or first is None or place is None:
        return None
    rows: list[tuple[Value | None, ...]] = []
    for step in steps:
        if step is None or step.op is not first.op or _place(step) != place or attrs_key(step.attrs) != attrs_key(first.attrs):
            return None
        rows.append(tuple(step.operands))
    others: list[Value | None] = []
    for column, values in enumerate(zip(*rows, strict=True)):
        found = values[0] if column == place else _numbers(b, values, [each and each.tensor.shape for each in parts], axis)
        if found is None and values[0] is not None:
            return None
        others.append(found)
    return first, place, others


def _numbers(b: Builder, values: Sequence[Value | None], shapes: Sequence[Any], axis: int) -> Value | None:
    """The numbers of all parts: one where they are the same, else one for each place along the axis."""
    if all(value is values[0] for value in values):
        return values[0]
    weights = [value.weight for value in values if value is not None]
    held = [weight for weight in weights if weight is not None]
    if len(held) != len(values):
        return None
    if len({weight_key(weight) for weight in held}) == 1:
        return values[0]
    sizes = [0 if shape is None else shape[axis] for shape in shapes]
    if any(size.__class__ is not int for size in sizes) or sum(sizes) > MOST_NUMBERS or held[0].dtype.kind == "string":
        return None
    line = np.concatenate([np.broadcast_to(weight.array(), size) for weight, size in zip(held, sizes, strict=True)])
    return b.constant(line.reshape([-1] + [1] * (len(shapes[0]) - 1 - axis)))


ROUND_TRIPS: Final = (undone, same_to_all_parts)
