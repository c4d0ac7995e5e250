"""Ops of ``ai.onnx.ml`` about dicts and texts that ONNX's own evaluator lacks, in its own form."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from onnx.reference.op_run import OpRun

_KINDS: Final[dict[str, Any]] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": str}


class ZipMap(OpRun):  # type: ignore[misc]
    """A dict a row, from labels to numbers."""

    op_domain = "ai.onnx.ml"

    def _run(self, x: Any, classlabels_int64s: Any = None, classlabels_strings: Any = None) -> tuple[Any]:
        labels = list(classlabels_strings or classlabels_int64s)
        return ([dict(zip(labels, row.tolist(), strict=True)) for row in x.reshape(-1, len(labels))],)


class CategoryMapper(OpRun):  # type: ignore[misc]
    """Numbers of texts, or texts of numbers; a default for those that are not listed."""

    op_domain = "ai.onnx.ml"

    def _run(
        self, x: Any, cats_int64s: Any = None, cats_strings: Any = None, default_int64: int = -1,
        default_string: str = "_Unused",
    ) -> tuple[Any]:  # fmt: skip
        if x.dtype.kind in "OUS":
            numbers = dict(zip(cats_strings, cats_int64s, strict=True))
            return (np.array([numbers.get(text, default_int64) for text in x.reshape(-1)], np.int64).reshape(x.shape),)
        texts = dict(zip(cats_int64s, cats_strings, strict=True))
        return (np.array([texts.get(number, default_string) for number in x.reshape(-1).tolist()], object).reshape(x.shape),)


class CastMap(OpRun):  # type: ignore[misc]
    """A dict's values as a row: side by side in the order of their keys, or each at the place that its key is."""

    op_domain = "ai.onnx.ml"

    def _run(self, x: Any, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> tuple[Any]:
        kind = _KINDS[cast_to]
        cast = {key: kind(float(value) if kind is np.float32 else value) for key, value in x.items()}
        sparse = {key: cast.get(key, kind()) for key in range(max_map)}
        row = [*(sparse if map_form == "SPARSE" else {key: cast[key] for key in sorted(cast)}).values()]
        return (np.array([row], object if kind is str else kind),)


MORE: Final = [ZipMap, CategoryMapper, CastMap]
