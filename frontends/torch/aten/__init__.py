"""The table of ATen lowerings, one file a family. Importing this package fills `isthmus.frontends.torch.lowering.LOWERINGS`."""

from isthmus.frontends.torch.aten import (
    activations,
    arithmetic,
    attention,
    checks,
    conv,
    creation,
    indexing,
    linalg,
    normalization,
    pooling,
    reduction,
    resize,
    rnn,
    scatter,
    shape,
    slicing,
)

__all__ = [
    "activations",
    "arithmetic",
    "attention",
    "checks",
    "conv",
    "creation",
    "indexing",
    "linalg",
    "normalization",
    "pooling",
    "reduction",
    "resize",
    "rnn",
    "scatter",
    "shape",
    "slicing",
]
