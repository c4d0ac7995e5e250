"""Complex numbers as pairs of reals: every rule against numpy's complex numbers, in graphs and in nested ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from isthmus.ir import Builder, Graph
from isthmus.ir.dtypes import bool_, c64, c128, f32, i64
from isthmus.ir.errors import UnsupportedError
from isthmus.ir.interpreter import run
from isthmus.ir.testing import agree
from isthmus.ir.types import Sequence as SequenceType
from isthmus.ir.types import Tensor
from isthmus.ir.verifier import verify
from isthmus.passes import Fold, legalize, run_passes
from isthmus.passes.complex_pairs import RULES, ComplexPairs, has_complex

Build = Callable[..., Any]


def numbers(*shape: int, seed: int = 0, dtype: Any = np.complex64) -> Any:
    draws = np.random.default_rng(seed)
    return (draws.standard_normal(shape) + 1j * draws.standard_normal(shape)).astype(dtype)


def graph_of(build: Build, *inputs: Any, symbolic: bool = False) -> Graph:
    """A graph of complex inputs; with a symbol for each size but those of 1 and 2."""
    graph = Graph("f")
    b = Builder(graph)
    values = []
    for array in inputs:
        dims = [
            graph.symbols.declare(f"d{len(graph.symbols.by_name)}", hint=size).dim if symbolic and size > 2 else size
            for size in array.shape
        ]
        values.append(graph.add_input(Tensor(c64 if array.dtype == np.complex64 else c128, tuple(dims))))
    found = build(b, *values)
    graph.set_outputs(found if isinstance(found, (list, tuple)) else [found])
    return graph


def held(build: Build, *inputs: Any, symbolic: bool = False) -> Graph:
    """The graph in pairs, after it was compared with what it was; between its edges nothing is complex."""
    graph = graph_of(build, *inputs, symbolic=symbolic)
    wanted = run(graph, inputs)
    step = ComplexPairs()
    run_passes(graph, [step], verify=True)
    assert sum(step.counts.values())
    for node in graph.walk():
        if node.op.name not in ("view_as_real", "view_as_complex"):
            assert not any(getattr(result.type, "dtype", f32).is_complex for result in node.results)
    assert agree(run(graph, inputs), wanted)
    return graph


REAL = np.array([[1.0, -2, 0.5, 3]], np.float32)
TABLE: dict[str, tuple[Build, Sequence[Any]]] = {
    "identity": (lambda b, x: b.identity(x), [(2, 3)]),
    "add": (lambda b, x, y: b.add(x, y), [(2, 3), (3,)]),
    "sub": (lambda b, x, y: b.sub(x, y), [(3,), (2, 3)]),
    "neg": (lambda b, x: b.neg(x), [(2, 3)]),
    "reduce_sum": (lambda b, x: (b.reduce_sum(x, axes=[-1]), b.reduce_sum(x, axes=[0], keepdims=True)), [(3, 4)]),
    "reduce_mean": (lambda b, x: b.reduce_mean(x, axes=[-2]), [(3, 4)]),
    "cumsum": (lambda b, x: b.cumsum(x, axis=1, reverse=True), [(3, 4)]),
    "squeeze": (lambda b, x: b.squeeze(x, axes=[1]), [(3, 1, 4)]),
    "unsqueeze": (lambda b, x: b.unsqueeze(x, axes=[0, -1]), [(3, 4)]),
    "slice": (lambda b, x: b.slice(x, axes=[1], starts=[1], ends=[4], steps=[2]), [(2, 4)]),
    "dynamic_slice": (
        lambda b, x: b.dynamic_slice(x, np.array([1]), np.array([-1]), axes=[1], steps=[1]), [(2, 5)],
    ),
    "slice_update": (lambda b, x, y: b.slice_update(x, y, axes=[1], starts=[1], ends=[3], steps=[1]), [(2, 4), (2, 2)]),
    "flip": (lambda b, x: b.flip(x, axes=[1]), [(3, 4)]),
    "concat": (lambda b, x, y: b.concat([x, y], axis=1), [(2, 3), (2, 4)]),
    "split": (lambda b, x: b.split(x, axis=1, sizes=[1, 3]), [(2, 4)]),
    "roll": (lambda b, x: b.roll(x, shifts=[1], axes=[1]), [(3, 4)]),
    "gather": (lambda b, x: (b.gather(x, np.array([2, 0]), axis=1), b.gather(x, np.int64(1), axis=0)), [(3, 4)]),
    "gather_nd": (lambda b, x: b.gather_nd(x, np.array([[0, 1], [2, 3]])), [(3, 4)]),
    "gather_elements": (lambda b, x: b.gather_elements(x, np.array([[0, 1], [3, 0], [1, 1]]), axis=1), [(3, 4)]),
    "scatter_elements": (
        lambda b, x, y: b.scatter_elements(x, np.array([[0, 1], [3, 0]]), y, axis=1, reduction="none"), [(3, 4), (2, 2)],
    ),
    "scatter_nd": (lambda b, x, y: b.scatter_nd(x, np.array([[0], [2]]), y, reduction="add"), [(3, 4), (2, 4)]),
    "reshape": (lambda b, x: b.reshape(x, shape=[4, 3]), [(3, 4)]),
    "expand": (lambda b, x: b.expand(x, shape=[5, 3, 4]), [(3, 1)]),
    "dynamic_reshape": (lambda b, x: b.dynamic_reshape(x, np.array([2, 6])), [(3, 4)]),
    "dynamic_expand": (lambda b, x: b.dynamic_expand(x, np.array([3, 4])), [(3, 1)]),
    "diagonal": (lambda b, x: b.diagonal(x, offset=1, axis1=0, axis2=2), [(3, 2, 4)]),
    "trilu": (lambda b, x: b.trilu(x, upper=True, diagonal=1), [(3, 4)]),
    "view_as_real": (lambda b, x: b.mul(b.view_as_real(x), 2.0), [(3, 4)]),
    "view_as_complex": (lambda b, x: b.view_as_complex(b.abs(b.view_as_real(x))), [(3, 4)]),
    "tile": (lambda b, x: b.tile(x, repeats=[2, 3]), [(2, 4)]),
    "permute": (lambda b, x: b.permute(x, perm=[2, 0, 1]), [(2, 3, 4)]),
    "pad": (
        lambda b, x: (b.pad(x, None, before=[0, 1], after=[2, 0]),
                      b.pad(x, np.complex64(0), before=[0, 1], after=[1, 0]), b.pad(x, None, before=[1, 0], after=[0, 2],
                                                                                   mode="reflect")), [(3, 4)],
    ),
    "where": (lambda b, x, y: b.where(b.gt(b.real(x), 0.0), x, y), [(3, 4), (4,)]),
    "cast": (lambda b, x: (b.cast(x, dtype=c128), b.cast(x, dtype=f32), b.cast(x, dtype=bool_),
                           b.cast(b.cast(x, dtype=i64), dtype=c64)), [(3, 4)]),
    "constant": (lambda b, x: (b.add(x, numbers(3, 4, seed=5)), b.sub(x, 1j), b.constant(numbers(2))), [(3, 4)]),
    "modulus": (lambda b, x: (b.modulus(x), b.pow(b.modulus(x), 2.0), b.mul(*[b.modulus(x)] * 2)), [(3, 4)]),
    "complex": (lambda b, x, y: b.complex(b.real(x), b.imag(y)), [(3, 1), (4,)]),
    "nonzero": (lambda b, x: b.nonzero(b.where(b.gt(b.imag(x), 0.0), x, b.constant(0, c64))), [(3, 4)]),
    "mul": (lambda b, x, y: (b.mul(x, y), b.mul(x, numbers(4)), b.mul(2.5, x), b.mul(x, b.cast(b.real(y), dtype=c64))),
            [(3, 4), (4,)]),
    "div": (lambda b, x, y: (b.div(x, y), b.div(x, 2.5), b.div(1, x), b.div(b.cast(b.real(y), dtype=c64), x)),
            [(3, 4), (4,)]),
    "pow": (lambda b, x, y: [b.pow(x, y), *(b.pow(x, each) for each in (1, 2, 3, 7, -2, 0.5, 1.5))], [(3, 4), (4,)]),
    "matmul": (
        lambda b, x, y, z: (b.matmul(x, y), b.matmul(b.reduce_sum(x, axes=[0, 1]), y), b.matmul(x, z), b.matmul(z, z),
                            b.matmul(x, numbers(4, 3, seed=7)), b.matmul(numbers(5, 3, seed=8), x), b.matmul(z, numbers(4)),
                            b.matmul(x, numbers(4))),
        [(2, 3, 4), (4, 5), (4,)],
    ),
    "eq": (lambda b, x, y: b.eq(x, b.where(b.gt(b.real(x), 0.0), x, y)), [(3, 4), (4,)]),
    "ne": (lambda b, x, y: b.ne(x, b.where(b.gt(b.real(x), 0.0), x, b.conj(x))), [(3, 4), (4,)]),
    **{
        name: (lambda b, x, name=name: getattr(b, name)(x), [(3, 4)])
        for name in (
            "conj", "real", "imag", "reciprocal", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt",
            "sin", "cos", "sinh", "cosh", "tanh", "tan",
        )
    },
    "sequence_construct": (lambda b, x, y: b.sequence_at(b.sequence_construct([x, y]), 1), [(3, 4), (2, 4)]),
    "sequence_empty": (
        lambda b, x: b.sequence_concat(b.sequence_insert(b.sequence_empty(type=Tensor(c64, (None, 4))), x), axis=0),
        [(3, 4)],
    ),
    "sequence_length": (lambda b, x: (b.sequence_length(b.sequence_construct([x, x])), x), [(3, 4)]),
    "optional_some": (lambda b, x: (b.optional_get(b.optional_some(x)), b.optional_has(b.optional_some(x))), [(3, 4)]),
    "optional_none": (lambda b, x: (b.optional_has(b.optional_none(type=Tensor(c64, (3,)))), x), [(3, 4)]),
}  # fmt: skip
IN_OTHERS = {
    "sequence_at": "sequence_construct", "sequence_insert": "sequence_empty", "sequence_concat": "sequence_empty",
    "optional_get": "optional_some", "optional_has": "optional_some",
}  # fmt: skip


def test_each_rule_has_a_case() -> None:
    assert RULES.keys() == TABLE.keys() | IN_OTHERS.keys()


@pytest.mark.parametrize("name", TABLE)
def test_a_rule(name: str) -> None:
    build, shapes = TABLE[name]
    held(build, *(numbers(*shape, seed=place) for place, shape in enumerate(shapes)))


@pytest.mark.parametrize("name", ["add", "mul", "matmul", "reduce_sum", "exp", "permute", "trilu", "div", "flip", "nonzero"])
def test_a_rule_at_open_sizes(name: str) -> None:
    build, shapes = TABLE[name]
    if name in ("mul", "matmul"):  # without the constants, which have a size of their own
        build = {"mul": lambda b, x, y: b.mul(x, y), "matmul": lambda b, x, y, z: b.matmul(b.matmul(x, y), y)}[name]
        shapes = [(2, 5, 3), (3, 3), (3,)] if name == "matmul" else shapes
    held(build, *(numbers(*shape, seed=place) for place, shape in enumerate(shapes)), symbolic=True)


@pytest.mark.parametrize("name", ["add", "mul", "div", "matmul", "sqrt", "modulus", "exp"])
def test_in_double_precision(name: str) -> None:
    build = {"add": lambda b, x: b.add(x, x), "mul": lambda b, x: b.mul(x, x), "div": lambda b, x: b.div(b.conj(x), x),
             "matmul": lambda b, x: b.matmul(x, x)}.get(name, lambda b, x: getattr(b, name)(x))  # fmt: skip
    graph = held(build, numbers(3, 3, dtype=np.complex128))
    assert not any(node.op.name == "cast" for node in graph.walk())


def test_coarse_ops_are_taken_apart() -> None:
    held(lambda b, x, y: b.einsum([x, y], equation="bixy,ioxy->boxy"), numbers(2, 3, 2, 2), numbers(3, 4, 2, 2))
    held(lambda b, x, y: b.linear(x, y, None), numbers(2, 3), numbers(4, 3))


def test_special_numbers() -> None:
    odd = [0, -0.0, 1, -1, 1j, -1j, complex(np.inf, 1), complex(1, -np.inf), complex(np.nan, 1), 1e-30, 1e30]
    x = np.array(odd, np.complex64)
    held(lambda b, x: (b.neg(x), b.conj(x), b.eq(x, x), b.ne(x, 0), b.cast(x, dtype=bool_)), x)
    held(lambda b, x: (b.sqrt(x), b.modulus(x), b.reciprocal(x), b.div(x, x), b.div(1e30, x), b.mul(x, 0.5)), x[2:6])
    held(lambda b, x: (b.sqrt(x), b.modulus(x), b.pow(x, 1.5)), x[:2])
    near = np.array([1e-6 + 2e-6j, -1e-7j, 3e-5], np.complex64)
    for name in ("expm1", "log1p", "tan", "tanh"):
        build = lambda b, x, name=name: getattr(b, name)(x)  # noqa: E731
        graph = held(build, near)
        np.testing.assert_allclose(run(graph, [near])[0], near, rtol=1e-4)
    far = np.array([1e-30, 1e30, 1e30j, complex(1e-25, 1e-25)], np.complex64)
    held(lambda b, x: (b.reciprocal(x), b.div(x, x)), far)
    held(lambda b, x: (b.tanh(x), b.tan(b.mul(x, 1j))), np.array([30 + 1j, -90 + 2j, 1 + 50j, 2 - 90j], np.complex64))


def test_nested_graphs() -> None:
    def branches(b: Builder, x: Any) -> Any:
        cond = b.gt(b.reduce_sum(b.real(x), axes=[0]), 0.0)
        return b.if_(cond, regions=[b.subgraph([], lambda b: b.mul(x, 1j)), b.subgraph([], lambda b: b.conj(x))])

    def powers(b: Builder, x: Any) -> Any:
        def turn(b: Builder, number: Any, state: Any, each: Any) -> list[Any]:
            return [b.constant(True), b.mul(state, each), b.add(state, 1)]

        body = b.subgraph([Tensor(i64, ()), Tensor(c64, ()), Tensor(c64, ())], turn)
        return b.loop(None, None, [b.constant(1j, c64), x], carried=1, regions=[body])

    def whole(b: Builder, x: Any) -> Any:
        return b.composite([x], name="Square", regions=[b.subgraph([x.type], lambda b, x: b.mul(x, x))])

    for build in (branches, powers, whole):
        held(build, numbers(5))


def test_a_square_of_a_modulus_takes_no_root() -> None:
    graph = held(lambda b, x: b.pow(b.modulus(x), 2.0), numbers(3))
    run_passes(graph, [Fold()])
    assert "reduce_l2" not in [node.op.name for node in graph.walk() if any(result.uses for result in node.results)]


def test_constants_become_no_larger() -> None:
    """Neither a factor nor a matrix: the other side is turned."""
    graph = held(lambda b, x: b.matmul(b.mul(x, numbers(50, 60, seed=1)), numbers(60, 70, seed=2)), numbers(50, 60))
    assert sum(weight.nbytes for weight in graph.weights() if weight.nbytes > 100) == 8 * (50 * 60 + 60 * 70)


def test_a_constant_is_read_only_when_asked_for() -> None:
    graph = held(lambda b, x: b.add(x, numbers(500, seed=1)), numbers(500))
    (weight,) = (weight for weight in graph.weights() if weight.nbytes > 100)
    assert (weight.dtype, weight.shape) == (f32, (500, 2))
    np.testing.assert_array_equal(weight.array().view(np.complex64)[:, 0], numbers(500, seed=1))


def test_what_has_no_form_is_refused_all_at_once() -> None:
    def build(b: Builder, x: Any) -> Any:
        padded = b.pad(x, np.complex64(1), before=[1], after=[0])
        scattered = b.scatter_nd(x, np.array([[0]]), b.constant(numbers(1)), reduction="mul")
        return b.asin(b.reduce_prod(padded, axes=[0])), scattered

    graph = graph_of(build, numbers(3))
    with pytest.raises(UnsupportedError) as caught:
        run_passes(graph, [ComplexPairs("nowhere")])
    # What is behind a refusal is not judged.
    assert {refusal.op for refusal in caught.value.refusals} == {"pad", "scatter_nd"}
    assert "cannot be carried over to nowhere" in str(caught.value)
    with pytest.raises(UnsupportedError, match="asin: it has no form of pairs"):
        run_passes(graph_of(lambda b, x: b.asin(x), numbers(3)), [ComplexPairs()])


def test_sequences_at_the_edges_are_refused() -> None:
    graph = Graph("f")
    b = Builder(graph)
    x = graph.add_input(SequenceType(Tensor(c64, (3,))))
    graph.set_outputs([b.sequence_construct([b.sequence_at(x, 0)])])
    with pytest.raises(UnsupportedError, match="input: a seq<c64"):
        run_passes(graph, [ComplexPairs()])
    graph = graph_of(lambda b, x: b.sequence_construct([x]), numbers(3))
    with pytest.raises(UnsupportedError, match="output: a seq<c64"):
        run_passes(graph, [ComplexPairs()])


class Everything:
    """A target that takes every node."""

    name = "everything"

    def legal(self, node: Any) -> str | None:
        return None

    def lower(self, b: Builder, node: Any) -> None:
        return None


def test_only_for_targets_without_complex_numbers() -> None:
    class WithoutComplex(Everything):
        complex_numbers = False

    graph = graph_of(lambda b, x: b.mul(x, x), numbers(3))
    assert legalize(graph, Everything()).counts == {}
    assert has_complex(graph)
    assert legalize(graph, WithoutComplex()).counts == {"mul": 1}
    verify(graph)
    real = Graph("real")
    real.set_outputs([Builder(real).neg(real.add_input(Tensor(f32, (3,))))])
    version = real.version
    legalize(real, WithoutComplex())
    assert real.version == version
