"""Ops whose result is no tensor, ops that write without saying so, and ops that the table of lowerings leaves out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from isthmus.frontends.torch import leaving
from isthmus.frontends.torch.aten.common import broadcast
from isthmus.frontends.torch.lowering import Lowering, dtype_of, lowers
from isthmus.frontends.torch.strided import as_strided, as_strided_scatter, resize, resize_as
from isthmus.frontends.torch.weights import contents
from isthmus.ir.dims import Expr
from isthmus.ir.graph import Value

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher


@lowers("aten.zero")
def zero(w: Lowering, self: Value) -> Value:
    """The functional form of ``zero_``."""
    result: Value = w.b.expand(w.tensor(0, self.tensor.dtype), shape=w.dims(self))
    return result


def _batch_norm(
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


def _item(watcher: Watcher, tensor: torch.Tensor) -> Any:
    return leaving.item(watcher, tensor)


def _is_nonzero(watcher: Watcher, tensor: torch.Tensor) -> bool:
    return leaving.truth(watcher, tensor)


def _to(watcher: Watcher, tensor: Any, dtype: torch.dtype, *args: Any, **kwargs: Any) -> Any:
    """`torch.vmap` makes a tensor of a number in this way."""
    if isinstance(tensor, torch.Tensor):
        return NotImplemented
    with watcher:
        return torch.scalar_tensor(tensor, dtype=dtype)


def _reshape_from_tensor(watcher: Watcher, tensor: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    with watcher:
        return tensor.reshape([size.item() for size in shape.unbind()])


def _fill_diagonal(watcher: Watcher, tensor: torch.Tensor, fill_value: Any, wrap: bool = False) -> Any:
    """A diagonal of a matrix is a view of it; torch's own form asks for the numbers of its sizes."""
    if tensor.dim() != 2 or wrap:
        return NotImplemented
    with watcher:
        tensor.diagonal().fill_(fill_value)
    return tensor


def _broadcast_tensors(watcher: Watcher, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Torch's own form asks which sizes are 1."""
    shape = broadcast(watcher.w, *(watcher.w.dims(watcher.value(tensor)) for tensor in tensors))
    sizes = [watcher.sizes.give(size) if isinstance(size, Expr) else size for size in shape]
    with watcher:
        return [tensor.expand(sizes) for tensor in tensors]


def _contents(watcher: Watcher, *tensors: torch.Tensor) -> list[np.ndarray[Any, Any]]:
    """What tensors hold, for a comparison that Python branches on."""
    found = [watcher.w.knowledge.content(watcher.value(tensor)) for tensor in tensors]
    if any(content is None for content in found):
        leaving.escapes(watcher, "the truth", *tensors)
    return [content for content in found if content is not None]


def _equal(watcher: Watcher, tensor: torch.Tensor, other: torch.Tensor) -> bool:
    left, right = _contents(watcher, tensor, other)
    return left.shape == right.shape and bool((left == right).all())


def _allclose(
    watcher: Watcher, tensor: torch.Tensor, other: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    left, right = _contents(watcher, tensor, other)
    return bool(np.allclose(left, right, rtol, atol, equal_nan))


def _size(watcher: Watcher, tensor: torch.Tensor, dim: int | None = None) -> Any:
    return tensor.shape if dim is None else tensor.shape[dim]


def _sym_stride(watcher: Watcher, tensor: torch.Tensor, dim: int | None = None) -> Any:
    return tensor.stride() if dim is None else tensor.stride(dim)


def _numel(watcher: Watcher, tensor: torch.Tensor) -> Any:
    count: Any = 1
    for size in tensor.shape:
        count = operator.mul(count, size)
    return count


def _same_numel(watcher: Watcher, tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """What forward derivatives ask of a tensor and its tangent; storages are as large as their tensors here."""
    return bool(_numel(watcher, tensor) == _numel(watcher, other))


def _device(watcher: Watcher, tensor: torch.Tensor) -> torch.device:
    return tensor.device


def _no(watcher: Watcher, tensor: torch.Tensor, device: Any = None) -> bool:
    return False


def _computed(op: Any) -> Callable[..., torch.Tensor]:
    """An op of numbers alone: what torch makes of them is a constant."""

    def made(watcher: Watcher, *args: Any, **kwargs: Any) -> torch.Tensor:
        with torch._C._DisableTorchDispatch():
            found = op(*args, **{**kwargs, "device": "cpu"})
        device = kwargs.get("device")
        value = watcher.w.b.constant(contents(found), dtype_of(found.dtype))
        return watcher.tensor(value, device=None if device is None else torch.device(device))

    return made


def _check(watcher: Watcher, *args: Any, **kwargs: Any) -> None:
    """Checks of metadata and sizes, which `infer` makes anyway."""


def _enter(watcher: Watcher, name: str, args: str | None = None) -> Any:
    """What the profiler's marks are told by; none of them is part of the graph."""
    return torch.ops.profiler._record_function_enter_new(name, args)


def _exit(watcher: Watcher, handle: Any) -> None:
    torch.ops.profiler._record_function_exit._RecordFunction(handle)


SPECIALS: Final[dict[str, Callable[..., Any]]] = {
    "aten.item.default": _item,
    "aten._local_scalar_dense.default": _item,
    "aten.is_nonzero.default": _is_nonzero,
    "aten.equal.default": _equal,
    "aten.allclose.default": _allclose,
    "aten.sym_size.int": _size,
    "aten.sym_size.default": _size,
    "aten.size.int": _size,
    "aten.size.default": _size,
    "aten.sym_stride.int": _sym_stride,
    "aten.sym_stride.default": _sym_stride,
    "aten.sym_numel.default": _numel,
    "aten.numel.default": _numel,
    "aten._has_same_storage_numel.default": _same_numel,
    "prim.device.default": _device,
    "aten.is_pinned.default": _no,
    "aten.batch_norm.default": _batch_norm,
    "aten.as_strided.default": as_strided,
    "aten.as_strided_scatter.default": as_strided_scatter,
    "aten.broadcast_tensors.default": _broadcast_tensors,
    "aten.to.dtype": _to,
    "aten._reshape_from_tensor.default": _reshape_from_tensor,
    "aten.fill_diagonal_.default": _fill_diagonal,
    "aten.resize_.default": resize,
    "aten.resize_as_.default": resize_as,
    "profiler._record_function_enter_new.default": _enter,
    "profiler._record_function_exit._RecordFunction": _exit,
    "aten._assert_tensor_metadata.default": _check,
    "aten._assert_scalar.default": _check,
    "aten.sym_constrain_range.default": _check,
    "aten.sym_constrain_range_for_size.default": _check,
    **{
        f"aten.{name}.{overload}": _computed(getattr(getattr(torch.ops.aten, name), overload))
        for name in (
            "bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window", "fft_fftfreq",
            "fft_rfftfreq",
        )
        for overload in getattr(torch.ops.aten, name).overloads()
        if not overload.endswith("out")
    },
}
"""Ops whose result is no tensor, and ops that write without saying so; `NotImplemented` goes on as for any other op."""
