"""`prim::Loop`: unrolled where its course is the same for all inputs and short, else an IR loop.

The body is run until it hands on what it was given the like of (`plans`); each run writes a nested graph, of which the last
one is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from isthmus.frontends.torch import leaving
from isthmus.frontends.torch.aliases import Entry
from isthmus.frontends.torch.script.interpreter import script_node
from isthmus.frontends.torch.script.outcomes import Rerun
from isthmus.frontends.torch.script.plans import Plan, Same, Written, contained
from isthmus.frontends.torch.script.states import Snap, blank, content, snap
from isthmus.frontends.torch.script.values import UNSET, Box, Scalar, Scope, is_known
from isthmus.ir.dims import INF, Bound, Dim, bounds
from isthmus.ir.dtypes import i64
from isthmus.ir.errors import CaptureError
from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.interpreter import Interpreter

SHORT: Final = 64
"""Loops of up to so many turns are unrolled where nothing depends on inputs how many there are."""
LONGEST: Final = 4096
"""Loops of more turns are not unrolled."""
_RUNS: Final = 32
_ENDLESS: Final = 2**62


@script_node("prim::Loop")
def loop(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    """The results of a loop."""
    trip, going, *carried = (env[value.unique()] for value in node.inputs())
    going = i.truth(going)
    (body,) = node.blocks()
    if going is False or (is_known(trip) and trip <= 0):
        return carried
    fixed = is_known(trip) and going is True
    if fixed and _counts(body):
        if trip <= SHORT:
            return _unrolled(i, body, env, trip, carried)
        failure = i.watcher.failure
        with i.attempt() as undo:
            try:
                return Loop(i, body, env, trip, going, carried).run()
            except CaptureError:
                if trip > LONGEST:
                    raise
                undo()
        i.watcher.failure = failure
        return _unrolled(i, body, env, trip, carried)
    made = Loop(i, body, env, trip, going, carried)
    if fixed and isinstance(made.first_condition(), bool):
        return _unrolled(i, body, env, trip, carried)
    return made.run()


def _counts(body: Any) -> bool:
    """Whether a loop goes on until its turns are counted."""
    going = next(body.outputs()).node()
    return going.kind() == "prim::Constant" and bool(going.output().toIValue())


def _unrolled(i: Interpreter, body: Any, env: dict[int, Any], trip: int, carried: list[Any]) -> list[Any]:
    for turn in range(trip):
        if turn == LONGEST:
            i.refuse(f"a loop goes on for more than {LONGEST} turns, whatever the inputs", "compute with whole tensors")
        going, *carried = i.block(body, env, [turn, *carried])
        going = i.truth(going)
        if going is False:
            break
        if going is not True:  # only data can tell from here on
            rest = trip if trip >= _ENDLESS else trip - turn - 1
            return Loop(i, body, env, rest, going, carried, turn + 1).run()
    return carried


class Loop:
    """One loop in the making.

    Args:
        i: the interpreter.
        body: the block.
        env: the values around it.
        trip: the greatest number of turns.
        going: whether there is a first one.
        carried: the values before it.
        offset: the number of the first turn.

    Attributes:
        scope: that of the last run.
        changed: whether a plan has changed since.
        grown: sizes that change from turn to turn: where the key of their symbol is kept, and what they are after a turn.
        outputs, scans: what the body is to give.
        scanned: the loop's stacked results.
    """

    def __init__(
        self, i: Interpreter, body: Any, env: dict[int, Any], trip: Any, going: bool | Scalar, carried: Sequence[Any],
        offset: int = 0,
    ) -> None:  # fmt: skip
        self.i = i
        self.body = body
        self.env = env
        self.trip = trip
        self.going = going
        self.offset = offset
        self.location = i.location
        self.first = [snap(i, each) for each in carried]
        self.plans: list[Plan] = [Same() for _ in carried]
        self.boxes: dict[Box, tuple[Snap, Plan]] = {}
        self.written: dict[Entry, Written] = {}
        self.scope: Scope
        self.changed = True
        self.grown: list[tuple[dict[int, Any], int, Dim]] = []
        self.operands: list[Value] = []
        self.types: list[Type] = []
        self.outputs: list[Value] = []
        self.scans: list[Value] = []
        self.scanned: Iterator[Value] = iter(())
        self._symbols: dict[Any, Dim] = {}
        self._outs: list[Snap] = []
        self._after: dict[Box, Snap] = {}
        self._last: dict[Entry, Value] = {}

    # ---- what plans need

    def carry(self, value: Value, type: Type) -> None:
        """One more carried value."""
        self.operands.append(value)
        self.types.append(type)

    def symbol(self, key: Any) -> Dim:
        """A size that changes from turn to turn."""
        found = self._symbols.get(key)
        if found is None:
            found = self._symbols[key] = self.i.watcher.graph.symbols.fresh("s", 0)
            self._turning(found)
        return found

    def number(self, value: Value, kind: type, range: tuple[Bound, Bound] | None, turning: bool = True) -> Any:
        """A carried value as a number."""
        if kind is not int:
            return Scalar(kind, value)
        found = leaving.whole(self.i.watcher, value, *(range or (-INF, INF)))
        if turning:
            self._turning(self.i.dim(found))
        return found

    def _turning(self, dim: Dim) -> None:
        if not isinstance(dim, int) and dim.symbol is not None:
            self.i.watcher.sizes.turning.add(dim.symbol)

    # ---- runs of the body

    def first_condition(self) -> Any:
        """Whether the loop goes on after the first turn, run on what is there before it."""
        with self.i.attempt() as undo, self.i.within("body") as scope:
            going, *_ = self.i.block(self.body, self.env, [self.offset, *(each.what for each in self.first)])
            going = self.i.truth(going)
        scope.graph.release()
        undo()
        return going

    def run(self) -> list[Any]:
        """The results of the loop.

        Raises:
            CaptureError: it cannot be carried over.
        """
        i = self.i
        for _ in range(_RUNS):
            with i.attempt() as undo:
                try:
                    condition = self._run()
                except Rerun as rerun:
                    if rerun.growing.owner is not self:
                        raise
                    undo()
                    continue
                with i.at(self.location):
                    self._widen()
                if self.changed:
                    self.scope.graph.release()
                    undo()
                    continue
            with i.at(self.location):
                return self._emit(condition)
        return i.refuse("what a loop carries from turn to turn has no fixed type", "compute with whole tensors")

    def _run(self) -> Any:
        """One run of the body on what the plans say; gives whether to go on."""
        i = self.i
        self.operands, self.types, self._symbols, self.grown, self.outputs, self.scans = [], [], {}, [], [], []
        with i.at(self.location):
            for first, plan in self._everything():
                plan.start(self, first)
        with i.within("body") as self.scope:
            graph = self.scope.graph
            turn = graph.add_input(Tensor(i64, ()), "turn")
            arguments = iter([graph.add_input(type) for type in self.types])
            most = bounds(i.dim(self.trip))[1]
            with i.at(self.location):
                number = self.number(turn, int, (0, INF if most == INF else max(0, most - 1)))
                values = [plan.enter(self, first, arguments) for first, plan in zip(self.first, self.plans, strict=True)]
                for box, (first, plan) in self.boxes.items():
                    i.change(box)
                    box.restore(plan.enter(self, first, arguments))
                for plan in self.written.values():
                    plan.enter(self, Snap(None), arguments)
            going, *outs = i.block(self.body, self.env, [number + self.offset if self.offset else number, *values])
            condition = i.truth(going)
            self._outs = [snap(i, each) for each in outs]
            self._after = {box: content(i, box) for box in self.scope.changed}
            self._last = {entry: entry.value for entry in self.scope.written}
        return condition

    def _everything(self) -> Iterator[tuple[Snap, Plan]]:
        yield from zip(self.first, self.plans, strict=True)
        yield from self.boxes.values()
        for plan in self.written.values():
            yield Snap(None), plan

    def _widen(self) -> None:
        """Widens the plans to what the body hands on."""
        i = self.i
        self.changed = False
        for place, out in enumerate(self._outs):
            if out.what is UNSET:
                continue
            if self.first[place].what is UNSET:
                self.first[place], self.changed = blank(i, self.scope, out), True
            self.plans[place] = self.plans[place].widen(self, self.first[place], out)
        for box, after in self._after.items():
            if box in self.boxes:
                first, plan = self.boxes[box]
                self.boxes[box] = first, plan.widen(self, first, after)
            else:
                first = content(i, box)
                new = contained(self, first, after)
                if new is not None:
                    self.boxes[box], self.changed = (first, new), True
        for entry in self._last:
            if entry not in self.written:
                self.written[entry], self.changed = Written(entry), True
        self._regroup()

    def _regroup(self) -> None:
        """Tells sizes apart that were the same before the loop and change otherwise in it."""
        groups: dict[Any, list[tuple[dict[int, Any], int, Dim]]] = {}
        for fresh, axis, after in self.grown:
            groups.setdefault(fresh[axis], []).append((fresh, axis, after))
        for key, members in groups.items():
            kinds: list[Dim] = []
            for fresh, axis, after in members:
                number = next((n for n, kind in enumerate(kinds) if self.i.w.same(kind, after) is True), len(kinds))
                if number == len(kinds):
                    kinds.append(after)
                if number:
                    fresh[axis], self.changed = (*key, number), True

    def _emit(self, condition: Any) -> list[Any]:
        i, b = self.i, self.i.w.b
        graph = self.scope.graph
        with i.into(graph):
            again = i.value(condition)
            for first, plan, out in zip(self.first, self.plans, self._outs, strict=True):
                plan.finish(self, blank(i, self.scope, first) if out.what is UNSET else out)
            for box, (_, plan) in self.boxes.items():
                plan.finish(self, self._after[box])
            for entry, written in self.written.items():
                self.outputs.append(self._last.get(entry, entry.value))
                assert written.entry is entry
        graph.set_outputs([again, *self.outputs, *self.scans])
        trip = None if is_known(self.trip) and self.trip >= _ENDLESS else i.value(self.trip)
        going = None if self.going is True else i.value(self.going)
        node = b.emit("loop", [trip, going, *self.operands], {"carried": len(self.operands)}, [graph])
        results = iter(node.results[: len(self.operands)])
        self.scanned = iter(node.results[len(self.operands) :])
        found = [plan.result(self, first, results) for first, plan in zip(self.first, self.plans, strict=True)]
        for box, (first, plan) in self.boxes.items():
            new = plan.result(self, first, results)
            i.change(box)
            box.restore(new)
        for written in self.written.values():
            written.result(self, Snap(None), results)
        return found
