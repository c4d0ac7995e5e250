"""Fusion: coarse ops recovered from the fine ones that they were spelt with."""

from __future__ import annotations

from isthmus.passes.fuse_activations import ACTIVATIONS
from isthmus.passes.fuse_attention import ATTENTION
from isthmus.passes.fuse_layers import LAYERS
from isthmus.passes.fuse_normalization import NORMALIZATION
from isthmus.passes.fuse_rearrangement import REARRANGEMENT
from isthmus.passes.no_ops import neutral, nothing
from isthmus.passes.rewrite import Rewriting


class Fuse(Rewriting):
    """Recovers activations, norms, layers, attention and rearrangements.

    Constants that were folded last may be the ones, zeros and sizes that leave an op nothing to do: these go first, for no
    pattern has them.
    """

    def __init__(self) -> None:
        super().__init__("fuse", (nothing, neutral, *NORMALIZATION, *ACTIVATIONS, *LAYERS, *ATTENTION, *REARRANGEMENT))
