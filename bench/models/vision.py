"""torchvision: classification, segmentation, video, flow."""

from __future__ import annotations

from models import Entry

ENTRIES: list[Entry] = []
