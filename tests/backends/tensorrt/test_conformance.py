"""Every sample of the op table: made a network, read back, evaluated and equal to the reference; and one engine an op.

``exceptions.json`` says which samples are refused and why, and the few that are known to differ. A change either way
shows; run this file as a script to write the list anew, and read the difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pins
import pytest
from tensorrt_reader import evaluate

from isthmus.backends.testing import Case, check, suite
from isthmus.ir.op import OPS
from isthmus.passes import legalize

HERE = Path(__file__).parent
SUITE = suite("tensorrt")
READER = {"the network as it is read back": evaluate}


def known() -> dict[str, str]:
    return pins.read(HERE)["tensorrt"]


@pytest.mark.parametrize("case", SUITE)
def test_samples(case: Case) -> None:
    check(case, legalize, runs=READER, validate=False, known=known())


def built() -> list[Any]:
    """Of each op the first sample that is not refused, with symbols where it can have them."""
    found: dict[str, Any] = {}
    for param in SUITE:
        case = param.values[0]
        names = [name for name, graph, _ in case.graphs() if graph.outputs and name not in known()]
        first = next((name for name in names if f"{name}/symbolic" not in names), None)
        if first is not None:
            found[case.op.name] = pytest.param(case, first, id=first)
    return list(found.values())


@pytest.mark.parametrize(("case", "name"), built())
def test_engine(case: Case, name: str) -> None:
    (graph,) = (graph for each, graph, _ in case.graphs() if each == name)
    legalize(graph, case.backend)
    artefact: Any = case.backend.emit(graph)
    assert len(memoryview(artefact.build(["sm86"]))) > 1000


def test_exceptions_are_of_samples_and_few_but_refusals() -> None:
    assert not pins.strangers(SUITE, known())
    assert pins.errors(known()) == [
        "floor_div-10-special", "floor_div-10-special/symbolic",  # of infinity, which TensorRT's layer does not define
        "argmin-3-nan-f16", "argmin-3-nan-f16/symbolic",  # what is least among nan
    ]  # fmt: skip


def test_most_ops_have_a_form() -> None:
    refused = {op.name for op in OPS} - {param.values[0].op.name for param in built()}
    assert refused == {
        "bind", "check", "complex", "conj", "conv_integer", "custom", "det", "dynamic_expand", "dynamic_reshape",
        "dynamic_slice", "imag", "image_decode", "modulus", "native", "nms", "nms_per_class", "nonzero", "optional_get",
        "optional_has", "optional_none", "optional_some", "print", "range", "real", "regex_full_match", "sequence_at",
        "sequence_concat", "sequence_construct", "sequence_empty", "sequence_erase", "sequence_insert", "sequence_length",
        "sequence_split", "string_concat", "string_normalizer", "string_split", "tfidf", "unique", "view_as_complex",
        "view_as_real",
    }  # fmt: skip


if __name__ == "__main__":
    pins.write(HERE, {"tensorrt": pins.exceptions(SUITE, legalize, READER, validate=False)})
