"""Finds backends by name among the installed packages' entry points."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from isthmus.backends.base import Backend
from isthmus.ir.errors import UsageError

GROUP = "isthmus.backends"


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def names() -> list[str]:
    """The names of all installed backends, those included whose package cannot be loaded."""
    return list(_entries())


def find(name: str) -> type[Backend]:
    """The backend of this name.

    Raises:
        UsageError: no installed package offers it, or its package cannot be loaded.
    """
    entry = _entries().get(name)
    if entry is None:
        raise UsageError(f"there is no target {name!r}", expected=", ".join(names()) or "none is installed")
    try:
        kind = entry.load()
    except Exception as error:  # whatever a package of somebody else's raises
        ours = entry.value.startswith("isthmus.")
        remedy = f"install what it needs: pip install 'isthmus[{name}]'" if ours else f"repair {entry.value}"
        found = str(error) if isinstance(error, (ImportError, AttributeError)) else f"{type(error).__name__}: {error}"
        raise UsageError(f"the target {name!r} cannot be loaded from {entry.value}", found=found, remedy=remedy) from error
    if not (isinstance(kind, type) and issubclass(kind, Backend)):
        raise UsageError(f"the target {name!r} is not a backend", expected="a subclass of isthmus.backends.base.Backend")
    return kind
