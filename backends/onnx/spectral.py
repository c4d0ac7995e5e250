"""Complex numbers at the edges of a graph, and Fourier transforms.

A transform is ONNX's own where onnxruntime's kernel is exact; a short one is better a product with its matrix.
"""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import OPS
from isthmus.ir.ops.spectral import elements

SHORT: Final = 1 << 20
"""A matrix of no more elements is the better form: a product takes less time than the kernel of DFT, and is as exact."""


@emits("view_as_real", "view_as_complex")
def _pairs(e: Emitter, node: Node, x: str) -> Any:
    """Complex numbers are pairs in the file."""
    return x


def _is_short(node: Node) -> bool:
    length = node.attrs["length"]
    return isinstance(length, int) and length > 0 and elements(length, node.attrs["kind"]) <= SHORT


@lowers("dft", since=17)
def _as_product(b: Builder, node: Node, x: Value) -> Any:
    """A short one as a product; a longer one with ONNX's own norm, and scaled."""
    if _is_short(node):
        return OPS["dft"].decompose(b, node.call(), x)
    attrs = node.attrs
    exponent = _EXPONENTS[_own(node)] - _EXPONENTS[attrs["norm"]]
    if not exponent:
        return None
    found, length, dtype = b.dft(x, **{**attrs, "norm": _own(node)}), attrs["length"], node.result.tensor.dtype
    if isinstance(length, int):
        return b.mul(found, float(length) ** exponent)
    size = b.cast(b.size(length), dtype=dtype)
    root = b.sqrt(size) if math.isclose(abs(exponent), 0.5) else size
    return b.div(found, root) if exponent < 0 else b.mul(found, root)


def _own(node: Node) -> str:
    """ONNX divides by the length where it transforms back, and nowhere else."""
    return "length" if node.attrs["inverse"] else "none"


@emits("dft", since=17)
def _dft(e: Emitter, node: Node, x: str) -> Any:
    length, kind, inverse, axis = (node.attrs[name] for name in ("length", "kind", "inverse", "axis"))
    if _is_short(node):
        refuse("so short a transform is better a product with its matrix")
    if node.attrs["norm"] != _own(node):
        refuse("ONNX divides by the length where it transforms back, and nowhere else")
    if kind == "r2c" and inverse:
        refuse("ONNX has no inverse transform of reals to their first frequencies")
    if kind == "c2r" and not inverse:
        refuse("ONNX has no forward transform to reals")
    dtype = node.result.tensor.dtype
    inexact = dtype is dtypes.f32 and not _power_of_two(length)  # then onnxruntime's kernel loses digits
    wide = dtypes.f64 if inexact else dtype
    x = e.op("Cast", x, to=opsets.enum(wide)) if inexact else x
    given = e.sizes.scalar(length) if kind == "c2r" else None
    onesided = int(kind != "c2c")
    if e.opset < 20:
        found = e.op("DFT", x, given, axis=axis, inverse=int(inverse), onesided=onesided)
    else:
        found = e.op("DFT", x, given, e.constant(axis, dtypes.i64), inverse=int(inverse), onesided=onesided)
    return e.op("Cast", found, to=opsets.enum(dtype)) if inexact else found


def _power_of_two(length: Dim) -> bool:
    return isinstance(length, int) and length > 0 and length & (length - 1) == 0


_EXPONENTS: Final = {"none": 0.0, "root": 0.5, "length": 1.0}
"""The power of the length that a norm divides by."""
