"""Batch norm behind a convolution or a linear layer becomes part of its weights."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Node, Value
from isthmus.ir.location import merge
from isthmus.ir.weights import Array, LazyWeight, Weight, weight
from isthmus.passes.rewrite import Rewriting
from isthmus.passes.rules import Replacement, on, refuse

_SCALED: Final = ("conv", "conv_transpose", "linear")


@on("batch_norm")
def into_weights(b: Builder, node: Node) -> Replacement:
    """``batch_norm(conv(x, w, c))`` is ``conv(x, w * s, (c - mean) * s + bias)`` with ``s = scale / sqrt(var + eps)``.

    The factors are computed once, in float64, and rounded to the model's type. The weight becomes a lazy one: it is scaled
    in float32 (float64 where it has that type) while it is read, and rounded to its own type.
    """
    x = node.operands[0]
    layer = x.producer if x is not None else None
    if x is None or layer is None or layer.op.name not in _SCALED:
        return None
    if len(x.uses) != 1:
        return refuse(f"the result of {layer.op.name} is used elsewhere", x)
    if layer.op.name == "linear" and x.tensor.rank != 2:
        return refuse("the channels of a linear layer are its last axis", x)
    data, kernel, offset = layer.operands
    held = kernel.weight if kernel is not None else None
    if kernel is None or held is None:
        return refuse("the weight is not a constant", kernel)
    if len(kernel.uses) != 1:
        return refuse("the weight is used elsewhere and would be doubled", kernel)
    parameters: list[Array | None] = []
    for operand in (*node.operands[1:], offset):
        if operand is not None and operand.weight is None:
            return refuse("a parameter is not a constant", operand)
        parameters.append(None if operand is None or operand.weight is None else _wide(operand.weight))
    scale, bias, mean, var, shift = parameters
    assert mean is not None
    assert var is not None
    factor = (1.0 if scale is None else scale) / np.sqrt(var + node.attrs["eps"])
    moved = ((0.0 if shift is None else shift) - mean) * factor + (0.0 if bias is None else bias)
    spread = _along_weight(factor, layer, held)
    name = kernel.name or held.name
    with b.at(merge((layer.location, node.location)).by("batch_norm.into_weights")):
        scaled = b.constant(_scaled(held, spread), name=name)
        added = b.constant(moved.astype(held.dtype.numpy), name=_bias_name(offset, name))
        return [b.emit(layer.op, [data, scaled, added], layer.attrs).result]


def _wide(held: Weight) -> Array:
    return held.array().astype(np.float64)


def _bias_name(offset: Value | None, name: str) -> str:
    return offset.name if offset is not None else f"{name.removesuffix('.weight')}.bias" if name else ""


def _along_weight(factor: Array, layer: Node, held: Weight) -> Array:
    """A factor for each output channel, shaped so that it broadcasts with the weight."""
    tail = (1,) * (len(held.shape) - 2)
    if layer.op.name != "conv_transpose":
        return factor.reshape(-1, 1, *tail)
    groups = layer.attrs["groups"]  # weight[C, O / groups]: the rows of group i make the channels of group i
    spread: Array = np.repeat(factor.reshape(groups, -1), held.shape[0] // groups, axis=0) if groups > 1 else factor[None]
    return spread.reshape(*spread.shape, *tail)


def _scaled(held: Weight, factor: Array) -> Weight:
    working = np.float64 if held.dtype.bits == 64 else np.float32
    by = weight(factor.astype(working))

    def compute(kernel: Any, factor: Any) -> Array:
        result: Array = (kernel.astype(working, copy=False) * factor).astype(kernel.dtype, copy=False)
        return result

    return LazyWeight(held.dtype, held.shape, compute, (held, by), _signature(held.dtype), elementwise=True, name=held.name)


def _signature(dtype: DType) -> str:
    return f"batch_norm.scaled.{dtype}"


class FoldBatchNorm(Rewriting):
    """Folds batch norm into the layers before it."""

    def __init__(self) -> None:
        super().__init__("batch_norm", (into_weights,))
