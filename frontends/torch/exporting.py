"""What models hear that ask whether they are being exported or compiled, and which lines ask."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, Final, Literal

import torch

from isthmus.frontends.torch.provenance import library

Export = bool | Literal["compiled"]
"""Whether models hear that they are exported, or that they are compiled alone."""

_COMPILED: Final[tuple[Any, ...]] = (torch.compiler.is_compiling,)
_EXPORTED: Final[tuple[Any, ...]] = (torch.compiler.is_exporting, torch.onnx.is_in_onnx_export)

_listening: list[dict[str, None]] = []


@contextmanager
def exporting(export: Export, asked: dict[str, None] | None = None) -> Iterator[None]:
    """Answers yes for a while, to whoever asks whether the model is being exported or compiled.

    `torch.compiler.is_compiling`, `torch.compiler.is_exporting` and `torch.onnx.is_in_onnx_export` answer yes, by whatever name
    they were imported; with ``compiled`` the first alone. What is about TorchScript (`torch.jit.is_tracing`, `is_scripting`)
    and `torch.compiler.is_dynamo_compiling` answer no, which is the truth.

    Args:
        export: what is said; False for nothing.
        asked: takes the places that ask, torch itself left out.
    """
    functions = (*(_COMPILED if export else ()), *(_EXPORTED if export and export != "compiled" else ()))
    codes = [function.__code__ for function in functions]
    compiler: Any = torch.compiler
    before = compiler._is_compiling_flag, compiler._is_exporting_flag
    _listening.append({} if asked is None else asked)
    try:
        for function in functions:  # the function stays the same object, which the model may hold
            function.__code__ = _yes.__code__
        compiler._is_compiling_flag = before[0] or bool(export)
        compiler._is_exporting_flag = before[1] or bool(export and export != "compiled")
        yield
    finally:
        _listening.pop()
        compiler._is_compiling_flag, compiler._is_exporting_flag = before
        for function, code in zip(functions, codes, strict=True):
            function.__code__ = code


def _yes() -> bool:
    """The code of the functions above for a while; it runs with their globals."""
    from isthmus.frontends.torch.exporting import answer

    return answer()


def answer() -> bool:
    """Yes; and the place that asks is kept."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _hands_on(frame.f_code, frame.f_lasti):
        frame = frame.f_back
    if frame is not None and not library(frame.f_code):
        _listening[-1][f"{frame.f_code.co_filename}:{frame.f_lineno}"] = None
    return True


@lru_cache(256)
def _hands_on(code: CodeType, offset: int) -> bool:
    """Whether a function returns as it is what it is given at a place: then the place that calls it is the one that asks."""
    behind = (step for step in dis.get_instructions(code) if step.offset > offset and step.opname != "CACHE")
    return next(behind).opname == "RETURN_VALUE"


def told(asked: dict[str, None]) -> list[str]:
    """A note about places that ask; none where there are none."""
    if not asked:
        return []
    return [
        f"the model asks whether it is being exported or compiled, and heard yes, at {_places(asked)}; "
        "with export_flags=False it hears no"
    ]


def otherwise(asked: dict[str, None]) -> str:
    """The rest of a remedy for a model that may fail for what it heard; empty where it did not ask."""
    return f", and heard that it is being exported or compiled at {_places(asked)}: try export_flags=False" if asked else ""


def _places(asked: dict[str, None]) -> str:
    places = list(asked)
    more = f" and {len(places) - _MOST} more lines" if len(places) > _MOST else ""
    return f"{', '.join(places[:_MOST])}{more}"


_MOST: Final = 4
