"""Walks nested graphs without recursion, so that the depth of regions costs no stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Steps: TypeAlias = Iterator[Any]
"""A generator that does its work as it goes; whatever it yields is another one, run to its end before it goes on."""


def run(steps: Steps) -> None:
    """Runs a generator, and in its place each one that it yields."""
    stack = [steps]
    while stack:
        inner = next(stack[-1], None)
        if inner is None:
            stack.pop()
        else:
            stack.append(inner)
