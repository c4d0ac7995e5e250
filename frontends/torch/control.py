"""Nested graphs: the bodies of `torch.cond`, `while_loop`, `scan`, `associative_scan` and `map`, and modules kept whole.

Each body is watched once, into a graph of its own that may use values from around it. What it makes stays in there: what
is known of views is put back when it ends, and a tensor or size of its own that turns up outside is refused. A number
among what a body gets or gives is a size, bound where it is known: at the beginning of each turn, and after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch.utils import _pytree as pytree

from isthmus.frontends.torch import leaving
from isthmus.frontends.torch.aliases import Entry, doubt
from isthmus.frontends.torch.inputs import flatten
from isthmus.frontends.torch.tensors import Watched
from isthmus.ir import dims
from isthmus.ir.builder import Builder
from isthmus.ir.dims import INF, Bound, Dim, Symbol, symbols
from isthmus.ir.dtypes import bool_, i64
from isthmus.ir.errors import CaptureError, EvaluationError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.types import Tensor

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher


@contextmanager
def region(watcher: Watcher, name: str) -> Iterator[Graph]:
    """New nodes go into a nested graph, for a while; what holds in there only is forgotten after it."""
    w, aliases, sizes = watcher.w, watcher.aliases, watcher.sizes
    graph = Graph(name, watcher.graph.symbols)
    outer, journal, inside, items = w.b, aliases.journal, watcher.inside, watcher.items
    outside, watcher.outside = watcher.outside, None
    before = set(watcher.graph.symbols.by_name.values())
    w.b = Builder(graph, None, outer.location)
    aliases.journal, watcher.inside, watcher.items = [], {}, dict(items)
    try:
        yield graph
    finally:
        for entry, value, version in reversed(aliases.journal):
            entry.value, entry.version = value, version
        for entry in watcher.inside:
            entry.home = None
        sizes.ended.update(symbol for symbol in watcher.graph.symbols.by_name.values() if symbol not in before)
        w.b, aliases.journal, watcher.inside, watcher.items = outer, journal, inside, items
        watcher.outside = outside


def higher_order(watcher: Watcher, func: Any, args: Any, kwargs: Any) -> Any:
    """A control-flow operator.

    Raises:
        CaptureError: it is an unknown one, or its functions do not fit each other.
    """
    name = func.__name__ if hasattr(func, "__name__") else str(func)
    build = _OPERATORS.get(name)
    if build is None:
        raise CaptureError(
            f"the operator {name}, which takes functions or other operators, is not carried over",
            location=watcher.provenance.here(),
            remedy="torch.cond, while_loop, scan, associative_scan, map and flex_attention are",
        )
    return build(watcher, *args, **kwargs)


# ---- what bodies get and give


@dataclass
class _Leaf:
    """A tensor or a whole number that a body gets or gives, as it is there.

    Attributes:
        item: the tensor, int or SymInt.
        value: its value.
        lo, hi: between what a number lies.
        strides, certain: how a tensor lies; see `Entry`.
        outer: whose storage it shares, where that is a tensor from around the body.
    """

    item: Any
    value: Value
    lo: Bound = 0
    hi: Bound = 0
    strides: tuple[Dim, ...] | None = None
    certain: bool = True
    outer: Entry | None = None

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return not isinstance(self.item, torch.Tensor)

    def __str__(self) -> str:
        if self.is_number:
            return "an integer"
        shape = ", ".join(str(size) for size in self.value.tensor.shape or ())
        return f"{self.value.tensor.dtype}[{shape}]"

    def like(self, other: _Leaf) -> bool:
        """Whether both can be the same result."""
        if self.is_number or other.is_number:
            return self.is_number and other.is_number
        mine, theirs = self.value.tensor, other.value.tensor
        return mine.dtype is theirs.dtype and mine.rank == theirs.rank


def _leaf(watcher: Watcher, item: Any) -> _Leaf:
    if isinstance(item, torch.Tensor):
        entry = watcher.entry(item)
        outer = None if watcher.inside is None or entry.owner in watcher.inside else entry.owner
        return _Leaf(item, watcher.value(item), strides=entry.strides, certain=entry.certain, outer=outer)
    if item.__class__ is int or isinstance(item, torch.SymInt):
        dim = watcher.sizes.take(item)
        return _Leaf(item, watcher.w.tensor(dim, i64), *dims.bounds(dim))
    raise _error(watcher, f"a branch or the body of a loop gets or gives {item!r}", "give it tensors and integers only")


def _error(watcher: Watcher, message: str, remedy: str | None = None) -> CaptureError:
    return CaptureError(message, location=watcher.provenance.here(), remedy=remedy)


@dataclass
class _Given:
    """What a body gave: its structure, and what is in it; None where nothing is."""

    spec: pytree.TreeSpec
    leaves: list[_Leaf | None]

    @property
    def values(self) -> list[Value]:
        """The values in it."""
        return [leaf.value for leaf in self.leaves if leaf is not None]

    def rebuild(self, items: Sequence[Any]) -> Any:
        """The structure with these in it."""
        new = iter(items)
        return pytree.tree_unflatten([leaf if leaf is None else next(new) for leaf in self.leaves], self.spec)


def _run(watcher: Watcher, body: Callable[..., Any], arguments: Sequence[Any]) -> _Given:
    """Runs a body under the watcher."""
    with watcher:
        items, spec = flatten(body(*arguments))
    return _Given(spec, [None if item is None else _leaf(watcher, item) for item in items])


def _tensor(watcher: Watcher, value: Value, *leaves: _Leaf) -> Watched:
    """A tensor that is one of these at a time: it lies as they do, where all lie alike."""
    strides = leaves[0].strides
    certain = all(leaf.certain and leaf.strides == strides for leaf in leaves)
    if not watcher.sizes.ended.isdisjoint(symbol for stride in strides or () for symbol in symbols(stride)):
        strides, certain = None, False
    return watcher.tensor(value, Entry(value, strides, certain))


def _argument(watcher: Watcher, value: Value, leaf: _Leaf) -> Watched:
    """An argument of a body, which may not be written to: in one turn it is what stands outside."""
    tensor = _tensor(watcher, value, leaf)
    assert watcher.inside is not None, "a body is being watched"
    watcher.inside[tensor.entry] = False
    return tensor


# ---- branches


def _predicate(watcher: Watcher, predicate: Any) -> bool | Value:
    """A bool where it is the same for all inputs, else a scalar."""
    w = watcher.w
    if isinstance(predicate, torch.SymBool):
        return _relation(watcher, predicate.node.expr)
    if not isinstance(predicate, torch.Tensor):
        return bool(predicate)
    value = watcher.value(predicate)
    content = w.knowledge.content(value)
    if content is not None and content.size == 1:
        return bool(content.reshape(-1)[0])
    return w.cast(w.b.reshape(value, shape=[]) if w.dims(value) else value, bool_)


def _relation(watcher: Watcher, expr: Any) -> bool | Value:
    """What a `SizeNode` holds for a bool, as a scalar."""
    if isinstance(expr, bool):
        return expr
    word, left, right = expr
    b = watcher.w.b
    made: Value
    if word in _CONNECTIVES:
        made = getattr(b, _CONNECTIVES[word])(*(_scalar(watcher, _relation(watcher, part)) for part in (left, right)))
        return made
    known = watcher.sizes.known(word, left, right)
    if known is not None:
        return known
    made = getattr(b, _COMPARISONS[word])(watcher.w.tensor(left, i64), watcher.w.tensor(right, i64))
    return made


def _scalar(watcher: Watcher, predicate: bool | Value) -> Value:
    return predicate if isinstance(predicate, Value) else watcher.w.tensor(predicate, bool_)


def _cond(watcher: Watcher, predicate: Any, true: Any, false: Any, operands: Sequence[Any]) -> Any:
    taken = _predicate(watcher, predicate)
    if isinstance(taken, bool):
        with watcher:
            return (true if taken else false)(*operands)
    graphs, found = [], []
    holds = predicate.node if isinstance(predicate, torch.SymBool) else None
    for name, body, node in (("then", true, holds), ("else", false, holds and holds.sym_not())):
        with region(watcher, name) as graph, watcher.sizes.supposing(node.expr) if node else nullcontext():
            found.append(_run(watcher, body, operands))
            graph.set_outputs(found[-1].values)
        graphs.append(graph)
    then, other = found
    if then.spec != other.spec or [leaf is None for leaf in then.leaves] != [leaf is None for leaf in other.leaves]:
        raise _error(watcher, "the branches of torch.cond return different structures")
    pairs = [(a, b) for a, b in zip(then.leaves, other.leaves, strict=True) if a is not None and b is not None]
    for a, b in pairs:
        if not a.like(b):
            raise _error(watcher, f"one branch of torch.cond returns {a}, the other {b}", "return one dtype and as many dims")
    node = watcher.w.b.emit("if", [taken], {}, graphs)
    return then.rebuild([_merged(watcher, value, a, b) for value, (a, b) in zip(node.results, pairs, strict=True)])


def _merged(watcher: Watcher, value: Value, then: _Leaf, other: _Leaf) -> Any:
    """A result of a branch."""
    if not then.is_number:
        found = _tensor(watcher, value, then, other)
        for leaf in (then, other):
            if leaf.outer is not None:
                doubt(found.entry, leaf.outer, f"torch.cond at {watcher.w.b.location} gave either it or another tensor")
        return found
    if then.item.__class__ is int and other.item.__class__ is int and then.item == other.item:
        return then.item
    return leaving.bound(watcher, value, min(then.lo, other.lo), max(then.hi, other.hi))


# ---- loops


def _loop(
    watcher: Watcher, first: bool | Value, carried: Sequence[Any], scanned: Sequence[Any], body: Callable[..., Any],
    test: Callable[..., Any] | None = None,
) -> tuple[_Given, list[Any]]:  # fmt: skip
    """A loop.

    Args:
        first: whether there is a first turn; a loop over `scanned` has as many as there are elements.
        carried: what goes from turn to turn.
        scanned: what the turns get one element of each.
        body: gives the new carried values, then others, of the carried values and the slices.
        test: whether there is another turn, of the new carried values; always, while there are elements, for None.

    Returns:
        What the body gave, and in its place what the loop does: the last carried values (those before it after no turn),
        and the others along a new first axis.
    """
    table = watcher.graph.symbols
    start, whole = [_leaf(watcher, item) for item in carried], [_leaf(watcher, item) for item in scanned]
    slices = [Tensor(leaf.value.tensor.dtype, watcher.w.dims(leaf.value)[1:]) for leaf in whole]
    count, lows = len(start), [leaf.lo for leaf in start]
    hints = [watcher.sizes.hint(watcher.sizes.take(leaf.item)) if leaf.is_number else None for leaf in start]
    while True:
        known = set(table.by_name.values())
        with region(watcher, "body") as graph:
            graph.add_input(Tensor(i64, ()), "turn")
            inputs = [graph.add_input(type) for type in (*(leaf.value.type for leaf in start), *slices)]
            examples = watcher.w.knowledge.examples
            examples[graph.inputs[0]] = lambda: np.array(0)
            for value, leaf in zip(inputs, (*start, *whole), strict=True):
                examples[value] = partial(_first, watcher, leaf.value, value.index > count)
            arguments = [
                leaving.bound(watcher, value, low, hint=hint) if leaf.is_number else _argument(watcher, value, leaf)
                for leaf, value, low, hint in zip(start, inputs, lows, hints, strict=False)
            ]
            arguments += [
                _argument(watcher, value, replace(leaf, strides=None, certain=leaf.certain and leaf.strides is None))
                for leaf, value in zip(whole, inputs[count:], strict=True)
            ]
            with _supposing(watcher, test, arguments):
                given = _run(watcher, body, arguments)
            ends = given.leaves[:count]
            _check(watcher, start, ends, known)
            with watcher:
                again = True if test is None else _predicate(watcher, test(*(leaf.item for leaf in ends if leaf is not None)))
            graph.set_outputs([_scalar(watcher, again), *given.values])
        least = [-INF if end is None or end.lo < low else low for end, low in zip(ends, lows, strict=True)]
        alike = [leaf if end and end.certain and end.strides == leaf.strides else replace(leaf, certain=False)
                 for leaf, end in zip(start, ends, strict=True)]  # fmt: skip
        if least == lows and alike == start:
            break
        # A number may fall from turn to turn, or a tensor lie otherwise: once more, with no word about how low or how.
        graph.release()
        table.assumptions = [a for a in table.assumptions if known.issuperset((*symbols(a.left), *symbols(a.right)))]
        lows, start = least, alike
    enters = None if first is True else _scalar(watcher, first)
    operands = [None, enters, *(leaf.value for leaf in (*start, *whole))]
    node = watcher.w.b.emit("loop", operands, {"carried": count}, [graph])
    final: list[Any] = [
        leaving.bound(watcher, value, low, hint=hint) if leaf.is_number else _tensor(watcher, value, leaf, end or leaf)
        for leaf, end, value, low, hint in zip(start, ends, node.results, lows, hints, strict=False)
    ]
    return given, [*final, *map(watcher.tensor, node.results[count:])]


@contextmanager
def _supposing(watcher: Watcher, test: Callable[..., Any] | None, arguments: Sequence[Any]) -> Iterator[None]:
    """A turn, which there is only where the test of the numbers that it gets was true."""
    with watcher:
        holds = test(*arguments) if test is not None and not all(isinstance(x, torch.Tensor) for x in arguments) else None
    with watcher.sizes.supposing(holds.node.expr) if isinstance(holds, torch.SymBool) else nullcontext():
        yield


def _first(watcher: Watcher, value: Value, scanned: bool) -> Any:
    """What an argument is in the first turn of the example, for guesses."""
    content = watcher.w.knowledge.guess(value)
    if content is None or (scanned and not len(content)):
        raise EvaluationError("it is not known what the first turn gets")
    return content[0] if scanned else content


def _check(watcher: Watcher, start: Sequence[_Leaf], ends: Sequence[_Leaf | None], known: set[Symbol]) -> None:
    """Raises CaptureError where a turn hands on something else than what it got.

    Args:
        start: what it got, as it was before the loop.
        ends: what it hands on.
        known: the symbols that there are outside of it.
    """
    if len(ends) != len(start):
        raise _error(watcher, f"the body of a loop returns {len(ends)} values for the {len(start)} carried ones")
    for index, (leaf, end) in enumerate(zip(start, ends, strict=True)):
        fits = end is not None and leaf.like(end)
        sizes = zip(leaf.value.tensor.shape or (), end.value.tensor.shape or (), strict=True) if end and fits else ()
        for before, after in sizes:
            same = watcher.w.same(before, after)
            fits &= bool(same) or (same is None and known.issuperset(symbols(after)))
        if not fits:
            raise _error(
                watcher, f"the carried value {index} of a loop is {leaf} before a turn and {end} after it",
                "carry tensors of one dtype and shape: pad them to the largest",
            )  # fmt: skip


def _while_loop(watcher: Watcher, test: Any, body: Any, carried: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    with watcher:
        first = _predicate(watcher, test(*carried, *extra))
    given, results = _loop(
        watcher, first, carried, (), lambda *values: body(*values, *extra), lambda *values: test(*values, *extra)
    )
    return given.rebuild(results)


def _scan(watcher: Watcher, body: Any, init: Sequence[Any], xs: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    given, results = _loop(watcher, True, init, xs, lambda *values: body(*values, *extra))
    return given.rebuild(results)


def _map(watcher: Watcher, body: Any, xs: Sequence[Any], extra: Sequence[Any] = (), mutated_arg_indices: str = "") -> Any:
    return _scan(watcher, body, (), xs, extra)  # a write to an argument is refused where it is met


def _associative_scan(watcher: Watcher, combine: Any, xs: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    """One result after the other, as an associative function allows."""
    if watcher.w.same(watcher.w.dims(watcher.value(xs[0]))[0], 0):
        return list(xs)
    with watcher:
        start, rest = [x[0] for x in xs], [x[1:] for x in xs]

    def turn(*values: Any) -> Any:
        found = combine(*values, *extra)
        return flatten(found)[0], found

    given, results = _loop(watcher, True, start, rest, turn)
    with watcher:
        stacked = [torch.cat([x[:1], later]) for x, later in zip(xs, results[len(xs) :], strict=True)]
    return given.rebuild([*results[: len(xs)], *stacked])[1]


def _flex_attention(watcher: Watcher, *args: Any, **kwargs: Any) -> Any:
    """In torch's own plain form, which masks what the blocks leave out."""
    from torch._higher_order_ops.flex_attention import math_attention

    with watcher:
        return math_attention(*args, **kwargs)


def composite(watcher: Watcher, name: str, call: Callable[[], Any]) -> Any:
    """Runs a module as one node whose nested graph is what it does."""
    with region(watcher, name) as graph:
        results = call()
        leaves, spec = flatten(results)
        graph.set_outputs([watcher.output(leaf) for leaf in leaves])
        outer, inside = list(graph.captured()), set(graph.graphs())

        def within(user: Node | Graph, index: int) -> bool:
            return (user if isinstance(user, Graph) else user.graph) in inside

        for value in outer:
            value.replace_by(graph.add_input(value.type, value.name), within)
    node = watcher.w.b.emit("composite", outer, {"name": name}, [graph])
    return pytree.tree_unflatten([watcher.tensor(result) for result in node.results], spec)


_OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map, "map": _map,
    "associative_scan": _associative_scan, "flex_attention": _flex_attention,
}  # fmt: skip
_COMPARISONS: Final = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_CONNECTIVES: Final = {"and": "logical_and", "or": "logical_or"}
