"""The exponential of matrices, by scaling and squaring (Higham 2005) with Taylor's polynomial."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.frontends.torch.aten.factorizations import identity, matrices, restored
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import f64, i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Tensor

_DEGREE: Final = 18
_REACH: Final = {True: 1.0, False: 2.0}
"""Up to which norm the polynomial is exact: for doubles, and for floats."""


@lowers("aten.linalg_matrix_exp")
def matrix_exp(w: Lowering, x: Value) -> Any:
    """Each matrix is halved as often as its norm asks for, and the exponential squared as often."""
    if 0 in w.dims(x)[-2:]:
        return x
    batch, a = w.dims(x)[:-2], matrices(w, x)
    b, dtype = w.b, a.tensor.dtype
    norm = b.reduce_max(b.reduce_sum(b.abs(a), axes=[1], keepdims=True), axes=[2], keepdims=True)
    ratio = b.maximum(b.div(norm, _REACH[dtype is f64]), 1.0)
    steps = b.ceil(b.log2(b.where(b.is_finite(ratio), ratio, 1.0)))
    result = _taylor(w, b.mul(a, b.exp2(b.neg(steps))))

    def turn(b: Builder, number: Value, result: Value) -> list[Value]:
        return [b.constant(True), b.where(b.lt(b.cast(number, dtype=dtype), steps), b.matmul(result, result), result)]

    # The most steps of all matrices, and 0 where there is no matrix.
    flat = b.concat([b.reshape(steps, shape=[w.dims(a)[0]]), b.constant([0.0], dtype)], axis=0)
    limit = w.cast(b.reduce_max(flat, axes=[0]), i64)
    body = b.subgraph([Tensor(i64, ()), result.tensor], turn)
    return restored(w, b.loop(limit, None, [result], carried=1, regions=[body]), batch)


def _taylor(w: Lowering, a: Value) -> Value:
    """The polynomial, in powers of the fourth power (Paterson, Stockmeyer)."""
    b = w.b
    square = b.matmul(a, a)
    cube, fourth = b.matmul(square, a), b.matmul(square, square)
    powers = [identity(w, w.dims(a), a), a, square, cube]
    found: Value | None = None
    for first in range(_DEGREE // 4 * 4, -1, -4):
        terms = [b.mul(powers[n - first], 1 / math.factorial(n)) for n in range(first, min(first + 4, _DEGREE + 1))]
        block = terms[0]
        for term in terms[1:]:
            block = b.add(block, term)
        found = block if found is None else b.add(b.matmul(found, fourth), block)
    assert found is not None, "the degree is not negative"
    return found
