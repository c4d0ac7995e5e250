"""Arithmetic on the ends of intervals: integers of any size, and plus and minus infinity."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

INF: Final = math.inf
Bound: TypeAlias = float  # an int, or plus or minus infinity


def times(a: Bound, b: Bound) -> Bound:
    """A product in which 0 wins over infinity."""
    if a == 0 or b == 0:
        return 0
    if abs(a) == INF or abs(b) == INF:  # which a product with an integer too large for a float is not
        return INF if (a > 0) == (b > 0) else -INF
    return a * b


def plus(a: Bound, b: Bound) -> Bound:
    """A sum; of two infinities the first."""
    return a if abs(a) == INF else b if abs(b) == INF else a + b


def floor(a: Bound, b: Bound) -> Bound:
    """A quotient by a positive divisor, rounded down."""
    if abs(a) == INF:
        return a
    if b == INF:
        return 0 if a >= 0 else -1
    return a // b
