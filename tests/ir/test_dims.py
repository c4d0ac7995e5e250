"""Dims against plain Python arithmetic."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from isthmus.ir import Symbols, dims
from isthmus.ir.cursor import parse_dim
from isthmus.ir.dims import INF, Dim, Symbol
from isthmus.ir.errors import ParseError

RANGES = {"A": (0, 7), "B": (1, INF), "C": (-3, 4), "D": (16, 16)}
Env = dict[str, int]


@dataclass
class Case:
    """A dim, and the same thing as a function of numbers."""

    dim: Dim
    value: Callable[[Env], int]


def table() -> Symbols:
    symbols = Symbols()
    for name, (lo, hi) in RANGES.items():
        symbols.declare(name, lo, hi)
    return symbols


def draw_env(source: random.Random) -> Env:
    return {name: source.randint(int(lo), int(min(hi, 40))) for name, (lo, hi) in RANGES.items()}


BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "//": (dims.floordiv, lambda a, b: a // b),
    "%": (dims.mod, lambda a, b: a % b),
    "min": (dims.minimum, min),
    "max": (dims.maximum, max),
    "ceildiv": (dims.ceildiv, lambda a, b: -(-a // b)),
}

Tree = Any
LEAVES: st.SearchStrategy[Tree] = st.one_of(st.integers(-6, 6), st.sampled_from(sorted(RANGES)))
KINDS = st.sampled_from(sorted(BINARY))
TREES: st.SearchStrategy[Tree] = st.recursive(LEAVES, lambda inner: st.tuples(KINDS, inner, inner), max_leaves=8)


def build(tree: Tree, symbols: Symbols) -> Case:
    if isinstance(tree, int):
        return Case(tree, lambda env: tree)
    if isinstance(tree, str):
        return Case(symbols.by_name[tree].dim, lambda env: env[tree])
    kind, left, right = tree
    a, b = build(left, symbols), build(right, symbols)
    symbolic, plain = BINARY[kind]
    try:
        dim = symbolic(a.dim, b.dim)
    except ZeroDivisionError:
        assume(False)
    return Case(dim, lambda env: plain(a.value(env), b.value(env)))


def values(symbols: Symbols, env: Env) -> dict[Symbol, int]:
    return {symbols.by_name[name]: number for name, number in env.items()}


def plain_value(case: Case, env: Env) -> int:
    try:
        return case.value(env)
    except ZeroDivisionError:
        assume(False)
        raise


@settings(max_examples=400, deadline=None)
@given(TREES, st.randoms(use_true_random=False))
def test_evaluate_bounds_and_text_agree_with_python(tree: Tree, source: random.Random) -> None:
    symbols = table()
    case = build(tree, symbols)
    lo, hi = dims.bounds(case.dim)
    for _ in range(5):
        env = draw_env(source)
        expected = plain_value(case, env)
        assert dims.evaluate(case.dim, values(symbols, env)) == expected
        assert lo <= expected <= hi
        assert eval(str(case.dim), {"min": min, "max": max, **env}) == expected


@settings(max_examples=300, deadline=None)
@given(TREES)
def test_a_dim_is_read_back_as_it_was_printed(tree: Tree) -> None:
    symbols = table()
    case = build(tree, symbols)
    for symbol in symbols.by_name.values():  # as the parser does: ranges come last
        symbol.lo, symbol.hi = -INF, INF
    assert parse_dim(str(case.dim), symbols) == case.dim


@settings(max_examples=300, deadline=None)
@given(TREES, TREES, st.randoms(use_true_random=False))
def test_same_is_never_wrong(left: Tree, right: Tree, source: random.Random) -> None:
    symbols = table()
    a, b = build(left, symbols), build(right, symbols)
    answer = dims.same(a.dim, b.dim)
    for _ in range(8):
        env = draw_env(source)
        if answer is not None:
            assert (plain_value(a, env) == plain_value(b, env)) is answer


@settings(max_examples=200, deadline=None)
@given(TREES, TREES, st.randoms(use_true_random=False))
def test_substitution_agrees_with_evaluation(tree: Tree, inner: Tree, source: random.Random) -> None:
    symbols = table()
    case, other = build(tree, symbols), build(inner, symbols)
    env = draw_env(source)
    number = plain_value(other, env)
    lo, hi = RANGES["C"]
    assume(lo <= number <= hi)
    try:
        replaced = dims.substitute(case.dim, {symbols.by_name["C"]: other.dim})
        found = dims.evaluate(replaced, values(symbols, env))
    except ZeroDivisionError:
        assume(False)
    assert found == plain_value(case, {**env, "C": number})


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_a_normal_form_is_kept(tree: Tree) -> None:
    symbols = table()
    dim = build(tree, symbols).dim
    again = dims.substitute(dim, {symbol: symbol.dim for symbol in symbols.by_name.values()})
    assert again == dim
    assert hash(again) == hash(dim)
    assert isinstance(dim, int) or dim.terms  # a constant is an int


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("N + M + N", "M + 2*N"),
        ("(N + 1)*(N - 1)", "N*N - 1"),
        ("N - N", "0"),
        ("(2*N + 3)//2", "N + 1"),
        ("(N - 1)//2", "(N + 1)//2 - 1"),
        ("-(-N//2)", "(N + 1)//2"),
        ("(N//2)//3", "N//6"),
        ("(N//2 + 1)//2", "(N + 2)//4"),
        ("6*N % 4", "(6*N) % 4"),
        ("(4*N) % 4", "0"),
        ("(4 - N % 4) % 4", "(-N) % 4"),
        ("N + (-N) % 4", "4*((N + 3)//4)"),
        ("2*N + 3 - 2*(N % 4)", "8*(N//4) + 3"),
        ("N*M//N", "M"),
        ("min(N, min(M, 3))", "min(3, M, N)"),
        ("max(N, N + 1)", "N + 1"),
        ("2*(N//3)", "2*(N//3)"),
        ("-N//2 * 3", "-3*((N + 1)//2)"),
        ("N//(M + 1)", "N//(M + 1)"),
        ("-7//2", "-4"),
        ("N // -2", "-((N + 1)//2)"),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    symbols = Symbols()
    symbols.declare("N", -INF, INF)
    symbols.declare("M", -INF, INF)
    dim = parse_dim(text, symbols)
    assert str(dim) == normal
    assert str(parse_dim(normal, symbols)) == normal


def test_what_is_not_known_is_not_answered() -> None:
    symbols = Symbols()
    n, m = symbols.declare("N").dim, symbols.declare("M").dim
    assert dims.same(n, m) is None
    assert dims.same(n, n + 1) is False
    assert dims.same(2 * n, 2 * m + 1) is False  # parity
    assert dims.same(n, 0) is False  # sizes are 1 and up unless said otherwise
    assert dims.same(n, 1) is None
    with pytest.raises(TypeError, match="the truth of the dim N"):
        bool(n)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("max(0, A - 1) + min(1, A)", "A"), ("max(A, B) + min(A, B)", "A + B"),
        ("max(3, B // 2) - 3", "B // 2 - min(3, B // 2)"), ("2 * max(0, A - 3) + 2 * min(3, A)", "2 * A"),
    ],
)  # fmt: skip
def test_the_greatest_and_the_least_are_both(left: str, right: str) -> None:
    symbols = table()
    one, other = (parse_dim(text, symbols) for text in (left, right))
    assert dims.same(one, other) is True
    assert dims.same(one, other + 1) is False


def test_ranges_simplify() -> None:
    symbols = Symbols()
    n = symbols.declare("N", 1, 31).dim
    assert n // 32 == 0
    assert n % 32 == n
    assert dims.maximum(n, 1) == n
    assert dims.minimum(n, 32) == n
    assert dims.bounds(n * n - 1) == (0, 960)


def test_quotients_of_one_dividend() -> None:
    """As the sizes of one level of pooling beside those of the next."""
    h = Symbols().declare("H").dim
    half, quarter = dims.floordiv(h, 2), dims.floordiv(h, 4)
    assert dims.bounds(half - 2 * quarter) == (0, 1)
    assert dims.bounds(h - 4 * quarter) == (0, 3)
    assert dims.bounds(dims.floordiv(h + 1, 2) - 2 * dims.floordiv(h + 3, 4)) == (-1, 0)
    assert dims.bounds(half - 3 * dims.floordiv(h, 6)) == (0, 2)
    assert dims.bounds(half - 3 * dims.floordiv(h + 1, 6)) == (-dims.INF, dims.INF)


def test_hints() -> None:
    symbols = Symbols()
    n, m = symbols.declare("N", hint=3).dim, symbols.declare("M").dim
    assert dims.hint(2 * n + 1) == 7
    assert dims.hint(n + m) is None


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("N +", "a size", ""),
        ("N // 0", "a divisor that is not 0", "0"),
        ("K", "a symbol that was declared", "K"),
        ("N N", "the end of the dim", "N"),
        ("min N", "(", "N"),
        ("1.5", "a size", "1.5"),
    ],
)
def test_what_is_not_a_dim(text: str, expected: str, found: str) -> None:
    symbols = Symbols()
    symbols.declare("N")
    with pytest.raises(ParseError) as error:
        parse_dim(text, symbols)
    assert (error.value.expected, error.value.found) == (expected, found)


@pytest.mark.parametrize("name", ["batch size", "min", "f32", "none", "a`b", 'a"b', "3", "", "größe", "a\nb"])
def test_any_name_can_be_a_symbol(name: str) -> None:
    symbols = Symbols()
    dim = symbols.declare(name).dim * 2 + 1
    assert parse_dim(str(dim), symbols) == dim
