"""Products of matrices."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.table import converts
from isthmus.ir.graph import Value


@converts("MatMul")
def matmul(c: Conversion, x: Value, y: Value) -> Any:
    """`numpy.matmul`."""
    return c.b.matmul(x, y)


@converts("Einsum")
def einsum(c: Conversion, *xs: Value, equation: str) -> Any:
    """`numpy.einsum`."""
    return c.b.einsum(xs, equation=equation)


@converts("Det")
def det(c: Conversion, x: Value) -> Any:
    """The determinants of square matrices."""
    return c.b.det(x)


@converts("Gemm")
def gemm(
    c: Conversion, x: Value, y: Value, z: Value | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0, broadcast: int = 1,
) -> Any:  # fmt: skip
    """``alpha * x @ y + beta * z``, with either matrix turned before; a linear layer where it is one."""
    b = c.b
    turned = b.permute(x, perm=[1, 0]) if transA else x
    if z is not None and beta != 1:
        z = b.mul(z, c.same_type(beta, z)) if beta else None
    if z is not None and not c.rank(z) and (number := c.known(z)) is not None and not number.any():
        z = None  # which opsets before 11 cannot leave out
    if alpha == 1 and (z is None or _is_bias(c, y, z, transB)):
        return b.linear(turned, y if transB else b.permute(y, perm=[1, 0]), z)
    found = b.matmul(turned, b.permute(y, perm=[1, 0]) if transB else y)
    if alpha != 1:
        found = b.mul(found, c.same_type(alpha, found))
    return found if z is None else b.add(found, z)


def _is_bias(c: Conversion, y: Value, z: Value, turned: int) -> bool:
    """Whether there is one number a column."""
    columns = c.shape(y)[0 if turned else 1]
    return c.rank(z) == 1 and c.b.graph.symbols.same(c.shape(z)[0], columns) is True
