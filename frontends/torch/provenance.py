"""Where in the user's model an op comes from: the first frame outside torch, and the path of the module that runs."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

import isthmus.frontends
import isthmus.ir
from isthmus.ir.location import Location

if TYPE_CHECKING:
    from isthmus.frontends.torch.asking import Asking

# With a trailing separator: a bare prefix would swallow torchvision too.
_LIBRARY = tuple(
    os.path.realpath(folder) + os.sep
    for folder in (
        os.path.dirname(torch.__file__),
        os.path.dirname(np.__file__),
        *isthmus.__path__,
        *isthmus.frontends.__path__,
        *isthmus.ir.__path__,
        sysconfig.get_paths()["stdlib"],
    )
)
_NOT_LIBRARY = sysconfig.get_paths()["purelib"] + os.sep

_OWN: Final = ("isthmus.frontends.", "isthmus.ir.")

_CALL: Final = "_compiled_call_impl"

# By the code's id, since the hash of a code object takes in all its constants; `_codes` keeps the ids from being reused.
_is_library: dict[int, bool] = {}
_codes: list[CodeType] = []


@cache
def is_library_file(file: str) -> bool:
    """Whether a file of source is torch's or isthmus'."""
    return os.path.realpath(file).startswith(_LIBRARY[:-1])


def library(code: CodeType) -> bool:
    """Whether code belongs to torch, numpy, to isthmus, or to the standard library."""
    found = _is_library.get(id(code))
    if found is None:
        file = code.co_filename
        inside = file.startswith("<") or os.path.realpath(file).startswith(_LIBRARY)
        packages = file.startswith(_NOT_LIBRARY) and not os.path.realpath(file).startswith(_LIBRARY[:-1])
        found = _is_library[id(code)] = inside and not packages
        _codes.append(code)
    return found


class Provenance:
    """Locations of one capture.

    Attributes:
        path: names of the modules that are running, outermost first.
        outside: the function that runs the model; the frames around it are not the model's.
        script: the line of a script that is interpreted now; None while Python runs.
        asked: what asks at a step of some code, by the code's id and the step.
    """

    def __init__(self) -> None:
        self.path: list[str] = [""]
        self.outside: CodeType | None = None
        self.script: Location | None = None
        self.asked: dict[tuple[int, int], Asking] = {}
        self._known: dict[tuple[int, int, str], Location] = {}

    def here(self) -> Location:
        """The place in the user's code that is running now."""
        if self.script is not None:
            return self.script
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            known = _is_library.get(id(code))
            if not (library(code) if known is None else known):
                break
            frame = None if code is self.outside else frame.f_back
        module = self.path[-1]
        if frame is None:
            return Location(module=module)
        key = (id(frame.f_code), frame.f_lasti, module)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, module)
        return found

    def frames(self) -> Iterator[FrameType]:
        """The program's frames, the innermost first; those of isthmus among them are left out."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self.outside:
            if not frame.f_globals.get("__name__", "").startswith(_OWN):
                yield frame
            frame = frame.f_back

    def frame(self) -> FrameType | None:
        """The frame of the user's code that is running now; None when none is."""
        return next((frame for frame in self.frames() if not library(frame.f_code)), None)

    @contextmanager
    def modules(self, modules: Iterable[tuple[str, torch.nn.Module]], around: Any = None) -> Iterator[None]:
        """Follows which module runs, for a while.

        Each module is given a call of its own, in the place where torch keeps a compiled one: to swap the class's would
        make Python forget what it has cached about every class of modules.

        Args:
            modules: the model's modules by path.
            around: called as ``around(module, name, call)`` in place of ``call()``; None to call plainly.
        """
        saved = []
        for name, module in modules:
            attributes = module.__dict__
            saved.append((attributes, attributes.get(_CALL)))
            attributes[_CALL] = self._call(module, name, around)
        try:
            yield
        finally:
            for attributes, before in saved:
                if before is None:
                    attributes.pop(_CALL, None)
                else:
                    attributes[_CALL] = before

    def _call(self, module: torch.nn.Module, name: str, around: Any) -> Callable[..., Any]:
        path = self.path

        def call(*args: Any, **kwargs: Any) -> Any:
            path.append(name)
            try:
                if around is None:
                    return module._call_impl(*args, **kwargs)
                return around(module, name, module._call_impl, args, kwargs)
            finally:
                path.pop()

        return call


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
