"""Nodes of domains that nobody knows, in files that do not say what they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import isthmus
from isthmus.errors import UnsupportedError
from isthmus.frontends.onnx.importing import import_model
from isthmus.ir import parse, print_graph, verify
from isthmus.ir.types import Unknown

F = '<domain: "own", opset_import: ["" : 17, "acme" : 3]> f (x) => (y) { t = acme.Foo (x) u = Sqrt (t) y = acme.Bar (u, x) }'


def model(text: str, functions: str = "") -> Any:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17, "acme" : 3, "own" : 1]> {text} {functions}')


CHAIN = model(
    """g (float[2,3] x) => (float[2,3] z, float[N,3] w, int64 s) {
      y = acme.Foo <mode = "a", k = 3> (x)
      a = Relu (y)
      z = Add (a, x)
      c = Cast <to = 1> (y)
      w = Mul (c, x)
      n = Shape (y)
      s = ReduceSum <keepdims = 0> (n)
    }"""
)


def nodes(net: Any) -> list[str]:
    """The nodes, with their domains, inputs and outputs."""
    return [f"{','.join(n.output)} = {n.domain}.{n.op_type}({','.join(n.input)})" for n in net.artefact.model.graph.node]


def test_a_node_passes_through_and_what_is_known_behind_it_is_used() -> None:
    net = isthmus.compile(CHAIN)
    verify(net.graph)
    assert nodes(net) == [
        "y = acme.Foo(x)", "a = .Relu(y)", "z = .Add(a,x)", "c = .Cast(y)", "w = .Mul(c,x)", "n = .Shape(y)",
        "s = .ReduceSum(n,const)",
    ]  # fmt: skip
    types = {value.name: str(value.type) for node in net.graph.nodes for value in node.results}
    assert types["y"] == types["a"] == "?"
    assert (types["z"], types["c"], types["w"]) == ("f32[2, 3]", "f32[*]", "f32[N, 3]")
    onnx.checker.check_model(net.artefact.model, full_check=True)  # type: ignore[attr-defined]
    assert list(net.artefact.model.graph.node[0].attribute) == list(CHAIN.graph.node[0].attribute)  # type: ignore[attr-defined]
    assert [note for note in net.report.notes if "opaque" in note] == [
        "acme.Foo stays an opaque node: the domain acme is not known",
        "Relu, Add, Cast, Shape stay opaque nodes: the type of an input is not known",
        "Mul stays an opaque node: the rank of an input is not known",
    ]


def test_the_text_form_holds_what_is_unknown() -> None:
    text = print_graph(import_model(CHAIN).graph)
    assert print_graph(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "functions", "types", "found"),
    [
        (
            """g (bool b, float[2,3] x) => (float[2,3] z) {
              y = acme.Foo (x)
              z = If (b) <then_branch = t () => (q) { q = acme.Bar (y, x) }, else_branch = e () => (p) { p = Relu (x) }>
            }""", "", {"y": "?", "q": "?", "z": "?"}, ["y = acme.Foo(x)", "z = .If(b)"],
        ),
        (
            """g (int64 n, bool c, float[2,3] x) => (float[2,3] z) {
              y = acme.Foo (x)
              z = Loop (n, c, y) <body = b (int64 i, bool d, v) => (bool e, w) { e = Not (d) w = acme.Bar (v, x) }>
            }""", "", {"y": "?", "z": "?", "v": "?", "w": "?"}, ["y = acme.Foo(x)", "z = .Loop(n,c,y)"],
        ),
        (
            """g (int64 n, bool c, float[2,3] x) => (float[2,3] z) {
              z = Loop (n, c, x) <body = b (int64 i, bool d, v) => (e, w) { e = acme.Bar (v) w = Relu (v) }>
            }""", "", {"z": "f32[2, 3]"}, ["z = .Loop(n,c,x)"],
        ),
        (
            """g (float[2,3] x) => (float[3] z, float[2,3] s) {
              y = acme.Foo (x)
              z, s = Scan <num_scan_inputs = 1, body = b (v, float[3] r) => (w, q) { w = acme.Bar (v, r) q = Relu (r) }> (y, x)
            }""", "", {"y": "?", "z": "?", "v": "?"}, ["y = acme.Foo(x)", "z,s = .Scan(y,x)"],
        ),
        (  # what is stacked must have a rank
            """g (int64 n, bool c, float[2,3] x) => (float[K,2,3] z) {
              z = Loop (n, c) <body = b (int64 i, bool d) => (bool e, w) { e = Not (d) w = acme.Bar (i, x) }>
            }""", "", {"z": "f32[K, 2, 3]"}, ["z = .Loop(n,c)"],
        ),
        (
            """g (float[2,3] x) => (float[2,3] z, float[4,3] v) {
              y = acme.Foo (x)
              i = Constant <value_int = 0> ()
              s = SequenceConstruct (y, y)
              t = acme.Pass (s)
              z = SequenceAt (t, i)
              v = ConcatFromSequence <axis = 0> (s)
            }""", "", {"s": "?", "t": "?", "z": "f32[2, 3]", "v": "f32[4, 3]"},
            ["y = acme.Foo(x)", "s = .SequenceConstruct(y,y)", "t = acme.Pass(s)", "z = .SequenceAt(t,i)",
             "v = .ConcatFromSequence(s)"],
        ),
        (
            "g (float[2,3] x) => (float[2,3] z) { y = own.f (x) z = own.f (y) }", F, {"t": "?", "u": "?", "y": "?"},
            ["t = acme.Foo(x)", "u = .Sqrt(t)", "y = acme.Bar(u,x)", "t_1 = acme.Foo(y)", "u_1 = .Sqrt(t_1)",
             "z = acme.Bar(u_1,y)"],
        ),
        (  # an opaque node whose graph uses names around it, one of which is unknown, and calls a function
            """g (float[2,3] x) => (float[2,3] z) {
              o = Relu (x)
              p = acme.Foo (o)
              z = acme.Each (x) <body = b (float[3] r) => (float[3] s) { q = Add (r, o) t = own.f (q) s = acme.Bar (t, p) }>
            }""", F, {"p": "?"}, ["o = .Relu(x)", "p = acme.Foo(o)", "z = acme.Each(x)"],
        ),
        ("g (float[2] x) => (y, z) { y = acme.Foo (x) z = Identity (y) }", "", {"y": "?"},
         ["y = acme.Foo(x)", "z = .Identity(y)"]),
    ],
    ids=["if", "loop", "asked", "scan", "scanned", "sequence", "function", "captures", "returned"],
)  # fmt: skip
def test_where_such_a_node_may_be(text: str, functions: str, types: dict[str, str], found: list[str]) -> None:
    net = isthmus.compile(model(text, functions))
    verify(net.graph)
    assert nodes(net) == found
    named = {value.name: str(value.type) for graph in net.graph.graphs() for value in graph.inputs}
    for graph in (import_model(model(text, functions)).graph, net.graph):
        named |= {value.name: str(value.type) for node in graph.walk() for value in (*node.results, *_inputs(node))}
    assert {name: named[name] for name in types} == types
    again = isthmus.compile(net.artefact.model)  # type: ignore[attr-defined]
    assert nodes(again) == found


def _inputs(node: Any) -> list[Any]:
    return [value for region in node.regions for value in region.inputs]


def test_captured_names_go_along() -> None:
    text = """g (float[2,3] x) => (float[2,3] z) {
      o = Relu (x)
      p = acme.Foo (o)
      z = acme.Each (x) <body = b (float[3] r) => (float[3] s) { q = Add (r, o) t = own.f (q) s = acme.Bar (t, p) }>
    }"""
    (body,) = (each.g for each in isthmus.compile(model(text, F)).artefact.model.graph.node[2].attribute)  # type: ignore[attr-defined]
    assert [node.op_type for node in body.node] == ["Add", "Foo", "Sqrt", "Bar", "Bar"]
    assert (list(body.node[0].input)[1], list(body.node[-1].input)[1]) == ("o", "p")


@pytest.mark.parametrize(("opset", "kept"), [(15, True), (18, True), (12, False), (21, False)])
def test_another_opset_where_the_ops_are_the_same_there(opset: int, kept: bool) -> None:
    """Cast is another at 21; Shape, Relu and Add are at 12."""
    if kept:
        net = isthmus.compile(CHAIN, opset=opset)
        assert len(nodes(net)) == 7
        assert {each.domain: each.version for each in net.artefact.model.opset_import} == {"": opset, "acme": 3}  # type: ignore[attr-defined]
    else:
        with pytest.raises(UnsupportedError, match=f"which is of opset 17, and is another at opset {opset}"):
            isthmus.compile(CHAIN, opset=opset)


TAKERS = [{"target": "caffe"}, {"target": "tensorrt"}, {"target": "reference"}, {"profile": "opencv"}]


@pytest.mark.parametrize("options", TAKERS, ids=lambda options: next(iter(options.values())))
def test_who_takes_no_such_node_says_so(options: dict[str, Any]) -> None:
    if options.get("target") == "tensorrt":
        pytest.importorskip("isthmus.backends.tensorrt")
    with pytest.raises(UnsupportedError) as caught:
        isthmus.compile(CHAIN, **options)
    first = caught.value.refusals[0]
    assert first.op == "acme.Foo"
    assert first.remedy


def test_with_strict_it_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"acme\.Foo: the domain acme is not known; 1 node"):
        isthmus.compile(CHAIN, strict=True)


def test_unknown_within_a_sequence() -> None:
    text = "graph @g(%x: f32[2]) {\n  %0: seq<?> = custom([%x]) {domain=\"d\", name=\"n\", types=[seq<?>]}\n  return %0\n}"
    graph = parse(text)
    verify(graph)
    assert graph.outputs[0].type.element == Unknown()  # type: ignore[union-attr]
    assert print_graph(parse(print_graph(graph))) == print_graph(graph)


KINDS = [
    ("float[A, B] x, int64[N, K] i", "GatherND(x, i)", "the last size of the indices, which says how many axes each names, is"),
]


@pytest.mark.parametrize(("inputs", "call", "reason"), KINDS)
def test_a_size_that_tells_the_rank_is_not_known(inputs: str, call: str, reason: str) -> None:
    text = f"g ({inputs}) => (y) {{ y = {call} }}"
    found = import_model(model(text))
    assert str(found.graph.outputs[0].type) == "f32[*]"
    net = isthmus.compile(model(text), keep_ops=True)
    assert nodes(net) == [f"y = .{call.replace(' ', '')}"]
    assert net.report.notes == [f"GatherND stays an opaque node: {reason} not known"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for indices in ([[1], [0]], [[1, 2], [0, 1]]):
        assert net(x, np.array(indices))["y"].tolist() == x[tuple(np.transpose(indices))].tolist()
    with pytest.raises(UnsupportedError, match="GatherND") as caught:
        isthmus.compile(model(text), target="caffe")
    assert "give numbers for" in str(caught.value)


def test_a_function_that_hangs_on_what_is_not_known() -> None:
    text = "g (float[A, B, C] a, float[D, E] c, int64[K] s) => (float y) { x = acme.Pass (a) y = acme.Pass (x) }"
    made = model(text)
    made.opset_import[0].version = 23
    made.graph.node[0].CopyFrom(onnx.helper.make_node("Reshape", ["a", "s"], ["x"]))
    made.graph.node[1].CopyFrom(onnx.helper.make_node("RotaryEmbedding", ["x", "c", "c"], ["y"]))
    assert "hangs on what is not known" in import_model(made).opaque["", "RotaryEmbedding"]
