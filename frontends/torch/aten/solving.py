"""Systems of linear equations and what else factors of matrices tell: determinants and inverses."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.torch.aten.common import broadcast, expand
from isthmus.frontends.torch.aten.factorizations import (
    LU,
    checked,
    identity,
    matrices,
    order_of,
    places,
    restored,
    transposed,
    turns,
)
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value

# ---- triangular


def substituted(w: Lowering, a: Value, x: Value, upper: bool, unit: bool = False) -> Value:
    """``T^-1 x`` of the lower or upper triangles T of matrices ``[batch, n, n]``; `unit` takes their diagonal for ones."""
    size = w.dims(a)[1]
    if 0 in w.dims(x):
        return x
    rows, final = places(w, size, 1), w.tensor(size - 1, i64)

    def step(b: Builder, number: Value, x: Value) -> Any:
        j = b.sub(final, number) if upper else number
        here = b.unsqueeze(j, axes=[0])
        column, row = b.gather(a, here, axis=2), b.gather(x, here, axis=1)
        if not unit:
            row = b.div(row, b.gather(column, here, axis=1))
        later = b.lt(rows, j) if upper else b.gt(rows, j)
        # Solved rows stay: what a singular matrix makes infinite does not come back to them.
        return [b.where(later, b.sub(x, b.mul(column, row)), b.where(b.eq(rows, j), row, x))], []

    return turns(w, size, step, [x])[0][0]


def joint(w: Lowering, *given: Value) -> tuple[tuple[Dim, ...], list[Value]]:
    """The batch that those of matrices broadcast to, and the matrices with it as one axis."""
    batch = broadcast(w, *(w.dims(each)[:-2] for each in given))
    return batch, [matrices(w, expand(w, each, [*batch, *w.dims(each)[-2:]])) for each in given]


@lowers("aten.linalg_solve_triangular")
def solve_triangular(
    w: Lowering, x: Value, B: Value, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:  # fmt: skip
    batch, (a, y) = joint(w, x, B)
    if left:
        return restored(w, substituted(w, a, y, upper, unitriangular), batch)
    found = substituted(w, transposed(w, a), transposed(w, y), not upper, unitriangular)
    return restored(w, transposed(w, found), batch)


@lowers("aten.triangular_solve")
def triangular_solve(
    w: Lowering, x: Value, A: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:  # fmt: skip
    batch, (a, y) = joint(w, A, x)
    found = substituted(w, transposed(w, a) if transpose else a, y, upper != transpose, unitriangular)
    return restored(w, found, batch), restored(w, a, batch)


@lowers("aten.cholesky_solve")
def cholesky_solve(w: Lowering, x: Value, input2: Value, upper: bool = False) -> Any:
    batch, (y, a) = joint(w, x, input2)
    return restored(w, _from_triangle(w, a, y, upper), batch)


@lowers("aten.cholesky_inverse")
def cholesky_inverse(w: Lowering, x: Value, upper: bool = False) -> Any:
    a = matrices(w, x)
    return restored(w, _from_triangle(w, a, identity(w, w.dims(a), a), upper), w.dims(x)[:-2])


def _from_triangle(w: Lowering, a: Value, y: Value, upper: bool) -> Value:
    """The solution where the matrices are ``L L^T`` of the triangles given, or ``U^T U``."""
    lower, higher = (transposed(w, a), a) if upper else (a, transposed(w, a))
    return substituted(w, higher, substituted(w, lower, y, upper=False), upper=True)


# ---- by LU


def solved(w: Lowering, packed: Value, order: Value, y: Value, adjoint: bool = False) -> Value:
    """``A^-1 y``, where ``A[order] = L U``, or ``A^-T y``."""
    shape = w.dims(y)
    if 0 in shape:
        return y
    rows = expand(w, w.b.unsqueeze(order, axes=[2]), shape)
    if not adjoint:
        y = w.b.gather_elements(y, rows, axis=1)
        return substituted(w, packed, substituted(w, packed, y, upper=False, unit=True), upper=True)
    higher = transposed(w, packed)
    y = substituted(w, higher, substituted(w, higher, y, upper=False), upper=True, unit=True)
    found: Value = w.b.scatter_elements(y, rows, y, axis=1, reduction="none")
    return found


def is_vector(w: Lowering, a: Value, y: Value) -> bool:
    """Whether torch takes the right side for a batch of vectors: so where it has the shape of the rows."""
    shape, given = w.dims(a)[:-1], w.dims(y)
    if len(given) != len(shape):
        return len(given) == 1
    return len(given) == 1 or all(w.decide("==", *pair) for pair in zip(shape, given, strict=True))


@lowers("aten._linalg_solve_ex")
def solve_ex(w: Lowering, A: Value, B: Value, left: bool = True, check_errors: bool = False) -> Any:
    """Of a singular matrix, inf or nan comes out. The LU is that of the transpose, as torch has it."""
    vector = is_vector(w, A, B)
    y = w.b.unsqueeze(B, axes=[w.rank(B)]) if vector else B
    own = w.dims(A)[:-2]
    found = LU(w, transposed(w, matrices(w, A)))
    if check_errors:
        checked(w, found.info, "torch.linalg.solve_ex", False)
    order = w.b.unsqueeze(restored(w, found.order, own), axes=[len(own)])
    packed = restored(w, found.packed, own)
    batch, (a, order, y) = joint(w, packed, order, y if left else transposed(w, y))
    result = solved(w, a, w.b.squeeze(order, axes=[1]), y, adjoint=left)
    result = restored(w, result if left else transposed(w, result), batch)
    if vector:
        result = w.b.squeeze(result, axes=[w.rank(result) - 1])
    return result, packed, restored(w, found.pivots, own), restored(w, found.info, own)


@lowers("aten.linalg_lu_solve")
def lu_solve(w: Lowering, LU: Value, pivots: Value, B: Value, left: bool = True, adjoint: bool = False) -> Any:
    """``A X = B``, ``A^T X = B``, or ``X A = B`` and ``X A^T = B``."""
    batch, (a, p, y) = joint(w, LU, w.b.unsqueeze(pivots, axes=[w.rank(pivots) - 1]), B)
    order = order_of(w, w.b.squeeze(p, axes=[1]), w.dims(a)[1])
    found = solved(w, a, order, y if left else transposed(w, y), adjoint=left == adjoint)
    return restored(w, found if left else transposed(w, found), batch)


@lowers("aten.linalg_inv_ex")
def inv_ex(w: Lowering, A: Value, check_errors: bool = False) -> Any:
    """Of a singular matrix, inf or nan comes out."""
    x, batch = matrices(w, A), w.dims(A)[:-2]
    found = LU(w, transposed(w, x))
    if check_errors:
        checked(w, found.info, "torch.linalg.inv_ex", False)
    result = solved(w, found.packed, found.order, identity(w, w.dims(x), x), adjoint=True)
    return restored(w, result, batch), restored(w, found.info, batch)


@lowers("aten._linalg_det")
def det(w: Lowering, A: Value) -> Any:
    """The LU is that of the transpose, as torch has it."""
    x, batch = matrices(w, A), w.dims(A)[:-2]
    found = LU(w, transposed(w, x))
    result = w.b.mul(found.parity(), w.b.reduce_prod(found.diagonal(), axes=[1]))
    return tuple(restored(w, each, batch) for each in (result, found.packed, found.pivots))


@lowers("aten._linalg_slogdet")
def slogdet(w: Lowering, A: Value) -> Any:
    """Of a singular matrix: 0 and -inf. The LU is that of the transpose, as torch has it."""
    x, batch = matrices(w, A), w.dims(A)[:-2]
    found = LU(w, transposed(w, x))
    values = found.diagonal()
    sign = w.b.mul(found.parity(), w.b.reduce_prod(w.b.sign(values), axes=[1]))
    size = w.b.reduce_sum(w.b.log(w.b.abs(values)), axes=[1])
    return tuple(restored(w, each, batch) for each in (sign, size, found.packed, found.pivots))
