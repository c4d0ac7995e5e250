"""The text form: golden texts read and written again, and what is wrong with texts that are none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.ir import (
    ArrayWeight,
    Assumption,
    Builder,
    Graph,
    Location,
    Tensor,
    difference,
    dtypes,
    parse,
    print_graph,
    verify,
    weight,
    weight_table,
)
from isthmus.ir.cursor import TOKEN
from isthmus.ir.dtypes import f32
from isthmus.ir.errors import ParseError, VerifyError
from isthmus.ir.printer import excerpt, location_text

GOLDEN = {
    "straight": """\
graph @main(%x: f32[2, 3]) {
  %0: f32[2, 3] = neg(%x)
  %1: f32[2, 3] = add(%0, %0)
  return %1
}
""",
    "nothing": """\
graph @main() {
}
""",
    "metadata": """\
graph @"a model"() {
  metadata framework = "torch 2.9"
  metadata "the \\"key\\"" = "two\\nlines"
}
""",
    "symbols": """\
symbol N in [1, 64] hint 3
symbol M
symbol H in [0, inf]
symbol K in [-inf, 7] hint -1
join M = N
assume N == M   # model.py:3 in forward
assume 2*H != 3*K
graph @main(%x: f32[N, H, 2*(H//2)], %y: i64[K + 1, K]) {
  %0: f32[H*N, 2*(H//2)] = reshape(%x) {shape=[H*N, 2*(H//2)]}
  %1: i64[] = size() {dim=H*N - max(2, H)}
  return %0, %1
}
""",
    "awkward symbols": """\
symbol `batch size` hint 4
symbol `f32`
symbol größe
graph @main(%x: f32[`batch size`, `f32`, größe]) {
  %0: i64[] = size() {dim=(`batch size` + größe)//2 + `f32`}
  return %0
}
""",
    "locations": """\
graph @main(%x: f32[2]) {
  %0: f32[2] = neg(%x)   # features.0  model.py:31 in forward  by fold.batch_norm  by cse
  %1: f32[2] = neg(%0)   # "odd \\" name"  "my model.py":3 in <lambda>
  %2: f32[2] = neg(%1)   # a  + (b  m.py:2 in f  by p)  + (c  + (d))
  %3: f32[2] = neg(%2)   # "":7
  %4: f32[2] = neg(%3)   # "m:3"  C:\\dir\\m.py:4 in "in"
  return %4
}
""",
    "names": """\
graph @main(%x: f32[2], %"0": f32[2], %"a b": f32[2]) {
  %layer1.0.out: f32[2] = neg(%x)
  %x~1: f32[2] = neg(%"0")
  %x~2: f32[2] = neg(%"a b")
  %"a b~1": f32[2] = neg(%x~1)
  %"a b"~1: f32[2] = neg(%x~2)
  %0: f32[2] = neg(%"a b~1")
  return %0, %x, %x
}
""",
    "regions": """\
symbol N
graph @main(%x: f32[N, 4], %c: bool[], %n: i64[]) {
  %0: f32[N, 4] = if(%c) then {
    %1: f32[N, 4] = if(%c) then {
      return %x
    } else @other {
      %2: f32[N, 4] = neg(%x)
      return %2
    }   # inner
    return %1
  } else {
    return %x
  }   # outer  model.py:3
  %3: f32[4] = constant() {value=weight<f32[4] [0.0, 0.0, 0.0, 0.0]>}
  %sum: f32[4] = loop(none, none, [%3, %x]) {carried=1} body(%turn: i64[], %total: f32[4], %row: f32[4]) {
    %4: f32[4] = add(%total, %row)
    %5: bool[] = constant() {value=weight<bool[] [true]>}
    return %5, %4
  }
  return %0, %sum
}
""",
    "isolated": """\
symbol N
graph @main(%x: f32[N]) {
  %0: f32[N] = composite([%x]) {name="Twice"} body(%y: f32[N]) {
    metadata class = "Twice"
    %1: f32[N] = add(%y, %y)
    return %1
  }
  return %0
}
""",
    "operands": """\
graph @main(%x: f32[1, 2, 8], %w: f32[2, 2, 3], %b: f32[2]) {
  %0: f32[1, 2, 6] = conv(%x, %w, none) {strides=[1], pads=[0, 0], dilations=[1]}
  %1: f32[1, 2, 6] = conv(%x, %w, %b) {strides=[1], pads=[0, 0], dilations=[1]}
  %2: f32[1, 4, 6] = concat([%0, %1]) {axis=1}
  %3: f32[1, 1, 6], %4: f32[1, 3, 6] = split(%2) {axis=1, sizes=[1, 3]}
  return %4
}
""",
    "effects": """\
graph @main(%c: bool[]) {
  check(%c) {message="a \\"message\\""}   # model.py:3
}
""",
    "sequences": """\
graph @main(%s: seq<f32[?, 3]>, %o: opt<seq<f32[*]>>, %u: f32[*]) {
  %0: i64[] = sequence_length(%s)
  %1: seq<f32[2]> = sequence_empty() {type=f32[2]}
  %2: bool[] = optional_has(%o)
  return %0, %1, %2
}
""",
    "maps": """\
graph @main(%m: map<i64, f32[*]>, %s: seq<map<str, f32[3]>>) {
  %0: i64[] = sequence_length(%s)
  return %m, %0
}
""",
    "custom": """\
symbol N
graph @main(%x: f32[N]) {
  %0: f32[N, 2], %1: seq<str[]>, %2: ? = custom([%x, none]) {domain="my.ops", name="f", attributes={a=1, "b c"=-1.5, \
c=[1, [2.0]], d="x", e=none, f=true, g=bf16, h=f32[N, 3], i=2*N, j=$N, k=-inf, l=nan, m=-0.0, n={}, o=weight<i8[2] [1, -2]>, \
p=1e-20, q=map<str, f32[?]>, r=?, s=seq<?>}, types=[f32[N, 2], seq<str[]>, ?]}
  return %0, %1, %2
}
""",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    text = GOLDEN[name]
    graph = parse(text)
    assert print_graph(graph) == text
    again = parse(print_graph(graph))
    assert difference(graph, again, locations=True) is None
    assert str(graph) == text


VALID = sorted(set(GOLDEN) - {"symbols"})


@pytest.mark.parametrize("name", VALID)
def test_golden_texts_are_valid(name: str) -> None:
    verify(parse(GOLDEN[name]))


def test_what_is_read() -> None:
    graph = parse(GOLDEN["symbols"])
    n, m, h, k = graph.symbols.by_name.values()
    assert (n.lo, n.hi, n.hint, m.joined) == (1, 64, 3, n.dim)
    assert (h.lo, h.hi, h.hint) == (0, math.inf, None)
    assert (k.lo, k.hi, k.hint) == (-math.inf, 7, -1)
    assert graph.symbols.assumptions == [
        Assumption("==", n.dim, m.dim, Location("model.py", 3, "forward")),
        Assumption("!=", 2 * h.dim, 3 * k.dim),
    ]
    first, _, third, fourth, fifth = parse(GOLDEN["locations"]).nodes
    assert first.location == Location("model.py", 31, "forward", "features.0", ("fold.batch_norm", "cse"))
    assert third.location.merged[1].merged == (Location(module="d"),)
    assert fourth.location == Location(line=7)
    assert fifth.location == Location("C:\\dir\\m.py", 4, "in", "m:3")
    named = parse(GOLDEN["names"])
    assert [node.results[0].name for node in named.nodes] == ["layer1.0.out", "x", "x", "a b~1", "a b", ""]
    assert [value.name for value in named.inputs] == ["x", "0", "a b"]
    attrs = next(parse(GOLDEN["custom"]).nodes).attrs["attributes"]
    assert attrs["k"] == -math.inf
    assert math.isnan(attrs["l"])
    assert math.copysign(1, attrs["m"]) == -1
    assert attrs["c"] == (1, (2.0,))
    assert attrs["a"].__class__ is int
    assert attrs["g"] is dtypes.bf16


def test_an_equality_that_nothing_solves_survives() -> None:
    graph = Graph()
    a, b = graph.symbols.declare("a").dim, graph.symbols.declare("b").dim
    graph.symbols.unify(2 * a, 3 * b)
    symbols = parse(print_graph(graph)).symbols
    assert symbols.same(symbols.by_name["a"].dim * 2, symbols.by_name["b"].dim * 3) is True


def test_dims_made_before_a_range_was_found_out_survive() -> None:
    graph = Graph()
    n = graph.symbols.declare("N")
    x = graph.add_input(Tensor(f32, (n.dim, n.dim // 64)), "x")
    graph.set_outputs([x])
    graph.symbols.narrow(n, 1, 63)  # N//64 is 0 now, but the type still says N//64
    again = parse(print_graph(graph))
    assert difference(graph, again) is None
    assert again.symbols.by_name["N"].hi == 63


def test_comments_and_layout_are_free() -> None:
    graph = parse(
        """
        # A comment.
        symbol N, M hint 4
        graph @main(
            %x: f32[N,
                    M]   ) {
          # Another: %1 = nonsense
          %y: f32[N, M] = neg(%x) return %y }
        """
    )
    assert [symbol.hint for symbol in graph.symbols.by_name.values()] == [None, 4]
    assert len(graph) == 1


def content(dtype: dtypes.DType) -> np.ndarray:
    if dtype.kind == "string":
        return np.array(["", 'a "quote"', "line\nbreak", "é\u2028"], object)
    if dtype.kind == "bool":
        return np.array([True, False])
    if dtype.is_integer:
        bits, signed = dtype.bits, dtype.is_signed
        lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return np.array([lo, 0, 1, hi]).astype(dtype.numpy) if bits < 64 else np.array([lo, 0, 1, hi], dtype.numpy)
    if dtype.is_complex:
        return np.array([complex(0.1, -0.0), complex(math.inf, math.nan), 1], dtype.numpy)
    # Every bit pattern of the small ones, nans of all kinds included; a choice of the others.
    size = dtype.numpy.itemsize
    if size == 1:
        return np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)
    bits = np.random.default_rng(0).integers(0, 1 << 8, (200, size), dtype=np.uint8)
    special = np.array([0.0, -0.0, 1 / 3, math.inf, -math.inf, math.nan, 1e-7, 1e30], np.float64)
    with np.errstate(over="ignore"):
        return np.concatenate([bits.view(dtype.numpy).reshape(-1), special.astype(dtype.numpy), -special.astype(dtype.numpy)])


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_weights_are_written_exactly(dtype: dtypes.DType) -> None:
    array = content(dtype)
    graph = Graph()
    b = Builder(graph)
    graph.set_outputs([b.constant(ArrayWeight(array, "its name")), b.constant(ArrayWeight(array[:1].reshape(())))])
    text = print_graph(graph, inline=1000)
    again = parse(text)
    assert weight_table(graph, inline=1000) == {}
    for node, other in zip(graph.nodes, again.nodes, strict=True):
        found, expected = other.attrs["value"].array(), node.attrs["value"].array()
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tolist() == expected.tolist() if dtype.kind == "string" else found.tobytes() == expected.tobytes()
    assert next(again.nodes).attrs["value"].name == "its name"
    assert print_graph(again, inline=1000) == text


def test_shortest_digits() -> None:
    graph = Graph()
    Builder(graph).constant(np.array([0.1, 1e-5, 3, 1e20], np.float32))
    assert "[0.1, 1e-05, 3.0, 1e+20]" in print_graph(graph)


def test_large_weights_are_references() -> None:
    graph = Graph()
    b = Builder(graph)
    shared = weight(np.zeros((3, 7), np.float32), name="features.0.weight")
    other = ArrayWeight(np.ones((3, 7), np.float32), "features.0.weight")
    unnamed = ArrayWeight(np.ones((3, 7), np.float32))
    graph.set_outputs([b.constant(handle) for handle in (shared, other, shared, unnamed)])
    text = print_graph(graph)
    assert text.count('{value=weight<"features.0.weight" f32[3, 7]>}') == 2
    table = weight_table(graph)
    assert table == {"features.0.weight": shared, "features.0.weight~1": other, "weight": unnamed}
    again = parse(text, table)
    assert [node.attrs["value"] for node in again.nodes] == [shared, other, shared, unnamed]
    assert difference(graph, again, locations=True) is None
    with pytest.raises(ParseError, match=r"a weight 'features.0.weight' among those given"):
        parse(text)
    with pytest.raises(ParseError, match=r"found: ArrayWeight\(-: i64\[1\]\)"):
        parse(text, {**table, "weight": weight(np.zeros(1, np.int64))})


def test_an_empty_weight() -> None:
    text = "graph @main() {\n  %0: f32[0, 3] = constant() {value=weight<f32[0, 3] []>}\n  return %0\n}\n"
    assert print_graph(parse(text)) == text


@pytest.mark.parametrize(
    ("statement", "line", "column", "expected", "found"),
    [
        ("%1: f32[2] = frobnicate(%x)", 4, 16, "an op", "frobnicate"),
        ("%1: f32[2] = neg(%nowhere)", 4, 20, "a value that is defined before", "%nowhere"),
        ("%0: f32[2] = neg(%x)", 4, 3, "a name that is not taken", "%0"),
        ("%1: f32[2] = neg(%x", 5, 3, ",", "return"),
        ("%1: f32[2] = add(%x)", 4, 22, "2 operands of add", "1"),
        ("%1: f32[2] = concat(%x) {axis=0}", 4, 23, "[", "%x"),
        ("%1: f32[Q] = neg(%x)", 4, 7, "a symbol that was declared", "Q"),
        ("%1: f32[N // 0] = neg(%x)", 4, 7, "a divisor that is not 0", "0"),
        ("%1: f33[2] = neg(%x)", 4, 7, "a type", "f33"),
        ("%1: = neg(%x)", 4, 7, "a type", "="),
        ("%1: f32[2] = permute(%x) {perm=0}", 4, 16, "attributes as permute has them", None),
        ("%1: f32[2] = neg(%x) {scale=1}", 4, 16, "attributes as neg has them", "has no attribute scale (expected: none)"),
        ("%1: f32[2] = permute(%x) {perm=[0], perm=[0]}", 4, 39, "a key that was not given before", "perm"),
        ("%1: f32[2] = constant() {value=weight<f32[2] [1.0]>}", 4, 52, "2 elements", "1"),
        ("%1: i8[1] = constant() {value=weight<i8[1] [300]>}", 4, 47, "an element of i8", "300"),
        ("%1: i8[1] = constant() {value=weight<i8[1] [1.5]>}", 4, 47, "an integer", "1.5"),
        ('check(%c) {message="unfinished}', 4, 22, "a string", '"'),
        ("%1: f32[2] = neg(%x)   # a b", 4, 26, "a location: module, file:line, in function, by pass, + (location)", "b"),
        ("%1: f32[2] = if(%c) then { return %x } otherwise { return %x }", 4, 42, "else", "otherwise"),
        ("return %x, %x %1: f32[2] = neg(%x)", 4, 17, "}", "%1"),
        ("& = neg(%x)", 4, 3, "a node, return or }", "&"),
    ],
)  # fmt: skip
def test_errors(statement: str, line: int, column: int, expected: str, found: str | None) -> None:
    text = f"symbol N\ngraph @main(%x: f32[2], %c: bool[]) {{\n  %0: f32[2] = neg(%x)\n  {statement}\n  return %0\n}}\n"
    with pytest.raises(ParseError) as error:
        parse(text)
    assert str(error.value).startswith(f"line {line}, column {column}\n")
    assert error.value.expected == expected
    if found is not None:
        assert error.value.found == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1\n  expected: graph\n  found: the end of the text"),
        ("graph main() {}", "line 1, column 7\n  expected: @\n  found: main"),
        ("graph @main() {", "line 1, column 16\n  expected: a node, return or }\n  found: the end of the text"),
        ("graph @main() {} graph", "line 1, column 18\n  expected: the end of the text\n  found: graph"),
        ("symbol N, N graph @main() {}", "line 1, column 11\n  expected: a symbol that was not declared before\n  found: N"),
        ("symbol N in [1 graph", "line 1, column 16\n  expected: ,\n  found: graph"),
        ("symbol N assume N ~ 1", "line 1, column 19\n  expected: one of == != < <= > >=\n  found: ~"),
    ],
)
def test_errors_outside_of_nodes(text: str, message: str) -> None:
    with pytest.raises(ParseError) as error:
        parse(text)
    assert str(error.value) == message


HUGE = "9" * 400


@pytest.mark.parametrize("shape", [HUGE, f"N + {HUGE}", f"{HUGE}*N", f"max(N, {HUGE})", f"{HUGE}*N - {HUGE}*N*N"])
def test_sizes_of_any_length_are_read_and_compared(shape: str) -> None:
    text = f"symbol N\ngraph @main(%n: f32[N], %x: f32[{shape}]) {{\n  %0: f32[{shape}] = neg(%x)\n  return %0, %n\n}}\n"
    graph = parse(text)
    verify(graph)
    assert HUGE in print_graph(graph)


@pytest.mark.parametrize("shape", ["?", "4, ?"])
def test_a_size_that_is_left_open_stands_in_lists_alone(shape: str) -> None:
    with pytest.raises(ParseError, match="a type whose sizes are known"):
        parse(f"graph @main(%x: f32[{shape}]) {{\n  return %x\n}}")
    verify(parse(f"graph @main(%x: seq<f32[{shape}]>) {{\n  return %x\n}}"))
    graph = Graph()
    sizes: Any = [None if size == "?" else int(size) for size in shape.split(", ")]
    graph.set_outputs([graph.add_input(Tensor(f32, tuple(sizes)), "x")])
    with pytest.raises(VerifyError, match="lacks a size"):
        verify(graph)


@pytest.mark.parametrize("name", ["\u00b2", "N\u00b2", "\u00b7", "\u2167", "\u00e9", "a b", "f32", "0", "N.1", "\u0661"])
def test_any_name_is_read_back(name: str) -> None:
    graph = Graph(name)
    n = graph.symbols.declare(name).dim
    x = graph.add_input(Tensor(f32, (n, n + 1, 2 * n)), name)
    graph.set_outputs([x])
    again = parse(print_graph(graph))
    assert (again.name, again.inputs[0].name, list(again.symbols.by_name)) == (name, name, [name])
    assert print_graph(again) == print_graph(graph)


TOKENS = sorted({token for text in GOLDEN.values() for token in TOKEN.findall(text)})
DAMAGE = st.tuples(st.floats(0, 1), st.integers(0, 4), st.sampled_from(TOKENS))  # where, how much goes, what comes


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(sorted(GOLDEN)), st.lists(DAMAGE, max_size=3))
def test_a_damaged_text_is_an_error_or_another_graph(name: str, damage: list[tuple[float, int, str]]) -> None:
    text = GOLDEN[name]
    for place, gone, token in damage:
        start = int(place * len(text))
        text = text[:start] + token + text[start + gone :]
    try:
        graph = parse(text)
    except ParseError:
        return
    assert difference(graph, parse(print_graph(graph)), locations=True) is None


def test_nesting_without_end_is_an_error() -> None:
    text = f"symbol N assume {'(' * 100_000}N{')' * 100_000} == 1 graph @main() {{}}"
    with pytest.raises(ParseError, match="an expression that is nested less deeply"):
        parse(text)


@pytest.mark.parametrize(
    "location",
    [
        Location("a b.py", 3, "f g", "m", ("x y", ""), (Location("", 0, "", "in"), Location())),
        Location('q"uote.py', 1, "<locals>.f()", "a:1", ("by",)),
        Location("line\nbreak.py", 12, "", "é\u2028", ("+", "(x)")),
        Location(function="f"),
    ],
)
def test_any_location_is_read_back(location: Location) -> None:
    graph = Graph()
    b = Builder(graph, None, location)
    b.neg(graph.add_input(Tensor(f32, (2,)), "x"))
    assert next(parse(print_graph(graph)).nodes).location == location
    assert "\n" not in location_text(location)
    assert "#" not in print_graph(graph, locations=False)


def test_an_excerpt_marks_the_node() -> None:
    graph = Graph()
    b = Builder(graph)
    value = graph.add_input(Tensor(f32, (2,)), "x")
    for _ in range(40):
        value = b.neg(value)
    middle = list(graph.nodes)[20]
    lines = excerpt(graph, middle).splitlines()
    assert len(lines) == 10
    assert [line for line in lines if line.startswith(">")] == [">   %20: f32[2] = neg(%19)"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("neg(%x)", "exp(%x)", "node 0 (neg at unknown place): the op: neg in one, exp in the other"),
        ("axis=1", "axis=0", "node 2 (concat at unknown place): attribute axis: 1 in one, 0 in the other"),
        ("[%0, %1]", "[%1, %0]", "node 2 (concat at unknown place): operand 0: Value(%: f32[2, N]) in one"),
        ("%2: f32[2, 2*N]", "%2: f32[2, M]", "(concat at unknown place): result 0: the type: f32[2, 2*N] in one, f32[2, M]"),
        ("hint 3", "hint 4", "symbol N: N hint 3 in one, N hint 4 in the other"),
        ("return %2", "return %1", "graph main: output 0: "),
        ("%x:", "%z:", "the name of input 0: x in one, z in the other"),
        ("assume N < M", "assume N < 2*M", "assumption 0: N < M in one, N < 2*M in the other"),
        ("[1.5, 2.5]", "[1.5, 3.5]", "attribute value: the content: "),
        ("return %2", "return %2, %2", "the number of outputs: 1 in one, 2 in the other"),
    ],
)
def test_differences(before: str, after: str, message: str) -> None:
    text = """\
symbol N hint 3
symbol M
assume N < M
graph @main(%x: f32[2, N], %y: f32[M]) {
  %0: f32[2, N] = neg(%x)
  %1: f32[2, N] = neg(%0)
  %2: f32[2, 2*N] = concat([%0, %1]) {axis=1}
  %3: f32[2] = constant() {value=weight<f32[2] [1.5, 2.5]>}
  return %2
}
"""
    changed = text.replace(before, after).replace("(%x)", "(%z)" if after == "%z:" else "(%x)")
    assert changed != text
    found = difference(parse(text), parse(changed))
    assert found is not None
    assert message in found
