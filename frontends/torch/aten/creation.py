"""Tensors made from sizes and numbers, and random ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from isthmus.frontends.torch.aten.common import Number, default_float, full
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers, torch_dtype
from isthmus.frontends.torch.weights import contents
from isthmus.ir.dims import Dim, Expr, bounds, maximum
from isthmus.ir.dtypes import DType, f64, i64
from isthmus.ir.graph import Value


@lowers("aten.full")
def full_(w: Lowering, size: Sequence[Dim], fill_value: Scalar, dtype: DType | None = None) -> Any:
    return full(w, size, fill_value, dtype or w.result_type(fill_value))


@lowers("aten.full_like")
def full_like(w: Lowering, x: Value, fill_value: Scalar, dtype: DType | None = None) -> Any:
    return full(w, w.dims(x), fill_value, dtype or x.tensor.dtype)


@lowers("aten.new_full")
def new_full(w: Lowering, x: Value, size: Sequence[Dim], fill_value: Scalar, dtype: DType | None = None) -> Any:
    return full(w, size, fill_value, dtype or x.tensor.dtype)


def _filled(name: str, number: int, *more: str) -> None:
    """The family `name`: from sizes, like a tensor, and from sizes with a tensor's element type."""

    def from_sizes(
        w: Lowering, size: Sequence[Dim], stride: Sequence[Dim] = (), physical_layout: Sequence[int] = (),
        dtype: DType | None = None,
    ) -> Any:  # fmt: skip
        return full(w, size, number, dtype or default_float())

    def like(w: Lowering, x: Value, dtype: DType | None = None) -> Any:
        return full(w, w.dims(x), number, dtype or x.tensor.dtype)

    def new(w: Lowering, x: Value, size: Sequence[Dim], stride: Sequence[Dim] = (), dtype: DType | None = None) -> Any:
        return full(w, size, number, dtype or x.tensor.dtype)

    lowers(*(f"aten.{each}" for each in more or (name,)))(from_sizes)
    lowers(f"aten.{name}_like")(like)
    lowers(f"aten.new_{name}", *(["aten.new_empty_strided"] if more else []))(new)


_filled("zeros", 0)
_filled("ones", 1)
_filled("empty", 0, "empty.memory_format", "empty_strided", "empty_permuted")  # what it holds is open


@lowers("aten._efficientzerotensor")
def zero_tangent(w: Lowering, size: Sequence[Dim], dtype: DType | None = None) -> Any:
    """The tangent, in a forward derivative, of what does not depend on the input."""
    return full(w, size, 0, dtype or default_float())


@lowers("aten._shape_as_tensor")
def shape_as_tensor(w: Lowering, x: Value) -> Any:
    sizes = [w.b.unsqueeze(w.tensor(size, i64), axes=[0]) for size in w.dims(x)]
    return w.b.concat(sizes, axis=0) if sizes else full(w, [0], 0, i64)


@lowers("aten.scalar_tensor")
def scalar_tensor(w: Lowering, s: Scalar, dtype: DType | None = None) -> Any:
    return w.tensor(s, dtype or default_float())


# ---- sequences of numbers


@lowers("aten.arange", "aten.arange.start", "aten.arange.start_step")
def arange(w: Lowering, end: Scalar, start: Scalar = 0, step: Scalar = 1, dtype: DType | None = None) -> Any:
    """Integers by default, unless a bound or the step is a float."""
    if any(isinstance(x, Value) for x in (start, end, step)):
        w.unsupported("the bounds are fractions of sizes, so that the length is not known", "use // in place of /")
    floats = [x for x in (start, end, step) if isinstance(x, float)]
    dtype = dtype or (default_float() if floats else i64)
    if not any(not x.is_integer() for x in floats):
        first, stop, stride = (x if isinstance(x, Expr) else int(x) for x in (start, end, step))  # type: ignore[arg-type]
        return w.b.arange(start=first, stop=stop, step=stride, dtype=dtype)
    if isinstance(start, float) and isinstance(end, Expr) and step == 1 and dtype.is_float:
        whole, exact = math.floor(start), float(np.array(start, dtype.numpy)) == start
        places = w.b.arange(start=whole, stop=end, step=1, dtype=dtype if exact else f64)
        return w.cast(w.b.add(places, start - whole), dtype)
    if any(isinstance(x, Expr) for x in (start, end, step)):
        w.unsupported("a range over sizes must have integer bounds and an integer step", "multiply an integer range instead")
    known = torch.ops.aten.arange.start_step(start, end, step, dtype=torch_dtype(dtype))
    return w.b.constant(contents(known))  # torch's own: integers are counted from the start without its fraction


@lowers("aten.linspace", "aten.linspace.Tensor_Tensor", "aten.linspace.Tensor_Scalar", "aten.linspace.Scalar_Tensor")
def linspace(w: Lowering, start: Number, end: Number, steps: Dim, dtype: DType | None = None) -> Any:
    """The first half is counted from the start and the second from the end, as torch does, so that both are met.

    Known ones are torch's own, whose integers depend on how many numbers its kernel makes at once.
    """
    dtype = dtype or default_float()
    if isinstance(steps, int) and isinstance(start, (int, float)) and isinstance(end, (int, float)):
        return w.b.constant(contents(torch.ops.aten.linspace.default(start, end, steps, dtype=torch_dtype(dtype))))
    return w.cast(_spaced(w, start, end, steps, dtype, dtype if dtype.is_float else f64), dtype)


@lowers("aten.logspace", "aten.logspace.Tensor_Tensor", "aten.logspace.Tensor_Scalar", "aten.logspace.Scalar_Tensor")
def logspace(w: Lowering, start: Number, end: Number, steps: Dim, base: float = 10.0, dtype: DType | None = None) -> Any:
    """Powers whose exponents are evenly spaced; known ones are torch's own."""
    dtype = dtype or default_float()
    if isinstance(steps, int) and isinstance(start, (int, float)) and isinstance(end, (int, float)):
        return w.b.constant(contents(torch.ops.aten.logspace.default(start, end, steps, base, dtype=torch_dtype(dtype))))
    return w.cast(w.b.pow(float(base), _spaced(w, start, end, steps, dtype, f64)), dtype)


def _spaced(w: Lowering, start: Number, end: Number, steps: Dim, dtype: DType, work: DType) -> Value:
    """Evenly spaced numbers between bounds that are rounded to the element type first."""
    first, last = (w.cast(w.tensor(bound, dtype), work) for bound in (start, end))
    if steps == 1:
        return w.b.unsqueeze(first, axes=[0])  # type: ignore[no-any-return]
    number = w.b.arange(start=0, stop=steps, dtype=i64)
    step = w.b.div(w.b.sub(last, first), w.tensor(maximum(steps - 1, 1), work))
    forwards = w.b.add(first, w.b.mul(step, w.cast(number, work)))
    left = w.b.sub(w.tensor(steps - 1, i64), number)
    backwards = w.b.sub(last, w.b.mul(step, w.cast(left, work)))
    half = maximum(steps // 2, 2 - steps)  # a single one is the start
    return w.b.where(w.b.lt(number, w.tensor(half, i64)), forwards, backwards)  # type: ignore[no-any-return]


@lowers("aten.eye", "aten.eye.m")
def eye(w: Lowering, n: Dim, m: Dim | None = None, dtype: DType | None = None) -> Any:
    rows = w.b.unsqueeze(w.b.arange(start=0, stop=n, dtype=i64), axes=[1])
    return w.cast(w.b.eq(rows, w.b.arange(start=0, stop=n if m is None else m, dtype=i64)), dtype or default_float())


def _triangle(name: str, upper: bool) -> None:
    def lowering(w: Lowering, x: Value, diagonal: Dim = 0) -> Any:
        return w.b.trilu(x, upper=upper, diagonal=diagonal)

    def places(w: Lowering, row: int, col: int, offset: int = 0, dtype: DType = i64) -> Any:
        distance = np.arange(col) - np.arange(row)[:, None]
        found = np.nonzero(distance >= offset if upper else distance <= offset)
        return w.b.constant(np.stack(found).astype(dtype.numpy))

    lowers(f"aten.{name}")(lowering)
    lowers(f"aten.{name}_indices")(places)


_triangle("triu", True)
_triangle("tril", False)


# ---- random


def _random(name: str, build: Any) -> None:
    def from_sizes(w: Lowering, size: Sequence[Dim], dtype: DType | None = None) -> Any:
        return build(w, size, dtype or default_float())

    def like(w: Lowering, x: Value, dtype: DType | None = None) -> Any:
        return build(w, w.dims(x), dtype or x.tensor.dtype)

    lowers(f"aten.{name}", f"aten.{name}.generator")(from_sizes)
    lowers(f"aten.{name}_like", f"aten.{name}_like.generator")(like)


_random("rand", lambda w, shape, dtype: w.b.random_uniform(shape=shape, dtype=dtype))
_random("randn", lambda w, shape, dtype: w.b.random_normal(shape=shape, dtype=dtype, mean=0.0, std=1.0))


@lowers("aten.randperm", "aten.randperm.generator")
def randperm(w: Lowering, n: Dim, dtype: DType = i64) -> Any:
    """The order that sorts as many random numbers."""
    return w.cast(w.b.sort(w.b.random_uniform(shape=[n], dtype=default_float()), axis=0)[1], dtype)


@lowers("aten.exponential")
def exponential(w: Lowering, x: Value, lambd: float = 1.0) -> Any:
    dtype = x.tensor.dtype
    rest = w.b.sub(w.tensor(1, dtype), w.b.random_uniform(shape=w.dims(x), dtype=dtype))  # above 0, up to 1
    return w.b.div(w.b.neg(w.b.log(rest)), lambd)


@lowers("aten.uniform")
def uniform(w: Lowering, x: Value, from_: float, to: float = 1.0) -> Any:
    return w.b.random_uniform(shape=w.dims(x), dtype=x.tensor.dtype, low=from_, high=to)


@lowers("aten.cauchy")
def cauchy(w: Lowering, x: Value, median: float = 0.0, sigma: float = 1.0) -> Any:
    dtype = x.tensor.dtype
    angle = w.b.mul(w.b.random_uniform(shape=w.dims(x), dtype=dtype, low=-0.5, high=0.5), math.pi)
    return w.b.add(w.b.mul(w.b.tan(angle), sigma), median)


@lowers("aten.geometric")
def geometric(w: Lowering, x: Value, p: float) -> Any:
    """How many draws there are up to the first that succeeds with this chance."""
    dtype = x.tensor.dtype if x.tensor.dtype.is_float else default_float()
    rest = w.b.sub(w.tensor(1, dtype), w.b.random_uniform(shape=w.dims(x), dtype=dtype))
    draws = w.b.ceil(w.b.div(w.b.log(rest), math.log1p(-p)))
    return w.cast(w.b.maximum(draws, 1), x.tensor.dtype)


@lowers("aten.log_normal")
def log_normal(w: Lowering, x: Value, mean: float = 1.0, std: float = 2.0) -> Any:
    return w.b.exp(normal_functional(w, x, mean, std))


@lowers("aten.normal_functional")
def normal_functional(w: Lowering, x: Value, mean: float = 0.0, std: float = 1.0) -> Any:
    return w.b.random_normal(shape=w.dims(x), dtype=x.tensor.dtype, mean=mean, std=std)


@lowers("aten.normal.float_float")
def normal_of_size(w: Lowering, mean: float, std: float, size: Sequence[Dim], dtype: DType | None = None) -> Any:
    return w.b.random_normal(shape=size, dtype=dtype or default_float(), mean=mean, std=std)


@lowers("aten.randint_like", "aten.randint_like.generator")
@lowers("aten.randint_like.low_dtype", "aten.randint_like.low_generator_dtype")
def randint_like(w: Lowering, x: Value, high: Dim, low: Dim = 0, dtype: DType | None = None) -> Any:
    return randint(w, high, w.dims(x), low, dtype or x.tensor.dtype)


@lowers("aten.randint", "aten.randint.generator", "aten.randint.low", "aten.randint.low_generator")
def randint(w: Lowering, high: Dim, size: Sequence[Dim], low: Dim = 0, dtype: DType = i64) -> Any:
    """Drawn in double precision where a float could be rounded up to `high`."""
    exact = default_float() if bounds(high - low)[1] <= 1 << 24 else f64
    spread = w.b.mul(w.b.random_uniform(shape=size, dtype=exact), w.tensor(high - low, exact))
    return w.cast(w.b.add(w.cast(w.b.floor(spread), i64), w.tensor(low, i64)), dtype)


@lowers("aten.bernoulli", "aten.bernoulli.p", "aten.bernoulli.Tensor")
def bernoulli(w: Lowering, x: Value, p: Number | None = None) -> Any:
    """Each element is 1 with the probability that `p` says, or that it is itself."""
    chance = x if p is None else full(w, w.dims(x), p, default_float()) if not isinstance(p, Value) else p
    return w.cast(w.b.bernoulli(chance), x.tensor.dtype)


@lowers("aten.multinomial")
def multinomial(w: Lowering, x: Value, num_samples: Dim, replacement: bool = False) -> Any:
    """Places drawn with the probabilities that each row gives them, up to a factor."""
    axis, dtype = w.rank(x) - 1, x.tensor.dtype
    if not replacement:  # the greatest of quotients by exponential numbers is such a draw, and so are the next ones
        return w.b.topk(w.b.div(x, exponential(w, x)), k=num_samples, axis=axis)[1]
    totals = w.b.cumsum(x, axis=axis)
    shape = w.dims(x)
    whole = w.b.slice(totals, axes=[axis], starts=[shape[axis] - 1], ends=[shape[axis]], steps=[1])
    drawn = w.b.mul(w.b.random_uniform(shape=[*shape[:axis], num_samples], dtype=dtype), whole)
    below = w.b.le(w.b.unsqueeze(totals, axes=[axis]), w.b.unsqueeze(drawn, axes=[axis + 1]))
    return w.b.reduce_sum(w.cast(below, i64), axes=[axis + 1])


@lowers("aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.Tensor_Tensor")
def normal(w: Lowering, mean: Number, std: Number = 1.0) -> Any:
    x, spread = w.promote(mean, std)
    drawn = w.b.random_normal(shape=w.dims(w.b.add(x, spread)), dtype=x.tensor.dtype, mean=0.0, std=1.0)
    return w.b.add(x, w.b.mul(drawn, spread))
