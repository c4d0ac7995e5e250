"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from isthmus.frontends.torch.aten.arithmetic import add, clamp_min, div, mul, sub
from isthmus.frontends.torch.aten.common import broadcast, expand, full, integer, permute, places_of, reshape
from isthmus.frontends.torch.aten.reduction import sum_, vector_norm
from isthmus.frontends.torch.aten.shape import squeeze
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers
from isthmus.ir.dims import product
from isthmus.ir.dtypes import DType, i64
from isthmus.ir.graph import Value

_END: Final = np.iinfo(np.int64).max
"""The end of a slice that goes as far as there is."""


@lowers("aten.linear")
def linear(w: Lowering, x: Value, weight: Value, bias: Value | None = None) -> Any:
    if w.rank(weight) == 1:
        found = w.b.matmul(x, weight)
        return found if bias is None else w.b.add(found, bias)
    if bias is not None and w.rank(bias) != 1:
        return w.b.add(w.b.linear(x, weight), bias)
    return w.b.linear(x, weight, bias)


@lowers("aten.matmul", "aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.linalg_matmul")
def matmul(w: Lowering, x: Value, other: Value) -> Any:
    return w.b.matmul(x, other)


@lowers("aten.vdot")
def vdot(w: Lowering, x: Value, other: Value) -> Any:
    return w.b.matmul(w.b.conj(x) if x.tensor.dtype.is_complex else x, other)


def _added(w: Lowering, x: Value, found: Value, beta: Scalar, alpha: Scalar) -> Any:
    """``beta * x + alpha * found``; with a beta of 0, `x` is not read, so that its nans do not spread."""
    dtype = found.tensor.dtype
    if alpha != 1:
        found = mul(w, found, w.tensor(alpha, dtype))
    if beta == 0:
        return found
    return add(w, found, x if beta == 1 else mul(w, x, w.tensor(beta, dtype)))


@lowers("aten.addmm", "aten.baddbmm", "aten.addmv")
def addmm(w: Lowering, x: Value, left: Value, right: Value, beta: Scalar = 1, alpha: Scalar = 1) -> Any:
    return _added(w, x, w.b.matmul(left, right), beta, alpha)


@lowers("aten.addbmm")
def addbmm(w: Lowering, x: Value, batch1: Value, batch2: Value, beta: Scalar = 1, alpha: Scalar = 1) -> Any:
    return _added(w, x, w.b.reduce_sum(w.b.matmul(batch1, batch2), axes=[0]), beta, alpha)


@lowers("aten.addr")
def addr(w: Lowering, x: Value, vec1: Value, vec2: Value, beta: Scalar = 1, alpha: Scalar = 1) -> Any:
    return _added(w, x, outer(w, vec1, vec2), beta, alpha)


@lowers("aten.outer", "aten.ger")
def outer(w: Lowering, x: Value, vec2: Value) -> Any:
    return mul(w, w.b.unsqueeze(x, axes=[1]), w.b.unsqueeze(vec2, axes=[0]))


@lowers("aten.inner")
def inner(w: Lowering, x: Value, other: Value) -> Any:
    if not w.rank(x) or not w.rank(other):
        return w.b.mul(x, other)
    last = [w.rank(x) - 1], [w.rank(other) - 1]
    return tensordot(w, x, other, *last)


@lowers("aten.tensordot")
def tensordot(w: Lowering, x: Value, other: Value, dims_self: Sequence[int], dims_other: Sequence[int]) -> Any:
    """Contracts axes pairwise: both sides become matrices. An axis of one element goes with any other, which is summed."""
    left, right = w.axes(x, dims_self) if dims_self else [], w.axes(other, dims_other) if dims_other else []
    for mine, theirs in zip(left, right, strict=True):
        if w.dims(x)[mine] == 1 and w.dims(other)[theirs] != 1:
            other = w.b.reduce_sum(other, axes=[theirs], keepdims=True)
        elif w.dims(other)[theirs] == 1 and w.dims(x)[mine] != 1:
            x = w.b.reduce_sum(x, axes=[mine], keepdims=True)
    kept_left = [axis for axis in range(w.rank(x)) if axis not in left]
    kept_right = [axis for axis in range(w.rank(other)) if axis not in right]
    x_dims, y_dims = w.dims(x), w.dims(other)
    rows, columns = [x_dims[axis] for axis in kept_left], [y_dims[axis] for axis in kept_right]
    inner = product([x_dims[axis] for axis in left])
    x = reshape(w, permute(w, x, kept_left + left), [product(rows), inner])
    other = reshape(w, permute(w, other, right + kept_right), [inner, product(columns)])
    return reshape(w, w.b.matmul(x, other), [*rows, *columns])


@lowers("aten.einsum")
def einsum(w: Lowering, equation: str, tensors: list[Value], path: Sequence[int] | None = None) -> Any:
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    alone = arrow and any(left.count(c) == term.count(c) and c not in right for term in terms for c in term if c.isalpha())
    if alone and tensors[0].tensor.dtype.is_integer:  # torch sums an axis of one operand first, and sums of integers are i64
        tensors = [w.cast(each, i64) for each in tensors]
    return w.b.einsum(tensors, equation=equation)


@lowers("aten.chain_matmul", "aten.linalg_multi_dot")
def multi_dot(w: Lowering, tensors: list[Value]) -> Any:
    found, *rest = tensors
    for each in rest:
        found = w.b.matmul(found, each)
    return found


@lowers("aten.bilinear")
def bilinear(w: Lowering, x: Value, input2: Value, weight: Value, bias: Value | None = None) -> Any:
    found = w.b.einsum([x, weight, input2], equation="...i,oij,...j->...o")
    return found if bias is None else w.b.add(found, bias)


@lowers("aten.linalg_cross", "aten.cross")
def cross(w: Lowering, x: Value, other: Value, dim: int | None = -1) -> Any:
    x, y = w.promote(x, other)
    if dim is None:
        dim = next((axis for axis, size in enumerate(w.dims(x)) if size == 3), None)
    if dim is None:
        w.unsupported("no dim has the size 3")
    axis = w.axis(x, dim)

    def turned(value: Value, shift: int) -> Value:
        rolled: Value = w.b.roll(value, shifts=[shift], axes=[axis])
        return rolled

    return w.b.sub(w.b.mul(turned(x, -1), turned(y, 1)), w.b.mul(turned(x, 1), turned(y, -1)))


@lowers("aten.kron")
def kron(w: Lowering, x: Value, other: Value) -> Any:
    x, y = w.promote(x, other)
    rank = max(w.rank(x), w.rank(y))
    x_dims, y_dims = ((1,) * (rank - w.rank(each)) + w.dims(each) for each in (x, y))
    x = reshape(w, x, [dim for pair in zip(x_dims, [1] * rank, strict=True) for dim in pair])
    y = reshape(w, y, [dim for pair in zip([1] * rank, y_dims, strict=True) for dim in pair])
    return reshape(w, mul(w, x, y), [a * b for a, b in zip(x_dims, y_dims, strict=True)])


@lowers("aten.mm.dtype", "aten.bmm.dtype")
def mm_dtype(w: Lowering, x: Value, other: Value, out_dtype: DType) -> Any:
    return w.b.matmul(w.cast(x, out_dtype), w.cast(other, out_dtype))


# ---- products of groups of rows


@lowers("transformers.grouped_mm_fallback")
def grouped_rows(w: Lowering, input: Value, weight: Value, offs: Value) -> Any:
    """Rows up to ``offs[0]`` times the first matrix, those from there to ``offs[1]`` times the second, ...; the rest is 0."""
    rows, columns = w.dims(input)[0], w.dims(weight)[2]
    ends = w.cast(offs, i64)
    count = integer(w, w.dims(offs)[0], "the number of groups")

    def between(first: Value, last: Value) -> Value:
        part: Value = w.b.dynamic_slice(input, first, last, axes=[0], steps=[1])
        return part

    places = w.b.split(ends, axis=0, sizes=[1] * count)
    places = [w.b.constant(np.zeros(1, np.int64)), *(places if isinstance(places, (list, tuple)) else [places])]
    parts = []
    for number, (first, last) in enumerate(pairwise(places)):
        matrix = w.b.squeeze(w.b.slice(weight, axes=[0], starts=[number], ends=[number + 1], steps=[1]), axes=[0])
        parts.append(w.b.matmul(between(first, last), matrix))
    rest = between(places[-1], w.b.constant(np.full(1, _END)))
    parts.append(full(w, [w.dims(rest)[0], columns], 0, input.tensor.dtype))
    found = w.b.concat(parts, axis=0)
    w.b.graph.symbols.know(w.dims(found)[0], rows)
    return found


@lowers("aten._grouped_mm")
def grouped_mm(
    w: Lowering, x: Value, mat2: Value, offs: Value | None = None, bias: Value | None = None, out_dtype: DType | None = None
) -> Any:
    """Groups of rows, or a batch of matrices; rows beyond the last offset, which torch leaves as they were, are 0 here."""
    if offs is None:
        found = w.b.matmul(x, mat2)
    elif (w.rank(x), w.rank(mat2)) == (2, 3):
        found = grouped_rows(w, x, mat2, offs)
    else:
        w.unsupported("only groups of rows of the first matrix are carried over")
    if bias is not None:
        w.unsupported("the bias of a grouped product is not carried over", "add it to the result")
    return found if out_dtype is None else w.cast(found, out_dtype)


# ---- distances


@lowers("aten.cosine_similarity")
def cosine_similarity(w: Lowering, x1: Value, x2: Value, dim: int = 1, eps: float = 1e-8) -> Any:
    """Each vector is divided by its norm, or by `eps` where that is greater."""
    x, y = w.promote(x1, x2, floating=True)
    # The norms are of the vectors before other axes are broadcast against each other, which comes to the same.
    rank = max(w.rank(x), w.rank(y))
    axis = w.axis_in(rank, dim)
    if not rank:
        return reshape(w, cosine_similarity(w, *(w.b.reshape(each, shape=[1]) for each in (x, y)), 0, eps), [])
    shapes = [(1,) * (rank - w.rank(each)) + w.dims(each) for each in (x, y)]
    length = broadcast(w, *([shape[axis]] for shape in shapes))
    unit = []
    for each, shape in zip((x, y), shapes, strict=True):
        each = expand(w, reshape(w, each, shape), (*shape[:axis], *length, *shape[axis + 1 :]))
        unit.append(w.b.div(each, w.b.maximum(vector_norm(w, each, 2, axis, True), eps)))
    return w.b.reduce_sum(w.b.mul(*unit), axes=[axis])


@lowers("aten.pairwise_distance")
def pairwise_distance(w: Lowering, x1: Value, x2: Value, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The difference of integers is one; `eps` makes a float of it."""
    return vector_norm(w, add(w, sub(w, x1, x2), eps), p, -1, keepdim)


@lowers("aten.cdist")
def cdist(w: Lowering, x1: Value, x2: Value, p: float = 2, compute_mode: int | None = None) -> Any:
    left, right = w.b.unsqueeze(x1, axes=[w.rank(x1) - 1]), w.b.unsqueeze(x2, axes=[w.rank(x2) - 2])
    return vector_norm(w, w.b.sub(left, right), p, -1)


@lowers("aten._pdist_forward")
def pdist(w: Lowering, x: Value, p: float = 2) -> Any:
    """The distance of each row to each one behind it."""
    count = w.dims(x)[0]
    place = w.b.arange(start=0, stop=count, dtype=i64)
    pairs = places_of(w, w.b.lt(w.b.unsqueeze(place, axes=[1]), place))
    w.b.graph.symbols.know(w.dims(pairs)[0], count * (count - 1) // 2)
    left, right = (w.b.gather(x, w.b.squeeze(part(w, pairs, 1, side, side + 1), axes=[1]), axis=0) for side in (0, 1))
    return vector_norm(w, w.b.sub(left, right), p, 1)


# ---- covariance


@lowers("aten.cov")
def cov(
    w: Lowering, x: Value, correction: int = 1, fweights: Value | None = None, aweights: Value | None = None
) -> Any:  # fmt: skip
    """Of variables in rows; `fweights` say how often an observation counts, `aweights` what it weighs."""
    x = w.b.reshape(x, shape=[1, product(w.dims(x))]) if w.rank(x) < 2 else x
    given = [each for each in (fweights, aweights) if each is not None]
    for each in given:
        w.b.check(w.b.ge(each, 0), message="cov: weights cannot be negative")
    weights = mul(w, *given) if len(given) == 2 else given[0] if given else None
    total = w.tensor(w.dims(x)[1], i64) if weights is None else sum_(w, weights)
    if given:
        w.b.check(w.b.ne(total, 0), message="cov: weights sum to zero, and cannot be normalized")
    weighted = x if weights is None else mul(w, x, weights)
    x = sub(w, x, div(w, sum_(w, weighted, 1, True), total))
    factor = sub(w, total, correction)
    if aweights is not None and correction:
        factor = sub(w, total, div(w, mul(w, sum_(w, mul(w, weights, aweights)), correction), total))
    columns = w.b.permute(x if weights is None else mul(w, x, weights), perm=[1, 0])
    columns = w.b.conj(columns) if columns.tensor.dtype.is_complex else columns
    return squeeze(w, div(w, w.b.matmul(*w.promote(x, columns)), clamp_min(w, factor, 0)))
