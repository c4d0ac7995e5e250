"""Emitters of elementwise ops and activations."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from isthmus.backends.tensorrt import library
from isthmus.backends.tensorrt.emitter import Emitter
from isthmus.backends.tensorrt.table import emits, refuse
from isthmus.ir import dtypes
from isthmus.ir.graph import Node, Value

_UNARY: Final = {
    "exp": "EXP", "log": "LOG", "sqrt": "SQRT", "reciprocal": "RECIP", "abs": "ABS", "neg": "NEG", "sin": "SIN", "cos": "COS",
    "tan": "TAN", "sinh": "SINH", "cosh": "COSH", "asin": "ASIN", "acos": "ACOS", "atan": "ATAN", "asinh": "ASINH",
    "acosh": "ACOSH", "atanh": "ATANH", "ceil": "CEIL", "floor": "FLOOR", "erf": "ERF", "logical_not": "NOT", "sign": "SIGN",
    "round": "ROUND", "is_inf": "ISINF", "is_nan": "ISNAN",
}  # fmt: skip

_BINARY: Final = {
    "add": "SUM", "sub": "SUB", "mul": "PROD", "pow": "POW", "maximum": "MAX", "minimum": "MIN", "eq": "EQUAL", "lt": "LESS",
    "gt": "GREATER", "logical_and": "AND", "logical_or": "OR", "logical_xor": "XOR", "floor_div": "FLOOR_DIV",
}  # fmt: skip

_ACTIVATION: Final = {
    "sigmoid": "SIGMOID", "tanh": "TANH", "relu": "RELU", "selu": "SELU", "softsign": "SOFTSIGN",
}  # fmt: skip


@emits(*_UNARY)
def _unary(e: Emitter, node: Node, x: Any) -> Any:
    return e.unary(_UNARY[node.op.name], x)


@emits(*_BINARY)
def _binary(e: Emitter, node: Node, x: Any, y: Any) -> Any:
    return e.binary(_BINARY[node.op.name], x, y)


@emits(*_ACTIVATION)
def _activation(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation(_ACTIVATION[node.op.name], x)


@emits("le", "ge")
def _or_equal(e: Emitter, node: Node, x: Any, y: Any) -> Any:
    return e.binary("OR", e.binary("LESS" if node.op.name == "le" else "GREATER", x, y), e.binary("EQUAL", x, y))


@emits("ne")
def _ne(e: Emitter, node: Node, x: Any, y: Any) -> Any:
    return e.unary("NOT", e.binary("EQUAL", x, y))


@emits("rsqrt")
def _rsqrt(e: Emitter, node: Node, x: Any) -> Any:
    return e.unary("RECIP", e.unary("SQRT", x))


@emits("div")
def _div(e: Emitter, node: Node, x: Any, y: Any) -> Any:
    return e.binary("DIV", x, y)


@emits("identity")
def _identity(e: Emitter, node: Node, x: Any) -> Any:
    return x


@emits("constant", values=True)
def _constant(e: Emitter, node: Node) -> Any:
    return e.weight(node.attrs["value"])


@emits("size")
def _size(e: Emitter, node: Node) -> Any:
    return e.sizes.scalar(node.attrs["dim"])


@emits("cast")
def _cast(e: Emitter, node: Node, x: Any) -> Any:
    return e.cast(x, node.attrs["dtype"])


@emits("where")
def _where(e: Emitter, node: Node, cond: Any, x: Any, y: Any) -> Any:
    return e.add("select", *e.align(cond, x, y))


@emits("clip")
def _clip(e: Emitter, node: Node, x: Any, lo: Any, hi: Any) -> Any:
    found = x if lo is None else e.binary("MAX", x, lo)
    return found if hi is None else e.binary("MIN", found, hi)


@emits("leaky_relu")
def _leaky_relu(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation("LEAKY_RELU", x, alpha=node.attrs["alpha"])


@emits("elu")
def _elu(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation("ELU", x, alpha=node.attrs["alpha"])


@emits("gelu")
def _gelu(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation("GELU_TANH" if node.attrs["approximate"] == "tanh" else "GELU_ERF", x)


@emits("hard_sigmoid")
def _hard_sigmoid(e: Emitter, node: Node, x: Any) -> Any:
    return e.activation("HARD_SIGMOID", x, alpha=node.attrs["alpha"], beta=node.attrs["beta"])


@emits("silu")
def _silu(e: Emitter, node: Node, x: Any) -> Any:
    return e.binary("PROD", x, e.activation("SIGMOID", x))


@emits("hard_swish")
def _hard_swish(e: Emitter, node: Node, x: Any) -> Any:
    return e.binary("PROD", x, e.activation("HARD_SIGMOID", x, alpha=1 / 6, beta=0.5))


@emits("prelu")
def _prelu(e: Emitter, node: Node, x: Any, slope: Any) -> Any:
    if node.result.tensor.shape != (node.operands[0].tensor.shape if node.operands[0] else None):
        refuse("TensorRT's PReLU broadcasts the slope only")
    return e.add("parametric_relu", *e.align(x, slope))
