"""Where in the user's model an op comes from: the first frame outside torch, and the path of the module that runs."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch

import isthmus.frontends
import isthmus.ir
from isthmus.ir.location import Location

# With a trailing separator: a bare prefix would swallow torchvision too.
_LIBRARY = tuple(
    os.path.realpath(folder) + os.sep
    for folder in (
        os.path.dirname(torch.__file__),
        *isthmus.frontends.__path__,
        *isthmus.ir.__path__,
        sysconfig.get_paths()["stdlib"],
    )
)
_NOT_LIBRARY = sysconfig.get_paths()["purelib"] + os.sep

_is_library: dict[CodeType, bool] = {}


def library(code: CodeType) -> bool:
    """Whether code belongs to torch, to isthmus below the public face, or to the standard library."""
    found = _is_library.get(code)
    if found is None:
        file = code.co_filename
        inside = file.startswith("<") or os.path.realpath(file).startswith(_LIBRARY)
        packages = file.startswith(_NOT_LIBRARY) and not os.path.realpath(file).startswith(_LIBRARY[:-1])
        found = _is_library[code] = inside and not packages
    return found


class Provenance:
    """Locations of one capture.

    Attributes:
        path: names of the modules that are running, outermost first.
        outside: the function that runs the model; the frames around it are not the model's.
    """

    def __init__(self) -> None:
        self.path: list[str] = [""]
        self.outside: CodeType | None = None
        self._known: dict[tuple[CodeType, int, str], Location] = {}

    def here(self) -> Location:
        """The place in the user's code that is running now."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _is_library.get(frame.f_code, True):
            if frame.f_code is self.outside:
                frame = None
                break
            if frame.f_code not in _is_library and not library(frame.f_code):
                break
            frame = frame.f_back
        module = self.path[-1]
        if frame is None:
            return Location(module=module)
        key = (frame.f_code, frame.f_lasti, module)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, module)
        return found

    @contextmanager
    def modules(self, names: dict[int, str], around: Any = None) -> Iterator[None]:
        """Follows which module runs, for a while.

        Args:
            names: the path of each module of the model, by its id.
            around: called as ``around(module, name, call)`` in place of ``call()``; None to call plainly.
        """
        original = torch.nn.Module.__call__
        path = self.path

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            name = names.get(id(module))
            if name is None:
                return original(module, *args, **kwargs)
            path.append(name)
            try:
                if around is None:
                    return original(module, *args, **kwargs)
                return around(module, name, lambda *a, **k: original(module, *a, **k), args, kwargs)
            finally:
                path.pop()

        torch.nn.Module.__call__ = call
        try:
            yield
        finally:
            torch.nn.Module.__call__ = original


def raised_at(error: BaseException, provenance: Provenance) -> Location:
    """The innermost user line that an exception passed through."""
    found = Location(module=provenance.path[-1])
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not library(code):
            found = Location(code.co_filename, trace.tb_lineno, code.co_name, provenance.path[-1])
        trace = trace.tb_next
    return found
