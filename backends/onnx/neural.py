"""Emitters of linear layers, convolutions, normalizations and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import ml_dtypes
import numpy as np

from isthmus.backends import taps
from isthmus.backends.formulas import SEARCHED, every
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, product, same
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Call
from isthmus.ir.ops.activations import in_float32
from isthmus.ir.ops.attention import scale_of, shared_by, turned
from isthmus.ir.ops.linalg import plain_equation
from isthmus.ir.transposed import Transposed


def shape_of(node: Node, index: int = 0) -> tuple[Dim, ...]:
    """The shape of an operand whose rank is known."""
    value = node.operands[index]
    assert value is not None
    shape = value.tensor.shape
    return refuse("the rank is not known") if shape is None else shape


@emits("linear")
def _linear(e: Emitter, node: Node, x: str, weight: str, bias: str | None) -> Any:
    matrix = node.operands[1]
    assert matrix is not None
    handle = matrix.weight
    if isinstance(handle, Transposed) and all(_weighs(user, index) for user, index in matrix.uses):
        if not e.probing:
            e.let_go(matrix)
        turned = e.weight(handle.source, matrix.name)  # as it lies there, and under the name that it has
        return e.op("Gemm", x, turned, bias) if _is_gemm(node) and bias is not None else _product(e, x, turned, bias)
    if _is_gemm(node):
        if bias is None and e.opset < 11:
            bias = e.constant(0, node.result.tensor.dtype)
        return e.op("Gemm", x, weight, bias, transB=1)
    if handle is None:
        refuse("a matrix that the model computes is turned in the graph")
    if all(_weighs(user, index) and not _is_gemm(user) for user, index in matrix.uses):
        return _product(e, x, e.weight(Transposed(handle), f"{matrix.name or handle.name or 'weight'}.T"), bias)
    # The matrix as it is has other uses: turning it in the graph is cheaper than a second copy in the file.
    return _product(e, x, e.op("Transpose", weight, perm=[1, 0]), bias)


def _product(e: Emitter, x: str, matrix: str, bias: str | None) -> Any:
    found = e.op("MatMul", x, matrix)
    return found if bias is None else e.op("Add", found, bias)


def _is_gemm(node: Node) -> bool:
    return len(shape_of(node)) == 2


def _weighs(user: Node | Graph, index: int) -> TypeGuard[Node]:
    return isinstance(user, Node) and user.op.name == "linear" and index == 1


@emits("einsum")
def _einsum(e: Emitter, node: Node, xs: list[str]) -> Any:
    equation = plain_equation(node.attrs["equation"])
    terms = equation.split("->")[0].split(",")
    if any(len(set(term.replace(".", ""))) < len(term.replace(".", "")) for term in terms):
        refuse("onnxruntime's Einsum takes a diagonal wrongly")
    axes = {len(shape_of(node, index)) + 3 - len(term) for index, term in enumerate(terms) if "..." in term}
    if len(axes) > 1:
        refuse("onnxruntime's Einsum takes no ellipses of different numbers of axes")
    return e.op("Einsum", *xs, equation=equation)


@emits("conv")
def _conv(e: Emitter, node: Node, x: str, weight: str, bias: str | None) -> Any:
    attrs = node.attrs
    kernel = shape_of(node, 1)[2:]
    return e.op(
        "Conv", x, weight, bias, kernel_shape=ints(kernel), strides=attrs["strides"], pads=attrs["pads"],
        dilations=attrs["dilations"], group=attrs["groups"],
    )  # fmt: skip


def ints(dims: tuple[Dim, ...]) -> list[int] | None:
    """The dims as integers, or None where one is not."""
    found = [dim for dim in dims if isinstance(dim, int)]
    return found if len(found) == len(dims) else None


@emits("conv_transpose")
def _conv_transpose(e: Emitter, node: Node, x: str, weight: str, bias: str | None) -> Any:
    attrs = node.attrs
    if any(extra >= stride for extra, stride in zip(attrs["output_padding"], attrs["strides"], strict=True) if extra):
        refuse("onnxruntime takes no output padding of a stride or more")
    return e.op(
        "ConvTranspose", x, weight, bias, kernel_shape=ints(shape_of(node, 1)[2:]), strides=attrs["strides"],
        pads=attrs["pads"], output_padding=attrs["output_padding"], dilations=attrs["dilations"], group=attrs["groups"],
    )  # fmt: skip


lowers("conv")(taps.conv)
lowers("conv_transpose")(taps.conv_transpose)


# ---- normalizations


def _channel_vector(e: Emitter, node: Node, given: str | None, fill: float) -> str:
    if given is not None:
        return given
    channels = shape_of(node)[1]
    if not isinstance(channels, int):
        refuse("the number of channels is not known")
    return e.filled((channels,), fill, node.result.tensor.dtype)


@emits("batch_norm")
def _batch_norm(e: Emitter, node: Node, x: str, scale: str | None, bias: str | None, mean: str, var: str) -> Any:
    scale, bias = _channel_vector(e, node, scale, 1), _channel_vector(e, node, bias, 0)
    return e.op("BatchNormalization", x, scale, bias, mean, var, epsilon=node.attrs["eps"])


@emits("layer_norm", since=17)
def _layer_norm(e: Emitter, node: Node, x: str, scale: str | None, bias: str | None) -> Any:
    axis = node.attrs["axis"]
    _of_something(node)
    return e.op("LayerNormalization", x, scale or _ones(e, node), bias, axis=axis, epsilon=node.attrs["eps"])


def _of_something(node: Node) -> None:
    if any(bounds(dim)[0] < 1 for dim in shape_of(node)[node.attrs["axis"] :]):
        refuse("onnxruntime does not normalize over an axis of size 0")


def _ones(e: Emitter, node: Node) -> str:
    trailing = ints(shape_of(node)[node.attrs["axis"] :])
    if trailing is None:
        refuse("the normalized sizes are not known, and ONNX needs a scale")
    return e.filled(trailing, 1, node.result.tensor.dtype)


@emits("rms_norm", since=23)
def _rms_norm(e: Emitter, node: Node, x: str, scale: str | None) -> Any:
    _of_something(node)
    return e.op("RMSNormalization", x, scale or _ones(e, node), axis=node.attrs["axis"], epsilon=node.attrs["eps"])


@lowers("rms_norm")
def _rms_norm_to_fuse(b: Builder, node: Node, x: Value, scale: Value | None) -> Any:
    """The square is a power: a product onnxruntime would not know again as a norm, for which it has a kernel."""
    if any(bounds(dim)[0] < 1 for dim in shape_of(node)[node.attrs["axis"] :]):
        return None  # which does not take that
    return in_float32(b, node.call(), _root_mean_square, x, scale)


def _root_mean_square(b: Builder, call: Call, x: Value, scale: Value | None) -> Any:
    axes = list(range(call["axis"] % x.tensor.rank, x.tensor.rank))
    square = b.reduce_mean(b.pow(x, 2.0), axes=axes, keepdims=True)
    found = b.div(x, b.sqrt(b.add(square, call["eps"])))
    return found if scale is None else b.mul(found, scale)


@lowers("gelu")
def _gelu_to_fuse(b: Builder, node: Node, x: Value) -> Any:
    """As onnxruntime knows it again: not by a product with the reciprocal of the root of 2, nor by the cube as products."""
    return in_float32(b, node.call(), _by_tanh if node.attrs["approximate"] == "tanh" else _by_erf, x)


def _by_erf(b: Builder, call: Call, x: Value) -> Any:
    return b.mul(b.mul(x, b.add(b.erf(b.div(x, math.sqrt(2))), 1.0)), 0.5)


def _by_tanh(b: Builder, call: Call, x: Value) -> Any:
    inner = b.mul(b.add(b.mul(b.pow(x, 3.0), 0.044715), x), math.sqrt(2 / math.pi))
    return b.mul(b.mul(x, 0.5), b.add(b.tanh(inner), 1.0))


@emits("instance_norm")
def _instance_norm(e: Emitter, node: Node, x: str, scale: str | None, bias: str | None) -> Any:
    scale, bias = _channel_vector(e, node, scale, 1), _channel_vector(e, node, bias, 0)
    return e.op("InstanceNormalization", x, scale, bias, epsilon=node.attrs["eps"])


@emits("group_norm")
def _group_norm(e: Emitter, node: Node, x: str, scale: str | None, bias: str | None) -> Any:
    # The standard's function takes the mean of squares less the square of the mean, and onnxruntime runs that: around 100
    # two digits are left, around 1000 nan.
    return refuse("onnxruntime's GroupNormalization loses the variance where the mean is great")


@lowers("group_norm")
def _group_norm_by_instances(b: Builder, node: Node, x: Value, scale: Value | None, bias: Value | None) -> Any:
    """Each group as a channel of its own."""
    batch, channels, *places = shape_of(node)
    groups = node.attrs["groups"]
    if x.tensor.dtype is not dtypes.f32 or not isinstance(channels, int):
        return None
    rows = b.reshape(x, shape=[batch, groups, product([channels // groups, *places])])
    found = b.reshape(b.instance_norm(rows, None, None, eps=node.attrs["eps"]), shape=shape_of(node))
    column = [channels] + [1] * len(places)
    if scale is not None:
        found = b.mul(found, b.reshape(scale, shape=column))
    return found if bias is None else b.add(found, b.reshape(bias, shape=column))


@emits("local_response_norm")
def _local_response_norm(e: Emitter, node: Node, x: str) -> Any:
    attrs = node.attrs
    if len(shape_of(node)) != 4 or attrs["size"] % 2 == 0:
        refuse("onnxruntime's LRN is for images and odd sizes")
    return e.op("LRN", x, size=attrs["size"], alpha=attrs["alpha"], beta=attrs["beta"], bias=attrs["k"])


# ---- attention


@emits("attention", since=23)
def _attention(e: Emitter, node: Node, q: str, k: str, v: str, mask: str | None) -> Any:
    if not _heads_fit(node):
        refuse("ONNX's Attention takes [batch, heads, length, size], and broadcasts neither batch nor heads")
    kernel = e.profile.base == "onnxruntime" and e.opset < 25  # later it runs the standard's function
    if e.profile.base == "onnxruntime" and not _takes(node):
        refuse("onnxruntime runs no Attention over what may be empty, nor with a scale that has no root")
    # A narrower mask means another thing: it hides what it does not reach. The kernel wants all rows too; the standard's
    # function broadcasts them.
    if mask is not None and not _mask_fits(node, rows=kernel):
        refuse("Attention does not broadcast the mask")
    if kernel and not _leaves_rows(node.operands[3]):
        refuse("where a mask that is added is of the least number, onnxruntime gives 0 in place of the mean")
    return e.op("Attention", q, k, v, mask, scale=node.attrs["scale"], is_causal=int(node.attrs["causal"]) or None)


def _takes(node: Node) -> bool:
    """Whether there surely are elements, and the scale is none that onnxruntime, which takes its root, makes nan."""
    scale = node.attrs["scale"]
    some = all(bounds(dim)[0] >= 1 for index in range(3) for dim in shape_of(node, index))
    return some and (scale is None or 0 < scale < math.inf)


def _heads_fit(node: Node) -> bool:
    """Whether q, k and v are [batch, heads, length, size] with the same batch and heads, or with heads that are shared."""
    q, k, v = (shape_of(node, index) for index in range(3))
    if {len(q), len(k), len(v)} != {4}:
        return False
    heads = same(q[1], k[1]) is True or shared_by(q, k, v) > 1
    return heads and all(same(*pair) is True for pair in ((q[0], k[0]), (k[0], v[0]), (k[1], v[1])))


def _mask_fits(node: Node, rows: bool) -> bool:
    """Whether the mask has all columns and, where asked for, all rows. One of rank 0 or 1 has no rows."""
    shape = shape_of(node, 3)
    wanted = (shape_of(node)[-2] if rows or len(shape) < 2 else shape[-2], shape_of(node, 1)[-2])
    return len(shape) >= 2 and all(same(old, new) is True for old, new in zip(shape[-2:], wanted, strict=True))


@lowers("attention", since=23)
def _attention_by_kernel(b: Builder, node: Node, q: Value, k: Value, v: Value, mask: Value | None) -> Any:
    lower = _attention_with_whole_mask if _leaves_rows(mask) else _attention_plain
    return lower(b, node, q, k, v, mask)


@lowers("attention", since=25)
def _attention_with_whole_mask(b: Builder, node: Node, q: Value, k: Value, v: Value, mask: Value | None) -> Any:
    """A mask that only has to be broadcast is expanded; layers that share it share that."""
    if mask is None or not _takes(node) or not _heads_fit(node) or _mask_fits(node, rows=True):
        return _attention_plain(b, node, q, k, v, mask)
    own, wanted = shape_of(node, 3), (shape_of(node)[-2], shape_of(node, 1)[-2])
    pairs = zip(reversed(own), reversed(wanted), strict=False)
    if any(same(size, 1) is not True and same(size, whole) is not True for size, whole in pairs):
        return _attention_plain(b, node, q, k, v, mask)  # it may have one row or all
    return b.attention(q, k, v, b.expand(mask, shape=[*own[:-2], *wanted]), **node.attrs)


@lowers("attention")
def _attention_plain(b: Builder, node: Node, q: Value, k: Value, v: Value, mask: Value | None) -> Any:
    """Without guards where no row can be hidden altogether; the keys are turned together with what turned them before."""
    dtype, scale, size = q.tensor.dtype, node.attrs["scale"], shape_of(node)[-1]
    added = mask is not None and mask.tensor.dtype is dtype
    hidden = mask is not None and added and not _finite(mask)
    shared = shared_by(shape_of(node), shape_of(node, 1), shape_of(node, 2)) > 1
    if node.attrs["causal"] or dtype.bits < 32 or not isinstance(size, int) or hidden or shared:
        return None
    scaled = q if scale == 1 else b.mul(q, b.constant(scale_of(size) if scale is None else scale, dtype))
    scores = b.matmul(scaled, turned(b, k))
    if added:
        scores = b.add(scores, mask)
    elif mask is not None:
        scores = b.where(mask, scores, -math.inf)
    weights = b.softmax(scores, axis=scores.tensor.rank - 1)
    if mask is not None and not added and not _sees_something(mask):
        # A row that sees nothing is nan; 0 wherever nothing is seen sets that right.
        weights = b.where(mask, weights, 0.0)
    return b.matmul(weights, v)


def _sees_something(mask: Value) -> bool:
    """Whether it is known that no row of a mask of bools hides all."""
    held = mask.weight
    return held is not None and held.size <= SEARCHED and held.shape != () and bool(held.array().any(-1).all())


def _finite(value: Value) -> bool:
    """Whether every element is known to be finite."""
    return every(value, lambda array: bool(np.all(np.isfinite(array.astype(np.float64)))), _finite_if)


def _finite_if(node: Node) -> Sequence[Value | None] | None:
    if node.op.name == "where":
        return node.operands[1:]
    if node.op.name == "cast" and node.operands[0] is not None:
        source = node.operands[0].tensor.dtype
        return () if source is dtypes.bool_ or (source.is_integer and node.result.tensor.dtype.bits >= 32) else None
    if node.op.name == "mul" and any(_is_cast_bool(operand) for operand in node.operands):
        return [operand for operand in node.operands if not _is_cast_bool(operand)]
    return None


def _is_cast_bool(value: Value | None) -> bool:
    node = value.producer if value is not None else None
    source = node.operands[0] if node is not None and node.op.name == "cast" else None
    return source is not None and source.tensor.dtype is dtypes.bool_


def _leaves_rows(mask: Value | None) -> bool:
    """Whether a mask is known not to bring a row of scores to the least number, which onnxruntime takes for hidden.

    A bool one never does, nor do numbers far from the least, nor minus infinity, which hides indeed.
    """
    if mask is None or not mask.tensor.dtype.is_float:
        return True
    least = float(ml_dtypes.finfo(mask.tensor.dtype.numpy).min) / 2

    def holds(array: Any) -> bool:
        wide = array.astype(np.float64)
        return bool(np.all((wide == -math.inf) | (wide >= least)))

    def told(node: Node) -> Sequence[Value | None] | None:
        sources = _finite_if(node)
        times = sources is not None and node.op.name == "mul"  # 0 times infinity is nan
        return None if times and not all(_finite(source) for source in sources or () if source is not None) else sources

    return every(mask, holds, told)
