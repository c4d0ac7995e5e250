"""Nested graphs: branches and loops of `torch.cond` and `torch.while_loop`, and modules kept whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils import _pytree as pytree

from isthmus.frontends.torch.inputs import flatten
from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import bool_, i64
from isthmus.ir.errors import CaptureError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.types import Tensor

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher


@contextmanager
def region(watcher: Watcher, name: str) -> Iterator[Graph]:
    """New nodes go into a nested graph, for a while; what is taken anew from views there is forgotten after it."""
    w, aliases = watcher.w, watcher.aliases
    graph = Graph(name, watcher.graph.symbols)
    outer, journal, inside = w.b, aliases.journal, watcher.inside
    w.b = Builder(graph, None, outer.location)
    aliases.journal, watcher.inside = [], set()
    try:
        yield graph
    finally:
        for entry, value, version in reversed(aliases.journal):
            entry.value, entry.version = value, version
        w.b, aliases.journal, watcher.inside = outer, journal, inside


def higher_order(watcher: Watcher, func: Any, args: Any, kwargs: Any) -> Any:
    """A control-flow operator.

    Raises:
        CaptureError: it is an unknown one.
    """
    name = func.__name__ if hasattr(func, "__name__") else str(func)
    build = _OPERATORS.get(name)
    if build is None:
        raise CaptureError(
            f"the operator {name}, which takes functions or other operators, is not carried over",
            location=watcher.provenance.here(),
            remedy="torch.cond, while_loop, scan, associative_scan and map are",
        )
    return build(watcher, *args, **kwargs)


def _run(watcher: Watcher, body: Callable[..., Any], arguments: Sequence[Any], graph: Graph) -> pytree.TreeSpec:
    """Runs a body under the watcher and makes its results the outputs of its graph."""
    with watcher:
        results = body(*arguments)
    leaves, spec = flatten(results)
    graph.set_outputs([watcher.output(leaf) for leaf in leaves])
    return spec


def _condition(watcher: Watcher, predicate: Any) -> Value:
    value = watcher.value(predicate)
    if watcher.w.dims(value):
        value = watcher.w.b.reshape(value, shape=[])
    return watcher.w.cast(value, bool_)


def _cond(watcher: Watcher, predicate: Any, true: Any, false: Any, operands: Sequence[Any]) -> Any:
    if isinstance(predicate, (bool, torch.SymBool)):
        return (true if predicate else false)(*operands)
    graphs = []
    spec = None
    for name, body in (("then", true), ("else", false)):
        with region(watcher, name) as graph:
            found = _run(watcher, body, operands, graph)
        if spec is not None and found != spec:
            raise CaptureError("the branches of torch.cond return different structures", location=watcher.provenance.here())
        spec = found
        graphs.append(graph)
    node = watcher.w.b.emit("if", [_condition(watcher, predicate)], {}, graphs)
    assert spec is not None
    return pytree.tree_unflatten([watcher.tensor(result) for result in node.results], spec)


def _loop(
    watcher: Watcher, first: Value | None, carried: Sequence[Any], scanned: Sequence[Any], turn: Callable[..., Any],
) -> list[Any]:  # fmt: skip
    """A loop: ``turn(*carried, *slices)`` gives whether to go on (None for always), the carried results and the others."""
    w, b = watcher.w, watcher.w.b
    start, whole = [watcher.output(item) for item in carried], [watcher.output(item) for item in scanned]
    with region(watcher, "body") as graph:
        graph.add_input(Tensor(i64, ()), "turn")
        slices = [Tensor(value.tensor.dtype, w.dims(value)[1:]) for value in whole]
        arguments = [graph.add_input(type) for type in (*(value.type for value in start), *slices)]
        with watcher:
            again, results = turn(*map(watcher.tensor, arguments))
        going = w.tensor(True, bool_) if again is None else _condition(watcher, again)
        graph.set_outputs([going, *(watcher.output(leaf) for leaf in results)])
    node = b.emit("loop", [None, first, *start, *whole], {"carried": len(start)}, [graph])
    return [watcher.tensor(result) for result in node.results]


def _while_loop(watcher: Watcher, test: Any, body: Any, carried: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    with watcher:
        first = test(*carried, *extra)

    def turn(*values: Any) -> tuple[Any, list[Any]]:
        results = flatten(body(*values, *extra))[0]
        return test(*results, *extra), results

    return tuple(_loop(watcher, _condition(watcher, first), carried, (), turn))


def _scan(watcher: Watcher, body: Any, init: Sequence[Any], xs: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    return _loop(watcher, None, init, xs, lambda *values: (None, flatten(body(*values, *extra))[0]))


def _map(watcher: Watcher, body: Any, xs: Sequence[Any], extra: Sequence[Any] = (), mutated_arg_indices: Any = ()) -> Any:
    structure: list[pytree.TreeSpec] = []
    if mutated_arg_indices:
        raise CaptureError("the body of torch's map writes to its arguments", location=watcher.provenance.here())

    def turn(*values: Any) -> tuple[Any, list[Any]]:
        leaves, spec = flatten(body(*values, *extra))
        structure.append(spec)
        return None, leaves

    results = _loop(watcher, None, (), xs, turn)
    return pytree.tree_unflatten(results, structure[0])


def _associative_scan(watcher: Watcher, combine: Any, xs: Sequence[Any], extra: Sequence[Any] = ()) -> list[Any]:
    """One result after the other, as an associative function allows."""
    with watcher:
        start, rest = [x[0] for x in xs], [x[1:] for x in xs]

    def turn(*values: Any) -> tuple[None, list[Any]]:
        found = flatten(combine(*values, *extra))[0]
        return None, [*found, *found]

    found = _loop(watcher, None, start, rest, turn)[len(xs) :]
    with watcher:
        return [torch.cat([x[:1], later]) for x, later in zip(xs, found, strict=True)]


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
    "associative_scan": _associative_scan,
}  # fmt: skip
