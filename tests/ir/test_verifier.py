"""Every invariant, broken on purpose: the verifier says which, where, and shows the place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from isthmus.ir import Builder, Graph, Location, Node, Tensor, parse, verify
from isthmus.ir.dtypes import f32, i64
from isthmus.ir.errors import VerifyError
from isthmus.ir.graph import Value

TEXT = """\
symbol N
symbol M
assume N == M
graph @main(%x: f32[N, 4], %y: f32[N, 4], %c: bool[]) {
  %sum: f32[N, 4] = add(%x, %y)   # layer.0  model.py:7 in forward
  %chosen: f32[N, 4] = if(%c) then {
    %inner: f32[N, 4] = neg(%sum)
    return %inner
  } else {
    return %x
  }
  %whole: f32[N, 4] = composite([%chosen]) {name="Twice"} body(%z: f32[N, 4]) {
    %twice: f32[N, 4] = add(%z, %z)   # twice  model.py:9
    return %twice
  }
  %flat: f32[4*N] = reshape(%whole) {shape=[4*N]}
  return %flat, %whole
}
"""


class Model:
    """The text's graph with its nodes and values by name."""

    def __init__(self) -> None:
        self.graph = parse(TEXT)
        self.values: dict[str, Value] = {}
        for graph in self.graph.graphs():
            self.values.update({value.name: value for value in graph.inputs})
        for node in self.graph.walk():
            self.values.update({value.name: value for value in node.results})

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def node(self, name: str) -> Node:
        node = self.values[name].producer
        assert node is not None
        return node


def test_the_model_is_valid() -> None:
    verify(Model().graph)
    verify(Model().node("inner").graph or Graph())  # from within, the whole is checked


def use_before_definition(m: Model) -> None:
    m.node("sum").set_operand(0, m["flat"])


def use_out_of_region(m: Model) -> None:
    m.node("flat").set_operand(0, m["inner"])


def use_into_isolated_region(m: Model) -> None:
    m.node("twice").set_operand(0, m["x"])


def use_of_erased(m: Model) -> None:
    node = m.node("sum")
    node.graph = None


def output_from_region(m: Model) -> None:
    m.graph.set_outputs([m["inner"]])


def operand_that_forgot(m: Model) -> None:
    m["x"].uses.clear()


def use_that_is_none(m: Model) -> None:
    m["y"].uses[m.node("flat"), 0] = None


def use_outside(m: Model) -> None:
    m["y"].uses[Graph(), 0] = None


def lost_link(m: Model) -> None:
    m.node("chosen")._previous = None


def lost_count(m: Model) -> None:
    m.graph._count += 1


def lost_end(m: Model) -> None:
    m.graph._last = m.node("sum")


def circle(m: Model) -> None:
    m.node("flat")._next = m.node("flat")


def foreign_region(m: Model) -> None:
    m.node("chosen").regions[0].parent = m.node("whole")


def missing_region(m: Model) -> None:
    m.node("chosen").regions = m.node("chosen").regions[:1]


def foreign_result(m: Model) -> None:
    m["sum"].index = 1


def foreign_input(m: Model) -> None:
    m["x"].graph = None


def unknown_attribute(m: Model) -> None:
    m.node("flat").attrs["color"] = "red"


def raw_attribute(m: Model) -> None:
    m.node("flat").attrs["shape"] = list(m.node("flat").attrs["shape"])


def attribute_without_text(m: Model) -> None:
    m.node("whole").attrs["name"] = object()


def missing_attribute(m: Model) -> None:
    del m.node("flat").attrs["shape"]


def absent_operand(m: Model) -> None:
    m.node("sum").set_operand(1, None)


def other_dtype(m: Model) -> None:
    m["y"].type = Tensor(i64, m["y"].tensor.shape)


def other_type(m: Model) -> None:
    m["sum"].type = Tensor(f32, (m["x"].tensor.shape or ())[:1])


def other_size(m: Model) -> None:
    m["flat"].type = Tensor(f32, (3,))


def unknown_size(m: Model) -> None:
    m["flat"].type = Tensor(f32, None)


def other_result_count(m: Model) -> None:
    node = m.node("sum")
    node.results.append(Value(node.result.type, node, None, 1))


def unassumed_equality(m: Model) -> None:
    k = m.graph.symbols.declare("K").dim
    m["y"].type = Tensor(f32, (k, 4))


def unlisted_symbol(m: Model) -> None:
    del m.graph.symbols.by_name["N"]


def unbound_symbol(m: Model) -> None:
    k = m.graph.symbols.declare("K").dim
    m.node("flat").attrs["shape"] = (k * 2,)


def unbound_input(m: Model) -> None:
    k = m.graph.symbols.declare("K").dim
    m["c"].type = Tensor(f32, (k * 2,))


def late_symbol(m: Model) -> None:
    b = Builder(m.graph)
    u = b.nonzero(m["x"]).tensor.shape[0]  # type: ignore[index]
    m.node("flat").attrs["shape"] = (u,)


def ended_symbol(m: Model) -> None:
    inner = Builder(m.node("chosen").regions[0])
    u = inner.nonzero(m["x"]).tensor.shape[0]  # type: ignore[index]
    m.node("flat").attrs["shape"] = (u,)


def second_binder(m: Model) -> None:
    inner = Builder(m.node("chosen").regions[0])
    found = inner.nonzero(m["x"])
    later = Builder(m.graph).nonzero(m["y"])
    later.type = found.type


def bound_twice(m: Model) -> None:
    b = Builder(m.graph)
    symbol = m.graph.symbols.declare("K")
    b.bind(b.constant(3), symbol=symbol)
    b.bind(b.constant(4), symbol=symbol)


BROKEN: dict[Callable[[Model], None], str] = {
    use_before_definition: "add: operand 0, Value(flat: f32[4*N]), is not defined before it is used\n"
    "  at model.py:7 in forward (layer.0)",
    use_out_of_region: "reshape: operand 0, Value(inner: f32[N, 4]), is not defined before it is used",
    use_into_isolated_region: "add: operand 0, Value(x: f32[N, 4]), is a value from outside an isolated region\n"
    "  at model.py:9 (twice)",
    use_of_erased: "add: the links of graph main are broken",
    output_from_region: "output 0 of graph main, Value(inner: f32[N, 4]), is not defined before it is used",
    operand_that_forgot: "add: operand 0, Value(x: f32[N, 4]), does not know that it is used",
    use_that_is_none: "Value(y: f32[N, 4]) lists a use that does not use it, or is not in the graph",
    use_outside: "Value(y: f32[N, 4]) lists a use that does not use it, or is not in the graph",
    lost_link: "if: the links of graph main are broken",
    lost_count: "reshape: graph main has lost count of its nodes",
    lost_end: "reshape: graph main has lost count of its nodes",
    circle: "reshape: the links of graph main are broken",
    foreign_region: "if: region then belongs to another node",
    missing_region: "if: has another number of regions than its row\n  at unknown place\n  expected: then, else",
    foreign_result: "add: result 0 belongs to something else",
    foreign_input: "input 0 of graph main belongs to something else",
    unknown_attribute: "reshape: has no attribute color",
    raw_attribute: "reshape: attribute shape is not in normal form\n  expected: (4*N,)\n  found: [4*N]",
    attribute_without_text: "composite: attribute name: <object object at",
    missing_attribute: "reshape: attribute shape is missing\n  expected: list of dims",
    absent_operand: "add: operand y must be given",
    other_dtype: "add: operand y has another dtype",
    other_type: "add: result 0 has another type than its op infers\n  at model.py:7 in forward (layer.0)\n"
    "  expected: f32[N, 4]\n  found: f32[N]",
    other_size: "reshape: result 0 has another type than its op infers\n  expected: f32[4*N]\n  found: f32[3]",
    unknown_size: "reshape: result 0 has another type than its op infers\n  expected: f32[4*N]\n  found: f32[*]",
    other_result_count: "add: has 2 results, not 1",
    unassumed_equality: "add: broadcast sizes do not agree; the graph does not assume N == K",
    unlisted_symbol: "the type of input x uses N, which is not in the graph's table of symbols",
    unbound_symbol: "reshape: attribute shape uses K, which nothing binds before",
    unbound_input: "the type of input c uses K, which nothing binds before",
    late_symbol: "reshape: attribute shape uses u0, which nothing binds before",
    ended_symbol: "reshape: attribute shape uses u0, which nothing binds any more: its region has ended",
    second_binder: "nonzero: symbol u0 has a second binder",
    bound_twice: "bind: symbol K has a second binder",
}


@pytest.mark.parametrize(("damage", "message"), BROKEN.items(), ids=[damage.__name__ for damage in BROKEN])
def test_broken(damage: Callable[[Model], None], message: str) -> None:
    model = Model()
    damage(model)
    with pytest.raises(VerifyError) as error:
        verify(model.graph)
    assert str(error.value).replace("  at unknown place\n", "").startswith(message.replace("  at unknown place\n", ""))


def test_the_error_shows_ten_lines_around_the_node() -> None:
    model = Model()
    b = Builder(model.graph, None, Location("m.py", 3))
    value = model["flat"]
    for _ in range(30):
        value = b.neg(value)
    b.graph.set_outputs([value])
    middle = list(model.graph.nodes)[20]
    middle.result.type = Tensor(f32, (2,))
    with pytest.raises(VerifyError) as error:
        verify(model.graph)
    lines = error.value.excerpt.splitlines()
    assert len(lines) == 10
    assert [line for line in lines if line.startswith(">")] == [">   %16: f32[2] = neg(%15)   # m.py:3"]
    assert str(error.value).endswith(error.value.excerpt)


VALID = {
    "inputs use each other's symbols in any order": """\
symbol N
graph @main(%x: f32[2*N], %y: f32[N]) {
  return %x
}
""",
    "a result's own symbol stands for what was inferred": """\
symbol N
symbol u in [0, inf]
graph @main(%x: f32[N, 2]) {
  %0: f32[u, 2] = concat([%x, %x]) {axis=0}
  %1: i64[] = size() {dim=u}
  return %0, %1
}
""",
    "a symbol that was found to be a number": """\
graph @main(%x: f32[4]) {
  %0: i64[3, 1] = nonzero(%x)
  return %0
}
""",
    "an equality that the graph assumes": """\
symbol N
symbol M
join M = N
assume N == M
graph @main(%x: f32[N], %y: f32[M]) {
  %0: f32[N] = add(%x, %y)
  return %0
}
""",
    "an equality that nothing solves": """\
symbol N
symbol M
assume 2*N == 3*M
graph @main(%x: f32[N], %y: f32[M], %s: f32[2*N], %t: f32[3*M]) {
  %0: f32[2*N] = add(%s, %t)
  return %0
}
""",
    "the same new symbol twice": """\
symbol N
symbol v in [0, inf]
graph @main(%x: f32[N]) {
  %0: f32[v], %1: i64[N], %2: i64[v] = unique(%x)
  return %2
}
""",
}


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    graph = parse(VALID[name])
    before = str(graph)
    verify(graph)
    assert str(graph) == before  # inferring again wrote nothing down


INVALID = {
    "join M = N": "broadcast sizes do not agree; the graph does not assume N == M",
    "assume 2*N == 3*M": "broadcast sizes do not agree; the graph does not assume 2*N == 3*M",
    "%2: i64[v]": "unique: result 2 has another type than its op infers",
}


@pytest.mark.parametrize("line", INVALID)
def test_nothing_is_taken_for_granted(line: str) -> None:
    text = next(text for text in VALID.values() if line in text)
    if line.startswith("join"):
        text = text.replace("assume N == M\n", "")
    replacement = "%2: i64[N]" if line.startswith("%2") else ""
    graph = parse(text.replace(line + "\n", "").replace(line, replacement))
    with pytest.raises(VerifyError) as error:
        verify(graph)
    assert INVALID[line] in str(error.value)
