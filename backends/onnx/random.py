"""Emitters of random numbers."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.backends.formulas import SEARCHED
from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.graph import Node, Value

LACKING: Final = 22
"""From this opset on onnxruntime draws nothing but the mask of Dropout."""

_BITS: Final = {dtypes.f32: 24, dtypes.f64: 53}


@emits("random_uniform")
def _random_uniform(e: Emitter, node: Node) -> Any:
    return _random(e, node, "RandomUniform", low=node.attrs["low"], high=node.attrs["high"], seed=node.attrs["seed"])


@emits("random_normal")
def _random_normal(e: Emitter, node: Node) -> Any:
    return _random(e, node, "RandomNormal", mean=node.attrs["mean"], scale=node.attrs["std"], seed=node.attrs["seed"])


def _random(e: Emitter, node: Node, op_type: str, **attrs: Any) -> Any:
    shape: tuple[Dim, ...] = node.attrs["shape"]
    dtype = node.attrs["dtype"]
    if e.opset >= LACKING:
        refuse(f"onnxruntime has no kernel for {op_type}-{LACKING}")
    if dtype not in (dtypes.f32, dtypes.f64):
        refuse(f"onnxruntime draws no random numbers in {dtype}")
    if shape and all(isinstance(dim, int) for dim in shape):
        return e.op(op_type, dtype=opsets.enum(dtype), shape=list(shape), **attrs)
    like = e.filled([1] * len(shape), 0, dtypes.f32)
    if shape:
        sizes = e.sizes.vector(shape)
        like = e.op("ConstantOfShape", sizes) if e.opset >= 9 else e.op("Tile", like, sizes)
    return e.op(f"{op_type}Like", like, dtype=opsets.enum(dtype), **attrs)


@lowers("random_uniform", "random_normal")
def _random_wide(b: Builder, node: Node) -> Any:
    dtype = node.attrs["dtype"]
    if dtype in (dtypes.f32, dtypes.f64):
        return None
    return b.cast(getattr(b, node.op.name)(**{**node.attrs, "dtype": dtypes.f32}), dtype=dtype)


@lowers("random_uniform", since=LACKING)
def _uniform_of_bits(b: Builder, node: Node) -> Any:
    """As many bits as the element type has, each drawn by itself, times what each stands for."""
    attrs = node.attrs
    count = _BITS.get(attrs["dtype"])
    if count is None:
        return _random_wide(b, node)
    half = b.expand(b.constant(0.5, attrs["dtype"]), shape=[*attrs["shape"], count])
    drawn = b.bernoulli(half, seed=attrs["seed"])
    unit = b.matmul(drawn, b.constant(0.5 ** np.arange(1, count + 1), attrs["dtype"]))
    return b.add(b.mul(unit, attrs["high"] - attrs["low"]), attrs["low"])


@lowers("random_normal", since=LACKING)
def _normal_of_uniform(b: Builder, node: Node) -> Any:
    """By G. E. P. Box and M. E. Muller: the distance from the middle and the direction are drawn."""
    attrs = node.attrs
    if attrs["dtype"] not in _BITS:
        return _random_wide(b, node)
    both = b.random_uniform(shape=[2, *attrs["shape"]], dtype=attrs["dtype"], seed=attrs["seed"])
    first, second = (
        b.squeeze(b.slice(both, axes=[0], starts=[at], ends=[at + 1], steps=[1]), axes=[0]) for at in (0, 1)
    )
    distance = b.sqrt(b.mul(b.log(b.sub(1.0, first)), -2.0))
    return b.add(b.mul(b.mul(distance, b.cos(b.mul(second, 2 * math.pi))), attrs["std"]), attrs["mean"])


@emits("bernoulli")
def _bernoulli(e: Emitter, node: Node, p: str) -> Any:
    """The mask of a Dropout, where there is nothing else to draw with."""
    kept = _chance(node.operands[0])
    if e.opset < LACKING or kept is None or not 0 < kept <= 1:
        refuse("onnxruntime runs the standard's function for Bernoulli, which gives 1 where 0 is meant")
    seed, dtype = node.attrs["seed"], node.result.tensor.dtype
    whole = None if seed is None else int(np.float32(seed).view(np.int32))
    ratio, training = e.constant(1 - kept, dtypes.f32), e.constant(True, dtypes.bool_)
    _, mask = e.op("Dropout", p, ratio, training, results=2, seed=whole)
    return e.op("Cast", mask, to=opsets.enum(dtype))


def _chance(p: Value | None) -> float | None:
    """The one probability that all elements have; None where they may differ."""
    source = None if p is None else p.producer
    if source is not None and source.op.name == "expand":
        p = source.operands[0]
    weight = None if p is None else p.weight
    if weight is None or not 0 < weight.size <= SEARCHED:
        return None
    array = weight.array()
    return float(array.flat[0]) if bool(np.all(array == array.flat[0])) else None


@lowers("bernoulli")
def _bernoulli_by_uniform(b: Builder, node: Node, p: Value) -> Any:
    dtype = p.tensor.dtype
    return b.cast(b.lt(b.random_uniform(shape=p.tensor.shape, dtype=dtype, seed=node.attrs["seed"]), p), dtype=dtype)
