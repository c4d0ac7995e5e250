"""Constants, and the bridges between dims and values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from isthmus.ir.attributes import DIM, SYMBOL, WEIGHT
from isthmus.ir.dims import Dim, Symbol
from isthmus.ir.dtypes import i64
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import weight


@register
class Constant(Op):
    """A tensor known when the model is compiled."""

    name = "constant"
    attributes = {"value": WEIGHT}
    traits = Trait.PURE | Trait.CONSTANT

    def infer(self, call: Call) -> Sequence[Type]:
        handle = call["value"]
        return (Tensor(handle.dtype, handle.shape),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return call["value"].array()

    def infer_value(self, call: Call, *operands: tuple[Dim, ...] | None) -> Sequence[tuple[Dim, ...] | None]:
        handle = call["value"]
        if not (handle.dtype.is_integer or handle.dtype.kind == "bool") or handle.size > 64:
            return (None,)
        return (tuple(int(x) for x in handle.array().reshape(-1)),)

    def samples(self) -> Iterable[Sample]:
        yield sample(value=weight(rng().standard_normal((2, 3), np.float32)))
        yield sample(value=weight(np.int64(7)), note="scalar")
        yield sample(value=weight(np.array(["a", "b"])), note="strings")


@register
class Size(Op):
    """A dim as a number. Backends compute it from the value that binds its symbols."""

    name = "size"
    attributes = {"dim": DIM}

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(i64, ()),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.int64(call["dim"])

    def infer_value(self, call: Call, *operands: tuple[Dim, ...] | None) -> Sequence[tuple[Dim, ...] | None]:
        return ((call["dim"],),)

    def samples(self) -> Iterable[Sample]:
        yield sample(dim=12)


@register
class Bind(Op):
    """An integer that the model computes, with the symbol that stands for it in sizes."""

    name = "bind"
    operands = operands("x: index T")
    attributes = {"symbol": SYMBOL}

    def infer(self, call: Call) -> Sequence[Type]:
        if call.shape(0) != ():
            raise call.error("only a scalar can be a size")
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return operands[0]

    def infer_value(self, call: Call, *operands: tuple[Dim, ...] | None) -> Sequence[tuple[Dim, ...] | None]:
        return ((call["symbol"].dim,),)

    def samples(self) -> Iterable[Sample]:
        yield sample(np.int64(3), symbol=Symbol("n", 0, hint=3))
        yield sample(np.int32(3), symbol=Symbol("n", 0, hint=3), note="i32")


@register
class Identity(Op):
    """The operand itself: any value, sequences and optionals included."""

    name = "identity"
    operands = operands("x: type")
    traits = Trait.PURE | Trait.IDEMPOTENT | Trait.IDENTITY

    def infer(self, call: Call) -> Sequence[Type]:
        type = call.types[0]
        assert type is not None  # `check` saw to it
        return (type,)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return operands[0]

    def infer_value(self, call: Call, *operands: tuple[Dim, ...] | None) -> Sequence[tuple[Dim, ...] | None]:
        return operands

    def samples(self) -> Iterable[Sample]:
        yield sample(rng().standard_normal((2, 3)).astype(np.float32))
        yield sample(np.int64(7), note="scalar")
        yield sample([np.arange(2), np.arange(3)], note="sequence")
