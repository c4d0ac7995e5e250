"""Symbols: names, ranges, equalities found later, assumptions."""

from __future__ import annotations

import pytest

from isthmus.ir import Assumption, Location, Symbols, dims
from isthmus.ir.dims import INF, bounds, evaluate, resolve, same
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
    n, m, k = (symbols.declare(name).dim for name in "NMK")
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
    assert not scratch.constrain("<", k, 100)
    assert scratch.missing == ["N == K", "K < 100"]
    scratch.narrow(symbols.by_name["K"], 1, 5)
    assert scratch.missing[2:] == ["K in [1, 5]"]
    assert list(symbols.by_name) == ["N", "M", "K"]
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
