"""Steps of optimizers, of the domain ``ai.onnx.preview.training``: arithmetic, element by element.

`Gradient` of that domain stays an opaque node: what it differentiates is the graph around it, by the names in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.ops.normalization import cast
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.graph import Value

DOMAIN: Final = "ai.onnx.preview.training"


def _groups(c: Conversion, values: tuple[Value, ...], size: int) -> list[tuple[Value, ...]]:
    """What belongs to each optimized tensor: the inputs are all tensors, then all gradients, and so on."""
    if len(values) % size or not values:
        raise c.malformed(f"takes {size} inputs for each tensor behind the first two, and has {len(values)}")
    count = len(values) // size
    return [values[index::count] for index in range(count)]


def _regularized(c: Conversion, x: Value, gradient: Value, factor: float) -> Any:
    return gradient if factor == 0 else c.b.add(c.b.mul(x, factor), gradient)


def _in_order(rows: Sequence[tuple[Value, ...]]) -> tuple[Value, ...]:
    """All new tensors, then all of what is kept beside them, as the inputs are."""
    return tuple(value for column in zip(*rows, strict=True) for value in column)


@converts("Adagrad", domain=DOMAIN)
def adagrad(
    c: Conversion, rate: Value, count: Value, *values: Value, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Any:  # fmt: skip
    """A step along the gradient, over the root of the sum of all squared ones."""
    b, rows = c.b, []
    for x, gradient, squares in _groups(c, values, 3):
        dtype = x.tensor.dtype
        step = b.div(cast(c, rate, dtype), b.add(b.mul(cast(c, count, dtype), decay_factor), 1.0))
        whole = _regularized(c, x, gradient, norm_coefficient)
        summed = b.add(squares, b.mul(whole, whole))
        rows.append((b.sub(x, b.div(b.mul(step, whole), b.add(b.sqrt(summed), epsilon))), summed))
    return _in_order(rows)


@converts("Momentum", domain=DOMAIN)
def momentum(
    c: Conversion, rate: Value, count: Value, *values: Value, alpha: float, beta: float, mode: str, norm_coefficient: float,
) -> Any:  # fmt: skip
    """A step along the decaying sum of the gradients; with Nesterov's, along the one that comes next."""
    if mode not in ("standard", "nesterov"):
        raise c.malformed(f"has the mode {mode!r}")
    b, rows = c.b, []
    for x, gradient, velocity in _groups(c, values, 3):
        dtype = x.tensor.dtype
        step = cast(c, rate, dtype)
        whole = _regularized(c, x, gradient, norm_coefficient)
        factor = b.where(b.gt(count, 0), c.same_type(beta, x), c.same_type(1.0, x))
        moved = b.add(b.mul(velocity, alpha), b.mul(factor, whole))
        along = moved if mode == "standard" else b.add(whole, b.mul(moved, alpha))
        rows.append((b.sub(x, b.mul(step, along)), moved))
    return _in_order(rows)


@converts("Adam", domain=DOMAIN)
def adam(
    c: Conversion, rate: Value, count: Value, *values: Value, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    """A step along the decaying mean of the gradients, over the root of that of their squares, both without their bias."""
    b, rows = c.b, []
    # One less a power close to one: in f64, where little is lost.
    times, first = cast(c, count, dtypes.f64), cast(c, rate, dtypes.f64)
    left = [b.sub(1.0, b.pow(b.constant(base, dtypes.f64), times)) for base in (beta, alpha)]
    step = b.where(b.gt(count, 0), b.div(b.mul(first, b.sqrt(left[0])), left[1]), first)
    for x, gradient, mean, squares in _groups(c, values, 4):
        whole = _regularized(c, x, gradient, norm_coefficient)
        moved = b.add(b.mul(mean, alpha), b.mul(whole, 1 - alpha))
        summed = b.add(b.mul(squares, beta), b.mul(b.mul(whole, whole), 1 - beta))
        y = b.sub(x, b.mul(cast(c, step, x.tensor.dtype), b.div(moved, b.add(b.sqrt(summed), epsilon))))
        rows.append((y if norm_coefficient_post == 0 else b.mul(y, 1 - norm_coefficient_post), moved, summed))
    return _in_order(rows)
