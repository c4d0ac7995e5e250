"""Elementwise arithmetic, comparison and logic: numpy's semantics, one element type, no hidden promotion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from isthmus.ir.dtypes import bool_
from isthmus.ir.op import OPS, Call, Op, Operand, Sample, Trait, operands, rng, sample
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

Function = Callable[..., Any]


class Elementwise(Op):
    """The family: operands broadcast, and the result has their element type (or bool).

    Args:
        name: the op's name.
        signature: its operands, as for `operands`.
        function: the numpy function.
        traits: further traits.
        to_bool: the result is bool.
        source: where the semantics are defined.
    """

    def __init__(
        self, name: str, signature: str, function: Function, traits: Trait = Trait.NONE, to_bool: bool = False, source: str = "",
    ) -> None:  # fmt: skip
        self.name = name
        self.operands: tuple[Operand, ...] = operands(signature)
        self.function = function
        self.traits = Trait.PURE | Trait.ELEMENTWISE | traits
        self.to_bool = to_bool
        self.source = source or f"numpy.{getattr(function, '__name__', name)}"
        self.__doc__ = f"Elementwise `{self.source}`."

    def infer(self, call: Call) -> Sequence[Type]:
        first = call.tensor(0)
        if len(call.types) == 1:
            return (Tensor(bool_, first.shape) if self.to_bool else first,)
        shape = call.broadcast(*(call.shape(index) for index in range(len(call.types))))
        return (Tensor(bool_ if self.to_bool else first.dtype, shape),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        with np.errstate(all="ignore"):  # nan and inf are results like any other
            result = self.function(*operands)
        return np.asarray(result, bool_.numpy if self.to_bool else operands[0].dtype)

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        allowed = self.operands[0].dtypes or frozenset()

        def draw(numpy: type, *shape: int) -> Array:
            if numpy is np.bool_:
                return draws.random(shape) < 0.5
            return (draws.random(shape) * 4 + (0.25 if numpy is np.float32 else 1)).astype(numpy)

        for dtype in sorted(allowed, key=str):
            if dtype.name in ("f32", "i64", "bool"):
                numpy = dtype.numpy.type
                yield sample(*(draw(numpy, 2, 3) for _ in self.operands), note=dtype.name)
                if len(self.operands) > 1:
                    shapes = ((2, 1, 3), (4, 1), ())
                    yield sample(*(draw(numpy, *s) for s, _ in zip(shapes, self.operands, strict=False)), note=f"{dtype}-broadcast")


def _register(name: str, signature: str, function: Function, traits: Trait = Trait.NONE, **more: Any) -> None:
    OPS.register(Elementwise(name, signature, function, traits, **more))


_BOTH = "x: numeric T, y: numeric T"
_register("add", _BOTH, np.add, Trait.COMMUTATIVE)
_register("sub", _BOTH, np.subtract)
_register("mul", _BOTH, np.multiply, Trait.COMMUTATIVE)
_register("neg", "x: numeric T", np.negative, Trait.INVOLUTION)
_register("exp", "x: inexact T", np.exp)
_register("eq", "x: any T, y: any T", np.equal, Trait.COMMUTATIVE, to_bool=True)
