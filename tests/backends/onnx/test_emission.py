"""What is in an emitted file: names, metadata, sizes, nested graphs, and as few nodes as it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from emitted import Model, f
from pydantic import ValidationError

from isthmus.backends.onnx import OnnxBackend, OnnxOptions
from isthmus.backends.onnx.opsets import NEWEST
from isthmus.ir import Builder, Location, Tensor, Value
from isthmus.ir.dims import Dim, ceildiv, floordiv, maximum, minimum, mod
from isthmus.ir.dtypes import bool_, f16, f32, f64, i64
from isthmus.ir.errors import UnsupportedError
from isthmus.passes.legalize import legalize


@pytest.fixture
def m() -> Model:
    return Model()


# ---- names and metadata


def test_names_of_inputs_outputs_weights_and_nodes(m: Model) -> None:
    x = m.input(2, 3, name="image")
    m.b.location = Location("model.py", 31, "forward", "features.0")
    y = m.b.add(x, m.b.constant(f(3), name="features.0.bias"))
    y = m.b.mul(y, y)
    y.name = "squared"
    z = m.b.relu(y)
    z.name = "logits"
    artefact = m.emit(z)
    graph = artefact.model.graph
    assert [value.name for value in graph.input] == ["image"]
    assert [value.name for value in graph.output] == ["logits"]
    assert [value.name for value in graph.initializer] == ["features.0.bias"]
    assert [(node.name, list(node.output)) for node in graph.node] == [
        ("features.0/Add", ["features.0/Add"]), ("features.0/Mul", ["squared"]), ("features.0/Relu", ["logits"]),
    ]  # fmt: skip


def test_names_given_for_the_file(m: Model) -> None:
    artefact = m.emit(m.b.relu(m.input(2)), input_names=["a"], output_names=["b"])
    graph = artefact.model.graph
    assert ([value.name for value in graph.input], [value.name for value in graph.output]) == (["a"], ["b"])


def test_symbolic_sizes_of_inner_values_are_told_and_others_are_not(m: Model) -> None:
    n = m.graph.symbols.declare("N", 1)
    x = m.input(n.dim, 6, name="x")
    rows = m.b.slice(x, axes=[0], starts=[0], ends=[floordiv(n.dim, 2)], steps=[1])
    known = m.b.relu(m.input(2, 3, name="y"))
    graph = m.emit(m.b.neg(m.b.exp(rows)), m.b.neg(m.b.exp(known)), output_names=["a", "b"]).model.graph
    shapes = {value.name: value.type.tensor_type.shape for value in graph.value_info}
    told = {name: [dim.dim_param or dim.dim_value for dim in shape.dim] for name, shape in shapes.items()}
    assert told == {graph.node[kind].output[0]: ["N//2", 6] for kind in _places(graph, "Slice", "Exp")}


def _places(graph: onnx.GraphProto, *kinds: str) -> list[int]:
    """Where the first node of each kind is."""
    return [next(place for place, node in enumerate(graph.node) if node.op_type == kind) for kind in kinds]


def test_names_that_clash_are_told_apart(m: Model) -> None:
    x = m.input(2, name="x")
    y = m.b.add(x, m.b.constant(f(2), name="x"))
    z = m.b.add(y, m.b.constant(f(2, seed=1), name="x"))
    y.name = z.name = "x"
    artefact = m.emit(z, y)
    names = [name for node in artefact.model.graph.node for name in (*node.input, *node.output)]
    made = [name for node in artefact.model.graph.node for name in node.output]
    assert len(set(made)) == len(made)
    assert len({"x", *names}) == 5
    m.check(artefact, f(2))


def test_names_are_the_same_each_time(m: Model) -> None:
    x = m.input(m.dim("N"), 4)
    m.graph.set_outputs([m.b.relu(m.b.add(m.b.reshape(x, shape=[4, m.dim("N")]), m.b.size(m.dim("N")) and 1.0))])
    backend = OnnxBackend()
    assert backend.emit(m.graph).serialize() == backend.emit(m.graph).serialize()


def test_outputs_that_are_inputs_constants_or_twice_there(m: Model) -> None:
    x = m.input(2)
    y = m.b.relu(x)
    artefact = m.emit(x, y, y, m.b.constant(f(3)), output_names=["a", "b", "c", "d"])
    assert [value.name for value in artefact.model.graph.output] == ["a", "b", "c", "d"]
    assert artefact.op_counts == {"Relu": 1, "Identity": 3}
    m.check(artefact, f(2))


@pytest.mark.parametrize(("opset", "place"), [(17, "doc_string"), (21, "metadata_props")])
def test_source_lines(m: Model, opset: int, place: str) -> None:
    m.b.location = Location("model.py", 31, "forward", "layer1.0").by("fuse.relu")
    m.graph.metadata["framework"] = "torch 9"
    model = m.emit(m.b.relu(m.input(2)), opset=opset).model
    (node,) = model.graph.node
    assert {entry.key: entry.value for entry in model.metadata_props} == {"framework": "torch 9"}
    if place == "doc_string":
        assert node.doc_string == "model.py:31 in forward (layer1.0)"
    else:
        found = {entry.key: entry.value for entry in node.metadata_props}
        assert found == {"source": "model.py:31", "module": "layer1.0", "made_by": "fuse.relu"}


def test_metadata_can_be_left_out(m: Model) -> None:
    m.b.location = Location("model.py", 31)
    m.graph.metadata["framework"] = "torch 9"
    model = m.emit(m.b.relu(m.input(2)), opset=21, metadata=False).model
    assert (len(model.metadata_props), len(model.graph.node[0].metadata_props)) == (0, 0)


def test_sizes_have_names_in_the_file(m: Model) -> None:
    n = m.dim("N")
    x = m.input(n, 2)
    model = m.emit(m.b.concat([x, x], axis=0)).model
    assert [dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == ["N", 2]
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "2*N"


# ---- constants


def test_tied_weights_are_stored_once(m: Model) -> None:
    matrix = f(40, 40)
    x = m.input(2, 40)
    y = m.b.matmul(m.b.matmul(x, m.b.constant(matrix, name="a")), m.b.constant(matrix, name="b"))
    artefact = m.emit(y)
    assert list(artefact.weights) == ["a"]
    m.check(artefact, f(2, 40))


def test_small_constants_of_one_content_are_shared(m: Model) -> None:
    y = m.b.mul(m.b.add(m.input(2), m.b.constant(np.float32(2))), m.b.constant(np.float32(2)))
    assert len(m.emit(y).weights) == 1


def test_scales_that_onnx_wants_are_stored_once(m: Model) -> None:
    x = m.input(2, 300)
    artefact = m.emit(m.b.layer_norm(m.b.relu(m.b.layer_norm(x, axis=1)), axis=1))
    assert artefact.op_counts == {"LayerNormalization": 2, "Relu": 1}
    assert len(artefact.model.graph.initializer) == 1
    m.check(artefact, f(2, 300))


def test_unused_constants_are_left_out(m: Model) -> None:
    m.b.constant(f(30), name="unused")
    assert m.emit(m.b.relu(m.input(2))).weights == {}


def test_linear_over_more_axes_turns_its_weight(m: Model) -> None:
    artefact = m.emit(m.b.linear(m.input(2, 3, 4), m.b.constant(f(5, 4), name="w"), m.b.constant(f(5), name="b")))
    assert artefact.op_counts == {"MatMul": 1, "Add": 1}
    assert list(artefact.weights) == ["w.T", "b"]
    m.check(artefact, f(2, 3, 4))


def test_linear_does_not_copy_a_weight_that_is_used_otherwise(m: Model) -> None:
    w = m.b.constant(f(50, 40), name="w")
    x = m.b.gather(w, m.input(2, 3, dtype=i64), axis=0)
    artefact = m.emit(m.b.linear(x, w, None))
    assert artefact.op_counts == {"Gather": 1, "Transpose": 1, "MatMul": 1}
    assert list(artefact.weights) == ["w"]
    m.check(artefact, np.arange(6).reshape(2, 3))


def test_linear_over_two_axes_is_gemm(m: Model) -> None:
    artefact = m.emit(m.b.linear(m.input(m.dim("N"), 4), m.b.constant(f(5, 4)), m.b.constant(f(5))))
    assert artefact.op_counts == {"Gemm": 1}
    m.check(artefact, f(3, 4))


# ---- sizes


@pytest.mark.parametrize("opset", [13, 18])
def test_heads_are_split_without_reckoning(m: Model, opset: int) -> None:
    n, s = m.dim("N"), m.dim("S")
    x = m.input(n, s, 12)
    heads = m.b.permute(m.b.reshape(x, shape=[n, s, 3, 4]), perm=[0, 2, 1, 3])
    back = m.b.reshape(m.b.permute(heads, perm=[0, 2, 1, 3]), shape=[n, s, 12])
    artefact = m.emit(back, opset=opset)
    assert artefact.op_counts == {"Reshape": 2, "Transpose": 2}
    m.check(artefact, f(2, 5, 12))


def test_flatten_takes_one_node(m: Model) -> None:
    n, h = m.dim("N"), m.dim("H")
    artefact = m.emit(m.b.reshape(m.input(n, 3, h, h), shape=[n, 3 * h * h]))
    assert artefact.op_counts == {"Reshape": 1}
    m.check(artefact, f(2, 3, 4, 4))


@pytest.mark.parametrize("opset", [7, 9, 13, 14, 18])
def test_reshape_of_sizes_that_may_be_zero(m: Model, opset: int) -> None:
    n, k = m.dim("N", lo=0), m.dim("K", lo=0)
    artefact = m.emit(m.b.reshape(m.input(n, k, 2), shape=[n * 2, k]), opset=opset)
    for sizes in ((3, 2), (0, 2), (3, 0), (0, 0)):
        m.check(artefact, f(*sizes, 2))


Sizes = Callable[[Dim, Dim], Sequence[Dim]]


@pytest.mark.parametrize("opset", [13, 15, NEWEST])
@pytest.mark.parametrize(
    "sizes",
    [
        lambda n, k: [n, k],
        lambda n, k: [k, n],
        lambda n, k: [n + k, 3],
        lambda n, k: [n * k - n + 2],
        lambda n, k: [2 * n * k],
        lambda n, k: [floordiv(n, 2), ceildiv(k, 3)],
        lambda n, k: [mod(n, 3) + 1, minimum(n, k), maximum(n, k, 3)],
        lambda n, k: [floordiv(n - 10, 3) + 9],
        lambda n, k: [ceildiv(n - 9, 2) + 7],
        lambda n, k: [mod(n - 7, 5)],
        lambda n, k: [20 - n - k],
    ],
)
def test_every_kind_of_size(m: Model, opset: int, sizes: Sizes) -> None:
    n, k = m.dim("N"), m.dim("K")
    x = m.input(n, k)
    shape = sizes(n, k)
    scalars = [m.b.size(dim) for dim in shape]
    m.graph.set_outputs([m.b.expand(m.b.constant(np.float32(1)), shape=shape), *scalars, x])
    artefact = OnnxBackend(OnnxOptions(opset=opset)).emit(m.graph)
    artefact.validate()
    for each in ((2, 3), (7, 5), (1, 1)):
        m.check(artefact, f(*each))


def test_a_size_is_reckoned_once(m: Model) -> None:
    n = m.dim("N")
    x = m.input(n, 3)
    one = m.b.constant(np.float32(1))
    made = [m.b.expand(one, shape=[n + 1, 2]), m.b.expand(one, shape=[n + 1, 4]), m.b.expand(one, shape=[n + 1, 2])]
    artefact = m.emit(*made, x)
    assert {name: artefact.op_counts[name] for name in ("Shape", "Add", "Concat")} == {"Shape": 1, "Add": 1, "Concat": 2}


def test_neighbouring_sizes_take_one_node(m: Model) -> None:
    n, s = m.dim("N"), m.dim("S")
    x = m.input(3, n, s)
    artefact = m.emit(m.b.expand(m.b.constant(np.float32(1)), shape=[n, s]), x)
    assert artefact.op_counts == {"Shape": 1, "Expand": 1, "Identity": 1}
    m.check(artefact, f(3, 4, 5))


def test_a_number_of_the_model_is_a_size(m: Model) -> None:
    count = m.input(dtype=i64, name="count")
    symbol = m.graph.symbols.declare("u", lo=0)
    m.b.bind(count, symbol=symbol)
    artefact = m.emit(m.b.expand(m.b.constant(np.float32(1)), shape=[symbol.dim, 2]))
    m.check(artefact, np.int64(4))


def test_a_size_found_in_a_branch_is_reckoned_outside(m: Model) -> None:
    n = m.dim("N")
    x = m.input(n, 2)
    cond = m.input(dtype=bool_, name="cond")
    one = m.b.constant(np.float32(1))
    wide = m.b.subgraph([], lambda b: b.expand(one, shape=[n, 2]))
    twice = m.b.subgraph([], lambda b: b.mul(x, b.expand(one, shape=[n, 2])))
    y = m.b.if_(cond, regions=[wide, twice])
    artefact = m.emit(m.b.add(y, m.b.expand(one, shape=[n, 2])))
    assert artefact.op_counts["Shape"] == 1
    for value in (True, False):
        m.check(artefact, f(3, 2), np.bool_(value))


# ---- nested graphs and effects


def test_branches_that_hand_on_outer_values(m: Model) -> None:
    x, cond = m.input(2), m.input(dtype=bool_, name="cond")
    constant = m.b.constant(f(2, seed=1))
    y = m.b.if_(cond, regions=[m.b.subgraph([], lambda b: x), m.b.subgraph([], lambda b: constant)])
    artefact = m.emit(y)
    assert artefact.node_count == 3
    for value in (True, False):
        m.check(artefact, f(2), np.bool_(value))


def test_checks_and_prints_are_left_out_with_a_note(m: Model) -> None:
    x = m.input(2)
    m.b.location = Location("model.py", 7)
    m.b.check(m.b.gt(x, 0.0), message="must be positive")
    m.b.print(x, message="here")
    artefact = m.emit(m.b.relu(x))
    assert artefact.notes == [
        "a check was left out, since ONNX has none: must be positive (model.py:7)",
        "a print was left out, since ONNX has none: here (model.py:7)",
    ]


def test_what_only_checks_need_is_left_out(m: Model) -> None:
    x = m.input(3)
    m.b.check(m.b.reduce_all(m.b.gt(x, 0.0), axes=[0]), message="all")
    shared = m.b.lt(x, 4.0)
    m.b.check(shared, message="shared")
    cond = m.b.subgraph([], lambda b: (b.check(b.ge(x, 0.0), message="inner"), b.neg(x))[1])
    y = m.b.if_(m.b.reduce_any(shared, axes=[0]), regions=[cond, m.b.subgraph([], lambda b: b.abs(x))])
    artefact = m.emit(y)
    names = [node.op_type for node in artefact.model.graph.node]
    assert names == ["Less", "Cast", "ReduceMax", "Greater", "If"]
    assert len(artefact.notes) == 3
    m.check(artefact, np.abs(f(3)))


def test_what_binds_a_size_stays_behind_a_check(m: Model) -> None:
    places = m.b.nonzero(m.input(3, dtype=bool_))
    (count, _) = places.tensor.shape
    m.b.check(m.b.lt(m.b.reduce_sum(places, axes=[0]), 9))
    artefact = m.emit(m.b.size(count))
    assert "ReduceSum" not in [node.op_type for node in artefact.model.graph.node]
    m.check(artefact, np.array([True, False, True]))


def test_ops_of_other_domains(m: Model) -> None:
    x = m.input(2)
    attributes = {"alpha": 0.5, "axes": (1, 2), "mode": "fast"}
    y = m.b.custom([x], domain="acme", name="Frobnicate", attributes=attributes, types=[Tensor(f32, (2,))])
    m.graph.set_outputs([y])
    model = OnnxBackend().emit(m.graph).model
    (node,) = model.graph.node
    assert (node.op_type, node.domain) == ("Frobnicate", "acme")
    found = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    assert found == {"alpha": 0.5, "axes": [1, 2], "mode": b"fast"}
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 18, "acme": 1}


def _block(m: Model, x: Value, weight: Value, name: str = "Block", factor: float = 2.0) -> Value:
    n = m.graph.symbols.fresh("rows")
    types = [Tensor(f32, (n, 4)), Tensor(f32, (4, 4))]

    def body(b: Builder, x: Value, w: Value) -> Value:
        return b.reshape(b.mul(b.matmul(x, w), factor), shape=[2, floordiv(n, 2) * 4])  # type: ignore[no-any-return]

    found = m.b.emit("composite", [x, weight], {"name": name}, [m.b.subgraph(types, body)]).results[0]
    return m.b.reshape(found, shape=x.tensor.shape)  # type: ignore[no-any-return]


KEPT = [(18, True, True), (NEWEST, True, True), (13, True, False), (18, False, False)]


@pytest.mark.parametrize(("opset", "keep", "kept"), KEPT)
def test_modules_kept_whole_are_functions(opset: int, keep: bool, kept: bool) -> None:
    m = Model()
    x = m.input(6, 4)
    y = _block(m, x, m.b.constant(f(4, 4)))
    y = _block(m, y, m.b.constant(f(4, 4, seed=1)))
    y = _block(m, y, m.b.constant(f(4, 4, seed=1)), factor=3.0)
    m.graph.set_outputs([y])
    backend = OnnxBackend(OnnxOptions(opset=opset, keep_functions=keep))
    legalize(m.graph, backend)
    artefact = backend.emit(m.graph)
    artefact.validate()
    m.check(artefact, f(6, 4))
    model = artefact.model
    assert [function.name for function in model.functions] == (["Block", "Block_1"] if kept else [])
    assert [node.op_type for node in model.graph.node if node.domain] == (["Block", "Block", "Block_1"] if kept else [])


# ---- what is legal


def test_refusals_come_together_and_say_why(m: Model) -> None:
    x = m.input(2, dtype=i64)
    m.b.location = Location("model.py", 7)
    y = m.b.bitcast(x, dtype=f64)
    m.b.location = Location("model.py", 8)
    z = m.b.bitcast(x, dtype=f64)
    with pytest.raises(UnsupportedError) as caught:
        m.emit(y, z, opset=17)
    text = str(caught.value)
    assert "2 operations cannot be carried over to onnx" in text
    assert "bitcast (2 times): it needs opset 26" in text
    assert "model.py:7" in text
    assert "model.py:8" in text


@pytest.mark.parametrize("opset", [6, NEWEST + 1])
def test_opset_out_of_range(opset: int) -> None:
    with pytest.raises(ValidationError, match=f"opset {opset} is not supported: from 7 to {NEWEST}"):
        OnnxOptions(opset=opset)


def test_unknown_option() -> None:
    with pytest.raises(ValidationError, match="opsett"):
        OnnxOptions(opsett=18)


def test_wider_types_are_used_where_the_runtime_has_no_kernel(m: Model) -> None:
    x = m.input(2, 3, dtype=bool_)
    artefact = m.emit(m.b.maximum(x, x))
    assert artefact.op_counts == {"Cast": 3, "Max": 1}
    m.check(artefact, np.array([[True, False, True], [False, False, True]]))


def test_division_by_what_may_be_zero_is_guarded(m: Model) -> None:
    x, y = m.input(4, dtype=i64), m.input(4, dtype=i64, name="y")
    artefact = m.emit(m.b.div(x, y), m.b.mod(x, y), m.b.floor_div(x, y), m.b.div(x, 2))
    m.check(artefact, np.array([7, -7, 5, 0]), np.array([2, 2, 0, 0]))


def test_division_by_what_cannot_be_zero_is_not_guarded(m: Model) -> None:
    n = m.dim("N")
    x = m.input(n, dtype=i64)
    divisor = m.b.where(m.b.gt(x, 2), m.b.constant(np.int64(3)), m.b.expand(m.b.unsqueeze(m.b.size(n), axes=[0]), shape=[n]))
    artefact = m.emit(m.b.div(x, divisor), m.b.div(x, 4), m.b.mod(x, m.b.size(n)))
    assert artefact.op_counts["Where"] == 1
    m.check(artefact, np.array([7, -7, 1]))


def test_wide_padding_of_a_dilated_pool(m: Model) -> None:
    pool = {"kernel": [2], "strides": [1], "pads": [2, 2], "dilations": [4]}
    artefact = m.emit(m.b.max_pool(m.input(1, 2, 9), **pool))
    assert artefact.op_counts == {"Pad": 1, "MaxPool": 1}
    m.check(artefact, f(1, 2, 9))


@pytest.mark.parametrize("spatial", [(6,), (7, 5), (4, 3, 5)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_adaptive_pools(spatial: tuple[int, ...], symbolic: bool) -> None:
    m = Model()
    sizes = [m.dim(f"S{axis}") for axis in range(len(spatial))] if symbolic else spatial
    x = m.input(2, 3, *sizes)
    outputs = [m.b.adaptive_avg_pool(x, output_size=[out] * len(spatial)) for out in (4, 1)]
    outputs += [m.b.adaptive_max_pool(x, output_size=[out, *[4] * len(spatial)][: len(spatial)]) for out in (4, 1)]
    m.check(m.emit(*outputs), f(2, 3, *spatial))


PLACES: dict[str, tuple[Callable[[Dim], Dim], dict[str, int]]] = {
    "first": (lambda s: 0, {"Gather": 1}), "last": (lambda s: s - 1, {"Gather": 1}),
    "middle": (lambda s: floordiv(s, 2), {"Shape": 1, "Div": 1, "Squeeze": 1, "Gather": 1}),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLACES)
def test_one_place_of_an_axis_is_a_gather(m: Model, kind: str) -> None:
    place, ops = PLACES[kind]
    s = m.dim("S")
    start = place(s)
    piece = m.b.slice(m.input(2, s), axes=[1], starts=[start], ends=[start + 1], steps=[1])
    artefact = m.emit(m.b.squeeze(piece, axes=[1]))
    assert artefact.op_counts == ops
    m.check(artefact, f(2, 5))


def test_one_place_that_is_used_otherwise_stays_a_slice(m: Model) -> None:
    piece = m.b.slice(m.input(2, 4), axes=[1], starts=[1], ends=[2], steps=[1])
    assert m.emit(m.b.squeeze(piece, axes=[1]), piece).op_counts == {"Slice": 1, "Squeeze": 1}


QUOTIENT = {"ReduceSum": 1, "Shape": 1, "Squeeze": 1, "Cast": 1, "Div": 1}


@pytest.mark.parametrize(("least", "ops"), [(1, {"ReduceMean": 1}), (0, QUOTIENT)])
def test_the_mean_of_what_may_be_nothing_is_a_quotient(m: Model, least: int, ops: dict[str, int]) -> None:
    artefact = m.emit(m.b.reduce_mean(m.input(3, m.dim("N", lo=least)), axes=[1]))
    assert artefact.op_counts == ops
    for size in (least, 4):
        m.check(artefact, f(3, size))


@pytest.mark.parametrize(("opset", "ops"), [(17, {"Div": 1, "Erf": 1, "Add": 1, "Mul": 2}), (20, {"Gelu": 1})])
def test_coarse_ops_are_kept_where_they_can_be(m: Model, opset: int, ops: dict[str, int]) -> None:
    assert m.emit(m.b.gelu(m.input(2)), opset=opset).op_counts == ops


def test_half_floats_run(m: Model) -> None:
    artefact = m.emit(m.b.softmax(m.b.matmul(m.input(2, 3, dtype=f16), m.b.constant(f(3, 4).astype(np.float16))), axis=1))
    assert artefact.op_counts == {"MatMul": 1, "Softmax": 1}
    m.check(artefact, f(2, 3).astype(np.float16))


# ---- size


def test_a_long_chain_is_emitted_quickly_and_whole(m: Model) -> None:
    value = m.input(4)
    for _ in range(20_000):
        value = m.b.neg(value)
    m.graph.set_outputs([value])
    artefact = OnnxBackend().emit(m.graph)
    assert artefact.node_count == 20_000
    assert len(artefact.model.graph.node) == 20_000


def test_transposes_move_past_padding_and_resizing(m: Model) -> None:
    """onnxruntime moves them, and reads pads and sizes as if they were of all axes."""
    x = m.input(m.dim("N"), 4, 3)
    turned = m.b.permute(x, perm=[0, 2, 1])
    wide = m.b.pad(turned, before=[0, 0, 1], after=[0, 0, 2], mode="constant")
    large = m.b.resize(turned, sizes=[8], mode="linear", coordinates="half_pixel", nearest="floor")
    artefact = m.emit(m.b.permute(wide, perm=[0, 2, 1]), m.b.permute(large, perm=[0, 2, 1]))
    m.check(artefact, f(2, 4, 3))
