"""Every sample of the op table, written as ONNX and read back: the same numbers, and but for known exceptions the same graph.

``round_trip.json`` says, for each opset, which samples come back in other ops, by the reason. Run this file as a script, with
`tests` among PYTHONPATH, to write the list anew.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from loading import module

import isthmus
import zoo
from isthmus.backends.onnx.opsets import NEWEST
from isthmus.backends.testing import suite

HERE = Path(__file__).parent
ROUND_TRIP = module(HERE / "round_trip.py")
OPSETS = (9, 13, 18, 21, NEWEST)
PARTS = 4


@cache
def pinned(opset: int) -> dict[str, str]:
    """Why samples come back otherwise, by name."""
    found: dict[str, dict[str, list[str]]] = json.loads((HERE / "round_trip.json").read_text())
    return {name: reason for reason, names in found[str(opset)].items() for name in names}


def others(opset: int, part: int = 0, parts: int = 1) -> tuple[set[str], dict[str, str]]:
    """The samples of a part that can be written, and what differs in those that come back otherwise."""
    found: dict[str, str | None] = {}
    for param in suite("onnx", opset=opset)[part::parts]:
        found.update(ROUND_TRIP.differences(param.values[0], opset))
    return set(found), {name: told for name, told in found.items() if told is not None}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("opset", OPSETS)
def test_samples_come_back(opset: int, part: int) -> None:
    names, found = others(opset, part, PARTS)
    known = pinned(opset).keys() & names
    assert not {name: told for name, told in found.items() if "WRONG" in told or name not in known}
    assert not known - found.keys(), "these come back as they were by now: take them from the list"


@pytest.mark.parametrize("opset", OPSETS)
def test_few_come_back_otherwise(opset: int) -> None:
    assert len(pinned(opset)) < 30


@pytest.mark.parametrize("opset", [9, 18, NEWEST])
@pytest.mark.parametrize("name", zoo.ALL)
def test_models_of_the_demonstration_come_back(name: str, opset: int, tmp_path: Path) -> None:
    example = zoo.ALL[name]()
    net = isthmus.compile(example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes, opset=opset)
    assert ROUND_TRIP.model_difference(net, tmp_path / "net.onnx", opset) is None


if __name__ == "__main__":
    told: dict[str, dict[str, list[str]]] = {}
    for opset in OPSETS:
        reasons = told[str(opset)] = {}
        for name, how in others(opset)[1].items():
            reasons.setdefault(ROUND_TRIP.reason(name, how), []).append(name)
    (HERE / "round_trip.json").write_text(json.dumps(told, indent=1) + "\n")
