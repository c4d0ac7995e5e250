"""How results of two evaluators are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

# By element type: the relative error allowed, and a tenth of it of the greatest element besides. Everything else is exact.
TOLERANCE = {"float64": 1e-6, "float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def agree(got: Any, wanted: Any) -> bool:
    """Whether two results, lists of results included, have the same dtypes and shapes, and equal elements."""
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(agree, got, wanted))
    if wanted is None:
        return got is None
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    tolerance = TOLERANCE.get(got.dtype.name)
    if tolerance is None:
        return bool(np.all((got == wanted) | (got != got) & (wanted != wanted)))
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = max(1.0, finite.max(initial=0))
    return np.allclose(got, wanted, rtol=tolerance, atol=tolerance * 0.1 * scale, equal_nan=True)
