"""What can be captured: modules, functions, exported programs and fx graphs, seen as one callable with named weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, ModuleType
from typing import Any

import torch

from isthmus.frontends.torch import script
from isthmus.ir.errors import UsageError


@dataclass
class Source:
    """A model to watch.

    Attributes:
        call: runs it.
        signature: the function whose parameters name its arguments.
        module: the module that holds its weights; None for a plain function.
        modules: every module of the model by its path.
        dynamic_shapes: the dynamic sizes that it brings along, in the form of `Inputs`; None for none.
        owner: the object that is no module, and whose attributes it may set; None for none.
    """

    call: Callable[..., Any]
    signature: Callable[..., Any]
    module: torch.nn.Module | None
    modules: list[tuple[str, torch.nn.Module]]
    dynamic_shapes: Any = None
    owner: Any = None

    @property
    def stateful(self) -> list[Any]:
        """What holds attributes that running the model may change."""
        return [*(module for _, module in self.modules), *([] if self.owner is None else [self.owner])]

    def names(self, wanted: Sequence[str]) -> dict[int, str]:
        """The name of each parameter and buffer by its id; the first ones in the state dict's order may be given.

        Raises:
            UsageError: there are more names than parameters.
        """
        if self.module is None and wanted:
            raise UsageError(
                "there are more input_names than inputs; further ones name parameters, which a function has not",
                found=f"{', '.join(wanted)} left over",
            )
        found = self._by_id()
        if self.module is not None and wanted:
            order = [tensor for tensor in self.module.state_dict(keep_vars=True).values() if isinstance(tensor, torch.Tensor)]
            if len(wanted) > len(order):
                raise UsageError(
                    f"{len(wanted)} input_names are left for the {len(order)} parameters and buffers of the model",
                    found=f"{', '.join(wanted)} left over",
                )
            found.update((id(tensor), name) for tensor, name in zip(order, wanted, strict=False))
        return found


    def _by_id(self) -> dict[int, str]:
        """The path of each parameter and buffer by its id.

        Raises:
            UsageError: one has no shape yet.
        """
        found: dict[int, str] = {}
        for kind in ("_parameters", "_buffers"):
            for path, module in self.modules:
                for name, tensor in getattr(module, kind).items():  # one that is None is never met
                    place = f"{path}.{name}" if path else name
                    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
                        what = f"the model has parameters without a shape: {place}"
                        raise UsageError(what, remedy="run it once, so that it makes them")
                    found.setdefault(id(tensor), place)
        return found

    def copied(self, written: Collection[str], wanted: Sequence[str]) -> dict[str, tuple[dict[str, Any], str]]:
        """Puts copies in the place of parameters and buffers, where they stand until something puts them back.

        Args:
            written: their names.
            wanted: the names that were given for some.

        Returns:
            Where each stands: a module's registry and its key there.
        """
        places: dict[str, tuple[dict[str, Any], str]] = {}
        copies: dict[int, torch.Tensor] = {}
        if not written:
            return places
        names = self.names(wanted)
        for path, module in self.modules:
            for registry in (module._parameters, module._buffers):
                for key, tensor in registry.items():
                    own = f"{path}.{key}" if path else key
                    name = own if own in written else names.get(id(tensor))
                    if tensor is None or name is None or name not in written:
                        continue
                    if id(tensor) not in copies:
                        copy = tensor.detach().clone()
                        copies[id(tensor)] = torch.nn.Parameter(copy, False) if registry is module._parameters else copy
                    registry[key] = copies[id(tensor)]
                    places.setdefault(name, (registry, key))
        return places


def source_of(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Source:
    """A model of any kind as something to watch.

    Raises:
        UsageError: it cannot be called.
    """
    if isinstance(model, torch.export.ExportedProgram):
        return _exported(model)
    if isinstance(model, script.SCRIPTED):
        modules = list(model.named_modules()) if isinstance(model, torch.nn.Module) else []
        return Source(model, script.signature(model), model if modules else None, modules)
    if isinstance(model, torch.nn.Module):
        plain = getattr(model, "_orig_mod", model)  # what torch.compile made of a module has the names of that
        forward = _forward(plain)
        # Hooks may change the arguments on their way to `forward`.
        hooked = bool(model._forward_pre_hooks) and not _fits(forward, args, kwargs)
        modules = [*plain.named_modules(), *([] if plain is model else [("", model)])]
        return Source(model, _anything if hooked else forward, plain, modules)
    if not callable(model):
        raise UsageError("the model cannot be called", expected="a module, a function or an ExportedProgram", found=repr(model))
    inner = model.func if isinstance(model, partial) else model
    module = inner if isinstance(inner, torch.nn.Module) else getattr(inner, "__self__", None)
    if isinstance(module, torch.nn.Module):
        signature = partial(_forward(inner), *model.args, **model.keywords) if inner is module else model
        return Source(model, signature, module, list(module.named_modules()))
    found: dict[int, tuple[str, torch.nn.Module]] = {}
    for name, held in _held(model):
        for path, part in (*getattr(held, "_orig_mod", held).named_modules(prefix=name), (name, held)):
            found.setdefault(id(part), (path, part))
    return Source(model, model, None, list(found.values()), owner=_owner(model))


def _forward(module: torch.nn.Module) -> Callable[..., Any]:
    """The function whose parameters a module takes."""
    return _forward(module.module) if isinstance(module, torch.nn.DataParallel) else module.forward


def _fits(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _anything(*args: Any, **kwargs: Any) -> Any:
    """Stands for the parameters of what takes any arguments."""


def _held(model: Any, seen: tuple[Any, ...] = ()) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that a function, or another object that can be called, reaches under a name of its own."""
    if isinstance(model, partial):
        yield from _held(model.func, seen)
        yield from _modules([*enumerate(model.args), *model.keywords.items()])
        return
    function = getattr(model, "__func__", model if inspect.isroutine(model) else type(model).__call__)
    yield from _modules(getattr(_owner(model), "__dict__", {}).items())
    if isinstance(function, FunctionType):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        closed = {name: contents for name, cell in cells for contents in _contents(cell)}
        names = {name: function.__globals__.get(name) for name in function.__code__.co_names}
        yield from _modules([*closed.items(), *names.items()])
        for wrapped in closed.values():
            if isinstance(wrapped, (FunctionType, partial)) and not any(wrapped is each for each in (*seen, function)):
                yield from _held(wrapped, (*seen, function))


def _owner(model: Any) -> Any:
    """The object that a method is of, or that can be called itself."""
    if isinstance(model, partial):
        return _owner(model.func)
    owner = getattr(model, "__self__", None if inspect.isroutine(model) else model)
    # A builtin is of its module; a class is no object that a model would write to.
    return owner if hasattr(owner, "__dict__") and not isinstance(owner, (ModuleType, type)) else None


def _contents(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # it has none yet
        return []


def _modules(named: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules among some values, and in the lists and dicts among these."""
    for name, item in named:
        if isinstance(item, torch.nn.Module):
            yield str(name), item
        elif isinstance(item, (list, tuple, dict)):
            parts = item.items() if isinstance(item, dict) else enumerate(item)
            yield from ((f"{name}.{key}", part) for key, part in parts if isinstance(part, torch.nn.Module))
        elif isinstance(owner := getattr(item, "__self__", None), torch.nn.Module):
            yield str(name), owner


def _exported(program: torch.export.ExportedProgram) -> Source:
    """An exported program, with the sizes that it was exported with as dynamic ones."""
    module = program.module()
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    shapes: dict[str, dict[int, Any]] = {}
    for name in program.graph_signature.user_inputs:
        value = placeholders[name].meta.get("val") if isinstance(name, str) and name in placeholders else None
        if isinstance(value, torch.Tensor):
            shapes[name] = {
                axis: word
                for axis, size in enumerate(value.shape)
                if (word := _word(size, program.range_constraints)) is not None
            }
    return Source(module, module.forward, module, list(module.named_modules()), shapes or None)


def _word(size: Any, ranges: Mapping[Any, Any]) -> Any:
    """A size of an exported program's input as a `torch.export.Dim`; None for a fixed one."""
    if not isinstance(size, torch.SymInt):
        return None
    expression = size.node.expr
    if len(expression.free_symbols) != 1:
        return None
    (symbol,) = expression.free_symbols
    found = ranges.get(symbol)
    least, greatest = (1, None) if found is None else (int(found.lower), int(found.upper) if found.upper.is_Integer else None)
    dim = torch.export.Dim(str(symbol), min=max(1, least), max=greatest)
    if expression == symbol:
        return dim
    factor = expression.coeff(symbol)
    offset = expression - factor * symbol
    if not (factor.is_integer and offset.is_integer and offset.is_number):
        return None
    scaled = dim if factor == 1 else int(factor) * dim
    return scaled if offset == 0 else scaled + int(offset)
