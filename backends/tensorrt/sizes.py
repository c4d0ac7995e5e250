"""Dims as TensorRT's shape tensors: each size is computed once from the tensor that binds its symbols.

Sizes are i64 tensors of one element, which are concatenated into shapes. TensorRT works them out on the host before it
runs anything, and must be able to: nothing here may depend on data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from isthmus.backends.size_arithmetic import SizeArithmetic
from isthmus.ir import dtypes
from isthmus.ir.dims import Atom, Dim, Expr, Function, Symbol, resolve
from isthmus.ir.errors import IsthmusError

if TYPE_CHECKING:
    from isthmus.backends.tensorrt.emitter import Emitter


class Sizes(SizeArithmetic[Any]):
    """Gives dims as tensors.

    Args:
        emitter: what the layers are added to; it knows what binds each symbol.
    """

    ADD, SUB, MUL = "SUM", "SUB", "PROD"

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self._made: dict[object, Any] = {}

    def clear(self) -> None:
        """Forgets what was computed."""
        self._made.clear()

    def vector(self, dims: Sequence[Dim]) -> Any:
        """An i64 tensor of these dims."""
        dims = tuple(map(resolve, dims))
        if all(isinstance(dim, int) for dim in dims):
            return self.e.ints(dims)
        return self._once(dims, lambda: self._join(dims))

    def scalar(self, dim: Dim) -> Any:
        """An i64 tensor of rank 0."""
        dim = resolve(dim)
        if isinstance(dim, int):
            return self.e.constant(dim, dtypes.i64)
        return self._once(("scalar", dim), lambda: self.e.reshape(self._one(dim), ()))

    def _once(self, key: object, make: Callable[[], Any]) -> Any:
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found

    def _join(self, dims: tuple[Dim, ...]) -> Any:
        parts: list[Any] = []
        known: list[int] = []
        for dim in dims:
            if isinstance(dim, int):
                known.append(dim)
                continue
            parts += [self.e.ints(known)] if known else []
            parts.append(self._one(dim))
            known = []
        parts += [self.e.ints(known)] if known else []
        return self.e.concat(parts, 0)

    def _one(self, dim: Dim) -> Any:
        if isinstance(dim, int):
            return self.e.ints([dim])
        return self._once(dim, lambda: self._sum(dim))

    def _binary(self, op: str, x: Any, y: Any) -> Any:
        return self.e.binary(op, x, y)

    def _number(self, number: int) -> Any:
        return self.e.ints([number])

    def _atom(self, atom: Atom) -> Any:
        dim = Expr((((atom,), 1),))
        return self._once(dim, lambda: self._symbol(atom) if isinstance(atom, Symbol) else self._function(atom))

    def _symbol(self, symbol: Symbol) -> Any:
        if self.e.probing:
            return self.e.unknown_size()
        found = self.e.binders.get(symbol)
        if found is None:
            raise IsthmusError(f"nothing in the graph tells the size {symbol}")
        value, axis = found
        if axis is None:
            raise IsthmusError(f"the size {symbol} is read from data, which TensorRT cannot take", location=value.location)
        shape = self._once(("shape", value), lambda: self.e.add("shape", self.e.tensor(value)))
        return self.e.add("slice", shape, (axis,), (1,), (1,))

    def _function(self, function: Function) -> Any:
        if function.kind in ("min", "max"):
            first, *rest = map(self._one, function.args)
            for other in rest:
                first = self.e.binary(function.kind.upper(), first, other)
            return first
        quotient = self._quotient(*function.args)
        if function.kind == "floordiv":
            return quotient
        dividend, divisor = map(self._one, function.args)
        return self.e.binary("SUB", dividend, self.e.binary("PROD", quotient, divisor))

    def _quotient(self, dividend: Dim, divisor: Dim) -> Any:
        return self.e.binary("FLOOR_DIV", self._one(dividend), self._one(divisor))
