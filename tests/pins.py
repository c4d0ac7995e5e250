"""Lists of the samples that a target refuses, or is known to get wrong: ``exceptions.json`` beside its conformance test."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from isthmus.backends.testing import outcomes


@cache
def read(folder: Path) -> dict[str, dict[str, str]]:
    """`Outcome.told` by setting and sample's name."""
    found: dict[str, dict[str, str]] = json.loads((folder / "exceptions.json").read_text())
    return found


def write(folder: Path, found: dict[str, dict[str, str]]) -> None:
    """The list anew; read the difference before it is committed."""
    (folder / "exceptions.json").write_text(json.dumps(found, indent=1) + "\n")


def exceptions(suite: Iterable[Any], *how: Any, **more: Any) -> dict[str, str]:
    """What is not ``ok`` in a suite; `how` and `more` are those of `outcomes`."""
    found = {name: each.told for param in suite for name, each in outcomes(param.values[0], *how, **more).items()}
    return {name: told for name, told in found.items() if told != "ok"}


def strangers(suite: Iterable[Any], pinned: dict[str, str]) -> set[str]:
    """Names in a list that no sample of a suite has."""
    return pinned.keys() - {name for param in suite for name, *_ in param.values[0].graphs()}


def errors(pinned: dict[str, str]) -> list[str]:
    """Names of those that go wrong, where the others are refused."""
    return [name for name, told in pinned.items() if not told.startswith("refused: ")]
