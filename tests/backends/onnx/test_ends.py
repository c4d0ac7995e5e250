"""Names and types of what goes in and out, and what a refusal advises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emitted import Model, f

from isthmus.ir import Location
from isthmus.ir import dtypes as T
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import UnsupportedError, UsageError


@pytest.mark.parametrize(
    ("dtype", "opset", "reason"),
    [
        (T.i4, 18, "the element type i4 needs opset 21"), (T.i4, 21, "no kernel for Identity-21 on i4"),
        (T.f8e4m3fn, 18, "the element type f8e4m3fn needs opset 19"),
    ],
)  # fmt: skip
def test_an_input_that_is_an_output(dtype: DType, opset: int, reason: str) -> None:
    m = Model()
    x = m.input(3, dtype=dtype)
    with pytest.raises(UnsupportedError, match=reason):
        m.emit(x, opset=opset)


def test_an_input_that_only_a_nested_graph_hands_on() -> None:
    m = Model()
    x, cond = m.input(3, dtype=T.i4), m.input(dtype=T.bool_, name="cond")
    y = m.b.if_(cond, regions=[m.b.subgraph([], lambda b: x), m.b.subgraph([], lambda b: x)])
    with pytest.raises(UnsupportedError, match="no kernel for Identity"):
        m.emit(y, opset=21)


def test_a_complex_input_that_is_an_output() -> None:
    m = Model()
    x = np.array([1 + 2j, 3], np.complex64)
    artefact = m.emit(m.input(2, dtype=T.c64), input_names=["x"], output_names=["y"])
    assert artefact.run([x])[0].tolist() == [1 + 2j, 3]
    assert artefact.notes == [
        "ONNX runtimes have no complex numbers: the inputs x and the outputs y are pairs of reals in the file, "
        "along a last axis"
    ]


@pytest.mark.parametrize("names", [[""], ["a\ud800"], ["a", "b"], [], [None]])
@pytest.mark.parametrize("kind", ["input", "output"])
def test_names_that_are_none(kind: str, names: list[Any]) -> None:
    m = Model()
    y = m.b.neg(m.input(3))
    with pytest.raises(UsageError, match=f"no name for an {kind}|names of {kind}s are not as many"):
        m.emit(y, **{f"{kind}_names": names})


def test_half_characters_in_names_and_places_become_question_marks() -> None:
    m = Model()
    x = m.input(m.dim("n\ud800"), 3, name="x\ud800")
    m.b.location = Location("model\udc80.py", 1, "forward", "part\ud800")
    y = m.b.mul(x, m.b.constant(f(3), name="weight\ud800"))
    y.name = "y\ud800"
    artefact = m.emit(y)
    graph = artefact.model.graph
    assert [graph.input[0].name, graph.output[0].name, graph.initializer[0].name] == ["x?", "y?", "weight?"]
    np.testing.assert_array_equal(artefact.run([f(2, 3)])[0], f(2, 3) * f(3))


def test_a_refusal_names_the_opset_that_would_do() -> None:
    m = Model()
    y = m.b.string_concat(m.input(3, dtype=T.string), m.input(3, dtype=T.string))
    with pytest.raises(UnsupportedError, match="remedy: choose opset >= 20"):
        m.emit(y)
    m = Model()
    y = m.b.cast(m.input(3, dtype=T.bool_), dtype=T.string)
    with pytest.raises(UnsupportedError, match="remedy: leave this operation outside of the model"):
        m.emit(y)
