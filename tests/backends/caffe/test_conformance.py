"""Every sample of the op table, in every dialect: written, checked, run by the dialect's readers, equal to the reference.

Each sample is there twice: with all operands as inputs, and with all but the first as constants, which is what Caffe's
layers want. Nothing is said of what Caffe's readers make of infinities and nan. ``exceptions.json`` says which are refused,
in which dialects (``every`` where it is the same in all, ``*`` for the dialect's name), and why. A change either way shows;
run this file as a script to write the list anew, and read the difference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pins
import pytest
from caffe_readers import mnn

from isthmus.backends.caffe.artefact import CaffeArtefact
from isthmus.backends.caffe.dialect import BUILT_IN
from isthmus.backends.testing import Case, Run, check, suite
from isthmus.ir import Graph
from isthmus.passes import cleanup_passes, run_passes
from isthmus.passes.legalize import Target, legalize

HERE = Path(__file__).parent
SUITES = {name: suite("caffe", forms=("static", "constants"), finite=True, dialect=name) for name in BUILT_IN}


def run_mnn(artefact: CaffeArtefact, inputs: Sequence[Any]) -> list[Any]:
    """The outputs, by MNN."""
    net = artefact.net
    feeds = dict(zip(net.inputs, [np.asarray(array) for array in inputs], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        prototxt, caffemodel = artefact.save(Path(folder, "net"))
        found = mnn().run([str(prototxt), str(caffemodel)], feeds, net.outputs)
    # MNN keeps axes of size 1 that others drop.
    pairs = [(found[name], shape) for name, shape in zip(net.outputs, net.shapes, strict=True)]
    return [array.reshape(shape) if array.size == np.prod(shape) else array for array, shape in pairs]  # type: ignore[arg-type]


OPENCV: dict[str, Run] = {"OpenCV": CaffeArtefact.run}
READERS = {name: {**OPENCV, "MNN": run_mnn} if name in ("mnn", "portable") else OPENCV for name in BUILT_IN}


def prepare(graph: Graph, target: Target) -> None:
    legalize(graph, target)
    run_passes(graph, cleanup_passes())


def known(dialect: str) -> dict[str, str]:
    pinned = pins.read(HERE)
    return {name: told.replace("dialect *", f"dialect {dialect}") for name, told in (pinned["every"] | pinned[dialect]).items()}


@pytest.mark.parametrize(
    ("case", "dialect"), [pytest.param(*param.values, name, id=param.id) for name, each in SUITES.items() for param in each]
)
def test_samples(case: Case, dialect: str) -> None:
    check(case, prepare, runs=READERS[dialect], known=known(dialect))


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_exceptions_are_refusals_of_samples(dialect: str) -> None:
    assert not pins.strangers(SUITES[dialect], known(dialect))
    assert not pins.errors(known(dialect))


def _write() -> None:
    found = {
        name: {
            sample: told.replace(f"dialect {name}", "dialect *")
            for sample, told in pins.exceptions(each, prepare, READERS[name]).items()
        }
        for name, each in SUITES.items()
    }
    first = found[BUILT_IN[0]]
    every = {name: told for name, told in first.items() if all(each.get(name) == told for each in found.values())}
    rest = {dialect: {name: told for name, told in each.items() if name not in every} for dialect, each in found.items()}
    pins.write(HERE, {name: dict(sorted(each.items())) for name, each in sorted({"every": every, **rest}.items())})


if __name__ == "__main__":
    _write()
