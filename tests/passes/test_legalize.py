"""Legalization: lowerings, decompositions, and every refusal at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fake_target import Fine
from golden import assert_same, draw_inputs

from isthmus.ir import Builder, Graph, Location, Node, Op, Tensor, Trait, Value, verify
from isthmus.ir.dtypes import bool_, f32
from isthmus.ir.errors import UnsupportedError
from isthmus.ir.interpreter import run
from isthmus.passes import cleanup_passes, legalize, run_passes


def model() -> Graph:
    g = Graph()
    n = g.symbols.declare("N").dim
    x = g.add_input(Tensor(f32, (n, 4, 8)), "x")
    b = Builder(g, None, Location("model.py", 7))
    y = b.gelu(b.layer_norm(x, np.ones(8, np.float32), None, axis=2))
    y = b.attention(y, y, y)
    c = b.reduce_any(b.gt(y, 0.0), axes=[0, 1, 2])
    y = b.if_(c, regions=[b.subgraph([], lambda b: b.silu(y)), b.subgraph([], lambda b: b.relu(y))])
    block = b.subgraph([Tensor(f32, (n, 4, 8))], lambda b, z: b.mish(z))
    y = b.composite([y], regions=[block], name="block")
    g.set_outputs([b.relu(y)])
    return g


def test_coarse_ops_become_fine_in_regions_too() -> None:
    g = model()
    inputs = draw_inputs(g)
    before = run(g, inputs)
    target = Fine("relu", "add")
    record = legalize(g, target)
    verify(g)
    assert all(target.legal(node) is None for node in g.walk())
    once = ("gelu", "layer_norm", "attention", "softmax", "silu", "composite", "mish")
    assert record.counts == dict.fromkeys(once, 1) | {"relu": 2, "add": record.counts["add"]}
    assert record.changed
    assert record.nodes_after > record.nodes_before
    run_passes(g, cleanup_passes(), verify=True)
    assert all(target.legal(node) is None for node in g.walk())
    assert_same(before, run(g, inputs), 1e-5)
    assert not legalize(g, target).changed


def test_new_nodes_say_where_they_come_from() -> None:
    g = model()
    legalize(g, Fine())
    erf = next(node for node in g.walk() if node.op.name == "erf")
    assert erf.location.line == 7
    assert erf.location.made_by == ("legalize.gelu",)


def test_refusals_come_all_at_once_each_with_its_place() -> None:
    g = Graph()
    x = g.add_input(Tensor(f32, (4,)), "x")
    values = []
    for line, op in enumerate(("sin", "gelu", "cos", "sin"), 1):
        values.append(getattr(Builder(g, None, Location("model.py", line)), op)(x))
    c = g.add_input(Tensor(bool_, ()), "c")
    nested = Builder(g, None, Location("model.py", 9))
    values.append(nested.if_(c, regions=[nested.subgraph([], lambda b: b.sin(x)), nested.subgraph([], lambda b: b.abs(x))]))
    g.set_outputs(values)
    with pytest.raises(UnsupportedError) as error:
        legalize(g, Fine("sin", "erf"))
    assert [(r.op, r.location.line if r.location else None, r.message) for r in error.value.refusals] == [
        ("sin", 1, "fine has no sin"),
        ("erf", 2, "fine has no erf (needed for gelu)"),
        ("sin", 4, "fine has no sin"),
        ("sin", 9, "fine has no sin"),
    ]
    text = str(error.value)
    assert text.startswith("4 operations cannot be carried over to fine")
    assert text.count("remedy: leave this operation outside of the model, or compile for a target or version that has") == 2
    places = "".join(f"    at model.py:{line}\n" for line in (1, 4, 9))
    assert f"- sin (3 times): fine has no sin\n{places}    remedy: leave" in text
    assert "at model.py:2" in text


class Circle(Fine):
    """Makes ops into one another, and says of each of them why it does not take it."""

    rounds: dict[str, str]

    def legal(self, node: Node) -> str | None:
        return f"{node.op.name} is bad" if node.op.name in self.rounds else None

    def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
        other = self.rounds.get(node.op.name)
        return None if other is None else [getattr(b, other)(node.operands[0])]


@pytest.mark.parametrize(
    ("rounds", "op", "message"),
    [
        ({"sin": "cos", "cos": "sin"}, "sin", "sin is bad; it could only become cos (cos is bad), and then sin again"),
        ({"sin": "sin"}, "sin", "sin is bad; it could only become sin again"),
        (
            {"sin": "cos", "cos": "tan", "tan": "exp", "exp": "cos"}, "cos",
            "cos is bad; it could only become tan (tan is bad), and then exp (exp is bad), and then cos again (needed for sin)",
        ),
    ],
)  # fmt: skip
def test_a_circle_of_lowerings_is_refused_for_the_targets_own_reasons(rounds: dict[str, str], op: str, message: str) -> None:
    g = Graph()
    g.set_outputs([Builder(g).sin(g.add_input(Tensor(f32, (4,))))])
    target = Circle()
    target.rounds = rounds
    with pytest.raises(UnsupportedError) as error:
        legalize(g, target)
    (refusal,) = error.value.refusals
    assert (refusal.op, refusal.message) == (op, message)
    assert refusal.remedy is not None
    assert f"has {op}" in refusal.remedy


def test_a_lowering_of_another_type_is_refused() -> None:
    class Wrong(Fine):
        def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
            return [b.reduce_sum(node.operands[0], axes=[0])]

    g = Graph()
    g.set_outputs([Builder(g).sin(g.add_input(Tensor(f32, (4,))))])
    with pytest.raises(UnsupportedError, match=r"gives another type: f32\[\] is not known to be f32\[4\]"):
        legalize(g, Wrong("sin"))


def test_sizes_that_a_lowering_makes_anew_are_those_of_the_node() -> None:
    class Shifted(Fine):
        def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
            if node.op.name != "nonzero":
                return None
            return [b.nonzero(b.ne(node.operands[0], 0.0))]

        def legal(self, node: Node) -> str | None:
            operand = node.operands[0] if node.operands else None
            if node.op.name == "nonzero" and operand is not None and operand.tensor.dtype is not bool_:
                return "wants bool"
            return None

    g = Graph()
    b = Builder(g)
    found = b.nonzero(g.add_input(Tensor(f32, (4,)), "x"))
    g.set_outputs([b.add(found, b.size((found.tensor.shape or ())[0]))])
    inputs = draw_inputs(g)
    before = run(g, inputs)
    legalize(g, Shifted())
    verify(g)
    assert str(g.outputs[0].type) == "i64[u0, 1]"
    assert_same(before, run(g, inputs))


def test_every_coarse_op_has_a_finer_form() -> None:
    from isthmus.ir.testing import graph_of, samples

    def legal(op: Op, sample: Any) -> None:
        graph, inputs = graph_of(op, sample)
        before = run(graph, inputs)
        legalize(graph, Fine())
        verify(graph)
        after = run(graph, inputs)
        for a, c in zip(before, after, strict=True):
            wide = a.dtype.kind not in "iub"
            np.testing.assert_allclose(
                a.astype(np.float64) if wide else a, c.astype(np.float64) if wide else c, rtol=2e-2, atol=2e-2,
            )  # fmt: skip

    tried, whole = 0, set()
    for op, sample, _ in samples():
        finer = op.__class__.decompose is not Op.decompose
        if Trait.COARSE in op.traits and finer and Trait.RANDOM not in op.traits and "special" not in sample.note:
            try:
                legal(op, sample)
            except UnsupportedError as error:
                whole |= {refusal.op for refusal in error.refusals}
            tried += 1
    assert tried > 50
    # To blocks and to floats `quantize` has no finer form, nor has `dft` of a long prime.
    assert whole <= {"quantize", "dft"}


class Whole(Fine):
    """Takes no permutation by itself, and says two reshapes with one between them as a whole."""

    def legal(self, node: Node) -> str | None:
        return "not by itself" if node.op.name == "permute" or self.inner(node) else None

    @staticmethod
    def inner(node: Node) -> Value | None:
        turn = node.operands[0].producer if node.op.name == "reshape" and node.operands[0] else None
        return turn.operands[0] if turn is not None and turn.op.name == "permute" else None

    def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
        inner = self.inner(node)
        return None if inner is None else [b.reshape(b.relu(inner), shape=node.result.tensor.shape)]


def test_what_a_later_lowering_makes_needless_is_not_refused() -> None:
    g = Graph()
    b = Builder(g)
    turned = b.permute(g.add_input(Tensor(f32, (2, 3)), "x"), perm=[1, 0])
    g.set_outputs([b.reshape(turned, shape=[6])])
    legalize(g, Whole())
    verify(g)
    assert [node.op.name for node in g.nodes] == ["relu", "reshape"]
    kept = Graph()
    b = Builder(kept)
    turned = b.permute(kept.add_input(Tensor(f32, (2, 3)), "x"), perm=[1, 0])
    kept.set_outputs([b.reshape(turned, shape=[6]), turned])
    with pytest.raises(UnsupportedError) as caught:
        legalize(kept, Whole())
    assert [refusal.message for refusal in caught.value.refusals] == ["not by itself"]
