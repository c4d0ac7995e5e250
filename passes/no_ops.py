"""Rules that take away what does nothing, told by traits where one says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, Expr
from isthmus.ir.graph import Node, Value, clone_node
from isthmus.ir.op import Operand, Trait
from isthmus.ir.types import Tensor
from isthmus.passes.keys import attrs_key
from isthmus.passes.rules import on, sole_producer

LOOKED_INTO: Final = 1 << 20
"""Constants of up to so many bytes are looked into."""


def _zeros(dims: tuple[Dim, ...]) -> bool:
    return all(dim.__class__ is int and dim == 0 for dim in dims)


def _ones(dims: tuple[Dim | float, ...]) -> bool:
    return all(dim.__class__ is not Expr and dim == 1 for dim in dims)


_NOTHING: Final[dict[str, Callable[[Node], bool]]] = {
    "permute": lambda node: list(node.attrs["perm"]) == sorted(node.attrs["perm"]),
    "flip": lambda node: not node.attrs["axes"],
    "roll": lambda node: _zeros(node.attrs["shifts"]),
    "concat": lambda node: len(node.operands) == 1,
    "split": lambda node: len(node.results) == 1,
    "clip": lambda node: node.operands[1] is None and node.operands[2] is None,
    "resize": lambda node: node.attrs["scales"] is None or _ones(node.attrs["scales"]),
    "max_pool": lambda node: _ones(node.attrs["kernel"]) and _ones(node.attrs["strides"]),
}
"""When an op that may move elements gives its first operand back, provided that the result has the operand's type."""


@on(Trait.IDENTITY, *_NOTHING)
def nothing(b: Builder, node: Node) -> Any:
    """An op that gives its operand back: a cast to the same type, a slice of the whole, a pad by nothing, ..."""
    same = Trait.IDENTITY in node.op.traits or _NOTHING[node.op.name](node)
    x = node.operands[0]
    return x if same and x is not None and _same_type(node, x) else None


def _same_type(node: Node, x: Value) -> bool:
    left, right = node.results[0].type, x.type
    if left == right:
        return True
    shapes = getattr(left, "shape", None), getattr(right, "shape", None)
    if node.graph is None or None in shapes or len(shapes[0]) != len(shapes[1]):  # type: ignore[arg-type]
        return False
    same = node.graph.symbols.same
    return node.results[0].tensor.dtype is x.tensor.dtype and all(same(a, c) is True for a, c in zip(*shapes, strict=True))  # type: ignore[arg-type]


_NEUTRAL: Final[dict[str, tuple[float, bool]]] = {
    "add": (0, True),
    "sub": (0, False),
    "mul": (1, True),
    "div": (1, False),
    "pow": (1, False),
    "logical_and": (True, True),
    "logical_or": (False, True),
    "logical_xor": (False, True),
    "bit_or": (0, True),
    "bit_xor": (0, True),
    "shift_left": (0, False),
    "shift_right": (0, False),
}
"""The constant that changes nothing, and whether it may be the first operand too."""


@on(*_NEUTRAL)
def neutral(b: Builder, node: Node) -> Any:
    """``x + 0``, ``x * 1``, ``x / 1``: x, repeated where the other operand was larger.

    It is x bit for bit but for one thing: ``-0.0 + 0.0`` is 0.0, and becomes -0.0, which is equal to it.
    """
    wanted, either = _NEUTRAL[node.op.name]
    x, y = node.operands
    if x is None or y is None:
        return None
    kept = x if _is(y, wanted) else y if either and _is(x, wanted) else None
    if kept is None or _same_type(node, kept):
        return kept
    return b.expand(kept, shape=node.results[0].tensor.shape)


_DEFAULTS: Final = {"bias": 0, "scale": 1, "hidden": 0, "cell": 0, "value": 0, "zero": 0}
"""Optional operands, and the number that they may as well be absent for."""


def _default(row: Operand) -> int | None:
    return _DEFAULTS.get(row.name) if row.optional else None


@on(lambda op: any(_default(row) is not None for row in op.operands))
def neutral_parameter(b: Builder, node: Node) -> Any:
    """A bias of zeros or a scale of ones, as layers have before training, a first state of zeros, a border or a zero point
    of 0. What holds of ``x + 0.0`` holds here.
    """
    operands = list(node.operands)
    for index, row in enumerate(node.op.operands):
        default, value = _default(row), operands[index]
        if default is not None and _is(value, default) and _fits(node, value):
            operands[index] = None
    return b.emit(node.op, operands, node.attrs).results if operands != list(node.operands) else None


def _fits(node: Node, parameter: Value | None) -> bool:
    """Whether the sizes of a parameter are known of the normalized tensor too, so that none is forgotten with it."""
    x, axis = node.operands[0], node.attrs.get("axis", 1)
    if "eps" not in node.attrs or x is None or parameter is None:
        return True
    end = None if "axis" in node.attrs else 2
    return x.tensor.shape is not None and x.tensor.shape[axis:end] == parameter.tensor.shape


_MOVES: Final = frozenset(("expand", "concat", "slice", "reshape", "squeeze", "unsqueeze", "permute", "tile", "flip"))
"""Ops whose results hold their operands' elements and no others."""
_DEEPEST: Final = 8
"""So many of them are looked through."""


def _is(value: Value | None, wanted: float, depth: int = 0) -> bool:
    """Whether a value is made of a constant of this number alone."""
    if value is None:
        return False
    if value.producer is not None and value.producer.op.name in _MOVES and depth < _DEEPEST:
        return all(_is(operand, wanted, depth + 1) for operand in dict.fromkeys(value.producer.operands))
    weight = value.weight
    if weight is None or weight.dtype.kind == "string" or not 0 < weight.nbytes <= LOOKED_INTO:
        return False
    array: Any = weight.array()
    return bool(array.flat[0] == wanted) and bool(np.all(array == wanted))


@on(Trait.INVOLUTION, Trait.IDEMPOTENT)
def twice(b: Builder, node: Node) -> Any:
    """f(f(x)) is x, or f(x), where f says so of itself."""
    x = node.operands[0]
    inner = x.producer if x is not None else None
    if x is None or inner is None or inner.op is not node.op or inner.operands[1:] != node.operands[1:]:
        return None
    if attrs_key(inner.attrs) != attrs_key(node.attrs):
        return None
    return inner.operands[0] if Trait.INVOLUTION in node.op.traits else x


@on("max_pool_with_index")
def unused_index(b: Builder, node: Node) -> Any:
    """Pooling whose indices nobody reads."""
    if node.results[1].uses:
        return None
    return b.max_pool(node.operands[0], **{k: v for k, v in node.attrs.items() if k != "convention"}), None


@on("check")
def holds(b: Builder, node: Node) -> Any:
    """A check of what is known to be true."""
    cond = node.operands[0]
    return () if cond is not None and cond.weight is not None and bool(cond.weight.array().all()) else None


@on("if")
def known_branch(b: Builder, node: Node) -> Any:
    """A branch that is always taken: its nodes move out."""
    cond = node.operands[0]
    if cond is None or cond.weight is None:
        return None
    region = node.regions[0 if bool(cond.weight.array()) else 1]
    mapping: dict[Value, Value] = {}
    for inner in region.nodes:
        b.graph.insert(clone_node(inner, mapping), node)
    return [mapping.get(output, output) for output in region.outputs]


@on("optional_get", "optional_has")
def known_optional(b: Builder, node: Node) -> Any:
    """An optional of which it is known whether it holds something, as a tensor in the place of one does."""
    x = node.operands[0]
    if x is not None and isinstance(x.type, Tensor):
        return x if node.op.name == "optional_get" else b.constant(np.True_)
    source = x.producer if x is not None else None
    if source is None or source.op.name not in ("optional_some", "optional_none"):
        return None
    some = source.op.name == "optional_some"
    if node.op.name == "optional_has":
        return b.constant(np.bool_(some))
    return source.operands[0] if some else None


@on("sequence_at", "sequence_length", "sequence_concat")
def known_sequence(b: Builder, node: Node) -> Any:
    """A list of which every element is known."""
    source = node.operands[0].producer if node.operands[0] is not None else None
    if source is None or source.op.name != "sequence_construct":
        return None
    items = source.operands
    if node.op.name == "sequence_length":
        return b.constant(np.int64(len(items)))
    if node.op.name == "sequence_at":
        index = node.operands[1].weight if node.operands[1] is not None else None
        place = None if index is None else int(index.array())
        return items[place] if place is not None and -len(items) <= place < len(items) else None
    axis = node.attrs["axis"]
    ranks = {item.tensor.rank for item in items if item is not None and item.tensor.shape is not None}
    if len(ranks) != 1:
        return None
    if node.attrs["new_axis"]:
        axis %= next(iter(ranks)) + 1
        return b.concat([b.unsqueeze(item, axes=[axis]) for item in items], axis=axis)
    return b.concat(items, axis=axis)


@on("where", behind="logical_not")
def other_choice(b: Builder, node: Node) -> Any:
    """A choice by what is not true: the other way round."""
    source = node.operands[0].producer if node.operands[0] is not None else None
    if source is None or source.op.name != "logical_not":
        return None
    return b.where(source.operands[0], node.operands[2], node.operands[1])


@on("add", behind="neg")
def added_negative(b: Builder, node: Node) -> Any:
    """``-x + y``: a difference, bit for bit."""
    for left, right in (node.operands, reversed(node.operands)):
        source = sole_producer(left)
        if source is not None and source.op.name == "neg":
            return b.sub(right, source.operands[0])
    return None


NO_OPS: Final = (
    nothing, neutral, neutral_parameter, twice, other_choice, added_negative, unused_index, holds, known_branch,
    known_optional, known_sequence,
)  # fmt: skip
