"""Special functions, held against eager torch at edges and between them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from aten_cases import Case, b, check, f, i

EDGES = (
    0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 3.0, 8.0, 8.1, -8.1, 20.5, -20.5, 1e-3, -1e-3, 1e-20, -1e-20,
    1e-40, 1e3, -1e3, 1e10, -1e10, 1e30, math.inf, -math.inf, math.nan,
)  # fmt: skip
"""Where formulas change, end or break."""

ERRORS = "erfc special.erfcx special.log_ndtr special.ndtri erfinv"


def named(names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", names.split())


def function(name: str) -> Any:
    found: Any = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


@named(ERRORS)
def test_of_floats(name: str) -> None:
    edges = torch.tensor(EDGES)
    check(Case(lambda x: function(name)(torch.cat([x, edges])), f("N"), atol=0))


@named(ERRORS)
def test_of_doubles(name: str) -> None:
    edges = torch.tensor(EDGES, dtype=torch.float64)
    check(Case(lambda x: function(name)(torch.cat([x, edges])), f("N", dtype=torch.float64), rtol=1e-12, atol=1e-290))


@named(ERRORS)
def test_of_others(name: str) -> None:
    """Integers, truth values, nothing, and one number."""
    check(Case(lambda x, y, z: (function(name)(x), function(name)(y), function(name)(z)), i("N", 3), b("N"), f()))
    check(Case(function(name), f(0, 3)))
