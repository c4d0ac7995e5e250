"""Complex tensors: made, taken apart, measured and conjugated."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.graph import Value


@lowers("aten.view_as_real", "aten.view_as_real_copy")
def view_as_real(w: Lowering, x: Value) -> Any:
    return w.b.view_as_real(x)


@lowers("aten.view_as_complex", "aten.view_as_complex_copy")
def view_as_complex(w: Lowering, x: Value) -> Any:
    return w.b.view_as_complex(x)


@lowers("aten.complex")
def complex_(w: Lowering, real: Value, imag: Value) -> Any:
    return w.b.complex(real, imag)


@lowers("aten.polar")
def polar(w: Lowering, abs: Value, angle: Value) -> Any:
    return w.b.complex(w.b.mul(abs, w.b.cos(angle)), w.b.mul(abs, w.b.sin(angle)))


@lowers("aten.real")
def real(w: Lowering, x: Value) -> Any:
    return w.b.real(x) if x.tensor.dtype.is_complex else x


@lowers("aten.imag")
def imag(w: Lowering, x: Value) -> Any:
    if not x.tensor.dtype.is_complex:
        w.unsupported("real numbers have no imaginary part")
    return w.b.imag(x)


@lowers("aten.conj", "aten._conj", "aten.conj_physical", "aten._conj_physical", "aten._conj_copy")
def conj(w: Lowering, x: Value) -> Any:
    return w.b.conj(x) if x.tensor.dtype.is_complex else x


@lowers("aten._neg_view", "aten._neg_view_copy")
def neg_view(w: Lowering, x: Value) -> Any:
    return w.b.neg(x)


@lowers("aten.isreal")
def isreal(w: Lowering, x: Value) -> Any:
    return w.b.eq(w.b.imag(x), 0) if x.tensor.dtype.is_complex else w.b.eq(x, x)
