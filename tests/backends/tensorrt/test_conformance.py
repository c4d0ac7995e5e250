"""Every sample of the op table: made a network, read back, evaluated and equal to the reference; and one engine an op.

``exceptions.json`` says which samples are refused and why, and the few that are known to differ. A change either way
shows; run this file as a script to write the list anew, and read the difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from comparison import agree
from tensorrt_reader import evaluate

from isthmus.backends.tensorrt import TensorRTBackend
from isthmus.backends.tensorrt.artefact import TensorRTArtefact
from isthmus.ir import interpreter
from isthmus.ir.errors import UnsupportedError
from isthmus.ir.op import OPS, Op, Sample, Trait
from isthmus.ir.testing import graph_of, samples
from isthmus.passes.legalize import legalize

LIST = Path(__file__).with_name("exceptions.json")
EXCEPTIONS: dict[str, str] = json.loads(LIST.read_text()) if LIST.exists() else {}


def network(op: Op, sample: Sample, symbolic: bool) -> tuple[TensorRTArtefact, list[Any]]:
    """The network of a sample, and its inputs.

    Raises:
        UnsupportedError: it is refused.
    """
    graph, inputs = graph_of(op, sample, symbolic)
    backend = TensorRTBackend()
    legalize(graph, backend)
    return backend.emit(graph), inputs


def outcome(op: Op, sample: Sample, symbolic: bool) -> str:
    """``ok``, or what is not, in a few words."""
    try:
        artefact, inputs = network(op, sample, symbolic)
    except UnsupportedError as error:
        return f"refused: {error.refusals[0].message}"
    wanted, got = interpreter.run(graph_of(op, sample, symbolic)[0], inputs), evaluate(artefact, inputs)
    if Trait.RANDOM in op.traits:
        return "ok" if [(x.dtype, x.shape) for x in got] == [(x.dtype, x.shape) for x in wanted] else "another type"
    return "ok" if all(map(agree, got, wanted)) else "differs"


def cases(op: Op, sample: Sample, name: str) -> list[tuple[str, bool]]:
    """The sample as it is, and with symbols for its sizes."""
    return [(name, False), (f"{name}/symbolic", True)] if sample.symbolic else [(name, False)]


@pytest.mark.parametrize(("op", "sample", "name"), [pytest.param(*each, id=each[2]) for each in samples()])
def test_sample(op: Op, sample: Sample, name: str) -> None:
    for case, symbolic in cases(op, sample, name):
        assert outcome(op, sample, symbolic) == EXCEPTIONS.get(case, "ok"), case


def built() -> list[Any]:
    """Of each op the first sample that is not refused, with symbols where it can have them."""
    found: dict[str, Any] = {}
    for op, sample, name in samples():
        for case, symbolic in reversed(cases(op, sample, name)):
            if op.name not in found and case not in EXCEPTIONS and op.name not in ("check", "print"):
                found[op.name] = pytest.param(op, sample, symbolic, id=case)
    return list(found.values())


@pytest.mark.parametrize(("op", "sample", "symbolic"), built())
def test_engine(op: Op, sample: Sample, symbolic: bool) -> None:
    artefact, _ = network(op, sample, symbolic)
    assert len(memoryview(artefact.build(["sm86"]))) > 1000


def test_every_exception_is_of_a_sample() -> None:
    known = {case for each in samples() for case, _ in cases(*each)}
    assert [case for case in EXCEPTIONS if case not in known] == []


def test_few_exceptions_but_refusals() -> None:
    assert [case for case, reason in EXCEPTIONS.items() if not reason.startswith("refused: ")] == [
        "floor_div-10-special", "floor_div-10-special/symbolic",  # of infinity, which TensorRT's layer does not define
        "argmin-3-nan-f16", "argmin-3-nan-f16/symbolic",  # what is least among nan
    ]  # fmt: skip


def test_most_ops_have_a_form() -> None:
    refused = {op.name for op in OPS} - {param.values[0].name for param in built()}
    assert refused == {
        "bind", "check", "custom", "dynamic_expand", "dynamic_reshape", "dynamic_slice", "nonzero", "optional_get",
        "optional_has", "optional_none", "optional_some", "print", "range", "sequence_at", "sequence_concat",
        "sequence_construct", "sequence_empty", "sequence_insert", "sequence_length", "unique",
    }  # fmt: skip


def _write() -> None:
    outcomes = {
        case: outcome(op, sample, symbolic) for op, sample, name in samples() for case, symbolic in cases(op, sample, name)
    }
    found = {case: text for case, text in outcomes.items() if text != "ok"}
    LIST.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    _write()
