"""Where a value comes from: the user's source line, the module path, and the passes that touched it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's model.

    Attributes:
        file: source file, as the user's interpreter names it; empty when unknown.
        line: line in that file, from 1; 0 when unknown.
        function: name of the function that the line is in.
        module: path of the module in the model, such as ``layer1.0.conv2``.
        made_by: the passes and rules that made this node, oldest first, such as ``fold.batch_norm``.
        merged: further places, where several nodes became one.
    """

    file: str = ""
    line: int = 0
    function: str = ""
    module: str = ""
    made_by: tuple[str, ...] = ()
    merged: tuple[Location, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.file or self.function or self.module or self.made_by or self.merged)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        parts = [place, f"in {self.function}" if self.function else ""]
        parts.append(f"({self.module})" if self.module else "")
        return " ".join(part for part in parts if part) or "unknown place"

    def by(self, maker: str) -> Location:
        """The same place, made by one more pass or rule (a repeated maker is told once)."""
        if self.made_by[-1:] == (maker,):
            return self
        return Location(self.file, self.line, self.function, self.module, (*self.made_by, maker), self.merged)


UNKNOWN = Location()


def merge(locations: Iterable[Location]) -> Location:
    """One location for a node that stands for several: the first, with the others kept beside it."""
    flat: dict[Location, None] = {}
    for location in locations:
        if location.merged:
            flat[replace(location, merged=())] = None
            flat.update(dict.fromkeys(location.merged))
        elif location:
            flat[location] = None
    first, *rest = flat or {UNKNOWN: None}
    return replace(first, merged=tuple(rest)) if rest else first
