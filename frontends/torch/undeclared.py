"""Ops that write to arguments though their schema does not say so, and ops that the table of lowerings leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.graph import Value

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher


@lowers("aten.zero")
def zero(w: Lowering, self: Value) -> Value:
    """The functional form of ``zero_``."""
    result: Value = w.b.expand(w.tensor(0, self.tensor.dtype), shape=w.dims(self))
    return result


def batch_norm(
    watcher: Watcher, input: torch.Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """In training mode the running statistics move towards the batch's, the variance with Bessel's correction."""
    if training and running_mean is not None:
        w, b = watcher.w, watcher.w.b
        x = watcher.value(input)
        axes = [axis for axis in range(w.rank(x)) if axis != 1]
        for running, moment in (
            (running_mean, b.reduce_mean(x, axes=axes)),
            (running_var, b.reduce_var(x, axes=axes, correction=1)),
        ):
            old = watcher.value(running)
            dtype = old.tensor.dtype
            kept = b.mul(old, w.tensor(1 - momentum, dtype))
            watcher.put(running, b.add(kept, b.mul(w.cast(moment, dtype), w.tensor(momentum, dtype))))
        # The batch's own statistics are in use, so that the rest is batch norm without running ones.
        plain = torch.ops.aten.batch_norm.default
        return watcher.__torch_dispatch__(plain, (), (input, weight, bias, None, None, True, momentum, eps, cudnn_enabled))
    return NotImplemented
