"""Tensors made from attributes, sizes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.sizes import sizes
from isthmus.frontends.onnx.table import converts
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir import dtypes
from isthmus.ir.graph import Value
from isthmus.ir.weights import Weight


@converts("Constant")
def constant(
    c: Conversion, *, value: Weight | None = None, sparse_value: Weight | None = None, value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None, value_int: int | None = None, value_ints: tuple[int, ...] | None = None,
    value_string: str | None = None, value_strings: tuple[str, ...] | None = None,
) -> Any:  # fmt: skip
    """One of the attributes is given."""
    plain = ((value_float, value_floats, np.float32), (value_int, value_ints, np.int64), (value_string, value_strings, object))
    given = [each for each in (value, sparse_value) if each is not None]
    given += [np.array(each, kind) for one, many, kind in plain for each in (one, many) if each is not None]  # type: ignore[misc]
    if len(given) != 1:
        raise c.malformed(f"gives {len(given)} contents in place of one")
    return c.b.constant(given[0], name=c.proto.output[0])


@converts("ConstantOfShape", seen_through=True)
def constant_of_shape(c: Conversion, shape: Value, *, value: Weight | None = None) -> Any:
    """One number everywhere; 0 by default."""
    content = np.zeros(1, np.float32) if value is None else value.array()
    if content.size != 1:
        raise c.malformed(f"the value has {content.size} elements in place of one")
    number = c.b.constant(content.reshape(()))
    sizes = c.numbers(shape)
    if sizes is not None:
        return c.b.expand(number, shape=sizes)
    return c.b.dynamic_expand(number, shape)


@converts("EyeLike")
def eye_like(c: Conversion, x: Value, *, dtype: int | None = None, k: int = 0) -> Any:
    """Ones on one diagonal, above the main one by `k`."""
    rows, columns = c.shape(x)
    number = c.b.unsqueeze(c.b.arange(start=k, stop=rows + k), axes=[1])
    found = c.b.eq(number, c.b.arange(stop=columns))
    target = x.tensor.dtype if dtype is None else dtype_of(dtype, "the result")
    return found if target is dtypes.bool_ else c.b.cast(found, dtype=target)


@converts("Range")
def range_(c: Conversion, start: Value, limit: Value, delta: Value, *, stash_type: int = 1) -> Any:
    """Numbers at equal distances, up to a limit that is left out; smaller floats are counted in f32."""
    ends = [c.scalar(each) for each in (start, limit, delta)]
    known = [c.numbers(each) for each in ends]
    dtype = start.tensor.dtype
    if dtype.is_integer and None not in known:
        (first,), (last,), (step,) = known  # type: ignore[misc]
        if isinstance(step, int) and step:
            return c.b.arange(start=first, stop=last, step=step, dtype=dtype)
    return c.b.range(*ends)


@converts("OneHot")
def one_hot(c: Conversion, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Any:
    """The second of two values at each index, else the first; negative indices count from the end."""
    b = c.b
    (size,) = sizes(c, depth if depth.tensor.dtype in dtypes.INDEX else b.cast(depth, dtype=dtypes.i64), "classes", lo=0)
    if indices.tensor.dtype is not dtypes.i64:
        indices = b.cast(indices, dtype=dtypes.i64)
    known = c.known(indices)
    if known is None or (known < 0).any():
        indices = b.where(b.lt(indices, 0), b.add(indices, b.size(size)), indices)
    places = b.one_hot(indices, depth=size, axis=c.axis(axis, c.rank(indices) + 1), dtype=dtypes.bool_)
    off, on = (b.squeeze(b.slice(values, axes=[0], starts=[at], ends=[at + 1], steps=[1]), axes=[0]) for at in (0, 1))
    return b.where(places, on, off)
