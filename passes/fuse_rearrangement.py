"""Rearrangements recovered from changes of shape around a permutation."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node
from isthmus.ir.op import Trait
from isthmus.passes.rules import Replacement, Rewrite, on, refuse, sole_producer


@on(Trait.LAYOUT, behind="permute")
def depth_to_space(b: Builder, node: Node) -> Replacement:
    """Channels taken apart, two of their parts moved behind height and width, and joined with these."""
    turn = sole_producer(node.operands[0])
    apart = sole_producer(turn.operands[0]) if turn is not None and turn.op.name == "permute" else None
    if turn is None or apart is None or Trait.LAYOUT not in apart.op.traits:
        return None
    x, parts = apart.operands[0], apart.results[0].tensor.shape
    old, new = (None if value is None else value.tensor.shape for value in (x, node.results[0]))
    if old is None or new is None or parts is None or len(old) != len(new) or len(parts) != len(old) + 2 or len(old) < 3:
        return None
    before, after = old[-3], new[-3]
    if not isinstance(before, int) or not isinstance(after, int) or not after or before % after:
        return refuse("the channels are not divided by a known number", x)
    block = math.isqrt(before // after)
    if block < 2 or block * block * after != before:
        return refuse("the channels are not divided by a square", x)
    for order in ("crd", "dcr"):
        found = b.depth_to_space(x, block=block, order=order)
        op: Any = found.producer.op
        wanted, perm, _ = op.steps(found.producer.call())
        if tuple(perm) == turn.attrs["perm"] and all(map(b.graph.symbols.same, wanted, parts)):
            return found  # type: ignore[no-any-return]
    return refuse("the parts of the channels come in another order", turn.results[0])


REARRANGEMENT: Final[tuple[Rewrite, ...]] = (depth_to_space,)
