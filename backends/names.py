"""Names of which each is given out once."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Names that are taken.

    Args:
        second: the number with which a name that is taken is given out again.
        taken: those that are from the start.
    """

    def __init__(self, second: int = 1, taken: Iterable[str] = ()) -> None:
        self._second = second
        self._taken = set(taken)
        self._next: dict[str, int] = {}
        self._meant: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def reserve(self, names: Iterable[str]) -> None:
        """Keeps names for what is to have them by right."""
        self._meant.update(names)

    def unique(self, base: str, by_right: bool = False) -> str:
        """A name that nothing has yet: `base`, or `base` and a number; one that is kept for others only for who has it by
        right."""
        name = base
        if name in self._taken or (name in self._meant and not by_right):
            number = self._next.get(base, self._second)
            while (name := f"{base}_{number}") in self._taken or name in self._meant:
                number += 1
            self._next[base] = number + 1
        self._taken.add(name)
        return name

    def give_back(self, name: str) -> None:
        """Lets a name be given out again."""
        self._taken.discard(name)
