"""Finds a model by the words of the command line: ``package.module:callable`` or ``file.py:callable``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from isthmus.ir.errors import CaptureError, FileError, UnavailableError, UsageError
from isthmus.ir.location import Location

SEED = 0
"""What weights are drawn with where none are loaded, so that two runs build the same model."""


def build(
    reference: str, kwargs: Mapping[str, Any] | None = None, weights: str | None = None, meta: bool = False,
) -> Any:  # fmt: skip
    """The model, in evaluation mode.

    Args:
        reference: ``module:name`` or ``file.py:name``; a class or function is called (after seeding torch with
            `SEED`), anything else is taken as the model itself.
        kwargs: what to call it with.
        weights: a ``.safetensors`` file, or a ``.pt`` file with a state dict; neither is unpickled.
        meta: make it on torch's meta device, without content.

    Raises:
        UsageError: there is no such module, file or name, or it takes other arguments.
        CaptureError: the module's or file's code, or the call, raised.
        FileError: the weights cannot be read or do not fit.
    """
    import torch

    torch.manual_seed(SEED)  # a module may make its model when it is imported
    made = _find(reference)
    if not isinstance(made, torch.nn.Module):
        if not callable(made):
            raise UsageError(f"{reference} is neither a model nor something that makes one", found=repr(type(made)))
        torch.manual_seed(SEED)
        _check_call(reference, made, kwargs or {})
        try:
            with torch.device("meta") if meta else nullcontext():
                made = made(**(kwargs or {}))
        except Exception as error:  # the user's code may raise anything
            raise _raised(reference, error) from error
    if not isinstance(made, torch.nn.Module):
        raise UsageError(f"{reference} makes no model", expected="a torch.nn.Module", found=repr(type(made)))
    if weights is not None:
        load_weights(made, Path(weights))
    return made.eval()


def _find(reference: str) -> Any:
    home, colon, name = reference.rpartition(":")
    if not colon or not home or not name:
        raise UsageError(f"{reference!r} names no model", expected="module:callable or file.py:callable")
    if home.endswith(".py"):
        module = _load(Path(home))
    else:
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.insert(0, here)
        try:
            module = importlib.import_module(home)
        except ImportError as error:
            raise UsageError(f"the module {home} cannot be imported", found=str(error)) from error
        except Exception as error:  # as above
            raise _raised(home, error) from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{home} has no {name}")
        found = getattr(found, part)
    return found


def _load(path: Path) -> Any:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered, so that dataclasses and pickling inside the file find their module; its neighbours can be imported.
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # as above
        raise _raised(str(path), error) from error
    return module


def _check_call(reference: str, made: Any, kwargs: Mapping[str, Any]) -> None:
    """Raises UsageError where what makes the model takes other arguments."""
    try:
        inspect.signature(made).bind(**kwargs)
    except TypeError as error:
        remedy = "give its arguments with --kwargs"
        raise UsageError(f"{reference} cannot be called", found=str(error), remedy=remedy) from error
    except ValueError:
        return  # it has no signature that could be looked at


def _raised(what: str, error: Exception) -> CaptureError:
    """What the user's own code raised, with the line that did."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    location = Location(last.filename, last.lineno or 0, last.name)
    return CaptureError(f"{what} raised {type(error).__name__}: {error}", location=location)


def _safetensors() -> Any:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        remedy = "pip install 'isthmus[safetensors]', or build the model with --meta"
        raise UnavailableError("weights in .safetensors files need the safetensors package", remedy=remedy) from error
    return load_file


def load_weights(model: Any, path: Path) -> None:
    """Puts a state dict into a model without copying it.

    Args:
        model: a `torch.nn.Module`.
        path: a ``.safetensors`` file, or a ``.pt`` or ``.pth`` file with a state dict.

    Raises:
        UsageError: there is no such file.
        UnavailableError: it needs the safetensors package, which is not installed.
        FileError: it cannot be read, holds anything but tensors, or does not fit the model.
    """
    import torch

    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    load = _safetensors() if path.suffix == ".safetensors" else partial(
        torch.load, map_location="cpu", weights_only=True, mmap=True
    )  # fmt: skip
    try:
        state = load(path)
    except Exception as error:  # each format has its own errors for a bad file
        first = str(error).strip().partition("\n")[0]  # torch adds advice on unpickling, over many lines
        expected = "a state dict: tensors by name, with nothing that must be unpickled"
        found = f"{type(error).__name__}: {first}"
        raise FileError(f"the weights {path} cannot be read", expected=expected, found=found) from error
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):
        raise FileError(f"the weights {path} are not a state dict", found=_summary(state))
    if others := [f"{key}: {_summary(item)}" for key, item in state.items()
                  if not isinstance(item, torch.Tensor) and not key.endswith("_extra_state")]:  # fmt: skip
        found = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        raise FileError(f"the weights {path} are not a state dict", expected="tensors by name", found=found)
    try:
        model.load_state_dict(state, assign=True)
    except RuntimeError as error:
        raise FileError(f"the weights {path} do not fit the model", found=str(error)) from error


def _summary(item: Any) -> str:
    return f"a {type(item).__name__}" + (f" of {len(item)} items" if isinstance(item, (list, tuple, Mapping)) else "")
