"""Shape arithmetic through dims: values computed from sizes become sizes, ops shaped by data become ops shaped by sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, floordiv, known_product, maximum, product, resolve, symbols
from isthmus.ir.dtypes import i64
from isthmus.ir.errors import InferError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.ops.control import own_symbols
from isthmus.ir.ops.shape import expanded, kept
from isthmus.ir.ops.slicing import clamped
from isthmus.ir.ops.whole import Whole, told
from isthmus.ir.types import Tensor
from isthmus.passes.replace import disagreement, settle, sweep

MAX_ELEMENTS: Final = 32
"""Integer tensors up to this many elements are followed."""

Elements: TypeAlias = "tuple[Dim, ...]"
Static: TypeAlias = "Callable[[Builder, Node, list[Elements | None]], Value | None]"


class DimArithmetic:
    """Follows small integer tensors as tuples of dims, forwards and in one walk.

    A scalar that comes to a dim becomes a `size`, a tensor that comes to integers a constant; `dynamic_reshape`,
    `dynamic_expand`, `dynamic_slice` and `range` whose operands are followed become `reshape`, `expand`, `slice` and
    `arange`; a `bind` of a size that is known joins its symbol to it.

    Args:
        again: only where a size that was data has become a constant: that of a pad worked out in floats, say, is folded first.
    """

    name = "dims"

    def __init__(self, again: bool = False) -> None:
        self.again = again
        self.counts: Counter[str] = Counter()

    def apply(self, graph: Graph) -> None:
        """Rewrites, in nested graphs too."""
        if self.again and not any(map(_is_told_by_constants, graph.walk())):
            return
        known: dict[Value, Elements] = {}
        count = self.counts.total()
        for node in graph.walk():
            if node.graph is None or node.regions:
                continue
            follows = self._follow(node, known)
            if follows and node.graph.parent is not None and isinstance(node.graph.parent.op, Whole):
                for result in node.graph.parent.results:
                    if (elements := told(node.graph.parent, result.index, known.get)) is not None:
                        known[result] = elements
            if node.op.is_constant or (not follows and node.op.name not in _STATIC):
                continue
            new = self._static(node, known) or self._simple(node, known)
            if new is not None:
                if new.producer is not None and new not in known and node.results[0] in known:
                    known[new] = known[node.results[0]]
                self.counts[node.op.name] += 1
                producers = [operand.producer for operand in node.operands if operand is not None]
                holder = node.graph.parent
                node.replace_by(new)
                if node.op.name == "bind" and holder is not None and isinstance(holder.op, Whole):
                    _tell_outside(holder)
                sweep(producer for producer in producers if producer is not None)
        if self.counts.total() != count:
            settle(graph)

    def _follow(self, node: Node, known: dict[Value, Elements]) -> bool:
        """Notes the elements of the results, where they are known. True when there are some."""
        followed = [result for result in node.results if _followed(result)]
        if not followed:
            return False
        operands = [None if operand is None else known.get(operand) for operand in node.operands]
        try:
            found = node.op.infer_value(node.call(), *operands)
        except InferError:  # it comes to an expression that is too large
            return False
        for result, elements in zip(node.results, found or (), strict=False):
            if elements is not None and result in followed:
                known[result] = tuple(dim if dim.__class__ is int else resolve(dim) for dim in elements)
        return any(result in known for result in followed)

    def _builder(self, node: Node) -> Builder:
        """Builds in front of a node."""
        assert node.graph is not None
        return Builder(node.graph, node, node.location.by(f"{self.name}.{node.op.name}"))

    def _static(self, node: Node, known: dict[Value, Elements]) -> Value | None:
        """The form of a data-shaped op whose sizes are known."""
        form = _STATIC.get(node.op.name)
        if form is None:
            return None
        elements = [None if operand is None else known.get(operand) for operand in node.operands]
        before = node.previous
        try:
            new = form(self._builder(node), node, elements)
            fits = new is None or disagreement(node.results[0], new) is None
        except InferError:  # it comes to an expression that is too large
            fits = False
        if not fits:
            assert node.graph is not None
            node.graph.erase_between(before, node)
            return None
        return new

    def _simple(self, node: Node, known: dict[Value, Elements]) -> Value | None:
        """A constant or a `size` for a value that comes to dims."""
        result = node.results[0] if len(node.results) == 1 else None
        elements = known.get(result) if result is not None else None
        if result is None or elements is None or not result.uses or node.op.name == "bind" or node.op.is_constant:
            return None
        if node.op.name == "identity":
            return None  # what it is of has a name of its own
        type = result.tensor
        if all(isinstance(dim, int) for dim in elements):
            shape = tuple(int(dim) for dim in type.shape or () if isinstance(dim, int))
            return self._builder(node).constant(np.array(elements, type.dtype.numpy).reshape(shape))
        if type.shape != () or type.dtype.kind == "bool" or node.op.name == "size" or _is_cast_size(node):
            return None
        b = self._builder(node)
        value = b.size(elements[0])
        return value if type.dtype is i64 else b.cast(value, dtype=type.dtype)


def _tell_outside(whole: Node) -> None:
    """Joins the sizes of the results to those of the body that are no longer its own: they are of the same tensors."""
    assert whole.graph is not None
    (body,) = whole.regions
    own = own_symbols(body, [])
    for result, output in zip(whole.results, body.outputs, strict=True):
        if isinstance(result.type, Tensor) and isinstance(output.type, Tensor):
            for outer, inner in zip(result.type.shape or (), output.type.shape or (), strict=True):
                if own.isdisjoint(symbols(resolve(inner))):
                    whole.graph.symbols.know(outer, resolve(inner))


def _is_cast_size(node: Node) -> bool:
    """Whether this is what `_simple` would make."""
    source = node.operands[0].producer if node.op.name == "cast" and node.operands[0] is not None else None
    return source is not None and source.op.name == "size"


def _followed(value: Value) -> bool:
    type = value.type
    if not isinstance(type, Tensor) or not (type.dtype.is_integer or type.dtype.kind == "bool") or type.shape is None:
        return False
    elements = known_product(type.shape)
    return elements is not None and elements <= MAX_ELEMENTS


def _reshape(b: Builder, node: Node, elements: list[Elements | None]) -> Value | None:
    x, (_, asked) = node.operands[0], elements
    if asked is None or x is None or x.tensor.shape is None:
        return None
    shape: list[Any] = kept(asked, x.tensor.shape) if node.attrs["keep"] else list(asked)
    holes = [axis for axis, dim in enumerate(shape) if dim.__class__ is int and dim == -1]
    if len(holes) > 1 or any(bounds(dim)[0] < 0 for axis, dim in enumerate(shape) if axis not in holes):
        return None
    if holes:
        rest = product([dim for axis, dim in enumerate(shape) if axis not in holes])
        if bounds(rest)[0] <= 0:
            return None
        shape[holes[0]] = floordiv(product(x.tensor.shape), rest)
    value: Value = b.reshape(x, shape=shape)
    return value


def _expand(b: Builder, node: Node, elements: list[Elements | None]) -> Value | None:
    x, (_, asked) = node.operands[0], elements
    if asked is None or x is None or x.tensor.shape is None:
        return None
    shape = expanded(x.tensor.shape, asked)
    value: Value | None = None if shape is None else b.expand(x, shape=shape)
    return value


def _slice(b: Builder, node: Node, elements: list[Elements | None]) -> Value | None:
    x, steps, (_, lows, highs) = node.operands[0], node.attrs["steps"], elements
    if lows is None or highs is None or x is None or x.tensor.shape is None or any(step < 1 for step in steps):
        return None
    axes = [axis % x.tensor.rank for axis in node.attrs["axes"]]
    starts, ends = [], []
    for axis, low, high in zip(axes, lows, highs, strict=True):
        start, end = clamped(low, x.tensor.shape[axis]), clamped(high, x.tensor.shape[axis])
        if start is None or end is None:
            return None
        starts.append(start)
        ends.append(maximum(start, end))
    value: Value = b.slice(x, axes=axes, starts=starts, ends=ends, steps=steps)
    return value


def _range(b: Builder, node: Node, elements: list[Elements | None]) -> Value | None:
    if None in elements:
        return None
    (start,), (stop,), (step,) = elements  # type: ignore[misc]
    if not isinstance(step, int) or step == 0:
        return None
    value: Value = b.arange(start=start, stop=stop, step=step, dtype=node.results[0].tensor.dtype)
    return value


def _bind(b: Builder, node: Node, elements: list[Elements | None]) -> Value | None:
    symbol: Any = node.attrs["symbol"]
    if elements[0] is None or symbol.joined is not None or symbol in symbols(elements[0][0]):
        return None
    symbol.joined = elements[0][0]
    return node.operands[0]


def _is_told_by_constants(node: Node) -> bool:
    """Whether constants say the sizes of a data-shaped op."""
    if node.op.name not in _STATIC:
        return False
    return all(operand is not None and operand.weight is not None for operand in node.operands[1:] or node.operands)


_STATIC: Final[dict[str, Static]] = {
    "dynamic_reshape": _reshape, "dynamic_expand": _expand, "dynamic_slice": _slice, "range": _range, "bind": _bind,
}  # fmt: skip

