"""Kinds of attributes: what an op's row may say its attributes are, and what each accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from isthmus.ir.dims import Dim, Expr, Symbol, simplify, substitute, symbols
from isthmus.ir.dtypes import DType
from isthmus.ir.types import Map, Optional, Sequence, Tensor, Unknown
from isthmus.ir.weights import Weight

REQUIRED: Final = object()


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute in an op's row.

    Attributes:
        kind: what it is, in words; shown in errors and in the table of ops.
        normalize: gives the value in its normal form, or raises ValueError or TypeError.
        default: its value when it is not given; `REQUIRED` when it must be.
    """

    kind: str
    normalize: Callable[[Any], Any]
    default: Any = REQUIRED

    def __call__(self, default: Any) -> Attribute:
        """The same kind with a default."""
        return Attribute(self.kind, self.normalize, None if default is None else self.normalize(default))

    def optional(self) -> Attribute:
        """The same kind, absent (None) by default."""
        return Attribute(f"{self.kind}, or none", self.normalize, None)


def _int(value: Any) -> int:
    if isinstance(value, bool) or int(value) != value:
        raise ValueError(f"{value!r} is not an integer")
    return int(value)


def _bool(value: Any) -> bool:
    if value is not True and value is not False:
        raise ValueError(f"{value!r} is not true or false")
    return bool(value)


def _instance(*kinds: type) -> Callable[[Any], Any]:
    def normalize(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise TypeError(f"{value!r} is not a {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return normalize


def _dim(value: Any) -> Dim:
    return value if isinstance(value, Expr) else _int(value)


def _tuple(element: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def normalize(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise TypeError(f"{value!r} is not a list")
        return tuple(element(item) for item in value)

    return normalize


def _float(value: Any) -> float:
    return float(value)


def _plain(value: Any) -> Any:
    """Lists become tuples and numpy's numbers Python's; anything else must have a text form already."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("the keys must be strings")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if value is not None and not isinstance(value, _PLAIN):
        raise TypeError(f"a {type(value).__name__} has no text form")
    return value


_PLAIN: Final = (bool, int, float, str, DType, Expr, Symbol, Tensor, Sequence, Optional, Map, Unknown, Weight)


INT: Final = Attribute("integer", _int)
FLOAT: Final = Attribute("float", _float)
BOOL: Final = Attribute("bool", _bool)
STR: Final = Attribute("string", _instance(str))
DTYPE: Final = Attribute("dtype", _instance(DType))
DIM: Final = Attribute("dim", _dim)
DIMS: Final = Attribute("list of dims", _tuple(_dim))
INTS: Final = Attribute("list of integers", _tuple(_int))
FLOATS: Final = Attribute("list of floats", _tuple(_float))
STRS: Final = Attribute("list of strings", _tuple(_instance(str)))
WEIGHT: Final = Attribute("weight", _instance(Weight))
SYMBOL: Final = Attribute("symbol", _instance(Symbol))
TYPE: Final = Attribute("type", _instance(Tensor, Sequence, Optional, Map, Unknown))
TYPES: Final = Attribute("list of types", _tuple(_instance(Tensor, Sequence, Optional, Map, Unknown)))
ANY: Final = Attribute("anything that has a text form", _plain)


def choice(*words: str) -> Attribute:
    """A kind that is one of a few words."""

    def normalize(value: Any) -> str:
        if value not in words:
            raise ValueError(f"{value!r} is not one of {', '.join(words)}")
        return str(value)

    return Attribute(f"one of {', '.join(words)}", normalize)


DIMLESS: Final = frozenset((int, float, bool, str, DType, type(None)))
"""The classes of attributes' values that hold no dims but numbers."""


def symbols_in(value: Any) -> Iterable[Symbol]:
    """The symbols that an attribute's value uses (not one that it binds)."""
    if isinstance(value, Expr):
        return symbols(value)
    if isinstance(value, tuple):
        return [symbol for item in value if item.__class__ is not int for symbol in symbols_in(item)]
    if isinstance(value, Tensor):
        return symbols_in(value.shape)
    if isinstance(value, (Sequence, Optional, Map)):
        return symbols_in(value.element)
    if isinstance(value, dict):
        return [symbol for item in value.values() for symbol in symbols_in(item)]
    return ()


_INTEGERS: Final = frozenset((int,))


def _numbers(items: tuple[Any, ...]) -> bool:
    return set(map(type, items)) <= _INTEGERS


def map_dims(value: Any, change: Callable[[Dim], Dim]) -> Any:
    """The value with every dim expression in it changed."""
    if isinstance(value, Expr):
        return change(value)
    if isinstance(value, tuple):
        return value if _numbers(value) else tuple(map_dims(item, change) for item in value)
    if isinstance(value, Tensor) and value.shape is not None:
        return value if _numbers(value.shape) else Tensor(value.dtype, map_dims(value.shape, change))
    if isinstance(value, (Sequence, Optional, Map)):
        return replace(value, element=map_dims(value.element, change))
    if isinstance(value, dict):
        return {key: map_dims(item, change) for key, item in value.items()}
    return value


def resolved(value: Any) -> Any:
    """The value with joined symbols replaced by what they were joined to, and dims simplified."""
    return map_dims(value, simplify)


def substituted(value: Any, values: Mapping[Symbol, Dim]) -> Any:
    """The value with symbols replaced."""
    return map_dims(value, lambda dim: substitute(dim, values))
