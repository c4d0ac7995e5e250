"""Texts of what the model computes with: of sizes, by their numbers in this watch, and of data, which nobody knows."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

import torch

from isthmus.frontends.torch import leaving
from isthmus.frontends.torch.asking import asking
from isthmus.frontends.torch.computed import Computed
from isthmus.frontends.torch.products import Product
from isthmus.frontends.torch.ratios import Ratio
from isthmus.frontends.torch.size_nodes import SizeNode
from isthmus.frontends.torch.tensors import Watched
from isthmus.frontends.torch.weights import real
from isthmus.ir.dims import Symbol, resolve, symbols

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher

SHOWN: Final = 1 << 16
"""The number of elements that are computed for a text, at most."""


class Text(str):
    """The text of something that depends on data. It can be shown and added to; to look into it is an error.

    Attributes:
        look: raises the error, while the model is watched.
    """

    look: Callable[[], None]

    def __new__(cls, text: str, look: Callable[[], None]) -> Self:
        self = super().__new__(cls, text)
        self.look = look
        return self

    @property
    def plain(self) -> str:
        """A string with no error in it."""
        return str.__str__(self)

    def __str__(self) -> Self:
        return self

    def __bool__(self) -> bool:
        return True

    def __radd__(self, other: str) -> Text:
        return Text(other + self.plain, self.look)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return str, (self.plain,)


def _looks(of: Any, name: str) -> None:
    def method(self: Text, *args: Any) -> Any:
        self.look()
        return of(self.plain, *args)

    setattr(Text, name, method)


def _carries(name: str) -> None:
    def method(self: Text, *args: Any) -> Text:
        return Text(getattr(str, name)(self.plain, *args), self.look)

    setattr(Text, name, method)


_LOOKS: Final = (
    "__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__getitem__", "__hash__", "__iter__",
    "__len__", "count", "encode", "endswith", "find", "format", "format_map", "index", "isalnum", "isalpha", "isascii",
    "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "join",
    "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "split", "splitlines",
    "startswith", "translate",
)  # fmt: skip
_CARRIES: Final = (
    "__add__", "__format__", "__mod__", "__mul__", "__repr__", "__rmul__", "capitalize", "casefold", "center", "expandtabs",
    "ljust", "lower", "lstrip", "rjust", "rstrip", "strip", "swapcase", "title", "upper", "zfill",
)  # fmt: skip
for _name in _LOOKS:
    _looks(getattr(str, _name), _name)
for _kind in (int, float, complex):
    _looks(_kind, f"__{_kind.__name__}__")
for _name in _CARRIES:
    _carries(_name)


def swaps(watcher: Watcher) -> list[tuple[Any, str, Any]]:
    """The owner, the name and the new form of each method that makes a text."""
    sizes = (torch.SymInt, torch.SymFloat, torch.SymBool)
    return [
        *((owner, "__repr__", _number(watcher, lambda number, _: repr(number), owner.__repr__)) for owner in sizes),
        *((owner, "__format__", _number(watcher, format, owner.__repr__)) for owner in sizes),
        (Watched, "__repr__", _tensor(watcher, torch.Tensor.__repr__)),
        (Watched, "__format__", _tensor(watcher, torch.Tensor.__format__)),
    ]


def _number(watcher: Watcher, form: Callable[[Any, str], str], named: Callable[[Any], str]) -> Callable[..., str]:
    """The text of a size, or of a number that is computed from some."""

    def text(self: Any, spec: str = "") -> str:
        node = self.node
        ours = sys._getframe(1).f_globals.get("__name__", "").startswith(_OWN)
        if ours or not isinstance(node, SizeNode) or node.sizes is not watcher.sizes:
            return named(self)
        involved = _symbols(node.expr)
        sizes = watcher.sizes
        if not involved <= sizes.declared:
            note(watcher, f"shows {node} without its number, which depends on data")
            return Text(str(node), _look(watcher, str(node), (), involved))
        if involved:
            sizes.shown |= involved
            note(watcher, f"{TEXT} {node}, as it is where the model is watched: the graph never computes it")
        return form(node.hint, spec)

    return text


def _symbols(expr: Any) -> set[Symbol]:
    floats = (Ratio, Product, Computed)
    parts = tuple(expr.dims()) if isinstance(expr, floats) else expr[1:] if isinstance(expr, tuple) else ()
    if parts:
        return set().union(*map(_symbols, parts))
    return set() if isinstance(expr, (int, float)) else set(symbols(resolve(expr)))


def _tensor(watcher: Watcher, original: Callable[..., str]) -> Callable[..., str]:
    """The text of a tensor: with its numbers where it depends on no input."""

    def text(self: Watched, *args: Any, **kwargs: Any) -> str:
        value = watcher.value(self)
        content = watcher.w.knowledge.content(value, SHOWN)
        if content is not None:
            return original(real(content, value.tensor.dtype), *args, **kwargs)
        note(watcher, "shows a tensor without its numbers, which depend on an input")
        return Text(self.told(), _look(watcher, self.told(), (value,), ()))

    return text


def _look(watcher: Watcher, told: str, values: Any, dims: Any) -> Callable[[], None]:
    """What raises the error for who looks into a text, and does nothing once the model is not watched any more."""
    made = watcher.provenance.here()

    def look() -> None:
        if leaving.watching() is watcher and not _only_told(watcher):
            leaving.leave(watcher, "the text", values, dims, f"{told}, in the text that is made at {made}")

    return look


def _only_told(watcher: Watcher) -> bool:
    """Whether it is a log or a warning that looks at a text now."""
    files = {frame.f_code.co_filename for frame in watcher.provenance.frames()}
    return not files.isdisjoint(_TELLING) or asking(watcher.provenance).function == "warn"


def note(watcher: Watcher, what: str) -> None:
    """Notes what becomes of a text, or of another answer, once a line."""
    where, kind = watcher.provenance.here(), what.partition(" ")[0]
    if (kind, str(where)) not in watcher.shown:
        watcher.shown.add((kind, str(where)))
        text = asking(watcher.provenance).text
        watcher.notes.append(f"{f'`{text}`' if text else 'the model'} {what} ({where})")


TEXT: Final = "is a text of the size"
"""What a note says of a text that is made of a size."""
_OWN: Final = "isthmus."
_TELLING: Final = (logging.__file__, warnings.__file__)
