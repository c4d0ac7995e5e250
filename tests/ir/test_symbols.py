"""Symbols: names, ranges, equalities found later, assumptions."""

from __future__ import annotations

import re

import numpy as np
import pytest

from isthmus.ir import Assumption, Builder, Graph, Location, Symbols, Tensor, dims, parse, print_graph, verify
from isthmus.ir.cursor import parse_dim
from isthmus.ir.dims import INF, bounds, evaluate, resolve, same
from isthmus.ir.dtypes import i32
from isthmus.ir.scratch import Scratch


def test_names_are_unique() -> None:
    symbols = Symbols()
    symbols.declare("u1")
    assert [str(symbols.fresh()) for _ in range(3)] == ["u0", "u3", "u5"]  # u2 and u4 are dtypes
    assert symbols.declare("u0") is symbols.by_name["u0"]
    assert str(symbols.fresh("n")) == "n0"
    assert list(symbols.by_name) == ["u1", "u0", "u3", "u5", "n0"]


def test_the_younger_symbol_joins_the_older() -> None:
    symbols = Symbols()
    n, m = symbols.declare("N", 1, 64), symbols.declare("M", 4, 100, hint=8)
    symbols.location = Location("model.py", 3)
    assert symbols.unify(n.dim, m.dim)
    assert m.joined == n.dim
    assert (n.lo, n.hi, n.hint) == (4, 64, 8)
    assert symbols.same(n.dim, m.dim) is True
    assert same(m.dim * 2, n.dim * 2) is True
    assert symbols.assumptions == [Assumption("==", n.dim, m.dim, Location("model.py", 3))]
    assert symbols.unify(n.dim, m.dim)
    assert len(symbols.assumptions) == 1


def test_an_input_is_not_sized_by_what_only_data_tells() -> None:
    symbols = Symbols()
    n, u = symbols.declare("N", 0), symbols.fresh()
    assert symbols.unify(n.dim, u * 2)  # no symbol of which the other side is a whole number but N
    assert n.joined is None
    assert symbols.same(n.dim, u * 2) is True
    v = symbols.fresh()
    assert symbols.unify(v, n.dim * 2)
    assert v.symbol is not None
    assert v.symbol.joined == n.dim * 2


def test_a_sum_is_solved_for_one_symbol() -> None:
    symbols = Symbols()
    a, b, c = (symbols.declare(name).dim for name in "abc")
    assert symbols.unify(a + 2 * b, c - 1)
    assert resolve(c) == a + 2 * b + 1
    assert evaluate(c, {symbols.by_name["a"]: 3, symbols.by_name["b"]: 5}) == 14


def test_an_equality_that_nothing_solves_is_remembered() -> None:
    symbols = Symbols()
    a, b, c = (symbols.declare(name).dim for name in "abc")
    assert symbols.unify(2 * a, 3 * b)
    assert symbols.same(3 * b, 2 * a) is True
    assert symbols.same(a, b) is None
    assert symbols.unify(c, b)  # found out later
    assert symbols.same(3 * c, 2 * a) is True


def test_two_inequalities_make_an_equality() -> None:
    symbols = Symbols()
    n, t, p = (symbols.declare(name).dim for name in "ntp")
    assert symbols.constrain("<=", n + p, t)
    assert symbols.same(t, n + p) is None
    assert symbols.constrain("<=", t, n + p)
    assert resolve(t) == n + p, "a symbol that is a sum of others gives way, though it is older than one of them"
    assert [str(assumption) for assumption in symbols.assumptions] == ["n + p <= t", "t <= n + p"]


@pytest.mark.parametrize(
    ("relation", "text", "expected"),
    [
        (">", "(N + 10)//20 - 1", "N >= 30"),
        ("<", "N//3 - 4", "N <= 11"),
        ("<=", "N//3 + N//2 - 10", "N <= 13"),
        (">=", "5 - N//2", "N <= 11"),
        ("<", "5 - N//2", "N >= 12"),
        (">", "N//2 - M", "-M + N//2 > 0"),
        (">", "N % 5 - 2", "N % 5 - 2 > 0"),
        (">", "N - 7", "N - 7 > 0"),
    ],
)
def test_an_inequality_that_holds_from_some_size_on_says_so(relation: str, text: str, expected: str) -> None:
    symbols = Symbols()
    n = symbols.declare("N", 1, 1000)
    symbols.declare("M")
    dim = parse_dim(text, symbols)
    assert symbols.constrain(relation, dim, 0)
    assert [str(assumption) for assumption in symbols.assumptions] == [expected]
    if expected[:2] == "N " and expected[2] in "<>":
        holds = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}[relation]
        assert [i for i in range(1, 1001) if holds(evaluate(dim, {n: i}), 0)] == list(range(int(n.lo), int(n.hi) + 1))


@pytest.mark.parametrize(
    ("relation", "left", "right", "text"),
    [
        (">=", "H - 2*((H + 1)//2)", "0", "H >= 2*((H + 1)//2)"),
        ("<", "-H", "0", "H > 0"),
        (">=", "5 - H", "0", "H <= 5"),
        (">", "W - H - 4", "0", "W > H + 4"),
        ("==", "4 - H", "-W", "W + 4 == H"),
        ("==", "-(H//2)", "2", "H//2 == -2"),
        (">=", "H + 9", "0", "H >= -9"),
        ("<=", "3", "H", "H >= 3"),
        ("!=", "2*H", "3*W", "2*H != 3*W"),
    ],
)
def test_a_relation_is_told_without_negative_terms(relation: str, left: str, right: str, text: str) -> None:
    symbols = Symbols()
    symbols.declare("H"), symbols.declare("W")
    made = Assumption(relation, parse_dim(left, symbols), parse_dim(right, symbols))
    assert made.plain == made.told == text


def test_facts_are_no_assumptions() -> None:
    symbols = Symbols()
    n, a, b = symbols.declare("N").dim, symbols.fresh(), symbols.fresh()
    assert symbols.know(a + b, n)
    assert symbols.same(a + b, n)
    assert not symbols.assumptions


def test_what_cannot_be_is_refused() -> None:
    symbols = Symbols()
    n = symbols.declare("N", 2, 8)
    assert not symbols.unify(n.dim, n.dim + 1)
    assert not symbols.unify(n.dim, 9)
    assert not symbols.constrain("<", n.dim, 2)
    assert not symbols.constrain(">", n.dim, 8)
    assert symbols.assumptions == []


@pytest.mark.parametrize(
    ("relation", "right", "lo", "hi"),
    [("<", 5, 2, 4), ("<=", 5, 2, 5), (">", 5, 6, 8), (">=", 5, 5, 8), ("<=", 8, 2, 8), (">", 1, 2, 8)],
)
def test_an_inequality_narrows(relation: str, right: int, lo: int, hi: int) -> None:
    symbols = Symbols()
    n = symbols.declare("N", 2, 8)
    assert symbols.constrain(relation, n.dim, right)
    assert (n.lo, n.hi) == (lo, hi)
    assert len(symbols.assumptions) == ((lo, hi) != (2, 8))
    assert bounds(n.dim * 2) == (2 * lo, 2 * hi)


def test_an_assumption_is_told_once() -> None:
    symbols = Symbols()
    n, m = symbols.declare("N").dim, symbols.declare("M").dim
    assert symbols.constrain("<", n, m)
    assert symbols.constrain("<", n, m)
    assert [str(assumption) for assumption in symbols.assumptions] == ["N < M"]


def test_the_listener_may_refuse() -> None:
    symbols = Symbols()
    n, m = symbols.declare("N").dim, symbols.declare("M").dim

    def refuse(assumption: Assumption) -> None:
        raise RuntimeError(str(assumption))

    symbols.listener = refuse
    with pytest.raises(RuntimeError, match="N == M"):
        symbols.unify(n, m)
    assert symbols.assumptions == []
    assert symbols.same(n, m) is None


def test_scratch_symbols_write_nothing_down() -> None:
    symbols = Symbols()
    n, m, k, j = (symbols.declare(name).dim for name in "NMKJ")
    symbols.unify(n, m)
    symbols.constrain("<", n, k)
    scratch = Scratch(symbols)
    scratch.start()
    assert scratch.unify(n, m)
    assert scratch.constrain("<", n, k)
    fresh = scratch.fresh("u")
    assert scratch.unify(fresh * 1 + 2, k)
    assert scratch.same(fresh, k - 2) is True
    assert not scratch.unify(n, k)
    assert not scratch.unify(n, j)
    assert not scratch.constrain("<", k, 100)
    assert scratch.missing == ["N == J", "K < 100"]
    scratch.narrow(symbols.by_name["K"], 1, 5)
    assert scratch.missing[2:] == ["K in [1, 5]"]
    assert list(symbols.by_name) == ["N", "M", "K", "J"]
    assert len(symbols.assumptions) == 2
    assert (symbols.by_name["K"].lo, symbols.by_name["K"].hi) == (1, INF)


def test_scratch_symbols_know_of_extremes() -> None:
    symbols = Symbols()
    a, b = symbols.declare("A").dim, symbols.declare("B").dim
    assert symbols.unify(dims.minimum(a, b), b)
    assert [str(assumption) for assumption in symbols.assumptions] == ["B <= A"]
    scratch = Scratch(symbols)
    scratch.start()
    assert scratch.unify(b, dims.minimum(a, b))
    assert not scratch.unify(a, dims.minimum(a, b))
    assert scratch.missing == ["A <= B"]


def test_an_extreme_that_equals_one_of_its_parts_narrows_a_range() -> None:
    table = Symbols()
    size = table.declare("S").dim
    assert table.unify(dims.minimum(512, size), size)
    assert table.by_name["S"].hi == 512
    assert [str(assumption) for assumption in table.assumptions] == ["S <= 512"]
    assert dims.simplify(dims.minimum(512, size)) == size
    assert table.same(dims.minimum(600, size) + 1, size + 1) is True
    assert not table.unify(dims.maximum(600, size), size)


@pytest.mark.parametrize(
    ("relation", "left", "right", "lo", "hi"),
    [
        ("<=", "2", "N", 2, 8), ("<", "2", "N", 3, 8), (">", "3", "N", 1, 2), (">=", "3", "N", 1, 3),
        ("<=", "2*N", "7", 1, 3), ("<", "9", "2*N + 1", 5, 8), (">=", "10 - 3*N", "2", 1, 2), (">", "N - 1", "12 - N", 7, 8),
    ],
)  # fmt: skip
def test_an_inequality_narrows_wherever_the_symbol_stands(relation: str, left: str, right: str, lo: int, hi: int) -> None:
    table = Symbols()
    n = table.declare("N", 1, 8)
    assert table.constrain(relation, parse_dim(left, table), parse_dim(right, table))
    assert (n.lo, n.hi) == (lo, hi)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("N*M == 6", "N*M == 7"),
        ("N*M == 6", "12 == 2*N*M + 1"),
        ("N//2 == 3", "N//2 == 4"),
        ("3 > N", "N > 5"),
        ("3 > N", "5 < N"),
        ("N < M", "N >= M"),
        ("N < M", "N == M"),
        ("N <= M - 2", "M == N + 1"),
        ("2*N == 3*M", "2*N == 3*M + 6"),
        ("N == M + 6", "N == 5"),
        ("M < 9", "N == 2*M + 20*K"),
    ],
)
def test_what_contradicts_an_assumption_is_refused(first: str, second: str) -> None:
    table = Symbols()
    for name, hi in (("N", 20), ("M", INF), ("K", INF)):
        table.declare(name, 1, hi)

    def state(text: str) -> bool:
        left, relation, right = re.split(" ([<>=]=?) ", text)
        sides = parse_dim(left, table), parse_dim(right, table)
        return table.unify(*sides) if relation == "==" else table.constrain(relation, *sides)

    assert state(first)
    told, ranges = list(table.assumptions), [(s.lo, s.hi, s.joined) for s in table.by_name.values()]
    assert not state(second)
    assert (table.assumptions, [(s.lo, s.hi, s.joined) for s in table.by_name.values()]) == (told, ranges)
    graph = Graph(symbols=table)
    table = parse(print_graph(graph)).symbols  # which knows as much
    assert not state(second)


def test_a_join_hands_on_the_range() -> None:
    table = Symbols()
    n, m, k = table.declare("N"), table.declare("M", 1, 3), table.declare("K", 4, 9)
    assert table.unify(n.dim, m.dim + 6)
    assert (n.lo, n.hi) == (7, 9)
    assert not table.unify(n.dim, 3)
    assert table.unify(k.dim, n.dim * n.dim - 60)  # no range of N says what that of K says
    assert table.span(resolve(k.dim)) == (4, 9)
    assert not table.unify(n.dim * n.dim, 49)
    assert table.constrain("<=", n.dim * n.dim, 69)


def test_what_lies_below_both_is_not_the_greater() -> None:
    table = Symbols()
    n, m = table.declare("N").dim, table.declare("M").dim
    assert table.same(dims.minimum(1, n - 1), n) is False
    assert not table.unify(dims.minimum(m, n - 1), n)
    assert not table.unify(dims.maximum(m, n + 1), n)
    assert table.same(dims.minimum(m, n), n) is None


def test_a_size_that_becomes_a_number_narrows_what_was_compared_with_it() -> None:
    g = Graph()
    b = Builder(g)
    n, m = g.symbols.declare("N", 1, 8).dim, g.symbols.declare("M", 1, 8).dim
    x = g.add_input(Tensor(i32, (n, m, m)), "x")
    g.set_outputs([b.where(b.constant(np.ones((2, 1), np.bool_)), b.diagonal(x, axis2=2), x)])
    verify(g)
    g.settle()
    verify(g)
    verify(parse(print_graph(g)))


def test_what_is_supposed_is_known_for_a_while() -> None:
    table = Symbols()
    n, m = table.declare("n", 1).dim, table.declare("m", 1).dim
    with table.supposing([(">", n, 4), ("<=", m - n, 0)]):
        assert table.span(n) == (5, INF)
        assert table.span(m - n)[1] == 0
        assert table.constrain("<=", n, 5)
        assert table.same(n, 5)
    assert table.same(n, 5) is None  # it is 5 at most, and was 5 at least for a while
    assert table.span(n) == (1, 5)
    assert table.span(m - n) == (-4, INF)
    assert [str(assumption) for assumption in table.assumptions] == ["n <= 5"]
