"""Every sample of the op table, at several opsets: written, checked, run by onnxruntime and equal to the reference.

``exceptions.json`` says, for each opset, which samples are refused and why, and the few where the checker or onnxruntime
is known to differ. A change either way shows; run this file as a script to write the list anew, and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pins
import pytest

from isthmus.backends.onnx.opsets import NEWEST
from isthmus.backends.testing import Case, check, suite
from isthmus.passes import legalize

HERE = Path(__file__).parent
SUITES = {str(opset): suite("onnx", opset=opset) for opset in (7, 9, 11, 13, 17, 21, NEWEST)}


@pytest.mark.parametrize(
    ("case", "opset"), [pytest.param(*param.values, opset, id=param.id) for opset, each in SUITES.items() for param in each]
)
def test_samples(case: Case, opset: str) -> None:
    check(case, legalize, known=pins.read(HERE)[opset])


@pytest.mark.parametrize("opset", SUITES)
def test_exceptions_are_of_samples_and_few_but_refusals(opset: str) -> None:
    known = pins.read(HERE)[opset]
    assert not pins.strangers(SUITES[opset], known)
    assert len(pins.errors(known)) < 20


if __name__ == "__main__":
    pins.write(HERE, {opset: pins.exceptions(each, legalize) for opset, each in SUITES.items()})
