"""Goes on behind an op that cannot be carried over, so that all refusals come together.

The types of the op's results come from torch's meta kernel, run at two assignments of the hints: dims that differ
become new symbols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from isthmus.frontends.torch.calls import Plan
from isthmus.frontends.torch.lowering import dtype_of
from isthmus.frontends.torch.size_nodes import SizeNode
from isthmus.frontends.torch.tensors import Watched
from isthmus.ir.dims import Dim, evaluate, resolve, symbols
from isthmus.ir.errors import Refusal, UnsupportedError
from isthmus.ir.graph import Value
from isthmus.ir.location import Location
from isthmus.ir.types import Tensor

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher


def stop(watcher: Watcher, ended: Location | None = None) -> UnsupportedError:
    """The error that tells all refusals.

    Args:
        watcher: knows them.
        ended: where the run ended, when it did not reach the model's end.
    """
    count = len(watcher.refusals)
    message = f"{count} operation{'s' if count > 1 else ''} of the model cannot be carried over"
    if ended is not None:
        message += f"; the run ended early, at {ended}, so that further ones may follow"
    return UnsupportedError(message, list(watcher.refusals.values()))


def stand_ins(watcher: Watcher, plan: Plan, args: Any, kwargs: Any, refusal: Refusal, check: bool = False) -> Any:
    """What the model goes on with behind a refused op: its written arguments, or tensors typed by torch.

    Args:
        watcher: knows the arguments' types.
        plan: of the op.
        args: its arguments.
        kwargs: its keyword arguments.
        refusal: why it is refused; one of the watcher's.
        check: the arguments were found not to fit each other.

    Raises:
        UnsupportedError: torch cannot tell the types either.
        Exception: what torch's kernel says against the arguments too, when they were found not to fit: the model does
            not run at such sizes, and would not outside a watch.
    """
    func = getattr(getattr(getattr(torch.ops, plan.name.split(".")[0]), plan.packet), plan.name.rsplit(".", 1)[1])
    if plan.writes:
        named = {name: args[position] if position < len(args) else kwargs.get(name) for position, name, _, _ in plan.arguments}
        returned = [named[name] for name in plan.returned]
        return returned[0] if len(returned) == 1 else tuple(returned) or None
    runs = []
    for shift in (0, 1):
        try:
            runs.append(func(*_real(watcher, args, shift), **_real(watcher, kwargs, shift)))
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AssertionError) as error:
            if shift == 0:
                if check and list(watcher.refusals.values()) == [refusal] and not isinstance(error, NotImplementedError):
                    watcher.refusals.clear()
                    raise
                refusal.found = refusal.found or f"torch: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
                raise stop(watcher, refusal.location) from error
            runs.append(runs[0])
    first, spec = pytree.tree_flatten(runs[0])
    second = pytree.tree_leaves(runs[1])
    if len(first) != len(second):
        raise stop(watcher, refusal.location)
    return pytree.tree_unflatten([_stand_in(watcher, a, b) for a, b in zip(first, second, strict=True)], spec)


def _real(watcher: Watcher, tree: Any, shift: int) -> Any:
    """Arguments as meta tensors and numbers, at the hints or at others."""

    def size(dim: Dim) -> int:
        dim = resolve(dim)
        if isinstance(dim, int):
            return dim
        hints = {symbol: watcher.sizes.hint_of(symbol) for symbol in symbols(dim)}
        return evaluate(dim, {symbol: hint + 16 * shift for symbol, hint in hints.items()})

    def leaf(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            entry = watcher.entry(item)
            shape = [size(dim) for dim in watcher.w.dims(entry.value)]
            return torch.empty(shape, dtype=item.dtype, device="meta")
        if isinstance(item, torch.SymInt) and isinstance(item.node, SizeNode):
            return size(item.node.expr)
        if isinstance(item, torch.SymFloat):
            return float(item.node.hint)
        return torch.device("meta") if isinstance(item, torch.device) else item

    return pytree.tree_map(leaf, tree)


def _stand_in(watcher: Watcher, first: Any, second: Any) -> Any:
    if not isinstance(first, torch.Tensor):
        return first
    shape: list[Dim] = [
        a if a == b else watcher.graph.symbols.fresh("u", 0, hint=a) for a, b in zip(first.shape, second.shape, strict=True)
    ]
    value = Value(Tensor(dtype_of(first.dtype), tuple(shape)), None, watcher.graph, 0, "unsupported")
    result: Watched = watcher.tensor(value)
    return result
