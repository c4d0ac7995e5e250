"""Random numbers, and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.table import converts
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Value


def _dtype(number: int | None, like: Value) -> DType:
    return like.tensor.dtype if number is None else dtype_of(number, "the result")


@converts("RandomUniform")
def random_uniform(
    c: Conversion, *, shape: tuple[int, ...], dtype: int = 1, low: float = 0.0, high: float = 1.0, seed: float | None = None,
) -> Any:  # fmt: skip
    """Numbers spread evenly."""
    return c.b.random_uniform(shape=shape, dtype=dtype_of(dtype, "the result"), low=low, high=high, seed=seed)


@converts("RandomUniformLike")
def random_uniform_like(
    c: Conversion, x: Value, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0, seed: float | None = None,
) -> Any:  # fmt: skip
    """As many as a tensor has elements."""
    return c.b.random_uniform(shape=c.shape(x), dtype=_dtype(dtype, x), low=low, high=high, seed=seed)


@converts("RandomNormal")
def random_normal(
    c: Conversion, *, shape: tuple[int, ...], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None,
) -> Any:  # fmt: skip
    """Numbers from a normal distribution."""
    return c.b.random_normal(shape=shape, dtype=dtype_of(dtype, "the result"), mean=mean, std=scale, seed=seed)


@converts("RandomNormalLike")
def random_normal_like(
    c: Conversion, x: Value, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None,
) -> Any:  # fmt: skip
    """As many as a tensor has elements."""
    return c.b.random_normal(shape=c.shape(x), dtype=_dtype(dtype, x), mean=mean, std=scale, seed=seed)


@converts("Bernoulli")
def bernoulli(c: Conversion, p: Value, *, dtype: int | None = None, seed: float | None = None) -> Any:
    """1 with the probability given, else 0."""
    made = c.b.bernoulli(p, seed=seed)
    return made if dtype is None else c.b.cast(made, dtype=dtype_of(dtype, "the result"))


@converts("Multinomial")
def multinomial(
    c: Conversion, x: Value, *, sample_size: int = 1, dtype: int = 6, seed: float | None = None,
) -> Any:  # fmt: skip
    """Classes drawn with the probabilities whose logarithms, but for a constant, are given: where noise of E. J. Gumbel's
    distribution makes them greatest."""
    b = c.b
    batch, classes = c.shape(x)
    shape: list[Dim] = [batch, sample_size, classes]
    noise = b.random_uniform(shape=shape, dtype=x.tensor.dtype, seed=seed)
    gumbel = b.neg(b.log(b.neg(b.log(noise))))
    drawn = b.argmax(b.add(b.unsqueeze(x, axes=[1]), gumbel), axis=2)
    return b.cast(drawn, dtype=dtype_of(dtype, "the result"))


# ---- dropout


def _dropped(c: Conversion, x: Value, ratio: Value | float, seed: float | None) -> tuple[Value, Value]:
    """What is left, and where."""
    b = c.b
    ratio = c.same_type(ratio, x) if not isinstance(ratio, Value) else b.cast(c.scalar(ratio), dtype=x.tensor.dtype)
    keep = b.sub(c.same_type(1, x), ratio)
    mask = b.bernoulli(b.expand(keep, shape=c.shape(x)), seed=seed)
    # Where all is dropped, nothing is divided by 0.
    left = b.where(b.eq(keep, 0), c.same_type(0, x), b.div(b.mul(x, mask), keep))
    return left, b.cast(mask, dtype=dtypes.bool_)


def _kept(c: Conversion, x: Value) -> tuple[Value, Value | None]:
    _, wants_mask, *_ = [*c.wanted, False]
    mask = c.b.expand(np.True_, shape=c.shape(x)) if wants_mask else None
    return c.b.identity(x), mask


@converts("Dropout", since=12)
def dropout(
    c: Conversion, x: Value, ratio: Value | None = None, training: Value | None = None, *, seed: int | None = None,
) -> Any:  # fmt: skip
    """Nothing but in training mode, where elements are dropped and the others scaled."""
    known = c.known(training)
    off = c.known(ratio)
    if training is None or (known is not None and not known.any()) or (off is not None and not off.any()):
        return _kept(c, x)
    left, mask = _dropped(c, x, 0.5 if ratio is None else ratio, seed)
    if known is not None:
        return left, mask
    on = c.scalar(training)
    return c.b.where(on, left, x), c.b.logical_or(mask, c.b.logical_not(on))


@converts("Dropout", since=7)
def dropout_of_inference(c: Conversion, x: Value, *, ratio: float = 0.5) -> Any:
    """Nothing; the mask has the input's element type before opset 10."""
    same, mask = _kept(c, x)
    return same, c.b.cast(mask, dtype=x.tensor.dtype) if mask is not None and c.opset < 10 else mask


@converts("Dropout")
def dropout_old(c: Conversion, x: Value, *, ratio: float = 0.5, is_test: int = 0, consumed_inputs: Any = ()) -> Any:
    """In training mode unless told otherwise."""
    if is_test or not ratio:
        return dropout_of_inference(c, x, ratio=ratio)
    left, mask = _dropped(c, x, ratio, None)
    return left, c.b.cast(mask, dtype=x.tensor.dtype)
