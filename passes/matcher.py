"""Finds patterns in graphs: every way that a pattern fits a node, with swapped operands tried and names bound once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Trait
from isthmus.ir.types import Tensor
from isthmus.passes.patterns import Applied, AttributeVariable, Literal, Pattern, Rest, Variable, close

Bound: TypeAlias = "Mapping[Any, Any]"
"""What patterns are bound to: variables and applied ops to values, attribute variables to attributes."""


@dataclass
class Trace:
    """How far a pattern got, for explanations.

    Attributes:
        matched: the most nodes that fitted at once.
        reason: what stopped it there.
        node: where.
    """

    matched: int = 0
    reason: str = ""
    node: Node | None = None

    def stop(self, bound: Bound, node: Node | None, reason: str) -> None:
        """Notes a failure, where it is the furthest so far."""
        matched = sum(isinstance(pattern, Applied) for pattern in bound)
        if matched > self.matched or not self.reason:
            self.matched, self.reason, self.node = matched, reason, node


class Match:
    """A place where a pattern fits. What it bound are attributes: ``m.x`` a `Value`, ``m.axis`` an attribute.

    Attributes:
        root: the node whose result the pattern describes.
        nodes: all nodes that the pattern covers, the root first.
    """

    def __init__(self, root: Node, nodes: list[Node], names: Mapping[str, Any]) -> None:
        self.root = root
        self.nodes = nodes
        self._names = names

    def __getattr__(self, name: str) -> Any:
        try:
            return self._names[name]
        except KeyError:
            raise AttributeError(f"the rule binds no {name}; it binds {', '.join(self._names) or 'nothing'}") from None


@dataclass
class Search:
    """One pattern at one node.

    Attributes:
        keep: values inside the match may be used outside of it; they then stay.
        trace: notes the failures.
    """

    keep: bool = False
    trace: Trace | None = field(default=None)

    def fail(self, bound: Bound, node: Node | None, reason: str) -> None:
        if self.trace is not None:
            self.trace.stop(bound, node, reason)

    def at(self, pattern: Applied, node: Node) -> Iterator[tuple[dict[Any, Any], list[Node]]]:
        """Each way that the pattern fits the node, as what is bound and the nodes covered, the node first."""
        if len(node.results) != 1 and pattern.index is None:
            return
        for bound in self.value(pattern, node.results[pattern.index or 0], {}):
            nodes = dict.fromkeys(v.producer for p, v in bound.items() if isinstance(p, Applied))
            covered = [node, *(n for n in nodes if n is not None and n is not node)]
            if self.closed(covered, bound):
                yield dict(bound), covered

    def closed(self, covered: list[Node], bound: Bound) -> bool:
        """Whether the nodes inside may go, or be computed where the root is."""
        root, *inner = covered
        inside: set[Node | Graph] = set(covered)
        for node in inner:
            if node.graph is not root.graph or node.op.has_effect:
                self.fail(bound, node, f"{node.op.name} is in another graph, or something happens in it")
                return False
            outside = [user for result in node.results for user, _ in result.uses if user not in inside]
            if outside and not (self.keep and Trait.PURE in node.op.traits):
                where = "an output" if isinstance(outside[0], Graph) else outside[0].op.name
                self.fail(bound, node, f"the result of {node.op.name} is used elsewhere, by {where}")
                return False
        return True

    def value(self, pattern: Pattern, value: Value | None, bound: Bound) -> Iterator[Bound]:
        if isinstance(pattern, Literal):
            if self.literal(pattern, value, bound):
                yield bound
        elif pattern in bound:
            if bound[pattern] is value:
                yield bound
            else:
                self.fail(bound, value.producer if value else None, f"{_name(pattern)} would stand for two values")
        elif isinstance(pattern, Variable):
            if value is not None or pattern.optional:
                yield {**bound, pattern: value}
            else:
                self.fail(bound, None, f"{pattern.name} is absent")
        elif isinstance(pattern, Applied):
            yield from self.applied(pattern, pattern, value, bound)
            # of integers, a division or a power is no other spelling of a product
            floats = value is not None and isinstance(value.type, Tensor) and value.type.dtype.is_float
            for spelling in pattern.spellings if floats else ():
                yield from self.applied(spelling, pattern, value, bound)

    def literal(self, pattern: Literal, value: Value | None, bound: Bound) -> bool:
        weight = None if value is None else value.weight
        node = None if value is None else value.producer
        if weight is None or weight.size != 1 or weight.dtype.kind == "string":
            self.fail(bound, node, f"expected the constant {pattern.value}, found {_what(value)}")
            return False
        found = weight.array().item()
        if close(pattern.value, found, weight.dtype):
            return True
        self.fail(bound, node, f"expected the constant {pattern.value}, found {found}")
        return False

    def applied(self, form: Applied, pattern: Applied, value: Value | None, bound: Bound) -> Iterator[Bound]:
        """Matches `form`, one spelling of `pattern`, which is what gets bound."""
        node = value.producer if value is not None else None
        if value is None or node is None or node.op is not form.op:
            self.fail(bound, node, f"expected {form.op.name}, found {_what(value)}")
            return
        if value.index != (form.index or 0) or (form.index is None and len(node.results) != 1):
            self.fail(bound, node, f"expected result {form.index or 0} of {form.op.name}, found result {value.index}")
            return
        start = self.attributes(form, node, {**bound, pattern: value})
        if start is not None:
            actual = node.op.group(node.operands)
            for order in form.orders:
                yield from self.operands(order, actual, start, node)

    def attributes(self, form: Applied, node: Node, bound: dict[Any, Any]) -> dict[Any, Any] | None:
        if form.every_attr is not None:
            bound[form.every_attr] = node.attrs
        for name, wanted in form.attrs.items():
            found = node.attrs[name]
            if isinstance(wanted, AttributeVariable):
                if wanted in bound and bound[wanted] != found:
                    self.fail(bound, node, f"attribute {name} is {found}, but {wanted.name} is {bound[wanted]} elsewhere")
                    return None
                bound[wanted] = found
            elif not (close(wanted, found) if isinstance(wanted, float) and found is not None else wanted == found):
                self.fail(bound, node, f"attribute {name} of {node.op.name} is {found}, expected {wanted}")
                return None
        return bound

    def operands(self, patterns: tuple[Any, ...], actual: list[Any], bound: Bound, node: Node) -> Iterator[Bound]:
        """Matches operands from the first on; depth is bounded by the size of the pattern."""
        if not patterns:
            yield bound
            return
        (first, *later), (value, *values) = patterns, actual
        for found in self.operand(first, value, bound, node):
            yield from self.operands(tuple(later), values, found, node)

    def operand(self, pattern: Any, value: Any, bound: Bound, node: Node) -> Iterator[Bound]:
        if isinstance(pattern, tuple):
            if len(pattern) == len(value):
                yield from self.operands(pattern, value, bound, node)
            else:
                self.fail(bound, node, f"{node.op.name} has {len(value)} operands in its list, expected {len(pattern)}")
        elif isinstance(pattern, Rest):
            if pattern not in bound:
                yield {**bound, pattern: list(value)}
            elif bound[pattern] == list(value):
                yield bound
        elif pattern is None:
            if value is None:
                yield bound
            else:
                self.fail(bound, node, f"an operand of {node.op.name} is expected to be absent")
        else:
            yield from self.value(pattern, value, bound)


def names(bound: Bound) -> dict[str, Any]:
    """What is bound, by the names that the rule gave."""
    return {pattern.name: found for pattern, found in bound.items() if isinstance(pattern, (Variable, Rest, AttributeVariable))}


def _name(pattern: Pattern) -> str:
    return pattern.name if isinstance(pattern, Variable) else "one part of the pattern"


def _what(value: Value | None) -> str:
    if value is None:
        return "nothing"
    return value.producer.op.name if value.producer is not None else f"the input {value.name}"
