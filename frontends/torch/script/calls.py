"""Calls of scripted functions and methods, which come here while a model is watched."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import _pop_mode_temporarily

from isthmus.frontends.torch.script import branches, containers, functions, loops, numbers, tensors
from isthmus.frontends.torch.script.interpreter import Interpreter
from isthmus.ir.errors import UsageError
from isthmus.ir.graph import Value

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher

SCRIPTED: Final = (torch.jit.ScriptModule, torch._C.ScriptFunction, torch._C.ScriptMethod)
"""Scripted, traced and frozen models."""
TABLES: Final = (branches, containers, functions, loops, numbers, tensors)
"""Where the interpreter's ops and nodes are."""


def swaps(watcher: Watcher) -> list[tuple[Any, str, Any]]:
    """What is to be swapped in torch while a model is watched: owner, name, and what is put there."""

    def interpreter() -> Interpreter:
        if watcher.script is None:
            watcher.script = Interpreter(watcher)
        found: Interpreter = watcher.script
        return found

    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _call(interpreter(), self, _bound(self.schema, (), args, kwargs))

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        i = interpreter()
        module = i.module(self.owner, watcher.provenance.path[-1])
        return _call(i, self, _bound(self.schema, (module,), args, kwargs))

    return [(torch._C.ScriptFunction, "__call__", function), (torch._C.ScriptMethod, "__call__", method)]


def _call(i: Interpreter, scripted: Any, arguments: Sequence[Any]) -> Any:
    """The result of a function or method, for Python."""
    with _pop_mode_temporarily():  # the interpreter hands ops to the watcher by itself
        found = i.run(scripted.graph, arguments, scripted.name)
    return found[0] if len(found) == 1 else tuple(found) if found else None


def _bound(schema: Any, first: tuple[Any, ...], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments in the schema's order, with its defaults.

    Raises:
        TypeError: one is missing, or there are too many.
    """
    given = [*first, *args]
    if len(given) > len(schema.arguments):
        raise TypeError(f"{schema.name}() takes {len(schema.arguments)} arguments, {len(given)} were given")
    rest = dict(kwargs)
    for argument in schema.arguments[len(given) :]:
        if argument.name in rest:
            given.append(rest.pop(argument.name))
        elif argument.has_default_value():
            given.append(argument.default_value)
        else:
            raise TypeError(f"{schema.name}() misses the argument {argument.name}")
    if rest:
        raise TypeError(f"{schema.name}() has no argument {', '.join(rest)}")
    return given


@contextmanager
def untouched(modules: Iterable[tuple[str, torch.nn.Module]]) -> Iterator[None]:
    """Puts back the attributes of the scripted ones among modules."""
    saved = []
    for _, module in modules:
        if isinstance(module, torch.jit.ScriptModule):
            handle = module._c
            kinds = torch._C.ConcreteModuleType.from_jit_type(handle._type())
            held = [*module._parameters.items(), *module._buffers.items(), *kinds.get_attributes().items()]
            saved += [(handle, name, handle.getattr(name)) for name in dict(held) if handle.hasattr(name)]
    try:
        yield
    finally:
        for handle, name, value in saved:
            handle.setattr(name, value)


def kept(watcher: Watcher, buffers: Container[str]) -> dict[str, Value]:
    """The last value of each buffer that a scripted module has replaced; other attributes that it has set are noted.

    What scripts hold is let go of.
    """
    found = {}
    for name, (module, key) in watcher.kept.items():
        held = module.items[key]
        if isinstance(held, torch.Tensor) and name in buffers:
            found[name] = watcher.value(held)
        else:
            watcher.notes.append(f"the model sets its attribute {name}; the graph does not keep it")
    watcher.script, watcher.kept = None, {}
    return found


def signature(scripted: Any) -> Callable[..., Any]:
    """A function whose parameters are those of a scripted function, method or module.

    Raises:
        UsageError: the module has no forward.
    """
    if isinstance(scripted, torch.jit.ScriptModule):
        if not hasattr(scripted, "forward"):
            raise UsageError("the scripted module has no forward", remedy="give one of its methods")
        scripted = scripted.forward
    own = not isinstance(scripted, torch._C.ScriptFunction)  # the module itself
    parameters = [
        inspect.Parameter(
            argument.name if argument.name.isidentifier() else f"input_{number}", inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=argument.default_value if argument.has_default_value() else inspect.Parameter.empty,
        )
        for number, argument in enumerate(scripted.schema.arguments[own:])
    ]  # fmt: skip

    def call(*args: Any, **kwargs: Any) -> Any:
        return scripted(*args, **kwargs)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call
