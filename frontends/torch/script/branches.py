"""`prim::If`: the branch that is taken where that is known, else an IR if of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isthmus.frontends.torch.aliases import Entry
from isthmus.frontends.torch.script.interpreter import script_node
from isthmus.frontends.torch.script.outcomes import Raised, Unjoinable
from isthmus.frontends.torch.script.states import Join, Snap, content, snap
from isthmus.frontends.torch.script.values import Box, Scalar, Scope
from isthmus.ir.dims import Symbol, symbols
from isthmus.ir.graph import Value
from isthmus.ir.op import Trait

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.interpreter import Interpreter


@dataclass
class Side:
    """What one branch does.

    Attributes:
        scope: where.
        results: its results.
        boxes: what lists, dicts and objects from outside hold after it, where it changed them.
        written: the values of tensors from outside that it wrote to.
        raised: the exception that it ends in, whatever the inputs.
    """

    scope: Scope
    results: list[Snap]
    boxes: dict[Box, Snap]
    written: dict[Entry, Value]
    raised: Raised | None = None


@script_node("prim::If")
def branch(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    """The results of an if."""
    condition = i.truth(env[node.input().unique()])
    blocks = list(node.blocks())
    if isinstance(condition, bool):
        return i.block(blocks[0 if condition else 1], env, ())
    location = i.location
    with i.attempt() as undo:
        sides = [_side(i, block, env, name) for block, name in zip(blocks, ("then", "else"), strict=True)]
        taken = next((place for place, side in enumerate(sides) if side.raised is None), None)
        if all(side.raised is None for side in sides):
            try:
                with i.at(location):
                    return _emit(i, condition.value, sides)
            except Unjoinable:
                with i.at(location):
                    taken = _decided(i, condition)
                if taken is None:
                    raise
        undo()
    for side in sides:
        side.scope.graph.release()
    raised = sides[0].raised or sides[1].raised
    if raised is not None:
        if taken is None:
            raise raised
        with i.at(location):
            holds = condition.value if taken == 0 else i.w.b.logical_not(condition.value)
            i.w.b.check(holds, message=f"the model raises {raised}")
    assert taken is not None
    return i.block(blocks[taken], env, ())


def _decided(i: Interpreter, condition: Scalar) -> int | None:
    """Which branch is taken at the sizes of this run, which is written down; None where anything but sizes tells."""
    sizes, relation = i.watcher.sizes, condition.relation
    if relation is None or not (sizes.read | sizes.turning).isdisjoint(_symbols(relation)):
        return None

    def holds(relation: Any) -> bool:
        word, left, right = relation
        if word in ("and", "or"):
            return holds(left) and holds(right) if word == "and" else holds(left) or holds(right)
        return sizes.decide(word, left, right)

    return 0 if holds(relation) else 1


def _symbols(relation: Any) -> Iterator[Symbol]:
    for part in relation[1:]:
        yield from _symbols(part) if isinstance(part, tuple) else symbols(part)


def _side(i: Interpreter, block: Any, env: dict[int, Any], name: str) -> Side:
    with i.within(name) as scope:
        try:
            found = [snap(i, each) for each in i.block(block, env, ())]
        except Raised as error:
            return Side(scope, [], {}, {}, error)
        boxes = {box: content(i, box) for box in scope.changed}
        written = {entry: entry.value for entry in scope.written}
    return Side(scope, found, boxes, written)


def _emit(i: Interpreter, condition: Value, sides: list[Side]) -> list[Any]:
    """The node, and what its results are to the script."""
    then, other = sides
    join = Join(i, [then.scope, other.scope])
    results = [join.values(a, b) for a, b in zip(then.results, other.results, strict=True)]
    boxes = {}
    for box in {**then.boxes, **other.boxes}:
        before = None if box in then.boxes and box in other.boxes else content(i, box)
        a, b = then.boxes.get(box, before), other.boxes.get(box, before)
        assert a is not None
        assert b is not None
        boxes[box] = join.contents(a, b)
    written = {
        entry: join.add(then.written.get(entry, entry.value), other.written.get(entry, entry.value))
        for entry in {**then.written, **other.written}
    }
    graphs = [side.scope.graph for side in sides]
    values: list[Value] = []
    if join.outputs[0] or any(node.has(Trait.EFFECT) for graph in graphs for node in graph.walk()):
        for graph, outputs in zip(graphs, join.outputs, strict=True):
            graph.set_outputs(outputs)
        values = i.w.b.emit("if", [condition], {}, graphs).results
    else:
        for graph in graphs:
            graph.release()
    for entry, place in written.items():
        i.watcher.aliases.write(entry, values[place])
    for box, rebuild in boxes.items():
        i.change(box)
        box.restore(rebuild(values))
    return [rebuild(values) for rebuild in results]

