"""The models of `make demo`, at their full sizes."""

from __future__ import annotations

import zoo
from models import Entry

_SIZES: dict[str, tuple[dict[str, int], ...]] = {"BERT-base": ({"N": 1, "S": 9}, {"N": 3, "S": 1})}
_BATCHES: tuple[dict[str, int], ...] = ({"N": 1}, {"N": 3})

ENTRIES = [Entry(f"demo: {name}", make, _SIZES.get(name, _BATCHES)) for name, make in zoo.ALL.items()]
