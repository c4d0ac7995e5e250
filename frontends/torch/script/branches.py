"""`prim::If`: the branch that is taken where that is known, else an IR if of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isthmus.frontends.torch.aliases import Entry
from isthmus.frontends.torch.script.interpreter import Raised, script_node
from isthmus.frontends.torch.script.states import Join, Snap, content, snap
from isthmus.frontends.torch.script.values import Box, Scope
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
        for taken, side in enumerate(sides):
            raised = side.raised
            if raised is not None:
                undo()
                for each in sides:
                    each.scope.graph.release()
                with i.at(location):
                    holds = i.w.b.logical_not(condition.value) if taken == 0 else condition.value
                    i.w.b.check(holds, message=f"the model raises {raised}")
                return i.block(blocks[1 - taken], env, ())
    with i.at(location):
        return _emit(i, condition.value, sides)


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

