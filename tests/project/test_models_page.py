"""The page of models, from what a sweep found."""

from __future__ import annotations

from typing import Any

import pytest
import sweep_models
from emitted import Model

OPSETS = [str(opset) for opset in sweep_models.OPSETS]


def found(verdict: str = "right", why: str = "", nodes: int = 5, **peers: int | str) -> dict[str, Any]:
    return {
        "sizes": ["N=1", "N=3"], "verdicts": dict.fromkeys(OPSETS, "right") | {OPSETS[0]: verdict}, "error": 1e-7,
        "why": dict.fromkeys(OPSETS, "") | {OPSETS[0]: why}, "nodes": nodes, "seconds": 0.25, "back": "yes",
        "peers": peers,
    }  # fmt: skip


def test_totals_rows_and_reasons() -> None:
    page = sweep_models.page({
        "lean": found(nodes=5, **{"torch.onnx": 7, "onnxslim": 6}), "fat": found(nodes=8, onnxsim=7),
        "alone": found(**{"torch.onnx": "RuntimeError: no"}), "refused": found("refused", "no such\n  op"),
    })  # fmt: skip
    count = len(OPSETS)
    assert f"3 of 4 models are right at all {count} opsets from {OPSETS[0]} to {OPSETS[-1]}, the others at some" in page
    assert f"of {4 * count} files, one a\nmodel and opset, {4 * count - 1} are right, 1 refused" in page
    assert "and 0 wrong. 1 of the\n2 models that another exporter can make have no more nodes" in page
    assert f"| lean | N=1; N=3 | {'right | ' * count}1.0e-07 | 5 | 6 (onnxslim) | yes | 0.25 |" in page
    assert f"| alone | N=1; N=3 | {'right | ' * count}1.0e-07 | 5 | fails | yes | 0.25 |" in page
    assert f"* refused (opset {OPSETS[0]}): no such op\n" in page
    assert "## Why not" not in sweep_models.page({"lean": found()})


@pytest.mark.parametrize("verdict", ["refused", "wrong", None])
def test_right_is_right_at_every_opset(verdict: Any) -> None:
    assert sweep_models.is_right(found())
    assert not sweep_models.is_right(found(verdict))


def test_refused_at_an_old_opset_is_no_failure() -> None:
    assert not sweep_models.is_failure(found())
    assert not sweep_models.is_failure(found("refused"))
    assert sweep_models.is_failure(found("wrong"))
    newest = found()
    newest["verdicts"][OPSETS[-1]] = "refused"
    assert sweep_models.is_failure(newest)


def test_a_file_is_of_the_opset_asked_for() -> None:
    m = Model()
    made = m.emit(m.b.resize(m.input(1, 1, 2, 2), sizes=[4, 4], mode="linear", coordinates="half_pixel"), opset=13)
    assert sweep_models.strangers(made, 13) == ""
    assert sweep_models.strangers(made, 11) == "the file imports {'': 13}"
    assert sweep_models.strangers(made, 7) == "the file imports {'': 13}; there is no Resize at opset 7"


def test_a_model_that_takes_too_long_is_ended() -> None:
    assert sweep_models.child("ours", "ESPCN", 0) == {"ended": "takes more than 0 s"}
