"""Finds a model by the words of the command line: ``package.module:callable`` or ``file.py:callable``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isthmus.ir.errors import FileError, UsageError

SEED = 0
"""What weights are drawn with where none are loaded, so that two runs build the same model."""


def build(reference: str, kwargs: Mapping[str, Any] | None = None, weights: str | None = None) -> Any:
    """The model, in evaluation mode.

    Args:
        reference: ``module:name`` or ``file.py:name``; a class or function is called (after seeding torch with
            `SEED`), anything else is taken as the model itself.
        kwargs: what to call it with.
        weights: a ``.safetensors`` file, or a ``.pt`` file with a state dict; neither is unpickled.

    Raises:
        UsageError: there is no such module, file or name, or it cannot be called so.
        FileError: the weights cannot be read or do not fit.
    """
    import torch

    made = _find(reference)
    if not isinstance(made, torch.nn.Module):
        if not callable(made):
            raise UsageError(f"{reference} is neither a model nor something that makes one", found=repr(type(made)))
        torch.manual_seed(SEED)
        try:
            made = made(**(kwargs or {}))
        except TypeError as error:
            remedy = "give its arguments with --kwargs"
            raise UsageError(f"{reference} cannot be called", found=str(error), remedy=remedy) from error
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
    spec.loader.exec_module(module)
    return module


def load_weights(model: Any, path: Path) -> None:
    """Puts a state dict into a model without copying it.

    Args:
        model: a `torch.nn.Module`.
        path: a ``.safetensors`` file, or a ``.pt`` or ``.pth`` file with a state dict.

    Raises:
        FileError: it cannot be read, holds anything but tensors, or does not fit the model.
    """
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # each format has its own errors for a bad file
        raise FileError(f"the weights {path} cannot be read", found=f"{type(error).__name__}: {error}") from error
    if not isinstance(state, Mapping):
        raise FileError(f"the weights {path} are not a state dict", found=repr(type(state)))
    try:
        model.load_state_dict(state, assign=True)
    except RuntimeError as error:
        raise FileError(f"the weights {path} do not fit the model", found=str(error)) from error
