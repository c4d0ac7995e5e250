"""A model compiled, run in onnxruntime on other values, and compared with itself: structure, types and values."""

from __future__ import annotations

import dataclasses
from collections import UserDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import _pytree as pytree

import isthmus

T = torch.randn


def same(found: Any, wanted: Any, path: str = "result") -> None:
    """The same structure, types and values."""
    if isinstance(wanted, torch.Tensor):
        assert isinstance(found, torch.Tensor), path
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), path
        narrow = wanted.dtype in (torch.float16, torch.bfloat16)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if narrow else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(found, wanted.detach(), equal_nan=True, msg=lambda told: f"{path}: {told}", **tolerance)
        return
    assert type(found) is type(wanted), path
    if isinstance(wanted, (dict, UserDict)):
        assert list(found) == list(wanted), path
        for key, part in wanted.items():
            same(found[key], part, f"{path}[{key!r}]")
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted), path
        for index, part in enumerate(wanted):
            same(found[index], part, f"{path}[{index}]")
    elif dataclasses.is_dataclass(wanted) or isinstance(wanted, SimpleNamespace):
        for name, part in vars(wanted).items():
            same(getattr(found, name), part, f"{path}.{name}")
    else:
        assert found == wanted, path


def other(item: Any) -> Any:
    """Another tensor of the same kind; what is no tensor stays."""
    if not isinstance(item, torch.Tensor):
        return item
    if item.dtype.is_floating_point or item.dtype.is_complex:
        return torch.randn_like(item, dtype=torch.float32 if item.itemsize < 4 else None).to(item.dtype)
    return torch.randint(0, 2 if item.dtype is torch.bool else 50, item.shape).to(item.dtype)


def mapped(change: Callable[[Any], Any], call: Any) -> Any:
    """With other leaves. Torch would make a plain tuple of a size."""
    return pytree.tree_map(change, call, is_leaf=lambda item: isinstance(item, torch.Size))


def right(model: Any, args: Any, kwargs: Any = None, *calls: Any, **options: Any) -> Any:
    """The compiled model, after it gave what the model gives, in its own structure."""
    kwargs = kwargs or {}
    net: Any = isthmus.compile(model, args, kwargs, **options)
    for new_args, new_kwargs in (*calls, mapped(other, (args, kwargs))):
        theirs = mapped(lambda item: item.clone() if isinstance(item, torch.Tensor) else item, (new_args, new_kwargs))
        with torch.no_grad():
            wanted = model(*theirs[0], **theirs[1])
        same(net(*new_args, **new_kwargs), wanted)
    return net
