"""Functions of modules that make numbers of sizes without need: other forms of them, while a model is watched."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from isthmus.frontends.torch.shadows import SYMBOLIC, surely
from isthmus.frontends.torch.size_nodes import SizeNode
from isthmus.frontends.torch.tensors import Watched
from isthmus.ir.dims import resolve, symbols


def swaps() -> list[tuple[Any, str, Any]]:
    """The owner, the name and the new form of each."""
    return [
        (math, "sqrt", _root(math.sqrt)),
        (math, "pow", _power(math.pow)),
        (math, "log", _logarithm(math.log)),
        *((math, name, _function(getattr(math, name), name)) for name in ("exp", "log2", "log10")),
        (torch.SymInt, "sqrt", torch.sym_sqrt),  # what numpy calls for objects
        (torch.SymInt, "__divmod__", lambda self, other: (self // other, self % other)),
        (torch.SymInt, "__rdivmod__", lambda self, other: (other // self, other % self)),
        (torch.SymInt, "__hash__", _hash(torch.SymInt.__hash__)),
        (torch.SymInt, "__invert__", lambda self: -1 - self),
        (torch, "full", _full(torch.full, ["size"], lambda size: (size, None))),
        (torch, "full_like", _full(torch.full_like, ["input"], lambda like: (like.shape, like.dtype))),
        (torch.Tensor, "new_full", _full(torch.Tensor.new_full, ["self", "size"], lambda like, size: (size, like.dtype))),
        (torch, "broadcast_shapes", _broadcast_shapes(torch.broadcast_shapes)),
        *(
            (owner, name, _pooled(getattr(owner, name), count, reduce))
            for count in (1, 2, 3)
            for name, reduce in ((f"max_pool{count}d", torch.amax), (f"avg_pool{count}d", torch.mean))
            for owner in (torch, functional)
            if hasattr(owner, name)
        ),
        (torch.fft, "fftfreq", _frequencies(torch.fft.fftfreq, lambda n: (torch.arange(n) + n // 2) % n - n // 2)),
        (torch.fft, "rfftfreq", _frequencies(torch.fft.rfftfreq, lambda n: torch.arange(n // 2 + 1))),
    ]


def _root(original: Callable[[Any], float]) -> Callable[[Any], Any]:
    def sqrt(x: Any, /) -> Any:
        return torch.sym_sqrt(x) if x.__class__ in SYMBOLIC else original(x)

    return sqrt


def _function(original: Callable[[Any], float], name: str) -> Callable[[Any], Any]:
    """A function of a float, of which the graph has an op."""

    def function(x: Any, /) -> Any:
        return torch.SymFloat(x.node.computed(name)) if x.__class__ in SYMBOLIC else original(x)

    return function


def _logarithm(original: Callable[..., float]) -> Callable[..., Any]:
    natural = _function(original, "log")

    def log(x: Any, /, *base: Any) -> Any:
        if not any(each.__class__ in SYMBOLIC for each in (x, *base)):
            return original(x, *base)
        return natural(x) / natural(*base) if base else natural(x)

    return log


def _power(original: Callable[[Any, Any], float]) -> Callable[[Any, Any], Any]:
    def power(x: Any, y: Any, /) -> Any:
        if x.__class__ not in SYMBOLIC and y.__class__ not in SYMBOLIC:
            return original(x, y)
        return torch.sym_float(x) ** torch.sym_float(y)

    return power


def _full(original: Callable[..., Any], names: Sequence[str], how: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    """`torch.full` and its like of a number that is a tensor, which torch's C++ would make a number of.

    Args:
        original: the function.
        names: its parameters in front of the number.
        how: the size and the default dtype, from these.
    """

    def full(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip((*names, "fill_value"), args, strict=False)) | kwargs
        number = given.get("fill_value")
        if number.__class__ is not Watched or len(args) > len(names) + 1:
            return original(*args, **kwargs)
        size, dtype = how(*(given[name] for name in names))
        return _filled(size, number, kwargs.get("dtype") or dtype)

    return full


def _broadcast_shapes(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.broadcast_shapes`, which would ask which sizes are 1."""

    def broadcast_shapes(*shapes: Any) -> Any:
        sizes = [size for shape in shapes for size in (shape if isinstance(shape, (tuple, list)) else (shape,))]
        if not any(size.__class__ is torch.SymInt for size in sizes):
            return original(*shapes)
        scalar = torch.zeros(())
        return torch.broadcast_tensors(*map(scalar.expand, shapes))[0].shape

    return broadcast_shapes


def _pooled(original: Callable[..., Any], count: int, reduce: Callable[..., Any]) -> Callable[..., Any]:
    """A pool whose window is as long as an axis, of which torch's C++ would make a number: a reduction of that axis."""

    def pool(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(("input", "kernel_size", "stride"), args, strict=False)) | kwargs
        x, kernel, stride = given.get("input"), given.get("kernel_size"), given.get("stride")
        kernels = list(kernel) if isinstance(kernel, (tuple, list)) else [kernel] * count
        usual = all(kwargs.get(name, number) == number for name, number in _UNUSED.items()) and len(args) <= 3
        if not usual or x.__class__ is not Watched or not any(each.__class__ is torch.SymInt for each in kernels):
            return original(*args, **kwargs)
        space = x.shape[-count:]
        whole = [surely(each == size) for each, size in zip(kernels, space, strict=True)]
        if not all(full or (stride is None and each == 1) for full, each in zip(whole, kernels, strict=True)):
            return original(*args, **kwargs)
        return reduce(x, [axis - count for axis, full in enumerate(whole) if full], keepdim=True)

    return pool


_UNUSED: Final = {
    "padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False, "count_include_pad": True,
    "divisor_override": None,
}  # fmt: skip
"""Parameters of pools behind the stride, where they say nothing of a window that is an axis."""


def _frequencies(original: Callable[..., Any], whole: Callable[[Any], torch.Tensor]) -> Callable[..., Any]:
    """`torch.fft.fftfreq` or `rfftfreq` of as many samples as a size says, of which torch's C++ would make a number."""

    def frequencies(n: Any, d: float = 1.0, **kwargs: Any) -> Any:
        if n.__class__ is not torch.SymInt or not kwargs.keys() <= {"dtype", "device"}:
            return original(n, d, **kwargs)
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        step = torch.scalar_tensor(n, dtype=torch.float64).mul(d).reciprocal()
        return (whole(n).to(dtype) * step.to(dtype)).to(kwargs.get("device"))

    return frequencies


def _filled(size: Any, number: torch.Tensor, dtype: Any) -> torch.Tensor:
    if dtype is None:  # as of a number of Python's
        floats = number.is_floating_point()
        dtype = torch.get_default_dtype() if floats else torch.bool if number.dtype is torch.bool else torch.int64
    return number.reshape(()).to(dtype).expand(size).clone()


def _hash(original: Callable[[Any], int]) -> Callable[[Any], int]:
    """The hash of a size, which has none; that it is an integer from data is in the error, which some libraries catch."""

    def hashed(size: Any) -> int:
        node = size.node
        if isinstance(node, SizeNode) and not set(symbols(resolve(node.expr))) <= node.sizes.declared:
            raise TypeError(f"unhashable type: {node}, an integer from data")
        return original(size)

    return hashed


def unpacked(array: Any) -> tuple[Any, torch.dtype | None]:
    """An array of numpy that holds sizes as nested lists, with the dtype that it would have; other things as they are."""
    if not isinstance(array, np.ndarray) or array.dtype != object:
        return array, None
    if not any(item.__class__ in SYMBOLIC for item in array.flat):
        return array, None
    floats = any(isinstance(item, (float, torch.SymFloat)) for item in array.flat)
    return array.tolist(), torch.float64 if floats else torch.int64
