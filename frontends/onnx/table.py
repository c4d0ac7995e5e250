"""The table of converters: what each op of ONNX says in the IR's ops, by domain, name and opset.

A converter takes the `Conversion` of its node, then the node's inputs in order (values; None for an absent one, and for those
left out at the end the parameter's default), then its attributes by keyword. Attributes are parameters behind the ``*``, named
as in the standard and with the standard's defaults; they arrive as Python numbers, strings and tuples, tensors as weights and
graphs as ``GraphProto``. It returns a value, or a tuple of them for several results.

    @converts("LeakyRelu")
    def leaky_relu(c: Conversion, x: Value, *, alpha: float = 0.01) -> Value:
        return c.b.leaky_relu(x, alpha=alpha)

Where an op means something else in later opsets there are several converters, each with the opset `since` which it holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Converter:
    """One row.

    Attributes:
        since: the first opset that it holds for.
        function: what converts a node.
        attributes: the attributes that it takes; None for any.
        most: how many inputs it takes at most; None for any number.
        seen_through: the op is never kept whole: it becomes sizes, which go into the attributes of others, or nested graphs, in
            which passes have their own work.
    """

    since: int
    function: Function
    attributes: frozenset[str] | None
    most: int | None
    seen_through: bool


CONVERTERS: Final[dict[tuple[str, str], list[Converter]]] = {}
"""The rows of each op, by its domain (empty for the standard one) and name, the latest first."""


def converts(
    *names: str, since: int = 1, domain: str = "", seen_through: bool = False,
) -> Callable[[Function], Function]:  # fmt: skip
    """Decorator: puts a converter into the table for these ops (`seen_through`: see `Converter`).

    Raises:
        ValueError: one has a converter since the same opset already.
    """

    def register(function: Function) -> Function:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        kinds = {each.kind for each in parameters}
        named = frozenset(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)
        attributes = None if inspect.Parameter.VAR_KEYWORD in kinds else named
        positional = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        most = None if inspect.Parameter.VAR_POSITIONAL in kinds else len(positional)
        for name in names:
            rows = CONVERTERS.setdefault((domain, name), [])
            if any(row.since == since for row in rows):
                raise ValueError(f"there is a converter for {name} since opset {since} already")
            rows.append(Converter(since, function, attributes, most, seen_through))
            rows.sort(key=lambda row: -row.since)
        return function

    return register


def converter(domain: str, name: str, opsets: Mapping[str, int]) -> Converter | None:
    """The row for an op in a file that imports these opsets by domain; None when there is none."""
    opset = opsets.get(domain, 1)
    for row in CONVERTERS.get((domain, name), ()):
        if row.since <= opset:
            return row
    return None
