"""Complex numbers as pairs of reals, for targets that have none.

Every complex tensor becomes a real one with the two parts along a new last axis, in nested graphs too. The inputs and outputs
of the graph at the top stay complex: `view_as_real` and `view_as_complex`, which move nothing, stand at its edges, and a
target may write both sides of them as one tensor.

`RULES` says for each op what it is of pairs. An op without a rule is taken apart first; one that cannot be is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import bool_
from isthmus.ir.errors import Refusal, UnsupportedError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.ops.complex import REAL_OF
from isthmus.ir.types import Tensor, Type, Unknown, innermost
from isthmus.ir.weights import LazyWeight, Weight
from isthmus.passes import complex_formulas
from isthmus.passes.complex_formulas import Pairs

Rule: TypeAlias = Callable[..., Any]
"""``rule(p, node, *operands)``: what the node is of pairs; the operands one an operand of the row, complex ones as pairs."""


def is_complex(type: Type | None) -> bool:
    """Whether a value of this type holds complex numbers."""
    inner = None if type is None else innermost(type)
    return isinstance(inner, Tensor) and inner.dtype.is_complex


def paired(type: Type) -> Type:
    """The type of the pairs that stand for values of a complex type."""
    if isinstance(type, Tensor):
        return Tensor(REAL_OF[type.dtype], None if type.shape is None else (*type.shape, 2))
    if isinstance(type, Unknown):
        return type
    return replace(type, element=paired(type.element))


def has_complex(graph: Graph) -> bool:
    """Whether there is a complex value in a graph, or in one nested in it."""
    ends = [value for each in graph.graphs() for value in each.inputs]
    return any(is_complex(value.type) for value in ends) or any(
        is_complex(result.type) for node in graph.walk() for result in node.results
    )


class ComplexPairs:
    """The pass.

    Args:
        target: what to say that complex ops cannot be carried over to.

    Raises:
        UnsupportedError: from `apply`: ops of complex numbers that have no form of pairs, all at once.
    """

    name = "complex_pairs"

    def __init__(self, target: str = "a target without complex numbers") -> None:
        self.counts: Counter[str] = Counter()
        self.target = target

    def apply(self, graph: Graph) -> None:
        if has_complex(graph):
            _Pairing(self.counts, self.target).run(graph)


class _Pairing:
    def __init__(self, counts: Counter[str], target: str) -> None:
        self.counts = counts
        self.target = target
        self.pairs: dict[Value, Value] = {}
        self.done: list[Node] = []
        self.edges: set[Node | None] = set()
        self.refusals: dict[tuple[str, str], Refusal] = {}

    def run(self, graph: Graph) -> None:
        first = Builder(graph, next(graph.nodes, None))
        for value in graph.inputs:
            if is_complex(value.type):
                if isinstance(value.type, Tensor):
                    self.pairs[value] = pairs = first.view_as_real(value)
                    self.edges.add(pairs.producer)
                else:
                    self.refuse("input", f"a {value.type} has no form of pairs as an input", value)
        self.body(graph)
        last = Builder(graph)
        outputs = list(graph.outputs)
        for index, value in enumerate(outputs):
            if is_complex(value.type) and value in self.pairs:
                if isinstance(value.type, Tensor):
                    outputs[index] = last.view_as_complex(self.pairs[value])
                    outputs[index].name = value.name
                else:
                    self.refuse("output", f"a {value.type} has no form of pairs as an output", value)
        graph.set_outputs(outputs)
        if self.refusals:
            count = len(self.refusals)
            what = "1 operation" if count == 1 else f"{count} operations"
            message = f"{what} on complex numbers cannot be carried over to {self.target}"
            raise UnsupportedError(message, list(self.refusals.values()))
        for node in reversed(self.done):
            node.erase()

    def refuse(self, op: str, reason: str, at: Node | Value) -> None:
        location = at.location
        refusal = Refusal(reason, op=op, location=location, remedy="compute with real and imaginary parts there")
        self.refusals.setdefault((op, str(location)), refusal)

    def body(self, graph: Graph) -> None:
        node = next(graph.nodes, None)
        while node is not None:
            before = node.previous
            if not self.step(node):  # it was taken apart: its parts come next
                node = next(graph.nodes, None) if before is None else before.next
            else:
                node = node.next

    def step(self, node: Node) -> bool:
        """Says one node in pairs. False where finer nodes stand in its place now."""
        for region in node.regions:
            self.region(region)
        complex_operands = [value is not None and is_complex(value.type) for value in node.operands]
        touched = any(complex_operands) or any(is_complex(result.type) for result in node.results)
        if node in self.edges or not touched:
            return True
        if any(is_it and value not in self.pairs for is_it, value in zip(complex_operands, node.operands, strict=True)):
            return True  # behind a refusal
        assert node.graph is not None
        if node.regions:
            self.replace(node, self.around(node).results)
            return True
        b = Builder(node.graph, node, node.location.by(f"complex_pairs.{node.op.name}"))
        rule = RULES.get(node.op.name)
        if rule is None:
            return self.take_apart(b, node)
        operands = [None if value is None else self.pairs.get(value, value) for value in node.operands]
        found = rule(Pairs(b), node, *node.op.group(operands))
        if isinstance(found, str):
            self.refuse(node.op.name, found, node)
            return True
        self.counts[node.op.name] += 1
        self.replace(node, (found,) if isinstance(found, Value) else found)
        return True

    def replace(self, node: Node, found: Sequence[Value]) -> None:
        """Puts pairs beside complex results, and others in the place of the node's own; the node goes at the end."""
        for old, new in zip(node.results, found, strict=True):
            if is_complex(old.type):
                self.pairs[old] = new
                new.name = new.name or old.name
            else:
                old.replace_by(new)
        self.done.append(node)

    def region(self, region: Graph) -> None:
        for index, value in enumerate(region.inputs):
            if is_complex(value.type):
                self.pairs[value] = region.inputs[index] = Value(paired(value.type), None, region, index, value.name)
        self.body(region)
        region.set_outputs(self.pairs.get(value, value) for value in region.outputs)

    def around(self, node: Node) -> Node:
        """The same node of pairs; it takes over the regions."""
        assert node.graph is not None
        operands = [None if value is None else self.pairs.get(value, value) for value in node.operands]
        types = [paired(result.type) if is_complex(result.type) else result.type for result in node.results]
        made = Node(node.op, operands, node.attrs, types, node.regions, node.location)
        node.regions = ()
        return node.graph.insert(made, node)

    def take_apart(self, b: Builder, node: Node) -> bool:
        found = node.op.decompose(b, node.call(), *node.op.group(node.operands))
        if found is NotImplemented:
            self.refuse(node.op.name, "it has no form of pairs of real numbers", node)
            return True
        node.replace_by(found)
        return False


# ---- the rules


def _same(p: Pairs, node: Node, *operands: Any) -> Any:
    """The same op, whose attributes count axes from the front and say nothing of the last one."""
    return _again(p, node, operands)


def _again(p: Pairs, node: Node, operands: Sequence[Any], **attrs: Any) -> Any:
    made = p.b.emit(node.op, node.op.flatten(operands), {**_from_front(node), **attrs})
    return made.results[0] if len(made.results) == 1 else tuple(made.results)


def _from_front(node: Node) -> dict[str, Any]:
    """The attributes, with axes counted from the front as if there were no pairs."""
    first = next((value for value in node.operands if value is not None), None)
    if first is None or not isinstance(first.type, Tensor):
        return node.attrs
    rank = first.type.rank + (len(node.attrs["axes"]) if node.op.name == "unsqueeze" else 0)
    found = dict(node.attrs)
    if isinstance(found.get("axis"), int):
        found["axis"] %= max(rank, 1)
    if found.get("axes") is not None:
        found["axes"] = [axis % max(rank, 1) for axis in found["axes"]]
    return found


def _with(**more: int) -> Rule:
    """The same op, whose lists have an element for each axis: with one more for the last axis."""

    def rule(p: Pairs, node: Node, *operands: Any) -> Any:
        return _again(p, node, operands, **{name: (*node.attrs[name], extra) for name, extra in more.items()})

    return rule


def _permute(p: Pairs, node: Node, x: Value) -> Any:
    return p.b.permute(x, perm=[*node.attrs["perm"], len(node.attrs["perm"])])


def _pad(p: Pairs, node: Node, x: Value, value: Value | None) -> Any:
    if value is not None:
        given = node.operands[1]
        weight = None if given is None else given.weight
        if weight is None or np.any(weight.array()):
            return "it pads with numbers that are not known to be 0"
    lists = {name: (*node.attrs[name], 0) for name in ("before", "after")}
    return p.b.pad(x, None, mode=node.attrs["mode"], **lists)


def _with_shape(p: Pairs, node: Node, x: Value, shape: Value) -> Any:
    longer = p.b.concat([shape, p.b.constant(np.array([2]))], axis=0)
    found = _again(p, node, (x, longer))
    old = node.result.tensor.shape
    if old is not None:  # the sizes that the model goes on with
        for left, right in zip(old, found.tensor.shape, strict=False):
            p.b.graph.symbols.know(left, right)
        p.b.graph.symbols.know(found.tensor.shape[-1], 2)
    return found


def _by_places(p: Pairs, node: Node, x: Value, indices: Value, *updates: Value) -> Any:
    """`gather_elements` and `scatter_elements`: both parts of a number are at its place."""
    if node.attrs.get("reduction", "none") not in ("none", "add"):
        return f"there is no {node.attrs['reduction']} of complex numbers"
    shape = indices.tensor.shape
    assert shape is not None
    both = p.b.expand(p.b.unsqueeze(indices, axes=[len(shape)]), shape=[*shape, 2])
    return _again(p, node, (x, both, *updates))


def _scatter_nd(p: Pairs, node: Node, *operands: Value) -> Any:
    if node.attrs["reduction"] not in ("none", "add"):
        return f"there is no {node.attrs['reduction']} of complex numbers"
    return _again(p, node, operands)


def _among_last(p: Pairs, node: Node, x: Value) -> Any:
    """`diagonal` and `trilu`, which have to do with the last axes: the parts go to the front meanwhile."""
    front = p.moved(x, -1, 0)
    attrs = dict(node.attrs)
    for name in ("axis1", "axis2"):
        if name in attrs:
            attrs[name] = attrs[name] % (x.tensor.rank - 1) + 1
    return p.moved(p.b.emit(node.op, [front], attrs).results[0], 0, -1)


def _where(p: Pairs, node: Node, cond: Value, x: Value, y: Value) -> Any:
    return p.b.where(p.b.unsqueeze(cond, axes=[cond.tensor.rank]), x, y)


def _constant(p: Pairs, node: Node) -> Any:
    return p.b.constant(_pairs_of(node.attrs["value"]), name=node.result.name)


def _pairs_of(weight: Weight) -> Weight:
    """A weight as pairs: a view of it, made when it is read."""
    dtype = REAL_OF[weight.dtype]

    def compute(array: Any) -> Any:
        return np.ascontiguousarray(array).view(dtype.numpy).reshape(*array.shape, 2)

    return LazyWeight(dtype, (*weight.shape, 2), compute, [weight], ("pairs",), name=weight.name)


def _cast(p: Pairs, node: Node, x: Value) -> Any:
    b, target = p.b, node.attrs["dtype"]
    source = node.operands[0].tensor.dtype  # type: ignore[union-attr]
    if target.is_complex:
        return b.cast(x, dtype=REAL_OF[target]) if source.is_complex else p.of_real(b.cast(x, dtype=REAL_OF[target]))
    if target is bool_:
        return p.any(b.ne(x, 0))
    return b.cast(p.real(x), dtype=target)


def _modulus(p: Pairs, node: Node, x: Value) -> Any:
    """Where only its square is asked for, no root is taken."""
    square = None
    for user, _ in list(node.result.uses):
        if isinstance(user, Node) and user.graph is not None and _squares(user, node.result):
            square = p.square(x) if square is None else square
            user.replace_by(square)
    return p.modulus(x)


def _squares(user: Node, value: Value) -> bool:
    if user.result.type != value.type:
        return False
    left, right = (*user.operands, None)[:2]
    if user.op.name == "mul":
        return left is value and right is value
    weight = right.weight if user.op.name == "pow" and left is value and right is not None else None
    return weight is not None and weight.size == 1 and weight.array().item() == 2


def _complex(p: Pairs, node: Node, real: Value, imag: Value) -> Any:
    shape = node.result.tensor.shape
    parts = [part if part.tensor.shape == shape else p.b.expand(part, shape=shape) for part in (real, imag)]
    return p.pair(*(p.b.unsqueeze(part, axes=[part.tensor.rank]) for part in parts))


def _is_value(p: Pairs, node: Node, x: Value) -> Any:
    return x


def _nonzero(p: Pairs, node: Node, x: Value) -> Any:
    found = p.b.nonzero(p.any(p.b.ne(x, 0)))
    p.b.graph.symbols.know(found.tensor.shape[0], node.result.tensor.shape[0])  # type: ignore[index]
    return found


def _typed(p: Pairs, node: Node) -> Any:
    return p.b.emit(node.op, [], {"type": paired(node.attrs["type"])}).results[0]


def _formula(name: str) -> Rule:
    """What `complex_formulas` says; real factors and divisors are told apart there."""
    function = complex_formulas.FORMULAS[name]

    def rule(p: Pairs, node: Node, *operands: Value) -> Any:
        return function(p, *operands)

    return rule


def _with_reals(name: str) -> Rule:
    """A formula that is simpler for an operand that has no imaginary part."""
    function = complex_formulas.WITH_REALS[name]

    def rule(p: Pairs, node: Node, *operands: Value) -> Any:
        return function(p, operands, [_real(p, value) for value in node.operands])

    return rule


def _real(p: Pairs, value: Value | None) -> Value | None:
    """A complex value as a real one, where it is known to be real."""
    node = None if value is None else value.producer
    if node is None:
        return None
    if node.op.name == "cast":
        source, dtype = node.operands[0], REAL_OF[node.attrs["dtype"]]
        if source is not None and not source.tensor.dtype.is_complex:
            found: Value = source if source.tensor.dtype is dtype else p.b.cast(source, dtype=dtype)
            return found
    if node.op.is_constant:
        weight = node.attrs["value"]
        if weight.size <= _LOOKED_AT and not np.any(weight.array().imag):
            return p.b.constant(np.array(weight.array().real))
    return None


_LOOKED_AT: Final = 64
"""Constants of more elements are not looked into."""

RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys((
        "identity", "add", "sub", "neg", "reduce_sum", "reduce_mean", "cumsum", "squeeze", "unsqueeze", "slice",
        "dynamic_slice", "slice_update", "flip", "concat", "split", "roll", "gather", "gather_nd", "sequence_construct",
        "sequence_at", "sequence_insert", "sequence_length", "sequence_concat", "optional_some", "optional_get", "optional_has",
    ), _same),
    **dict.fromkeys(("reshape", "expand"), _with(shape=2)),
    **dict.fromkeys(("dynamic_reshape", "dynamic_expand"), _with_shape),
    **dict.fromkeys(("gather_elements", "scatter_elements"), _by_places),
    **dict.fromkeys(("diagonal", "trilu"), _among_last),
    **dict.fromkeys(("view_as_real", "view_as_complex"), _is_value),
    **dict.fromkeys(("sequence_empty", "optional_none"), _typed),
    **{name: _formula(name) for name in complex_formulas.FORMULAS},
    **{name: _with_reals(name) for name in complex_formulas.WITH_REALS},
    "tile": _with(repeats=1), "permute": _permute, "pad": _pad, "scatter_nd": _scatter_nd, "where": _where, "cast": _cast,
    "constant": _constant, "modulus": _modulus, "complex": _complex, "nonzero": _nonzero,
}  # fmt: skip
"""What each op is of pairs."""

__all__ = ["RULES", "ComplexPairs", "has_complex", "is_complex", "paired"]
