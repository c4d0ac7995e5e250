"""Functions of Python, numpy and torch that make numbers of sizes without need: carried over while a model is watched."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import numpy as np
import torch

from isthmus.frontends.torch.provenance import library
from isthmus.frontends.torch.tensors import Watched

_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat)


def swaps() -> list[tuple[Any, str, Any]]:
    """The owner, the name and the new form of each."""
    return [
        (math, "sqrt", _root(math.sqrt)),
        (torch.SymInt, "sqrt", torch.sym_sqrt),  # what numpy calls for objects
        (torch.SymInt, "__divmod__", lambda self, other: (self // other, self % other)),
        (torch.SymInt, "__rdivmod__", lambda self, other: (other // self, other % self)),
        (torch.SymInt, "__format__", _format),
        (torch.SymFloat, "__format__", _format),
    ]


def _extreme(original: Callable[..., Any], symbolic: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """``min`` or ``max``, which would branch on the sizes among their arguments."""

    def extreme(*args: Any, **kwargs: Any) -> Any:
        if kwargs or not args:
            return original(*args, **kwargs)
        items: Iterable[Any] = args
        if len(args) == 1:
            if isinstance(args[0], Iterator):
                args = (list(args[0]),)
            elif not isinstance(args[0], (list, tuple)):
                return original(*args)
            items = args[0]
        sizes = False
        for item in items:
            if item.__class__ is torch.SymInt:
                sizes = True
            elif item.__class__ is not int:
                return original(*args)
        return functools.reduce(symbolic, items) if sizes else original(*args)

    return extreme


def _root(original: Callable[[Any], float]) -> Callable[[Any], Any]:
    def sqrt(x: Any, /) -> Any:
        return torch.sym_sqrt(x) if x.__class__ in _SYMBOLIC else original(x)

    return sqrt


def _format(size: Any, spec: str) -> str:
    """A size in a text goes by its name."""
    return str(size)


class Again(BaseException):
    """The model is to be watched again, with other forms of Python's functions in one more file.

    Attributes:
        names: the file's global names.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__()
        self.names = names


def look_again(frame: FrameType | None, text: str) -> None:
    """For a question about sizes that a function of Python's asks, which would not ask in its other form.

    Args:
        frame: the user's code that calls it.
        text: the call.

    Raises:
        Again: the file does not have the other forms yet.
    """
    name = text.partition("(")[0]
    if frame is not None and name in _SHADOWS and name not in frame.f_globals:
        raise Again(frame.f_globals)


@contextmanager
def shadowed(functions: Iterable[Any], files: Iterable[dict[str, Any]] = ()) -> Iterator[None]:
    """Other forms of some of Python's functions, for a while, in the files that some functions of the user's are from.

    ``len``, ``min`` and ``max`` give sizes, and sizes are ints for ``isinstance``. Torch's own files call these too often to
    have others, tell sizes from ints, and may want an int.

    Args:
        functions: functions of the user's.
        files: further files, by their global names.
    """
    places = []
    every = [function for function in functions if (code := getattr(function, "__code__", None)) and not library(code)]
    for names in (*(function.__globals__ for function in every), *files):
        for name, shadow in _SHADOWS.items():
            if name not in names:
                names[name] = shadow
                places.append((names, name))
    try:
        yield
    finally:
        for names, name in places:
            del names[name]


def _length(x: Any, /) -> Any:
    """``len``, which makes an int of what `__len__` returns."""
    return x.shape[0] if x.__class__ is Watched and x.dim() else len(x)


def _is_instance(x: Any, kinds: Any, /) -> bool:
    number = _NUMBERS.get(x.__class__)
    return isinstance(x, kinds) or (number is not None and isinstance(number, kinds))


_NUMBERS: Final[dict[type, Any]] = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
"""What sizes would be where a model runs plainly."""
_SHADOWS: Final = {
    "len": _length, "isinstance": _is_instance, "min": _extreme(min, torch.sym_min), "max": _extreme(max, torch.sym_max),
}  # fmt: skip


def unpacked(array: Any) -> tuple[Any, torch.dtype | None]:
    """An array of numpy that holds sizes as nested lists, with the dtype that it would have; other things as they are."""
    if not isinstance(array, np.ndarray) or array.dtype != object:
        return array, None
    if not any(item.__class__ in _SYMBOLIC for item in array.flat):
        return array, None
    floats = any(isinstance(item, (float, torch.SymFloat)) for item in array.flat)
    return array.tolist(), torch.float64 if floats else torch.int64
