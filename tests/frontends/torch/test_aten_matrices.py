"""Factorizations of matrices and what is made of them, held against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from aten_cases import Case, T, cases, check, f

D = torch.float64


def well(x: torch.Tensor) -> torch.Tensor:
    """Matrices that are far from singular."""
    return x + 6 * torch.eye(x.shape[-1], dtype=x.dtype)


def definite(x: torch.Tensor) -> torch.Tensor:
    """Matrices that are positive definite."""
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


SHAPES = [(3, 3), (2, 1, 6, 6), (1, 1), (0, 0), (3, 0, 0), ("N", 5, 5), ("M", "M")]
TALL_AND_WIDE = [(3, 5), (2, 6, 4), (2, 1, 3), (0, 3), (3, 0), ("N", "M")]


def shaped(*shapes: tuple[Any, ...]) -> pytest.MarkDecorator:
    """Matrices of single and of double precision: of the first shape in both."""
    given = [f(*shapes[0], dtype=D), *(f(*shape) for shape in shapes)]
    return pytest.mark.parametrize("x", given, ids=[f"{x.dtype}{list(x.dims)}".removeprefix("torch.float") for x in given])


@shaped(*SHAPES, *TALL_AND_WIDE)
def test_lu(x: T) -> None:
    check(Case(lambda x: (torch.linalg.lu(x), torch.linalg.lu_factor_ex(x), torch.lu_unpack(*torch.linalg.lu_factor(x))), x))


@shaped(*SHAPES)
def test_lu_without_pivots(x: T) -> None:
    factor_ex = torch.ops.aten.linalg_lu_factor_ex
    check(Case(lambda x: torch.lu_unpack(*factor_ex(well(x))[:2], unpack_pivots=False), x))


@shaped(*SHAPES)
def test_determinants(x: T) -> None:
    check(Case(lambda x: (torch.linalg.det(x), torch.linalg.slogdet(x), torch.logdet(x)), x, rtol=1e-4))


def test_of_singular_matrices() -> None:
    """Row exchanges of every kind; a pivot of 0 is skipped, and told by its number."""
    rows = torch.eye(5)[torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(n)) for n in range(9)])]
    flat = torch.tensor([[[1.0, 2, 8], [2, 4, 16], [1, 2, 4]], [[0, 0, 0], [0, 0, 1], [0, 2, 0]], [[0, 0, 0]] * 3])

    def function(x: torch.Tensor) -> Any:
        permuted, singular = rows * x.exp(), flat * x.exp()
        found = [torch.linalg.det(permuted), torch.linalg.inv(permuted), torch.linalg.lu(permuted)]
        found += [torch.linalg.lu_factor_ex(singular), torch.linalg.det(singular), torch.linalg.slogdet(singular)[:2]]
        return *found, torch.linalg.inv_ex(singular).info, torch.logdet(singular)

    check(Case(function, f(low=-1, high=1)))


@shaped(*SHAPES)
def test_solutions(x: T) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        a, size = well(x), x.shape[-1]
        right = y.expand(*x.shape[:-1], 2) if size == 0 else y.repeat(*[1] * (x.dim() - 2), size, 1)
        vector = a.sum(-1)
        found = [torch.linalg.solve(a, right), torch.linalg.solve(a, right.mT, left=False), torch.linalg.solve(a, vector)]
        found += [torch.linalg.inv(a), torch.linalg.inv_ex(a), torch.linalg.solve_ex(a, right)]
        factors = torch.linalg.lu_factor(a)
        for adjoint in (False, True):
            found.append(torch.linalg.lu_solve(*factors, right, adjoint=adjoint))
            found.append(torch.linalg.lu_solve(*factors, right.mT, left=False, adjoint=adjoint))
        return [each for item in found for each in ([item] if isinstance(item, torch.Tensor) else item)]

    check(Case(function, x, f(1, 2, dtype=x.dtype)))


def test_batches_are_broadcast() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        a, triangle = well(a), torch.triu(well(a))
        found = [torch.linalg.solve(a, b), torch.linalg.solve_triangular(triangle, b, upper=True)]
        return *found, torch.cholesky_solve(b, triangle, upper=True), torch.lu_solve(b, *torch.linalg.lu_factor(a))

    check(Case(function, f("N", 1, 5, 5), f("M", 5, 2)))
    check(Case(function, f(3, 3), f("M", 3, "N")))


@shaped(*SHAPES)
def test_triangles(x: T) -> None:
    def function(x: torch.Tensor) -> Any:
        a, right = well(x), x[..., :1] if x.shape[-1] else x
        found = []
        for upper in (False, True):
            for unit in (False, True):
                scaled = a / 8 if unit else a
                found.append(torch.linalg.solve_triangular(scaled, right, upper=upper, unitriangular=unit))
                found.append(torch.linalg.solve_triangular(scaled, right.mT, upper=upper, left=False, unitriangular=unit))
            found += torch.triangular_solve(right, a, upper=upper, transpose=True)
        return found

    check(Case(function, x))


@shaped(*SHAPES)
def test_cholesky(x: T) -> None:
    def function(x: torch.Tensor) -> Any:
        a = definite(x)
        found = []
        for upper in (False, True):
            factor = torch.linalg.cholesky(a, upper=upper)
            found += [factor, torch.cholesky_inverse(factor, upper=upper), torch.cholesky_solve(x, factor, upper=upper)]
        return *found, *torch.linalg.cholesky_ex(a)

    check(Case(function, x, rtol=1e-4, atol=1e-4))


def test_cholesky_of_what_is_not_definite() -> None:
    signs = torch.tensor([[1.0, 1, 1], [1, -1, 1], [0, 1, 1]])
    check(Case(lambda x: torch.linalg.cholesky_ex(torch.diag_embed(signs * x.exp())).info, f()))


@shaped(*SHAPES, *TALL_AND_WIDE)
def test_qr(x: T) -> None:
    square = x.dims[-1] == x.dims[-2]

    def function(x: torch.Tensor) -> Any:
        found = [*torch.linalg.qr(x), *torch.linalg.qr(x, mode="complete"), *torch.linalg.qr(x, mode="r"), *torch.geqrf(x)]
        packed, tau = found[-2:]
        if square:
            found.append(torch.linalg.householder_product(packed, tau))
            for transpose in (False, True):
                found.append(torch.ormqr(packed, tau, x, transpose=transpose))
                found.append(torch.ormqr(packed, tau, x.mT, left=False, transpose=transpose))
        return found

    check(Case(function, x))


def test_qr_of_columns_that_vanish() -> None:
    """Nothing to reflect leaves what is there, with its sign."""
    given = torch.tensor([[[1.0, 2, 3], [0, -4, 5], [0, 0, -6]], [[0, 0, 0]] * 3, [[0, 1, 0], [0, 0, 0], [-1, 0, 2]]])
    check(Case(lambda x: (*torch.geqrf(given * x.exp()), *torch.linalg.qr(given * x.exp() * 1e25)), f(low=-1, high=1)))


@cases(
    powers=[lambda x: [torch.linalg.matrix_power(well(x), n) for n in (-3, -1, 0, 1, 4)], f("N", 3, 3)],
    tensors=[
        lambda x, y: (torch.linalg.tensorinv(x, ind=1), torch.linalg.tensorsolve(x, y)),
        f(6, 2, 3), f(6),
    ],
)  # fmt: skip
def test_made_of_others(case: Case) -> None:
    check(case)


# ---- singular values

JACOBI = [(3, 3), (2, 1, 4, 4), (1, 1), (3, 0, 0), ("N", 5, 5)]


@shaped(*JACOBI, (3, 5), (2, 6, 4), (2, 1, 3), (0, 3))
def test_singular_values(x: T) -> None:
    def function(x: torch.Tensor) -> Any:
        norms = [torch.linalg.matrix_norm(x, ord=n, keepdim=True) for n in (2, -2)] if min(x.shape[-2:]) else []
        found = [torch.linalg.svdvals(x), torch.linalg.matrix_norm(x, ord="nuc"), torch.linalg.pinv(x)]
        found += [torch.linalg.matrix_norm(x, ord=2), torch.linalg.matrix_norm(x, ord=float("inf"))]
        return *found, *norms, torch.linalg.matrix_rank(x), torch.linalg.pinv(x, atol=0.1, rtol=0.5)

    check(Case(function, x, rtol=1e-4))


@shaped(*JACOBI)
def test_symmetric_matrices(x: T) -> None:
    def function(x: torch.Tensor) -> Any:
        found = [torch.linalg.eigvalsh(x, UPLO=side) for side in "LU"] + [torch.linalg.pinv(x, hermitian=True)]
        return *found, torch.linalg.matrix_rank(x, hermitian=True), torch.linalg.matrix_sqrth(definite(x))

    check(Case(function, x, rtol=1e-4))


def test_of_few_independent_columns() -> None:
    """Ranks below the full one, values that are equal or zero, and eigenvalues of both signs and the same size."""
    flat = torch.tensor([[[1.0, 2, 3], [2, 4, 6], [1, 2, 3]], [[0, 0, 0], [0, 0, 1], [0, 2, 0]], [[0, 0, 0]] * 3])
    paired = torch.tensor([[[0.0, 1, 0], [1, 0, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]])

    def function(x: torch.Tensor) -> Any:
        found = [torch.linalg.svdvals(flat * x.exp()), torch.linalg.pinv(flat * x.exp()), torch.linalg.eigvalsh(paired * x)]
        found += [torch.linalg.matrix_rank(flat * x.exp()), torch.linalg.svdvals(flat * 1e-30)]
        return *found, torch.linalg.cond(paired * x)

    check(Case(function, f(low=1, high=2)))


@shaped((3, 3), ("N", 5, 2))
def test_polar(x: T) -> None:
    check(Case(lambda x: tuple(torch.linalg.polar(x)), x, rtol=1e-4))


@shaped((2, 3), ("N", 3, 3))
@pytest.mark.parametrize("driver", ["gels", "gelsd", "gelss", "gelsy"])
def test_least_squares(x: T, driver: str) -> None:
    def function(x: torch.Tensor) -> Any:
        return *torch.linalg.lstsq(x, x, driver=driver), torch.linalg.lstsq(x, x[..., 0], driver=driver).solution

    check(Case(function, x, rtol=1e-4))


def test_least_squares_of_many_equations() -> None:
    check(Case(lambda x, y: tuple(torch.linalg.lstsq(x, y, driver="gels")), f("N", 7, 3), f("N", 7, 2), rtol=1e-4))
    check(Case(lambda x, y: tuple(torch.linalg.lstsq(x, y)), f("N", 7, 3), f("N", 7, 2), rtol=1e-4))


# ---- the exponential


@shaped((3, 3), (2, 1, 6, 6), (1, 1), (0, 0), ("N", 5, 5))
def test_exponential(x: T) -> None:
    """Small and great norms in one batch."""
    check(Case(lambda x: (torch.matrix_exp(x), torch.matrix_exp(x * 1e-3), torch.matrix_exp(x[..., :1, :1] * 9)), x, rtol=1e-4))


def test_exponential_scales_each_matrix() -> None:
    scales = torch.tensor([1e-8, 0.1, 1.0, 5.0])[:, None, None]
    check(Case(lambda x: torch.matrix_exp(x * scales), f(1, 4, 4, low=-1, high=1), rtol=1e-4))
    check(Case(lambda x: torch.matrix_exp(x * scales), f(1, 4, 4, low=-1, high=1, dtype=D), rtol=1e-11))
