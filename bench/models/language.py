"""transformers: small configurations, random weights; batch and sequence length may vary."""

from __future__ import annotations

from models import Entry

ENTRIES: list[Entry] = []
