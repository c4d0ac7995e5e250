"""What of a captured model reaches no output: how much, from which modules, and whether that looks like an early exit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Trait
from isthmus.passes.dead_code import live_nodes

if TYPE_CHECKING:
    from isthmus.frontends.base import Captured

FEW: Final = 4
"""A model of fewer nodes is all there: none of it was left early."""
NEARLY_ALL: Final = 0.9
"""More than this share of the nodes falling away is loud."""
MOST: Final = 0.5
"""And more than this share of the parameters' bytes."""
_TOLD: Final = 6


class Pruned(BaseModel):
    """How much of a captured model reaches no output and falls away.

    Attributes:
        recorded: nodes that compute on the inputs or on random numbers, nested ones counted. Others, such as those that
            became a constant on the way through numpy, say nothing about the model.
        reaching: those of them that an output or an effect needs.
        modules: how many of the others each module has, by its path, most first; empty for the model's own code.
        parameters: the parameters of the source.
        unused: those of them that nothing needs.
        parameter_bytes: the bytes of all parameters.
        unused_bytes: the bytes of the unused ones.
        unused_modules: how many of these each outermost module without a used one has, most first.
    """

    recorded: int
    reaching: int
    modules: dict[str, int] = Field(default_factory=dict)
    parameters: int = 0
    unused: int = 0
    parameter_bytes: int = 0
    unused_bytes: int = 0
    unused_modules: dict[str, int] = Field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """In words; nothing where nothing falls away."""
        found = []
        if self.reaching < self.recorded:
            fallen = self.recorded - self.reaching
            found.append(f"{fallen} of {self.recorded} nodes reach no output and fall away: {_modules(self.modules)}")
        if self.unused:
            sizes = f"{_size(self.unused_bytes)} of {_size(self.parameter_bytes)}"
            found.append(f"{self.unused} of {self.parameters} parameters, {sizes}, go unused: {_modules(self.unused_modules)}")
        return found


def pruned(captured: Captured) -> Pruned:
    """What of a graph, as a frontend gave it, will fall away. Linear in its size."""
    graph, parameters = captured.graph, captured.parameters
    computing, loose = _computing(graph)
    live = live_nodes(graph) if loose else None  # without a loose end every node leads to an output
    dead = [] if live is None else [node for node in computing if node not in live]
    unused = [each for each in parameters if not (each.read or _needed(each.value, live))]
    return Pruned(
        recorded=len(computing),
        reaching=len(computing) - len(dead),
        modules=dict(Counter(node.location.module for node in dead).most_common()),
        parameters=len(parameters),
        unused=len(unused),
        parameter_bytes=sum(each.nbytes for each in parameters),
        unused_bytes=sum(each.nbytes for each in unused),
        unused_modules=_outermost([each.name for each in parameters], [each.name for each in unused]) if unused else {},
    )


def early_exit(graph: Graph, found: Pruned) -> str | None:
    """A warning, where so much falls away that the example input must have left the model early."""
    fallen = found.recorded - found.reaching
    if not (
        (fallen >= FEW and fallen > NEARLY_ALL * found.recorded)
        or (found.unused > 1 and found.unused_bytes > MOST * found.parameter_bytes)
    ):
        return None
    branch = next((a for a in reversed(graph.symbols.assumptions) if a.question and a.question.answer is not None), None)
    made = dict.fromkeys(str(value.location) for value in graph.outputs if value.location)
    return ". ".join((
        "The example input probably took an early exit: " + "; ".join(found.lines),
        *([f"The last branch that it took: {branch.question} (at {branch.location})"] if branch else []),
        *([f"What the model returns was made at {', '.join(list(made)[:_TOLD])}"] if made else []),
        "Compile with an example input that goes all the way through the model",
    ))  # fmt: skip


def _computing(graph: Graph) -> tuple[dict[Node, None], bool]:
    """The nodes that compute on inputs or random numbers, and whether there is one whose results nobody uses."""
    found: dict[Node, None] = {}
    known: set[Value | None] = set(graph.inputs)
    loose = False
    traits: dict[str, tuple[bool, bool, bool]] = {}
    for node in graph.walk():
        kind = traits.get(node.op.name)
        if kind is None:
            kind = traits[node.op.name] = node.has(Trait.CONSTANT), node.has(Trait.RANDOM), node.has(Trait.EFFECT)
        constant, random, effect = kind
        if constant:
            continue
        parent = None if node.graph is None else node.graph.parent
        if (
            random
            or not known.isdisjoint(node.operands)
            or (parent is not None and parent in found)
            or (node.regions and not known.isdisjoint(node.walk_values()))
        ):
            found[node] = None
            known.update(node.results)
            loose = loose or not (effect or any(result.uses for result in node.results))
    return found, loose


def _needed(value: Value | None, live: Collection[Node] | None) -> bool:
    """Whether an output or a live node uses a value."""
    if value is None or live is None:
        return value is not None and bool(value.uses)
    users = (user.parent if isinstance(user, Graph) else user for user, _ in value.uses)
    return any(user is None or user in live for user in users)


def _outermost(names: Iterable[str], unused: Iterable[str]) -> dict[str, int]:
    """The outermost modules all of whose parameters are unused, with how many each has."""
    every, without = (Counter(path for name in group for path in _paths(name)) for group in (names, unused))
    found = Counter(
        next((path for path in _paths(name) if every[path] == without[path]), name.rpartition(".")[0]) for name in unused
    )
    return dict(found.most_common())


def _paths(name: str) -> list[str]:
    """The paths of the modules that a parameter is in, the outermost first, the model itself left out."""
    words = name.split(".")[:-1]
    return [".".join(words[:count]) for count in range(1, len(words) + 1)]


def _size(nbytes: int) -> str:
    """Bytes in a unit that suits their number."""
    for unit, each in (("MB", 1e6), ("kB", 1e3)):
        if nbytes >= each:
            return f"{nbytes / each:.1f} {unit}"
    return f"{nbytes} bytes"


def _modules(counts: Mapping[str, int]) -> str:
    """Modules with their counts, the first few."""
    told = [f"{path or 'the model itself'} ({count})" for path, count in list(counts.items())[:_TOLD]]
    rest = len(counts) - len(told)
    return ", ".join(told) + (f" and {rest} more modules" if rest > 0 else "")
