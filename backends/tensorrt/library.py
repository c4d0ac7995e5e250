"""TensorRT's Python module, whichever of the two is installed, its log, and its element types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from isthmus.ir import dtypes
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import UsageError

Choice = Literal["auto", "tensorrt_rtx", "tensorrt"]

NAMES: Final = ("tensorrt_rtx", "tensorrt")
"""The modules, in the order in which they are tried. Their Python interfaces are the same but for a few calls."""

REMEDY: Final = (
    "pip install 'isthmus[tensorrt]', which brings tensorrt-rtx-cu13: it builds engines on a machine without a GPU; "
    "or install tensorrt on a machine with an NVIDIA GPU"
)


def load(choice: Choice) -> Any:
    """The module.

    Args:
        choice: its name; ``auto`` for the first one that is installed.

    Raises:
        UsageError: it is not installed, or its libraries cannot be loaded.
    """
    problems = []
    for name in NAMES if choice == "auto" else (choice,):
        try:
            return import_module(name)
        except (ImportError, OSError, RuntimeError) as error:
            problems.append(f"{name}: {error}")
    raise UsageError("TensorRT is not installed", found="; ".join(problems), remedy=REMEDY)


_NAMES: Final = {
    dtypes.f32: "float32", dtypes.f16: "float16", dtypes.bf16: "bfloat16", dtypes.f8e4m3fn: "fp8", dtypes.i64: "int64",
    dtypes.i32: "int32", dtypes.i8: "int8", dtypes.u8: "int32", dtypes.i4: "int4", dtypes.bool_: "bool",
}  # fmt: skip
"""TensorRT's element types. It has u8 at inputs and outputs only; in between, such numbers are held as i32."""


def has(dtype: DType) -> bool:
    """Whether TensorRT has this element type."""
    return dtype in _NAMES


def enum(trt: Any, dtype: DType) -> Any:
    """An element type in TensorRT's enumeration, as a network holds it."""
    return getattr(trt, _NAMES[dtype])


def outer(trt: Any, dtype: DType) -> Any:
    """An element type in TensorRT's enumeration, as it goes in and out."""
    return trt.uint8 if dtype is dtypes.u8 else enum(trt, dtype)


# What TensorRT says when it looks for a GPU after an error, and where there is none.
_NOISE: Final = re.compile(r"cudaError|CUDA initialization failure|no CUDA-capable device|insufficient for CUDA runtime")


@cache
def log(trt: Any) -> Any:
    """The `trt.ILogger` of a module: TensorRT keeps the first one that it is given and uses it for everything.

    It keeps errors until they are taken: `take()` gives those since it was last called, as one text. Within
    ``with listening(lines, verbose):`` it also adds warnings and errors, or all there is, to the list `lines`.
    """

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []
            self.listeners: list[tuple[list[str], Any]] = []

        def log(self, severity: Any, text: str) -> None:
            if _NOISE.search(text):
                return
            if severity <= trt.ILogger.ERROR:
                self.errors.append(text)
            for lines, least in self.listeners:
                if severity <= least:
                    lines.append(f"[{severity.name}] {text}")

        def take(self) -> str:
            found, self.errors = self.errors, []
            return "; ".join(dict.fromkeys(map(plain, found)))

        @contextmanager
        def listening(self, lines: list[str], verbose: bool) -> Iterator[None]:
            self.listeners.append((lines, trt.ILogger.VERBOSE if verbose else trt.ILogger.WARNING))
            try:
                yield
            finally:
                self.listeners.pop()

    return Log()


_WRAPPING: Final = re.compile(r"^\w+::\w+: Error Code \d+: [\w ]+ \((?P<inside>.*)\)$", re.DOTALL)
_LAYER: Final = re.compile(r"^[^\[\]]*\[(?P<kind>[^\]]*)\]: ")
_PLACE: Final = re.compile(r"\. In \w+ at [\w/.]+:\d+")


def plain(text: str) -> str:
    """A message without the name of TensorRT's function, the number of the error and the name that the layer has."""
    found = _WRAPPING.match(text.strip())
    inside = found["inside"] if found else text.strip()
    return _PLACE.sub("", _LAYER.sub(lambda match: f"{match['kind']}: ", inside)).strip()
