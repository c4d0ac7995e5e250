"""Nodes of the standard that become several: kept whole, so that who has the very op can write it again."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from isthmus.frontends.onnx.names import domain_of
from isthmus.frontends.onnx.opaque import named
from isthmus.ir.builder import Builder
from isthmus.ir.dims import resolve, symbols
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.ops.control import own_symbols
from isthmus.ir.ops.whole import needed
from isthmus.ir.symbols import Assumption

if TYPE_CHECKING:
    from isthmus.frontends.onnx.conversion import Model

STANDARD: Final = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def kept_whole(
    model: Model, b: Builder, proto: Any, inputs: Sequence[Value | None], scope: MutableMapping[str, Value | None],
    results: Sequence[Value | None], before: Node | None, assumed: int,
) -> Sequence[Value | None]:  # fmt: skip
    """The results of a node of the standard, those of a `whole` where it became several nodes.

    Args:
        model: the model that it is of.
        b: what built the nodes.
        proto: the NodeProto.
        inputs: its inputs.
        scope: the values of the names that it sees.
        results: what it became.
        before: the last node in front of those that it became.
        assumed: how many assumptions there were before it.
    """
    domain, name = domain_of(proto), proto.op_type
    if domain not in STANDARD or (domain, name, proto.overload) in model.functions:
        return results
    nodes = b.graph.between(before)
    if not _may_be_several(nodes):  # nor may some of them
        return results
    ends = [value for name, value in zip(proto.output, results, strict=False) if name]
    outputs = [value for value in ends if value is not None]
    if len(outputs) < sum(map(bool, proto.output)) or any(each.op.has_effect for node in nodes for each in _walk(node)):
        return results
    if not _may_be_several(needed(nodes, outputs)):
        return results
    body = Graph("body", b.graph.symbols)
    for node in nodes:
        body.move(node, None)
    body.set_outputs(outputs)
    if _leaks(body, b.graph.symbols.assumptions[assumed:]):
        body.set_outputs(())
        for node in nodes:
            b.graph.move(node, None)
        return results
    operands, attrs = named(model, b, proto, inputs, scope)
    made = iter(b.emit("whole", operands, attrs, [body]).results)
    return [next(made) if name else None for name in proto.output]


def _may_be_several(nodes: Sequence[Node]) -> bool:
    """Whether targets may need several nodes to say what a node became."""
    return len(nodes) > 1 or any(node.op.is_several for node in nodes)


def _leaks(body: Graph, assumptions: Sequence[Assumption]) -> bool:
    """Whether a size from around was found to be one that the body finds out."""
    used = {symbol for each in assumptions for dim in (each.left, each.right) for symbol in symbols(dim)}
    inner = own_symbols(body, []) if used else set()
    return any(not inner.isdisjoint(symbols(resolve(symbol.dim))) for symbol in used - inner)


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for region in node.regions:
        yield from region.walk()
