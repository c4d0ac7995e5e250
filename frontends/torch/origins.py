"""What a value comes from: inputs, by content or by size, and random numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from isthmus.ir.dims import Symbol, resolve, symbols
from isthmus.ir.graph import Graph, Value
from isthmus.ir.op import Trait


@dataclass
class Origins:
    """What values come from.

    Attributes:
        inputs: inputs of the graph whose content they depend on.
        sizes: sizes of inputs that they depend on, with the input.
        random: where random numbers were drawn.
        within: they depend on what a loop carries, or another argument of a nested graph.
    """

    inputs: dict[Value, None] = field(default_factory=dict)
    sizes: dict[Symbol, Value] = field(default_factory=dict)
    random: dict[str, None] = field(default_factory=dict)
    within: bool = False

    def __str__(self) -> str:
        names = [value.name for value in self.inputs]
        told = [f"the input{'s' if len(names) > 1 else ''} {_listed(names)}"] if names else []
        if not names:  # what depends on an input's content says enough
            told += [f"the size {symbol} of the input {value.name}" for symbol, value in self.sizes.items()]
        told += [f"random numbers drawn at {place}" for place in self.random]
        return _listed([*told, *(["what a loop or branch is given"] if self.within else [])])


def origins(graph: Graph, values: Iterable[Value], dims: Iterable[Symbol] = ()) -> Origins:
    """What values, and symbols that stand for sizes or for integers from data, come from.

    Args:
        graph: the graph at the top.
        values: values of it.
        dims: symbols of it.
    """
    binders = graph.binders()
    found = Origins()
    stack: list[Value | Symbol] = [*values, *dims]
    seen: set[Value | Symbol] = set()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, Symbol):
            stack += symbols(resolve(value.dim))
            binder, axis = binders.get(value, (None, None))
            if binder is not None and binder.producer is None and axis is not None:
                found.sizes[value] = binder
            elif binder is not None:
                stack.append(binder)
            elif value.joined is None:  # bound in the graph of a branch or loop that is being watched
                found.within = True
            continue
        node = value.producer
        if node is not None:
            if Trait.RANDOM in node.op.traits:
                found.random[str(node.location)] = None
            stack += node.walk_values()
            stack += node.symbols()
        elif value.owner is graph:
            found.inputs[value] = None
        elif value.owner.parent is not None:
            stack += value.owner.parent.walk_values()
        else:  # the graph of a branch or loop that is being watched
            found.within = True
    order = {value: place for place, value in enumerate(graph.inputs)}
    found.inputs = dict.fromkeys(sorted(found.inputs, key=lambda value: order.get(value, 0)))
    return found


def _listed(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)
