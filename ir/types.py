"""Types of values: tensors, sequences, optionals and maps; and one of which nothing is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from isthmus.ir.dims import Dim, simplify
from isthmus.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor.

    Attributes:
        dtype: the element type.
        shape: its dims, each an int or an expression; None for a tensor of unknown rank, which only importers
            make; a dim of None, allowed only inside `Sequence` and `Optional`, is one that differs between elements.
    """

    dtype: DType
    shape: tuple[Dim, ...] | None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[*]"
        return f"{self.dtype}[{', '.join('?' if d is None else str(d) for d in self.shape)}]"

    @property
    def rank(self) -> int:
        """The number of dims.

        Raises:
            ValueError: the rank is unknown.
        """
        if self.shape is None:
            raise ValueError("the rank of this tensor is unknown")
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of any length; each element has the type `element`."""

    element: Type

    def __str__(self) -> str:
        return f"seq<{self.element}>"


@dataclass(frozen=True, slots=True)
class Optional:
    """A value of the type `element`, or nothing."""

    element: Type

    def __str__(self) -> str:
        return f"opt<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """A dict: each key is a number or a text of the type `key`, each value has the type `element`."""

    key: DType
    element: Type

    def __str__(self) -> str:
        return f"map<{self.key}, {self.element}>"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Of the value nothing is known: what an op makes that nobody here knows, where its model does not say. Only importers make
    it; ops that nobody here knows may use it, and graphs hand it on."""

    def __str__(self) -> str:
        return "?"


Type: TypeAlias = Tensor | Sequence | Optional | Map | Unknown


def innermost(type: Type) -> Tensor | Unknown:
    """What a type holds within sequences, optionals and maps."""
    while not isinstance(type, (Tensor, Unknown)):
        type = type.element
    return type


def same_kind(left: Type, right: Type) -> bool:
    """Whether both have elements, and they differ at most in their elements' types."""
    flat = (Tensor, Unknown)
    return not isinstance(left, flat) and not isinstance(right, flat) and replace(left, element=right.element) == right


def resolved(type: Type) -> Type:
    """The same type with joined symbols replaced by what they were joined to, and dims simplified."""
    if isinstance(type, Tensor):
        if type.shape is None or all(d.__class__ is int or d is None for d in type.shape):
            return type
        return Tensor(type.dtype, tuple(d if d is None else simplify(d) for d in type.shape))
    if isinstance(type, Unknown):
        return type
    return replace(type, element=resolved(type.element))
