"""Views and writes: tensors that share storage, turned into values.

Every tensor has an `Entry`. A tensor of its own storage holds its value; a view knows its base, how to take itself
from the base's value anew, and how to put a new value of its own into the base's. A write makes a new value, pushes it
down to the storage's owner and counts the owner's version up; a view that is behind takes itself anew when it is next
read. Where torch may have made an alias or a copy and nobody can tell which, a write to either is refused while both live.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Final, TypeAlias

from isthmus.frontends.torch.known import Known
from isthmus.frontends.torch.lowering import Lowering
from isthmus.ir.dims import Dim
from isthmus.ir.errors import Refusal
from isthmus.ir.graph import Value

Shape: TypeAlias = "tuple[Dim, ...]"
Take: TypeAlias = Callable[[Value], Value]
Push: TypeAlias = Callable[[Lowering, Value, Value], Value]


class Entry:
    """Which value a tensor stands for.

    Attributes:
        value: its value; behind, for a view, when `version` is not the owner's.
        version: how many writes the owner had seen when `value` was made; for the owner itself, all of them.
        base: the entry that this is a view of; None for the owner of the storage.
        take: makes this view's value from the base's.
        push: makes the base's new value from the base's and this view's new one.
        strides: its strides; None for contiguous.
        certain: whether torch would have these strides.
        doubts: entries that may share storage with this one, and why nobody can tell.
        home: what is known about the values of the capture that made this; told apart from other captures by it.
    """

    __slots__ = ("__weakref__", "base", "certain", "doubts", "home", "push", "strides", "take", "value", "version")

    def __init__(self, value: Value, strides: Shape | None = None, certain: bool = True) -> None:
        self.value = value
        self.version = 0
        self.base: Entry | None = None
        self.take: Take | None = None
        self.push: Push | None = None
        self.strides = strides
        self.certain = certain
        self.doubts: list[tuple[weakref.ref[Entry], str, bool]] | None = None
        self.home: Known | None = None

    @property
    def owner(self) -> Entry:
        """The entry at the end of the chain of bases."""
        entry = self
        while entry.base is not None:
            entry = entry.base
        return entry


def view(base: Entry, value: Value, take: Take, push: Push, strides: Shape | None, certain: bool) -> Entry:
    """The entry of a new view."""
    entry = Entry(value, strides, certain)
    entry.base, entry.take, entry.push = base, take, push
    entry.version = base.owner.version
    return entry


_CLONE: Final = "call .clone() before the write, or write out of place"


def doubt(left: Entry, right: Entry, why: str, until_read: bool = False) -> None:
    """Notes that two tensors may share storage.

    Args:
        left: one of them.
        right: the other.
        why: what the user should know.
        until_read: to write to one is an error only once the other is read, which nothing does but by its entry.
    """
    left, right = left.owner, right.owner
    for one, other in ((left, right), (right, left)):
        one.doubts = [*(one.doubts or ()), (weakref.ref(other), why, until_read)]


class Aliases:
    """Reads and writes of one capture.

    Args:
        w: builds the nodes.
        written: called with the owner at each write, before it happens; may refuse.
    """

    def __init__(self, w: Lowering, written: Callable[[Entry], None]) -> None:
        self.w = w
        self.written = written
        self.tainted: dict[Entry, str] = {}
        """Owners whose content nobody can tell any more, and why: what may share storage with them was written to."""
        self.journal: list[tuple[Entry, Value, int]] | None = None
        """Inside a region: what was taken anew or written there, and does not hold outside."""

    def read(self, entry: Entry) -> Value:
        """The value that a tensor has now.

        Raises:
            Refusal: nobody can tell.
        """
        if self.tainted and (why := self.tainted.get(entry.owner)) is not None:
            raise Refusal(why, remedy=_CLONE)
        if entry.base is not None:
            version = entry.owner.version
            if entry.version != version:
                assert entry.take is not None
                fresh = entry.take(self.read(entry.base))
                if self.journal is not None:
                    self.journal.append((entry, entry.value, entry.version))
                entry.value, entry.version = fresh, version
        return entry.value

    def write(self, entry: Entry, value: Value) -> None:
        """Gives a tensor, and all that share its storage, a new value.

        Raises:
            Refusal: that cannot be said exactly.
        """
        owner = entry.owner
        for other, why, until_read in owner.doubts or ():
            alive = other()
            if alive is None or alive is owner:
                continue
            if not until_read:
                raise Refusal(f"a tensor is written to, and {why}", remedy=_CLONE)
            self.tainted[alive] = f"a tensor is read after a write at {self.w.b.location} to another one, and {why}"
        self.written(owner)
        if self.journal is not None:
            chain: Entry | None = entry
            while chain is not None:
                self.journal.append((chain, chain.value, chain.version))
                chain = chain.base
        self._write(entry, value)
        owner.version += 1
        node: Entry | None = entry
        while node is not None:
            node.version = owner.version
            node = node.base

    def _write(self, entry: Entry, value: Value) -> None:
        if entry.base is not None:
            assert entry.push is not None
            self._write(entry.base, entry.push(self.w, self.read(entry.base), value))
        entry.value = value
