"""What a rule looks for: a small expression over ops, written by calling them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.attributes import REQUIRED
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import UsageError
from isthmus.ir.op import OPS, Op, Trait

Number: TypeAlias = "int | float | bool"


class Pattern:
    """Matches a value. Arithmetic on patterns makes larger ones."""

    def __add__(self, other: Any) -> Applied:
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Applied:
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Applied:
        return apply("sub", self, other)

    def __rsub__(self, other: Any) -> Applied:
        return apply("sub", other, self)

    def __mul__(self, other: Any) -> Applied:
        return apply("mul", self, other)

    def __rmul__(self, other: Any) -> Applied:
        return apply("mul", other, self)

    def __truediv__(self, other: Any) -> Applied:
        return apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Applied:
        return apply("div", other, self)

    def __pow__(self, other: Any) -> Applied:
        return apply("pow", self, other)

    def __neg__(self) -> Applied:
        return apply("neg", self)


@dataclass(frozen=True, eq=False)
class Variable(Pattern):
    """Matches any value and gives it a name; the same one wherever it stands. `optional`: an absent operand too."""

    name: str
    optional: bool = False


@dataclass(frozen=True, eq=False)
class Rest(Pattern):
    """Matches all values of a variadic operand and gives the list a name."""

    name: str


@dataclass(frozen=True, eq=False)
class Literal(Pattern):
    """Matches a constant of one element that is this number, rounded to its element type."""

    value: Number


@dataclass(frozen=True, eq=False)
class AttributeVariable:
    """Matches any attribute and gives it a name; the same one wherever it stands."""

    name: str


@dataclass(frozen=True, eq=False)
class Applied(Pattern):
    """Matches a result of an op.

    Attributes:
        op: the op.
        operands: one an operand of the row; None for one that must be absent, a tuple for a variadic one.
        attrs: attributes by name: a value, or a variable; those not here must have their default.
        every_attr: gives the whole dictionary of attributes a name, whatever is in it.
        index: which result; None where the op has only one.
        spellings: other patterns that mean the same, of floats.
    """

    op: Op
    operands: tuple[Any, ...]
    attrs: Mapping[str, Any]
    every_attr: AttributeVariable | None = None
    index: int | None = None
    spellings: tuple[Applied, ...] = field(default=(), repr=False)

    def __getitem__(self, index: int) -> Applied:
        """The pattern for one of several results."""
        return replace(self, index=index)

    def parts(self) -> Iterator[Applied]:
        """This pattern and the ones in it that match nodes, each once."""
        seen: dict[Applied, None] = {}
        work: list[Any] = [self]
        while work:
            part = work.pop()
            if isinstance(part, tuple):
                work.extend(part)
            elif isinstance(part, Applied) and part not in seen:
                seen[part] = None
                work.extend(part.operands)
        yield from seen

    @cached_property
    def ops(self) -> frozenset[Op]:
        """The ops of which a node may be that this matches."""
        return frozenset((self.op, *(spelling.op for spelling in self.spellings)))

    @cached_property
    def orders(self) -> tuple[tuple[Any, ...], ...]:
        """The operands, and with the first two swapped where the op allows that and it makes a difference."""
        first, second = (*self.operands, None, None)[:2]
        if Trait.COMMUTATIVE not in self.op.traits or first is second:
            return (self.operands,)
        return (self.operands, (second, first, *self.operands[2:]))


def lift(item: Any) -> Any:
    """A pattern for what was written in the place of an operand.

    Raises:
        UsageError: it cannot stand there.
    """
    if item is None or isinstance(item, Pattern):
        return item
    if isinstance(item, (list, tuple)):
        return tuple(map(lift, item))
    if isinstance(item, (bool, int, float)):
        return Literal(item)
    raise UsageError(f"{item!r} cannot stand in a pattern", expected="a pattern, a number, a list of them, or None")


def apply(name: str, *operands: Any, attrs: AttributeVariable | None = None, **named: Any) -> Applied:
    """The pattern for an op applied to patterns.

    Args:
        name: the op's name.
        operands: patterns, numbers, lists for a variadic operand; those left out must be absent.
        attrs: a variable for all attributes, whatever they are.
        named: operands by name, and attributes.

    Raises:
        UsageError: there is no such op, or an attribute without a default is not mentioned.
    """
    op = OPS.get(name) or OPS.get(name.rstrip("_"))
    if op is None:
        raise UsageError(f"there is no op {name}")
    grouped = [lift(item) for item in operands]
    grouped += [lift(named.pop(operand.name, None)) for operand in op.operands[len(grouped) :]]
    if len(grouped) > len(op.operands):
        raise UsageError(f"takes {len(op.operands)} operands, got {len(grouped)}", op=op.name)
    unknown = sorted(set(named) - set(op.attributes))
    missing = [key for key, row in op.attributes.items() if row.default is REQUIRED and key not in named]
    if unknown or (missing and attrs is None):
        wrong = f"has no attribute {', '.join(unknown)}" if unknown else f"attribute {', '.join(missing)} must be mentioned"
        raise UsageError(wrong, op=op.name, remedy="give a value, a keyword-only parameter of the rule, or attrs=")
    wanted = {} if attrs is not None else {key: row.default for key, row in op.attributes.items()}
    for key, value in named.items():
        wanted[key] = value if isinstance(value, AttributeVariable) else op.attributes[key].normalize(value)
    applied = Applied(op, tuple(grouped), wanted, attrs)
    return replace(applied, spellings=tuple(_spellings(applied)))


def _spellings(pattern: Applied) -> Iterator[Applied]:
    """The same in other ops, where people write either: ``x / 2`` and ``x * 0.5``, ``x ** 2`` and ``x * x``."""
    name, operands = pattern.op.name, pattern.operands

    def spell(other: str, *inner: Any) -> Applied:
        op = OPS[other]
        absent = [None] * (len(op.operands) - len(inner))
        return Applied(op, (*inner, *absent), {key: row.default for key, row in op.attributes.items()})

    literals = [(operands[1 - at], item.value) for at, item in enumerate(operands[:2]) if isinstance(item, Literal)]
    if name == "mul" and operands[0] is operands[1]:
        yield spell("pow", operands[0], Literal(2.0))
    elif name == "sqrt":
        yield spell("pow", operands[0], Literal(0.5))
    elif name == "rsqrt":
        yield spell("pow", operands[0], Literal(-0.5))
        yield spell("reciprocal", apply("sqrt", operands[0]))
        yield spell("div", Literal(1.0), apply("sqrt", operands[0]))
    for other, value in literals:
        second = operands[1] is not other
        if name == "mul" and value and isinstance(value, float):
            yield spell("div", other, Literal(1.0 / value))
        elif name == "div" and second and value:
            yield spell("mul", other, Literal(1.0 / value))
        elif name == "add" and isinstance(value, (int, float)):
            yield spell("sub", other, Literal(-value))
        elif name == "sub" and second:
            yield spell("add", other, Literal(-value))
        elif name == "pow" and second and value == 2:
            yield spell("mul", other, other)
        elif name == "pow" and second and value == 3:
            yield spell("mul", apply("mul", other, other), other)
        elif name == "pow" and second and value == 0.5:
            yield spell("sqrt", other)
        elif name == "div" and not second and value == 1:
            yield spell("reciprocal", other)
            if isinstance(other, Applied) and other.op.name == "sqrt":
                yield spell("rsqrt", other.operands[0])


class Recorder:
    """The first parameter of a rule: ``p.clip(x, 0.0, 6.0)`` is the pattern of a `clip`."""

    def __getattr__(self, name: str) -> Callable[..., Applied]:
        def build(*operands: Any, **named: Any) -> Applied:
            return apply(name, *operands, **named)

        return build


def read(function: Callable[..., Any]) -> tuple[tuple[Applied, ...], frozenset[str]]:
    """The patterns that a rule's function states, and the names that it binds.

    Parameters after the first are values (with a default of None: possibly absent; with a star: all of a variadic
    operand), keyword-only ones are attributes. Several patterns are a list; each may leave some of the names out.

    Raises:
        UsageError: it states none.
    """
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    _, *parameters = inspect.signature(function).parameters.values()
    rest: Rest | None = None
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords[parameter.name] = AttributeVariable(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            rest = Rest(parameter.name)
        else:
            arguments.append(Variable(parameter.name, parameter.default is None))
    if rest is not None:
        arguments.append(rest)
    found = function(Recorder(), *arguments, **keywords)
    patterns = tuple(found) if isinstance(found, list) else (found,)
    for pattern in patterns:
        if not isinstance(pattern, Applied):
            raise UsageError(f"the rule {function.__name__} must return what an op gives", found=repr(pattern))
    return patterns, frozenset(parameter.name for parameter in parameters)


def close(expected: Number, found: Any, dtype: DType = dtypes.f64) -> bool:
    """Whether a constant's element is the number of a literal: the literal rounded to the element type.

    A number that is no short binary fraction, such as ``sqrt(2)``, is written with fewer digits than an f32 or f64 holds,
    so that one is found to a relative 1e-6.
    """
    if isinstance(expected, bool) or dtype.kind == "bool":
        return isinstance(expected, bool) and bool(expected == found)
    if not dtype.is_float or expected == found:
        return dtype.kind in ("float", "int", "uint") and bool(expected == found)
    if not expected or not found or not math.isfinite(found):
        return False
    if dtype.bits >= 32 and float(np.float32(expected)) != expected:
        return math.isclose(expected, found, rel_tol=1e-6)
    with np.errstate(all="ignore"):
        return bool(float(np.asarray(expected, np.float64).astype(dtype.numpy)) == found)
