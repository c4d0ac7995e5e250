"""Relations between dims, what of them can be proved, and the strides that dims make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from isthmus.ir.dims import Dim, bounds, resolve

Relation: TypeAlias = tuple[str, Dim, Dim]
NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", "<=": ">", ">": "<="}
HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": int.__eq__, "!=": int.__ne__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__,
}  # fmt: skip


def prove(relation: str, left: Dim, right: Dim, same: Callable[[Dim, Dim], bool | None]) -> bool | None:
    """Whether a relation holds for every size; None when that depends on them."""
    if left.__class__ is int and right.__class__ is int:
        return HOLDS[relation](left, right)
    if relation in ("==", "!="):
        answer = same(left, right)
        return answer if answer is None or relation == "==" else not answer
    lo, hi = bounds(resolve(left) - resolve(right))
    if relation in (">", ">="):
        lo, hi = -hi, -lo
    strict = relation in ("<", ">")
    if hi < 0 or (hi == 0 and not strict):
        return True
    if lo > 0 or (lo == 0 and strict):
        return False
    return None


def contiguous(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The strides of a contiguous tensor."""
    strides: list[Dim] = []
    step: Dim = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size if size.__class__ is not int or size > 1 else step
    return tuple(reversed(strides))
