"""What a block leaves behind, and how what two branches leave behind is joined.

A snapshot is taken at the end of a block, while its graph is open: a tensor may have another value afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from isthmus.frontends.torch.aliases import Entry, doubt
from isthmus.frontends.torch.script import sequences
from isthmus.frontends.torch.script.outcomes import Unjoinable
from isthmus.frontends.torch.script.sequences import kind_of_item
from isthmus.frontends.torch.script.values import NUMBERS, UNSET, Dict, Head, Instance, List, Maybe, Scope, is_known, kind_of
from isthmus.ir.dims import Dim, symbols
from isthmus.ir.dtypes import bool_
from isthmus.ir.graph import Value
from isthmus.ir.types import Sequence as SequenceType
from isthmus.ir.types import Tensor

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.interpreter import Interpreter

Results: TypeAlias = "Sequence[Value]"
Rebuild: TypeAlias = "Callable[[Results], Any]"
"""From the results of a node to a value of the script."""


@dataclass(frozen=True, slots=True, eq=False)
class Snap:
    """A value of the script at the end of a block.

    Attributes:
        what: the value.
        value: what a tensor has in it, or the flag of a `Maybe`.
        outer: the owner of a tensor's storage, where that is from outside of the block.
        plain: whether a tensor is contiguous for sure.
        parts: snapshots of what it is made of: by place, or by name.
        head: of a list.
    """

    what: Any
    value: Value | None = None
    outer: Entry | None = None
    parts: Any = ()
    head: Head | None = None
    plain: bool = True


def snap(i: Interpreter, x: Any) -> Snap:
    """The snapshot of a value."""
    if isinstance(x, torch.Tensor):
        entry = i.watcher.entry(x)
        outer = entry.owner if i.scope is not None and entry.owner not in i.scope.inside else None
        return Snap(x, i.value(x), outer, plain=entry.strides is None and entry.certain)
    if isinstance(x, List):
        if x.head is not None:
            i.watcher.aliases.read(x.head.owner)
        return Snap(x, parts=[snap(i, each) for each in x.items], head=x.head)
    if isinstance(x, Instance) and x.module is not None:
        return Snap(x)
    if isinstance(x, Dict):
        return Snap(x, parts={key: snap(i, each) for key, each in x.items.items()})
    if isinstance(x, tuple):
        return Snap(x, parts=[snap(i, each) for each in x])
    if isinstance(x, Maybe):
        return Snap(x, x.present, parts=[snap(i, x.held)])
    return Snap(x)


def content(i: Interpreter, box: Any) -> Snap:
    """The snapshot of what a list, dict or object holds, a module's own attributes included."""
    if isinstance(box, List):
        return snap(i, box)
    return Snap(box, parts={key: snap(i, each) for key, each in box.items.items()})


def same(a: Snap, b: Snap) -> bool:
    """Whether two snapshots are of one thing, or of equal numbers or texts.

    What was changed in one thing is carried over where it was made.
    """
    if a.what is b.what:
        return True
    known = is_known(a.what) and is_known(b.what)
    return known and type(a.what) is type(b.what) and not isinstance(a.what, tuple) and bool(a.what == b.what)


def same_content(a: Snap, b: Snap) -> bool:
    """Whether two snapshots of the content of a list, dict or object say the same."""
    if isinstance(a.parts, dict):
        return a.parts.keys() == b.parts.keys() and all(same(a.parts[key], b.parts[key]) for key in a.parts)
    return a.head is b.head and len(a.parts) == len(b.parts) and all(map(same, a.parts, b.parts))


def visible(scope: Scope, dim: Dim) -> bool:
    """Whether a size is known outside of a scope, too."""
    return all(symbol in scope.known for symbol in symbols(dim))


def outer_type(scope: Scope, type: Tensor) -> Tensor:
    """A type for the items of a list outside of a scope: sizes that are only known inside are left open."""
    assert type.shape is not None
    return Tensor(type.dtype, tuple(d if d is not None and visible(scope, d) else None for d in type.shape))  # type: ignore[misc]


def blank(i: Interpreter, scope: Scope, like: Snap) -> Snap:
    """Something that nobody looks at, in the place of a value of the same type.

    Args:
        i: the interpreter, outside of the scope.
        scope: where the value is from; sizes that are known only there are 0.
        like: the value.
    """
    x, w = like.what, i.w
    if isinstance(x, torch.Tensor):
        assert like.value is not None
        shape = [dim if visible(scope, dim) else 0 for dim in w.dims(like.value)]
        zero = w.tensor(0, like.value.tensor.dtype)
        found = w.b.expand(zero, shape=shape) if shape else zero
        return Snap(i.tensor(found), found)
    if kind_of(x) is not None:
        return Snap((kind_of(x) or int)(0))
    if isinstance(x, Maybe):
        inner, none = blank(i, scope, like.parts[0]), w.tensor(False, bool_)
        return Snap(Maybe(none, inner.what), none, parts=[inner])
    if isinstance(x, Instance) and x.module is not None:
        return like
    if isinstance(x, Dict):
        parts = {key: blank(i, scope, each) for key, each in like.parts.items()}
        made = Instance(i.scope, x.type) if isinstance(x, Instance) else Dict({}, i.scope)
        made.restore({key: each.what for key, each in parts.items()})
        return Snap(made, parts=parts)
    if isinstance(x, List) and like.head is not None:
        empty = w.b.sequence_empty(type=sequence_element(i, like, scope)[0])
        return Snap(List([], i.scope), head=Head(empty, like.head.kind))
    if isinstance(x, (List, tuple)):
        items = [blank(i, scope, each) for each in like.parts]
        held = [each.what for each in items]
        named = hasattr(x, "_fields")
        return Snap(List(held, i.scope) if isinstance(x, List) else type(x)(*held) if named else tuple(held), parts=items)
    return like


def as_maybe(i: Interpreter, scope: Scope, x: Snap, like: Snap) -> Snap:
    """A value that may be None, of the same type as another."""
    held = like.parts[0] if isinstance(like.what, Maybe) else like
    if isinstance(x.what, Maybe):
        return x
    if x.what is None:
        return Snap(Maybe(i.w.tensor(False, bool_), None), i.w.tensor(False, bool_), parts=[blank(i, scope, held)])
    return Snap(Maybe(i.w.tensor(True, bool_), x.what), i.w.tensor(True, bool_), parts=[x])


def sequence_element(i: Interpreter, x: Snap, scope: Scope) -> tuple[Tensor | None, type | None]:
    """The type that all items of a list have, outside of a scope, and what kind they are; None for an empty list."""
    found: Tensor | None = None
    kind = None if x.head is None else x.head.kind
    if x.head is not None and x.head.value is not None:
        type = x.head.value.type
        if isinstance(type, Tensor):
            found = Tensor(type.dtype, (type.shape or ())[1:])
        else:
            assert isinstance(type, SequenceType)
            assert isinstance(type.element, Tensor)
            found = type.element
        found = outer_type(scope, found)
    for part in x.parts:
        kind = kind_of_item(part.what)
        made = part.value.tensor if part.value is not None else Tensor(NUMBERS.get(kind, bool_), ())
        found = merged(i, found, outer_type(scope, made))
    return found, kind


def merged(i: Interpreter, left: Tensor | None, right: Tensor | None) -> Tensor | None:
    """The type of items of either type."""
    if left is None or right is None:
        return left or right
    assert left.shape is not None
    assert right.shape is not None
    if left.dtype is not right.dtype or len(left.shape) != len(right.shape):
        i.refuse(
            "a list holds tensors of different dtypes or ranks, and has a length that only data can tell",
            "cast or reshape them before they are put into the list", f"{left} and {right}",
        )  # fmt: skip
    dims = [
        a if a is not None and b is not None and i.w.same(a, b) is True else None
        for a, b in zip(left.shape, right.shape, strict=True)
    ]
    return Tensor(left.dtype, tuple(dims))  # type: ignore[arg-type]


class Join:
    """Joins what two branches leave behind.

    Args:
        i: the interpreter; no branch is open.
        scopes: those of the branches, which have ended; their graphs get what is still needed.

    Attributes:
        outputs: what each branch is to give.
    """

    def __init__(self, i: Interpreter, scopes: Sequence[Scope]) -> None:
        self.i = i
        self.scopes = scopes
        self.outputs: tuple[list[Value], list[Value]] = ([], [])

    def add(self, left: Value, right: Value) -> int:
        """One more output of both; gives its place among the results."""
        if left.type.__class__ is Tensor and right.type.__class__ is Tensor:
            one, other = left.tensor, right.tensor
            if one.dtype is not other.dtype or len(one.shape or ()) != len(other.shape or ()):
                self.i.refuse(
                    "the branches of an if that depends on data give tensors of different dtypes or ranks",
                    "cast or reshape them, so that both give the same", f"{one} and {other}", Unjoinable,
                )  # fmt: skip
        self.outputs[0].append(left)
        self.outputs[1].append(right)
        return len(self.outputs[0]) - 1

    def values(self, a: Snap, b: Snap) -> Rebuild:
        """What gives the joint value, once the node is there."""
        i = self.i
        if same(a, b):
            return lambda results: a.what
        if a.what is UNSET:
            return self.values(blank(i, self.scopes[1], b), b)
        if b.what is UNSET:
            return self.values(a, blank(i, self.scopes[0], a))
        if a.what is None or b.what is None or isinstance(a.what, Maybe) or isinstance(b.what, Maybe):
            return self._maybe(a, b)
        if isinstance(a.what, torch.Tensor) and isinstance(b.what, torch.Tensor):
            return self._tensor(a, b)
        if kind_of(a.what) is not None and kind_of(a.what) is kind_of(b.what):
            return self._number(a, b)
        if isinstance(a.what, List) and isinstance(b.what, List):
            return self._list(a, b)
        if isinstance(a.what, tuple) and isinstance(b.what, tuple) and len(a.parts) == len(b.parts):
            parts = [self.values(x, y) for x, y in zip(a.parts, b.parts, strict=True)]
            named: Any = type(a.what) if hasattr(a.what, "_fields") else None
            return lambda results: named(*_all(parts, results)) if named else tuple(_all(parts, results))
        if isinstance(a.what, Dict) and isinstance(b.what, Dict) and getattr(a.what, "module", None) is None:
            return self._dict(a, b)
        return i.refuse(
            "the branches of an if that depends on data give what cannot be joined",
            "compute with tensors, or make the condition independent of data", f"{_kind(a)} and {_kind(b)}", Unjoinable,
        )  # fmt: skip

    def contents(self, a: Snap, b: Snap) -> Rebuild:
        """What gives the joint content of a list, dict or object that both have, to be given to its `restore`."""
        if isinstance(a.what, List):
            return self._items(a, b)
        return self._parts(a, b)

    def _maybe(self, a: Snap, b: Snap) -> Rebuild:
        i = self.i
        one, other = as_maybe(i, self.scopes[1], a, b), as_maybe(i, self.scopes[0], b, a)
        assert one.value is not None
        assert other.value is not None
        place = self.add(one.value, other.value)
        held = self.values(one.parts[0], other.parts[0])
        return lambda results: Maybe(results[place], held(results))

    def _tensor(self, a: Snap, b: Snap) -> Rebuild:
        assert a.value is not None
        assert b.value is not None
        place = self.add(a.value, b.value)
        owners = [each.outer for each in (a, b) if each.outer is not None]

        def rebuild(results: Results) -> torch.Tensor:
            found: Any = self.i.tensor(results[place], a.plain and b.plain)
            for owner in owners:
                doubt(found.entry, owner, "only data can tell which of two tensors it is")
            return found

        return rebuild

    def _number(self, a: Snap, b: Snap) -> Rebuild:
        i, kind = self.i, kind_of(a.what) or int
        values = []
        for scope, each in zip(self.scopes, (a, b), strict=True):
            with i.into(scope.graph):
                values.append(i.value(each.what))
        place = self.add(*values)
        return lambda results: i.number(results[place], kind)

    def _list(self, a: Snap, b: Snap) -> Rebuild:
        items = self._items(a, b)
        outside = any(each.what.home not in self.scopes for each in (a, b))

        def rebuild(results: Results) -> List:
            head, found = items(results)
            made = List(found, self.i.scope, head)
            if outside:
                made.doubt = "only data can tell which of two lists it is"
            return made

        return rebuild

    def _items(self, a: Snap, b: Snap) -> Rebuild:
        i = self.i
        if a.head is b.head and len(a.parts) == len(b.parts):
            parts = [self.values(x, y) for x, y in zip(a.parts, b.parts, strict=True)]
            return lambda results: (a.head, _all(parts, results))
        types = [sequence_element(i, each, scope) for each, scope in zip((a, b), self.scopes, strict=True)]
        element = merged(i, types[0][0], types[1][0])
        heads = []
        for scope, each in zip(self.scopes, (a, b), strict=True):
            with i.into(scope.graph):
                heads.append(sequence_of(i, each, element, types[0][1] or types[1][1]))
        first, second = heads
        assert first.value is not None
        assert second.value is not None
        place = self.add(first.value, second.value)
        return lambda results: (Head(results[place], first.kind), [])

    def _dict(self, a: Snap, b: Snap) -> Rebuild:
        parts = self._parts(a, b)

        def rebuild(results: Results) -> Dict:
            made = Instance(self.i.scope, a.what.type) if isinstance(a.what, Instance) else Dict({}, self.i.scope)
            made.restore(parts(results))
            return made

        return rebuild

    def _parts(self, a: Snap, b: Snap) -> Rebuild:
        if a.parts.keys() != b.parts.keys():
            self.i.refuse(
                "the branches of an if that depends on data give dicts of different keys",
                "give all keys in both, with tensors of the same dtype and rank", f"{[*a.parts]} and {[*b.parts]}", Unjoinable,
            )  # fmt: skip
        parts = {key: self.values(a.parts[key], b.parts[key]) for key in a.parts}
        return lambda results: {key: part(results) for key, part in parts.items()}


def sequence_of(i: Interpreter, x: Snap, element: Tensor | None, kind: type | None) -> Head:
    """The items of a list as a sequence, in the graph that is open."""
    tensors = [each.what if each.value is None else i.tensor(each.value) for each in x.parts]
    return sequences.sequence(i, List(tensors, None, x.head), element, kind)


def _all(parts: Iterable[Rebuild], results: Results) -> list[Any]:
    return [part(results) for part in parts]


def _kind(x: Snap) -> str:
    return x.what if isinstance(x.what, str) else type(x.what).__name__

