"""Every test model of the standard: evaluated here, and compiled and run in onnxruntime, against the stored outputs.

``exceptions.json`` says, for each target, which are not right, and why. Run this file as a script to write the list anew, and
read the difference.
"""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path

import pytest
from loading import module

HERE = Path(__file__).parent
STANDARD = module(HERE / "standard.py")
TARGETS = ("reference", "onnx")
PARTS = 8
"""The models are made up in seconds, so that each process makes them once, and goes through a part of them in one test."""


@cache
def pinned() -> dict[str, dict[str, str]]:
    """What is not right, by target and name."""
    found: dict[str, dict[str, str]] = json.loads((HERE / "exceptions.json").read_text())
    return found


def verdicts(target: str, part: int = 0, parts: int = 1) -> dict[str, str]:
    """What becomes of each model of a part, where that is not right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = list(STANDARD.cases())[part::parts]
        found = {name: STANDARD.verdict(name, target) for name in names}
    return {name: told for name, told in found.items() if told != "right"}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", TARGETS)
def test_standard_models(target: str, part: int) -> None:
    known = pinned()[target]
    names = set(list(STANDARD.cases())[part::PARTS])
    found = verdicts(target, part, PARTS)
    kinds = {name: told.partition(":")[0] for name, told in found.items()}
    wanted = {name: told.partition(":")[0] for name, told in known.items() if name in names}
    worse = {name: found[name] for name in kinds if kinds[name] != wanted.get(name)}
    assert not worse


@pytest.mark.parametrize("target", TARGETS)
def test_exceptions_are_of_models_that_there_are(target: str) -> None:
    assert not pinned()[target].keys() - STANDARD.cases().keys()


def test_no_standard_op_stays_opaque() -> None:
    """What is left as it is: images to decode, other domains, and what is done with a tensor whose rank only a run tells."""
    opaque = {name for name, told in pinned()["onnx"].items() if told.startswith("opaque")}
    unranked = {"test_affine_grid_3d_align_corners_expanded"}
    assert all("ai_onnx_ml" in name or "image_decoder" in name for name in opaque - unranked), opaque


if __name__ == "__main__":
    text = json.dumps({target: {name: told[:160] for name, told in verdicts(target).items()} for target in TARGETS}, indent=1)
    (HERE / "exceptions.json").write_text(text + "\n")
