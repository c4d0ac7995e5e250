"""Floats that Python computes of sizes, which the graph computes in the same steps."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, Expr
from isthmus.ir.dtypes import f64
from isthmus.ir.graph import Value

_FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": operator.pow,
    "minimum": min, "maximum": max, "abs": abs, "sqrt": math.sqrt, "exp": math.exp,
    "log": math.log, "log2": math.log2, "log10": math.log10,
}  # fmt: skip
"""What each op of the graph is in Python."""
MOST_STEPS: Final = 200
"""A float of more steps, those of its operands counted each time, is refused: it would be walked for every one of them."""
_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}


class Computed:
    """A float that is no ratio of sizes as floats round it, such as ``1 - 1/n`` or ``log(n)``.

    Attributes:
        name: the op that makes it.
        operands: dims, numbers and other floats of sizes.
        steps: how many ops make it.
    """

    __slots__ = ("name", "operands", "steps")

    def __init__(self, name: str, *operands: Any) -> None:
        self.name = name
        self.operands = operands
        self.steps: int = 1 + sum(each.steps for each in operands if isinstance(each, Computed))

    def __str__(self) -> str:
        sign, parts = _SIGNS.get(self.name), list(map(str, self.operands))
        return f"({f' {sign} '.join(parts)})" if sign else f"{self.name}({', '.join(parts)})"

    def value(self, b: Builder) -> Value:
        """A scalar of f64."""
        found: Value = getattr(b, self.name)(*(_value(b, each) for each in self.operands))
        return found

    def dims(self) -> Iterator[Dim]:
        """The sizes that it is computed of."""
        for each in self.operands:
            if isinstance(each, Expr):
                yield each
            elif not isinstance(each, (int, float)):
                yield from each.dims()

    def at(self, size: Callable[[Dim], int]) -> float:
        """The number, where sizes are these."""
        numbers = (each if isinstance(each, float) else size(each) if isinstance(each, (int, Expr)) else each.at(size)
                   for each in self.operands)  # fmt: skip
        return float(_FUNCTIONS[self.name](*numbers))


def _value(b: Builder, x: Any) -> Value:
    found: Value
    if isinstance(x, (int, float)):
        found = b.constant(float(x), f64)
    else:
        found = b.cast(b.size(x), dtype=f64) if isinstance(x, Expr) else x.value(b)
    return found
