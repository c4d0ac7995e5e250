"""The model comes back as it went in: its attributes, and torch's own flags."""

from __future__ import annotations

import functools
import importlib
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import torch
from torch._higher_order_ops import utils as higher_order
from torch.utils import _pytree as pytree

# Functions have the modules' names.
associative: Any = importlib.import_module("torch._higher_order_ops.associative_scan")
branches: Any = importlib.import_module("torch._higher_order_ops.cond")


@functools.cache
def _kind(held: type) -> Callable[[Any], Any] | None:
    """What copies a plain container, by its class; None for other things."""
    return next((kind for kind in (dict, list, set) if issubclass(held, kind)), None)


_PLAIN: Final = (bool, int, float, str)

_VIEWS: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)

_FRAMES: Final = 10_000
"""Python's recursion limit while a model runs. The stack of a thread of 8 MB holds more than twice as many frames."""


@contextmanager
def deep() -> Iterator[None]:
    """Lets modules be nested a good thousand deep for a while: each level takes four or five frames."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class Untouched:
    """Puts back every module's attributes, the content of the plain containers among them, and the parameters' gradients.

    A context manager; what it was made from is put back at each exit.

    Args:
        modules: the modules, and other objects.

    Attributes:
        changed: numbers, bools and texts among the attributes that were others at the last exit: the place of the module, and
            the name.
    """

    def __init__(self, modules: Iterable[Any]) -> None:
        self._attributes = []
        self._containers: list[tuple[Any, Any]] = []
        self.changed: list[tuple[int, str]] = []
        self._gradients: list[tuple[torch.Tensor, bool, torch.Tensor | None]] = []
        for module in modules:
            parameters = getattr(module, "_parameters", {})
            self._gradients += [(p, p.requires_grad, p.grad) for p in parameters.values() if p is not None]
            attributes = dict(module.__dict__)
            self._attributes.append((module.__dict__, attributes))
            # Most are registries of hooks that hold nothing.
            self._containers += [
                (held, kind(held) if held else ()) for held in attributes.values() if (kind := _kind(held.__class__))
            ]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.changed.clear()
        for place, (now, before) in enumerate(self._attributes):
            # Only what differs is written, since an equal dict may be shared with torch's own machinery.
            if not _same(now, before):
                self.changed += [
                    (place, name) for name, item in now.items() if item.__class__ in _PLAIN and before.get(name) != item
                ]
                now.clear()
                now.update(before)
        for held, kept in self._containers:
            if (held or kept) and not _same(held, kept):
                held.clear()
                held.extend(kept) if isinstance(held, list) else held.update(kept)
        for parameter, required, gradient in self._gradients:
            if parameter.requires_grad is not required:
                parameter.requires_grad_(required)
            if parameter.grad is not gradient:
                parameter.grad = gradient


def _same(held: Any, before: Any) -> bool:
    """Whether a container holds the very things that it held before."""
    if len(held) != len(before):
        return False
    if isinstance(held, set):
        return {id(item) for item in held} == {id(item) for item in before}
    if isinstance(held, list):
        return all(map(operator.is_, held, before))
    return all(map(operator.is_, held.values(), before.values())) and all(map(operator.is_, held, before))


def uncompiled() -> AbstractContextManager[None]:
    """What `torch.compile` has compiled runs plainly for a while. Its compiler is loaded where there may be such a thing."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


@contextmanager
def below_autograd() -> Iterator[None]:
    """Ops are dispatched below autograd, so that composites arrive whole, and views do not keep what they are views of."""
    guard = torch._C._AutoDispatchBelowAutograd()
    try:
        with torch._C._ExcludeDispatchKeyGuard(_VIEWS):
            yield
    finally:
        del guard  # here, and not when the last traceback that holds this frame goes


@contextmanager
def flags() -> Iterator[None]:
    """Torch's flags while a model is watched.

    The fast path of multi-head attention is off, since it would hide the model behind one op. `torch.cond` and its kind reach
    the watcher as they are, where torch would run its compiler on them first, and `associative_scan` of dynamic sizes, which
    torch would unroll; that compiler would also have made a flat list of the operands of `torch.cond`.
    """
    mha = torch.backends.mha.get_fastpath_enabled()
    compile_and_call, unrolled = higher_order._hop_compile_and_call, associative.generic_associative_scan
    check = branches.validate_subgraph_args_types
    torch.backends.mha.set_fastpath_enabled(False)
    higher_order._hop_compile_and_call, branches.validate_subgraph_args_types = _call, _nothing
    associative.generic_associative_scan = _scan_in_order(unrolled)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(mha)
        higher_order._hop_compile_and_call, associative.generic_associative_scan = compile_and_call, unrolled
        branches.validate_subgraph_args_types = check


def _nothing(operands: Any) -> None:
    pass


def _scan_in_order(unrolled: Callable[..., Any]) -> Callable[..., Any]:
    def scan(operator: Callable[..., Any], leaves: Any, dim: int = 0, additional_inputs: Any = ()) -> Any:
        if all(isinstance(size, int) for leaf in leaves for size in leaf.shape):
            return unrolled(operator, leaves, dim, additional_inputs)

        def combine(*parts: torch.Tensor) -> list[torch.Tensor]:  # the operator takes many at once, side by side
            return [found.squeeze(0) for found in pytree.tree_leaves(operator(*(part.unsqueeze(0) for part in parts)))]

        return associative.associative_scan_op(combine, leaves, additional_inputs)

    return scan


def _call(function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
    return function(*args, **(kwargs or {}))
