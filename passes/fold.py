"""Constant folding: pure nodes with constant operands become constants, and the model hardly grows by it.

A node alone is folded where that makes the model no larger. Several nodes that hang together may make it a little larger,
so that tables and masks which a model computes from nothing are not computed in every run.

A small result is computed at once. A large one becomes a lazy weight: a straight-line program over the weights that it is
made from, run only while the weight is written. A chain of folded nodes makes one such program, whatever its length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from isthmus.ir import attributes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Symbol, resolve
from isthmus.ir.errors import EvaluationError, IsthmusError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.interpreter import type_of
from isthmus.ir.op import Call, Op, Trait
from isthmus.ir.ops.whole import Whole
from isthmus.ir.transposed import Transposed
from isthmus.ir.types import Tensor, resolved
from isthmus.ir.weights import Array, LazyWeight, Weight, weight
from isthmus.passes.keys import attrs_key
from isthmus.passes.replace import disagreement, settle, sweep
from isthmus.passes.whole import spelt

EAGER_ELEMENTS: Final = 1024
"""Results up to this many elements are computed at once."""
FREE_BYTES: Final = 256
"""What a constant may take without replacing others: less than the node that made it takes in a file, names included."""
Growth: TypeAlias = "float | Callable[[Graph], int]"
GROWTH: Final = 1 / 32
"""A model may grow by this part of its weights for the sake of nodes that go together."""
MOST_BYTES: Final = 1 << 28
"""Nothing larger is computed on the way to a constant, unless the weights of the model are larger themselves."""

EFFORT: Final = 1 << 33
"""Multiplications that folding may take in all: seconds. What takes more is left to whoever runs the model."""

_ANY: Final = 1 << 62

_FAILURES: Final = (IsthmusError, ArithmeticError, ValueError, IndexError, TypeError, KeyError, MemoryError)


@dataclass(frozen=True, slots=True)
class Step:
    """One op of a program.

    Attributes:
        op: the op.
        attrs: its attributes, all plain integers.
        operands: for each flat operand the number of the slot that holds it; None for an absent one.
        results: how many slots its results take.
    """

    op: Op
    attrs: dict[str, Any]
    operands: tuple[int | None, ...]
    results: int

    def run(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The results on these arrays."""
        call = Call(self.op, [type_of(x) for x in operands], self.attrs)
        found = self.op.evaluate(call, *self.op.group(operands))
        return tuple(map(np.asarray, found)) if isinstance(found, tuple) else (np.asarray(found),)


class Program:
    """A straight line of steps. Slots hold first the sources, then the results of each step in order.

    Each intermediate array is let go after the last step that reads it.
    """

    __slots__ = ("_dying", "result", "sources", "steps")

    def __init__(self, sources: int, steps: Sequence[Step], result: int) -> None:
        self.sources = sources
        self.steps = tuple(steps)
        self.result = result
        last = {slot: number for number, step in enumerate(steps) for slot in step.operands if slot is not None}
        last.pop(result, None)
        self._dying: dict[int, list[int]] = {}
        for slot, number in last.items():
            self._dying.setdefault(number, []).append(slot)

    @property
    def signature(self) -> Hashable:
        """Equal for programs that compute the same."""
        return (self.sources, self.result, *((s.op.name, attrs_key(s.attrs), s.operands) for s in self.steps))

    @property
    def elementwise(self) -> bool:
        """Whether a part of the result can be computed from parts of the sources."""
        return all(Trait.ELEMENTWISE in step.op.traits for step in self.steps)

    def __call__(self, *arrays: Array) -> Array:
        """The result's content from the sources'.

        Raises:
            EvaluationError: an op has no result on these numbers.
        """
        slots: dict[int, Any] = dict(enumerate(arrays))
        top = self.sources
        for number, step in enumerate(self.steps):
            try:
                found = step.run([None if slot is None else slots[slot] for slot in step.operands])
            except (ArithmeticError, ValueError, IndexError, TypeError) as error:
                raise EvaluationError(f"a folded constant cannot be computed: {error}", op=step.op.name) from error
            for slot in self._dying.get(number, ()):
                del slots[slot]
            slots.update(enumerate(found, top))
            top += step.results
        result: Array = slots[self.result]
        return result


Known: TypeAlias = "Weight | Node"
"""What a constant value is: a weight, or a node that is folded but not yet computed."""


class Fold:
    """Folds constants, forwards and in one walk.

    A node is folded when it is pure, its operands are constants, its attributes hold no open symbols, and its results take
    no more bytes than the constants that nothing else uses (or `FREE_BYTES`). An `expand` of a scalar therefore stays.
    Nodes that hang together are folded, too, as long as all that does not make the weights grow by more than a part of them.

    Args:
        growth: that part; or what tells by how many bytes, asked when that matters.
    """

    name = "fold"

    def __init__(self, growth: Growth = GROWTH) -> None:
        self.growth = growth
        self.counts: Counter[str] = Counter()

    def apply(self, graph: Graph) -> None:
        """Folds, in nested graphs too."""
        _Folding(graph, self.counts, self.growth).run()


class _Folding:
    def __init__(self, graph: Graph, counts: Counter[str], growth: Growth) -> None:
        self.graph = graph
        self.growth = growth
        self.counts = counts
        self.effort = EFFORT
        self.lazy: dict[Node, int] = {}  # nodes folded but not computed, numbered in order
        self.attrs: dict[Node, dict[str, Any]] = {}

    @cached_property
    def holders(self) -> Counter[Hashable]:
        """How many constants hold each weight; counted when it is first asked, and kept up from then on."""
        return Counter(node.attrs["value"].key for node in self.graph.walk() if node.op.is_constant)

    @cached_property
    def held(self) -> int:
        """The bytes of all weights before anything is folded."""
        return sum(held.nbytes for held in self.graph.weights())

    def run(self) -> None:
        changed = False
        self.paid = self.worth_it()
        for node in self.graph.walk():
            body = spelt(node) if isinstance(node.op, Whole) and all(map(self.is_known, node.operands)) else []
            changed |= bool(body)
            for each in body or (node,):
                if each.graph is not None and self.foldable(each):
                    changed |= self.fold(each)
        if self.lazy:
            self.materialize()
        if changed:
            settle(self.graph)

    def is_known(self, value: Value | None) -> bool:
        return value is None or value.producer in self.lazy or value.weight is not None

    def foldable(self, node: Node) -> bool:
        return (
            node.op.is_function
            and not node.op.is_constant
            and not node.regions
            and all(map(self.is_known, node.operands))
            and all(isinstance(result.type, Tensor) for result in node.results)
            and not any(value.__class__ is Symbol for value in node.attrs.values())
        )

    def fold(self, node: Node) -> bool:
        """Folds a node where that does not make the model larger. True when its value was computed at once."""
        attrs = {name: attributes.map_dims(value, resolve) for name, value in node.attrs.items()}
        if any(True for value in attrs.values() for _ in attributes.symbols_in(value)):
            return False
        effort = 0 if node in self.paid else _effort(node, attrs)
        if effort > self.effort:
            return False
        self.effort -= effort
        self.attrs[node] = attrs
        types = [resolved(result.type) for result in node.results]
        room = _ANY if node in self.paid else max(FREE_BYTES, self.dying_bytes(node))
        if all(isinstance(type, Tensor) and _is_static(type) for type in types):
            sizes = [_elements(type) for type in types if isinstance(type, Tensor)]
            taken = sum(_bytes(type) for type in types if isinstance(type, Tensor))
            if taken > room:
                return False
            if sum(sizes) > EAGER_ELEMENTS or _turns(node.op, attrs):
                self.lazy[node] = len(self.lazy)
                self.counts[node.op.name] += 1
                return False
        elif sum(_elements(operand.tensor) for operand in node.operands if operand is not None) > EAGER_ELEMENTS:
            return False
        return self.compute(node, room)

    def worth_it(self) -> set[Node]:
        """The nodes that go together although what they make takes more room than what it is made from."""
        component: dict[Node, int] = {}
        members: dict[int, list[Node]] = {}
        for node in self.graph.walk():
            if not self.computable(node, component):
                continue
            joined = {component[value.producer] for value in node.operands if value and value.producer in component}
            home, *others = sorted(joined, key=lambda one: -len(members[one])) or [len(component)]
            members.setdefault(home, []).append(node)
            component[node] = home
            for other in others:
                members[home] += members[other]
                component.update(dict.fromkeys(members.pop(other), home))
        paid: set[Node] = set()
        if not members:
            return paid
        left = self.growth(self.graph) if callable(self.growth) else int(self.held * self.growth)
        for nodes in members.values():
            inside: set[Any] = set(nodes)
            made = [result for node in nodes for result in node.results if any(user not in inside for user, _ in result.uses)]
            taken = sum(_bytes(value.tensor) for value in made)
            effort = sum(_effort(node, node.attrs) for node in nodes) if len(nodes) > 1 else 0
            if len(nodes) > 1 and taken <= left + FREE_BYTES and effort <= self.effort:
                self.effort -= effort
                paid |= inside
                left -= max(0, taken - FREE_BYTES)
        return paid

    def computable(self, node: Node, known: Mapping[Node, object]) -> bool:
        """Whether a node's results are constants of known shapes, given that those of other nodes are."""
        return (
            node.op.is_function
            and not node.op.is_constant
            and not node.regions
            and all(value is None or value.producer in known or value.weight is not None for value in node.operands)
            and all(isinstance(result.type, Tensor) and _is_static(result.type) for result in node.results)
            and all(result.tensor.dtype.kind != "string" for result in node.results)  # their length is not known
            and all((size := _bytes(result.tensor)) <= MOST_BYTES or size <= self.held for result in node.results)
            and not any(True for value in node.attrs.values() for _ in attributes.symbols_in(value))
        )

    def dying_bytes(self, node: Node) -> int:
        """The bytes of the constants that are of no use once this node is gone."""
        total = 0
        for operand in dict.fromkeys(node.operands):
            if operand is not None and all(user is node for user, _ in operand.uses):
                held = operand.weight
                if held is None or self.holders[held.key] == 1:
                    total += _bytes(operand.tensor)
        return total

    def compute(self, node: Node, room: int) -> bool:
        operands = [None if operand is None else self.content(operand) for operand in node.operands]
        try:
            arrays = Step(node.op, self.attrs[node], (), 0).run(operands)
        except _FAILURES:
            return False  # it fails the same way when the model runs, where its error belongs
        if len(arrays) != len(node.results) or sum(map(_held, arrays)) > room:
            return False
        values = self.constants(node, [weight(np.array(array)) for array in arrays])
        if any(disagreement(old, new) for old, new in zip(node.results, values, strict=True)):
            sweep(value.producer for value in values if value.producer is not None)
            return False
        name = node.op.name
        producers = [operand.producer for operand in node.operands if operand is not None and operand.producer is not None]
        node.replace_by(values)
        self.retire(producers)
        self.counts[name] += 1
        return True

    def retire(self, producers: Iterable[Node]) -> None:
        """Erases operands that nothing needs any more; handles that are gone no longer hold their weight."""
        work = list(dict.fromkeys(producers))
        while work:
            node = work.pop()
            if node.graph is None or any(result.uses for result in node.results):
                continue
            work.extend(operand.producer for operand in node.operands if operand is not None and operand.producer is not None)
            if node.op.is_constant:
                self.holders[node.attrs["value"].key] -= 1
            self.lazy.pop(node, None)
            node.erase()

    def constants(self, node: Node, handles: Sequence[Weight]) -> list[Value]:
        holders = self.holders  # without those that are made now
        builder = Builder(node.graph or self.graph, node, node.location.by(self.name_of(node)))
        values = [builder.constant(handle) for handle in handles]
        for handle in handles:
            holders[handle.key] += 1
        return values

    def name_of(self, node: Node) -> str:
        return f"{Fold.name}.{node.op.name}"

    def content(self, value: Value) -> Array:
        held = value.weight
        return held.array() if held is not None else self.weight_for(value).array()

    # ---- large results

    def weight_for(self, value: Value) -> LazyWeight:
        """A lazy weight for a result of a node that is folded but not computed."""
        assert value.producer is not None
        needed: set[Node] = set()
        sources: dict[Value, Weight] = {}
        work = [value.producer]
        while work:
            node = work.pop()
            if node in needed:
                continue
            needed.add(node)
            for operand in node.operands:
                if operand is not None:
                    held = operand.weight
                    if held is not None:
                        sources[operand] = held
                    elif operand.producer is not None:
                        work.append(operand.producer)
        slots = {source: number for number, source in enumerate(sources)}
        steps = []
        for node in sorted(needed, key=self.lazy.__getitem__):
            operands = tuple(None if operand is None else slots[operand] for operand in node.operands)
            steps.append(Step(node.op, self.attrs[node], operands, len(node.results)))
            for result in node.results:
                slots[result] = len(slots)
        program = Program(len(sources), steps, slots[value])
        type = resolved(value.type)
        assert isinstance(type, Tensor)
        main = max(sources, key=lambda source: sources[source].nbytes)
        name = value.name or main.name or sources[main].name
        if len(steps) == 1 and _turns(steps[0].op, steps[0].attrs):
            return Transposed(sources[main], name)
        shape = tuple(size for size in type.shape or () if isinstance(size, int))
        return LazyWeight(type.dtype, shape, program, tuple(sources.values()), program.signature, program.elementwise, name)

    def materialize(self) -> None:
        """Makes lazy weights of those results that nodes which stay use, and erases what was folded."""
        for node in self.lazy:
            for result in node.results:
                if any(user not in self.lazy for user, _ in result.uses):
                    (constant,) = self.constants(node, [self.weight_for(result)])
                    constant.name = constant.name or result.name
                    result.replace_by(constant, lambda user, _: user not in self.lazy)
        folded = list(self.lazy)
        for node in reversed(folded):
            producers = [operand.producer for operand in node.operands if operand is not None and operand.producer is not None]
            self.lazy.pop(node)
            node.erase()
            self.retire(producer for producer in producers if producer not in self.lazy)


def _effort(node: Node, attrs: dict[str, Any]) -> int:
    """The effort of evaluating a node whose sizes are all known."""
    return node.op.effort(Call(node.op, [None if x is None else resolved(x.type) for x in node.operands], attrs))


def _held(array: Array) -> int:
    """The bytes that an array takes, its texts included."""
    return array.nbytes + (sum(len(str(text)) for text in array.flat) if array.dtype == object else 0)


def _is_static(type: Tensor) -> bool:
    return type.shape is not None and all(isinstance(dim, int) for dim in type.shape)


def _elements(type: Tensor) -> int:
    total = 1
    for dim in type.shape or ():
        assert isinstance(dim, int)
        total *= dim
    return total


def _bytes(type: Tensor) -> int:
    return (_elements(type) * type.dtype.bits + 7) // 8


def _turns(op: Op, attrs: Mapping[str, Any]) -> bool:
    """Whether it turns a matrix, which stays a view of what it was: written turned again, it is that under its name."""
    return op.name == "permute" and attrs["perm"] == (1, 0)
