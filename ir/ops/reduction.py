"""Reductions over axes, running sums, and the place of the greatest and least element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import BOOL, FLOAT, INT, INTS
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, product
from isthmus.ir.dtypes import i64
from isthmus.ir.op import OPS, Call, Op, Operand, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.activations import in_float32
from isthmus.ir.ops.numerics import Elements, compute, follow, held, highest, lowest, maximum_dims, minimum_dims
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.ir.graph import Value

Function = Callable[..., Any]


def reduced(call: Call) -> tuple[Dim, ...]:
    """The first operand's shape without the attribute `axes`, or with 1 in their place where `keepdims` holds."""
    shape = call.shape(0)
    axes = {call.axis(axis, len(shape)) for axis in call["axes"]}
    if len(axes) != len(call["axes"]):
        raise call.error(f"axes {list(call['axes'])} name an axis twice")
    if call["keepdims"]:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


class Reduction(Op):
    """The family: reduces `axes` (none reduces nothing), keeping them as 1 where `keepdims` holds.

    Args:
        name: the op's name.
        signature: its operand, as for `operands`.
        function: a function of the array, `axis` and `keepdims`.
        meaning: what it does, for its documentation.
        source: where the semantics are defined.
        follows: the same of an array of dims, where small integer tensors are followed through it.
    """

    attributes = {"axes": INTS, "keepdims": BOOL(False)}
    traits = Trait.PURE | Trait.IDENTITY

    def __init__(
        self, name: str, signature: str, function: Function, meaning: str, source: str, follows: Function | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.operands: tuple[Operand, ...] = operands(signature)
        self.function = function
        self.source = source
        self.follows = follows
        self.__doc__ = f"{meaning} over `axes`; with `keepdims` they stay, of size 1. Small floats are summed in float32."

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(call.dtype(0), reduced(call)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        axes, keepdims = tuple(call["axes"]), call["keepdims"]
        return compute(lambda x: self.function(x, axis=axes, keepdims=keepdims), operands[0])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        function = self.follows
        if function is None:
            return None
        axes, keepdims = tuple(call["axes"]), call["keepdims"]
        return held(call.dtype(0), follow(call, lambda x: function(x, axis=axes, keepdims=keepdims), operands))

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x = draws.standard_normal((2, 3, 4)).astype(np.float32)
        allowed = self.operands[0].dtypes or frozenset()
        names = {d.name for d in allowed}
        kinds: dict[str, Any] = {"f32": x, "f16": x.astype(np.float16), "bf16": x.astype(ml_dtypes.bfloat16), "bool": x > 0,
                 "i64": draws.integers(-4, 5, (2, 3, 4)), "u8": draws.integers(0, 9, (2, 3, 4)).astype(np.uint8)}  # fmt: skip
        arrays = {name: array for name, array in kinds.items() if name in names}
        for name, array in arrays.items():
            yield sample(array, axes=[1], note=name)
        first = next(iter(arrays.values()))
        yield sample(first, axes=[0, 2], keepdims=True, note="keepdims")
        yield sample(first, axes=[-1], note="negative")
        yield sample(first, axes=[0, 1, 2], note="all")
        yield sample(first, axes=[], note="no-axes")
        yield sample(first[0, 0, 0], axes=[], note="scalar")
        yield sample(first[:, :0], axes=[0], note="empty")
        yield sample(first[:, :0], axes=[1], note="over-empty")
        if "f32" in names:
            yield sample(np.array([[1, np.nan, 3], [np.inf, 2, 1]], np.float32), axes=[1], note="nan")


def _extreme(function: Function, start: Callable[[Any], Any]) -> Function:
    return lambda x, axis, keepdims: function(x, axis=axis, keepdims=keepdims, initial=start(x.dtype))


def _extreme_dims(function: Any) -> Function:
    """The least or greatest of dims, of which there must be one."""

    def reduce(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        if not x.size:
            raise IndexError
        for place in sorted((each % x.ndim for each in axis), reverse=True):
            x = function.reduce(x, axis=place, keepdims=keepdims)
        return x

    return reduce


def _sum(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.sum(x, axis, x.dtype, keepdims=keepdims)


def _product(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.prod(x, axis, x.dtype, keepdims=keepdims)


def mean(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """`numpy.mean`, but without a warning where there is nothing."""
    return np.sum(x, axis, keepdims=keepdims) / x.dtype.type(math.prod(x.shape[place] for place in axis))


def _logsumexp(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0).astype(x.dtype)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else total.reshape(np.sum(x, axis=axis).shape)


for _row in (
    Reduction("reduce_sum", "x: numeric T", _sum, "The sum", "numpy.sum, in the element type", follows=_sum),
    Reduction("reduce_prod", "x: numeric T", _product, "The product", "numpy.prod, in the element type", follows=_product),
    Reduction("reduce_max", "x: ordered T", _extreme(np.max, lowest),
              "The greatest element (nan when there is one; of none, the least value of the type)", "numpy.max",
              follows=_extreme_dims(maximum_dims)),
    Reduction("reduce_min", "x: ordered T", _extreme(np.min, highest),
              "The least element (nan when there is one; of none, the greatest value of the type)", "numpy.min",
              follows=_extreme_dims(minimum_dims)),
    Reduction("reduce_mean", "x: inexact T", mean, "The mean (of none, nan)", "numpy.mean"),
    Reduction("reduce_any", "x: bool T", np.any, "Whether any element holds", "numpy.any"),
    Reduction("reduce_all", "x: bool T", np.all, "Whether all elements hold", "numpy.all"),
):  # fmt: skip
    OPS.register(_row)


class LogSumExp(Reduction):
    """The row `logsumexp`: coarse, with the maximum taken out before the exponentials."""

    traits = Trait.PURE | Trait.COARSE

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        (x,) = operands
        axes, dtype = call["axes"], call.dtype(0)
        top = b.reduce_max(x, axes=axes, keepdims=True)
        top = b.where(b.is_finite(top), top, b.constant(0, dtype))
        total = b.add(b.log(b.reduce_sum(b.exp(b.sub(x, top)), axes=axes, keepdims=True)), top)
        return total if call["keepdims"] else b.squeeze(total, axes=axes)


OPS.register(LogSumExp("logsumexp", "x: float T", _logsumexp, "The logarithm of the sum of exponentials", "torch.logsumexp"))


class Length(Reduction):
    """The row `reduce_l2`: coarse, and rounded once."""

    traits = Trait.PURE | Trait.COARSE

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        def formula(b: Builder, call: Call, x: Value) -> Value:
            return b.sqrt(b.reduce_sum(b.mul(x, x), **call.attrs))  # type: ignore[no-any-return]

        return in_float32(b, call, formula, *operands)


def _length(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.sqrt(np.sum(x * x, axis, x.dtype, keepdims=keepdims))


OPS.register(Length("reduce_l2", "x: float T", _length, "The square root of the sum of squares", "ONNX ReduceL2-18"))


@register
class ReduceVar(Op):
    """The variance over `axes`: squared distances from the mean, summed, divided by ``max(0, count - correction)``."""

    name = "reduce_var"
    operands = operands("x: float T")
    attributes = {"axes": INTS, "keepdims": BOOL(False), "correction": FLOAT(1.0)}
    traits = Trait.PURE | Trait.COARSE
    source = "torch.var"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(call.dtype(0), reduced(call)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        axes, keepdims = tuple(call["axes"]), call["keepdims"]

        def variance(x: Any) -> Any:
            squares = (x - mean(x, axes, True)) ** 2
            count = math.prod(x.shape[axis] for axis in axes)
            return np.sum(squares, axes, keepdims=keepdims) / x.dtype.type(max(0.0, count - call["correction"]))

        return compute(variance, operands[0])

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        (x,) = operands
        axes, keepdims, correction, dtype = call["axes"], call["keepdims"], call["correction"], call.dtype(0)
        distance = b.sub(x, b.reduce_mean(x, axes=axes, keepdims=True))
        squares = b.mul(distance, distance)
        if correction == 0:
            return b.reduce_mean(squares, axes=axes, keepdims=keepdims)
        count = product([call.shape(0)[axis] for axis in axes])
        if isinstance(count, int):
            divisor = b.constant(max(0.0, count - correction), dtype)
        else:
            divisor = b.sub(b.cast(b.size(count), dtype=dtype), b.constant(correction, dtype))
            divisor = b.maximum(divisor, b.constant(0, dtype))
        return b.div(b.reduce_sum(squares, axes=axes, keepdims=keepdims), divisor)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3, 4)).astype(np.float32)
        yield sample(x, axes=[1])
        yield sample(x, axes=[0, 2], keepdims=True, correction=0, note="population")
        yield sample(x.astype(np.float16), axes=[-1], correction=2.5, note="f16")
        yield sample(x.astype(ml_dtypes.bfloat16), axes=[-1], keepdims=True, note="bf16")
        yield sample(x[:, :1], axes=[1], note="of-one")
        yield sample(x[:0], axes=[1], note="empty")


class ArgExtreme(Op):
    """The family of `argmax` and `argmin`: the place along `axis`, the first where several are equal; a nan wins."""

    attributes = {"axis": INT, "keepdims": BOOL(False)}
    operands = operands("x: ordered T")

    def __init__(self, name: str, function: Function, meaning: str) -> None:
        self.name = name
        self.function = function
        self.source = f"numpy.{name}"
        self.__doc__ = f"The place of the {meaning} element along `axis` as i64: the first where several are equal; nan wins."

    def infer(self, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        axis = call.axis(call["axis"], len(shape))
        return (Tensor(i64, shape[:axis] + ((1,) if call["keepdims"] else ()) + shape[axis + 1 :]),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return compute(lambda x: self.function(x, axis=call["axis"], keepdims=call["keepdims"]), operands[0], dtype=np.int64)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3, 4)).astype(np.float32)
        yield sample(x, axis=1)
        yield sample(x, axis=-1, keepdims=True, note="keepdims")
        yield sample(np.array([[1, 3, 3], [2, 1, 1]]), axis=1, note="ties-i64")
        yield sample(np.array([1, np.nan, 3, np.nan], np.float16), axis=0, note="nan-f16")
        yield sample(x > 0, axis=2, note="bool")
        yield sample(x[:0], axis=1, note="empty")


OPS.register(ArgExtreme("argmax", np.argmax, "greatest"))
OPS.register(ArgExtreme("argmin", np.argmin, "least"))


class Cumulative(Op):
    """The family of `cumsum` and `cumprod`."""

    attributes = {"axis": INT, "exclusive": BOOL(False), "reverse": BOOL(False)}
    operands = operands("x: numeric T")

    def __init__(self, name: str, function: Function, start: int, meaning: str) -> None:
        self.name = name
        self.function = function
        self.start = start
        self.source = f"numpy.{name}, in the element type; ONNX CumSum for `exclusive` and `reverse`"
        self.__doc__ = (
            f"The running {meaning} along `axis`. With `exclusive`, each element leaves itself out; with `reverse`, it runs"
            " from the end. Small floats are computed in float32."
        )

    def infer(self, call: Call) -> Sequence[Type]:
        call.axis(call["axis"], len(call.shape(0)))
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        def run(x: Any) -> Any:
            x = np.moveaxis(x, call["axis"], 0)
            x = x[::-1] if call["reverse"] else x
            if call["exclusive"] and len(x):
                x = np.concatenate([np.full_like(x[:1], self.start), x[:-1]])
            found = self.function(x, axis=0, dtype=x.dtype)
            return np.moveaxis(found[::-1] if call["reverse"] else found, 0, call["axis"])

        return compute(run, operands[0])

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3, 4)).astype(np.float32)
        yield sample(x, axis=1)
        yield sample(x, axis=-1, exclusive=True, note="exclusive")
        yield sample(x, axis=2, reverse=True, note="reverse")
        yield sample(x, axis=0, exclusive=True, reverse=True, note="exclusive-reverse")
        yield sample(x.astype(np.float16), axis=1, note="f16")
        yield sample(np.arange(1, 5), axis=0, note="i64")
        yield sample(x[:, :0], axis=1, exclusive=True, note="empty")


OPS.register(Cumulative("cumsum", np.cumsum, 0, "sum"))
OPS.register(Cumulative("cumprod", np.cumprod, 1, "product"))
