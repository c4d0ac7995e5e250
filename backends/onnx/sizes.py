"""Dims as ONNX values: each size is computed once, next to what binds its symbols.

Sizes are i64 lists of one element, which `Concat` joins into shapes. Where a tensor that was emitted before has a size that is
no plain symbol, or several sizes next to one another, they are read off its shape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.table import Refused
from isthmus.backends.size_arithmetic import SizeArithmetic
from isthmus.ir import dtypes
from isthmus.ir.dims import Atom, Dim, Expr, Function, Symbol, bounds, product, resolve, same, symbols
from isthmus.ir.errors import IsthmusError
from isthmus.ir.graph import Value

if TYPE_CHECKING:
    from isthmus.backends.onnx.emitter import Emitter


@dataclass(frozen=True)
class _Run:
    """Sizes next to one another, as a key beside those of single ones."""

    dims: tuple[Dim, ...]


def _by_age(noted: tuple[int, Value, int]) -> tuple[int, int]:
    return noted[0], noted[2]


class SizeNames:
    """The names of the sizes that one ONNX graph computes, by what each is."""

    def __init__(self) -> None:
        self._names: dict[object, str] = {}
        self._keys: defaultdict[str, list[object]] = defaultdict(list)

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def get(self, key: object) -> str | None:
        """The name of a size; None where it is not computed here."""
        return self._names.get(key)

    def add(self, key: object, name: str) -> None:
        """Takes down the name of a size."""
        self._names[key] = name
        self._keys[name].append(key)

    def rename(self, old: str, new: str) -> None:
        """Takes down that what had one name has another."""
        for key in self._keys.pop(old, ()):
            if self._names.get(key) == old:  # not one that was only tried
                self.add(key, new)

    def clear(self) -> None:
        """Forgets all."""
        self._names.clear()
        self._keys.clear()

    def __iter__(self) -> Iterator[tuple[object, str]]:
        return iter(self._names.items())


class Sizes(SizeArithmetic[str]):
    """Gives dims as values.

    Args:
        emitter: what the nodes are written to; it knows what binds each symbol.
    """

    ADD, SUB, MUL = "Add", "Sub", "Mul"

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self._noted = 0
        self._last: dict[tuple[Dim, ...], tuple[int, Value]] = {}  # by shape: the last value that has it, and which one it was
        self._within: dict[tuple[Dim, ...], list[tuple[tuple[Dim, ...], int]]] = {}  # by sizes: shapes with them, and where

    def note(self, value: Value) -> None:
        """Takes down the sizes of a value that was just emitted."""
        shape = tuple([dim if dim.__class__ is int else resolve(dim) for dim in value.tensor.shape or ()])
        if all(isinstance(dim, int) for dim in shape):
            return
        if shape not in self._last:
            for first in range(len(shape)):
                for end in range(first + 1, len(shape) + 1):
                    if not all(isinstance(dim, int) for dim in shape[first:end]):
                        self._within.setdefault(shape[first:end], []).append((shape, first))
        self._noted += 1
        self._last[shape] = self._noted, value

    def _bearing(self, dims: tuple[Dim, ...]) -> tuple[Value, int] | None:
        """The last value that has these dims next to one another, and from where; no others where `Shape` tells all dims."""
        places = self._within.get(dims, ()) if self.e.opset >= 15 else [(dims, 0)] if dims in self._last else ()
        found = max(((*self._last[shape], axis) for shape, axis in places), key=_by_age, default=None)
        return None if found is None else found[1:]

    def vector(self, dims: Sequence[Dim]) -> str:
        """The name of an i64 list of these dims."""
        dims = tuple(map(resolve, dims))
        if all(isinstance(dim, int) for dim in dims):
            return self.e.ints(dim for dim in dims if isinstance(dim, int))
        if self.e.probing and self.e.profile.plain:
            return str(self.e.op("Identity", self.e.ints([1] * len(dims))))  # no constant; every size can be computed
        return self._cached(dims, lambda: self._join(dims), dims)

    def scalar(self, dim: Dim) -> str:
        """The name of an i64 scalar."""
        dim = resolve(dim)
        if isinstance(dim, int):
            return self.e.constant(dim, dtypes.i64)
        return self._cached(("scalar", dim), lambda: self._pick(dim), (dim,))

    def never_negative(self, dim: Dim) -> bool:
        """Whether a dim is 0 or more, by what it is computed of or because a tensor has this size."""
        return bounds(dim)[0] >= 0 or self._bearing((resolve(dim),)) is not None

    def is_shape(self, dims: Sequence[Dim], instead: Sequence[Dim]) -> bool:
        """Whether one node tells all of these dims, and other dims, which say the same, are not there yet."""
        found = self._bearer(tuple(map(resolve, dims)))
        return found is not None and not self._is_known(tuple(map(resolve, instead)))

    def _pick(self, dim: Expr) -> str:
        """A scalar, out of sizes that are there already if there are any."""
        if not self._is_known(dim):
            for key, name in (item for scope in self.e.scopes for item in scope.sizes):
                if isinstance(key, _Run) and dim in key.dims:
                    return str(self.e.op("Gather", name, self.e.constant(key.dims.index(dim), dtypes.i64), axis=0))
            if (counted := self._counted(dim)) is not None:
                return counted
        return str(self.e.op("Squeeze", self._one(dim), self.e.ints([0])))

    def _counted(self, dim: Expr) -> str | None:
        """The number of elements of a tensor that binds these symbols, as a scalar, where it comes to this and is told by one
        node."""
        (monomial, _), *others = dim.terms
        if others or len(monomial) < 2 or self.e.probing or not self.e.profile.has("Size"):
            return None
        if any(self._is_known(_alone(atom)) for atom in monomial):
            return None
        for atom in monomial:
            value, axis = self._binder(atom) if isinstance(atom, Symbol) else (None, None)
            if value is None or axis is None or any(map(_is_sum, value.tensor.shape or ())):
                continue  # a product of sums is none of symbols
            if same(product(value.tensor.shape or ()), dim) is True:
                try:
                    return str(self.e.op("Size", self.e.name(value)))
                except Refused:  # of some types
                    return None
        return None

    def _is_known(self, dim: Expr | tuple[Dim, ...]) -> bool:
        """Whether a size is there already, as a list, or a list of several."""
        return any(dim in scope.sizes for scope in self.e.scopes)

    def _cached(self, key: object, make: Callable[[], str], dims: Sequence[Dim]) -> str:
        """What `make` emits, once, in the outermost graph in which all symbols are bound; what may divide by 0, where it is
        needed: the branch that needs it may not be taken."""
        e = self.e
        depth = self._depth_of(dims)
        found = e.scopes[depth].sizes.get(key)
        if found is None:
            inner = e.scopes[depth + 1 :]
            del e.scopes[depth + 1 :]
            found = make()
            e.scopes[depth].sizes.add(key, found)
            e.scopes.extend(inner)
        return found

    def _depth_of(self, dims: Sequence[Dim]) -> int:
        if any(map(_may_fail, dims)):
            return len(self.e.scopes) - 1
        return max((self._depth(symbol) for dim in dims for symbol in symbols(dim)), default=0)

    def _depth(self, symbol: Symbol) -> int:
        if self.e.probing:
            return 0
        graph = self._binder(symbol)[0].owner
        return next(depth for depth, scope in enumerate(self.e.scopes) if scope.graph is graph)

    def _binder(self, symbol: Symbol) -> tuple[Value, int | None]:
        found = self.e.binders.get(symbol)
        if found is None:
            raise IsthmusError(f"nothing in the graph tells the size {symbol}")
        return found

    def _join(self, dims: tuple[Dim, ...]) -> str:
        if len(dims) > 1 and self._bearer(dims) is not None:
            return self._axes(dims)
        parts: list[str] = []
        index = 0
        while index < len(dims):
            stop = index + 1
            if isinstance(dims[index], int):
                while stop < len(dims) and isinstance(dims[stop], int):
                    stop += 1
                parts.append(self.e.ints(dim for dim in dims[index:stop] if isinstance(dim, int)))
            else:
                run = self._run(dims[index:])
                if len(run) < len(dims) and all(isinstance(dim, int) or self._is_known(dim) for dim in run):
                    run = run[:1]  # each is there already, and a `Concat` is needed anyhow
                stop = index + len(run)
                parts.append(self._axes(run) if len(run) > 1 else self._one(dims[index]))
            index = stop
        return parts[0] if len(parts) == 1 else str(self.e.op("Concat", *parts, axis=0))

    def _run(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """The most of these dims, from the first, that are neighbouring axes of a value; the first alone if there is none."""
        runs = (dims[:length] for length in range(len(dims), 1, -1))
        return next((run for run in runs if self._bearer(run) is not None), dims[:1])

    def _bearer(self, dims: tuple[Dim, ...]) -> tuple[Value, int] | None:
        """The value and axis from which on these dims can be read, in the graph in which they are computed."""
        if self.e.probing or (len(dims) == 1 and isinstance(dims[0], Expr) and dims[0].symbol is not None):
            return None
        found = self._bearing(dims)
        return found if found is not None and found[0].owner is self.e.scopes[self._depth_of(dims)].graph else None

    def _shape(self, dims: tuple[Dim, ...]) -> str:
        found = self._bearing(dims)
        assert found is not None
        value, axis = found
        whole = len(dims) == value.tensor.rank
        attrs: dict[str, Any] = {} if whole else {"start": axis, "end": axis + len(dims)}
        return str(self.e.op("Shape", self.e.name(value), **attrs))

    def _axes(self, dims: tuple[Dim, ...]) -> str:
        return self._cached(_Run(dims), lambda: self._shape(dims), dims)

    def _one(self, dim: Dim) -> str:
        """The name of an i64 list of this dim alone."""
        if isinstance(dim, int):
            return self.e.ints([dim])
        return self._cached(dim, lambda: self._made(dim), (dim,))

    def _made(self, dim: Expr) -> str:
        if self._bearer((dim,)) is not None:
            return self._shape((dim,))
        counted = self._counted(dim)
        return self._sum(dim) if counted is None else str(self.e.op("Unsqueeze", counted, self.e.ints([0])))

    def _binary(self, op: str, x: str, y: str) -> str:
        return str(self.e.op(op, x, y))

    def _number(self, number: int) -> str:
        return self.e.ints([number])

    def _atom(self, atom: Atom) -> str:
        dim = _alone(atom)
        if isinstance(atom, Symbol):
            return self._cached(dim, lambda: self._symbol(atom), (dim,))
        return self._cached(dim, lambda: self._function(atom), (dim,))

    def _symbol(self, symbol: Symbol) -> str:
        e = self.e
        if e.probing:
            return str(e.op("Identity", e.ints([1])))  # no constant, which may matter before opset 13
        value, axis = self._binder(symbol)
        name = e.name(value)
        if axis is None:
            if value.tensor.dtype is not dtypes.i64:
                name = e.op("Cast", name, to=7)
            return str(e.op("Unsqueeze", name, e.ints([0])))
        if e.opset >= 15:
            return str(e.op("Shape", name, start=axis, end=axis + 1))
        whole = self._cached(("shape", value), lambda: e.op("Shape", name), (symbol.dim,))
        return str(e.op("Gather", whole, e.ints([axis]), axis=0))

    def _function(self, function: Function) -> str:
        args = function.args
        if function.kind in ("min", "max"):
            return self.extreme(function.kind, *map(self._one, args))
        if function.kind == "mod":
            return self._rest(*map(self._one, args))
        return self._quotient(*args)

    def extreme(self, kind: str, *names: str) -> str:
        """The ``min`` or ``max`` of i64s of one shape; before opset 12, where ONNX has that of floats alone, of lists of 1."""
        e = self.e
        if e.opset >= 12:
            return str(e.op(kind.capitalize(), *names))
        return str(e.op(f"Reduce{kind.capitalize()}", e.op("Concat", *names, axis=0), axes=[0], keepdims=1))

    def _rest(self, top: str, bottom: str) -> str:
        """What is left over, with the sign of the divisor."""
        e = self.e
        if e.opset >= 10:
            return str(e.op("Mod", top, bottom))
        wide = [e.op("Cast", name, to=opsets.enum(dtypes.f64)) for name in (top, bottom)]
        quotient = e.op("Cast", e.op("Floor", e.op("Div", *wide)), to=opsets.enum(dtypes.i64))
        return str(e.op("Sub", top, e.op("Mul", quotient, bottom)))

    def _quotient(self, dividend: Dim, divisor: Dim) -> str:
        """Rounds down; ONNX rounds towards zero."""
        top, bottom = self._one(dividend), self._one(divisor)
        if bounds(dividend)[0] < 0 or bounds(divisor)[0] < 0:
            top = self.e.op("Sub", top, self._rest(top, bottom))
        return str(self.e.op("Div", top, bottom))


def target_shape(source: Sequence[Dim] | None, target: Sequence[Dim], allow_zero: bool) -> tuple[list[Dim], bool]:
    """The shape to write for a `Reshape`, as cheap as it can be said, and whether zeros in it are sizes (`allowzero`).

    A size that the source has at the same place is written as 0 ("as before"), one that is left over as -1 ("the rest"),
    which ONNX works out where no other size can be 0.

    Args:
        source: the shape before; None where the rank is unknown.
        target: the shape after.
        allow_zero: whether the opset has `allowzero`.
    """
    unknown = [axis for axis, dim in enumerate(target) if not isinstance(dim, int)]
    if not unknown:
        return list(target), allow_zero and 0 in target
    positive = [bounds(dim)[0] > 0 for dim in target]
    kept = [axis for axis in unknown if source is not None and axis < len(source) and same(source[axis], target[axis])]
    rest = [axis for axis in unknown if axis not in kept]
    if 0 not in target:
        if not rest:
            return [0 if axis in kept else dim for axis, dim in enumerate(target)], False
        left = [axis for axis in rest if all(positive[other] for other in range(len(target)) if other != axis)]
        computed = [axis for axis in left if len(rest) == 1 or getattr(target[axis], "symbol", None) is None]
        if computed:
            return [0 if axis in kept else -1 if axis == computed[-1] else dim for axis, dim in enumerate(target)], False
        if all(positive[axis] for axis in rest):
            return [0 if axis in kept else dim for axis, dim in enumerate(target)], False
    return list(target), allow_zero


def _alone(atom: Atom) -> Expr:
    return Expr((((atom,), 1),))


def _is_sum(dim: Dim) -> bool:
    return isinstance(dim, Expr) and len(dim.terms) > 1


def _may_fail(dim: Dim) -> bool:
    """Whether a size divides by what may be 0."""
    if isinstance(dim, int):
        return False
    functions = [atom for monomial, _ in dim.terms for atom in monomial if isinstance(atom, Function)]
    return any(
        (each.kind in ("floordiv", "mod") and bounds(each.args[1])[0] <= 0 <= bounds(each.args[1])[1])
        or any(map(_may_fail, each.args))
        for each in functions
    )
