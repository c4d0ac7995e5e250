"""Scripted, traced and frozen models, and whether they agree in onnxruntime with what was compiled from them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import isthmus

X = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
ONES = torch.ones(2, 3, dtype=torch.int64)


def scripted(source: Any) -> Any:
    """The scripted function or module; torch warns that scripts are of yesterday."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(source)


def traced(source: Any, *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(source, args)


def frozen(source: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.freeze(source)


def n(number: int) -> torch.Tensor:
    return torch.tensor(number)


def agree(
    model: Any, example: Sequence[Any], *others: Sequence[Any], ops: Sequence[str] = (), **options: Any
) -> isthmus.Compiled:
    """The compiled model, after it gave in onnxruntime what the model gives, at the example and at other arguments."""
    net = isthmus.compile(model, example, verify_ir=True, **options)
    for args in (example, *others):
        fresh = copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model  # it may change itself
        wanted, _ = pytree.tree_flatten(fresh(*args))
        found, _ = pytree.tree_flatten(net(*args))
        assert len(wanted) == len(found)
        for theirs, ours in zip(map(torch.as_tensor, wanted), map(torch.as_tensor, found), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    used = {node.op.name for node in net.graph.walk()}
    assert used >= set(ops)
    return net
