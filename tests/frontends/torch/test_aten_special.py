"""Special functions, held against eager torch at edges and between them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from aten_cases import Case, b, cases, check, f, i

EDGES = (
    0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 3.0, 8.0, 8.1, -8.1, 20.5, -20.5, 1e-3, -1e-3, 1e-20, -1e-20,
    1e-40, 1e3, -1e3, 1e10, -1e10, 1e30, math.inf, -math.inf, math.nan,
)  # fmt: skip
"""Where formulas change, end or break."""

NAMES = (
    "erfc special.erfcx special.log_ndtr special.ndtri erfinv lgamma digamma i0 special.i0e special.i1 special.i1e "
    "special.modified_bessel_k0 special.modified_bessel_k1 special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1"
)
WAVES = "special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 special.airy_ai special.spherical_bessel_j0"


def named(names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", names.split())


def function(name: str) -> Any:
    found: Any = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


@named(NAMES)
def test_of_floats(name: str) -> None:
    edges = torch.tensor(EDGES)
    check(Case(lambda x: function(name)(torch.cat([x, edges])), f("N"), atol=1e-8))


@named(NAMES)
def test_of_doubles(name: str) -> None:
    edges = torch.tensor(EDGES, dtype=torch.float64)
    check(Case(lambda x: function(name)(torch.cat([x, edges])), f("N", dtype=torch.float64), rtol=1e-12, atol=1e-14))


@named(NAMES)
def test_of_others(name: str) -> None:
    """Integers, truth values, nothing, and one number."""
    check(Case(lambda x, y, z: (function(name)(x), function(name)(y), function(name)(z)), i("N", 3), b("N"), f()))
    check(Case(function(name), f(0, 3)))


@named(WAVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_of_waves(name: str, dtype: torch.dtype) -> None:
    """torch has no more than single precision of these, and rounds great angles; zeros are met up to that."""
    edges = torch.tensor([edge for edge in EDGES if not 100 < abs(edge) < math.inf], dtype=dtype)
    wave = function(name)
    check(Case(lambda x: wave(torch.cat([x, edges])), f("N", low=-12, high=12, dtype=dtype), atol=1e-6))
    check(Case(lambda x, y: (wave(x), wave(y)), i("N", 3, low=-9, high=9), b("N"), atol=1e-6))


D = torch.float64


@cases(
    polygamma=[
        lambda x: [torch.polygamma(n, torch.cat([x, torch.tensor(EDGES, dtype=D)[:-5]])) for n in (0, 2, 3, 8)],
        f("N", low=-5, high=5, dtype=D),
    ],
    trigamma=[lambda x, y: (torch.polygamma(1, x), torch.polygamma(1, y), torch.polygamma(1, 1 / y.exp())),
              f("N", 3, low=-4, high=9), i("N", low=1)],
    polygamma_of_others=[lambda x, y, z: [torch.polygamma(n, each) for n in range(4) for each in (x, y, z, x[:0])],
                         i("N", low=1), b("N"), f(low=0.5)],
    mvlgamma=[lambda x, y: (torch.mvlgamma(x, 1), torch.mvlgamma(x, 4), torch.mvlgamma(y, 3)), f("N", low=2, high=9),
              i("N", 3, low=2)],
    zeta=[lambda x, q, n: [torch.special.zeta(*each) for each in ((x, q), (n, q), (n, 2), (3, q))],
          f("N", 3, low=0.5, high=6), f(3), i("N", 1, low=0)],
    zeta_of_others=[lambda x, y: (torch.special.zeta(x, y), torch.special.zeta(y, x), torch.special.zeta(x[:0], y)),
                    i("N", 3), b(3)],
)  # fmt: skip
def test_gamma(case: Case) -> None:
    check(case)


EXPONENTS = [edge for edge in EDGES if edge < 1e3] + [30.0, 1e5, math.inf]


@cases(
    doubles=[lambda a, x: (torch.igamma(a, x), torch.igammac(a, x), torch.special.gammainc(a, x * 9), torch.igammac(a, x * 9)),
             f("N", 1, low=0.1, high=40, dtype=D), f("M", low=0, high=40, dtype=D)],
    floats=[lambda a, x: (torch.igamma(a, x), torch.igammac(a, x), torch.igamma(a, x[0])), f("N", 4, low=0.5, high=9),
            f(4, low=0, high=12)],
    great=[lambda a, x: (torch.igamma(a, a + x * a.sqrt()), torch.igammac(a, a + x * a.sqrt())),
           f("N", 1, low=1e3, high=1e7, dtype=D), f(9, low=-4, high=4, dtype=D)],
)  # fmt: skip
def test_incomplete_gamma(case: Case) -> None:
    case.tolerance["rtol"] = 1e-7 if case.inputs[0].dtype is D else 1e-5
    check(case)


def test_incomplete_gamma_at_edges() -> None:
    edges = torch.tensor(EXPONENTS, dtype=D)
    check(Case(lambda x: (torch.igamma(edges[:, None], x), torch.igammac(edges[:, None], x)), f("N", low=0, high=1, dtype=D)))
    check(Case(lambda x: (torch.igamma(x[:, None], edges), torch.igammac(x[:, None], edges)), f("N", low=0, high=1, dtype=D)))
    check(Case(lambda x: (torch.igamma(edges[:, None], edges + x), torch.igammac(edges[:, None], edges + x)), f(low=0, high=0)))


# ---- orthogonal polynomials

CHEBYSHEV = " ".join(f"special.{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw")
OTHERS = " ".join(f"special.{name}" for name in (
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
))  # fmt: skip


@named(f"{CHEBYSHEV} {OTHERS}")
def test_orthogonal(name: str) -> None:
    """Each element has its degree: below 0 there is none, fractions are cut off; known degrees with and without a loop."""
    family = function(name)
    edges = torch.tensor([edge for edge in EDGES if abs(edge) < 1e3 or abs(edge) == math.inf])
    degrees = torch.tensor([-1.0, -0.5, 0.0, 1.0, 2.0, 6.9, 15.0, math.nan])[:, None]
    check(Case(lambda x: family(torch.cat([x, edges]), degrees), f("N"), rtol=1e-4))
    check(Case(lambda x: [family(x, n) for n in (-1, 0, 1, 2, 5, 20)], f("N", low=-1, high=1), rtol=1e-4, atol=1e-4))
    check(Case(lambda x, n: (family(x, n), family(0.5, n), family(x[:0], n), family(n, x)), i("N", 3, low=-2), i(3, low=-1)))
    check(Case(lambda x, n: family(x, n), b(2, 3), b(3)))
    check(Case(lambda x, n: family(x, n), f("N", dtype=torch.float64), i(), rtol=1e-10))


@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_powers_of_a_half_are_roots(exponent: float) -> None:
    edges = torch.tensor(EDGES)
    check(Case(lambda x: torch.cat([x, edges]) ** exponent, f("N"), atol=1e-8))


@pytest.mark.parametrize("exponent", [2, 3, 5])
def test_powers_of_one_integer_wrap_around(exponent: int) -> None:
    """onnxruntime's own power is one of f64 where there is a single element."""
    large = torch.tensor([3037000501])
    check(Case(lambda x: (x[:1] * 0 + large) ** exponent, i("N")))
