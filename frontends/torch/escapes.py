"""Where the program takes data out of the watched world: methods of `torch.Tensor`, swapped while a model is watched.

What depends on no input is computed from the real weights, lazily, and handed out as real data: this is how a detour
through numpy becomes a constant. What depends on an input is an error that names the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from isthmus.frontends.torch import leaving, sharing, stdlib, texts
from isthmus.frontends.torch.script import swaps as scripted
from isthmus.frontends.torch.tensors import Watched
from isthmus.frontends.torch.weights import real
from isthmus.ir.errors import CaptureError

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher

_WHAT: Final = {
    "__bool__": "the truth",
    "__contains__": "the truth",
    "__int__": "the number",
    "__index__": "the number",
    "__float__": "the number",
    "__complex__": "the number",
    "tolist": "the content (tolist)",
    "numpy": "the content (numpy)",
    "__array__": "the content (numpy)",
    "__dlpack__": "the content (dlpack)",
    "__reduce_ex__": "the content (pickle)",
    "data_ptr": "the address",
    "apply_": "the content (apply_)",
    "map_": "the content (map_)",
    "untyped_storage": "the storage",
    "storage": "the storage",
}
_OF_SIZES: Final = (
    (torch, "linspace", torch.ops.aten.linspace.default),
    (torch, "logspace", torch.ops.aten.logspace.default),
    (torch, "istft", torch.ops.aten.istft.default),
    (torch._C._nn, "adaptive_max_pool2d", torch.ops.aten.adaptive_max_pool2d.default),
    (torch._C._nn, "adaptive_max_pool3d", torch.ops.aten.adaptive_max_pool3d.default),
)


@contextmanager
def swapped(watcher: Watcher) -> Iterator[None]:
    """Swaps the methods, for a while, and functions of torch that ask more of sizes than their ops do."""
    swaps: list[tuple[Any, str, Any]] = [
        *((torch.Tensor, name, _method(watcher, name, what, getattr(torch.Tensor, name))) for name, what in _WHAT.items()),
        (torch.Tensor, "contiguous", _contiguous(torch.Tensor.contiguous)),
        (torch.Tensor, "is_contiguous", _is_contiguous(watcher, torch.Tensor.is_contiguous)),
        (torch.Tensor, "data", _data(watcher)),
        *scripted(watcher),
        (torch.Tensor, "storage_offset", _offset(watcher, torch.Tensor.storage_offset)),
        (torch, "tensor", _factory(watcher, torch.tensor, copies=True)),
        (torch, "as_tensor", _factory(watcher, torch.as_tensor)),
        (torch, "asarray", _factory(watcher, torch.asarray)),
        (torch, "from_numpy", _factory(watcher, torch.from_numpy)),
        (Watched, "new_tensor", _new_tensor),
        (torch.nn.functional, "one_hot", _one_hot(watcher, torch.nn.functional.one_hot)),
        (torch, "_check_tensor_all_with", _check_all(watcher, torch._check_tensor_all_with)),
        (torch, "manual_seed", _seed(watcher, torch.manual_seed)),
        *((owner, name, _of_sizes(watcher, getattr(owner, name), op)) for owner, name, op in _OF_SIZES),
        (torch.nn.functional, "affine_grid", _affine_grid),
        (torch.nn.RNNBase, "check_forward_args", _check_packed(torch.nn.RNNBase.check_forward_args)),
        (torch._VF, "_pad_packed_sequence", _pad_packed(watcher, torch._VF._pad_packed_sequence)),
        *texts.swaps(watcher),
        *stdlib.swaps(),
    ]
    saved = [(owner, name, vars(owner).get(name)) for owner, name, _ in swaps]
    for owner, name, new in swaps:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, old in saved:
            if old is None:
                delattr(owner, name)
            else:
                setattr(owner, name, old)


def _method(watcher: Watcher, name: str, what: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.__class__ is not Watched and not watcher.reals.changed(self):
            watcher.read.add(watcher.reals.names.get(id(self), ""))
            with torch._C._DisableTorchDispatch():  # torch's own implementation goes through ops that are watched
                found = original(self, *args, **kwargs)
            if isinstance(found, np.ndarray):
                found.setflags(write=False)  # it may be the user's own weight
                sharing.taken(watcher, self, found, self)
            return found
        if name == "__bool__":
            return leaving.truth(watcher, self)
        value = watcher.value(self)
        address = name in ("data_ptr", "untyped_storage", "storage")
        content = None if address else watcher.w.knowledge.content(value)
        if content is None:
            if name in ("__int__", "__index__"):
                if any(size.__class__ is int and size != 1 for size in watcher.w.dims(value)):
                    raise TypeError("only integer tensors of a single element can be converted to an index")
                watcher.trying = True
                try:
                    return int(leaving.item(watcher, self))  # the size says that it may not become a number
                finally:
                    watcher.trying = False
            if name == "tolist" and (items := leaving.items(watcher, self)) is not None:
                return items
            leaving.escapes(watcher, what, self)
        with torch._C._DisableTorchDispatch():
            copy = real(content, value.tensor.dtype)
            found = original(copy, *args, **kwargs)
        sharing.taken(watcher, self, found, copy)
        return found

    return method


def _data(watcher: Watcher) -> property:
    """`Tensor.data`, whose setter would have a real tensor lie in a storage that the capture takes away with it."""
    inherited: Any = torch._C.TensorBase.data

    def assign(self: torch.Tensor, new: torch.Tensor) -> None:
        if _same(watcher, self, new):
            return  # `module.to(...)` that has nothing to do puts back what was there
        whose = "a tensor" if self.__class__ is Watched else watcher.reals.names.get(id(self)) or "a tensor from outside"
        watcher.fail(
            CaptureError(
                f"the model replaces the data of {whose}",
                location=watcher.provenance.here(),
                remedy="compute with the new tensor itself, or write it with .copy_() under torch.no_grad()",
            )
        )

    return property(inherited.__get__, assign)


def _same(watcher: Watcher, old: torch.Tensor, new: Any) -> bool:
    """Whether a tensor is another one again, all of it."""
    if new is old or not isinstance(new, torch.Tensor):
        return new is old
    return watcher.entry(new).owner is watcher.entry(old).owner and watcher.value(new) is watcher.value(old)


def _check_all(watcher: Watcher, original: Callable[..., None]) -> Callable[..., None]:
    """`torch._check_tensor_all`, an assertion: torch would ask for the number of a bool."""

    def check_all(error_type: type[BaseException], cond: torch.Tensor, message: Any = None) -> None:
        known = cond.__class__ is not Watched or cond.dtype is not torch.bool
        if known or leaving.known_truth(watcher, watcher.value(every := cond.all())) is not None:
            original(error_type, cond, message)
        else:
            torch._assert(every, "")

    return check_all


def _offset(watcher: Watcher, original: Callable[[torch.Tensor], int]) -> Callable[[torch.Tensor], int]:
    """`Tensor.storage_offset`, which is not known of a view."""

    def storage_offset(self: torch.Tensor) -> int:
        if self.__class__ is Watched and self.entry.base is not None:
            leaving.escapes(watcher, "the offset", self)
        return original(self)

    return storage_offset


def _contiguous(original: Callable[..., Any]) -> Callable[..., Any]:
    """`Tensor.contiguous`, answered from the entry: torch's C++ would ask every symbolic size whether it is 1."""

    def contiguous(self: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> Any:
        if self.__class__ is not Watched:
            return original(self, memory_format=memory_format)
        if memory_format is torch.contiguous_format and self.entry.strides is None and self.entry.certain:
            return self
        return torch.ops.aten.contiguous.default(self, memory_format=memory_format)

    return contiguous


def _is_contiguous(watcher: Watcher, original: Callable[..., Any]) -> Callable[..., Any]:
    """`Tensor.is_contiguous`, as a compiled model takes its inputs: where the example lies otherwise, that is told."""

    def is_contiguous(self: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
        if self.__class__ is not Watched:
            return bool(original(self, memory_format=memory_format))
        if not self.entry.certain:
            texts.note(watcher, "asks how a tensor lies, and is answered as if its elements followed one another")
        return memory_format is torch.contiguous_format and self.entry.strides is None

    return is_contiguous


def _getitem(original: Callable[..., Any]) -> Callable[..., Any]:
    """`Tensor.__getitem__`: torch's C++ takes no symbolic size as the index of one element."""

    def getitem(self: torch.Tensor, index: Any) -> Any:
        if not _sized(index):
            return original(self, index)
        part, rest = _selected(self, index)
        return original(part, rest) if rest else part

    return getitem


def _setitem(original: Callable[..., Any]) -> Callable[..., Any]:
    def setitem(self: torch.Tensor, index: Any, value: Any) -> None:
        if not _sized(index):
            original(self, index, value)
        else:
            part, rest = _selected(self, index)
            original(part, rest or (Ellipsis,), value)

    return setitem


# On our own class alone, for good: to have set `__getitem__` on torch.Tensor would leave it a sequence for C ever after.
Watched.__getitem__ = _getitem(torch.Tensor.__getitem__)
Watched.__setitem__ = _setitem(torch.Tensor.__setitem__)


def _sized(index: Any) -> bool:
    return any(
        item.__class__ is torch.SymInt or (item.__class__ is slice and Watched in (item.start.__class__, item.stop.__class__))
        for item in (index if index.__class__ is tuple else (index,))
    )


def _bound(bound: Any) -> Any:
    """An end of a slice: a tensor there is an integer, which its own `__index__` would have to make a number of."""
    return bound.item() if bound.__class__ is Watched else bound


def _selected(tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """The part that the sizes in an index select, and what is left of the index."""
    items = index if index.__class__ is tuple else (index,)
    lengths = [
        0 if item is None or item is Ellipsis or isinstance(item, bool)
        else item.ndim if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
        else 1
        for item in items
    ]  # fmt: skip
    hidden = tensor.ndim - sum(lengths)
    dim, rest = 0, []
    for item, length in zip(items, lengths, strict=True):
        if item.__class__ is torch.SymInt:
            tensor = tensor.select(dim, item)
        else:
            if item.__class__ is slice:
                item = slice(_bound(item.start), _bound(item.stop), item.step)
            rest.append(item)
            dim += hidden if item is Ellipsis else length
    return tensor, tuple(rest)


def _factory(watcher: Watcher, original: Callable[..., Any], copies: bool = False) -> Callable[..., Any]:
    """`torch.tensor` and `torch.as_tensor` of lists with sizes or watched scalars in them: a stack of scalars."""

    def factory(data: Any, *args: Any, **kwargs: Any) -> Any:
        data, kind = stdlib.unpacked(data)
        if not isinstance(data, Watched) and _watched_inside(data):
            dtype = kwargs.get("dtype") or (args[0] if args else kind)
            result = _stacked(data)
            return result if dtype is None else result.to(dtype)
        result = original(data, *args, **kwargs)
        if not copies and not kwargs.get("copy"):
            sharing.given(watcher, result, data)
        return result

    return factory


def _new_tensor(self: torch.Tensor, data: Any, *, dtype: Any = None, device: Any = None, **kwargs: Any) -> torch.Tensor:
    """`Tensor.new_tensor`, which is of the same element type."""
    return torch.tensor(data, dtype=dtype or self.dtype, device=device or self.device, **kwargs)


def _one_hot(watcher: Watcher, original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.nn.functional.one_hot`: torch's C++ takes no symbolic size as the number of classes."""

    def one_hot(tensor: torch.Tensor, num_classes: Any = -1) -> Any:
        if num_classes.__class__ is torch.SymInt:
            return watcher.__torch_dispatch__(torch.ops.aten.one_hot.default, (), (tensor, num_classes))
        return original(tensor, num_classes)

    return one_hot


def _seed(watcher: Watcher, original: Callable[..., Any]) -> Callable[..., Any]:
    def manual_seed(seed: Any) -> Any:
        leaving.seeded(watcher)
        return original(seed)

    return manual_seed


def _of_sizes(watcher: Watcher, original: Callable[..., Any], op: Any) -> Callable[..., Any]:
    """A function whose op is carried over for sizes too, where torch's C++ takes numbers alone."""

    def function(*args: Any, **kwargs: Any) -> Any:
        given = [item for each in (*args, *kwargs.values()) for item in (each if isinstance(each, (list, tuple)) else (each,))]
        if kwargs.get("out") is None and any(item.__class__ is torch.SymInt for item in given):
            named = {"self" if name == "input" else name: argument for name, argument in kwargs.items()}
            return watcher.__torch_dispatch__(op, (), args, named)
        return original(*args, **kwargs)

    return function


def _affine_grid(theta: torch.Tensor, size: Any, align_corners: bool | None = None) -> torch.Tensor:
    """`torch.nn.functional.affine_grid`, which asks for the least of the sizes; the op's row checks as well."""
    return torch.affine_grid_generator(theta, size, bool(align_corners))


def _pad_packed(watcher: Watcher, original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch._VF._pad_packed_sequence`: torch's C++ takes no symbolic size as the length."""

    def pad(*args: Any) -> Any:
        if args[-1].__class__ is torch.SymInt:
            return watcher.__torch_dispatch__(torch.ops.aten._pad_packed_sequence.default, (), args)
        return original(*args)

    return pad


def _check_packed(original: Callable[..., Any]) -> Callable[..., Any]:
    """`RNNBase.check_forward_args`, which makes a number of the batch size of packed sequences; the op's row checks as well."""

    def check(self: torch.nn.RNNBase, input: torch.Tensor, hidden: Any, batch_sizes: torch.Tensor | None) -> None:
        if batch_sizes.__class__ is not Watched:
            original(self, input, hidden, batch_sizes)

    return check


def _watched_inside(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_watched_inside(item) for item in data)
    return isinstance(data, (Watched, torch.SymInt, torch.SymFloat))


def _stacked(data: Any) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        parts = [_stacked(item) for item in data]
        dtype = parts[0].dtype
        for part in parts:
            dtype = torch.promote_types(dtype, part.dtype)
        return torch.stack([part.to(dtype) for part in parts])
    if isinstance(data, torch.Tensor):
        return data.detach().clone()
    whole = isinstance(data, (torch.SymInt, int)) and not isinstance(data, bool)
    dtype = torch.bool if isinstance(data, bool) else torch.int64 if whole else torch.get_default_dtype()
    return torch.full((), data, dtype=dtype)
