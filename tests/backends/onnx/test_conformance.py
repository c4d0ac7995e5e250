"""Every sample of the op table, at several opsets: written, checked, run by onnxruntime and equal to the reference.

``exceptions.json`` says, for each opset, which samples are refused and why, and the few where the checker or onnxruntime
is known to differ. A change either way shows; run this file as a script to write the list anew, and read the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from comparison import agree

from isthmus.backends.onnx import OnnxBackend, OnnxOptions
from isthmus.backends.onnx.opsets import NEWEST
from isthmus.ir import interpreter
from isthmus.ir.errors import EvaluationError, UnsupportedError, VerifyError
from isthmus.ir.op import Op, Sample, Trait
from isthmus.ir.testing import graph_of, samples
from isthmus.passes.legalize import legalize

OPSETS = (13, 17, 21, NEWEST)
LIST = Path(__file__).with_name("exceptions.json")
EXCEPTIONS: dict[str, dict[str, str]] = json.loads(LIST.read_text()) if LIST.exists() else {}


def outcome(op: Op, sample: Sample, symbolic: bool, opset: int) -> str:
    """``ok``, or what is not, in a few words."""
    graph, inputs = graph_of(op, sample, symbolic)
    backend = OnnxBackend(OnnxOptions(opset=opset))
    try:
        legalize(graph, backend)
    except UnsupportedError as error:
        return f"refused: {error.refusals[0].message}"
    artefact = backend.emit(graph)
    if not graph.outputs:  # an effect, which ONNX has not
        return "ok" if artefact.notes and artefact.node_count == 0 else "emitted"
    try:
        artefact.validate()
        wanted, got = interpreter.run(graph, inputs), artefact.run(inputs)
    except VerifyError:
        return "the checker objects"
    except EvaluationError:
        return "onnxruntime fails"
    if Trait.RANDOM in op.traits:
        return "ok" if [(x.dtype, x.shape) for x in got] == [(x.dtype, x.shape) for x in wanted] else "another type"
    return "ok" if all(map(agree, got, wanted)) else "onnxruntime differs"


def cases(op: Op, sample: Sample, name: str) -> list[tuple[str, bool]]:
    """The sample as it is, and with symbols for its sizes."""
    return [(name, False), (f"{name}/symbolic", True)] if sample.symbolic else [(name, False)]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("op", "sample", "name"), [pytest.param(*each, id=each[2]) for each in samples()])
def test_sample(op: Op, sample: Sample, name: str, opset: int) -> None:
    for case, symbolic in cases(op, sample, name):
        assert outcome(op, sample, symbolic, opset) == EXCEPTIONS[str(opset)].get(case, "ok"), case


def test_every_exception_is_of_a_sample() -> None:
    known = {case for each in samples() for case, _ in cases(*each)}
    assert [case for found in EXCEPTIONS.values() for case in found if case not in known] == []


def test_few_exceptions_but_refusals() -> None:
    for found in EXCEPTIONS.values():
        assert sum(not reason.startswith("refused: ") for reason in found.values()) < 20


def _write() -> None:
    found: dict[str, dict[str, str]] = {}
    for opset in OPSETS:
        rows = found.setdefault(str(opset), {})
        for op, sample, name in samples():
            for case, symbolic in cases(op, sample, name):
                text = outcome(op, sample, symbolic, opset)
                if text != "ok":
                    rows[case] = text
    LIST.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    _write()
