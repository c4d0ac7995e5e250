"""Batch norm and factors before and behind a convolution or a linear layer become part of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.graph import Node, Value
from isthmus.ir.weights import Array, LazyWeight, Weight, weight
from isthmus.passes.fuse_layers import BIASES
from isthmus.passes.rewrite import Rewriting
from isthmus.passes.rules import Refused, Replacement, on, refuse

_LAYERS: Final = ("conv", "conv_transpose", "linear")


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer whose weights may be changed.

    Attributes:
        node: the layer.
        kernel: its weight's value.
        held: its weight.
        offset: its bias in float64; None where it has none.
    """

    node: Node
    kernel: Value
    held: Weight
    offset: Array | None


def _layer(node: Node) -> _Layer | Refused:
    _, kernel, offset = node.operands
    held = kernel.weight if kernel is not None else None
    if kernel is None or held is None:
        return refuse("the weight is not a constant", kernel)
    if len(kernel.uses) != 1:
        return refuse("the weight is used elsewhere and would be doubled", kernel)
    bias = _constants([offset])
    return bias if isinstance(bias, Refused) else _Layer(node, kernel, held, bias[0])


def _before(value: Value | None) -> Node | Refused | None:
    """The layer that makes a value, when nothing else sees it."""
    node = value.producer if value is not None else None
    if value is None or node is None or node.op.name not in _LAYERS:
        return None
    return node if len(value.uses) == 1 else refuse(f"the result of {node.op.name} is used elsewhere", value)


def _constants(operands: Sequence[Value | None]) -> list[Array | None] | Refused:
    """Operands in float64; None for an absent one."""
    found: list[Array | None] = []
    for operand in operands:
        if operand is not None and operand.weight is None:
            return refuse("a parameter is not a constant", operand)
        found.append(None if operand is None or operand.weight is None else operand.weight.array().astype(np.float64))
    return found


def _affine(norm: Node) -> tuple[Array, Array] | Refused:
    """The factor and the offset of each channel that a batch norm comes to."""
    found = _constants(norm.operands[1:])
    if isinstance(found, Refused):
        return found
    scale, bias, mean, var = found
    assert mean is not None
    assert var is not None
    with np.errstate(all="ignore"):
        factor: Array = (1.0 if scale is None else scale) / np.sqrt(var + norm.attrs["eps"])
        shift: Array = (0.0 if bias is None else bias) - mean * factor
        rounded = [each.astype(norm.result.tensor.dtype.numpy) for each in (factor, shift)]
    if not all(np.all(np.isfinite(each)) for each in rounded):
        return refuse("the factor is not finite", norm.operands[-1])
    return factor, shift


@on("batch_norm")
def into_weights(b: Builder, node: Node) -> Replacement:
    """``batch_norm(conv(x, w, c))`` is ``conv(x, w * s, (c - mean) * s + bias)`` with ``s = scale / sqrt(var + eps)``.

    The factors are computed once, in float64, and rounded to the model's type. The weight becomes a lazy one: it is scaled
    in float32 (float64 where it has that type) while it is read, and rounded to its own type.
    """
    x = node.operands[0]
    before = _before(x)
    if before is None or isinstance(before, Refused) or x is None:
        return before if isinstance(before, Refused) else None
    if before.op.name == "linear" and x.tensor.rank != 2:
        return refuse("the channels of a linear layer are its last axis", x)
    layer, affine = _layer(before), _affine(node)
    if isinstance(layer, Refused) or isinstance(affine, Refused):
        return layer if isinstance(layer, Refused) else affine if isinstance(affine, Refused) else None
    factor, shift = affine
    moved = shift if layer.offset is None else shift + layer.offset * factor
    return _rebuilt(b, layer, before.operands[0], _along(factor, layer, True), moved)


@on(*_LAYERS)
def from_inputs(b: Builder, node: Node) -> Replacement:
    """``conv(batch_norm(x), w, c)``: factors go into the weight, and what the offsets come to behind it into the bias.

    Padding stands for zeros behind the norm, so that with an offset there must be none.
    """
    x = node.operands[0]
    norm = x.producer if x is not None else None
    if x is None or norm is None or norm.op.name != "batch_norm":
        return None
    if len(x.uses) != 1:
        return refuse("the result of batch_norm is used elsewhere", x)
    if node.op.name == "linear" and x.tensor.rank != 2:
        return refuse("the channels of a linear layer are its last axis", x)
    layer, affine = _layer(node), _affine(norm)
    if isinstance(layer, Refused) or isinstance(affine, Refused):
        return layer if isinstance(layer, Refused) else affine if isinstance(affine, Refused) else None
    factor, shift = (_along(each, layer, False) for each in affine)
    if not np.any(shift):
        return _rebuilt(b, layer, norm.operands[0], factor, layer.offset)
    if any(node.attrs.get("pads", ())) or node.op.name == "conv_transpose":
        return refuse("the norm has an offset, and places at the edge see less of it", x)
    return _rebuilt(b, layer, norm.operands[0], factor, _Shifted(layer.held, shift, layer.offset))


@on("mul", "div")
def factor(b: Builder, node: Node) -> Replacement:
    """A layer times or over constants, one a channel or one for all."""
    for index in (0, 1) if node.op.name == "mul" else (0,):
        x, by = node.operands[index], node.operands[1 - index]
        before = _before(x)
        if before is None or by is None or x is None:
            continue
        if isinstance(before, Refused):
            return before
        if by.weight is None or not by.weight.dtype.is_float or by.weight.nbytes > _LARGEST:
            return refuse("the factor is not a constant", by)
        layer, last = _layer(before), before.op.name == "linear"
        if isinstance(layer, Refused):
            return layer
        numbers = by.weight.array().astype(np.float64)
        rank, channels = x.tensor.rank, (x.tensor.shape or ())[-1 if last else 1]
        axis = rank - 1 if last else 1
        spread = numbers.reshape((1,) * (rank - numbers.ndim) + numbers.shape) if numbers.ndim <= rank else numbers
        if spread.shape not in ((1,) * rank, tuple(channels if place == axis else 1 for place in range(rank))):
            return refuse("the factor is not one number a channel", by)
        vector = np.broadcast_to(spread.reshape(-1), (channels,)) if isinstance(channels, int) else spread.reshape(-1)
        vector = vector if node.op.name == "mul" else 1 / vector if np.all(vector) else np.full(1, np.nan)
        if not np.all(np.isfinite(vector)):
            return refuse("the factor is not finite", by)
        moved = None if layer.offset is None else layer.offset * vector
        return _rebuilt(b, layer, before.operands[0], _along(vector, layer, True), moved)
    return None


_LARGEST: Final = 1 << 20
"""Factors up to so many bytes are looked into."""


def _rebuilt(
    b: Builder, layer: _Layer, x: Value | None, spread: Array, bias: Array | Weight | None
) -> list[Value]:
    """The layer with its weight scaled and another bias."""
    node, held = layer.node, layer.held
    name = layer.kernel.name or held.name
    offset = node.operands[2]
    scaled, added = b.constant(_scaled(held, spread), name=name), None
    if bias is not None:
        content = bias if isinstance(bias, Weight) else bias.astype(held.dtype.numpy)
        given = offset.name if offset is not None else ""
        added = b.constant(content, name=given or (f"{name.removesuffix('.weight')}.bias" if name else ""))
    return [b.emit(node.op, [x, scaled, added], node.attrs).result]


def _along(factor: Array, layer: _Layer, outputs: bool) -> Array:
    """A number for each output or input channel, shaped so that it broadcasts with the weight.

    The weight is ``[O, C / groups, ...]``, or ``[C, O / groups, ...]`` of a transposed convolution: the rows of a group go
    with the channels of that group on the other side.
    """
    tail = (1,) * (len(layer.held.shape) - 2)
    if outputs != (layer.node.op.name == "conv_transpose"):
        return factor.reshape(-1, 1, *tail)
    groups = layer.node.attrs.get("groups", 1)
    spread: Array = factor[None]
    if groups > 1:
        spread = np.repeat(factor.reshape(groups, -1), layer.held.shape[0] // groups, axis=0)
    return spread.reshape(*spread.shape, *tail)


def _scaled(held: Weight, factor: Array) -> Weight:
    working = np.float64 if held.dtype.bits == 64 else np.float32
    by = weight(factor.astype(working))

    def compute(kernel: Any, factor: Any) -> Array:
        result: Array = (kernel.astype(working, copy=False) * factor).astype(kernel.dtype, copy=False)
        return result

    signature = f"batch_norm.scaled.{held.dtype}"
    return LazyWeight(held.dtype, held.shape, compute, (held, by), signature, elementwise=True, name=held.name)


class _Shifted(LazyWeight):
    """What offsets of the input channels come to behind a layer, and the layer's own bias."""

    def __init__(self, held: Weight, shift: Array, offset: Array | None) -> None:
        sources = (held, weight(shift), *(() if offset is None else (weight(offset),)))
        super().__init__(held.dtype, held.shape[:1], self.compute_bias, sources, f"batch_norm.shifted.{held.dtype}")

    @staticmethod
    def compute_bias(kernel: Any, shift: Any, offset: Any = 0.0) -> Array:
        whole = (kernel.astype(np.float64) * shift).reshape(kernel.shape[0], -1).sum(1) + offset
        result: Array = whole.astype(kernel.dtype)
        return result


class FoldBatchNorm(Rewriting):
    """Folds batch norm, factors and offsets into the layers around which they stand."""

    def __init__(self) -> None:
        super().__init__("batch_norm", (into_weights, from_inputs, factor, *BIASES))
