"""Normalizations: subtract a mean, divide by a deviation, then scale and shift.

Statistics are biased (divided by the number of elements) and `eps` is added to the variance under the root. Floats of
fewer than 32 bits are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from isthmus.ir import dims
from isthmus.ir.attributes import FLOAT, INT
from isthmus.ir.op import HELD, Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.activations import in_float32
from isthmus.ir.ops.conv import vector, volume
from isthmus.ir.ops.numerics import wide
from isthmus.ir.types import Type

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Value


class Normalization(Op):
    """The family: the result has the type of x; numpy and the finer ops share one formula."""

    traits = Trait.PURE | Trait.COARSE

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x = operands[0]
        with np.errstate(all="ignore"):
            found = self.function(call, *(None if operand is None else wide(operand) for operand in operands))
        return np.asarray(found).astype(x.dtype, copy=False)

    def function(self, call: Call, *operands: Any) -> Any:
        """The result on arrays of float32 or wider."""
        raise NotImplementedError

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        return in_float32(b, call, self.formula, *operands)

    def formula(self, b: Builder, call: Call, *operands: Any) -> Value:
        """The result in finer ops."""
        raise NotImplementedError


def _standardized(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axes, keepdims=True) + eps)


def _standardize(b: Builder, x: Value, axes: Sequence[int], eps: float) -> Value:
    centred = b.sub(x, b.reduce_mean(x, axes=axes, keepdims=True))
    variance = b.reduce_mean(b.mul(centred, centred), axes=axes, keepdims=True)
    return b.div(centred, b.sqrt(b.add(variance, eps)))  # type: ignore[no-any-return]


def _affine(b: Builder, x: Value, scale: Value | None, bias: Value | None) -> Value:
    if scale is not None:
        x = b.mul(x, scale)
    return x if bias is None else b.add(x, bias)


def _channels(call: Call, first: int) -> None:
    """Holds vectors, from operand `first` on, against the channel axis of x."""
    x = call.shape(0)
    if len(x) < 2:
        raise call.error("operand x must have a channel axis 1", found=str(call.types[0]))
    for index in range(first, len(call.types)):
        if call.types[index] is not None:
            call.unify(vector(call, index)[0], x[1], f"the channels of x and the size of {call.op.operand_name(index)}")


def _along(value: Any, rank: int) -> Any:
    """A vector along axis 1 of something of this rank."""
    return None if value is None else value.reshape(-1, *(1,) * (rank - 2))


def _put_along(b: Builder, value: Value | None, rank: int) -> Any:
    return value if value is None or rank == 2 else b.unsqueeze(value, axes=list(range(1, rank - 1)))


@register
class BatchNorm(Normalization):
    """``(x - mean) / sqrt(var + eps) * scale + bias`` with statistics that are given, along channel axis 1.

    This is batch normalization in inference. Everything but x is ``[C]``.
    """

    name = "batch_norm"
    operands = operands("x: float T, scale?: float T, bias?: float T, mean: float T, var: float T")
    attributes = {"eps": FLOAT(1e-5)}
    source = "torch.nn.functional.batch_norm(training=False); ONNX BatchNormalization-15"

    def infer(self, call: Call) -> Sequence[Type]:
        _channels(call, 1)
        return (call.tensor(0),)

    def function(self, call: Call, *operands: Any) -> Any:
        x, scale, bias, mean, var = operands
        factor = 1 / np.sqrt(var + np.asarray(call["eps"], var.dtype))
        factor = factor if scale is None else factor * scale
        shift = -mean * factor if bias is None else bias - mean * factor
        return x * _along(factor, x.ndim) + _along(shift, x.ndim)

    def formula(self, b: Builder, call: Call, *operands: Any) -> Value:
        x, scale, bias, mean, var = operands
        rank = len(call.shape(0))
        factor = b.rsqrt(b.add(var, call["eps"]))
        factor = factor if scale is None else b.mul(factor, scale)
        moved = b.mul(mean, factor)
        shift = b.neg(moved) if bias is None else b.sub(bias, moved)
        return _affine(b, x, _put_along(b, factor, rank), _put_along(b, shift, rank))

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x = draws.standard_normal((2, 3, 4, 5)).astype(np.float32)
        scale, bias, mean, var = (draws.random(3).astype(np.float32) + 0.5 for _ in range(4))
        yield sample(x, scale, bias, mean, var, eps=1e-3)
        yield sample(x, None, None, mean, var, note="plain")
        yield sample(x, None, bias, mean, var, note="bias")
        yield sample(x[:, :, 0, 0], scale, bias, mean, var, note="2d")
        yield sample(*(array.astype(np.float16) for array in (x, scale, bias, mean, var)), note="f16")


class OverTrailing(Normalization):
    """The family that works over the axes from `axis` on; scale and bias have exactly those axes."""

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        shape = call.shape(0)
        trailing = shape[call.axis(call["axis"], len(shape)) :]
        for index in range(1, len(call.types)):
            if call.types[index] is not None:
                given = call.shape(index)
                name = call.op.operand_name(index)
                if len(given) != len(trailing):
                    found = str(call.types[index])
                    raise call.error(f"{name} must have the normalized axes", expected=str(list(trailing)), found=found)
                if given != trailing:
                    for left, right in zip(given, trailing, strict=True):
                        call.unify(left, right, f"the sizes of x and {name}")
        return (x,)

    def axes(self, call: Call) -> tuple[int, ...]:
        """The normalized axes."""
        rank = len(call.shape(0))
        return tuple(range(call["axis"] % rank, rank))

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x = draws.standard_normal((2, 3, 4)).astype(np.float32)
        trailing = [draws.random(4).astype(np.float32) + 0.5 for _ in self.operands[1:]]
        matrices = [draws.random((3, 4)).astype(np.float32) + 0.5 for _ in self.operands[1:]]
        yield sample(x, *trailing, axis=2)
        yield sample(x, *matrices, axis=1, eps=1e-3, note="two-axes")
        yield sample(x, axis=2, note="plain")
        yield sample(x.astype(np.float16), *(array.astype(np.float16) for array in trailing), axis=2, note="f16")
        yield sample(x.astype(ml_dtypes.bfloat16), axis=2, note="bf16")


@register
class LayerNorm(OverTrailing):
    """``(x - mean) / sqrt(var + eps) * scale + bias`` with the statistics of the axes from `axis` on."""

    name = "layer_norm"
    operands = operands("x: float T, scale?: float T, bias?: float T")
    attributes = {"axis": INT, "eps": FLOAT(1e-5)}
    source = "torch.nn.functional.layer_norm; ONNX LayerNormalization-17"

    def function(self, call: Call, *operands: Any) -> Any:
        x, scale, bias = operands
        result = _standardized(x, self.axes(call), call["eps"])
        result = result if scale is None else result * scale
        return result if bias is None else result + bias

    def formula(self, b: Builder, call: Call, *operands: Any) -> Value:
        x, scale, bias = operands
        return _affine(b, _standardize(b, x, self.axes(call), call["eps"]), scale, bias)

    def samples(self) -> Iterable[Sample]:
        yield from super().samples()
        x = rng().standard_normal((2, 4)).astype(np.float32)
        yield sample(x, None, x[0], axis=1, note="bias")


@register
class RmsNorm(OverTrailing):
    """``x / sqrt(mean(x * x) + eps) * scale`` with the mean over the axes from `axis` on."""

    name = "rms_norm"
    operands = operands("x: float T, scale?: float T")
    attributes = {"axis": INT, "eps": FLOAT(1e-5)}
    source = "torch.nn.functional.rms_norm; ONNX RMSNormalization-23"

    def function(self, call: Call, *operands: Any) -> Any:
        x, scale = operands
        result = x / np.sqrt((x * x).mean(self.axes(call), keepdims=True) + call["eps"])
        return result if scale is None else result * scale

    def formula(self, b: Builder, call: Call, *operands: Any) -> Value:
        x, scale = operands
        square = b.reduce_mean(b.mul(x, x), axes=self.axes(call), keepdims=True)
        return _affine(b, b.div(x, b.sqrt(b.add(square, call["eps"]))), scale, None)


@register
class GroupNorm(Normalization):
    """Normalizes ``x[N, C, ...]`` over each of `groups` equal runs of channels, with all later axes.

    Then multiplies by ``scale[C]`` and adds ``bias[C]``.
    """

    name = "group_norm"
    operands = operands("x: float T, scale?: float T, bias?: float T")
    attributes = {"groups": INT, "eps": FLOAT(1e-5)}
    source = "torch.nn.functional.group_norm; ONNX GroupNormalization-21"

    def infer(self, call: Call) -> Sequence[Type]:
        _channels(call, 1)
        channels = call.shape(0)[1]
        if call["groups"] < 1 or (isinstance(channels, int) and channels % call["groups"]):
            raise call.error(f"{channels} channels do not divide into {call['groups']} groups")
        return (call.tensor(0),)

    def function(self, call: Call, *operands: Any) -> Any:
        x, scale, bias = operands
        grouped = x.reshape(x.shape[0], call["groups"], -1) if x.size else x
        result = _standardized(grouped, (2,), call["eps"]).reshape(x.shape) if x.size else x
        result = result if scale is None else result * _along(scale, x.ndim)
        return result if bias is None else result + _along(bias, x.ndim)

    def formula(self, b: Builder, call: Call, *operands: Any) -> Value:
        x, scale, bias = operands
        shape = call.shape(0)
        rest = dims.product(shape[2:]) * dims.floordiv(shape[1], call["groups"])
        grouped = b.reshape(x, shape=[shape[0], call["groups"], rest])
        result = b.reshape(_standardize(b, grouped, [2], call["eps"]), shape=shape)
        return _affine(b, result, _put_along(b, scale, len(shape)), _put_along(b, bias, len(shape)))

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x = draws.standard_normal((2, 4, 3, 5)).astype(np.float32)
        scale, bias = (draws.random(4).astype(np.float32) for _ in range(2))
        yield sample(x, scale, bias, groups=2)
        yield sample(x, groups=4, eps=1e-3, note="plain")
        yield sample(x[:, :, 0, 0], scale, bias, groups=1, note="2d")
        yield sample(*(array.astype(np.float16) for array in (x, scale, bias)), groups=2, note="f16")


@register
class InstanceNorm(Normalization):
    """Normalizes each channel of each element of ``x[N, C, spatial...]`` over the spatial axes.

    Then multiplies by ``scale[C]`` and adds ``bias[C]``.
    """

    name = "instance_norm"
    operands = operands("x: float T, scale?: float T, bias?: float T")
    attributes = {"eps": FLOAT(1e-5)}
    source = "torch.nn.functional.instance_norm; ONNX InstanceNormalization-22"

    def infer(self, call: Call) -> Sequence[Type]:
        _channels(call, 1)
        if len(call.shape(0)) < 3:
            raise call.error("operand x must have a spatial axis", found=str(call.types[0]))
        return (call.tensor(0),)

    def function(self, call: Call, *operands: Any) -> Any:
        x, scale, bias = operands
        result = _standardized(x, tuple(range(2, x.ndim)), call["eps"])
        result = result if scale is None else result * _along(scale, x.ndim)
        return result if bias is None else result + _along(bias, x.ndim)

    def formula(self, b: Builder, call: Call, *operands: Any) -> Value:
        x, scale, bias = operands
        rank = len(call.shape(0))
        result = _standardize(b, x, range(2, rank), call["eps"])
        return _affine(b, result, _put_along(b, scale, rank), _put_along(b, bias, rank))

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x = draws.standard_normal((2, 3, 4, 5)).astype(np.float32)
        scale, bias = (draws.random(3).astype(np.float32) for _ in range(2))
        yield sample(x, scale, bias)
        yield sample(x[:, :, 0], eps=1e-3, note="1d")
        yield sample(*(array.astype(np.float16) for array in (x, scale, bias)), note="f16")


@register
class LocalResponseNorm(Normalization):
    """``x / (k + alpha * mean) ** beta`` with the mean of the squares of `size` neighbouring channels of ``x[N, C, ...]``:
    the channel itself, ``(size - 1) // 2`` before it and the others behind; those that there are not count as 0.
    """

    name = "local_response_norm"
    operands = operands("x: float T")
    attributes = {"size": INT, "alpha": FLOAT(1e-4), "beta": FLOAT(0.75), "k": FLOAT(1.0)}
    source = "ONNX LRN-13"

    def infer(self, call: Call) -> Sequence[Type]:
        _channels(call, 1)
        if call["size"] < 1:
            raise call.error(f"a size of {call['size']}", expected="1 or more")
        return (call.tensor(0),)

    def effort(self, call: Call) -> int:
        batch, channels, *rest = call.shape(0)
        return HELD * volume([batch, channels + call["size"], *rest]) + volume([*call.shape(0), call["size"]])

    def function(self, call: Call, *operands: Any) -> Any:
        (x,), size = operands, call["size"]
        before = (size - 1) // 2
        squares = np.pad(x * x, [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)])
        total = sum(squares[:, place : place + x.shape[1]] for place in range(size))
        return x / (call["k"] + call["alpha"] / size * total) ** call["beta"]

    def formula(self, b: Builder, call: Call, *operands: Any) -> Value:
        (x,), size, (batch, channels, *rest) = operands, call["size"], call.shape(0)
        before = (size - 1) // 2
        squares = b.reshape(b.mul(x, x), shape=[batch, 1, channels, dims.product(rest)])
        pads = [before, 0, size - 1 - before, 0]
        mean = b.avg_pool(squares, kernel=[size, 1], strides=[1, 1], pads=pads, divisor=size)
        total = b.add(b.mul(b.reshape(mean, shape=call.shape(0)), call["alpha"]), call["k"])
        return b.div(x, b.pow(total, call["beta"]))  # type: ignore[no-any-return]

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 7, 3, 4)).astype(np.float32)
        yield sample(x, size=5, alpha=0.3)
        yield sample(x, size=4, alpha=0.7, beta=0.5, k=2.0, note="even")
        yield sample(x[:, :2, 0, 0], size=9, alpha=1.0, note="wider-than-channels")
        yield sample(x.astype(np.float16), size=3, note="f16")
