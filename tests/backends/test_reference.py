from __future__ import annotations

import numpy as np
import pytest

from isthmus.backends.reference import ReferenceBackend
from isthmus.backends.testing import Case, check, suite
from isthmus.ir import Builder, Graph, Op, Tensor, interpreter
from isthmus.ir.dtypes import f32
from isthmus.ir.errors import FileError
from isthmus.ir.op import operands
from isthmus.passes import legalize


@pytest.mark.parametrize("case", suite("reference"))
def test_everything_in_the_table_is_evaluated_as_it_is(case: Case) -> None:
    assert {each.kind for each in check(case, legalize).values()} == {"native"}


def test_an_op_that_nobody_can_evaluate_is_not_legal() -> None:
    class Dark(Op):
        name = "dark"
        operands = operands("x: any T")

        def infer(self, call):  # type: ignore[no-untyped-def]
            return (call.tensor(0),)

    graph = Graph()
    x = graph.add_input(Tensor(f32, (2,)))
    node = Builder(graph).emit(Dark(), [x])
    assert ReferenceBackend().legal(node) == "it has neither an evaluation nor a decomposition"


def test_artefact_runs_a_copy() -> None:
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input(Tensor(f32, (2,)), "x")
    graph.set_outputs([b.mul(b.add(x, 1.0), x)])
    artefact = ReferenceBackend().emit(graph)
    graph.set_outputs([x])
    data = np.array([1, 3], np.float32)
    assert artefact.run([data])[0].tolist() == [2, 12]
    assert artefact.node_count == 2
    assert interpreter.run(graph, [data])[0].tolist() == [1, 3]
    artefact.validate()


def test_saving_is_refused_with_a_way_out(tmp_path) -> None:  # type: ignore[no-untyped-def]
    graph = Graph()
    graph.set_outputs([graph.add_input(Tensor(f32, (2,)))])
    with pytest.raises(FileError, match=r"no file format(.|\n)*print\(net.graph\)"):
        ReferenceBackend().emit(graph).save(tmp_path / "net")
    assert list(tmp_path.iterdir()) == []


