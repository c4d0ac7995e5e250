"""Turns models into something that runs elsewhere.

``isthmus.compile(model, args)`` gives a `Compiled`, which runs, verifies and saves itself. Nothing heavy is imported
before it is needed: neither a framework nor a runtime.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isthmus import errors as errors
    from isthmus.compiled import Compiled
    from isthmus.compiler import compile
    from isthmus.constants import constant
    from isthmus.frontends.weight_files import open_weights
    from isthmus.specs import spec

    __version__: str

__all__ = ["Compiled", "__version__", "compile", "constant", "errors", "open_weights", "spec"]

_HOMES = {
    "Compiled": "isthmus.compiled", "compile": "isthmus.compiler", "constant": "isthmus.constants",
    "open_weights": "isthmus.frontends.weight_files", "spec": "isthmus.specs",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    elif name in ("errors", "onnx_backend"):
        found = import_module(f"isthmus.{name}")
    elif name == "__version__":
        found = import_module("importlib.metadata").version("isthmus")
    else:
        raise AttributeError(f"module 'isthmus' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
