"""Complex numbers: made of real ones, taken apart, and measured. What else is done with them, elementwise ops do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.dtypes import DType
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.types import Tensor, Type

COMPLEX_OF: Final[dict[DType, DType]] = {dtypes.f32: dtypes.c64, dtypes.f64: dtypes.c128}
"""The complex numbers whose parts have a float type; there are no others."""

REAL_OF: Final[dict[DType, DType]] = {complex_: real for real, complex_ in COMPLEX_OF.items()}
"""The float type of the parts of complex numbers."""


def complex_of(call: Call, index: int) -> DType:
    """The complex numbers whose parts an operand's elements can be.

    Raises:
        InferError: there are none.
    """
    found = COMPLEX_OF.get(call.dtype(index))
    if found is None:
        raise call.error("there are no complex numbers of such parts", expected="f32 or f64", found=str(call.dtype(index)))
    return found


def _draw(*shape: int) -> Any:
    draws = rng()
    return (draws.standard_normal(shape) + 1j * draws.standard_normal(shape)).astype(np.complex64)


@register
class Complex(Op):
    """``real + i * imag``; the two broadcast."""

    name = "complex"
    operands = operands("real: float T, imag: float T")
    traits = Trait.PURE | Trait.ELEMENTWISE
    source = "torch.complex"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(complex_of(call, 0), call.broadcast(call.shape(0), call.shape(1))),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        real, imag = np.broadcast_arrays(*operands)
        found = np.empty(real.shape, COMPLEX_OF[dtypes.from_numpy(real.dtype)].numpy)
        found.real, found.imag = real, imag  # not by arithmetic: infinity times i has no real part
        return found

    def samples(self) -> Iterable[Sample]:
        x, y = rng().standard_normal((2, 2, 3)).astype(np.float32)
        yield sample(x, y)
        yield sample(x, y[:1], note="broadcast")
        yield sample(x.astype(np.float64), np.float64(0), note="f64")
        yield sample(np.array([np.inf, 0, np.nan], np.float32), np.array([0, -np.inf, 1], np.float32), note="special")
        yield sample(np.float32(1), np.float32(2), note="scalars")


class _ToReal(Op):
    """The family of maps from complex numbers to their float type."""

    operands = operands("x: complex T")
    traits = Trait.PURE | Trait.ELEMENTWISE
    function: Any

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        return (Tensor(REAL_OF[x.dtype], x.shape),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.array(self.function(operands[0]))

    def samples(self) -> Iterable[Sample]:
        yield sample(_draw(2, 3))
        yield sample(_draw(2, 3).astype(np.complex128), note="c128")
        yield sample(_draw(), note="scalar")
        yield sample(_draw(0, 3), note="empty")
        yield sample(np.array([0, -1, 1j, complex(np.inf, 1), complex(1, np.nan)], np.complex64), note="special")


@register
class Real(_ToReal):
    """The real part."""

    name = "real"
    source = "numpy.real"
    function = staticmethod(np.real)


@register
class Imag(_ToReal):
    """The imaginary part."""

    name = "imag"
    source = "numpy.imag"
    function = staticmethod(np.imag)


@register
class Modulus(_ToReal):
    """The distance from 0. A target without complex numbers squares the parts, which may overflow or vanish."""

    name = "modulus"
    source = "numpy.absolute"
    function = staticmethod(np.absolute)


@register
class Conj(Op):
    """The conjugate: the imaginary part with the other sign."""

    name = "conj"
    operands = operands("x: complex T")
    traits = Trait.PURE | Trait.ELEMENTWISE | Trait.INVOLUTION
    source = "numpy.conj"

    def infer(self, call: Call) -> Sequence[Type]:
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.conj(operands[0])

    def samples(self) -> Iterable[Sample]:
        yield sample(_draw(2, 3))
        yield sample(_draw().astype(np.complex128), note="scalar-c128")


@register
class ViewAsReal(Op):
    """Complex numbers as pairs: the real and the imaginary part along a new last axis."""

    name = "view_as_real"
    operands = operands("x: complex T")
    source = "torch.view_as_real"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(REAL_OF[call.dtype(0)], (*call.shape(0), 2)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.stack([operands[0].real, operands[0].imag], -1)

    def samples(self) -> Iterable[Sample]:
        yield sample(_draw(2, 3))
        yield sample(_draw().astype(np.complex128), note="scalar-c128")
        yield sample(_draw(0, 3), note="empty")


@register
class ViewAsComplex(Op):
    """Pairs along the last axis as complex numbers; the inverse of `view_as_real`."""

    name = "view_as_complex"
    operands = operands("x: float T")
    source = "torch.view_as_complex"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        if not shape:
            raise call.error("a scalar is no pair")
        call.unify(shape[-1], 2, "the last size and 2")
        return (Tensor(complex_of(call, 0), shape[:-1]),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        pairs = np.ascontiguousarray(operands[0])
        return pairs.view(COMPLEX_OF[dtypes.from_numpy(pairs.dtype)].numpy).reshape(pairs.shape[:-1])

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3, 2)).astype(np.float32)
        yield sample(x, symbolic=False)
        yield sample(x[0, 0].astype(np.float64), note="scalar-f64", symbolic=False)
        yield sample(x[:0], note="empty", symbolic=False)
