"""Random numbers that Python and numpy draw while a model is watched: they would become constants."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from numpy.random import mtrand

from isthmus.frontends.torch.second import Watch
from isthmus.ir.equality import difference
from isthmus.ir.errors import CaptureError

_NUMPYS: Final = mtrand._rand
"""The generator behind the functions of `numpy.random`."""


def state() -> tuple[Any, ...]:
    """Where the generators of `random` and `numpy.random` are."""
    keys: Any
    _, keys, *rest = _NUMPYS.get_state(legacy=True)
    return random.getstate(), keys.tobytes(), *rest


@contextmanager
def kept() -> Iterator[None]:
    """Puts both generators back."""
    before = random.getstate(), _NUMPYS.get_state()
    try:
        yield
    finally:
        random.setstate(before[0])
        _NUMPYS.set_state(before[1])


def compare(first: Watch, other: Watch) -> None:
    """Compares two watches of a model that draws such numbers, and drew others in each.

    Raises:
        CaptureError: it computes with them.
    """
    found = difference(first.graph, other.graph)
    if found is not None:
        raise CaptureError(
            "the model computes with random numbers that Python's random or numpy.random draws, which would be constants",
            found=found,
            remedy="draw them with torch.rand or torch.randn, or once, when the model is made",
        )
