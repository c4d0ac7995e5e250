"""Small networks of our own, each for one kind of layer."""

from __future__ import annotations

from models import Entry

ENTRIES: list[Entry] = []
