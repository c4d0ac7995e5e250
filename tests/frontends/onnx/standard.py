"""The standard's own test models, run through isthmus: imported, and evaluated here or compiled and run in onnxruntime.

``python tests/frontends/onnx/standard.py [WORD...] [--onnx] [--opset=N]`` prints what becomes of those whose names hold one of
the words: evaluated here, or run in onnxruntime, at the opset that the file is of or at another.
"""

from __future__ import annotations

import collections
import glob
import os
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

import isthmus
from isthmus.backends.onnx.opsets import NEWEST, OLDEST
from isthmus.errors import IsthmusError
from isthmus.verification import random_outputs

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


@cache
def cases() -> dict[str, Any]:
    """Every test model by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def load(case: Any) -> tuple[Any, Any]:
    """What to compile (a file where there is one), and the model."""
    if case.model is not None:
        return case.model, case.model
    path = Path(case.model_dir, "model.onnx")
    return path, onnx.load(path, load_external_data=False)


def data(case: Any, model: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """The stored inputs and outputs of a case, in order."""
    for inputs, outputs in case.data_sets or ():
        yield list(map(_array, inputs)), list(map(_array, outputs))
    for folder in sorted(glob.glob(os.path.join(case.model_dir, "test_data_set_*"))) if case.model_dir else ():
        inputs, outputs = (
            [_read(os.path.join(folder, f"{what}_{index}.pb"), value.type) for index, value in enumerate(values)]
            for what, values in (("input", model.graph.input), ("output", model.graph.output))
        )
        yield inputs, outputs


def _array(content: Any) -> Any:
    return onnx.numpy_helper.to_array(content) if isinstance(content, onnx.TensorProto) else content


def _read(path: str, type: Any) -> Any:
    if not os.path.exists(path):
        return None
    content = Path(path).read_bytes()
    kind = type.WhichOneof("value")
    if kind == "sequence_type":
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind == "optional_type":
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content))


def differs(found: Any, wanted: Any, case: Any, drawn: bool = False) -> str | None:
    """How two outputs differ; None where they do not. Of what is drawn at random, element type and shape count."""
    if wanted is None or isinstance(wanted, list):
        if (found is None) != (wanted is None):
            return f"{found!r} in place of {wanted!r}"
        if wanted is None:
            return None
        if len(found) != len(wanted):
            return f"{len(found)} elements in place of {len(wanted)}"
        return next(filter(None, (differs(a, b, case) for a, b in zip(found, wanted, strict=True))), None)
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return f"shape {found.shape} in place of {wanted.shape}"
    if wanted.dtype.kind in "OUST":
        return None if (found.astype(str) == wanted.astype(str)).all() else "texts differ"
    if found.dtype != wanted.dtype:
        return f"element type {found.dtype} in place of {wanted.dtype}"
    if drawn:
        return None
    if wanted.dtype.kind in "biu":
        return None if np.array_equal(found, wanted) else "numbers differ"
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), wanted.astype(wide)
    units = 2 * float(ml_dtypes.finfo(wanted.dtype).eps) if wanted.dtype.itemsize == 2 else 0.0
    if np.allclose(a, b, rtol=max(case.rtol, units), atol=case.atol, equal_nan=True):
        return None
    return f"off by {np.nanmax(np.abs(a - b)):.3g}"


def opset_of(model: Any) -> int:
    """The opset to write a model at: its own, where there is one to write."""
    own = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=1)
    return int(min(max(own, OLDEST), NEWEST))


def verdict(name: str, target: str = "reference", **options: Any) -> str:
    """What becomes of a case: ``right``, ``wrong: ...``, or ``refused: ...``."""
    case = cases()[name]
    path, model = load(case)
    if target == "onnx":
        options.setdefault("opset", opset_of(model))
    try:
        net = isthmus.compile(path, target=target, **options)
        random = random_outputs(net.captured.graph)
        for inputs, outputs in data(case, model):
            named = {value.name: content for value, content in zip(model.graph.input, inputs, strict=True)}
            found = net(*(named[name] for name in net.input_names)).values()
            for index, (mine, theirs, drawn) in enumerate(zip(found, outputs, random, strict=True)):
                off = differs(mine, theirs, case, drawn)
                if off is not None:
                    return f"wrong: output {index}: {off}"
    except IsthmusError as error:
        return f"refused: {error}".replace("\n", " ")
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}".replace("\n", " ")
    if net.report.notes and any("opaque" in note for note in net.report.notes):
        return "opaque"
    return "right"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    target = "onnx" if "--onnx" in sys.argv else "reference"
    opsets = [int(word.partition("=")[2]) for word in sys.argv if word.startswith("--opset=")]
    counts: collections.Counter[str] = collections.Counter()
    for name in cases():
        if words and not any(word in name for word in words):
            continue
        found = verdict(name, target, **({"opset": opsets[0]} if opsets else {}))
        counts[found.split(":")[0]] += 1
        if found != "right":
            print(name, found[:180], flush=True)
    print(dict(counts))
