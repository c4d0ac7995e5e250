"""The conformance suite finds what is wrong with a backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from isthmus.backends.base import Backend
from isthmus.backends.reference import ReferenceArtefact, ReferenceBackend
from isthmus.backends.testing import Case, check, outcomes, suite
from isthmus.errors import EvaluationError, Refusal, UnsupportedError, UsageError, VerifyError
from isthmus.ir import Graph, Node
from isthmus.passes import legalize


def case(op: str, backend: Backend | None = None, **more: Any) -> Case:
    (found,) = (param.values[0] for param in suite(backend or ReferenceBackend(), **more) if param.values[0].op.name == op)
    assert isinstance(found, Case)
    return found


def kinds(op: str, **how: Any) -> set[str]:
    return {each.told for each in outcomes(case(op, **how.pop("suite", {})), legalize, **how).values()}


class Picky(ReferenceBackend):
    def legal(self, node: Node) -> str | None:
        return "it is coarse" if node.op.name in ("silu", "einsum") else "no loops" if node.op.name == "loop" else None


def test_native_decomposed_refused() -> None:
    backend = Picky()
    assert {each.kind for each in check(case("add", backend), legalize).values()} == {"native"}
    assert {each.kind for each in check(case("silu", backend), legalize).values()} == {"decomposed"}
    found = check(case("loop", backend), legalize)
    assert {each.told for each in found.values()} == {"refused: no loops"}


def test_each_sample_comes_with_symbols_or_with_constants_for_its_sizes_and_operands() -> None:
    both = case("conv", forms=("static", "symbolic", "constants"))
    graphs = {name: (graph, inputs) for name, graph, inputs in both.graphs()}
    plain = min(graphs)
    assert all(isinstance(dim, int) for dim in graphs[plain][0].inputs[0].tensor.shape or ())
    assert any(not isinstance(dim, int) for dim in graphs[f"{plain}/symbolic"][0].inputs[0].tensor.shape or ())
    held, inputs = graphs[f"{plain}/constants"]
    assert len(held.inputs) == len(inputs) == 1
    assert {each.kind for each in check(both, legalize).values()} == {"native"}


def test_wrong_numbers_types_and_shapes_are_found_and_named() -> None:
    for wrong in (lambda array: array + 1, lambda array: array.astype(np.float64), lambda array: array[None]):
        spoilt = {"a runtime": lambda artefact, inputs, wrong=wrong: list(map(wrong, artefact.run(inputs)))}
        with pytest.raises(AssertionError, match=r"erf-0\S*: wrong: a runtime differs\na runtime gives") as caught:
            check(case("erf"), legalize, runs=spoilt)
        assert "and not [array(" in str(caught.value)


def test_random_results_have_only_their_types_compared() -> None:
    assert kinds("random_normal") == {"ok"}
    wider = {"a runtime": lambda artefact, inputs: [each.astype(np.float64) for each in artefact.run(inputs)]}
    assert "wrong: a runtime differs" in kinds("random_normal", runs=wider)


def test_what_is_not_finite_is_left_out_where_a_target_promises_nothing() -> None:
    def tidy(artefact: Any, inputs: Sequence[Any]) -> list[Any]:
        assert all(np.isfinite(each).all() for each in inputs if each.dtype == np.float32)
        return [np.nan_to_num(each) if each.dtype == np.float32 else each for each in artefact.run(inputs)]

    assert kinds("log", runs={"tidy": tidy}, suite={"finite": True}) == {"ok"}


def test_runtimes_and_checkers_that_object_are_found() -> None:
    def fail(artefact: Any, inputs: Sequence[Any]) -> list[Any]:
        raise EvaluationError("out of order")

    class Strict(ReferenceBackend):
        def emit(self, graph: Graph, **names: Any) -> ReferenceArtefact:
            artefact = super().emit(graph, **names)

            def validate() -> None:
                raise VerifyError("not like this")

            artefact.validate = validate  # type: ignore[method-assign]
            return artefact

    assert kinds("add", runs={"a runtime": fail}) == {"wrong: a runtime fails"}
    with pytest.raises(AssertionError, match="wrong: the checker objects\nnot like this"):
        check(case("add", Strict()), legalize)
    assert check(case("add", Strict()), legalize, validate=False)


def test_a_refusal_needs_a_reason_and_an_effect_a_note() -> None:
    def silent(graph: Graph, backend: Backend) -> None:
        raise UnsupportedError("no", [Refusal("")])

    def drop(graph: Graph, backend: Backend) -> None:
        for node in list(graph.nodes):
            node.erase()

    with pytest.raises(AssertionError, match="refused without a reason"):
        check(case("add"), silent)
    with pytest.raises(AssertionError, match="an effect is lost, and no note says so"):
        check(case("print"), drop)


def test_exceptions_are_held_both_ways() -> None:
    loops = case("loop", Picky())
    names = [name for name, *_ in loops.graphs()]
    check(loops, legalize, known=dict.fromkeys(names, "refused: no loops"))
    with pytest.raises(AssertionError, match=f"{names[0]}: refused: no loops, and not ok"):
        check(loops, legalize, known={})
    with pytest.raises(AssertionError, match="ok, and not refused: why"):
        check(case("add"), legalize, known={next(case("add").graphs())[0]: "refused: why"})


def test_options_and_ids() -> None:
    params = suite("onnx", opset=17, marks=pytest.mark.skip)
    assert params[0].id.endswith("-opset=17")
    assert params[0].marks
    assert params[0].values[0].backend.opset == 17
    with pytest.raises(UsageError, match="there is no target 'onxx'"):
        suite("onxx")
