"""The op table's rows, one file a family. Importing this package fills `isthmus.ir.op.OPS`."""

from isthmus.ir.ops import (
    core,
    creation,
    elementwise,
    indexing,
    linalg,
    ordering,
    reduction,
    shape,
    slicing,
)

__all__ = [
    "core",
    "creation",
    "elementwise",
    "indexing",
    "linalg",
    "ordering",
    "reduction",
    "shape",
    "slicing",
]
