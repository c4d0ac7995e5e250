"""Python files that are no modules of the tests' path: those beside a test, and the collection of cases beside the checkout."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

COLLECTION = Path(__file__).parents[2] / "shared" / "cases"


@cache
def module(path: Path) -> Any:
    """A file as a module of its own name; each is loaded once a process."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def cases(name: str) -> dict[str, Callable[..., Any]]:
    """The cases of a file of the collection, by name; none where the checkout does not stand beside it."""
    path = COLLECTION / f"{name}.py"
    found: dict[str, Callable[..., Any]] = module(path).CASES if path.is_file() else {}
    return found
