"""Singular values and eigenvalues, by Jacobi's rotations, and what is made of them that does not depend on signs.

The singular vectors themselves are refused: their signs, and their order among equals, are an accident of LAPACK's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from isthmus.frontends.torch.aten.common import expand, full, integer
from isthmus.frontends.torch.aten.factorizations import identity, matrices, restored, transposed, triangle
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.aten.solving import is_vector
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.builder import Builder
from isthmus.ir.dims import maximum
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor

_SWEEPS: Final = 30
"""More rounds through all pairs of columns than any matrix needs: convergence is quadratic."""
_REMEDY: Final = "use what does not depend on signs: the singular values, pinv, polar, matrix_norm"


@dataclass
class SVD:
    """``A V = U S``, of matrices ``[batch, m, n]`` with ``m >= n``.

    Attributes:
        scaled: ``U S``, ``[batch, m, n]``.
        values: S in falling order, ``[batch, n]``.
        right: V, ``[batch, n, n]``.
    """

    scaled: Value
    values: Value
    right: Value

    def left(self, w: Lowering) -> Value:
        """U; 0 in the columns of singular values that are 0."""
        size = w.b.unsqueeze(self.values, axes=[1])
        found: Value = w.b.div(self.scaled, w.b.where(w.b.eq(size, 0.0), 1.0, size))
        return found


def svd(w: Lowering, x: Value) -> SVD:
    """One-sided rotations (Hestenes): pairs of columns are turned until all are orthogonal; then their norms are S.

    Half of the columns are turned against the other half at once; then all but the first move one place on (Brent, Luk),
    so that after ``n - 1`` turns each pair has met.

    Raises:
        Refusal: the number of columns is not known.
    """
    batch, m, columns = w.dims(x)
    n = integer(w, columns, "the lesser size of a matrix whose singular values are wanted")
    dtype = x.tensor.dtype
    most = w.b.reduce_max(w.b.abs(x), axes=[1, 2], keepdims=True)
    most = w.b.where(w.b.eq(most, 0.0), 1.0, most)
    both = w.b.concat([w.b.div(x, most), identity(w, [batch, n, n], x)], axis=1)
    if n > 1:
        both = _orthogonal(w, w.b.pad(both, before=[0, 0, 0], after=[0, 0, n % 2], mode="constant"), m, n + n % 2)
    # Rounding has changed the lengths of the right vectors a little.
    right = part(w, both, 1, m, m + n)
    length = w.b.sqrt(w.b.reduce_sum(w.b.mul(right, right), axes=[1], keepdims=True))
    both = w.b.div(both, w.b.where(w.b.eq(length, 0.0), 1.0, length))
    scaled, right = part(w, both, 1, 0, m), part(w, both, 1, m, m + n)
    norms = w.b.sqrt(w.b.reduce_sum(w.b.mul(scaled, scaled), axes=[1]))
    # The column that made their number even has no right vector, and goes last even behind values of 0.
    if n % 2 and n > 1:
        norms = w.b.where(w.b.reduce_any(w.b.ne(right, 0.0), axes=[1]), norms, w.tensor(-1.0, dtype))
    values, order = w.b.topk(norms, k=n, axis=1, largest=True, sorted=True)
    scaled, right = (
        w.b.gather_elements(each, expand(w, w.b.unsqueeze(order, axes=[1]), [batch, height, n]), axis=2)
        for each, height in ((scaled, m), (right, n))
    )
    return SVD(w.b.mul(scaled, most), w.b.mul(values, w.b.squeeze(most, axes=[2])), right)


def _orthogonal(w: Lowering, both: Value, m: Any, n: int) -> Value:
    """The columns of ``[batch, m + k, n]`` turned until their first `m` rows are orthogonal."""
    dtype = both.tensor.dtype
    half, eps = n // 2, math.sqrt(n) * float(np.finfo(dtype.numpy).eps)
    # Behind each other, the halves run around a circle: the first forwards, the second backwards; one place stays.
    first, second = list(range(half)), list(range(half, n))
    order = np.array([first[0], second[0], *first[1:-1], *second[1:], first[-1]] if half > 1 else [0, 1])

    def turn(b: Builder, number: Value, both: Value, quiet: Value) -> list[Value]:
        p, q = b.split(both, axis=2, sizes=[half, half])
        x, y = (b.slice(each, axes=[1], starts=[0], ends=[m], steps=[1]) for each in (p, q))
        alpha, beta, gamma = (b.reduce_sum(b.mul(*pair), axes=[1], keepdims=True) for pair in ((x, x), (y, y), (x, y)))
        active = b.gt(b.abs(gamma), b.mul(b.mul(b.sqrt(alpha), b.sqrt(beta)), eps))
        zeta = b.div(b.sub(beta, alpha), b.mul(b.where(active, gamma, 1.0), 2.0))
        size = b.div(1.0, b.add(b.abs(zeta), b.sqrt(b.add(b.mul(zeta, zeta), 1.0))))
        tangent = b.where(active, b.where(b.lt(zeta, 0.0), b.neg(size), size), 0.0)
        cosine = b.div(1.0, b.sqrt(b.add(b.mul(tangent, tangent), 1.0)))
        sine = b.mul(cosine, tangent)
        p, q = b.sub(b.mul(cosine, p), b.mul(sine, q)), b.add(b.mul(sine, p), b.mul(cosine, q))
        quiet = b.where(b.reduce_any(active, axes=[0, 1, 2]), 0, b.add(quiet, 1))
        return [b.lt(quiet, n - 1), b.gather(b.concat([p, q], axis=2), order, axis=2), quiet]

    body = w.b.subgraph([Tensor(i64, ()), both.tensor, Tensor(i64, ())], turn)
    limit = w.tensor(_SWEEPS * (n - 1), i64)
    found: Value = w.b.loop(limit, None, [both, w.tensor(0, i64)], carried=2, regions=[body])[0]
    return found


def _upright(w: Lowering, x: Value) -> tuple[Value, bool]:
    """The matrices, or their transposes, with at least as many rows as columns; and whether they are transposes."""
    _, m, n = w.dims(x)
    return (transposed(w, x), True) if w.decide("<", m, n) else (x, False)


def _empty(w: Lowering, x: Value) -> bool:
    return 0 in w.dims(x)[-2:]


@lowers("aten.linalg_svdvals")
def singular_values(w: Lowering, x: Value, driver: str | None = None) -> Any:
    """In falling order, ``[..., min(m, n)]``."""
    batch, a = w.dims(x)[:-2], matrices(w, x)
    if _empty(w, x):
        return full(w, [*batch, 0], 0, x.tensor.dtype)
    return restored(w, svd(w, _upright(w, a)[0]).values, batch)


@lowers("aten._linalg_svd")
def linalg_svd(w: Lowering, A: Value, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None) -> Any:
    """Only the values; torch has tensors of no elements in place of the vectors then."""
    if compute_uv:
        w.unsupported("the signs of singular vectors are not determined", _REMEDY)
    nothing = full(w, [0], 0, A.tensor.dtype)
    return nothing, singular_values(w, A), nothing


# ---- symmetric matrices


def symmetric(w: Lowering, x: Value, lower: bool = True) -> Value:
    """The symmetric matrices of which one triangle is given."""
    half = triangle(w, x, upper=not lower)
    other = triangle(w, x, upper=not lower, diagonal=-1 if lower else 1)
    found: Value = w.b.add(half, transposed(w, other))
    return found


@lowers("aten.linalg_eigvalsh")
def eigvalsh(w: Lowering, x: Value, UPLO: str = "L") -> Any:
    """In rising order: what the matrix does to the singular vectors that it has after a shift that leaves no eigenvalue
    negative. Their errors go into it squared, those of the shifted values would not."""
    batch = w.dims(x)[:-2]
    if _empty(w, x):
        return full(w, [*batch, 0], 0, x.tensor.dtype)
    x = symmetric(w, matrices(w, x), UPLO.upper() == "L")
    shift = w.b.reduce_max(w.b.reduce_sum(w.b.abs(x), axes=[2], keepdims=True), axes=[1], keepdims=True)
    vectors = svd(w, w.b.add(x, w.b.mul(identity(w, w.dims(x), x), shift))).right
    values = w.b.reduce_sum(w.b.mul(vectors, w.b.matmul(x, vectors)), axes=[1])
    return restored(w, w.b.sort(values, axis=1)[0], batch)


@lowers("aten._linalg_eigh")
def linalg_eigh(w: Lowering, A: Value, UPLO: str = "L", compute_v: bool = True) -> Any:
    """Only the values; torch has a tensor of no elements in place of the vectors then."""
    if compute_v:
        w.unsupported("the signs of eigenvectors are not determined", "use eigvalsh, pinv or matrix_sqrth")
    return eigvalsh(w, A, UPLO), full(w, [0], 0, A.tensor.dtype)


@lowers("aten.linalg_matrix_sqrth")
def matrix_sqrth(w: Lowering, x: Value) -> Any:
    """The singular values of a positive definite matrix are its eigenvalues; where it is not, nan comes out."""
    if _empty(w, x):
        return x
    found = svd(w, symmetric(w, matrices(w, x)))
    signs = w.b.reduce_sum(w.b.mul(found.scaled, found.right), axes=[1], keepdims=True)
    roots = w.b.sqrt(w.b.where(w.b.lt(signs, 0.0), signs, w.b.unsqueeze(found.values, axes=[1])))
    return restored(w, w.b.matmul(w.b.mul(found.right, roots), transposed(w, found.right)), w.dims(x)[:-2])


@lowers("aten.linalg_polar")
def polar(w: Lowering, A: Value) -> Any:
    """Of matrices without full rank, the first factor has less than full rank here."""
    batch, found = w.dims(A)[:-2], svd(w, matrices(w, A))
    right = transposed(w, found.right)
    size = w.b.mul(found.right, w.b.unsqueeze(found.values, axes=[1]))
    return tuple(restored(w, each, batch) for each in (w.b.matmul(found.left(w), right), w.b.matmul(size, right)))


# ---- least squares


def _kept(w: Lowering, x: Value, values: Value, atol: Value | None, rtol: Value | None) -> Value:
    """Which singular values are more than ``max(atol, rtol * the greatest)``, as torch has these by default."""
    dtype, last = values.tensor.dtype, w.rank(values) - 1
    most = part(w, values, last, 0, 1)
    if rtol is None:
        rtol = w.b.mul(w.tensor(maximum(*w.dims(x)[-2:]), dtype), float(np.finfo(dtype.numpy).eps))
        if atol is not None:
            rtol = w.b.where(w.b.gt(atol, 0.0), 0.0, rtol)
    limit = w.b.mul(w.b.unsqueeze(w.cast(rtol, dtype), axes=[w.rank(rtol)]), most)
    if atol is not None:
        limit = w.b.maximum(limit, w.b.unsqueeze(w.cast(atol, dtype), axes=[w.rank(atol)]))
    found: Value = w.b.gt(values, limit)
    return found


def _inverse(w: Lowering, x: Value, a: Value, atol: Value | None, rtol: Value | None) -> tuple[Value, Value, Value]:
    """The pseudoinverse of the matrices `a` of `x`; its singular values, and which of them are kept: ``[..., k]`` both."""
    batch = w.dims(x)[:-2]
    upright, wide = _upright(w, a)
    found = svd(w, upright)
    values = restored(w, found.values, batch)
    kept = _kept(w, x, values, atol, rtol)
    flat = matrices(w, kept, 1)
    reciprocal = w.b.where(flat, w.b.reciprocal(w.b.where(flat, found.values, 1.0)), 0.0)
    inverse = w.b.matmul(w.b.mul(found.right, w.b.unsqueeze(reciprocal, axes=[1])), transposed(w, found.left(w)))
    return restored(w, transposed(w, inverse) if wide else inverse, batch), values, kept


@lowers("aten.linalg_pinv.atol_rtol_tensor")
def pinv(w: Lowering, x: Value, atol: Value | None = None, rtol: Value | None = None, hermitian: bool = False) -> Any:
    shape = w.dims(x)
    if _empty(w, x):
        return full(w, [*shape[:-2], shape[-1], shape[-2]], 0, x.tensor.dtype)
    a = matrices(w, x)
    return _inverse(w, x, symmetric(w, a) if hermitian else a, atol, rtol)[0]


@lowers("aten.linalg_lstsq")
def lstsq(w: Lowering, x: Value, b: Value, rcond: float | None = None, driver: str | None = None) -> Any:
    """The shortest of the solutions with the least residuals; what a driver does not tell has no elements."""
    driver = driver or "gelsy"
    dtype, shape = x.tensor.dtype, w.dims(x)
    m, n = shape[-2:]
    vector = is_vector(w, x, b)
    y = w.b.unsqueeze(b, axes=[w.rank(b)]) if vector else b
    least = None if rcond is None else w.tensor(rcond, dtype)
    if _empty(w, x):
        w.unsupported("there are no equations or no unknowns")
    inverse, values, kept = _inverse(w, x, matrices(w, x), None, least)
    solution = w.b.matmul(inverse, y)
    residuals, nothing = (full(w, [0], 0, dtype) for _ in range(2))
    if driver != "gelsy" and not w.decide("<=", m, n):
        if driver != "gels":
            w.unsupported(f"{driver} tells residuals or not, as the rank is", 'use driver="gels" or driver="gelsy"')
        rest = w.b.sub(w.b.matmul(x, solution), y)
        residuals = w.b.reduce_sum(w.b.mul(rest, rest), axes=[w.rank(rest) - 2])
    rank = w.b.reduce_sum(w.cast(kept, i64), axes=[w.rank(kept) - 1]) if driver != "gels" else full(w, [0], 0, i64)
    if vector:
        solution = w.b.squeeze(solution, axes=[w.rank(solution) - 1])
    return solution, residuals, rank, values if driver in ("gelsd", "gelss") else nothing
