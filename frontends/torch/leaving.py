"""Data that the program takes out of the watched world: numbers, truths, content.

An integer becomes a size, bound to it where it is not computed from sizes; what depends on no input becomes a constant; all
else is an error at the user's line.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from isthmus.frontends.torch import guards
from isthmus.frontends.torch.asking import asking, inner
from isthmus.frontends.torch.origins import Origins, origins
from isthmus.frontends.torch.provenance import library
from isthmus.frontends.torch.relations import NEGATED
from isthmus.frontends.torch.remedies import remedy
from isthmus.frontends.torch.tensors import Watched
from isthmus.ir import dtypes
from isthmus.ir.dims import INF, Bound, Dim, Symbol, symbols
from isthmus.ir.errors import CaptureError, Refusal
from isthmus.ir.graph import Value
from isthmus.ir.shape_values import elements
from isthmus.ir.weights import ArrayWeight

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
    """A size that is a scalar i64, from here on; Python may not branch on it.

    Args:
        lo, hi: between what it lies.
        hint: what it is in this run; by default what the example makes it, where that is known.
    """
    if hint is None:
        guess = watcher.w.knowledge.guess(value)
        hint = int(guess) if guess is not None else None
    (symbol,) = symbols(watcher.graph.symbols.fresh("i", lo, hi, hint))
    watcher.w.b.bind(value, symbol=symbol)
    watcher.sizes.read.add(symbol)
    return watcher.sizes.give(symbol.dim)


def whole(watcher: Watcher, value: Value, lo: Bound = -INF, hi: Bound = INF) -> Any:
    """A scalar i64 as a size, bound to it unless it is computed from sizes.

    Args:
        watcher: the watcher.
        value: the scalar.
        lo: the least that it may be.
        hi: the greatest.
    """
    followed = elements(value)
    if followed is not None:
        return watcher.sizes.give(followed[0])
    known = watcher.items.get(value)
    if known is None:
        known = watcher.items[value] = watcher.sizes.take(bound(watcher, value, lo, hi))
    return watcher.sizes.give(known)


def known_truth(watcher: Watcher, value: Value) -> bool | None:
    """Whether a value of one element is true, whatever the inputs; None where that depends on them."""
    content = watcher.w.knowledge.content(value)
    if content is not None:
        return bool(content)
    span = watcher.w.knowledge.span(value)
    if span is not None and (span == (0, 0) or span[0] > 0 or span[1] < 0):
        return span != (0, 0)
    return None


def _only(content: np.ndarray[Any, Any]) -> Any:
    if content.size != 1:
        raise RuntimeError(f"a Tensor with {content.size} elements cannot be converted to Scalar")
    return content.reshape(-1)[0].item()


def truth(watcher: Watcher, tensor: torch.Tensor) -> bool:
    """Whether a tensor is true, for a branch of the program.

    Where that depends on declared sizes alone, and is the same at several of them, that is the answer, and said; the second
    watch checks it. Where one answer leads to an exception only, it is the other, and the graph checks it.

    Raises:
        CaptureError: it depends on data.
    """
    value = watcher.value(tensor)
    content: Any = known_truth(watcher, value)
    if content is None:
        content = _at_sizes(watcher, value)
        if content is None:
            guard = guards.passing(watcher.provenance.outside)
            return escapes(watcher, "the truth", tensor) if guard is None else _checked(watcher, value, *guard)
        told = watcher.sizes.question(bool(content)) or f"`{asking(watcher.provenance).text}`"
        what = f"a branch on sizes was decided to be {content}: {told}"
        watcher.decided.append(Refusal(what, location=watcher.provenance.here()))
    return bool(content)


def _at_sizes(watcher: Watcher, value: Value) -> bool | None:
    """Whether a value that depends on sizes alone is true, at those of this run and at others; None when that differs."""
    sizes, asked = watcher.sizes, set()

    def size(symbol: Symbol, turn: int) -> int:
        asked.add(symbol)
        hint = sizes.hint_of(symbol)
        return int(min(max((hint, symbol.lo, 2 * hint + 1, 127)[turn], symbol.lo, 0), symbol.hi))

    found = set()
    for turn in range(4):
        content = watcher.w.knowledge.at(value, lambda symbol, turn=turn: size(symbol, turn))  # type: ignore[misc]
        if content is None or not asked <= sizes.declared:
            return None
        found.add(bool(content))
    return found.pop() if len(found) == 1 else None


def _checked(watcher: Watcher, value: Value, answer: bool, asker: FrameType) -> bool:
    """The only answer that raises no exception, which the graph checks."""
    b = watcher.w.b
    holds = watcher.w.cast(value, dtypes.bool_)
    asker = asker if asker.f_code is not torch._assert.__code__ else watcher.provenance.frame() or asker
    line = linecache.getline(asker.f_code.co_filename, asker.f_lineno).strip()
    b.check(holds if answer else b.logical_not(holds), message=f"the model raises an exception at `{line}`")
    return answer


def branch(watcher: Watcher, relation: Any) -> bool | None:
    """What Python hears where it asks for a relation of integers that the model has read from data; None for others.

    The user's own code is meant: what torch asks about them is taken for granted and recorded.

    Raises:
        CaptureError: both answers give a result.
    """
    read = {symbol for symbol in _symbols(relation) if symbol in watcher.sizes.read}
    frame = next((each for each in watcher.provenance.frames() if each.f_code.co_filename != torch.__file__), None)
    if not read or frame is None or library(frame.f_code):
        return None
    guard = guards.passing(watcher.provenance.outside)
    if guard is None or relation[0] not in NEGATED:
        leave(watcher, "the truth", (), read, "both outcomes are possible")
    answer = guard[0]
    watcher.sizes.take_for_granted(relation[0] if answer else NEGATED[relation[0]], *relation[1:])
    return answer


def _symbols(relation: Any) -> Iterable[Symbol]:
    for part in relation if isinstance(relation, tuple) else ():
        yield from _symbols(part) if isinstance(part, tuple) else () if isinstance(part, str) else symbols(part)


def escapes(watcher: Watcher, what: str, *tensors: torch.Tensor) -> NoReturn:
    """The error for a program that takes input-dependent data out of the watched world.

    Raises:
        CaptureError: always.
    """
    values = [watcher.value(tensor) for tensor in tensors]
    found = [" and ".join(map(_told, tensors))]
    places = [value.location for value in values if value.location]
    if places and all(str(place) != str(watcher.provenance.here()) for place in places):
        found.append(f"made at {' and '.join(map(str, places))}")
    if what == "the truth":
        found.append("both outcomes are possible")
    leave(watcher, what, values, (), "; ".join(found))


def _told(tensor: torch.Tensor) -> str:
    return tensor.told() if isinstance(tensor, Watched) else f"a tensor of {tensor.dtype} that the model has written to"


def items(watcher: Watcher, tensor: torch.Tensor) -> Any:
    """The elements of a tensor of integers as sizes, in nested lists; None for other tensors, and for large ones."""
    shape = watcher.w.dims(watcher.value(tensor))
    count = 1
    for dim in shape:
        count = count * dim if isinstance(dim, int) else MOST_ITEMS + 1
    if not watcher.value(tensor).tensor.dtype.is_integer or count > MOST_ITEMS:
        return None
    return [items(watcher, part) for part in tensor.unbind()] if shape else item(watcher, tensor)


MOST_ITEMS: Final = 64
"""The number of elements that become sizes at once; each takes a handful of nodes."""


def seeded(watcher: Watcher) -> None:
    """Notes that the program seeds random numbers."""
    what = "random numbers are drawn anew in each run of the graph: the seed is not carried over"
    note = f"{what} ({watcher.provenance.here()})"
    if note not in watcher.notes:
        watcher.notes.append(note)


def constant(value: Any) -> Any:
    """A tensor or size whose value is the same for all inputs, as a constant; see `isthmus.constant`.

    Raises:
        CaptureError: its value depends on an input.
    """
    watcher = watching()
    if watcher is None or not isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat)):
        return value
    if not isinstance(value, torch.Tensor):
        return int(value) if isinstance(value, torch.SymInt) else float(value)
    found = watcher.value(value)
    if found.weight is not None:
        return value
    content = watcher.w.knowledge.content(found)
    if content is None:
        leave(watcher, "the value (isthmus.constant)", [found], (), _told(value))
    with watcher.reals.constants.at(watcher.provenance.here()):
        watcher.entry(value).value = watcher.reals.constants.constant(ArrayWeight(np.array(content)))
    return value


def watching() -> Watcher | None:
    """The watcher under which the model is running; None when it runs plainly."""
    from isthmus.frontends.torch.watcher import Watcher

    return next((mode for mode in reversed(_get_current_dispatch_mode_stack()) if isinstance(mode, Watcher)), None)


def number(watcher: Watcher, dim: Dim) -> NoReturn:
    """The error for a program that makes a number of a size that depends on data.

    Raises:
        CaptureError: always.
    """
    leave(watcher, "the number", (), symbols(dim), f"the size {dim}")


def leave(watcher: Watcher, what: str, values: Iterable[Value], dims: Iterable[Symbol], found: str) -> NoReturn:
    """The error that names the line, the expression, what it depends on and the remedy.

    Args:
        watcher: knows the user's place.
        what: what Python needs.
        values: of these values.
        dims: or of what these symbols stand for.
        found: more about them.

    Raises:
        CaptureError: always.
    """
    asked = asking(watcher.provenance)
    comes = origins(watcher.graph, values, dims)
    of_torch = inner(watcher.provenance)
    if of_torch is not None:
        file, line, function = of_torch
        found += f"; asked by torch, at {file}:{line} in {function}: `{linecache.getline(file, line).strip()}`"
    if comes.inputs or comes.random or comes.within:
        told = remedy(what, asked, _fixed(watcher, comes))
    else:
        names = ", ".join(symbol.name for symbol in comes.sizes)
        told = f"compute with torch's own functions alone, or declare {names} static"
    watcher.fail(
        CaptureError(
            f"Python needs {what} of a tensor{f', `{asked.text}`,' if asked.text else ''} that depends on {comes}",
            location=watcher.provenance.here(),
            found=found,
            remedy=told,
        )
    )


def _fixed(watcher: Watcher, comes: Origins) -> str:
    """The `assume` that would answer, from the example; empty where none would."""
    if comes.random or comes.within or not comes.inputs:
        return ""
    told = {}
    for value in comes.inputs:
        example = watcher.w.knowledge.examples.get(value)
        content = None if example is None else example()
        if content is None or content.size != 1 or content.dtype.kind not in "biuf":
            return ""
        told[value.name] = content.reshape(-1)[0].item()
    return repr(told)
