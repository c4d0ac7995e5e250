"""Putting values in the place of others: types must agree, sizes found equal are joined, dead nodes go at once."""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.ir.attributes import TYPES, symbols_in
from isthmus.ir.dims import Dim, Expr, Symbol, resolve, symbols
from isthmus.ir.graph import Graph, Node, Value, type_symbols
from isthmus.ir.types import Tensor, resolved


def introduced(node: Node) -> set[Symbol]:
    """The symbols that a node may bind: those in its results' types that it does not take from anywhere."""
    found = {symbol for result in node.results for symbol in type_symbols(result.type)}
    found.update(value for value in node.attrs.values() if isinstance(value, Symbol))
    if found:
        found.difference_update(node.symbols())
        for operand in node.operands:
            if operand is not None:
                found.difference_update(type_symbols(operand.type))
    return found


def disagreement(old: Value, new: Value, newer_gives_way: bool = True) -> str | None:
    """Why `new` cannot stand for `old`, in words; None where it can.

    Where only a size stands between them that one of their nodes introduced, the two sizes are joined: they are sizes of
    the same tensor. `settle` makes that visible in all types.

    Args:
        old: the value that goes.
        new: the value that takes its place.
        newer_gives_way: of two such symbols, that of `new` is joined to that of `old`, and not the other way round.
    """
    if old.type == new.type:
        return None
    left, right = resolved(old.type), resolved(new.type)
    if left == right:
        return None
    different = f"{right} is not known to be {left}"
    if not isinstance(left, Tensor) or not isinstance(right, Tensor) or left.dtype is not right.dtype:
        return different
    if left.shape is None:
        return None
    if right.shape is None or len(left.shape) != len(right.shape):
        return different
    same = old.owner.symbols.same
    for a, b in zip(left.shape, right.shape, strict=True):
        order = ((new, b, a), (old, a, b)) if newer_gives_way else ((old, a, b), (new, b, a))
        if same(a, b) is not True and not any(_join(*sides) for sides in order):
            return different
    return None


def _join(value: Value, dim: Dim, other: Dim) -> bool:
    """Joins a dim of a value to another, where it is a symbol that the value's node introduced."""
    dim, other = resolve(dim), resolve(other)
    symbol = dim.symbol if isinstance(dim, Expr) else None
    if symbol is None or value.producer is None or symbol not in introduced(value.producer) or symbol in symbols(other):
        return False
    symbol.joined = other
    return True


def settle(graph: Graph) -> None:
    """Shows joined symbols as what they were joined to, in a graph where any still stand."""
    joined = any(symbol.joined is not None for symbol in graph.symbols.by_name.values())
    if joined and any(symbol.joined is not None for symbol in _standing(graph)):
        graph.settle()


def _standing(graph: Graph) -> Iterable[Symbol]:
    for body in graph.graphs():
        for value in body.inputs:
            yield from type_symbols(value.type)
        for node in body.nodes:
            yield from node.symbols()
            for result in node.results:
                yield from type_symbols(result.type)


def removable(node: Node) -> bool:
    """Whether a node may go as soon as nothing uses it: nothing happens in it, and no size comes from it."""
    if node.graph is None or node.regions or node.op.has_effect:
        return False
    for result in node.results:
        if result.uses:
            return False
    return not introduced(node) and not _told(node)


def _told(node: Node) -> bool:
    """Whether a node is told the types of its results, with sizes in them, which these may bind."""
    return any(kind is TYPES and symbols_in(node.attrs[name]) for name, kind in node.op.attributes.items())


def sweep(nodes: Iterable[Node]) -> tuple[list[Node], list[Value]]:
    """Erases those of some nodes that nothing needs, and then the producers of their operands, and so on.

    Returns:
        The nodes that went, and the values that stay and have fewer uses now.
    """
    work = list(nodes)
    gone: list[Node] = []
    less_used: dict[Value, None] = {}
    while work:
        node = work.pop()
        if removable(node):
            operands = [operand for operand in node.operands if operand is not None]
            node.erase()
            gone.append(node)
            less_used.update(dict.fromkeys(operands))
            work.extend(operand.producer for operand in operands if operand.producer is not None)
    return gone, [value for value in less_used if value.producer is None or value.producer.graph is not None]


def attached(node: Node) -> bool:
    """Whether a node is still part of the graph at the top: neither it nor a node around it was erased."""
    while node.graph is not None:
        if node.graph.parent is None:
            return True
        node = node.graph.parent
    return False
