"""Fusion: coarse ops recovered from the fine ones that they were spelt with."""

from __future__ import annotations

from isthmus.passes.fuse_activations import ACTIVATIONS
from isthmus.passes.fuse_attention import ATTENTION
from isthmus.passes.fuse_layers import LAYERS
from isthmus.passes.fuse_normalization import NORMALIZATION
from isthmus.passes.fuse_rearrangement import REARRANGEMENT
from isthmus.passes.rewrite import Rewriting


class Fuse(Rewriting):
    """Recovers activations, norms, layers, attention and rearrangements."""

    def __init__(self) -> None:
        super().__init__("fuse", (*NORMALIZATION, *ACTIVATIONS, *LAYERS, *ATTENTION, *REARRANGEMENT))
