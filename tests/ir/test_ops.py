"""Every row of the op table, by its samples."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from isthmus.ir import OPS, Builder, Graph, Node, Op, Sample, Trait, decompose, dims, dtypes, parse, weight_table
from isthmus.ir.dims import resolve
from isthmus.ir.equality import difference
from isthmus.ir.errors import InferError
from isthmus.ir.interpreter import run, type_of
from isthmus.ir.op import Call, Typed
from isthmus.ir.symbols import Symbols
from isthmus.ir.testing import graph_of, samples
from isthmus.ir.types import Optional, Sequence, Tensor, Type, resolved
from isthmus.ir.verifier import verify

ALL = list(samples())
each_op = pytest.mark.parametrize("op", list(OPS), ids=lambda op: op.name)


def rows(when: Callable[[Op, Sample], bool]) -> pytest.MarkDecorator:
    """Parameters for a test: the samples of which something holds."""
    found = [row for row in ALL if when(*row[:2])]
    return pytest.mark.parametrize(("op", "sample"), [row[:2] for row in found], ids=[row[2] for row in found])


each_sample = rows(lambda op, sample: True)

TOLERANCES = {
    "f64": (1e-9, 1e-11), "f32": (1e-5, 1e-6), "f16": (1e-2, 1e-2), "bf16": (4e-2, 4e-2), "c64": (1e-5, 1e-6),
    "c128": (1e-9, 1e-11),
}  # fmt: skip


def assert_same(found: Any, expected: Any, exact: bool = True) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for left, right in zip(found, expected, strict=True):
            assert_same(left, right, exact)
        return
    if expected is None:
        assert found is None
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    dtype = dtypes.from_numpy(expected.dtype)
    if exact or not (dtype.is_float or dtype.is_complex) or dtype.bits < 16:
        assert dtype.kind == "string" or found.tobytes() == expected.tobytes() or np.array_equal(found, expected)
        if dtype.kind == "string":
            assert found.tolist() == expected.tolist()
        return
    wide = np.complex128 if dtype.is_complex else np.float64
    rtol, atol = TOLERANCES[dtype.name]
    np.testing.assert_allclose(found.astype(wide), expected.astype(wide), rtol, atol)


def assert_type(type: Type, content: Any) -> None:
    """The content has exactly this type; a dim that nobody knows may be anything."""
    if isinstance(type, Optional):
        if content is not None:
            assert_type(type.element, content)
    elif isinstance(type, Sequence):
        assert isinstance(content, list)
        for item in content:
            assert_type(type.element, item)
    else:
        actual = type_of(np.asarray(content))
        assert isinstance(actual, Tensor)
        assert actual.dtype is type.dtype
        if type.shape is not None:
            assert actual.shape is not None
            assert len(type.shape) == len(actual.shape)
            for dim, size in zip(type.shape, actual.shape, strict=True):
                assert dim is None or dims.hint(dim) in (size, None), f"{type} for {actual}"


def fresh(type: Type) -> bool:
    """Whether something about a tensor's shape is known only when it runs."""
    return isinstance(type, Tensor) and (type.shape is None or any(dim is None or dims.hint(dim) is None for dim in type.shape))


def has_decomposition(op: Op) -> bool:
    return type(op).decompose is not Op.decompose


def the_node(graph: Graph, op: Op) -> Node:
    (node,) = (node for node in graph.nodes if node.op is op)
    return node


@each_op
def test_row_is_complete(op: Op) -> None:
    assert op.__doc__
    assert op.__doc__ != Op.__doc__
    foreign = op.name in ("custom", "native")  # nobody here knows what it does
    assert foreign or any(row is op for row, _, _ in ALL), "has no sample"
    assert Trait.COARSE not in op.traits or has_decomposition(op)


@each_sample
def test_infer_agrees_with_evaluate(op: Op, sample: Sample) -> None:
    graph, inputs = graph_of(op, sample)
    verify(graph)
    before = copy.deepcopy(inputs)
    results = run(graph, inputs)
    for value, result in zip(graph.outputs, results, strict=True):
        assert_type(value.type, result)
    assert not graph.symbols.assumptions
    assert_same(inputs, before)


@rows(lambda op, sample: bool(sample.symbolic))
def test_symbolic_sizes(op: Op, sample: Sample) -> None:
    expected_graph, inputs = graph_of(op, sample)
    expected = run(expected_graph, inputs)
    graph, inputs = graph_of(op, sample, symbolic=True)
    verify(graph)
    for assumption in graph.symbols.assumptions:
        left, right = dims.hint(resolve(assumption.left)), dims.hint(resolve(assumption.right))
        assert left is not None
        assert right is not None
        holds = {"==": left == right, "!=": left != right, "<": left < right, "<=": left <= right}
        holds |= {">": left > right, ">=": left >= right}
        assert holds[assumption.relation], assumption
    for value, static, array in zip(graph.outputs, expected_graph.outputs, expected, strict=True):
        assert_type(resolved(value.type), array)
        assert fresh(static.type) or not fresh(resolved(value.type)), f"{value.type} is known to be {static.type}"
    for found, array in zip(run(graph, inputs), expected, strict=True):
        if Trait.RANDOM not in op.traits:
            assert_same(found, array)


@rows(lambda op, sample: has_decomposition(op))
def test_decomposition(op: Op, sample: Sample) -> None:
    for symbolic in (False, True) if sample.symbolic else (False,):
        graph, inputs = graph_of(op, sample)
        expected = run(graph, inputs)
        graph, inputs = graph_of(op, sample, symbolic)
        node = the_node(graph, op)
        types = [result.type for result in node.results]
        found = decompose(node)
        if found is None:  # not every use of the op has a finer form
            return
        for value, declared in zip(found, types, strict=True):
            if isinstance(declared, Tensor) and isinstance(value.type, Tensor) and declared.shape and value.type.shape:
                assert value.type.dtype is declared.dtype
                assert len(value.type.shape) == len(declared.shape)
                for left, right in zip(value.type.shape, declared.shape, strict=True):
                    assert graph.symbols.same(left, right) is not False
        node.replace_by(found)
        assert op not in [each.op for each in graph.walk()]
        verify(graph)
        for result, array in zip(run(graph, inputs), expected, strict=True):
            assert_same(result, array, exact=False)


def test_decompositions_end() -> None:
    finer: dict[Op, set[Op]] = {}
    for op, sample, _ in ALL:
        if op.regions:
            continue  # its body may be anything
        graph, _ = graph_of(op, sample)
        node = the_node(graph, op)
        if decompose(node) is not None:
            finer.setdefault(op, set()).update(each.op for each in graph.nodes if each is not node)
    assert finer
    done: set[Op] = set()

    def visit(op: Op, path: tuple[Op, ...]) -> None:
        assert op not in path, f"{op} decomposes into itself by way of {path}"
        if op not in done:
            for part in finer.get(op, ()):
                visit(part, (*path, op))
            done.add(op)

    for op in finer:
        visit(op, ())


@each_sample
@pytest.mark.parametrize("symbolic", [False, True])
def test_text_form(op: Op, sample: Sample, symbolic: bool) -> None:
    graph, _ = graph_of(op, sample, symbolic)
    text = str(graph)
    again = parse(text, weight_table(graph))
    assert difference(again, graph, locations=True) is None
    assert str(again) == text


def is_followed(op: Op, sample: Sample) -> bool:
    def small(operand: Any) -> bool:
        if operand is None or (op.variadic and isinstance(operand, list)):
            return operand is None or all(map(small, operand))
        if isinstance(operand, (list, Typed)):
            return False
        array = np.asarray(operand)
        return array.size <= 64 and dtypes.from_numpy(array.dtype).is_integer

    return type(op).infer_value is not Op.infer_value and all(map(small, sample.operands))


@rows(is_followed)
def test_elements_as_dims(op: Op, sample: Sample) -> None:
    graph, inputs = graph_of(op, sample)
    node = the_node(graph, op)
    expected = run(graph, inputs)
    symbols = Symbols()
    numbers = [tuple(int(x) for x in array.reshape(-1)) for array in inputs]
    unknowns = [tuple(symbols.fresh("e", lo=1 if x > 0 else -100, hint=x) for x in row) for row in numbers]
    for known in (numbers, unknowns):
        rows: list[Any] = list(known)
        call = Call(op, [value.type if value else None for value in node.operands], node.attrs, (), symbols, node.operands)
        found = op.infer_value(call, *(None if value is None else rows.pop(0) for value in node.operands))
        for elements, array in zip(found or (), expected, strict=found is not None):
            if elements is not None:
                assert [dims.hint(dim) for dim in elements] == np.asarray(array).reshape(-1).tolist()


FOLLOWED = [
    "constant", "size", "bind", "identity", "cast", "add", "sub", "mul", "neg", "div", "floor_div", "mod", "minimum", "maximum",
    "reshape", "squeeze", "unsqueeze", "concat", "gather", "slice", "reduce_prod", "reduce_sum",
]  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_shape_arithmetic_is_followed(name: str) -> None:
    assert type(OPS[name]).infer_value is not Op.infer_value


@pytest.mark.parametrize("op", dict.fromkeys(row for row, _, _ in ALL), ids=lambda op: op.name)
def test_mistakes_are_refused(op: Op) -> None:
    graph, _ = graph_of(op, next(sample for row, sample, _ in ALL if row is op))
    node = the_node(graph, op)
    flat = list(node.operands)
    regions = node.regions

    def refused(operands: list[Any], attrs: dict[str, Any]) -> None:
        with pytest.raises(InferError) as caught:
            Builder(graph).emit(op, operands, attrs, regions)
        assert caught.value.op == op.name

    refused(flat, {**node.attrs, "no_such_attribute": 1})
    if not op.variadic:
        refused([*flat, *(flat[:1] or [graph.add_input(Tensor(dtypes.f32, ()))])], node.attrs)
    for name, attribute in op.attributes.items():
        if attribute.kind != "anything that has a text form":
            refused(flat, {**node.attrs, name: object()})
    for index, operand in enumerate(op.operands):
        if operand.variadic:
            continue
        position = index  # operands behind a variadic one are counted from the end
        if any(before.variadic for before in op.operands[:index]):
            position = index - len(op.operands)
        if not operand.optional:
            refused([None if value is flat[position] else value for value in flat], node.attrs)
        if operand.dtypes is not None and operand.dtypes != dtypes.ANY:
            wrong = next(dtype for dtype in dtypes.ALL if dtype not in operand.dtypes)
            changed = list(flat)
            shape = flat[position].tensor.shape if flat[position] is not None else ()
            changed[position] = graph.add_input(Tensor(wrong, shape))
            refused(changed, node.attrs)
