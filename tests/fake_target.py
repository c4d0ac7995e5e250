"""A small target for tests of legalization."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.ir import Builder, Node, Trait, Value


class Fine:
    """A target that takes fine ops, except a few."""

    name = "fine"

    def __init__(self, *without: str) -> None:
        self.without = without

    def legal(self, node: Node) -> str | None:
        if Trait.COARSE in node.op.traits:
            return f"{self.name} has no coarse ops"
        return f"{self.name} has no {node.op.name}" if node.op.name in self.without else None

    def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
        if node.op.name == "relu":
            return [b.maximum(node.operands[0], 0.0)]
        return [b.sub(node.operands[0], b.neg(node.operands[1]))] if node.op.name == "add" else None
