"""Inputs whose value is taken for granted: Python may read it, and the graph holds for that value alone."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from isthmus.frontends.torch.asking import asking
from isthmus.ir.dims import INF
from isthmus.ir.dtypes import is_dtype
from isthmus.ir.errors import UsageError
from isthmus.ir.graph import Value
from isthmus.ir.symbols import Question

if TYPE_CHECKING:
    from isthmus.frontends.base import Array
    from isthmus.frontends.torch.inputs import Leaf
    from isthmus.frontends.torch.watcher import Watcher

Number = int | float | bool


def assume(leaves: Sequence[Leaf], numbers: Mapping[str, Number]) -> None:
    """Marks the inputs that have these values.

    Args:
        leaves: the inputs.
        numbers: values by the names of inputs.

    Raises:
        UsageError: an unknown name, an input of more than one element, a value that its dtype does not hold, or another
            one than the example's.
    """
    by_name = {leaf.name: leaf for leaf in leaves}
    for name, number in numbers.items():
        leaf = by_name.get(name)
        if leaf is None:
            raise UsageError(
                f"assume names {name!r}, which is no tensor among the inputs",
                expected=", ".join(by_name) or "no names: there are no tensors among the inputs",
                remedy="an argument that is no tensor is fixed to the example's anyway",
            )
        tensor = leaf.tensor
        if tensor.numel() != 1 or leaf.axes:
            raise UsageError(f"assume is for inputs of one element, and {name} has the shape {list(tensor.shape)}")
        held = torch.full(tensor.shape, 0, dtype=tensor.dtype)
        if not math.isfinite(number) or not _holds(held, number):
            raise UsageError(f"assume says that {name} is {number!r}, which {tensor.dtype} does not hold")
        held.fill_(number)
        if leaf.given and not torch.equal(held, tensor.detach().cpu()):
            raise UsageError(f"assume says that {name} is {number!r}, and the example is {tensor.item()!r}")
        leaf.tensor, leaf.assumed = held.to(tensor.device), number


def _holds(tensor: torch.Tensor, number: Number) -> bool:
    """Whether a number is one of a dtype, but for the rounding of a float."""
    dtype = tensor.dtype
    if dtype.is_floating_point or dtype.is_complex:
        return True
    if dtype is torch.bool:
        return number in (0, 1)
    info = torch.iinfo(dtype)
    return number == int(number) and info.min <= number <= info.max


def rely(watcher: Watcher, value: Value, number: Number) -> None:
    """Writes down that an input has its value, with what asks for it now."""
    watcher.assumed.add(value.name)
    table = watcher.graph.symbols
    name = re.sub(r"\W", "_", value.name)
    if name in table.by_name or is_dtype(name) or not name.isidentifier():
        name = f"value_{name}"
    symbol = table.declare(name, -INF, INF, int(number))
    exact = Fraction(str(float(number)))
    table.location, table.question = watcher.provenance.here(), Question(asking(watcher.provenance).text)
    try:
        table.assume("==", symbol.dim * exact.denominator, exact.numerator)
    finally:
        table.question = None


def hold(names: Sequence[str], arrays: Sequence[Array], numbers: Mapping[str, Number]) -> None:
    """Holds the inputs of a call against what is assumed.

    Raises:
        UsageError: one has another value.
    """
    for name, array in zip(names, arrays, strict=True):
        if name in numbers and array.size == 1:
            wanted: Any = np.array(numbers[name]).astype(array.dtype)
            if array.reshape(-1)[0] != wanted:
                raise UsageError(
                    f"the model was compiled for {name} = {numbers[name]!r} alone",
                    found=str(array.reshape(-1)[0]),
                    remedy=f"compile it again, with another value in assume, or without {name} there",
                )
