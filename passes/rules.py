"""Rules: what to look for and what to put there.

A rule is written in one of two ways. As a pattern, where the shape of the expression says it all:

    @rule
    def hard_swish(p, x):
        return x * p.clip(x + 3.0, 0.0, 6.0) / 6.0

    @hard_swish.becomes
    def _(b, m):
        return b.hard_swish(m.x) if m.x.tensor.dtype.is_float else refuse("integer input", m.x)

or as a function of one node, for ops or traits, where the answer takes arithmetic:

    @on(Trait.INVOLUTION)
    def twice(b, node): ...

A pattern that people write in several ways is a list of them, or takes another one by `or_`. Names are bound once, numbers
match constants within rounding, the matcher tries swapped operands, and `refuse` is the one way to say no. The driver in
`isthmus.passes.rewrite` does the rest: order, insertion points, escaping values, locations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol, TypeAlias

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Op, Trait
from isthmus.passes.matcher import Match, Search, Trace, names
from isthmus.passes.patterns import Applied, read


@dataclass(frozen=True, slots=True)
class Refused:
    """A rule's no.

    Attributes:
        reason: why, in words.
        value: the value that is to blame.
    """

    reason: str
    value: Value | None = None


def refuse(reason: str, value: Value | None = None) -> Refused:
    """What a rule returns where it matched but does not apply."""
    return Refused(reason, value)


def constant_number(value: Value) -> float | Refused:
    """The number that a value always is, when it is a constant real one of one element."""
    weight = value.weight
    if weight is None or weight.size != 1 or not weight.dtype.is_float:
        return refuse("it is not a constant real number", value)
    return float(weight.array().item())


def sole_producer(value: Value | None) -> Node | None:
    """The producer of a value that is used but once."""
    return value.producer if value is not None and len(value.uses) == 1 else None


Replacement: TypeAlias = "Value | Sequence[Value | None] | Refused | None"
"""Values for the root's results (None for one that is not used); a refusal; None where there is nothing to do."""


SOURCES: Final = 3
"""The ops that make so many operands of a node tell which rules are tried there."""


class Rewrite(Protocol):
    """What the driver needs of a rule."""

    @property
    def name(self) -> str: ...

    def concerns(self, op: Op) -> bool:
        """Whether nodes of this op may be roots."""

    def fits(self, op: Op, sources: Sequence[Op | None]) -> bool:
        """Whether the rule may fit a node of an op that it concerns, to judge by the ops that make its first operands.

        Args:
            op: the node's.
            sources: those that make its first `SOURCES` operands; None for an absent one, an input and an argument.
        """

    def find(self, node: Node, trace: Trace | None = None) -> Iterable[Match]:
        """The ways that the rule fits a node."""

    def build(self, b: Builder, match: Match) -> Replacement:
        """Builds what replaces the root, in front of it."""


class Rule:
    """A rule made of patterns; the first function is the pattern, `or_` adds others, `becomes` says what replaces it.

    Attributes:
        name: the function's name.
        keep: values inside the match may be used outside of it, and then stay.
    """

    def __init__(self, pattern: Callable[..., object], keep: bool = False) -> None:
        self.name = pattern.__name__
        self.keep = keep
        self.__doc__ = pattern.__doc__
        self._functions = [pattern]
        self._replacement: Callable[[Builder, Match], Replacement] | None = None

    def or_(self, pattern: Callable[..., object]) -> Rule:
        """Decorator: one more pattern with the same replacement. A name that it does not bind is None there."""
        self._functions.append(pattern)
        return self

    def becomes(self, replacement: Callable[[Builder, Match], Replacement]) -> Callable[[Builder, Match], Replacement]:
        """Decorator: the function from a builder and a match to the replacement."""
        self._replacement = replacement
        return replacement

    @cached_property
    def patterns(self) -> tuple[Applied, ...]:
        """The patterns, read when first asked for."""
        return tuple(pattern for function in self._functions for pattern in read(function)[0])

    @cached_property
    def _names(self) -> dict[str, None]:
        return {name: None for function in self._functions for name in read(function)[1]}

    @property
    def size(self) -> int:
        """The number of nodes that the largest pattern covers."""
        return max(sum(1 for _ in pattern.parts()) for pattern in self.patterns)

    @cached_property
    def _starts(self) -> dict[Op, frozenset[tuple[tuple[int, frozenset[Op]], ...]]]:
        """What each pattern asks for right at its root: the ops that may make an operand, by its place."""
        found: dict[Op, set[tuple[tuple[int, frozenset[Op]], ...]]] = {}
        for form in (each for pattern in self.patterns for each in (pattern, *pattern.spellings)):
            fixed = next((place for place, operand in enumerate(form.op.operands) if operand.variadic), SOURCES)
            for order in form.orders:
                asked = enumerate(order[: min(fixed, SOURCES)])
                start = tuple((place, each.ops) for place, each in asked if isinstance(each, Applied))
                found.setdefault(form.op, set()).add(start)
        return {op: frozenset(starts) for op, starts in found.items()}

    def concerns(self, op: Op) -> bool:
        """Whether a pattern's root is this op."""
        return op in self._starts

    def fits(self, op: Op, sources: Sequence[Op | None]) -> bool:
        """Whether a pattern has these ops right behind its root."""
        return any(all(sources[place] in ops for place, ops in start) for start in self._starts[op])

    def find(self, node: Node, trace: Trace | None = None) -> Iterator[Match]:
        """The ways that the patterns fit a node."""
        search = Search(self.keep, trace)
        for pattern in self.patterns:
            for bound, covered in search.at(pattern, node):
                yield Match(node, covered, {**self._names, **names(bound)})

    def build(self, b: Builder, match: Match) -> Replacement:
        """Builds the replacement.

        Raises:
            TypeError: the rule has none.
        """
        if self._replacement is None:
            raise TypeError(f"the rule {self.name} has no replacement; give it one with @{self.name}.becomes")
        return self._replacement(b, match)

    def __repr__(self) -> str:
        return f"Rule({self.name})"


def rule(pattern: Callable[..., object]) -> Rule:
    """Decorator: makes a rule of the function that states its pattern."""
    return Rule(pattern)


Meant: TypeAlias = "str | Trait | Callable[[Op], bool]"
"""Which ops a rule is for: one by its name, those that have a trait, those of which a function holds."""


def _is_meant(op: Op, what: Iterable[Meant]) -> bool:
    """Whether an op was named, has one of the traits, or is told by one of the functions."""
    return any(
        item == op.name if isinstance(item, str) else bool(op.traits & item) if isinstance(item, Trait) else item(op)
        for item in what
    )


class NodeRule:
    """A rule that is a function of one node."""

    def __init__(
        self, function: Callable[[Builder, Node], Replacement], what: Sequence[Meant], behind: Sequence[Meant] = ()
    ) -> None:
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self._function = function
        self._what = tuple(what)
        self._behind = tuple(behind)

    def concerns(self, op: Op) -> bool:
        """Whether the op is one of those that are meant."""
        return _is_meant(op, self._what)

    def fits(self, op: Op, sources: Sequence[Op | None]) -> bool:
        """Whether one of those makes an operand that the rule is for nodes behind, as far as `sources` tell."""
        if not self._behind or op.variadic or len(op.operands) > SOURCES:
            return True
        return any(source is not None and _is_meant(source, self._behind) for source in sources)

    def find(self, node: Node, trace: Trace | None = None) -> Iterable[Match]:
        """The node alone."""
        return (Match(node, [node], {}),)

    def build(self, b: Builder, match: Match) -> Replacement:
        """Calls the function."""
        return self._function(b, match.root)

    def __repr__(self) -> str:
        return f"NodeRule({self.name})"


def on(*what: Meant, behind: Meant | Sequence[Meant] = ()) -> Callable[[Callable[[Builder, Node], Replacement]], NodeRule]:
    """Decorator: makes a rule of a function of one node, for all ops that are meant.

    Args:
        what: these ops.
        behind: the function gives nothing for nodes of which no operand is made by such an op, and need not be asked.
    """
    others = (behind,) if isinstance(behind, (str, Trait)) or callable(behind) else behind
    return lambda function: NodeRule(function, what, others)


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A node where a rule nearly applied.

    Attributes:
        node: the node that would have been replaced.
        matched: how many nodes fitted.
        size: how many the pattern covers.
        reason: what stopped it.
        blame: the node that the reason is about.
    """

    node: Node
    matched: int
    size: int
    reason: str
    blame: Node | None

    def __str__(self) -> str:
        where = self.blame if self.blame is not None else self.node
        far = f"{self.matched} of {self.size} matched"
        return f"{self.node.op.name} at {self.node.location}: {far}; {self.reason} ({where.location})"


def explain(rule: Rule, graph: Graph) -> list[NearMiss]:
    """Where a rule's root op stands and the rule does not apply: how far it got and what stopped it, nearest first.

    The graph is left as it is; replacements are tried on a copy.
    """
    from isthmus.passes.rewrite import attempt

    mapping: dict[Value, Value] = {}
    copy = graph.clone(mapping)
    original = {new.producer: old.producer for old, new in mapping.items() if new.producer is not None}
    found = []
    for node in list(copy.walk()):
        if not rule.concerns(node.op):
            continue
        trace = Trace()
        outcome = attempt(rule, node, "explain", trace, dry=True)
        if outcome is None or isinstance(outcome, Refused):
            if isinstance(outcome, Refused):
                trace = Trace(rule.size, outcome.reason, outcome.value.producer if outcome.value is not None else None)
            blame = original.get(trace.node) if trace.node is not None else None
            found.append(NearMiss(original.get(node) or node, trace.matched, rule.size, trace.reason, blame))
    return sorted(found, key=lambda miss: -miss.matched)
