"""Builtins that make numbers of sizes without need: other forms of them in the user's files, while a model is watched."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, Final

import torch

from isthmus.frontends.torch.provenance import library
from isthmus.frontends.torch.tensors import Watched

SYMBOLIC: Final = (torch.SymInt, torch.SymFloat)
"""What stands for a number that is computed of sizes."""


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
        files: further files, by their global names; in these ``int``, ``float`` and ``range`` leave sizes as they are, too.
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


# ---- the forms


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
    return torch.sym_int(x) if x.__class__ in SYMBOLIC and not more else int(x, *more, **kwargs)


def _real(x: Any = 0.0, /) -> Any:
    """``float``, which makes a number of a size."""
    return torch.sym_float(x) if x.__class__ in SYMBOLIC else float(x)


def _range(*bounds: Any) -> Any:
    """``range``, of sizes where it is known how many there are: ``range(0, n, n)``, ``range(n, n + 3)``."""
    if not any(bound.__class__ is torch.SymInt for bound in bounds) or len(bounds) > 3:
        return range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    hints = [bound.node.hint if bound.__class__ is torch.SymInt else bound for bound in (start, stop, step)]
    count = len(range(*hints)) if all(hint.__class__ is int for hint in hints) and hints[2] > 0 else 0
    span = stop - start
    sure = count and surely(span > (count - 1) * step) and surely(span <= count * step)
    return [start + turn * step for turn in range(count)] if sure else range(*bounds)


def surely(truth: Any) -> bool:
    """Whether a relation of sizes holds for all of them."""
    return bool(truth.node.statically_known_true() if truth.__class__ is torch.SymBool else truth)


_PLAIN: Final[dict[type, type]] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool, Watched: torch.Tensor}
"""What sizes and tensors would be where a model runs plainly."""
_SHADOWS: Final = {
    "len": _length, "isinstance": _is_instance, "type": _type,
    "min": _extreme(min, torch.sym_min), "max": _extreme(max, torch.sym_max),
}  # fmt: skip
_CLASSES: Final[dict[Any, type]] = {_type: type, _integer: int, _real: float, _range: range}
"""What other forms of classes stand for."""
_CALLED: Final = {"int": _integer, "float": _real, "range": _range}
"""Forms of classes for files that only call them, for they are none."""


# ---- where they may stand


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


def _called(names: dict[str, Any]) -> dict[str, Any]:
    """Those of `_CALLED` that a file may have, by its global names."""
    file = str(names.get("__file__", ""))
    return {name: form for name, form in _CALLED.items() if _only_called(file, name)}
