"""Ops for what they do rather than for a result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from isthmus.ir.attributes import STR
from isthmus.ir.errors import EvaluationError
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, sample
from isthmus.ir.types import Type


@register
class Check(Op):
    """Fails with `message` unless every element of ``cond`` is true. No results."""

    name = "check"
    operands = operands("cond: bool")
    attributes = {"message": STR("")}
    traits = Trait.EFFECT
    source = "torch._assert_async"

    def infer(self, call: Call) -> Sequence[Type]:
        return ()

    def evaluate(self, call: Call, *operands: Any) -> Any:
        if not np.all(operands[0]):
            raise EvaluationError(call["message"] or "a check failed", op=self.name)
        return ()

    def samples(self) -> Iterable[Sample]:
        yield sample(np.True_, message="must hold")
        yield sample(np.array([True, True]), note="vector")


@register
class Print(Op):
    """Writes `message` and the content of ``x`` to standard output. No results."""

    name = "print"
    operands = operands("x: any")
    attributes = {"message": STR("")}
    traits = Trait.EFFECT
    source = "print"

    def infer(self, call: Call) -> Sequence[Type]:
        return ()

    def evaluate(self, call: Call, *operands: Any) -> Any:
        print(*filter(None, [call["message"]]), operands[0])
        return ()

    def samples(self) -> Iterable[Sample]:
        yield sample(np.arange(3), message="x =")
