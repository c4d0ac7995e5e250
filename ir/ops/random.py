"""Random numbers: the values differ from run to run, dtypes and shapes do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from isthmus.ir.attributes import DIMS, DTYPE, FLOAT
from isthmus.ir.dtypes import f16, f32
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, sample
from isthmus.ir.types import Tensor, Type


def _generator(call: Call) -> np.random.Generator:
    seed = call["seed"]
    return np.random.default_rng(None if seed is None else np.float64(seed).view(np.uint64))


class Random(Op):
    """The family without operands: a tensor of `shape` and `dtype` (a float).

    With a `seed` each run of a target gives the same numbers; which, differs between targets.
    """

    traits = Trait.RANDOM

    def infer(self, call: Call) -> Sequence[Type]:
        if not call["dtype"].is_float:
            raise call.error("dtype must be a float", found=str(call["dtype"]))
        return (Tensor(call["dtype"], call["shape"]),)

    def samples(self) -> Iterable[Sample]:
        yield sample(shape=[2, 3], dtype=f32)
        yield sample(shape=[], dtype=f16, note="scalar-f16")


@register
class RandomUniform(Random):
    """Numbers spread evenly over ``[low, high)``."""

    name = "random_uniform"
    attributes = {"shape": DIMS, "dtype": DTYPE, "low": FLOAT(0.0), "high": FLOAT(1.0), "seed": FLOAT.optional()}
    source = "torch.rand; ONNX RandomUniform-22"

    def evaluate(self, call: Call, *operands: Any) -> Any:
        numbers = _generator(call).uniform(call["low"], call["high"], call["shape"])
        return np.asarray(numbers, call["dtype"].numpy)


@register
class RandomNormal(Random):
    """Numbers from the normal distribution with this mean and standard deviation."""

    name = "random_normal"
    attributes = {"shape": DIMS, "dtype": DTYPE, "mean": FLOAT(0.0), "std": FLOAT(1.0), "seed": FLOAT.optional()}
    source = "torch.randn; ONNX RandomNormal-22"

    def evaluate(self, call: Call, *operands: Any) -> Any:
        numbers = _generator(call).normal(call["mean"], call["std"], call["shape"])
        return np.asarray(numbers, call["dtype"].numpy)


@register
class Bernoulli(Op):
    """1 with the probability given by each element of ``p``, else 0; the type of ``p``."""

    name = "bernoulli"
    operands = operands("p: float T")
    attributes = {"seed": FLOAT.optional()}
    traits = Trait.RANDOM
    source = "torch.bernoulli; ONNX Bernoulli-22"

    def infer(self, call: Call) -> Sequence[Type]:
        return (call.tensor(0),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        (p,) = operands
        return np.asarray(_generator(call).random(p.shape) < p).astype(p.dtype)

    def samples(self) -> Iterable[Sample]:
        yield sample(np.array([[0.0, 1.0, 0.5]], np.float32))
        yield sample(np.array([0.0, 1.0], np.float16), note="f16")
