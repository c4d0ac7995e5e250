"""Emitters of control flow, effects, whole modules and ops from other domains."""

from __future__ import annotations

from typing import Any

import onnx

from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits, refuse
from isthmus.ir.graph import Node
from isthmus.ir.weights import Weight


@emits("if")
def _if(e: Emitter, node: Node, cond: str) -> Any:
    then, otherwise = (e.subgraph(region) for region in node.regions)
    found = e.op("If", cond, results=len(node.results), then_branch=then, else_branch=otherwise)
    return (found,) if len(node.results) == 1 else found


@emits("loop")
def _loop(e: Emitter, node: Node, trip: str | None, cond: str | None, inputs: list[str]) -> Any:
    attrs = node.attrs
    scanned = len(inputs) - attrs["carried"]
    if scanned:
        refuse("ONNX's Loop has no scan inputs")
    found = e.op("Loop", trip, cond, *inputs, results=len(node.results), body=e.subgraph(node.regions[0]))
    return (found,) if len(node.results) == 1 else found


@emits("check")
def _check(e: Emitter, node: Node, cond: str) -> Any:
    e.note(f"a check was left out, since ONNX has none: {node.attrs['message'] or 'without a message'} ({node.location})")


@emits("print")
def _print(e: Emitter, node: Node, x: str) -> Any:
    e.note(f"a print was left out, since ONNX has none: {node.attrs['message'] or 'without a message'} ({node.location})")


@emits("custom")
def _custom(e: Emitter, node: Node, inputs: list[str]) -> Any:
    attrs = node.attrs
    given = {key: _plain(value) for key, value in attrs["attributes"].items()}
    found = e.op(attrs["name"], *inputs, results=len(node.results), domain=attrs["domain"] or "custom", **given)
    return (found,) if len(node.results) == 1 else found


def _plain(value: Any) -> Any:
    """An attribute of a custom op in a form that ONNX has."""
    if isinstance(value, Weight):
        return onnx.numpy_helper.from_array(value.array())
    if not isinstance(value, (bool, int, float, str, bytes, tuple, list)) and value is not None:
        refuse(f"an attribute holds {value!r}, for which ONNX has no form")
    return value
