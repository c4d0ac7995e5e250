"""Data that the program takes out of the watched world: numbers, truths, content.

An integer becomes a size, bound to it where it is not computed from sizes; what depends on no input becomes a constant; all
else is an error at the user's line.
"""

from __future__ import annotations

import linecache
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from isthmus.frontends.torch import guards
from isthmus.ir import dtypes
from isthmus.ir.dims import INF, Bound, symbols
from isthmus.ir.errors import CaptureError
from isthmus.ir.graph import Value
from isthmus.ir.shape_values import elements

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher


def item(watcher: Watcher, tensor: torch.Tensor, what: str = "the number") -> Any:
    """The only element of a tensor: a number where it is the same for all inputs, else a size, bound to it if need be.

    Raises:
        CaptureError: it is a float or a bool that depends on an input.
    """
    value = watcher.value(tensor)
    content = watcher.w.knowledge.content(value)
    if content is not None:
        return _only(content)
    dtype = value.tensor.dtype
    span = watcher.w.knowledge.span(value)
    if span is not None and span[0] == span[1]:
        return np.array(span[0]).astype(dtype.numpy).item()
    if not dtype.is_integer:
        escapes(watcher, what, tensor)
    followed = elements(value)
    if followed is not None and len(followed) == 1:
        return watcher.sizes.give(followed[0])
    known = watcher.items.get(value)
    if known is None:
        scalar = value if not watcher.w.dims(value) else watcher.w.b.reshape(value, shape=[])
        found = bound(watcher, watcher.w.cast(scalar, dtypes.i64), -INF if dtype.is_signed else 0)
        known = watcher.items[value] = watcher.sizes.take(found)
    return watcher.sizes.give(known)


def bound(watcher: Watcher, value: Value, lo: Bound, hi: Bound = INF, hint: int | None = None) -> Any:
    """A size that is a scalar i64, from here on.

    Args:
        lo, hi: between what it lies.
        hint: what it is in this run; by default what the example makes it, where that is known.
    """
    if hint is None:
        guess = watcher.w.knowledge.guess(value)
        hint = int(guess) if guess is not None else None
    (symbol,) = symbols(watcher.graph.symbols.fresh("i", lo, hi, hint))
    watcher.w.b.bind(value, symbol=symbol)
    return watcher.sizes.give(symbol.dim)


def _only(content: np.ndarray[Any, Any]) -> Any:
    if content.size != 1:
        raise RuntimeError(f"a Tensor with {content.size} elements cannot be converted to Scalar")
    return content.reshape(-1)[0].item()


def truth(watcher: Watcher, tensor: torch.Tensor) -> bool:
    """Whether a tensor is true, for a branch of the program.

    Where that depends on sizes alone it is decided at the sizes of this run, and said; the second watch checks it. Where
    one answer leads to an exception only, it is the other, and the graph checks it.

    Raises:
        CaptureError: it depends on data.
    """
    value = watcher.value(tensor)
    content = watcher.w.knowledge.content(value)
    span = watcher.w.knowledge.span(value) if content is None else None
    if span is not None and (span == (0, 0) or span[0] > 0 or span[1] < 0):
        return span != (0, 0)
    if content is None:
        content = watcher.w.knowledge.at(value, watcher.sizes.hint_of)
        if content is None:
            guard = guards.passing(watcher.provenance.outside)
            return escapes(watcher, "the truth", tensor) if guard is None else _checked(watcher, value, *guard)
        watcher.notes.append(
            f"a branch on sizes was decided to be {bool(content)}: `{_line(watcher)}` ({watcher.provenance.here()})"
        )
    return bool(content)


def _checked(watcher: Watcher, value: Value, answer: bool, asker: FrameType) -> bool:
    """The only answer that raises no exception, which the graph checks."""
    b = watcher.w.b
    holds = watcher.w.cast(value, dtypes.bool_)
    line = linecache.getline(asker.f_code.co_filename, asker.f_lineno).strip()
    b.check(holds if answer else b.logical_not(holds), message=f"the model raises an exception at `{line}`")
    return answer


def _line(watcher: Watcher) -> str:
    """The text of the user's line."""
    location = watcher.provenance.here()
    return linecache.getline(location.file, location.line).strip()


def escapes(watcher: Watcher, what: str, tensor: torch.Tensor) -> NoReturn:
    """The error for a program that takes input-dependent data out of the watched world.

    Raises:
        CaptureError: always.
    """
    location, line = watcher.provenance.here(), _line(watcher)
    branch = what == "the truth"
    remedy = (
        "use torch.where or torch.cond, so that both outcomes are in the model"
        if branch
        else "compute with tensors to the end; a number that only sizes other tensors may be an integer's .item()"
    )
    raise CaptureError(
        f"Python needs {what} of a tensor that depends on the model's input" + (f", in `{line}`" if line else ""),
        location=location,
        found=f"{tensor!r}" + ("; both outcomes are possible" if branch else ""),
        remedy=remedy,
    )
