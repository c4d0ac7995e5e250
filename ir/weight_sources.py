"""Which files weights are read from: those that handles name, and those that their memory is mapped from."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from isthmus.ir.weights import LazyWeight, MappedWeight, Weight

MAPS: Final = Path("/proc/self/maps")
"""Where Linux tells what the memory of this process is mapped from; other systems have no such file."""


def files_of(weights: Iterable[Weight]) -> dict[tuple[int, int], str]:
    """The files, each by its device and number (`os.stat`), so that links to it are told for what they are.

    Args:
        weights: handles of all kinds; of those that are computed from others, the others count.
    """
    paths: set[str] = set()
    addresses: set[int] = set()
    seen: set[int] = set()
    stack = list(weights)
    while stack:
        weight = stack.pop()
        if id(weight) in seen:
            continue
        seen.add(id(weight))
        if isinstance(weight, LazyWeight):
            stack += weight.sources
        elif isinstance(weight, MappedWeight):
            paths.add(weight.path)
        elif weight.address:
            addresses.add(weight.address)
    paths |= _mapped_from(addresses)
    found = {}
    for path in sorted(filter(os.path.exists, paths)):
        state = os.stat(path)
        found[state.st_dev, state.st_ino] = path
    return found


def _mapped_from(addresses: Collection[int]) -> set[str]:
    """The paths of the files that these places in memory are mapped from."""
    spans: list[tuple[int, int, str]] = []
    for line in MAPS.read_text(errors="surrogateescape").splitlines() if addresses and MAPS.exists() else ():
        span, _, _, _, _, *path = line.split(maxsplit=5)
        start, _, end = span.partition("-")
        spans.append((int(start, 16), int(end, 16), "".join(path)))
    found = set()
    for address in addresses:
        place = bisect_right(spans, (address + 1,)) - 1
        if place >= 0 and address < spans[place][1] and spans[place][2].startswith("/"):
            found.add(spans[place][2])
    return found
