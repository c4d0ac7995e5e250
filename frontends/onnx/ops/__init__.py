"""What each op of ONNX says in the IR's ops, one file a family."""

from isthmus.frontends.onnx.ops import (
    arrangement,
    casts,
    constants,
    elementwise,
    indexing,
    linalg,
    random,
    reduction,
    shapes,
    slices,
)

__all__ = [
    "arrangement",
    "casts",
    "constants",
    "elementwise",
    "indexing",
    "linalg",
    "random",
    "reduction",
    "shapes",
    "slices",
]
