"""Sizes that come to expressions too large to be followed: a new size stands there, and the model is none the worse."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx_models import agrees, model, same

import isthmus
from isthmus.frontends.onnx.importing import import_model
from isthmus.frontends.onnx.original import Original
from isthmus.ir.expressions import MOST_TEXT

CASES = {
    "slice": "y = Slice (long, zero, other, zero)",
    "slice by constants": "y = Slice (long, one, nine, zero)",
    "slice backwards": "y = Slice (long, minus, least, zero, minus)",
    "concat": "y = Concat <axis = 0> (long, wide)",
    "reshape to the rest": "l = Concat <axis = 0> (long, wide)  s = Concat <axis = 0> (one, minus)  y = Reshape (l, s)",
    "flatten": "s = Concat <axis = 0> (edges, n)  l = ConstantOfShape (s)  f = Flatten <axis = 2> (l)  y = Cast <to = 7> (f)",
    "pad": "s = Concat <axis = 0> (other, one)  y = Pad (long, s)",
    "tile": "y = Tile (long, other)",
    "expand": "s = Concat <axis = 0> (other, size)  y = Expand (long, s)",
    "broadcast": "b = Slice (wide, zero, size, zero)  d = Slice (long, zero, other, zero)  y = Add (b, d)",
    "split": "k = Div (size, nine)  a = Sub (size, k)  s = Concat <axis = 0> (k, a)  z, y = Split <axis = 0> (long, s)",
    "range": "i = Squeeze (size)  j = Squeeze (other)  k = Mul (i, j)  f = Neg (k)  y = Range (f, j, i)",
    "pool": "y = MaxPool <kernel_shape = [2], strides = [2]> (deep)",
    "resize": "s = Concat <axis = 0> (one, one, other)  y = Resize (deep, , , s)",
    "size": "l = ConstantOfShape (edges)  y = Size (l)",
    "top": "y, z = TopK (long, other)",
    "in a branch": """
        k = Squeeze (size)  c = Less (k, k)
        y = If (c) <
            then_branch = t () => (int64[L] q) { q = Identity (long) },
            else_branch = e () => (int64[K] r) { r = Slice (long, zero, other, zero) }
        >""",
}  # fmt: skip
STEPS = 9
"""So often is a size put into itself, twice each time; once more would be too much for itself."""


def _grown(name: str, start: str, step: str) -> str:
    names = [start, *(f"{name}{index}" for index in range(STEPS - 1)), name]
    return "\n".join(
        f"{to}s = Mul ({old}, nine)  {to}t = Add ({to}s, {step})  {to}u = Add ({old}, one)  {to} = Div ({to}t, {to}u)"
        for old, to in pairwise(names)
    )


POWERS = {
    "flatten": "f = Flatten <axis = 1> (cube)  y = Cast <to = 7> (f)",
    "reshape": "f = Reshape (cube, minus)  y = Cast <to = 7> (f)",
    "size": "y = Size (cube)",
    "reduce": "f = Flatten <axis = 2> (cube)  r = ReduceSum <keepdims = 0> (f, zero)  y = Cast <to = 7> (r)",
}
"""Of a tensor whose sizes have 126 terms each: products of two have too many."""


def _model(last: str) -> Any:
    constants = "zero = {0}, int64[1] one = {1}, int64[1] nine = {9}, int64[1] minus = {-1}, int64[1] least = {-99}"
    return model(f"""(int64[N, M] x) => (int64 y) <int64[1] {constants}, int64[2] both = {{0, 1}}> {{
        n = Shape <start = 0, end = 1> (x)  m = Shape <start = 1, end = 2> (x)
        {_grown("size", "n", "m")}
        {_grown("other", "m", "n")}
        edges = Concat <axis = 0> (size, other)
        flat = Reshape (x, minus)  many = Tile (flat, nine)
        long = Slice (many, zero, size, zero)  wide = Slice (many, zero, other, zero)  deep = Unsqueeze (long, both)
        {last}
    }}""")


def test_sizes_are_as_large_as_can_be() -> None:
    found = import_model(_model("y = Identity (long)")).graph.outputs[0].tensor.shape
    assert MOST_TEXT // 2 < len(str(found[0])) < MOST_TEXT


@pytest.mark.filterwarnings("error")  # nodes of a file that fall away, here because all sizes are followed, are no early exit
@pytest.mark.parametrize("last", CASES.values(), ids=CASES)
def test_new_sizes_stand_for_what_is_too_large(last: str) -> None:
    agrees(_model(last), [np.arange(15).reshape(3, 5)], [np.arange(16).reshape(8, 2)], [np.arange(9).reshape(1, 9)])


@pytest.mark.parametrize("last", POWERS.values(), ids=POWERS)
def test_what_gives_such_sizes_only_stays_as_it_is(last: str) -> None:
    made = model(f"""(int64[A, B, C, D] x) => (int64 y) <
        int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] minus = {{-1}}
    > {{
        sizes = Shape (x)  sum = ReduceSum (sizes, zero)  more = Add (sum, one)  square = Mul (more, more)
        fourth = Mul (square, square)  odd = Add (fourth, one)  edges = Concat <axis = 0> (odd, square, fourth)
        cube = ConstantOfShape (edges)
        {last}
    }}""")
    net = isthmus.compile(made, target="onnx", verify_ir=True)
    original = Original(made, None, ["x"])
    for shape in ((0, 0, 1, 1), (1, 0, 0, 0)):
        feed = np.ones(shape, np.int64)
        same(net(feed)["y"], original([feed])[0])
