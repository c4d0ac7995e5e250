"""Ops of another format, kept whole beside what they mean in ops of this table; and such ops by name alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from isthmus.ir.attributes import ANY, BOOL, INTS, STR, STRS, TYPES, map_dims, symbols_in
from isthmus.ir.dims import Dim, Symbol, bounds, symbols
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.control import own_symbols, regions
from isthmus.ir.types import Type

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Graph, Node, Value

_NAMED: Final = {
    "domain": STR(""), "name": STR, "attributes": ANY({}), "captures": STRS(()), "absent": INTS(()), "opsets": ANY({}),
}  # fmt: skip


@register
class Whole(Op):
    """An op of the format that a model came in, kept whole: its results are the outputs of `body`.

    The body says in ops of this table what the op does with the operands. It takes no arguments, and uses these and other outer
    values as they are. A target that has the very op (of this domain and name, at this version among `opsets`, with these
    attributes) writes that; for any other the body takes its place. For attributes, `captures`, `absent` and `opsets` see
    `custom`.
    """

    name = "whole"
    operands = operands("inputs*: type")
    attributes = _NAMED
    regions = ("body",)
    traits = Trait.PURE | Trait.COARSE
    source = "ONNX functions"

    def infer(self, call: Call) -> Sequence[Type]:
        (body,) = regions(call)
        if body.inputs:
            raise call.error("the body takes no arguments; it uses outer values as they are")
        types = [output.type for output in body.outputs]
        if not any(True for type in types for _ in symbols_in(type)):
            return types
        inner = own_symbols(body, [])
        sizes: dict[Dim, Dim] = {}

        def outside(dim: Dim) -> Dim:
            """A size that the body finds out has another name outside, where the result binds it."""
            if inner.isdisjoint(symbols(dim)):
                return dim
            if dim not in sizes:
                lo, hi = bounds(dim)
                sizes[dim] = call.fresh("u", max(lo, 0), hi)
            return sizes[dim]

        return [map_dims(type, outside) for type in types]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return tuple(call.run(call.regions[0], ()))

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        from isthmus.ir.graph import clone_node

        (body,) = call.regions
        mapping: dict[Value, Value] = {}
        for node in body.nodes:
            b.graph.insert(clone_node(node, mapping), b.before)
        return tuple(mapping.get(value, value) for value in body.outputs)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3)).astype(np.float32)

        def total(b: Builder) -> list[Graph]:
            outer = b.constant(x)
            return [b.subgraph([], lambda b: b.add(b.add(outer, outer), outer))]

        for domain, opset in (("", 13), ("isthmus.samples", 1)):
            yield sample([x, x, x], regions=total, name="Sum", domain=domain, opsets={domain: opset}, note=domain)


@register
class Native(Op):
    """An op of the target's own, by domain and name, which legalization puts in the place of a `whole`.

    `random` says that it draws numbers.
    """

    name = "native"
    operands = operands("inputs*: type")
    attributes = {**_NAMED, "types": TYPES, "random": BOOL(False)}
    traits = Trait.NONE

    def infer(self, call: Call) -> Sequence[Type]:
        return call["types"]  # type: ignore[no-any-return]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return call.foreign(operands[0])


def told(node: Node, index: int, known: Callable[[Value], tuple[Dim, ...] | None]) -> tuple[Dim, ...] | None:
    """The elements of a result of a `whole`, given those of values of its body; not where a size is known in there alone."""
    (body,) = node.regions
    found = known(body.outputs[index])
    used = {symbol for dim in found or () for symbol in symbols(dim)}
    return found if not used or used.isdisjoint(own_symbols(body, [])) else None


def needed(nodes: Iterable[Node], outputs: Iterable[Value]) -> list[Node]:
    """Those of some nodes, which are in order, that values need, the sizes in attributes included; without those that constants
    alone give."""
    known: dict[Node | None, bool] = {}
    binders: dict[Symbol, Node] = {}
    for node in nodes:
        known[node] = node.op.is_constant or (
            node.op.is_function and not node.regions
            and all(value is None or value.weight is not None or known.get(value.producer) for value in node.operands)
            and not any(True for _ in node.symbols())
        )  # fmt: skip
        bound = [symbol for result in node.results for symbol in symbols_in(result.type)]
        bound += [each for each in node.attrs.values() if isinstance(each, Symbol)]
        for symbol in bound:
            binders.setdefault(symbol, node)
    found: dict[Node, None] = {}
    work = [value.producer for value in outputs]
    while work:
        maker = work.pop()
        if maker is not None and known.get(maker) is False and maker not in found:
            found[maker] = None
            work += [value.producer for value in maker.walk_values()]
            work += [binders[symbol] for symbol in maker.symbols() if symbol in binders]
    return list(found)
