"""Arithmetic as layers: Power, Scale, Eltwise, Exp, Log."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.backends.caffe.layers import Blob, Layers, dims, emits, refuse, scalar, sizes
from isthmus.backends.caffe.neural import at_least, at_most
from isthmus.backends.caffe.weights import derived, full
from isthmus.ir.graph import Node, Value

_POWERS: Final[dict[str, dict[str, Any]]] = {
    "neg": {"scale": -1.0}, "sqrt": {"power": 0.5}, "rsqrt": {"power": -0.5}, "reciprocal": {"power": -1.0},
}  # fmt: skip


@emits(*_POWERS)
def _power(s: Layers, node: Node, x: Value) -> Blob:
    return s.add("Power", x, **_POWERS[node.op.name])


@emits("exp", "exp2", "expm1")
def _exp(s: Layers, node: Node, x: Value) -> Blob:
    found = s.add("Exp", x, scale=math.log(2) if node.op.name == "exp2" else None, hint="exp")
    return s.add("Power", found, shift=-1.0) if node.op.name == "expm1" else found


@emits("log")
def _log(s: Layers, node: Node, x: Value) -> Blob:
    return s.add("Log", x)


@emits("add", "sub", "mul", "div", "maximum", "minimum", "pow")
def _binary(s: Layers, node: Node, x: Value, y: Value) -> Blob:
    if x.weight is not None and y.weight is not None:
        refuse("both operands are constants")
    name = node.op.name
    if y.weight is not None or x.weight is not None:
        other = x if x.weight is None else y
        if sizes(other) != sizes(node.result):
            refuse("Caffe does not broadcast a blob")
        return _with_constant(s, name, x, y)
    if sizes(x) != sizes(y):
        return _gate(s, node, x, y)
    if name == "pow":
        refuse("the exponent is computed by the model, and Caffe takes only constants there")
    return _together(s, name, x, y)


def _together(s: Layers, name: str, x: Value, y: Value) -> Blob:
    if name == "add":
        return s.add("Eltwise", x, y)
    if name == "sub":
        return s.add("Eltwise", x, y, operation="SUM", coeff=[1.0, -1.0])
    if name == "mul":
        return s.add("Eltwise", x, y, operation="PROD")
    if name == "div":
        return s.add("Eltwise", x, s.add("Power", y, power=-1.0, hint="reciprocal"), operation="PROD")
    if name == "maximum":
        return s.add("Eltwise", x, y, operation="MAX")
    turned = [s.add("Power", each, scale=-1.0, hint="turned") for each in (x, y)]
    return s.add("Power", s.add("Eltwise", *turned, operation="MAX", hint="below"), scale=-1.0)


def _gate(s: Layers, node: Node, x: Value, y: Value) -> Blob:
    """A product with a blob that lacks the trailing axes of the other, by a Scale of two bottoms."""
    if node.op.name == "mul":
        whole, part = (x, y) if sizes(x) == sizes(node.result) else (y, x)
        wanted, given = sizes(whole), sizes(part)
        kept = len(given)
        while kept and given[kept - 1] == 1:
            kept -= 1
        if wanted == sizes(node.result) and len(given) == len(wanted) and kept and given[:kept] == wanted[:kept]:
            lead = s.add("Reshape", part, rank=kept, hint="gate", shape=dims([0] * kept))
            return s.add("Scale", whole, lead, axis=0)
    return refuse("Caffe does not broadcast one blob to another")


def _with_constant(s: Layers, name: str, x: Value, y: Value) -> Blob:
    value, held, first = (x, y, False) if y.weight is not None else (y, x, True)
    number, weight = scalar(held), held.weight
    assert weight is not None
    if number is not None:
        if not np.isfinite(number):
            refuse("the constant is not finite")
        return _with_number(s, name, value, number, first)
    if name in ("maximum", "minimum", "pow") or (name == "div" and first):
        refuse("Caffe takes this with one number, not with a constant of several")
    axis, shape = _run(weight.shape, sizes(value))
    if name == "div":
        weight = derived(weight.shape, _reciprocal, [weight], "reciprocal")
    if name == "sub" and not first:
        weight = derived(weight.shape, lambda array: -array, [weight], "negative")
    if name == "sub" and first:
        value = s.add("Power", value, scale=-1.0, hint="turned")  # type: ignore[assignment]
    more: dict[str, Any] = {} if axis == 1 and len(shape) == 1 else {"axis": axis, "num_axes": len(shape)}
    if name in ("mul", "div"):
        return s.add("Scale", value, blobs=[(weight, shape)], **more)
    return s.add("Scale", value, blobs=[(full(shape, 1.0), shape), (weight, shape)], bias_term=True, **more)


def _reciprocal(array: Any) -> Any:
    with np.errstate(divide="ignore"):
        return 1 / array


def _run(shape: tuple[int, ...], whole: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The run of axes over which a constant varies: where it begins, and its sizes.

    Raises:
        Refused: the axes over which it varies are not a run.
    """
    aligned = (1,) * (len(whole) - len(shape)) + shape
    varies = [axis for axis, size in enumerate(aligned) if size != 1]
    first, last = varies[0], varies[-1]
    if aligned[first : last + 1] != whole[first : last + 1]:
        refuse("the constant does not vary over a run of axes")
    return first, aligned[first : last + 1]


def _with_number(s: Layers, name: str, x: Value, number: float, first: bool) -> Blob:
    if name == "maximum":
        return s.add("ReLU", x) if number == 0 else at_least(s, x, number)
    if name == "minimum":
        return at_most(s, x, number)
    if name == "pow":
        if first:
            return refuse("the base is not positive") if number <= 0 else s.add("Exp", x, scale=math.log(number))
        return s.add("Power", x, power=number)
    if name == "div" and not first and number == 0:
        refuse("the divisor is 0")
    if name == "div" and first:
        found = s.add("Power", x, power=-1.0, hint="reciprocal")
        return s.add("Power", found, scale=number)
    parameters: dict[str, Any] = {
        ("add", False): {"shift": number}, ("add", True): {"shift": number}, ("sub", False): {"shift": -number},
        ("sub", True): {"scale": -1.0, "shift": number}, ("mul", False): {"scale": number}, ("mul", True): {"scale": number},
        ("div", False): {"scale": 1 / number if number else 0.0},
    }[name, first]  # fmt: skip
    return s.add("Power", x, **parameters)

