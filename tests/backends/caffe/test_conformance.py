"""Every sample of the op table, in every dialect: written, checked, run by the dialect's readers, equal to the reference.

Each sample is there twice: with all operands as inputs, and with all but the first as constants, which is what Caffe's
layers want. ``exceptions.json`` says which are refused, in which dialects, and why. A change either way shows; run this
file as a script to write the list anew, and read the difference.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caffe_readers import mnn
from comparison import agree

from isthmus.backends.caffe import CaffeBackend, CaffeOptions
from isthmus.backends.caffe.artefact import CaffeArtefact
from isthmus.backends.caffe.dialect import BUILT_IN
from isthmus.backends.caffe.worker import Worker
from isthmus.ir import Builder, interpreter, weight
from isthmus.ir.errors import EvaluationError, UnsupportedError, VerifyError
from isthmus.ir.op import Op, Sample
from isthmus.ir.testing import graph_of, samples
from isthmus.passes import cleanup_passes, run_passes
from isthmus.passes.legalize import legalize

LIST = Path(__file__).with_name("exceptions.json")
EXCEPTIONS: dict[str, dict[str, str]] = json.loads(LIST.read_text()) if LIST.exists() else {}
"""By dialect, or ``every`` where it is the same in all."""
MNN_READS = ("mnn", "portable")


def cases() -> Iterator[tuple[str, Op, Sample, bool]]:
    """Every sample's name, op and content, and whether all operands but the first are constants."""
    for op, sample, name in samples():
        yield name, op, sample, False
        if len(sample.operands) > 1 and not isinstance(sample.operands[0], list):
            yield f"{name}/constants", op, sample, True


@cache
def backend(dialect: str) -> CaffeBackend:
    return CaffeBackend(CaffeOptions(dialect=dialect))


def outcome(op: Op, sample: Sample, constants: bool, dialect: str, readers: dict[str, Worker]) -> str:
    """``ok``, or what is not, in a few words."""
    graph, inputs = graph_of(op, sample)
    if constants:
        builder = Builder(graph, next(graph.nodes))
        for value, content in zip(graph.inputs[1:], inputs[1:], strict=True):
            if isinstance(content, list) or content is None:
                return "a sequence is no constant"
            value.replace_by(builder.constant(weight(finite(content))))
        for index in range(len(inputs) - 1, 0, -1):
            graph.remove_input(index)
        inputs = inputs[:1]
    inputs = [finite(content) for content in inputs]
    wanted = interpreter.run(graph, inputs)
    target = backend(dialect)
    try:
        legalize(graph, target)
        run_passes(graph, cleanup_passes())
        artefact = target.emit(graph)
    except UnsupportedError as error:
        return f"refused: {error.refusals[0].message.replace(dialect, '*')}"
    try:
        artefact.validate()
    except VerifyError as error:
        return f"the checker objects: {error.message}"
    try:
        got = {"OpenCV": artefact.run(inputs)}
    except EvaluationError as error:
        return f"OpenCV fails: {error.message}"
    for name, worker in readers.items():
        try:
            got[name] = run(artefact, inputs, worker)
        except EvaluationError as error:
            return f"{name} fails: {error.message}"
    wrong = [name for name, found in got.items() if not all(map(alike, found, wanted))]
    return f"{' and '.join(wrong)} differ" if wrong else "ok"


def alike(got: Any, wanted: Any) -> bool:
    return got.shape == wanted.shape and agree(np.where(np.isfinite(wanted), got, wanted), wanted)


def finite(content: Any) -> Any:
    """Nothing is said of what Caffe's readers make of infinities and nan."""
    real = isinstance(content, np.ndarray) and content.dtype == np.float32
    return np.nan_to_num(content, nan=0.25, posinf=9, neginf=-9) if real else content


def run(artefact: CaffeArtefact, inputs: list[Any], worker: Worker) -> list[Any]:
    net = artefact.net
    feeds = dict(zip(net.inputs, [np.asarray(array) for array in inputs], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        prototxt, caffemodel = artefact.save(Path(folder, "net"))
        found = worker.run([str(prototxt), str(caffemodel)], feeds, net.outputs)
    # MNN keeps axes of size 1 that others drop.
    pairs = [(found[name], shape) for name, shape in zip(net.outputs, net.shapes, strict=True)]
    return [array.reshape(shape) if array.size == np.prod(shape) else array for array, shape in pairs]  # type: ignore[arg-type]


@pytest.mark.parametrize(("op", "sample", "constants", "name"), [pytest.param(*c[1:], c[0], id=c[0]) for c in cases()])
def test_sample(op: Op, sample: Sample, constants: bool, name: str) -> None:
    for dialect in BUILT_IN:
        expected = EXCEPTIONS["every"].get(name) or EXCEPTIONS[dialect].get(name, "ok")
        assert outcome(op, sample, constants, dialect, readers(dialect)) == expected, dialect


def readers(dialect: str) -> dict[str, Worker]:
    """The readers of a dialect besides OpenCV."""
    return {"MNN": mnn()} if dialect in MNN_READS else {}


def test_every_exception_is_of_a_sample() -> None:
    known = {case[0] for case in cases()}
    assert [name for found in EXCEPTIONS.values() for name in found if name not in known] == []


def test_few_exceptions_but_refusals() -> None:
    for found in EXCEPTIONS.values():
        assert [name for name, reason in found.items() if not reason.startswith("refused: ")] == []


def _write() -> None:
    found: dict[str, dict[str, str]] = {}
    for dialect in BUILT_IN:
        outcomes = {name: outcome(op, sample, held, dialect, readers(dialect)) for name, op, sample, held in cases()}
        found[dialect] = {name: text for name, text in outcomes.items() if text != "ok"}
    first = found[BUILT_IN[0]]
    every = {name: text for name, text in first.items() if all(each.get(name) == text for each in found.values())}
    rest = {dialect: {name: text for name, text in each.items() if name not in every} for dialect, each in found.items()}
    found = {"every": every, **rest}
    LIST.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    _write()
