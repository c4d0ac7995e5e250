"""What the traits of the op table promise holds on the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isthmus.ir import Op, Sample, Trait
from isthmus.ir.interpreter import run
from isthmus.ir.testing import graph_of, samples


def rows(trait: Trait) -> pytest.MarkDecorator:
    found = [row for row in samples() if trait in row[0].traits]
    return pytest.mark.parametrize(("op", "sample"), [row[:2] for row in found], ids=[row[2] for row in found])


def apply(op: Op, sample: Sample, *operands: Any) -> Any:
    """The first result of the op on other operands than the sample's."""
    arrays = [None if x is None else np.asarray(x) for x in operands]
    return run(*graph_of(op, Sample(tuple(arrays), sample.attrs, sample.regions)))[0]


def same(left: Any, right: Any) -> bool:
    left, right = np.asarray(left), np.asarray(right)
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    if left.dtype.kind == "c":  # numpy rounds a complex product differently when its factors are swapped
        return np.allclose(left, right, 1e-6, 1e-6, equal_nan=True)
    return left.tolist() == right.tolist() or left.tobytes() == right.tobytes() or np.array_equal(left, right, equal_nan=True)


@rows(Trait.COMMUTATIVE)
def test_commutative(op: Op, sample: Sample) -> None:
    x, y, *rest = sample.operands
    assert same(apply(op, sample, y, x, *rest), apply(op, sample, x, y, *rest))


@rows(Trait.IDEMPOTENT)
def test_idempotent(op: Op, sample: Sample) -> None:
    x, *rest = sample.operands
    if isinstance(x, list):
        assert op.name == "identity"
        return
    once = apply(op, sample, x, *rest)
    assert same(apply(op, sample, once, *rest), once)


@rows(Trait.INVOLUTION)
def test_involution(op: Op, sample: Sample) -> None:
    x, *rest = sample.operands
    assert same(apply(op, sample, apply(op, sample, x, *rest), *rest), x)


@rows(Trait.LAYOUT)
def test_layout(op: Op, sample: Sample) -> None:
    found = apply(op, sample, *sample.operands)
    assert same(found.reshape(-1), np.asarray(sample.operands[0]).reshape(-1))


@rows(Trait.IDENTITY)
def test_identity(op: Op, sample: Sample) -> None:
    """A result of the first operand's type is that operand."""
    graph, inputs = graph_of(op, sample)
    (result,) = graph.outputs
    if result.type == graph.inputs[0].type and not isinstance(inputs[0], list):
        assert same(run(graph, inputs)[0], inputs[0])


def test_every_identity_has_such_a_sample() -> None:
    rows = {op.name: False for op, _, _ in samples() if Trait.IDENTITY in op.traits and Trait.LAYOUT not in op.traits}
    for op, sample, _ in samples():
        if op.name in rows:
            graph, _ = graph_of(op, sample)
            rows[op.name] |= graph.outputs[0].type == graph.inputs[0].type
    assert [name for name, found in rows.items() if not found] == []


@rows(Trait.ELEMENTWISE)
def test_elementwise(op: Op, sample: Sample) -> None:
    """Each element by itself gives the element of the result at its place."""
    whole = apply(op, sample, *sample.operands)
    arrays = [None if x is None else np.broadcast_to(x, whole.shape).reshape(-1) for x in sample.operands]
    for place in range(whole.size):
        assert same(apply(op, sample, *(None if x is None else x[place, ...] for x in arrays)), whole.reshape(-1)[place, ...])


@rows(Trait.RANDOM)
def test_random_is_not_pure(op: Op, sample: Sample) -> None:
    assert Trait.PURE not in op.traits


@rows(Trait.CONSTANT)
def test_constant(op: Op, sample: Sample) -> None:
    assert apply(op, sample, *sample.operands) is sample.attrs["value"].array()


@rows(Trait.PURE)
def test_pure(op: Op, sample: Sample) -> None:
    graph, inputs = graph_of(op, sample)
    for left, right in zip(run(graph, inputs), run(graph, inputs), strict=True):
        if not isinstance(left, list) and left is not None:
            assert same(left, right)
