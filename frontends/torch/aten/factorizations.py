"""Factorizations of matrices by columns: LU with row exchanges, Cholesky's, QR by Householder's reflections.

A batch of matrices is worked on as one, ``[batch, rows, columns]``. The steps of a few columns are written out, those of
more are a loop whose body does one column, with masks in place of views that would shrink: so any size will do, also one
that is not known. What LAPACK is: sgetrf, spotrf, sgeqrf, sorgqr, sormqr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from isthmus.frontends.torch.aten.common import expand, full, reshape
from isthmus.frontends.torch.aten.slicing import part
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, minimum, product
from isthmus.ir.dtypes import i32, i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor

_WRITTEN_OUT: Final = 4
"""A loop of up to so many turns is written out."""

Step = Callable[..., "tuple[Sequence[Value], Sequence[Value]]"]
"""One turn: ``(b, number, *carried)`` -> the carried values for the next turn, and what is stacked."""


def turns(w: Lowering, count: Dim, step: Step, carried: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """The carried values after so many turns, and what the turns stacked along a new first axis.

    After no turn that is known, nothing is stacked: the caller sees to that.
    """
    if isinstance(count, int) and count <= _WRITTEN_OUT:
        stacks: list[Sequence[Value]] = []
        for number in range(count):
            carried, stacked = step(w.b, w.b.constant(number), *carried)
            stacks.append([w.b.unsqueeze(each, axes=[0]) for each in stacked])
        joined = [each[0] if count == 1 else w.b.concat(each, axis=0) for each in zip(*stacks, strict=True)]
        return list(carried), joined

    def body(b: Builder, number: Value, *values: Value) -> list[Value]:
        after, stacked = step(b, number, *values)
        return [b.constant(True), *after, *stacked]

    graph = w.b.subgraph([Tensor(i64, ()), *(value.tensor for value in carried)], body)
    found = w.b.loop(w.tensor(count, i64), None, list(carried), carried=len(carried), regions=[graph])
    results = list(found) if isinstance(found, tuple) else [found]
    return results[: len(carried)], results[len(carried) :]


# ---- batches of matrices


def matrices(w: Lowering, x: Value, rank: int = 2) -> Value:
    """A batch as one axis in front of the last `rank` ones.

    Raises:
        Refusal: the numbers are complex.
    """
    if x.tensor.dtype.is_complex:
        w.unsupported("complex matrices are not factored", "use the real matrix of twice the size")
    shape = w.dims(x)
    front = len(shape) - rank
    return reshape(w, x, [product(shape[:front]), *shape[front:]])


def restored(w: Lowering, x: Value, batch: Sequence[Dim]) -> Value:
    """The axes of a batch in place of the one."""
    return reshape(w, x, [*batch, *w.dims(x)[1:]])


def transposed(w: Lowering, x: Value) -> Value:
    """The matrices with rows and columns exchanged."""
    rank = w.rank(x)
    found: Value = w.b.permute(x, perm=[*range(rank - 2), rank - 1, rank - 2])
    return found


def places(w: Lowering, size: Dim, axis: int) -> Value:
    """0, 1, ... as rows (axis 1: ``[1, size, 1]``), columns (axis 2), or plainly (axis 0)."""
    plain: Value = w.b.arange(start=0, stop=size, dtype=i64)
    return reshape(w, plain, [[size], [1, size, 1], [1, 1, size]][axis])


def identity(w: Lowering, shape: Sequence[Dim], like: Value) -> Value:
    """Ones on the diagonals of matrices ``[batch, rows, columns]``."""
    _, rows, columns = shape
    ones = w.cast(w.b.eq(places(w, rows, 1), places(w, columns, 2)), like.tensor.dtype)
    return expand(w, ones, shape)


def triangle(w: Lowering, x: Value, upper: bool, diagonal: int = 0) -> Value:
    found: Value = w.b.trilu(x, upper=upper, diagonal=diagonal)
    return found


# ---- LU


class LU:
    """``A[order] = L U`` of matrices ``[batch, m, n]``: the greatest of what is left of a column is its pivot.

    Attributes:
        packed: U, and below the diagonal L without its ones.
        order: which row of A each row comes from, i64 ``[batch, m]``.
        pivots: with which row each was exchanged in its turn, counted from 1, i32 ``[batch, min(m, n)]``.
        info: the first pivot that is 0, counted from 1; 0 for none; i32 ``[batch]``.
    """

    def __init__(self, w: Lowering, x: Value, pivot: bool = True) -> None:
        batch, m, n = w.dims(x)
        self.w, self.size = w, minimum(m, n)
        rows, columns, plain = places(w, m, 1), places(w, n, 2), w.b.unsqueeze(places(w, m, 0), axes=[0])
        order, info = expand(w, plain, [batch, m]), full(w, [batch], 0, i64)
        if self.size == 0:
            self.packed, self.order, self.info = x, order, w.cast(info, i32)
            self.pivots = full(w, [batch, 0], 0, i32)
            return

        def step(b: Builder, j: Value, a: Value, order: Value, info: Value) -> Any:
            if pivot:
                left = b.where(b.ge(plain, j), b.abs(b.gather(a, j, axis=2)), -1.0)
                chosen = b.argmax(left, axis=1)
                there = b.unsqueeze(chosen, axes=[1])
                swap = b.where(b.eq(plain, j), there, b.where(b.eq(plain, there), j, plain))
                order = b.gather_elements(order, swap, axis=1)
                a = b.gather_elements(a, b.expand(b.unsqueeze(swap, axes=[2]), shape=[batch, m, n]), axis=1)
            else:
                chosen = b.expand(j, shape=[batch])
            row = b.gather(a, j, axis=1)
            head = b.gather(row, j, axis=1)
            bad = b.eq(head, 0.0)
            below = b.gt(rows, j)
            divisor = b.reshape(b.where(bad, 1.0, head), shape=[batch, 1, 1])
            factor = b.div(b.gather(a, b.unsqueeze(j, axes=[0]), axis=2), divisor)
            rest = b.sub(a, b.mul(factor, b.unsqueeze(row, axes=[1])))
            a = b.where(b.logical_and(below, b.gt(columns, j)), rest, a)
            a = b.where(b.logical_and(below, b.eq(columns, j)), factor, a)
            info = b.where(b.logical_and(bad, b.eq(info, 0)), b.add(j, 1), info)
            return [a, order, info], [b.cast(b.add(chosen, 1), dtype=i32)]

        (self.packed, self.order, info), (pivots,) = turns(w, self.size, step, [x, order, info])
        self.info, self.pivots = w.cast(info, i32), w.b.permute(pivots, perm=[1, 0])

    def diagonal(self) -> Value:
        """The pivots' values, ``[batch, min(m, n)]``."""
        found: Value = self.w.b.diagonal(self.packed, offset=0, axis1=1, axis2=2)
        return found

    def parity(self) -> Value:
        """1 for an even number of exchanges, -1 for an odd one, ``[batch]``."""
        b = self.w.b
        moved = b.ne(self.pivots, b.cast(b.add(places(self.w, self.size, 0), 1), dtype=i32))
        odd = b.mod(b.reduce_sum(b.cast(moved, dtype=i64), axes=[1]), 2)
        return self.w.cast(b.sub(1, b.mul(odd, 2)), self.packed.tensor.dtype)


def unpacked(w: Lowering, packed: Value) -> tuple[Value, Value]:
    """L with its ones, ``[batch, m, k]``, and U, ``[batch, k, n]``."""
    batch, m, n = w.dims(packed)
    size = minimum(m, n)
    lower = triangle(w, part(w, packed, 2, 0, size), upper=False, diagonal=-1)
    return w.b.add(lower, identity(w, [batch, m, size], packed)), triangle(w, part(w, packed, 1, 0, size), upper=True)


def permutation(w: Lowering, order: Value, like: Value) -> Value:
    """The matrices P with ``A = P L U``."""
    size = w.dims(order)[1]
    return w.cast(w.b.eq(places(w, size, 1), w.b.unsqueeze(order, axes=[1])), like.tensor.dtype)


def order_of(w: Lowering, pivots: Value, rows: Dim) -> Value:
    """Which row each row comes from, after the exchanges in their turn: i64 ``[batch, rows]``."""
    batch, count = w.dims(pivots)
    plain = w.b.unsqueeze(places(w, rows, 0), axes=[0])
    pivots = w.b.sub(w.cast(pivots, i64), 1)

    def step(b: Builder, j: Value, order: Value) -> Any:
        there = b.gather(pivots, b.unsqueeze(j, axes=[0]), axis=1)
        swap = b.where(b.eq(plain, j), there, b.where(b.eq(plain, there), j, plain))
        return [b.gather_elements(order, swap, axis=1)], []

    return turns(w, count, step, [expand(w, plain, [batch, rows])])[0][0]


@lowers("aten.linalg_lu_factor_ex")
def lu_factor_ex(w: Lowering, A: Value, pivot: bool = True, check_errors: bool = False) -> Any:
    found, batch = LU(w, matrices(w, A), pivot), w.dims(A)[:-2]
    if check_errors:
        checked(w, found.info, "torch.linalg.lu_factor_ex", False)
    return tuple(restored(w, each, batch) for each in (found.packed, found.pivots, found.info))


@lowers("aten.linalg_lu")
def lu(w: Lowering, A: Value, pivot: bool = True) -> Any:
    """Without pivots, P has no elements."""
    x, batch = matrices(w, A), w.dims(A)[:-2]
    found = LU(w, x, pivot)
    p = restored(w, permutation(w, found.order, x), batch) if pivot else full(w, [0], 0, x.tensor.dtype)
    return p, *(restored(w, each, batch) for each in unpacked(w, found.packed))


@lowers("aten.lu_unpack")
def lu_unpack(w: Lowering, LU_data: Value, LU_pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """What is not asked for has no elements."""
    x, batch = matrices(w, LU_data), w.dims(LU_data)[:-2]
    nothing = full(w, [0], 0, x.tensor.dtype)
    p = lower = upper = nothing
    if unpack_pivots:
        order = order_of(w, matrices(w, LU_pivots, 1), w.dims(x)[1])
        p = restored(w, permutation(w, order, x), batch)
    if unpack_data:
        lower, upper = (restored(w, each, batch) for each in unpacked(w, x))
    return p, lower, upper


@lowers("aten._linalg_check_errors")
def checked(w: Lowering, info: Value, api_name: str, is_matrix: bool) -> Any:
    """What torch raises for, a `check` raises for where a target has it; the results elsewhere hold inf or nan."""
    w.b.check(w.b.eq(info, w.tensor(0, info.tensor.dtype)), message=f"{api_name}: a matrix cannot be factored")


# ---- Cholesky's


def cholesky(w: Lowering, x: Value) -> tuple[Value, Value]:
    """L with ``A = L L^T`` of the lower triangles, and the first minor that is not positive, counted from 1 (0 for none).

    From that one on, L holds nan.
    """
    batch, size, _ = w.dims(x)
    rows, columns = places(w, size, 1), places(w, size, 2)
    info = full(w, [batch], 0, i64)
    if size == 0:
        return x, w.cast(info, i32)

    def step(b: Builder, j: Value, lower: Value, info: Value) -> Any:
        here = b.unsqueeze(j, axes=[0])
        row = b.permute(b.gather(lower, here, axis=1), perm=[0, 2, 1])
        column = b.sub(b.gather(x, here, axis=2), b.matmul(lower, row))
        head = b.gather(column, here, axis=1)
        column = b.div(column, b.sqrt(head))
        lower = b.where(b.logical_and(b.eq(columns, j), b.ge(rows, j)), column, lower)
        bad = b.logical_not(b.gt(b.reshape(head, shape=[batch]), 0.0))
        return [lower, b.where(b.logical_and(bad, b.eq(info, 0)), b.add(j, 1), info)], []

    (lower, info), _ = turns(w, size, step, [full(w, w.dims(x), 0, x.tensor.dtype), info])
    return lower, w.cast(info, i32)


@lowers("aten.linalg_cholesky_ex")
def cholesky_ex(w: Lowering, x: Value, upper: bool = False, check_errors: bool = False) -> Any:
    """Of what is not positive definite, nan comes out, where torch leaves what it had got to."""
    batch, a = w.dims(x)[:-2], matrices(w, x)
    lower, info = cholesky(w, transposed(w, a) if upper else a)
    if check_errors:
        checked(w, info, "torch.linalg.cholesky_ex", False)
    return restored(w, transposed(w, lower) if upper else lower, batch), restored(w, info, batch)


# ---- QR


def householder(w: Lowering, x: Value) -> tuple[Value, Value]:
    """R, with the reflections below its diagonal, and their factors ``[batch, min(m, n)]``, as LAPACK has them."""
    batch, m, n = w.dims(x)
    rows, columns = places(w, m, 1), places(w, n, 2)
    size = minimum(m, n)
    if size == 0:
        return x, full(w, [batch, 0], 0, x.tensor.dtype)

    def step(b: Builder, j: Value, a: Value) -> Any:
        here, below = b.unsqueeze(j, axes=[0]), b.gt(rows, j)
        column = b.gather(a, here, axis=2)
        head = b.gather(column, here, axis=1)
        tail = b.where(below, column, 0.0)
        # Scaled by the greatest, so that squares neither overflow nor vanish.
        most = b.maximum(b.reduce_max(b.abs(tail), axes=[1], keepdims=True), b.abs(head))
        most = b.where(b.eq(most, 0.0), 1.0, most)
        scaled, first = b.div(tail, most), b.div(head, most)
        rest = b.reduce_sum(b.mul(scaled, scaled), axes=[1], keepdims=True)
        norm = b.mul(most, b.sqrt(b.add(rest, b.mul(first, first))))
        flat = b.eq(rest, 0.0)
        beta = b.where(flat, head, b.where(b.ge(head, 0.0), b.neg(norm), norm))
        tau = b.where(flat, 0.0, b.div(b.sub(beta, head), b.where(flat, 1.0, beta)))
        tail = b.div(tail, b.where(flat, 1.0, b.sub(head, beta)))
        vector = b.where(b.eq(rows, j), 1.0, tail)
        shares = b.matmul(b.permute(vector, perm=[0, 2, 1]), a)
        reflected = b.sub(a, b.mul(b.mul(tau, vector), shares))
        a = b.where(b.gt(columns, j), reflected, a)
        packed = b.where(below, tail, b.where(b.eq(rows, j), beta, column))
        return [b.where(b.eq(columns, j), packed, a)], [b.reshape(tau, shape=[batch])]

    (packed,), (tau,) = turns(w, size, step, [x])
    return packed, w.b.permute(tau, perm=[1, 0])


def reflected(w: Lowering, packed: Value, tau: Value, x: Value, last_first: bool) -> Value:
    """The reflections of the columns of `packed` applied to matrices: the last one first for ``Q x``, else ``Q^T x``."""
    rows, count = places(w, w.dims(packed)[1], 1), w.dims(tau)[1]
    final = w.tensor(count - 1, i64)

    def step(b: Builder, number: Value, x: Value) -> Any:
        j = b.sub(final, number) if last_first else number
        here = b.unsqueeze(j, axes=[0])
        vector = b.where(b.gt(rows, j), b.gather(packed, here, axis=2), b.cast(b.eq(rows, j), dtype=x.tensor.dtype))
        factor = b.unsqueeze(b.gather(tau, here, axis=1), axes=[2])
        return [b.sub(x, b.mul(b.mul(factor, vector), b.matmul(b.permute(vector, perm=[0, 2, 1]), x)))], []

    return turns(w, count, step, [x])[0][0]


@lowers("aten.geqrf")
def geqrf(w: Lowering, x: Value) -> Any:
    batch = w.dims(x)[:-2]
    return tuple(restored(w, each, batch) for each in householder(w, matrices(w, x)))


@lowers("aten.linalg_qr")
def qr(w: Lowering, A: Value, mode: str = "reduced") -> Any:
    """With LAPACK's signs: those of the diagonal of R are what the reflections leave. For ``"r"``, Q has no elements."""
    batch, x = w.dims(A)[:-2], matrices(w, A)
    count, m, n = w.dims(x)
    packed, tau = householder(w, x)
    height = m if mode == "complete" else minimum(m, n)
    r = restored(w, triangle(w, part(w, packed, 1, 0, height), upper=True), batch)
    if mode == "r":
        return full(w, [0], 0, x.tensor.dtype), r
    q = reflected(w, packed, tau, identity(w, [count, m, height], x), last_first=True)
    return restored(w, q, batch), r


@lowers("aten.linalg_householder_product", "aten.orgqr")
def householder_product(w: Lowering, x: Value, tau: Value) -> Any:
    batch, packed = w.dims(x)[:-2], matrices(w, x)
    start = identity(w, w.dims(packed), packed)
    return restored(w, reflected(w, packed, matrices(w, tau, 1), start, last_first=True), batch)


@lowers("aten.ormqr")
def ormqr(w: Lowering, x: Value, input2: Value, input3: Value, left: bool = True, transpose: bool = False) -> Any:
    """Q of the reflections in `x`, or its transpose, times `input3`, or behind it."""
    batch = w.dims(input3)[:-2]
    other = matrices(w, input3)
    found = reflected(
        w, matrices(w, x), matrices(w, input2, 1), other if left else transposed(w, other), last_first=left != transpose
    )
    return restored(w, found if left else transposed(w, found), batch)
