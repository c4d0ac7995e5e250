"""Layers recovered from products and sums: linear layers, biases, padding."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value
from isthmus.ir.transposed import Transposed
from isthmus.ir.weights import Weight
from isthmus.passes.fuse_normalization import per_channel
from isthmus.passes.matcher import Match
from isthmus.passes.rules import Refused, Replacement, Rewrite, Rule, on, refuse, rule


@rule
def linear(p: Any, x: Any, weight: Any, bias: Any) -> Any:
    """``x @ weight + bias`` with a constant matrix and a constant vector."""
    return p.matmul(x, weight) + bias


@linear.becomes
def _(b: Builder, m: Match) -> Any:
    held, offset = m.weight.weight, m.bias.weight
    if held is None or len(held.shape) != 2:
        return refuse("the weight is not a constant matrix", m.weight)
    if not _weighs_alone(m.weight):
        return refuse("the weight is used elsewhere and would be doubled", m.weight)
    if offset is None or offset.shape != held.shape[1:]:
        return refuse("the bias is not a constant vector with an element a column", m.bias)
    return b.linear(m.x, _turned(b, m.weight, held), m.bias)


@on("matmul")
def linear_alone(b: Builder, node: Node) -> Any:
    """``x @ weight`` with a constant matrix, or one that is turned in the graph."""
    x, weight = node.operands
    node_of = None if weight is None else weight.producer
    turned = node_of is not None and node_of.op.name == "permute" and tuple(node_of.attrs["perm"]) == (1, 0)
    source = node_of.operands[0] if node_of is not None and turned else weight
    held = None if source is None else source.weight
    if x is None or weight is None or held is None or len(held.shape) != 2 or not held.dtype.is_float:
        return None
    if turned:
        return b.linear(x, source, None)
    if not _weighs_alone(weight):
        return refuse("the weight is used elsewhere and would be doubled", weight)
    return b.linear(x, _turned(b, weight, held), None)


def _weighs_alone(weight: Value) -> bool:
    """Whether all that uses a matrix becomes a layer, so that it is turned for each of them."""
    return all(isinstance(user, Node) and user.op.name == "matmul" and index == 1 for user, index in weight.uses)


def _turned(b: Builder, weight: Value, held: Weight) -> Any:
    """A constant matrix with its axes swapped; those of several layers are one."""
    return b.constant(held.source if isinstance(held, Transposed) else Transposed(held, weight.name))


def _joined(b: Builder, bias: Value | None, more: Value) -> Value | Refused:
    """A bias and what is added to it."""
    if bias is not None and bias.weight is None:
        return refuse("the layer has a bias already, which is not a constant", bias)
    return more if bias is None else b.add(bias, more)


@rule
def linear_bias(p: Any, x: Any, weight: Any, offset: Any, bias: Any = None) -> Any:
    """A linear layer, plus a constant vector."""
    return p.linear(x, weight, bias) + offset


@linear_bias.becomes
def _(b: Builder, m: Match) -> Any:
    if m.offset.weight is None or m.offset.weight.shape != m.weight.tensor.shape[:1]:
        return refuse("the bias is not a constant vector with an element a row of the weight", m.offset)
    bias = _joined(b, m.bias, m.offset)
    return bias if isinstance(bias, Refused) else b.linear(m.x, m.weight, bias)


def _channel_bias(name: str) -> Rule:
    def pattern(p: Any, x: Any, weight: Any, offset: Any, bias: Any = None, *, attrs: Any) -> Any:
        return getattr(p, name)(x, weight, bias, attrs=attrs) + offset

    pattern.__name__ = f"{name}_bias"
    pattern.__doc__ = f"{name}, plus one constant a channel."
    made = rule(pattern)

    @made.becomes
    def _(b: Builder, m: Match) -> Any:
        shape = m.root.results[0].tensor.shape
        assert shape is not None
        vector = per_channel(b, m.x, m.offset, shape[1])
        bias = vector if isinstance(vector, Refused) else _joined(b, m.bias, vector)
        return bias if isinstance(bias, Refused) else getattr(b, name)(m.x, m.weight, bias, **m.attrs)

    return made


_FILLING: Final = {"conv": 0.0, "avg_pool": 0.0, "max_pool": -math.inf}
"""What the padding of a layer is taken to hold."""


@on(*_FILLING, behind="pad")
def padding(b: Builder, node: Node) -> Replacement:
    """A pad by what the layer itself would pad with becomes part of the layer's padding."""
    x, attrs = node.operands[0], dict(node.attrs)
    pad = x.producer if x is not None else None
    if x is None or pad is None or pad.op.name != "pad" or pad.attrs["mode"] != "constant":
        return None
    if len(x.uses) != 1:
        return refuse("what is padded is used elsewhere", x)
    if not _fills_with(pad.operands[1], _FILLING[node.op.name]):
        return refuse(f"the layer pads with {_FILLING[node.op.name]}", pad.operands[1])
    before, after = pad.attrs["before"], pad.attrs["after"]
    if any(not isinstance(size, int) for size in (*before, *after)) or any((*before[:2], *after[:2])):
        return refuse("batch or channels are padded, or by unknown sizes", x)
    if attrs.get("ceil_mode"):
        return refuse("windows that are rounded up count padding of their own otherwise", x)
    attrs["pads"] = [own + more for own, more in zip(attrs["pads"], (*before[2:], *after[2:]), strict=True)]
    if "kernel" in attrs and any(size >= kernel for size, kernel in zip(attrs["pads"], attrs["kernel"] * 2, strict=True)):
        return refuse("pools pad by less than their kernel", x)
    if "count_include_pad" in attrs:
        if any(node.attrs["pads"]) and not attrs["count_include_pad"]:
            return refuse("the pool leaves its own padding out of the mean", x)
        attrs["count_include_pad"] = True
    return b.emit(node.op, [pad.operands[0], *node.operands[1:]], attrs).results


def _fills_with(value: Value | None, wanted: float) -> bool:
    if value is None:
        return wanted == 0
    return value.weight is not None and bool(value.weight.array() == wanted)


BIASES: Final[tuple[Rewrite, ...]] = (linear_bias, *map(_channel_bias, ("conv", "conv_transpose")))
LAYERS: Final[tuple[Rewrite, ...]] = (linear, linear_alone, *BIASES, padding)
