"""Nested graphs: branches and loops of `torch.cond` and `torch.while_loop`, and modules kept whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from isthmus.frontends.torch.inputs import flatten
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import bool_
from isthmus.ir.errors import CaptureError
from isthmus.ir.graph import Graph, Value
from isthmus.ir.types import Tensor
from torch.utils import _pytree as pytree

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
        CaptureError: it is another one than cond and while_loop.
    """
    name = func.__name__ if hasattr(func, "__name__") else str(func)
    build = {"cond": _cond, "while_loop": _while_loop}.get(name)
    if build is None:
        raise CaptureError(
            f"the control-flow operator {name} is not carried over",
            location=watcher.provenance.here(),
            remedy="torch.cond and torch.while_loop are",
        )
    return build(watcher, *args, **kwargs)


def _run(watcher: Watcher, body: Callable[..., Any], arguments: Sequence[Any], graph: Graph) -> tuple[list[Any], pytree.TreeSpec]:
    """Runs a body under the watcher and makes its results the outputs of its graph."""
    with watcher:
        results = body(*arguments)
    leaves, spec = flatten(results)
    graph.set_outputs([watcher.output(leaf) for leaf in leaves])
    return leaves, spec


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
            leaves, found = _run(watcher, body, operands, graph)
        if spec is not None and found != spec:
            raise CaptureError("the branches of torch.cond return different structures", location=watcher.provenance.here())
        spec = found
        graphs.append(graph)
    node = watcher.w.b.emit("if", [_condition(watcher, predicate)], {}, graphs)
    assert spec is not None
    return pytree.tree_unflatten([watcher.tensor(result) for result in node.results], spec)


def _while_loop(watcher: Watcher, test: Any, body: Any, carried: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    w, b = watcher.w, watcher.w.b
    start = [watcher.output(item) for item in carried]
    with region(watcher, "test") as graph:
        _run(watcher, test, (*carried, *extra), graph)
    # The loop asks before its first turn; the body asks for the next one.
    mapping: dict[Value, Value] = {}
    for node in graph.nodes:
        from isthmus.ir.graph import clone_node

        b.graph.insert(clone_node(node, mapping), b.before)
    first = mapping.get(graph.outputs[0], graph.outputs[0])
    graph.set_outputs([])
    with region(watcher, "body") as graph:
        graph.add_input(Tensor(w.result_type(0), ()), "iteration")
        fresh = [
            tuple(watcher.graph.symbols.fresh("u", 0, hint=watcher.sizes.hint(dim)) if not isinstance(dim, int) else dim for dim in w.dims(v))
            for v in start
        ]
        inner = [
            watcher.tensor(graph.add_input(Tensor(value.tensor.dtype, shape if _varies(w.dims(value), shape) else w.dims(value))))
            for value, shape in zip(start, [w.dims(v) for v in start], strict=True)
        ]
        del fresh
        with watcher:
            results = body(*inner, *extra)
            again = test(*(results if isinstance(results, (tuple, list)) else (results,)), *extra)
        leaves, spec = flatten(results)
        graph.set_outputs([_condition(watcher, again), *(watcher.output(leaf) for leaf in leaves)])
    node = b.emit("loop", [None, first, *start], {"carried": len(start)}, [graph])
    return pytree.tree_unflatten([watcher.tensor(result) for result in node.results], spec)


def _varies(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> bool:
    return before != after


def composite(watcher: Watcher, name: str, call: Callable[[], Any]) -> Any:
    """Runs a module as one node whose nested graph is what it does."""
    with region(watcher, name) as graph:
        results = call()
        leaves, spec = flatten(results)
        graph.set_outputs([watcher.output(leaf) for leaf in leaves])
        outer = list(graph.captured())
        for value in outer:
            argument = graph.add_input(value.type, value.name)
            inside = set(graph.graphs())
            value.replace_by(argument, lambda user, _, inside=inside: (user if isinstance(user, Graph) else user.graph) in inside)  # type: ignore[misc]
    node = watcher.w.b.emit("composite", outer, {"name": name}, [graph])
    return pytree.tree_unflatten([watcher.tensor(result) for result in node.results], spec)
