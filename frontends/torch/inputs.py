"""The model's arguments: their tensors, their names, and which of their sizes are dynamic."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch.utils import _pytree as pytree

from isthmus.frontends.base import Array, TensorSpec
from isthmus.frontends.torch import containers
from isthmus.frontends.torch.binding import flat_call
from isthmus.frontends.torch.lowering import dtype_of, torch_dtype
from isthmus.frontends.torch.outline import outline
from isthmus.frontends.torch.plain import alike, check_opaque, check_plain, from_numpy, is_fake, is_leaf
from isthmus.frontends.torch.weights import contents
from isthmus.ir import dims
from isthmus.ir.dims import INF, Dim, Expr, Symbol, symbols
from isthmus.ir.errors import CaptureError, UsageError
from isthmus.ir.symbols import Symbols
from isthmus.ir.types import Tensor


class Leaf:
    """One tensor among the arguments.

    Attributes:
        name: its name as an input of the graph.
        tensor: the example.
        axes: what the user said about each axis, where anything.
        shape: the sizes, symbols included; set by `declare`.
        given: the example is a tensor of the user's, with content.
        assumed: the value that it is taken to have; None for any.
        low, high: the range of the example's values, which fresh ones stay in when they are integers.
    """

    __slots__ = ("assumed", "axes", "given", "high", "low", "name", "shape", "tensor")

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self.name = name
        self.tensor = tensor
        self.axes: dict[int, Any] = {}
        self.shape: tuple[Dim, ...] = tuple(tensor.shape)
        self.given = False
        self.assumed: float | None = None
        self.low = 0
        self.high = 1


def _told_apart(leaves: list[Any]) -> list[Any]:
    """The leaves with another object for each place that a tensor is given at: each is an input of its own."""
    seen: set[int] = set()
    found = []
    for item in leaves:
        if id(item) in seen and is_leaf(item):
            item = item.detach() if isinstance(item, torch.Tensor) else dataclasses.replace(item)
        seen.add(id(item))
        found.append(item)
    return found


def flatten(tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves of nested containers, and their structure."""
    containers.register(tree)
    leaves, spec = pytree.tree_flatten(tree, is_leaf=is_leaf)
    return leaves, spec


def example(spec: TensorSpec) -> torch.Tensor:
    """A tensor of zeros at the hints of a spec's symbols (4 where there is none).

    Raises:
        UsageError: a size has no value there, since it divides by 0.
    """
    values = {s: 4 if s.hint is None else s.hint for dim in spec.shape for s in symbols(dim)}
    try:
        sizes = [dims.evaluate(dim, values) for dim in spec.shape]
    except ZeroDivisionError:
        told = ", ".join(f"{symbol}={size}" for symbol, size in values.items())
        raise UsageError(f"[{', '.join(map(str, spec.shape))}] divides by 0", found=told) from None
    return torch.zeros(sizes, dtype=torch_dtype(spec.dtype))


class Inputs:
    """The arguments of a capture.

    Args:
        call: the function whose parameters name the arguments.
        args: positional arguments; tensors, or `TensorSpec`s in their place.
        kwargs: keyword arguments.
        dynamic_shapes: which sizes are dynamic, in any form that `torch.export.export` takes, or with plain names in
            place of `torch.export.Dim` objects.
        names: names for the graph's inputs, in the order of the tensors; may be fewer.

    Attributes:
        leaves: the tensors, in order.
        spec: the structure of ``(args, kwargs)``.
        flat: all leaves of the structure; a `Leaf` for a tensor.
        unbounded: names of dynamic sizes without a least one, and whether that is said, as ``Dim.DYNAMIC(min=0)`` does. A
            `torch.export.Dim` says 0 also where nobody does.

    Raises:
        UsageError: the arguments do not fit the parameters, or the dynamic shapes do not fit the arguments.
    """

    def __init__(
        self, call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any,
        names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.call, self.args, self.kwargs = call, tuple(args), dict(kwargs)
        leaves, self.spec = flatten((self.args, self.kwargs))
        if any(isinstance(item, np.ndarray) for item in leaves):
            leaves = list(map(from_numpy, leaves))
            self.args, self.kwargs = containers.unflatten(leaves, self.spec)
        if len({id(item) for item in leaves if is_leaf(item)}) < sum(map(is_leaf, leaves)):
            leaves = _told_apart(leaves)
            self.args, self.kwargs = containers.unflatten(leaves, self.spec)
        self.leaves: list[Leaf] = []
        self.flat: list[Any] = []
        self.unbounded: dict[str, bool] = {}
        self._of: dict[int, Leaf] = {}
        arguments = _arguments(call, self.args, self.kwargs)
        paths: dict[int, str] = {}
        for name, item in arguments:
            for path, leaf in _walk(name, item):
                paths.setdefault(id(leaf), path)
        used: set[str] = set()
        for item in leaves:
            if not is_leaf(item):
                check_opaque("an argument", item)
                self.flat.append(item)
                continue
            name = base = paths.get(id(item)) or f"input_{len(self.leaves)}"
            if len(self.leaves) < len(names):
                name = base = names[len(self.leaves)]
            number = 1
            while name in used:
                name, number = f"{base}_{number}", number + 1
            used.add(name)
            tensor = example(item) if isinstance(item, TensorSpec) else item
            check_plain(name, tensor)
            if tensor.is_meta or is_fake(tensor):
                tensor = torch.zeros([int(size) for size in tensor.shape], dtype=tensor.dtype)
            leaf = Leaf(name, tensor)
            leaf.given = tensor is item
            if isinstance(item, TensorSpec):
                leaf.axes = {axis: dim for axis, dim in enumerate(item.shape) if isinstance(dim, Expr)}
            elif tensor is item and tensor.numel() and not tensor.dtype.is_floating_point and not tensor.dtype.is_complex:
                content = contents(tensor)
                leaf.low, leaf.high = int(content.min()), int(content.max())
            self.leaves.append(leaf)
            self.flat.append(leaf)
            self._of[id(item)] = leaf
        self._dynamic(dynamic_shapes, arguments)

    # ---- what is dynamic

    def _dynamic(self, spec: Any, arguments: list[tuple[str, Any]]) -> None:
        if spec is None:
            return
        if isinstance(spec, Mapping):
            by_name: dict[str, Any] = dict(arguments)
            leaves = {leaf.name: leaf for leaf in self.leaves}
            for name, part in spec.items():
                if name in by_name:
                    self._assign(name, by_name[name], part)
                elif name in leaves:
                    self._axes(name, leaves[name], part)
                else:
                    raise UsageError(
                        f"dynamic_shapes names {name!r}, which is no argument of the model",
                        expected=", ".join(dict.fromkeys([*by_name, *leaves])) or "no names: the model takes no arguments",
                    )
        elif isinstance(spec, (tuple, list)):
            if (len(spec) == 1 and len(arguments) == 1) or len(spec) == len(arguments):
                for (name, item), part in zip(arguments, spec, strict=True):
                    self._assign(name, item, part)
            else:
                raise UsageError(
                    f"dynamic_shapes has {len(spec)} entries for {len(arguments)} arguments",
                    expected=f"one for each of {', '.join(name for name, _ in arguments)}" if arguments else None,
                )
        else:
            raise UsageError("dynamic_shapes is neither a dict nor a sequence", found=outline(spec))

    def _assign(self, path: str, item: Any, spec: Any) -> None:
        """Gives each tensor in an argument its part of the spec."""
        if spec is None:
            return
        if is_leaf(item):
            self._axes(path, self._of[id(item)], spec)
            return
        if not isinstance(item, (tuple, list, Mapping)):
            item = containers.parts(item) or item
            if isinstance(item, Mapping) and isinstance(spec, (tuple, list)):
                spec = dict(zip(item, spec, strict=False))
            elif isinstance(item, Mapping):
                spec = containers.parts(spec) or spec
        if isinstance(item, Mapping) and isinstance(spec, Mapping):
            for key, part in spec.items():
                if key not in item:
                    raise UsageError(
                        f"dynamic_shapes names {path}[{key!r}], which is not there", expected=", ".join(map(str, item))
                    )
                self._assign(f"{path}_{key}", item[key], part)
        elif isinstance(item, (tuple, list)) and isinstance(spec, (tuple, list)):
            if len(item) != len(spec):
                raise UsageError(f"dynamic_shapes has {len(spec)} entries for the {len(item)} items of {path}, {outline(item)}")
            for index, (part, one) in enumerate(zip(item, spec, strict=True)):
                self._assign(f"{path}_{index}", part, one)
        elif spec:
            raise UsageError(
                f"dynamic_shapes for {path} has another structure than the argument, {outline(item)}",
                expected=f"{outline(item, '...')} with a dict such as {{0: 'N'}}, or None, for each ...", found=outline(spec),
            )  # fmt: skip

    def _axes(self, path: str, leaf: Leaf, spec: Any) -> None:
        rank = leaf.tensor.dim()
        if spec is None:
            return
        if isinstance(spec, (tuple, list)):
            if len(spec) != rank:
                raise UsageError(
                    f"dynamic_shapes for {path} has {len(spec)} entries, but the tensor has {rank} dims",
                    expected=f"a dict such as {{0: 'N'}}, or an entry for each dim of {outline(leaf.tensor)}",
                    found=outline(spec),
                )
            spec = dict(enumerate(spec))
        if not isinstance(spec, Mapping):
            raise UsageError(f"dynamic_shapes for {path} must be a dict or a sequence", found=outline(spec))
        for axis, word in spec.items():
            if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
                raise UsageError(
                    f"dynamic_shapes for {path} names the dim {axis!r}, but the tensor has {rank} dims",
                    expected=f"integers from {-rank} to {rank - 1}" if rank else "none",
                )
            leaf.axes[axis % rank] = word

    # ---- symbols

    def declare(self, table: Symbols, hints: Mapping[str, int]) -> tuple[set[Symbol], set[Symbol]]:
        """Declares the symbols in a graph's table and gives every tensor its shape.

        Args:
            table: where.
            hints: the size to run at by the symbol's name; the example's own by default.

        Returns:
            Every declared symbol, and those of them that may become a number.
        """
        declared: dict[str, Symbol] = {}
        auto: set[Symbol] = set()
        derived: list[tuple[Leaf, int, Any]] = []
        for leaf in self.leaves:
            shape: list[Dim] = list(leaf.tensor.shape)
            for axis, word in sorted(leaf.axes.items()):
                size = int(leaf.tensor.shape[axis])
                request = _request(word, f"{leaf.name}_{axis}", size, f"dim {axis} of {leaf.name}")
                if request is None:
                    continue
                if isinstance(request, _Derived):
                    derived.append((leaf, axis, request))
                    continue
                name, lo, hi, may_fix = request
                least = getattr(word, "min", None)
                if least == 0 or (least is None and hasattr(word, "type")):
                    self.unbounded[name] = least == 0 and hasattr(word, "type")
                symbol = declared.get(name)
                if symbol is None:
                    symbol = declared[name] = table.declare(name, lo, hi, hints.get(name, size))
                    if may_fix:
                        auto.add(symbol)
                elif symbol.hint != hints.get(name, size):
                    raise UsageError(
                        f"the dynamic size {name} is {symbol.hint} elsewhere and {size} in dim {axis} of {leaf.name}",
                        remedy="give the dims different names, or examples of the same size",
                    )
                if not lo <= size <= hi:
                    raise UsageError(
                        f"dim {axis} of {leaf.name} is {size}, outside the range of {name}", expected=f"{lo} to {hi}"
                    )
                shape[axis] = symbol.dim
            leaf.shape = tuple(shape)
        for leaf, axis, request in derived:
            self._derive(table, hints, declared, leaf, axis, request)
        return set(declared.values()), auto

    def _derive(
        self, table: Symbols, hints: Mapping[str, int], declared: dict[str, Symbol], leaf: Leaf, axis: int, request: _Derived,
    ) -> None:  # fmt: skip
        """A size that is a linear function of another one, such as ``2 * batch``."""
        size = int(leaf.tensor.shape[axis])
        root = declared.get(request.name)
        if root is not None:
            expected = dims.evaluate(request.of(root.dim), {root: root.hint or 1})
            if request.name not in hints and expected != size:
                raise UsageError(f"dim {axis} of {leaf.name} is {size}", expected=f"{request} = {expected}")
            dim = request.of(root.dim)
        else:
            # Nothing binds the root: the size itself is the symbol, and the root is computed from it.
            offset, factor = dims.evaluate(request.of(0), {}), dims.evaluate(request.of(1) - request.of(0), {})
            if (size - offset) % factor:
                raise UsageError(f"dim {axis} of {leaf.name} is {size}", expected=f"{request} for an integer {request.name}")
            name = f"{leaf.name}_{axis}"
            lo, hi = (INF if end == INF else dims.evaluate(request.of(int(end)), {}) for end in (request.lo, request.hi))
            symbol = declared[name] = table.declare(name, lo, hi, hints.get(name, size))
            root = declared[request.name] = table.declare(request.name, request.lo, request.hi, (size - offset) // factor)
            root.joined = dims.floordiv(symbol.dim - offset, factor)
            if factor != 1:
                table.assume("==", dims.mod(symbol.dim - offset, factor), 0)
            dim = symbol.dim
        leaf.shape = (*leaf.shape[:axis], dim, *leaf.shape[axis + 1 :])

    def first_hints(self) -> dict[str, int]:
        """Sizes to run at that tell the symbols apart from each other, from 0 and 1, and from the sizes that are fixed."""
        table = Symbols()
        declared, _ = self.declare(table, {})
        fixed = {dim for leaf in self.leaves for dim in leaf.shape if isinstance(dim, int)}
        taken: set[int] = {0, 1} | fixed
        hints = {}
        for symbol in sorted(declared, key=lambda s: list(table.by_name).index(s.name)):
            if symbol.joined is not None or any(len(list(symbols(a.left))) for a in table.assumptions):
                continue
            size = symbol.hint or 0
            # Multiples of the example's size first: it may have to be a multiple of something.
            for candidate in (size, size * 2, size * 3, size * 4, *range(size + 1, size + 64)):
                if candidate not in taken and symbol.lo <= candidate <= symbol.hi:
                    hints[symbol.name] = candidate
                    taken.add(candidate)
                    break
        return hints

    def ranges(self) -> dict[str, tuple[float, float]]:
        """The range that each size was declared with, by the symbol's name."""
        return {symbol.name: (symbol.lo, symbol.hi) for symbol in self.declare(Symbols(), {})[0]}

    # ---- calls

    def check_apart(self, written: Sequence[str]) -> None:
        """Raises CaptureError where an input that the model writes to shares its memory with another one."""
        places: dict[Any, str] = {}
        for leaf in sorted(self.leaves, key=lambda leaf: leaf.name not in written):
            place = leaf.tensor.untyped_storage().data_ptr() or id(leaf)
            other = places.setdefault(place, leaf.name)
            if other is not leaf.name and other in written:
                raise CaptureError(
                    f"the model writes to the input {other}, which shares its memory with the input {leaf.name}",
                    remedy=f"give {leaf.name}.clone(), or write out of place",
                )

    def types(self) -> list[Tensor]:
        """The types of the graph's inputs, after `declare`."""
        return [Tensor(dtype_of(leaf.tensor.dtype), leaf.shape) for leaf in self.leaves]

    def rebuild(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other tensors, one a leaf."""
        given = iter(tensors)
        args, kwargs = containers.unflatten([next(given) if isinstance(item, Leaf) else item for item in self.flat], self.spec)
        return args, kwargs

    def arrays(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Array]:
        """The content of the graph's inputs, from a call.

        Raises:
            UsageError: the call has other arguments or another structure than the example, in whatever order names are.
        """
        leaves = flat_call(self.call, (tuple(args), dict(kwargs)), (self.args, self.kwargs), flatten)
        found = []
        for item, known in zip(leaves, self.flat, strict=True):
            if not isinstance(known, Leaf):
                if not alike(item, known):
                    raise UsageError(
                        "an argument that is no tensor differs from the example's", expected=outline(known), found=outline(item)
                    )
                continue
            if isinstance(item, (np.ndarray, np.generic)):
                found.append(np.asarray(item))
            elif isinstance(item, torch.Tensor):
                if item.is_meta:
                    raise UsageError(f"the input {known.name} has no data: it is on the meta device")
                check_plain(known.name, item)
                found.append(contents(item))
            else:
                raise UsageError(f"the input {known.name} must be a tensor", found=outline(item))
        return found

    def fresh(self, seed: int, sizes: Mapping[str, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """New arguments: floats from a normal distribution, integers and bools from the examples' range."""
        generator = torch.Generator().manual_seed(seed)
        tensors = []
        for leaf in self.leaves:
            shape = [
                dims.evaluate(dim, {s: sizes.get(s.name, s.hint or 1) for s in symbols(dim)})
                for dim in map(dims.resolve, leaf.shape)
            ]
            tensors.append(_draw(leaf, shape, generator))
        return self.rebuild(tensors)


def _draw(leaf: Leaf, shape: list[int], generator: torch.Generator) -> torch.Tensor:
    dtype, device = leaf.tensor.dtype, leaf.tensor.device
    if leaf.assumed is not None:
        return torch.full(shape, leaf.assumed, dtype=dtype, device=device)
    if dtype is torch.bool:
        return (torch.rand(shape, generator=generator) < 0.5).to(device)
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.float64 if dtype is torch.float64 else torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, generator=generator, dtype=wide).to(device, dtype)
    if leaf.low == leaf.high:  # nothing is known about other values
        return torch.full(shape, leaf.low, dtype=dtype, device=device)
    return torch.randint(leaf.low, leaf.high + 1, shape, generator=generator).to(device, dtype)


def _arguments(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Arguments by the name of their parameter, in order; ``*args`` as one tuple, ``**kwargs`` one by one."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return [*((f"input_{index}", item) for index, item in enumerate(args)), *kwargs.items()]
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"the example inputs do not fit the model: {error}", expected=f"forward{signature}") from None
    found = []
    for name, item in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found += list(item.items())
        else:
            found.append((name, item))
    return found


def _walk(path: str, item: Any) -> Iterator[tuple[str, Any]]:
    """Every tensor in an argument with its path in words."""
    if is_leaf(item):
        yield path, item
    else:
        for key, part in (containers.parts(item) or {}).items():
            yield from _walk(f"{path}_{key}", part)


class _Derived:
    """A size that is a function of the size `name`."""

    def __init__(self, name: str, lo: float, hi: float, of: Callable[[Dim], Dim], text: str) -> None:
        self.name, self.lo, self.hi, self.of, self.text = name, lo, hi, of, text

    def __str__(self) -> str:
        return self.text


_UNBOUNDED: Final = 2**62


def _request(word: Any, fallback: str, size: int, where: str) -> tuple[str, float, float, bool] | _Derived | None:
    """What the user asks for one axis: name, range and whether it may become a number; None for a static size."""
    if word is None:
        return None
    if isinstance(word, str):
        if not word.isidentifier():
            raise UsageError(f"{word!r}, given for {where}, is not a name")
        return word, 1, INF, False
    if isinstance(word, bool):
        raise UsageError(f"{where} is neither a name, a Dim nor a size", found=repr(word))
    if isinstance(word, int):
        if word != size:
            raise UsageError(f"{where} is declared to be {word}, but is {size} in the example")
        return None
    if isinstance(word, Expr):
        symbol = word.symbol
        if symbol is not None:
            return symbol.name, symbol.lo, symbol.hi, False
        roots = list(dict.fromkeys(symbols(word)))
        if len(roots) != 1:
            raise UsageError(f"{where} is {word}, which uses more than one name")
        root = roots[0]
        return _Derived(root.name, root.lo, root.hi, lambda dim: dims.substitute(word, {root: dim}), str(word))
    kind = getattr(getattr(word, "type", None), "name", None)
    if kind is not None:  # Dim.AUTO and its kind
        lo = 1 if getattr(word, "min", None) is None else word.min
        hi = INF if getattr(word, "max", None) is None else word.max
        return None if kind == "STATIC" else (fallback, lo, hi, kind == "AUTO")
    root_dim = getattr(word, "root", None)
    if root_dim is not None:  # 2 * Dim("n") + 1
        return _Derived(root_dim.__name__, *_range(root_dim), word.fn, word.__name__)
    if isinstance(word, torch.export.Dim):
        return word.__name__, *_range(word), False
    raise UsageError(f"{where} is neither a name, a Dim nor a size", found=repr(word))


def _range(dim: Any) -> tuple[float, float]:
    hi = getattr(dim, "max", None)
    return max(1, int(getattr(dim, "min", 1) or 1)), INF if hi is None or hi >= _UNBOUNDED else int(hi)
