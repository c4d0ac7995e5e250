"""How the package tests itself."""

from __future__ import annotations

import pytest

from isthmus.backends.testing import Case, check, suite
from isthmus.passes import legalize

NATIVE = {"add", "sub", "mul", "div", "neg", "exp", "maximum", "minimum", "sqrt", "matmul", "constant"}
DECOMPOSED = {"sigmoid", "silu"}


@pytest.mark.parametrize("case", suite("dummy", longest=100))
def test_samples(case: Case) -> None:
    kinds = {outcome.kind for outcome in check(case, legalize).values()}
    assert ("native" in kinds) == (case.op.name in NATIVE)
    assert case.op.name not in DECOMPOSED or "decomposed" in kinds


def test_without_an_op_its_samples_are_refused() -> None:
    (case,) = (param.values[0] for param in suite("dummy", without="matmul") if param.values[0].op.name == "matmul")
    assert "refused: dummy has no matmul" in {outcome.told for outcome in check(case, legalize).values()}
