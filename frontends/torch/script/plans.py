"""How a loop carries what its body changes: one plan a value.

A plan starts as `Same`: the body sees the very thing that was there before the loop. Where a run of the body shows that it
hands on something else, the plan is widened as little as that asks for, and the body is run anew, until it hands on what it
was given the like of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from isthmus.frontends.torch.aliases import Entry, doubt
from isthmus.frontends.torch.script.sequences import kind_of_item
from isthmus.frontends.torch.script.states import (
    Snap,
    as_maybe,
    merged,
    same,
    same_content,
    sequence_element,
    sequence_of,
    visible,
)  # fmt: skip
from isthmus.frontends.torch.script.values import (
    NUMBERS,
    Dict,
    Head,
    Instance,
    List,
    Maybe,
    kind_of,
)  # fmt: skip
from isthmus.ir.dims import INF, Bound, bounds
from isthmus.ir.dtypes import bool_, i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Sequence as SequenceType
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.loops import Loop

_VARIES = "it is another tensor in the first turn of a loop than in later ones"


class Plan:
    """How one value goes through a loop."""

    def widen(self, loop: Loop, first: Snap, out: Snap) -> Plan:
        """A plan that also carries this.

        Args:
            loop: the loop.
            first: what is there before it.
            out: what the body handed on.
        """
        raise NotImplementedError

    def start(self, loop: Loop, first: Snap) -> None:
        """Adds what is there before the loop to the loop's operands, and what the body is given to its arguments."""

    def enter(self, loop: Loop, first: Snap, arguments: Iterator[Value]) -> Any:
        """What the body sees."""
        raise NotImplementedError

    def finish(self, loop: Loop, out: Snap) -> None:
        """Adds what the body hands on to its outputs; its graph is open."""

    def result(self, loop: Loop, first: Snap, results: Iterator[Value]) -> Any:
        """What is there after the loop."""
        raise NotImplementedError


class Same(Plan):
    """What no turn changes: the thing itself."""

    def widen(self, loop: Loop, first: Snap, out: Snap) -> Plan:
        x, i = first.what, loop.i
        if same(first, out):
            return self
        if isinstance(x, Maybe) or x is None or out.what is None or isinstance(out.what, Maybe):
            return Perhaps().widen(loop, first, out)
        if isinstance(x, torch.Tensor) and isinstance(out.what, torch.Tensor):
            return Carried().widen(loop, first, out)
        if kind_of(x) is not None and kind_of(x) is kind_of(out.what):
            return Number(kind_of(x) or int).widen(loop, first, out)
        if isinstance(x, List) and isinstance(out.what, List):
            return listed(loop, first, out)
        if isinstance(x, tuple) and isinstance(out.what, tuple) and len(first.parts) == len(out.parts):
            return Parts(dict.fromkeys(range(len(first.parts)), Same())).widen(loop, first, out)
        if isinstance(x, Dict) and isinstance(out.what, Dict) and getattr(x, "module", None) is None:
            return Parts(dict.fromkeys(first.parts, Same())).widen(loop, first, out)
        return i.refuse(
            "a loop hands on what cannot be carried from turn to turn",
            "keep tensors and numbers in variables that the loop changes", f"{_word(first)} and {_word(out)}",
        )  # fmt: skip

    def enter(self, loop: Loop, first: Snap, arguments: Iterator[Value]) -> Any:
        return first.what

    def result(self, loop: Loop, first: Snap, results: Iterator[Value]) -> Any:
        return first.what


class Number(Plan):
    """A number: 0-d outside, a size inside where it is an int, between bounds that every turn keeps.

    Args:
        kind: of number.
    """

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.range: tuple[Bound, Bound] | None = None

    def widen(self, loop: Loop, first: Snap, out: Snap) -> Plan:
        if kind_of(out.what) is not self.kind:
            loop.i.refuse(f"a loop makes {_word(out)} of {_word(first)}", "give it one type")
        if self.kind is int:
            lo, hi = (-INF, INF) if self.range is None else self.range
            if self.range is None:
                lo, hi = bounds(loop.i.dim(first.what))
                loop.changed = True
            least, most = bounds(loop.i.dim(out.what))
            wide = (lo if least >= lo else -INF, hi if most <= hi else INF)
            if wide != self.range:
                self.range, loop.changed = wide, True
        elif self.range is None:
            self.range, loop.changed = (0, 0), True
        return self

    def start(self, loop: Loop, first: Snap) -> None:
        loop.carry(loop.i.value(first.what), Tensor(NUMBERS[self.kind], ()))

    def enter(self, loop: Loop, first: Snap, arguments: Iterator[Value]) -> Any:
        return loop.number(next(arguments), self.kind, self.range)

    def finish(self, loop: Loop, out: Snap) -> None:
        loop.outputs.append(loop.i.value(out.what))

    def result(self, loop: Loop, first: Snap, results: Iterator[Value]) -> Any:
        return loop.number(next(results), self.kind, self.range, turning=False)


class Carried(Plan):
    """A tensor; a size that changes from turn to turn is a symbol of the body."""

    def __init__(self) -> None:
        self.fresh: dict[int, Any] = {}
        """By axis, what the symbol is found by: axes that change alike have one."""
        self.aliases: set[Entry] = set()
        self.plain = True
        self.new = True

    def widen(self, loop: Loop, first: Snap, out: Snap) -> Plan:
        assert first.value is not None
        value = out.value
        if value is None:
            loop.i.refuse(f"a loop makes {_word(out)} of a tensor", "give it one type")
        old, made, w = first.value.tensor, value.tensor, loop.i.w
        if old.dtype is not made.dtype or old.rank != made.rank:
            loop.i.refuse(
                "a tensor that a loop carries changes its dtype or rank",
                "cast or reshape it before the loop to what the loop makes of it",
                f"{old} before the loop, {made} after a turn",
            )  # fmt: skip
        for axis, (before, after) in enumerate(zip(w.dims(first.value), w.dims(value), strict=True)):
            if axis not in self.fresh and w.same(before, after) is not True:
                self.fresh[axis] = (before,)
                loop.changed = True
            if axis in self.fresh:
                loop.grown.append((self.fresh, axis, after))
        if self.plain and not (first.plain and out.plain):
            self.plain, loop.changed = False, True
        if out.outer is not None and out.outer not in self.aliases:
            self.aliases.add(out.outer)
            loop.changed = True
        loop.changed, self.new = loop.changed or self.new, False
        return self

    def start(self, loop: Loop, first: Snap) -> None:
        assert first.value is not None
        dims = loop.i.w.dims(first.value)
        shape = tuple(loop.symbol(self.fresh[axis]) if axis in self.fresh else dim for axis, dim in enumerate(dims))
        loop.carry(first.value, Tensor(first.value.tensor.dtype, shape))

    def enter(self, loop: Loop, first: Snap, arguments: Iterator[Value]) -> Any:
        found = self._doubtful(loop, first, next(arguments))
        inside = loop.i.watcher.inside
        assert inside is not None, "a body is being run"
        inside[found.entry] = False  # in one turn it is what stands outside
        return found

    def finish(self, loop: Loop, out: Snap) -> None:
        assert out.value is not None
        loop.outputs.append(out.value)

    def result(self, loop: Loop, first: Snap, results: Iterator[Value]) -> Any:
        return self._doubtful(loop, first, next(results))

    def _doubtful(self, loop: Loop, first: Snap, value: Value) -> Any:
        found: Any = loop.i.tensor(value, self.plain)
        owners = set(self.aliases)
        if isinstance(first.what, torch.Tensor):
            owners.add(loop.i.watcher.entry(first.what).owner)
        for owner in owners:
            doubt(found.entry, owner, _VARIES)
        return found


class Written(Plan):
    """A tensor from outside that the body writes to; it keeps its type.

    Args:
        entry: it.
    """

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def start(self, loop: Loop, first: Snap) -> None:
        loop.carry(self.entry.value, self.entry.value.type)

    def enter(self, loop: Loop, first: Snap, arguments: Iterator[Value]) -> Any:
        loop.i.watcher.aliases.write(self.entry, next(arguments))

    def result(self, loop: Loop, first: Snap, results: Iterator[Value]) -> Any:
        loop.i.watcher.aliases.write(self.entry, next(results))


class Perhaps(Plan):
    """Something that may be None."""

    def __init__(self) -> None:
        self.held: Plan = Same()
        self.before: Snap | None = None
        self.like: Snap | None = None

    def widen(self, loop: Loop, first: Snap, out: Snap) -> Plan:
        if self.before is None:
            self.like = out if first.what is None else first
            self.before, loop.changed = as_maybe(loop.i, loop.scope, first, self.like), True
        made = self._maybe(loop, out)
        self.held = self.held.widen(loop, self.before.parts[0], made.parts[0])
        return self

    def _maybe(self, loop: Loop, out: Snap) -> Snap:
        assert self.like is not None
        return as_maybe(loop.i, loop.scope, out, self.like)

    @property
    def _before(self) -> Snap:
        assert self.before is not None
        return self.before

    def start(self, loop: Loop, first: Snap) -> None:
        assert self._before.value is not None
        loop.carry(self._before.value, Tensor(bool_, ()))
        self.held.start(loop, self._before.parts[0])

    def enter(self, loop: Loop, first: Snap, arguments: Iterator[Value]) -> Any:
        present = next(arguments)
        return Maybe(present, self.held.enter(loop, self._before.parts[0], arguments))

    def finish(self, loop: Loop, out: Snap) -> None:
        maybe = self._maybe(loop, out)
        assert maybe.value is not None
        loop.outputs.append(maybe.value)
        self.held.finish(loop, maybe.parts[0])

    def result(self, loop: Loop, first: Snap, results: Iterator[Value]) -> Any:
        present = next(results)
        return Maybe(present, self.held.result(loop, self._before.parts[0], results))


class Parts(Plan):
    """A list, tuple, dict or object of one structure in all turns.

    Args:
        parts: a plan for each of its parts, by place or key.
        content: it is what a list, dict or object from outside holds, and not another one in each turn.
    """

    def __init__(self, parts: dict[Any, Plan], content: bool = False) -> None:
        self.parts = parts
        self.content = content
        self.new = True

    def widen(self, loop: Loop, first: Snap, out: Snap) -> Plan:
        if _keys(out) != _keys(first) or first.head is not out.head:
            if isinstance(first.what, List):
                return listed(loop, first, out, self.content)
            loop.i.refuse(
                "a dict, tuple or object that a loop carries gets other keys", "put all of them in before the loop",
                f"{_keys(first)} before the loop, {_keys(out)} after a turn",
            )  # fmt: skip
        for key in self.parts:
            self.parts[key] = self.parts[key].widen(loop, first.parts[key], out.parts[key])
        loop.changed, self.new = loop.changed or self.new, False
        return self

    def start(self, loop: Loop, first: Snap) -> None:
        for key, plan in self.parts.items():
            plan.start(loop, first.parts[key])

    def enter(self, loop: Loop, first: Snap, arguments: Iterator[Value]) -> Any:
        return self._made(loop, first, [plan.enter(loop, first.parts[key], arguments) for key, plan in self.parts.items()])

    def finish(self, loop: Loop, out: Snap) -> None:
        for key, plan in self.parts.items():
            plan.finish(loop, out.parts[key])

    def result(self, loop: Loop, first: Snap, results: Iterator[Value]) -> Any:
        return self._made(loop, first, [plan.result(loop, first.parts[key], results) for key, plan in self.parts.items()])

    def _made(self, loop: Loop, first: Snap, parts: list[Any]) -> Any:
        x, scope = first.what, loop.i.scope
        if self.content:
            return (first.head, parts) if isinstance(x, List) else dict(zip(self.parts, parts, strict=True))
        if isinstance(x, List):
            made: Any = List(parts, scope, first.head)
            made.doubt = "it is another list in the first turn of a loop than in later ones"
            return made
        if isinstance(x, tuple):
            return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
        made = Instance(scope, x.type) if isinstance(x, Instance) else Dict({}, scope)
        made.restore(dict(zip(self.parts, parts, strict=True)))
        made.doubt = "it is another one in the first turn of a loop than in later ones"
        return made


class Growing(Plan):
    """A list whose length only data can tell.

    As long as the body puts items of one type behind it and never looks at it, they are scan outputs of the loop; else the
    list is carried as a sequence.

    Args:
        content: it is what a list from outside holds, and not another one in each turn.
    """

    def __init__(self, content: bool) -> None:
        self.content = content
        self.owner: Loop | None = None
        self.element: Tensor | None = None
        self.kind: type | None = None
        self.scanned = True
        self.count = 0
        self.new = True

    def look(self) -> None:
        """Somebody looks at the list within the body."""
        self.scanned = False

    def widen(self, loop: Loop, first: Snap, out: Snap) -> Plan:
        i, scope = loop.i, loop.scope
        self.owner = loop
        before, kind = sequence_element(i, first, scope)
        made, made_kind = sequence_element(i, out, scope)
        self.kind = self.kind or kind or made_kind
        element = merged(i, merged(i, self.element, before), made)
        appended = out.parts
        if any(each.value is None and kind_of(each.what) is None for each in appended):
            i.refuse(
                "a list of neither tensors nor numbers has a length that only data can tell",
                "keep a list for each tensor", _word(appended[-1]),
            )  # fmt: skip
        if self.scanned:
            kept = out.head is not None and out.head.growing is self
            if out.head is None:  # the first run, on the list itself
                kept = first.head is None and all(map(same, first.parts, out.parts)) and len(out.parts) > len(first.parts)
                appended = out.parts[len(first.parts) :]
            types = [_type(each) for each in appended]
            self.scanned = kept and self._fits(loop, types, element)
            if self.scanned and self.count not in (0, len(appended)):
                self.scanned = False
            loop.changed = loop.changed or not self.scanned
            self.count = len(appended)
        if element != self.element:
            self.element, loop.changed = element, True
        loop.changed, self.new = loop.changed or self.new, False
        return self

    def _fits(self, loop: Loop, types: Sequence[Tensor], element: Tensor | None) -> bool:
        """Whether all items have one type, of sizes that are known outside."""
        if element is None or element.shape is None or None in element.shape:
            return False
        return all(all(visible(loop.scope, dim) for dim in type.shape or ()) for type in types)

    def start(self, loop: Loop, first: Snap) -> None:
        if not self.scanned:
            head = sequence_of(loop.i, first, self.element, self.kind)
            value = head.value
            assert value is not None
            assert isinstance(value.type, SequenceType)
            type: Type = SequenceType(self.element or value.type.element)
            if value.type != type:
                value = self._copied(loop, value)
            loop.carry(value, type)

    def _copied(self, loop: Loop, value: Value) -> Value:
        """A sequence of a wider type with the same items."""
        b = loop.i.w.b
        start = b.sequence_empty(type=self.element)

        def body(inner: Any, turn: Value, items: Value) -> list[Value]:
            return [inner.constant(True), inner.sequence_insert(items, inner.sequence_at(value, turn))]

        graph = b.subgraph([Tensor(i64, ()), start.type], body)
        found: Value = b.emit("loop", [b.sequence_length(value), None, start], {"carried": 1}, [graph]).results[0]
        return found

    def enter(self, loop: Loop, first: Snap, arguments: Iterator[Value]) -> Any:
        kind = self.kind or torch.Tensor
        head = Head(None, kind, growing=self) if self.scanned else Head(next(arguments), kind)
        return self._made(loop, head)

    def finish(self, loop: Loop, out: Snap) -> None:
        if self.scanned:
            loop.scans += [loop.i.value(each.what) if each.value is None else each.value for each in out.parts]
        else:
            value = sequence_of(loop.i, out, self.element, self.kind).value
            assert value is not None
            loop.outputs.append(value)

    def result(self, loop: Loop, first: Snap, results: Iterator[Value]) -> Any:
        i, b = loop.i, loop.i.w.b
        kind = self.kind or torch.Tensor
        if not self.scanned:
            return self._made(loop, Head(next(results), kind))
        stacks = [next(loop.scanned) for _ in range(self.count)]
        found = stacks[0]
        if self.count > 1:  # the items of one turn follow each other
            whole = b.concat([b.unsqueeze(each, axes=[1]) for each in stacks], axis=1)
            turns, count, *rest = i.w.dims(whole)
            found = b.reshape(whole, shape=[turns * count, *rest])
        before = [b.unsqueeze(i.value(each.what) if each.value is None else each.value, axes=[0]) for each in first.parts]
        return self._made(loop, Head(b.concat([*before, found], axis=0) if before else found, kind, stacked=True))

    def _made(self, loop: Loop, head: Head) -> Any:
        if self.content:
            return head, []
        return List([], loop.i.scope, head)


def listed(loop: Loop, first: Snap, out: Snap, content: bool = False) -> Plan:
    """The plan for a list that the body changes or replaces."""
    if first.head is None and out.head is None and len(first.parts) == len(out.parts):
        return Parts(dict.fromkeys(range(len(first.parts)), Same()), content).widen(loop, first, out)
    return Growing(content).widen(loop, first, out)


def contained(loop: Loop, first: Snap, out: Snap) -> Plan | None:
    """The plan for what a list, dict or object from outside holds; None where no turn changes that."""
    if same_content(first, out):
        return None
    if isinstance(first.what, List):
        return listed(loop, first, out, content=True)
    return Parts(dict.fromkeys(first.parts, Same()), content=True).widen(loop, first, out)


def _keys(x: Snap) -> list[Any]:
    return list(x.parts) if isinstance(x.parts, dict) else list(range(len(x.parts)))


def _type(x: Snap) -> Tensor:
    return x.value.tensor if x.value is not None else Tensor(NUMBERS.get(kind_of_item(x.what), bool_), ())


def _word(x: Snap) -> str:
    kind = kind_of(x.what)
    return kind.__name__ if kind is not None else "a tensor" if x.value is not None else f"a {type(x.what).__name__}"

