"""What the values of TorchScript are while a graph is interpreted.

Tensors are watched ones or real weights; ints, floats, bools, strings, None, dtypes (as numbers) and devices are Python's; an
int that only data can tell is a `torch.SymInt`. The rest is here. Lists, dicts and objects may be changed, and a branch or
a loop has to know what it changed: each belongs to the `Scope` that it was made in.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from isthmus.frontends.torch.aliases import Entry
from isthmus.ir.dtypes import DType, bool_, f64, i64
from isthmus.ir.graph import Graph, Value

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.plans import Growing

NUMBERS: Final[dict[type, DType]] = {int: i64, float: f64, bool: bool_}
"""The element type that numbers of a kind are held in."""
SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A float or a bool that only data can tell.

    Attributes:
        kind: ``float`` or ``bool``.
        value: a 0-d value of f64 or bool.
        relation: what a bool that sizes tell says of them, as a `SizeNode` has it.
    """

    kind: type
    value: Value
    relation: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Maybe:
    """Something that may be None, which only data can tell.

    Attributes:
        present: a 0-d bool value.
        held: what it is where it is not None.
    """

    present: Value
    held: Any


class Message(str):
    """A text that tells of something that only sizes or data can tell, and so is fit for messages only."""

    __slots__ = ()


class _Unset:
    """What a variable holds that no path has set which reads it."""

    def __repr__(self) -> str:
        return "nothing yet"


UNSET: Final = _Unset()


class Scope:
    """The part of a run whose nodes go into one graph.

    Attributes:
        graph: that graph.
        changed: lists, dicts and objects from outside that were changed here, with what they held before.
        inside: the owners of storage that were made here.
        written: owners of storage from outside that were written to here.
        known: the symbols that there were before.
        parent: the scope around this one.
    """

    def __init__(self, graph: Graph, inside: Container[Entry], written: dict[Entry, None], parent: Scope | None) -> None:
        self.graph = graph
        self.parent = parent
        self.known = frozenset(graph.symbols.by_name.values())
        self.changed: dict[Box, Any] = {}
        self.inside = inside
        self.written = written


class Box:
    """Something that may be changed in place.

    Attributes:
        home: the scope that it was made in; None outside of all branches and loops.
        doubt: why a change may not be carried over; empty where it may.
        attribute: the name of the attribute of a module that holds it; empty where none does.
    """

    __slots__ = ("attribute", "doubt", "home")

    def __init__(self, home: Scope | None) -> None:
        self.home = home
        self.doubt = self.attribute = ""

    def content(self) -> Any:
        """What it holds, to be given to `restore`."""
        raise NotImplementedError

    def restore(self, content: Any) -> None:
        """Has it hold something else."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The first items of a list, as many as only data can tell.

    Attributes:
        value: a sequence, or a tensor that has the items along its first axis.
        kind: of the items: ``torch.Tensor``, ``int``, ``float`` or ``bool``.
        stacked: whether it is the tensor.
        growing: a loop's plan for the list, which holds as long as nobody looks at these items; they have no value then.
        owner: stands for the storage of the items.
    """

    value: Value | None
    kind: type
    stacked: bool = False
    growing: Growing | None = None
    owner: Entry = field(default_factory=lambda: Entry(None))  # type: ignore[arg-type]


class List(Box):
    """A list: items of which only data can tell the number, if any, and then others.

    Attributes:
        items: the items; those behind the head.
        head: what comes before them; None for nothing.
    """

    __slots__ = ("head", "items")

    def __init__(self, items: list[Any], home: Scope | None, head: Head | None = None) -> None:
        super().__init__(home)
        self.items = items
        self.head = head

    def content(self) -> tuple[Head | None, list[Any]]:
        return self.head, list(self.items)

    def restore(self, content: Any) -> None:
        self.head, self.items = content[0], list(content[1])


class Dict(Box):
    """A dict.

    Attributes:
        items: the items by key.
    """

    __slots__ = ("items",)

    def __init__(self, items: dict[Any, Any], home: Scope | None) -> None:
        super().__init__(home)
        self.items = items

    def content(self) -> dict[Any, Any]:
        return dict(self.items)

    def restore(self, content: Any) -> None:
        self.items = dict(content)


class Instance(Dict):
    """An object of a scripted class, or a module.

    Attributes:
        items: the attributes; of a module those that the script set.
        loaded: a module's other attributes.
        module: the module; None for another object.
        type: the name of the class.
        path: where a module is in the model.
    """

    __slots__ = ("loaded", "module", "path", "type")

    def __init__(self, home: Scope | None, type: str, module: Any = None, path: str = "") -> None:
        super().__init__({}, home)
        self.loaded: dict[str, Any] = {}
        self.module = module
        self.type = type
        self.path = path


def kind_of(x: Any) -> type | None:
    """``int``, ``float`` or ``bool`` for a number of that kind, symbolic or not; None for other things."""
    if x.__class__ is Scalar:
        kind: type = x.kind
        return kind
    return {
        int: int, torch.SymInt: int, float: float, torch.SymFloat: float, bool: bool, torch.SymBool: bool,
    }.get(x.__class__)  # fmt: skip


def is_known(x: Any) -> bool:
    """Whether a value is the same for all inputs: no tensor, and none that only sizes or data can tell."""
    if isinstance(x, List):
        return x.head is None and all(map(is_known, x.items))
    if isinstance(x, (tuple, list)):
        return all(map(is_known, x))
    return not isinstance(x, (torch.Tensor, Scalar, Maybe, Box, Message, *SYMBOLIC))
