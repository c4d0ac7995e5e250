"""The emitters and lowerings by op and opset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node

Emit = Callable[..., Any]
"""``emit(e, node, *operands)``: adds ONNX nodes and returns the name of the result, or a tuple of names.

Operands are names, one an operand of the row; None for an absent one, a list for a variadic one. It calls `refuse`
where it cannot say the node."""

Lower = Callable[..., Any]
"""``lower(b, node, *operands)``: builds IR nodes and returns the value, a tuple of values, or None."""

_EMITTERS: Final[dict[str, list[tuple[int, Emit]]]] = {}
_LOWERINGS: Final[dict[str, list[tuple[int, Lower]]]] = {}
_EARLY: Final[dict[str, list[tuple[int, Lower]]]] = {}
"""Lowerings below an opset, which is told with each."""


class Refused(Exception):
    """An emitter cannot say a node; the argument says why, in one sentence."""


def refuse(reason: str) -> NoReturn:
    """Ends an emitter that cannot say its node."""
    raise Refused(reason)


def emits(*ops: str, since: int = 7) -> Callable[[Emit], Emit]:
    """Registers an emitter of ops, from an opset on; a later `since` takes over from an earlier one."""

    def register(emit: Emit) -> Emit:
        for op in ops:
            _add(_EMITTERS, op, since, emit)
        return emit

    return register


def lowers(*ops: str, since: int = 7, below: int | None = None) -> Callable[[Lower], Lower]:
    """Registers a lowering of ops, tried before the ops' own decomposition.

    Args:
        ops: names in the op table.
        since: the first opset that it is for; a later one takes over.
        below: the opset from which on it is not needed any more; until there it is tried before others.
    """

    def register(lower: Lower) -> Lower:
        for op in ops:
            _add(*((_LOWERINGS, op, since) if below is None else (_EARLY, op, below)), lower)
        return lower

    return register


def _add(table: dict[str, list[tuple[int, Any]]], op: str, since: int, entry: Any) -> None:
    rows = table.setdefault(op, [])
    if any(row[0] == since for row in rows):
        raise ValueError(f"{op} has an entry for opset {since} already")
    rows.append((since, entry))
    rows.sort(key=lambda row: row[0])


def _pick(rows: list[tuple[int, Any]], opset: int) -> Any:
    found = None
    for since, entry in rows:
        if since <= opset:
            found = entry
    return found


def emitter(op: str, opset: int) -> Emit | None:
    """The emitter of an op at an opset, or None."""
    return _pick(_EMITTERS.get(op, []), opset)  # type: ignore[no-any-return]


def first_opset(op: str) -> int | None:
    """The first opset with an emitter of an op; None when there is none at all."""
    rows = _EMITTERS.get(op)
    return rows[0][0] if rows else None


def lower(op: str, opset: int, b: Builder, node: Node) -> Any:
    """What the lowering of an op builds; None when there is none or it declines."""
    early = [lowering for below, lowering in _EARLY.get(op, ()) if opset < below]
    for lowering in (*early, _pick(_LOWERINGS.get(op, []), opset)):
        found = None if lowering is None else lowering(b, node, *node.op.group(node.operands))
        if found is not None:
            return found
    return None
