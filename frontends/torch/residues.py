"""Branches on whether a size is a multiple of a number, where what one branch adds does nothing in the other case.

``if padding > 0: x = pad(x)`` with ``padding = (-S) % 4``: the graph of this branch pads by nothing where S is a multiple of
4, and so may be right there too. The model is watched at multiples, with ``S = 4*q``; where both graphs compute the same
once steps that do nothing are left out, the branch says nothing about the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from isthmus.frontends.torch.second import Once, Watch
from isthmus.ir import dims
from isthmus.ir.attributes import map_dims
from isthmus.ir.dims import Dim, Expr, Function, Symbol, substitute, symbols
from isthmus.ir.errors import IsthmusError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Trait
from isthmus.ir.symbols import Assumption, Symbols
from isthmus.ir.types import Tensor
from isthmus.ir.weights import Weight

_SMALL: Final = 1 << 12
"""Weights up to so many elements are the same where their content is, greater ones where they are one and the same."""


MOST: Final = 4
"""The number of such branches that are looked at: each takes a watch or two."""


@dataclass(frozen=True)
class Multiples:
    """The sizes ``factor*q + base + r`` of a dynamic size, with ``0 <= r < spread``.

    Attributes:
        name: the size.
        factor, base, spread: as above.
    """

    name: str
    factor: int
    base: int
    spread: int

    def join(self, table: Symbols, size: int) -> list[Symbol]:
        """Says in a graph's table that the size is one of these; gives the symbols that it is made of."""
        symbol = table.by_name[self.name]
        quotient, rest = divmod(size - self.base, self.factor)
        least = -(-(int(symbol.lo) - self.base) // self.factor)
        made = [table.declare(f"{self.name}_quotient", least, dims.INF, quotient)]
        joined = made[0].dim * self.factor + self.base
        if self.spread > 1:
            made.append(table.declare(f"{self.name}_rest", 0, self.spread - 1, rest))
            joined = joined + made[1].dim
        symbol.joined = joined
        return made

    def nearby(self, size: int) -> int:
        """The least of these sizes that is not below another one."""
        return self.base + self.factor * -(-(size - self.base) // self.factor)


Dropped: TypeAlias = tuple[Assumption, Multiples]
"""An assumption, and the sizes at which it does not hold."""


def settle(first: Watch, once: Once) -> Watch:
    """Drops assumptions that a size is no multiple, or is one, where they say nothing about the model.

    Args:
        first: the first watch.
        once: watches again.

    Returns:
        The first watch, or another in its place: of the branch that may hold for all sizes.
    """
    tried: set[Multiples] = set()
    done: list[Dropped] = []
    for _ in range(MOST):
        found = next((each for each in _found(first) if each[1] not in tried), None)
        if found is None:
            break
        assumption, multiples, rest = found
        tried.add(multiples)
        general: Watch | None = first
        if not rest:
            general = _with_rest(first, once, multiples)
            asked = [] if general is None else [each for each in _found(general) if each[1:] == (multiples, True)]
            if len(asked) != 1:
                continue
            assumption = asked[0][0]
        before = done if general is first else []
        if general is not None and _same_at(general, once, (assumption, multiples), before):
            if general is not first:
                first, tried = general, {multiples}
            done = [*before, (assumption, multiples)]
            table = first.graph.symbols
            table.assumptions = _others(first, assumption)
            table.remember()
            first.dropped.append(assumption)
            symbol = table.by_name[multiples.name]
            # Below the first multiple nothing was watched.
            least = multiples.nearby(int(symbol.lo)) - multiples.factor + multiples.spread
            first.limits.append((symbol, least, assumption.location))
    return first


def _others(watch: Watch, assumption: Assumption) -> list[Assumption]:
    return [other for other in watch.graph.symbols.assumptions if other is not assumption]


def _found(watch: Watch) -> Iterator[tuple[Assumption, Multiples, bool]]:
    """What is assumed of remainders, and whether there has to be one."""
    for assumption in watch.graph.symbols.assumptions:
        rest = _RELATIONS.get((assumption.relation, str(assumption.right)))
        multiples = _multiples(assumption.left)
        symbol = None if multiples is None else watch.graph.symbols.by_name[multiples.name]
        if rest is not None and multiples is not None and symbol in watch.watcher.sizes.declared and symbol.joined is None:
            yield assumption, multiples, rest


_RELATIONS: Final = {
    (">", "0"): True, ("!=", "0"): True, (">=", "1"): True, ("<=", "0"): False, ("==", "0"): False, ("<", "1"): False,
}  # fmt: skip


def _alone(dim: Dim) -> tuple[Any, int, int] | None:
    """`atom`, `sign` and `constant` of ``sign * atom + constant``; None for another dim."""
    terms = [] if isinstance(dim, int) else [(monomial, factor) for monomial, factor in dim.terms if monomial]
    if len(terms) != 1 or len(terms[0][0]) != 1 or abs(terms[0][1]) != 1:
        return None
    assert isinstance(dim, Expr)
    return terms[0][0][0], terms[0][1], dict(dim.terms).get((), 0)


def _multiples(dim: Dim) -> Multiples | None:
    """Where a remainder such as ``(-(S//2)) % 4`` is 0; None for what is no remainder, or one that is not followed."""
    remainder = _alone(dim)
    if remainder is None or remainder[1:] != (1, 0) or not isinstance(remainder[0], Function) or remainder[0].kind != "mod":
        return None
    dividend, divisor = remainder[0].args
    inner = _alone(dividend)
    if inner is None or not isinstance(divisor, int) or divisor < 2:
        return None
    atom, sign, constant = inner
    step, shift = 1, 0
    if isinstance(atom, Function):
        within = _alone(atom.args[0]) if atom.kind == "floordiv" else None
        if within is None or within[1] != 1 or not isinstance(atom.args[1], int) or atom.args[1] < 1:
            return None
        step = atom.args[1]
        atom, _, shift = within
    if not isinstance(atom, Symbol):
        return None
    return Multiples(atom.name, step * divisor, step * (-sign * constant % divisor) - shift, step)


def _hints(watch: Watch) -> dict[str, int]:
    return {symbol.name: int(symbol.hint or 1) for symbol in watch.watcher.sizes.declared}


def _hold(kept: list[Assumption], table: Symbols, hints: Mapping[str, int]) -> bool:
    """Whether what is assumed of declared sizes holds at some."""
    values = {table.by_name[name]: size for name, size in hints.items()}
    for assumption in kept:
        known = {s for dim in (assumption.left, assumption.right) for s in symbols(dims.resolve(dim))} <= set(values)
        if known and not assumption.holds(values):
            return False
    return True


def _with_rest(first: Watch, once: Once, multiples: Multiples) -> Watch | None:
    """A watch at a size that is no multiple, where it takes no more for granted."""
    hints = _hints(first)
    hints[multiples.name] = multiples.nearby(hints[multiples.name]) + multiples.spread
    try:
        other = once(hints, {}, ())
    except IsthmusError:
        return None
    most = len(first.graph.symbols.assumptions) + len(first.dropped)
    return other if len(other.graph.symbols.assumptions) <= most else None


def _same_at(first: Watch, once: Once, new: Dropped, before: list[Dropped]) -> bool:
    """Whether the model computes what the graph says at multiples as well.

    Args:
        new: an assumption, and the multiples at which it does not hold.
        before: others that were dropped; every combination is watched.
    """
    kept = _others(first, new[0])
    for count in range(len(before) + 1):
        for chosen in itertools.combinations(before, count):
            rest = [assumption for assumption, multiples in before if (assumption, multiples) not in chosen]
            if not _same_where(first, once, [new[1], *(multiples for _, multiples in chosen)], kept + rest):
                return False
    return True


def _same_where(first: Watch, once: Once, all_of: list[Multiples], kept: list[Assumption]) -> bool:
    """The same where all of some sizes are multiples, and what is kept of the assumptions holds."""
    mine = first.graph.symbols
    hints = _hints(first)
    for multiples in all_of:
        hints[multiples.name] = multiples.nearby(hints[multiples.name])
    if len({multiples.name for multiples in all_of}) < len(all_of) or not _hold(kept, mine, hints):
        return False
    try:
        other = once(hints, {}, (), all_of)
    except IsthmusError:  # the model says no to such sizes
        return False
    theirs = other.graph.symbols
    values = {mine.by_name[each.name]: dims.resolve(theirs.by_name[each.name].dim) for each in all_of}
    granted = {f"{substitute(a.left, values)} {a.relation} {substitute(a.right, values)}" for a in kept}
    if not {str(assumption) for assumption in theirs.assumptions} <= granted:
        return False
    numbers: dict[Any, int] = {}
    found = _computed(first.graph, values, numbers)
    return found is not None and found == _computed(other.graph, {}, numbers)


# ---- what a graph computes


def _computed(graph: Graph, values: Mapping[Symbol, Dim], numbers: dict[Any, int]) -> list[int] | None:
    """A number for each output, the same for outputs that are computed in the same way; None where that is not followed.

    Args:
        graph: the graph.
        values: what symbols stand for.
        numbers: the number of each way; added to.
    """

    def change(dim: Dim) -> Dim:
        return dims.simplify(substitute(dims.resolve(dim), values))

    known: dict[Value, int] = {}
    for place, value in enumerate(graph.inputs):
        known[value] = numbers.setdefault(("input", place), len(numbers))
    for node in graph.nodes:
        if node.regions or Trait.PURE not in node.op.traits:
            return None
        operands = [None if operand is None else known[operand] for operand in node.operands]
        attrs = {
            name: _content(item) if isinstance(item, Weight) else map_dims(item, change) for name, item in node.attrs.items()
        }
        if operands and operands[0] is not None and _does_nothing(node, change):
            known[node.results[0]] = operands[0]
            continue
        way = (node.op.name, tuple(operands), str(sorted(attrs.items())))
        for result in node.results:
            known[result] = numbers.setdefault((way, result.index), len(numbers))
    return [known[value] for value in graph.outputs]


def _content(weight: Weight) -> Any:
    return weight.key if weight.size > _SMALL else (str(weight.dtype), weight.shape, weight.array().tobytes())


def _does_nothing(node: Node, change: Callable[[Dim], Dim]) -> bool:
    """Whether a node gives its first operand as it is, with other dims in place of its own."""
    x, result = node.operands[0], node.results[0]
    if x is None or Trait.IDENTITY not in node.op.traits:
        return False
    left, right = x.type, result.type
    if not isinstance(left, Tensor) or not isinstance(right, Tensor) or left.shape is None or right.shape is None:
        return left == right
    return left.dtype is right.dtype and tuple(map(change, left.shape)) == tuple(map(change, right.shape))
