"""Matrices as weights, turned round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from isthmus.ir.weights import CHUNK_BYTES, LazyWeight, Weight


class Transposed(LazyWeight):
    """A matrix weight with its axes swapped.

    Args:
        source: the matrix.
        name: the framework's name for the result; that of the source by default.
    """

    def __init__(self, source: Weight, name: str = "") -> None:
        super().__init__(source.dtype, source.shape[::-1], np.transpose, (source,), "transpose", name=name or source.name)

    @property
    def source(self) -> Weight:
        """The matrix as it was."""
        return self.sources[0]

    def chunks(self) -> Iterator[memoryview]:
        if self.dtype.bits % 8 or not self.size:
            yield from super().chunks()
            return
        source = self.sources[0].array()  # mapped or computed once, and not for every piece
        step = max(1, CHUNK_BYTES // (len(source) * source.itemsize))
        for start in range(0, self.shape[0], step):
            piece = source[:, start : start + step]
            turned = np.empty(piece.shape[::-1], source.dtype)
            for row in range(0, len(source), _BLOCK):
                turned[:, row : row + _BLOCK] = piece[row : row + _BLOCK].T
            yield turned.reshape(-1).view(np.uint8).data


_BLOCK: Final = 64
"""So many rows are turned at a time: what is read and what is written then both stay in the processor's caches."""
