"""Functions of Python, numpy and torch that make numbers of sizes without need: carried over while a model is watched."""

from __future__ import annotations

import ast
import functools
import linecache
import math
import os
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, Final

import numpy as np
import torch

from isthmus.frontends.torch.provenance import library
from isthmus.frontends.torch.size_nodes import SizeNode
from isthmus.frontends.torch.tensors import Watched
from isthmus.ir.dims import resolve, symbols

_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat)


def swaps() -> list[tuple[Any, str, Any]]:
    """The owner, the name and the new form of each."""
    return [
        (math, "sqrt", _root(math.sqrt)),
        (torch.SymInt, "sqrt", torch.sym_sqrt),  # what numpy calls for objects
        (torch.SymInt, "__divmod__", lambda self, other: (self // other, self % other)),
        (torch.SymInt, "__rdivmod__", lambda self, other: (other // self, other % self)),
        (torch.SymInt, "__hash__", _hash(torch.SymInt.__hash__)),
        (torch.SymInt, "__invert__", lambda self: -1 - self),
        (torch, "full", _full(torch.full, ["size"], lambda size: (size, None))),
        (torch, "full_like", _full(torch.full_like, ["input"], lambda like: (like.shape, like.dtype))),
        (torch.Tensor, "new_full", _full(torch.Tensor.new_full, ["self", "size"], lambda like, size: (size, like.dtype))),
        (torch, "broadcast_shapes", _broadcast_shapes(torch.broadcast_shapes)),
        (torch.fft, "fftfreq", _frequencies(torch.fft.fftfreq, lambda n: (torch.arange(n) + n // 2) % n - n // 2)),
        (torch.fft, "rfftfreq", _frequencies(torch.fft.rfftfreq, lambda n: torch.arange(n // 2 + 1))),
    ]


def _extreme(original: Callable[..., Any], symbolic: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """``min`` or ``max``, which would branch on the sizes among their arguments."""

    def extreme(*args: Any, **kwargs: Any) -> Any:
        if kwargs or not args:
            return original(*args, **kwargs)
        items: Iterable[Any] = args
        if len(args) == 1:
            if isinstance(args[0], Iterator):
                args = (list(args[0]),)
            elif not isinstance(args[0], (list, tuple)):
                return original(*args)
            items = args[0]
        sizes = False
        for item in items:
            if item.__class__ is torch.SymInt:
                sizes = True
            elif item.__class__ is not int:
                return original(*args)
        return functools.reduce(symbolic, items) if sizes else original(*args)

    return extreme


def _root(original: Callable[[Any], float]) -> Callable[[Any], Any]:
    def sqrt(x: Any, /) -> Any:
        return torch.sym_sqrt(x) if x.__class__ in _SYMBOLIC else original(x)

    return sqrt


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


class Again(BaseException):
    """The model is to be watched again, with other forms of Python's functions in one more file.

    Attributes:
        names: the file's global names.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__()
        self.names = names


def look_again(frame: FrameType | None, text: str) -> None:
    """For a question about sizes that a function of Python's asks, which would not ask in its other form.

    Args:
        frame: the user's code that calls it.
        text: the call.

    Raises:
        Again: the file does not have the other forms yet.
    """
    name = text.partition("(")[0]
    if frame is not None and name not in frame.f_globals and (name in _SHADOWS or name in _called(frame.f_globals)):
        raise Again(frame.f_globals)


@contextmanager
def shadowed(functions: Iterable[Any], files: Iterable[dict[str, Any]] = ()) -> Iterator[None]:
    """Other forms of some of Python's functions, for a while, in the user's files.

    These are all that are not installed, and all of the packages that some functions are from.

    ``len``, ``min`` and ``max`` give sizes; sizes are ints, and watched tensors plain ones, for ``isinstance`` and ``type``.
    Torch's own files call these too often to have others, tell sizes from ints, and may want an int.

    Args:
        functions: functions of the user's.
        files: further files, by their global names; in these ``int`` and ``range`` leave sizes as they are, too.
    """
    files, places = list(files), []
    every = [function for function in functions if (code := getattr(function, "__code__", None)) and not library(code)]
    packages = frozenset(function.__module__.partition(".")[0] for function in every if function.__module__)
    last = next(reversed(sys.modules))
    of_packages = _files(packages, (len(sys.modules), last, id(sys.modules[last])))
    wanted = [(names, _SHADOWS) for names in (*(function.__globals__ for function in every), *of_packages, *files)]
    for names, shadows in (*wanted, *((names, _called(names)) for names in files)):
        for name, shadow in shadows.items():
            if name not in names:
                names[name] = shadow
                places.append((names, name))
    try:
        yield
    finally:
        for names, name in places:
            del names[name]


@functools.lru_cache(16)
def _files(packages: Collection[str], loaded: tuple[Any, ...]) -> list[dict[str, Any]]:
    """The global names of the modules of some packages, and of those that are not installed.

    Args:
        packages: the packages.
        loaded: changes when a module is loaded.
    """
    found = []
    for name, module in list(sys.modules.items()):
        package = name.partition(".")[0]
        if package in _LEFT or not isinstance(module, ModuleType):
            continue
        file = vars(module).get("__file__")
        if isinstance(file, str) and file.endswith(".py") and (package in packages or not file.startswith(_INSTALLED)):
            found.append(vars(module))
    return found


_LEFT: Final = frozenset((*sys.stdlib_module_names, "torch", "numpy", "isthmus"))
_INSTALLED: Final = tuple(sysconfig.get_paths()[each] + os.sep for each in ("stdlib", "purelib", "platlib"))


def _length(x: Any, /) -> Any:
    """``len``, which makes an int of what `__len__` returns."""
    return x.shape[0] if x.__class__ is Watched and x.dim() else len(x)


def _is_instance(x: Any, kinds: Any, /) -> bool:
    if not isinstance(kinds, tuple):
        kinds = _CLASSES.get(kinds, kinds)
    elif not _CLASSES.keys().isdisjoint(kinds):
        kinds = tuple(_CLASSES.get(kind, kind) for kind in kinds)
    plain = _PLAIN.get(x.__class__)
    return isinstance(x, kinds) or (plain is not None and issubclass(plain, kinds))


def _type(x: Any, /, *more: Any, **kwargs: Any) -> Any:
    """``type``, for a new class too."""
    return type(x, *more, **kwargs) if more else _PLAIN.get(x.__class__) or type(x)


def _integer(x: Any = 0, /, *more: Any, **kwargs: Any) -> Any:
    """``int``, of which only an int can come: a size is one, and of a ratio of sizes it is the part before the point."""
    return torch.sym_int(x) if x.__class__ in _SYMBOLIC and not more else int(x, *more, **kwargs)


def _range(*bounds: Any) -> Any:
    """``range``, of sizes where it is known how many there are: ``range(0, n, n)``, ``range(n, n + 3)``."""
    if not any(bound.__class__ is torch.SymInt for bound in bounds) or len(bounds) > 3:
        return range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    hints = [bound.node.hint if bound.__class__ is torch.SymInt else bound for bound in (start, stop, step)]
    count = len(range(*hints)) if all(hint.__class__ is int for hint in hints) and hints[2] > 0 else 0
    span = stop - start
    sure = count and _surely(span > (count - 1) * step) and _surely(span <= count * step)
    return [start + turn * step for turn in range(count)] if sure else range(*bounds)


def _surely(truth: Any) -> bool:
    """Whether a relation of sizes holds for all of them."""
    return bool(truth.node.statically_known_true() if truth.__class__ is torch.SymBool else truth)


@functools.lru_cache(64)
def _only_called(file: str, name: str) -> bool:
    """Whether a file does no more with the name of a class than to call it, to ask ``isinstance`` and to annotate."""
    lines = linecache.getlines(file)
    return bool(lines) and _harmless(ast.parse("".join(lines)), name)


def _harmless(tree: ast.AST, name: str) -> bool:
    """The same of a file's syntax tree. Annotations inside of a function are evaluated while it runs, so that they count."""
    stack = [(tree, False)]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.Name) and node.id == name:
            return False
        left: list[ast.AST | None] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            place = {"isinstance": 1, "map": 0}.get(node.func.id, len(node.args))
            left = [node.func, *(arg for arg in node.args[place : place + 1] if isinstance(arg, (ast.Name, ast.Tuple)))]
        elif isinstance(node, ast.AnnAssign) or (isinstance(node, ast.arg) and not inside):
            left = [node.annotation]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not inside:
            left = [node.returns, node.args]
            stack.append((node.args, inside))
            inside = True
        stack += [(child, inside) for child in ast.iter_child_nodes(node) if child not in left]
    return True


_PLAIN: Final[dict[type, type]] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool, Watched: torch.Tensor}
"""What sizes and tensors would be where a model runs plainly."""
_SHADOWS: Final = {
    "len": _length, "isinstance": _is_instance, "type": _type,
    "min": _extreme(min, torch.sym_min), "max": _extreme(max, torch.sym_max),
}  # fmt: skip
_CLASSES: Final[dict[Any, type]] = {_type: type, _integer: int, _range: range}
"""What other forms of classes stand for."""
_CALLED: Final = {"int": _integer, "range": _range}
"""Forms of classes for files that only call them, for they are none."""


def _called(names: dict[str, Any]) -> dict[str, Any]:
    """Those of `_CALLED` that a file may have, by its global names."""
    file = str(names.get("__file__", ""))
    return {name: form for name, form in _CALLED.items() if _only_called(file, name)}


def unpacked(array: Any) -> tuple[Any, torch.dtype | None]:
    """An array of numpy that holds sizes as nested lists, with the dtype that it would have; other things as they are."""
    if not isinstance(array, np.ndarray) or array.dtype != object:
        return array, None
    if not any(item.__class__ in _SYMBOLIC for item in array.flat):
        return array, None
    floats = any(isinstance(item, (float, torch.SymFloat)) for item in array.flat)
    return array.tolist(), torch.float64 if floats else torch.int64
