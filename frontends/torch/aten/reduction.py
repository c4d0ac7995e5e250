"""Reductions, scans and norms."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.frontends.torch.aten.common import moved, permute, reshape, truth
from isthmus.frontends.torch.aten.singular import singular_values
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, Scalar, lowers
from isthmus.ir.dims import bounds, product
from isthmus.ir.dtypes import DType, bool_, i64, u8
from isthmus.ir.graph import Value

Dims = int | list[int] | None

_REDUCTIONS: Final = {"reduce_max": "reduce_any", "reduce_min": "reduce_all"}
"""What the extremes of bools are."""


def _widened(w: Lowering, x: Value, dtype: DType | None) -> Value:
    """The value in the wanted element type; sums and products of integers and bools are i64 by default."""
    if dtype is None and not (x.tensor.dtype.is_float or x.tensor.dtype.is_complex):
        dtype = i64
    return x if dtype is None else w.cast(x, dtype)


@lowers("aten.sum", "aten.sum.dim_IntList")
def sum_(w: Lowering, x: Value, dim: Dims = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    return w.b.reduce_sum(_widened(w, x, dtype), axes=w.axes(x, dim), keepdims=keepdim)


@lowers("aten.prod", "aten.prod.dim_int")
def prod(w: Lowering, x: Value, dim: Dims = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    return w.b.reduce_prod(_widened(w, x, dtype), axes=w.axes(x, dim), keepdims=keepdim)


@lowers("aten.mean", "aten.mean.dim")
def mean(w: Lowering, x: Value, dim: Dims = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    x = x if dtype is None else w.cast(x, dtype)
    if not (x.tensor.dtype.is_float or x.tensor.dtype.is_complex):
        w.unsupported(f"there is no mean of {x.tensor.dtype}", "give a floating dtype")
    return w.b.reduce_mean(x, axes=w.axes(x, dim), keepdims=keepdim)


@lowers("aten.nansum")
def nansum(w: Lowering, x: Value, dim: Dims = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    if x.tensor.dtype.is_float:
        x = w.b.where(w.b.is_nan(x), 0, x)
    return sum_(w, x, dim, keepdim, dtype)


@lowers("aten.count_nonzero", "aten.count_nonzero.dim_IntList")
def count_nonzero(w: Lowering, x: Value, dim: Dims = None) -> Any:
    return sum_(w, truth(w, x), dim)


# ---- spread


def _correction(unbiased: bool, correction: Scalar | None) -> float:
    return float(unbiased) if correction is None else float(correction)  # type: ignore[arg-type]


@lowers("aten.var", "aten.var.dim", "aten.var.correction")
def var(
    w: Lowering, x: Value, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, correction: Scalar | None = None,
) -> Any:  # fmt: skip
    axes, spread = w.axes(x, dim), _correction(unbiased, correction)
    if x.tensor.dtype.is_complex:
        parts = (w.b.reduce_var(part, axes=axes, keepdims=keepdim, correction=spread) for part in (w.b.real(x), w.b.imag(x)))
        return w.b.add(*parts)
    return w.b.reduce_var(x, axes=axes, keepdims=keepdim, correction=spread)


@lowers("aten.std", "aten.std.dim", "aten.std.correction")
def std(
    w: Lowering, x: Value, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, correction: Scalar | None = None,
) -> Any:  # fmt: skip
    return w.b.sqrt(var(w, x, dim, unbiased, keepdim, correction))


@lowers("aten.var_mean", "aten.var_mean.dim", "aten.var_mean.correction")
def var_mean(
    w: Lowering, x: Value, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, correction: Scalar | None = None,
) -> Any:  # fmt: skip
    return var(w, x, dim, unbiased, keepdim, correction), mean(w, x, dim, keepdim)


@lowers("aten.std_mean", "aten.std_mean.dim", "aten.std_mean.correction")
def std_mean(
    w: Lowering, x: Value, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, correction: Scalar | None = None,
) -> Any:  # fmt: skip
    return std(w, x, dim, unbiased, keepdim, correction), mean(w, x, dim, keepdim)


# ---- truth and extremes


def _quantifier(name: str) -> None:
    def lowering(w: Lowering, x: Value, dim: Dims = None, keepdim: bool = False) -> Any:
        found = getattr(w.b, f"reduce_{name}")(truth(w, x), axes=w.axes(x, dim), keepdims=keepdim)
        return w.cast(found, u8) if x.tensor.dtype is u8 else found

    lowering.__qualname__ = lowering.__name__ = name
    lowers(*(f"aten.{name}.{overload}" for overload in ("default", "dim", "dims")), f"aten._is_{name}_true")(lowering)


_quantifier("any")
_quantifier("all")


def _extreme(w: Lowering, op: str, x: Value, axes: list[int], keepdim: bool) -> Value:
    found: Value = getattr(w.b, _REDUCTIONS[op] if x.tensor.dtype is bool_ else op)(x, axes=axes, keepdims=keepdim)
    return found


def _place(w: Lowering, op: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """The index of an extreme along a dim, or in the flattened tensor."""
    rank = w.rank(x)
    if dim is None or not rank:
        flat = getattr(w.b, op)(w.b.reshape(x, shape=[product(w.dims(x))]), axis=0)
        return reshape(w, flat, [1] * rank if keepdim else [])
    found: Value = getattr(w.b, op)(x, axis=w.axis(x, dim), keepdims=keepdim)
    return found


def _extremes(name: str, op: str) -> None:
    def over(w: Lowering, x: Value, dim: Dims = None, keepdim: bool = False) -> Any:
        return _extreme(w, op, x, w.axes(x, dim), keepdim)

    def along(w: Lowering, x: Value, dim: int, keepdim: bool = False) -> Any:
        return _extreme(w, op, x, w.axes(x, dim), keepdim), _place(w, f"arg{name}", x, dim, keepdim)

    def place(w: Lowering, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
        return _place(w, f"arg{name}", x, dim, keepdim)

    for function, suffix in ((over, "a"), (along, ""), (place, "arg")):
        function.__qualname__ = function.__name__ = f"{suffix}{name}"
    lowers(f"aten.a{name}", f"aten.{name}")(over)
    lowers(f"aten.{name}.dim")(along)
    lowers(f"aten.arg{name}")(place)


_extremes("max", "reduce_max")
_extremes("min", "reduce_min")


@lowers("aten.aminmax")
def aminmax(w: Lowering, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    return tuple(_extreme(w, op, x, w.axes(x, dim), keepdim) for op in ("reduce_min", "reduce_max"))


@lowers("aten.logsumexp")
def logsumexp(w: Lowering, x: Value, dim: Dims, keepdim: bool = False) -> Any:
    return w.b.logsumexp(w.floating(x), axes=w.axes(x, dim), keepdims=keepdim)


# ---- scans


def _scan(name: str) -> None:
    def lowering(w: Lowering, x: Value, dim: int, dtype: DType | None = None) -> Any:
        x = _widened(w, x, dtype)
        return getattr(w.b, name)(x, axis=w.axis(x, dim)) if w.rank(x) else x

    lowering.__qualname__ = lowering.__name__ = name
    lowers(f"aten.{name}")(lowering)


_scan("cumsum")
_scan("cumprod")


@lowers("aten.diff")
def diff(
    w: Lowering, x: Value, n: int = 1, dim: int = -1, prepend: Value | None = None, append: Value | None = None
) -> Any:
    """Nothing is prepended or appended to no differences."""
    axis = w.axis(x, dim)
    parts = [part for part in (prepend, x, append) if part is not None]
    if len(parts) > 1 and n:
        x = w.b.concat(w.promote(*parts), axis=axis)
    for _ in range(n):
        size = w.dims(x)[axis]
        first, last = (part(w, x, axis, *w.clamp(size, start, end)) for start, end in ((0, -1), (1, None)))
        x = w.b.logical_xor(last, first) if x.tensor.dtype is bool_ else w.b.sub(last, first)
    return x


# ---- norms


def _norm(w: Lowering, x: Value, p: float, axes: list[int], keepdim: bool) -> Value:
    b = w.b
    over: dict[str, Any] = {"axes": axes, "keepdims": keepdim}
    found: Value
    if p == 0:
        return w.cast(b.reduce_sum(w.cast(b.ne(x, 0), x.tensor.dtype), **over), x.tensor.dtype)
    if p == 2:
        found = b.sqrt(b.reduce_sum(b.mul(x, x), **over))
        return found
    size = b.abs(x)
    if abs(p) == math.inf:
        found = (b.reduce_max if p > 0 else b.reduce_min)(size, **over)
    elif p == 1:
        found = b.reduce_sum(size, **over)
    else:
        found = b.pow(b.reduce_sum(b.pow(size, float(p)), **over), 1 / p)
    return found


@lowers("aten.linalg_vector_norm")
def vector_norm(
    w: Lowering, x: Value, ord: Scalar = 2, dim: Dims = None, keepdim: bool = False, dtype: DType | None = None,
) -> Any:  # fmt: skip
    x = x if dtype is None else w.cast(x, dtype)
    x = w.b.modulus(x) if x.tensor.dtype.is_complex else x
    if not x.tensor.dtype.is_float:
        w.unsupported(f"there is no norm of {x.tensor.dtype}", "cast to a real floating dtype first")
    return _norm(w, x, float(ord), w.axes(x, dim), keepdim)  # type: ignore[arg-type]


@lowers("aten.norm.Scalar", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype", "aten.norm.ScalarOpt_dtype")
def norm(
    w: Lowering, x: Value, p: Scalar | None = 2, dim: Dims = None, keepdim: bool = False, dtype: DType | None = None,
) -> Any:  # fmt: skip
    return vector_norm(w, x, 2 if p is None else p, dim, keepdim, dtype)


@lowers("aten.frobenius_norm.dim")
def frobenius_norm(w: Lowering, x: Value, dim: Dims, keepdim: bool = False) -> Any:
    return vector_norm(w, x, 2, dim, keepdim)


@lowers("aten.linalg_norm")
def linalg_norm(
    w: Lowering, x: Value, ord: Scalar | None = None, dim: Dims = None, keepdim: bool = False, dtype: DType | None = None,
) -> Any:  # fmt: skip
    matrix = (len(dim) if isinstance(dim, list) else w.rank(x) if dim is None else 1) == 2
    if ord is None or not matrix:
        return vector_norm(w, x, 2 if ord is None else ord, dim, keepdim, dtype)
    return matrix_norm(w, x, ord, [-2, -1] if dim is None else dim, keepdim, dtype)


def _of_values(w: Lowering, x: Value, ord: Any, row: int, column: int) -> Any:
    """What the norms that are made of singular values are: of the matrices along two axes."""
    last = w.rank(x) - 2
    values = singular_values(w, permute(w, x, moved(w.rank(x), [row, column], [last, last + 1])))
    if ord == "nuc":
        return w.b.reduce_sum(values, axes=[last])
    return _greatest(w, values, last) if ord > 0 else w.b.reduce_min(values, axes=[last])


def _greatest(w: Lowering, x: Value, axis: int, keepdims: bool = False) -> Any:
    """The greatest of numbers that are not negative; 0 of nothing."""
    found = w.b.reduce_max(x, axes=[axis], keepdims=keepdims)
    return found if bounds(w.dims(x)[axis])[0] else w.b.maximum(found, 0)


@lowers("aten.linalg_matrix_norm", "aten.linalg_matrix_norm.str_ord")
def matrix_norm(
    w: Lowering, x: Value, ord: Scalar | str = "fro", dim: Dims = None, keepdim: bool = False, dtype: DType | None = None,
) -> Any:  # fmt: skip
    """The greatest or least sum along one of the two dims, Frobenius', or the greatest, the least or all singular values."""
    dims = [-2, -1] if dim is None else [dim] if isinstance(dim, int) else dim
    if ord == "fro":
        return vector_norm(w, x, 2, dims, keepdim, dtype)
    row, column = w.axes(x, dims)
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):  # type: ignore[arg-type]
        found = _of_values(w, x if dtype is None else w.cast(x, dtype), ord, row, column)
        return w.b.unsqueeze(found, axes=sorted([row, column])) if keepdim else found
    summed, compared = (row, column) if abs(ord) == 1 else (column, row)  # type: ignore[arg-type]
    sums = _norm(w, x if dtype is None else w.cast(x, dtype), 1, [summed], True)
    greatest = ord > 0  # type: ignore[operator]
    extreme = _greatest(w, sums, compared, True) if greatest else w.b.reduce_min(sums, axes=[compared], keepdims=True)
    return extreme if keepdim else w.b.squeeze(extreme, axes=sorted([row, column]))
