"""Broken and hostile files, where the checkout stands beside the collection: each in a process with little memory and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bounded import compiled
from loading import COLLECTION, cases

CASES = cases("cases_bad")


def test_the_collection_is_there() -> None:
    if not CASES:
        pytest.skip(f"NONE OF THE CASES WAS RUN: there is no {COLLECTION}")
    assert len(CASES) > 5


@pytest.mark.parametrize("target", ["onnx", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_bad_file(name: str, target: str, tmp_path: Path) -> None:
    options: dict[str, Any] = CASES[name].opts  # type: ignore[attr-defined]
    source, written = tmp_path / "source", tmp_path / "written"
    source.mkdir()
    written.mkdir()
    path, feeds = CASES[name](str(source))
    found = compiled(Path(path), written / "saved" if target == "onnx" else None, feeds, target=target)
    assert found.kind in {"error": ("refused",), "ok": ("made",), "either": ("refused", "made")}[options["expect"]], found.told
    files = [file for file in written.rglob("*") if file.is_file()]
    assert found.kind == "made" or not files
    assert not any(options["secret"] in file.read_bytes() for file in files if "secret" in options)
    assert "secret" not in options or options["secret"].decode() not in found.told
    if found.kind == "made":
        for (output, *_), wanted in zip(found.outputs, options.get("results", ()), strict="results" in options):
            assert (output.dtype, output.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(output, wanted, rtol=1e-5)
