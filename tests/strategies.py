"""Random well-typed graphs for hypothesis: elementwise, reduction, shape and matrix ops over symbolic and fixed sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from isthmus.ir import Builder, Dim, Graph, Tensor, Value
from isthmus.ir.dims import product
from isthmus.ir.dtypes import bool_, f32, f64, i64

Draw = Callable[[Any], Any]
Step = Callable[[Draw, Builder, list[Value]], "Value | None"]

UNARY: Final = ("neg", "abs", "exp", "sigmoid", "tanh", "relu", "sin", "erf", "floor", "sqrt", "gelu", "silu")
BINARY: Final = ("add", "sub", "mul", "div", "maximum", "minimum")
COMPARE: Final = ("eq", "lt", "ge")
REDUCE: Final = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min")
NUMBERS: Final = (0.0, 1.0, -1.0, 0.5, 2.0, 3.0)
MAX_RANK: Final = 4


@st.composite
def graphs(draw: Draw, max_nodes: int = 12) -> Graph:
    """A valid graph with one to three float inputs over the symbols N and M and small fixed sizes.

    Every result is a float, integer or bool tensor; the outputs are the values that nothing else uses, and perhaps some
    more. Values stay moderate, so that comparisons within a tolerance mean something.
    """
    graph = Graph()
    b = Builder(graph)
    dims: list[Dim] = [graph.symbols.declare("N", 1, 8).dim, graph.symbols.declare("M", 1, 8).dim, 1, 2, 3, 4]
    shapes = st.lists(st.sampled_from(dims), min_size=0, max_size=3)
    values = [graph.add_input(Tensor(f32, tuple(draw(shapes))), name) for name in "xyz"[: draw(st.integers(1, 3))]]
    for _ in range(draw(st.integers(1, max_nodes))):
        made = draw(st.sampled_from(STEPS))(draw, b, values)
        if made is not None:
            values.append(made)
    unused = [value for value in values if not value.uses and value.producer is not None]
    more = draw(st.lists(st.sampled_from(values), max_size=2))
    graph.set_outputs([*unused, *more] or values[:1])
    return graph


def _pick(draw: Draw, values: list[Value], dtype: Any = f32, rank: int = 0) -> Value | None:
    fitting = [value for value in values if value.tensor.dtype is dtype and value.tensor.rank >= rank]
    recent = fitting[-2:] if draw(st.booleans()) else fitting  # so that chains come about
    return draw(st.sampled_from(recent)) if fitting else None


def _shape(value: Value) -> tuple[Dim, ...]:
    shape = value.tensor.shape
    assert shape is not None
    return shape


def _tame(b: Builder, value: Value) -> Value:
    """Brings large numbers back, so that sums of exponentials of products do not overflow."""
    tamed: Value = b.clip(value, -8.0, 8.0)
    return tamed


def _unary(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values)
    return None if x is None else _tame(b, getattr(b, draw(st.sampled_from(UNARY)))(x))


def _partner(draw: Draw, b: Builder, values: list[Value], x: Value) -> Value:
    """A value that surely broadcasts with another."""
    same = [value for value in values if value.tensor.dtype is f32 and _broadcasts(_shape(value), _shape(x))]
    if draw(st.booleans()):
        return draw(st.sampled_from(same))  # type: ignore[no-any-return]
    return b.constant(np.float32(draw(st.sampled_from(NUMBERS))))


def _broadcasts(left: tuple[Dim, ...], right: tuple[Dim, ...]) -> bool:
    return all(a == c or 1 in (a, c) for a, c in zip(left[::-1], right[::-1], strict=False))


def _binary(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values)
    if x is None:
        return None
    operands = [x, _partner(draw, b, values, x)]
    if draw(st.booleans()):
        operands.reverse()
    return _tame(b, getattr(b, draw(st.sampled_from(BINARY)))(*operands))


def _compare(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values)
    if x is None:
        return None
    found: Value = getattr(b, draw(st.sampled_from(COMPARE)))(x, _partner(draw, b, values, x))
    return found


def _where(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    cond, x = _pick(draw, values, bool_), _pick(draw, values)
    if cond is None or x is None or not _broadcasts(_shape(cond), _shape(x)):
        return None
    found: Value = b.where(cond, x, draw(st.sampled_from(NUMBERS)))
    return found


def _reduce(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values, rank=1)
    if x is None:
        return None
    axes = draw(st.lists(st.integers(0, x.tensor.rank - 1), min_size=1, unique=True))
    return _tame(b, getattr(b, draw(st.sampled_from(REDUCE)))(x, axes=sorted(axes), keepdims=draw(st.booleans())))


def _reshape(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values)
    if x is None:
        return None
    shape = list(_shape(x))
    if len(shape) > 1 and draw(st.booleans()):
        at = draw(st.integers(0, len(shape) - 2))
        shape[at : at + 2] = [product(shape[at : at + 2])]
    elif len(shape) < MAX_RANK:
        shape.insert(draw(st.integers(0, len(shape))), 1)
    found: Value = b.reshape(x, shape=shape)
    return found


def _permute(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values, rank=2)
    if x is None:
        return None
    found: Value = b.permute(x, perm=draw(st.permutations(range(x.tensor.rank))))
    return found


def _unsqueeze(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values)
    if x is None or x.tensor.rank >= MAX_RANK:
        return None
    found: Value = b.unsqueeze(x, axes=[draw(st.integers(0, x.tensor.rank))])
    return found


def _squeeze(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values, rank=1)
    ones = [] if x is None else [axis for axis, dim in enumerate(_shape(x)) if dim == 1]
    if x is None or not ones:
        return None
    found: Value = b.squeeze(x, axes=[draw(st.sampled_from(ones))])
    return found


def _expand(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values)
    if x is None:
        return None
    shapes = [_shape(value) for value in values if value.tensor.rank >= x.tensor.rank and _fits(_shape(x), _shape(value))]
    larger = [shape for shape in shapes if shape != _shape(x)]
    found: Value = b.expand(x, shape=draw(st.sampled_from(larger or shapes)))
    return found


def _fits(small: tuple[Dim, ...], large: tuple[Dim, ...]) -> bool:
    return all(a in (c, 1) for a, c in zip(small[::-1], large[::-1], strict=False))


def _slice(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values, rank=1)
    if x is None:
        return None
    axis = draw(st.integers(0, x.tensor.rank - 1))
    size = _shape(x)[axis]
    start = draw(st.integers(0, 1)) if isinstance(size, int) and size > 1 else 0  # an empty part has no maximum
    end = size if draw(st.booleans()) or not isinstance(size, int) else draw(st.integers(start + 1, max(start + 1, size)))
    step = draw(st.integers(1, 2))
    found: Value = b.slice(x, axes=[axis], starts=[start], ends=[end], steps=[step])
    return found


def _concat(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values, rank=1)
    if x is None:
        return None
    axis = draw(st.integers(0, x.tensor.rank - 1))
    rest = (*_shape(x)[:axis], *_shape(x)[axis + 1 :])
    fitting = [
        value for value in values
        if value.tensor.dtype is f32 and value.tensor.rank == x.tensor.rank
        and (*_shape(value)[:axis], *_shape(value)[axis + 1 :]) == rest
    ]  # fmt: skip
    found: Value = b.concat([x, draw(st.sampled_from(fitting))], axis=axis)
    return found


def _matmul(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values, rank=1)
    inner = None if x is None else _shape(x)[-1]
    if x is None or not isinstance(inner, int):
        return None
    weight = np.random.default_rng(inner).standard_normal((inner, draw(st.integers(1, 4)))).astype(np.float32)
    return _tame(b, b.matmul(x, weight))


def _normalize(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = _pick(draw, values, rank=1)
    if x is None:
        return None
    if draw(st.booleans()):
        found: Value = b.softmax(x, axis=draw(st.integers(0, x.tensor.rank - 1)))
        return found
    return _tame(b, b.layer_norm(x, axis=x.tensor.rank - 1, eps=0.1))


def _cast(draw: Draw, b: Builder, values: list[Value]) -> Value | None:
    x = draw(st.sampled_from(values[-3:]))
    found: Value = b.cast(x, dtype=draw(st.sampled_from((f32, f64, i64, bool_))))
    return found


STEPS: Final[tuple[Step, ...]] = (
    _unary, _binary, _binary, _compare, _where, _reduce, _reshape, _permute, _unsqueeze, _squeeze, _expand, _slice, _concat,
    _matmul, _normalize, _cast,
)  # fmt: skip
