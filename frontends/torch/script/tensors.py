"""TorchScript's ops on tensors that are no ops of ATen: what they are made of, and tensors made of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from isthmus.frontends.torch import aliases
from isthmus.frontends.torch.lowering import Lowering, torch_dtype
from isthmus.frontends.torch.script.interpreter import script_node, script_op
from isthmus.frontends.torch.script.notation import NUMBER_OF_DTYPE, dtype_of_number
from isthmus.frontends.torch.script.outcomes import Raised
from isthmus.frontends.torch.script.sequences import joined
from isthmus.frontends.torch.script.values import NUMBERS, UNSET, Head, List, Scalar, is_known, kind_of
from isthmus.ir.dims import Dim, bounds
from isthmus.ir.dtypes import bool_, i64
from isthmus.ir.graph import Value

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.interpreter import Interpreter

_aten = torch.ops.aten


# ---- what a tensor is


def _of(*names: str) -> Callable[[Callable[[torch.Tensor], Any]], Callable[[torch.Tensor], Any]]:
    """Decorator: an op that only looks at a tensor."""

    def register(function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
        script_op(*names)(lambda i, x, *_: i.enter(function(x)))
        return function

    return register


@script_op("aten::size")
def _size(i: Interpreter, x: torch.Tensor, dim: Any = None) -> Any:
    return i.enter(x.shape if dim is None else x.shape[dim])


_of("aten::dim")(lambda x: x.dim())
_of("prim::dtype")(lambda x: x.dtype)
_of("prim::device")(lambda x: x.device)
_of("prim::layout")(lambda x: 0)
_of("prim::requires_grad")(lambda x: False)
_of("prim::is_cuda", "prim::is_mps", "prim::is_xpu", "prim::is_hpu", "prim::is_vulkan", "prim::is_ipu", "prim::is_maia")(
    lambda x: False
)
_of("prim::is_cpu")(lambda x: True)
_of("prim::is_sparse", "prim::is_sparse_csr", "prim::is_mkldnn", "prim::is_meta", "prim::is_nested", "prim::is_quantized")(
    lambda x: False
)
_of("aten::is_floating_point")(lambda x: x.dtype.is_floating_point)
_of("aten::is_complex")(lambda x: x.dtype.is_complex)
_of("aten::element_size")(lambda x: x.dtype.itemsize)
_of("aten::stride")(lambda x: x.stride())
_of("prim::itemsize")(lambda x: x.dtype.itemsize)
_of("aten::is_contiguous")(lambda x: x.is_contiguous())


@script_op("aten::numel", "prim::numel")
def _numel(i: Interpreter, x: torch.Tensor) -> Any:
    count: Any = 1
    for size in x.shape:
        count = count * size
    return count


@script_op("prim::data", "aten::requires_grad_", "aten::pin_memory", "aten::cpu")
def _data(i: Interpreter, x: torch.Tensor, *_: Any) -> Any:
    return i.op(_aten.detach.default, x)


@script_op("prim::grad")
def _grad(i: Interpreter, x: torch.Tensor) -> None:
    return None


@script_op("aten::_infer_size", "prim::infer_unsqueeze_size")
def _infer_size(i: Interpreter, left: List, right: List) -> List:
    sizes, other = list(map(i.dim, i.flat(left))), list(map(i.dim, i.flat(right)))
    longest = max(len(sizes), len(other))
    found: list[Any] = []
    for a, b in zip([1] * (longest - len(sizes)) + sizes, [1] * (longest - len(other)) + other, strict=True):
        found.append(i.watcher.sizes.give(b if a.__class__ is int and a == 1 else a))
    return List(found, i.scope)


# ---- tensors of numbers


@script_op("aten::tensor", "aten::as_tensor")
def _tensor(i: Interpreter, x: Any, dtype: Any = None, device: Any = None, grad: Any = False) -> Any:
    wanted = None if dtype is None else dtype_of_number(dtype)
    if isinstance(x, torch.Tensor):
        return x if wanted is None else i.op(_aten.to.dtype, x, dtype, False, False, None)
    if isinstance(x, List) and x.head is not None:
        found, kind = joined(i, x, 0, True), x.head.kind
    elif is_known(x):
        return fresh(i, torch.tensor(i.leave(x), dtype=wanted, device=device))
    else:
        found = _stacked(i, x)
        kind = float if found.dtype is torch.float64 else int
    target = wanted or (torch.get_default_dtype() if kind is float else found.dtype)
    return found if target is found.dtype else i.op(_aten.to.dtype, found, NUMBER_OF_DTYPE[target], False, False, None)


def fresh(i: Interpreter, constant: torch.Tensor) -> torch.Tensor:
    """A new tensor of known content, which a branch or loop makes anew each time."""
    return constant if i.scope is None else i.tensor(i.value(constant))


@script_op("aten::to.prim_Device")
def _to_device(
    i: Interpreter, x: torch.Tensor, device: Any, dtype: Any = None, non_blocking: Any = False, copy: Any = False
) -> Any:
    return _to(i, x, dtype, copy)


@script_op("aten::to.prim_dtype")
def _to_dtype(i: Interpreter, x: torch.Tensor, dtype: Any = None, non_blocking: Any = False, copy: Any = False) -> Any:
    return _to(i, x, dtype, copy)


@script_op("aten::to.prim_other")
def _to_other(i: Interpreter, x: torch.Tensor, non_blocking: Any = False, copy: Any = False) -> Any:
    return _to(i, x, None, copy)


def _to(i: Interpreter, x: torch.Tensor, dtype: Any, copy: bool) -> Any:
    return i.op(_aten.to.dtype, x, NUMBER_OF_DTYPE[x.dtype] if dtype is None else dtype, False, copy, None)


@script_op("aten::unbind.int")
def _unbind(i: Interpreter, x: torch.Tensor, dim: int = 0) -> Any:
    value = i.value(x)
    axis = i.w.axis(value, dim)
    if isinstance(i.w.dims(value)[axis], int):
        return i.enter(i.op(_aten.unbind.int, x, dim))
    moved = i.op(_aten.movedim.int, x, axis, 0)
    return List([], i.scope, Head(i.value(moved), torch.Tensor, stacked=True, owner=i.watcher.entry(x).owner))


def _stacked(i: Interpreter, x: Any) -> torch.Tensor:
    """A tensor of numbers in nested lists, of the widest kind among them."""
    if isinstance(x, (List, tuple)):
        parts = [_stacked(i, each) for each in (x if isinstance(x, tuple) else i.flat(x))]
        dtype = parts[0].dtype
        for part in parts:
            dtype = torch.promote_types(dtype, part.dtype)
        number = NUMBER_OF_DTYPE[dtype]
        return i.op(_aten.stack.default, List([i.op(_aten.to.dtype, p, number, False, False, None) for p in parts], None), 0)
    if isinstance(x, torch.Tensor):
        return x
    return torch.tensor(x, dtype=torch_dtype(NUMBERS[kind_of(x) or int])) if is_known(x) else i.tensor(i.value(x))


# ---- parts of tensors at places that may be counted from the end


def _sign(place: Dim) -> bool:
    """Whether it is known if a place is counted from the front."""
    lo, hi = bounds(place)
    return lo >= 0 or hi < 0


MOST: Final = 64
"""The number of elements up to which those of a tensor become numbers one by one."""


def _part(i: Interpreter, x: torch.Tensor, take: aliases.Take, push: aliases.Push) -> torch.Tensor:
    """A view of a tensor that starts or ends at places that may be counted from its end."""
    entry = i.watcher.entry(x)
    value = take(i.value(x))
    found: torch.Tensor = i.watcher.tensor(value, aliases.view(entry, value, take, push, None, False))
    return found


def _pieces(i: Interpreter, base: Value, axis: int, first: Value, last: Value, new: Value) -> Value:
    """A tensor with another part between two places, counted from the front."""
    b, w = i.w.b, i.w
    shape = w.dims(base)
    start, end = (b.constant(np.array([place], np.int64)) for place in (0, 2**62))
    before, after = (b.dynamic_slice(base, *ends, axes=[axis], steps=[1]) for ends in ((start, first), (last, end)))
    found: Value = b.reshape(b.concat([before, new, after], axis=axis), shape=shape)
    return found


def _from_front(i: Interpreter, place: Value, size: Dim, within: bool) -> Value:
    """A place ``[1]`` counted from the front; one of a slice lies within the tensor."""
    b = i.w.b
    whole = b.unsqueeze(i.w.tensor(size, i64), axes=[0])
    place = b.where(b.lt(place, 0), b.add(place, whole), place)
    found: Value = b.minimum(b.maximum(place, 0), whole) if within else place
    return found


@script_op("aten::select.int")
def _select(i: Interpreter, x: torch.Tensor, dim: int, index: Any) -> Any:
    place = i.dim(index)
    if is_known(index) or _sign(place):
        return i.op(_aten.select.int, x, dim, index)
    w = i.w
    axis = w.axis(i.value(x), dim)
    at = w.tensor(place, i64)

    def push(w: Lowering, base: Value, new: Value) -> Value:
        first = _from_front(i, w.b.unsqueeze(at, axes=[0]), w.dims(base)[axis], within=False)
        return _pieces(i, base, axis, first, w.b.add(first, 1), w.b.unsqueeze(new, axes=[axis]))

    return _part(i, x, lambda value: i.w.b.gather(value, at, axis=axis), push)


@script_op("aten::slice.Tensor")
def _slice(i: Interpreter, x: torch.Tensor, dim: int, start: Any, end: Any, step: Any) -> Any:
    places = [i.dim(each) for each in (start, end) if each is not None]
    if not isinstance(step, int):
        i.refuse("the step of a slice depends on sizes or data", "use a fixed step")
    if all(isinstance(each, int) or _sign(each) for each in places):
        return i.op(_aten.slice.Tensor, x, dim, start, end, step)
    axis = i.w.axis(i.value(x), dim)
    first, last = (
        i.w.b.unsqueeze(i.w.tensor(default if each is None else i.dim(each), i64), axes=[0])
        for each, default in ((start, 0), (end, 2**62))
    )

    def push(w: Lowering, base: Value, new: Value) -> Value:
        if step != 1:
            i.refuse("every second or further element is written to, between places that only data can tell")
        size = w.dims(base)[axis]
        begin, stop = (_from_front(i, each, size, within=True) for each in (first, last))
        return _pieces(i, base, axis, begin, w.b.maximum(begin, stop), new)

    return _part(i, x, lambda value: i.w.b.dynamic_slice(value, first, last, axes=[axis], steps=[step]), push)


@script_node("prim::tolist")
def _tolist(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    x, *_ = (env[value.unique()] for value in node.inputs())
    return [_listed(i, x)]


def _listed(i: Interpreter, x: torch.Tensor) -> Any:
    """The elements of a tensor as numbers in nested lists."""
    value = i.value(x)
    dtype = value.tensor.dtype
    kind = bool if dtype is bool_ else int if dtype.is_integer else float
    if not x.dim():
        return i.number(value, kind)
    size = i.w.dims(value)[0]
    if not isinstance(size, int) or size > MOST:
        if x.dim() > 1:
            i.refuse("a tensor becomes a list of lists, and has many rows or as many as only sizes tell", "keep the tensor")
        return List([], i.scope, Head(value, kind, stacked=True))
    return List([_listed(i, i.op(_aten.select.int, x, 0, place)) for place in range(size)], i.scope)


# ---- what has no result in the graph


@script_op("prim::Uninitialized")
def _uninitialized(i: Interpreter) -> Any:
    return UNSET


@script_op("prim::RaiseException")
def _raise(i: Interpreter, message: Any, kind: Any = None) -> None:
    raise Raised(str(kind or "").removeprefix("builtins."), str(message), i.location)


@script_op("aten::warn", "prim::Print", "aten::set_grad_enabled", "aten::manual_seed")
def _nothing(i: Interpreter, *_: Any) -> None:
    return None


_CONTEXTS: Final = ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "record_function")
"""Contexts that change nothing about what is computed."""


@script_node("prim::Enter", "prim::Exit")
def _context(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    name = next(node.inputs()).type().str().rpartition(".")[2]
    if name not in _CONTEXTS:
        i.refuse(f"the context {name} of a script is not carried over", "leave it out, or enter it around the script")
    return [None] * node.outputsSize()


@script_node("prim::isinstance")
def _is_instance(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    (x,) = (env[value.unique()] for value in node.inputs())
    types = [type.kind() for type in node.tys("types")]
    if isinstance(x, Scalar):
        x = x.kind()
    found = {
        "TensorType": isinstance(x, torch.Tensor), "IntType": kind_of(x) is int, "FloatType": kind_of(x) is float,
        "BoolType": kind_of(x) is bool, "NoneType": x is None, "StringType": isinstance(x, str),
        **dict.fromkeys(("ListType", "AnyListType"), isinstance(x, List)),
        **dict.fromkeys(("TupleType", "AnyTupleType"), isinstance(x, tuple)),
    }  # fmt: skip
    if any(type not in found for type in types):
        i.refuse(f"isinstance of {', '.join(types)} is not carried over")
    return [any(found[type] for type in types)]


@script_op("prim::annotate", "prim::profile")
def _itself(i: Interpreter, x: Any, *_: Any) -> Any:
    return x

