"""What can be captured: modules, functions, exported programs and fx graphs, seen as one callable with named weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """

    call: Callable[..., Any]
    signature: Callable[..., Any]
    module: torch.nn.Module | None
    modules: list[tuple[str, torch.nn.Module]]
    dynamic_shapes: Any = None

    def names(self, wanted: Sequence[str]) -> dict[int, str]:
        """The name of each parameter and buffer by its id; the first ones in the state dict's order may be given.

        Raises:
            UsageError: there are more names than parameters.
        """
        if self.module is None:
            if wanted:
                raise UsageError(
                    "there are more input_names than inputs; further ones name parameters, which a function has not",
                    found=f"{', '.join(wanted)} left over",
                )
            return {}
        found: dict[int, str] = {}
        for registry in ("_parameters", "_buffers"):
            for path, module in self.modules:
                for name, tensor in getattr(module, registry).items():  # one that is None is never met
                    found.setdefault(id(tensor), f"{path}.{name}" if path else name)
        if wanted:
            order = [tensor for tensor in self.module.state_dict(keep_vars=True).values() if isinstance(tensor, torch.Tensor)]
            if len(wanted) > len(order):
                raise UsageError(
                    f"{len(wanted)} input_names are left for the {len(order)} parameters and buffers of the model",
                    found=f"{', '.join(wanted)} left over",
                )
            found.update((id(tensor), name) for tensor, name in zip(order, wanted, strict=False))
        return found


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
        return Source(model, model.forward, model, list(model.named_modules()))
    if not callable(model):
        raise UsageError("the model cannot be called", expected="a module, a function or an ExportedProgram", found=repr(model))
    module = getattr(model, "__self__", None)
    if isinstance(module, torch.nn.Module):
        return Source(model, model, module, list(module.named_modules()))
    return Source(model, model, None, [])


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
