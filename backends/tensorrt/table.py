"""The emitters and lowerings by op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

from isthmus.ir import remedies
from isthmus.ir.builder import Builder
from isthmus.ir.graph import Graph, Node, Value

Emit = Callable[..., Any]
"""``emit(e, node, *operands)``: adds layers and returns the result's tensor, or a tuple of tensors.

Operands are TensorRT's tensors, one an operand of the row; None for an absent one, a list for a variadic one. It calls
`refuse` where it cannot say the node."""

Remedy = Callable[[Graph, Sequence[Value]], "str | None"]
"""What the user can do, given the graph and the values that it is about."""

Lower = Callable[..., Any]
"""``lower(b, node, *operands)``: builds IR nodes and returns the value, a tuple of values, or None."""

_EMITTERS: Final[dict[str, tuple[Emit, bool]]] = {}
_LOWERINGS: Final[dict[str, Lower]] = {}


class Refused(Exception):
    """An emitter cannot say a node.

    Args:
        reason: why, in one sentence.
        remedy: what the user can do about it, or what says so for a graph and the values that it is about.
    """

    def __init__(self, reason: str, remedy: str | Remedy | None = None) -> None:
        super().__init__(reason)
        self._remedy = remedy

    def remedy(self, graph: Graph, values: Iterable[Value | None]) -> str | None:
        """What the user can do about it; None where nothing special is known."""
        given = [value for value in values if value is not None]
        return self._remedy(graph, given) if callable(self._remedy) else self._remedy


def fix_size(graph: Graph, values: Sequence[Value]) -> str | None:
    """What to do where the sizes of values must be known."""
    return remedies.fix_sizes(graph, remedies.open_sizes(values))


def refuse(reason: str, remedy: str | Remedy | None = None) -> NoReturn:
    """Ends an emitter that cannot say its node."""
    raise Refused(reason, remedy)


def emits(*ops: str, values: bool = False) -> Callable[[Emit], Emit]:
    """Registers an emitter of ops.

    Args:
        ops: names of rows of the op table.
        values: the emitter takes the IR's values in place of tensors, since it handles constants in a way of its own.
    """

    def register(emit: Emit) -> Emit:
        for op in ops:
            _add(_EMITTERS, op, (emit, values))
        return emit

    return register


def lowers(*ops: str) -> Callable[[Lower], Lower]:
    """Registers a lowering of ops, tried before the ops' own decomposition."""

    def register(lower: Lower) -> Lower:
        for op in ops:
            _add(_LOWERINGS, op, lower)
        return lower

    return register


def _add(table: dict[str, Any], op: str, entry: Any) -> None:
    if op in table:
        raise ValueError(f"{op} has an entry already")
    table[op] = entry


def emitter(op: str) -> tuple[Emit, bool] | None:
    """The emitter of an op, and whether it takes values; None when there is none."""
    return _EMITTERS.get(op)


def lower(b: Builder, node: Node) -> Any:
    """What the lowering of a node's op builds; None when there is none or it declines."""
    found = _LOWERINGS.get(node.op.name)
    return None if found is None else found(b, node, *node.op.group(node.operands))
