"""The model comes back as it went in: its attributes, and torch's own flags."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch._higher_order_ops import utils as higher_order

_CONTAINERS: Final = (dict, list, set)


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


@contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Puts back every module's attributes, and the content of the plain containers among them."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    saved = []
    for module in modules:
        attributes = dict(module.__dict__)
        containers = [(held, _copy(held)) for held in attributes.values() if isinstance(held, _CONTAINERS)]
        saved.append((module, attributes, containers))
    try:
        yield
    finally:
        for module, attributes, containers in saved:
            # Only what differs is written, since an equal dict may be shared with torch's own machinery.
            now = module.__dict__
            if len(now) != len(attributes) or any(now.get(key) is not held for key, held in attributes.items()):
                now.clear()
                now.update(attributes)
            for held, before in containers:
                if not _same(held, before):
                    held.clear()
                    held.extend(before) if isinstance(held, list) else held.update(before)


def _copy(held: Any) -> Any:
    return dict(held) if isinstance(held, dict) else list(held) if isinstance(held, list) else set(held)


def _same(held: Any, before: Any) -> bool:
    if len(held) != len(before):
        return False
    if isinstance(held, set):
        return {id(item) for item in held} == {id(item) for item in before}
    left, right = (held.items(), before.items()) if isinstance(held, dict) else (enumerate(held), enumerate(before))
    return all(a == b and x is y for (a, x), (b, y) in zip(left, right, strict=True))


@contextmanager
def below_autograd() -> Iterator[None]:
    """Ops are dispatched below autograd, so that composites arrive whole."""
    guard = torch._C._AutoDispatchBelowAutograd()
    try:
        yield
    finally:
        del guard  # here, and not when the last traceback that holds this frame goes


@contextmanager
def flags(export: bool) -> Iterator[None]:
    """Torch's flags while a model is watched.

    The fast path of multi-head attention is off, since it would hide the model behind one op. With `export`, models that
    ask whether they are being exported or compiled hear yes: many then leave out branches on data. `torch.cond` and its kind
    reach the watcher as they are, where torch would run its compiler on them first.
    """
    mha = torch.backends.mha.get_fastpath_enabled()
    compiler, onnx = torch.compiler, torch.onnx
    before = compiler._is_compiling_flag, compiler._is_exporting_flag, onnx.is_in_onnx_export
    compile_and_call = higher_order._hop_compile_and_call
    torch.backends.mha.set_fastpath_enabled(False)
    higher_order._hop_compile_and_call = _call
    try:
        if export:
            compiler._is_compiling_flag = compiler._is_exporting_flag = True
            onnx.is_in_onnx_export = _yes
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(mha)
        higher_order._hop_compile_and_call = compile_and_call
        compiler._is_compiling_flag, compiler._is_exporting_flag, onnx.is_in_onnx_export = before


def _yes() -> bool:
    return True


def _call(function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
    return function(*args, **(kwargs or {}))
