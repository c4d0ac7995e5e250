"""Small files that ask for more memory or time than there is: compiled and saved, or refused, within little of both.

Running what was made is another matter; some of these would run for years.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from bounded import compiled
from onnx import helper
from onnx_models import model

import isthmus
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import Refused
from isthmus.errors import EvaluationError, FileError, UnsupportedError


def chain(count: int, step: str, first: str = "a0") -> str:
    """Nodes that each take the last result twice."""
    return " ".join(f"a{n + 1} = {step.format(first if n == 0 else f'a{n}')}" for n in range(count))


def added(node: str) -> str:
    """A model that adds the sum of a constant to its input."""
    return f"(float[1] x) => (float y) {{ {node} s = ReduceSum<keepdims=0>(e) y = Add(x, s) }}"


def shape(*sizes: int) -> str:
    return f"n = Constant<value_ints = {list(sizes)}>() c = ConstantOfShape(n)"


TURNS = 1 << 60
TERA = 1 << 40
SQUARE = "o = Constant<value = float[1, 1, 2, 2] {1, 2, 3, 4}>()"
WINDOW = "kernel_shape=[1073741824, 1073741824], pads=[536870912, 536870912, 536870912, 536870912]"
BODY = "(int64 i, bool c, float[2] v) => (bool k, float[2] w) { k = Identity(c) w = Neg(v) }"
LOOP = "y = Loop(n, t, x) <body = b " + BODY + ">"
TEXTS = {
    # loops
    "turns": f"(float[2] x) => (float y) <int64 n = {{{TURNS}}}, bool t = {{1}}> {{ {LOOP} }}",
    "turns-of-constants": f"(float[2] x) => (float y) <int64 n = {{{TURNS}}}, bool t = {{1}}, float[2] s = {{1, 2}}> "
    f"{{ {LOOP.replace(', x)', ', s)')} }}",
    "a-list-that-grows": f"(float[2] x) => (float y) <int64 n = {{{TURNS}}}, bool t = {{1}}, int64 z = {{0}}> "
    "{ s = SequenceConstruct(x) "
    "q = Loop(n, t, s) <body = b (int64 i, bool c, seq(float[2]) v) => (bool k, seq(float[2]) w) "
    "{ k = Identity(c) w = SequenceInsert(v, x) }> y = SequenceAt(q, z) }",
    # constants that grow
    "constant": added(f"{shape(1 << 16, 1 << 16, 1 << 16)} e = Cos(c)"),
    "constant-beyond-64-bits": added(f"{shape(TURNS, TURNS, TURNS)} e = Cos(c)"),
    "expand": added(f"{shape(1)} m = Constant<value_ints = [{TERA}]>() d = Expand(c, m) e = Exp(d)"),
    "tile": added(f"{shape(2)} m = Constant<value_ints = [{TERA}]>() d = Tile(c, m) e = Exp(d)"),
    "range": added(
        f"a = Constant<value_int = 0>() l = Constant<value_int = {TERA}>() d = Constant<value_int = 1>() "
        "r = Range(a, l, d) e = Cast<to = 1>(r)"
    ),
    "range-of-floats": added(
        "a = Constant<value_float = 0.0>() l = Constant<value_float = 1e30>() d = Constant<value_float = 1.0>() "
        "e = Range(a, l, d)"
    ),
    "pad": added(f"{shape(2)} m = Constant<value_ints = [{TERA}, {TERA}]>() e = Pad(c, m)"),
    "one-hot": added(
        f"i = Constant<value_ints = [1, 2]>() d = Constant<value_int = {TERA}>() v = Constant<value_floats = [0.0, 1.0]>() "
        "e = OneHot(i, d, v)"
    ),
    "resize": added(f'{SQUARE} m = Constant<value_ints = [1, 1, 1048576, 1048576]>() e = Resize<mode = "linear">(o, , , m)'),
    "window": added(f"d = Constant<value_int = {TERA}>() e = HannWindow(d)"),
    "concatenated": added(
        f"a0 = Constant<value_floats = [1.0, 2.0]>() {chain(60, 'Concat<axis = 0>({0}, {0})')} e = Identity(a60)"
    ),
    "texts": '(string[1] x) => (string y) <string[1] a0 = {"aaaaaaaa"}> { '
    + chain(50, "StringConcat({0}, {0})")
    + " y = StringConcat(x, a50) }",
    # constants that take long, or much in between
    "max-pool": added(f"{SQUARE} e = MaxPool<{WINDOW}>(o)"),
    "average-pool": added(f"{SQUARE} e = AveragePool<{WINDOW}>(o)"),
    "strides": added(
        f"{SQUARE} w = Constant<value = float[1, 1, 1, 1] {{1}}>() "
        "e = Conv<strides = [1073741824, 1073741824], pads = [1073741824, 1073741824, 0, 0]>(o, w)"
    ),
    "neighbours": added(f"{SQUARE} e = LRN<size = 2147483647>(o)"),
    "samples": added(
        f"{SQUARE} r = Constant<value = float[1, 4] {{0, 0, 1e9, 1e9}}>() i = Constant<value_ints = [0]>() "
        "e = RoiAlign<output_height = 1, output_width = 1>(o, r, i)"
    ),
    "bins": f"(float[1, 2, 9, 9] x, float[2, 4] r, int64[2] i) => (float y) {{ y = RoiAlign<output_width = {TERA}>(x, r, i) }}",
    "samples-of-bins": "(float[1, 2, 9, 9] x, float[2, 4] r, int64[2] i) => (float y) "
    f"{{ y = RoiAlign<sampling_ratio = {TERA}>(x, r, i) }}",
    "n-grams": added(
        'c = Constant<value_ints = [1, 2, 3]>() e = TfIdfVectorizer<mode = "TF", min_gram_length = 1, '
        f"max_gram_length = {TERA}, max_skip_count = {TERA}, "
        "ngram_counts = [0, 1], ngram_indexes = [0, 1], pool_int64s = [1, 2, 3]>(c)"
    ),
    "einsum": added(f'{shape(1000)} e = Einsum<equation = "a,b,c,d,e,f,g,h,i,j->">(c, c, c, c, c, c, c, c, c, c)'),
    "products": added(f"{shape(8000, 8000)} p = MatMul(c, c) q = MatMul(p, p) e = MatMul(q, q)"),
    "pattern": '(bool[1] x) => (bool y) <string[1] s = {"' + "a" * 60 + 'b"}> { m = RegexFullMatch<pattern="(a|aa)+$">(s) '
    "y = And(x, m) }",
    # sizes
    "squares-of-sizes": "(float[N, M, K] x) => (int64 y) { s = Shape(x) a0 = ReduceSum<keepdims = 0>(s) "
    + chain(40, "Mul({0}, {0})")
    + " y = Identity(a40) }",
    "squares-of-numbers": "(float[3] x) => (int64 y) { a0 = Size(x) " + chain(60, "Mul({0}, {0})") + " y = Identity(a60) }",
    "sizes-double": "(float[N] x) => (float y) { " + chain(70, "Concat<axis = 0>({0}, {0})", "x") + " y = Identity(a70) }",
    "the-least-of-the-greatest": "(float[N, M] x) => (int64 y) <int64 z = {0}, int64 o = {1}> { s = Shape(x) n = Gather(s, z) "
    "m = Gather(s, o) a0 = Max(n, m) "
    + " ".join(f"b{i} = Mul(a{i}, n) c{i} = Add(b{i}, m) d{i} = Min(c{i}, a{i}) a{i + 1} = Max(b{i}, d{i})" for i in range(30))
    + " y = Identity(a30) }",
    "axes": "(float[1] x) => (float y) <int64[1] z = {0}> { "
    + chain(3000, "Unsqueeze({0}, z)", "x")
    + " y = Identity(a3000) }",
    # pieces
    "pieces": "(float[1000000000] x) => (float y) <int64 one = {1}, int64 z = {0}> "
    "{ q = SplitToSequence(x, one) y = SequenceAt(q, z) }",
    "parts": "(float[1000000000] x) => (float y) { y, z = Split<num_outputs = 1000000000>(x) }",
}


def doubling(depth: int, width: int) -> Any:
    """Functions of which each calls the next so often."""
    functions = []
    for level in range(depth):
        inner, domain = (f"f{level + 1}", "d") if level + 1 < depth else ("Neg", "")
        names = ["a", *(f"t{number}" for number in range(width))]
        nodes = [helper.make_node(inner, [one], [other], domain=domain) for one, other in pairwise(names)]
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("d", 1)]
        functions.append(helper.make_function("d", f"f{level}", ["a"], names[-1:], nodes, opsets))
    ends = ([helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])] for name in "xy")
    graph = helper.make_graph([helper.make_node("f0", ["x"], ["y"], domain="d")], "g", *ends)
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=10)


def named(name: str) -> Any:
    """A model with an input whose size has a name that reads like an expression."""
    proto = model("(float[A, B, C, D, E, F] x) => (float y) { y = Neg(x) }")
    proto.graph.input.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [name]))
    return proto


PROTOS: dict[str, Callable[[], Any]] = {
    "functions-that-double": lambda: doubling(30, 2),
    "functions-in-functions": lambda: doubling(60, 1),
    "name-of-powers": lambda: named("*".join(["(A+B+C+D+E+F)"] * 60)),
    "name-of-brackets": lambda: named("(" * 450 + "A" + ")" * 450),
    "name-of-least": lambda: named("*".join(["min(A,B+1,C+2)"] * 60)),
    **{name: lambda text=text: model(text, 20) for name, text in TEXTS.items()},  # type: ignore[misc]
}


@pytest.mark.parametrize("name", PROTOS)
def test_a_bomb(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(PROTOS[name]().SerializeToString())
    found = compiled(path, tmp_path / "saved.onnx")
    assert found.kind in ("made", "refused"), found.told
    saved = list(tmp_path.glob("saved*"))
    assert (found.kind == "made") == bool(saved)
    assert sum(file.stat().st_size for file in saved) < 1 << 20


def test_what_takes_too_much_memory_is_told() -> None:
    text = f"(float[1] x) => (float y) <int64[1] n = {{{1 << 45}}}> {{ e = Expand(x, n) y = Exp(e) }}"
    net = isthmus.compile(model(text), target="reference")
    with pytest.raises(EvaluationError, match="Unable to allocate"):
        net(np.float32([1]))


@pytest.mark.parametrize("opset", [8, 10, 11])
def test_a_range_of_thousands_of_millions_is_not_written_down(opset: int) -> None:
    text = """(float[N] x) => (float y) <int64 a = {0}, int64 b = {2147483648}, int64 d = {1}> {
        r = Range(a, b, d) y = Gather(x, r) }"""
    try:
        net = isthmus.compile(model(text, 11), opset=opset)
    except UnsupportedError:
        return
    assert all(weight.nbytes < 1 << 20 for weight in net.graph.weights())


def test_a_number_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(Refused, match="does not fit into i64"):
        Emitter(17, {}).ints([1, 1 << 63])
    with pytest.raises(Refused, match="does not fit into i64"):
        Emitter(17, {}).sizes.scalar(1 << 63)


def test_a_shape_of_more_axes_than_any_tensor_has() -> None:
    with pytest.raises(FileError, match="the shape has more than 64 axes"):
        isthmus.compile(model(f"(float x, int64[{1 << 50}] s) => (float y) {{ y = Expand(x, s) }}"))
