"""A call's arguments, brought into the form in which the example's were given."""

from __future__ import annotations

import inspect
from collections import defaultdict, namedtuple
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

import torch
from torch.utils import _pytree as pytree

from isthmus.ir.errors import UsageError

Call = tuple[tuple[Any, ...], dict[str, Any]]


Flatten = Callable[[Any], tuple[list[Any], pytree.TreeSpec]]


def flat_call(function: Callable[..., Any], call: Call, like: Call, flatten: Flatten) -> list[Any]:
    """All leaves of a call, in the order of the example's, whichever of its arguments it gives by name.

    Args:
        function: its parameters say which argument is which.
        call: positional arguments and keyword arguments.
        like: those of the example. What it left out may be given where it is the default, and the other way round.
        flatten: gives the leaves of an argument, and its structure.

    Raises:
        UsageError: arguments are missing, there are others, or one has another structure.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None
    if signature is None:
        given, wanted = ({**dict(enumerate(args)), **kwargs} for args, kwargs in (call, like))
        defaults: dict[Any, Any] = {}
    else:
        given, wanted = _by_name(signature, call), _by_name(signature, like)
        defaults = {name: p.default for name, p in signature.parameters.items() if p.default is not Parameter.empty}
    missing = [_word(key) for key in wanted if key not in given and key not in defaults]
    extra = [_word(key) for key in given if key not in wanted and not (key in defaults and _equal(given[key], defaults[key]))]
    if missing or extra:
        told = [f"{what} {', '.join(names)}" for what, names in (("lacks", missing), ("has", extra)) if names]
        raise UsageError(
            f"the call {' and '.join(told)}, other than the example inputs", expected=", ".join(map(_word, wanted)) or "nothing"
        )
    found = {key: given[key] if key in given else defaults[key] for key in wanted}
    order = [*(key for key in wanted if key not in like[1]), *like[1]]
    return [
        leaf for key in order for leaf in _in_order(*flatten(found[key]), flatten(wanted[key])[1], _word(key))
    ]


def _by_name(signature: inspect.Signature, call: Call) -> dict[Any, Any]:
    """Arguments by parameter, those of ``*args`` by the name and their number, those of ``**kwargs`` by their own names."""
    args, kwargs = call
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"the call does not fit the model: {error}", expected=f"forward{signature}") from None
    found: dict[Any, Any] = {}
    for name, item in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is Parameter.VAR_KEYWORD:
            found |= item
        elif kind is Parameter.VAR_POSITIONAL:
            found |= {(name, index): part for index, part in enumerate(item)}
        else:
            found[name] = item
    return found


def _word(key: Any) -> str:
    if isinstance(key, tuple):
        return f"{key[0]}[{key[1]}]"
    return f"argument {key}" if isinstance(key, int) else str(key)


def _equal(item: Any, default: Any) -> bool:
    return item is default or (not isinstance(item, torch.Tensor) and type(item) is type(default) and bool(item == default))


def _in_order(leaves: list[Any], spec: pytree.TreeSpec, like: pytree.TreeSpec, path: str) -> list[Any]:
    """The leaves of an argument in the order of the example's: dicts are the same in whatever order their keys are.

    Args:
        leaves: the leaves.
        spec: their structure.
        like: the example's structure.
        path: the argument in words.

    Raises:
        UsageError: the structures differ by more than the order of keys.
    """
    if spec == like:
        return leaves
    if spec.is_leaf() or like.is_leaf() or spec.type is not like.type:
        raise _differs(path, _kind(like), _kind(spec))
    parts = {}
    for key, child in zip(_keys(spec), spec.children(), strict=True):
        parts[key] = leaves[: child.num_leaves], child
        leaves = leaves[child.num_leaves :]
    keys = _keys(like)
    if set(keys) != set(parts) or (not _unordered(spec) and spec.context != like.context):
        raise _differs(path, _contents(like), _contents(spec))
    return [
        leaf
        for key, child in zip(keys, like.children(), strict=True)
        for leaf in _in_order(*parts[key], child, f"{path}[{key!r}]")
    ]


def _unordered(spec: pytree.TreeSpec) -> bool:
    """Whether it is a dict, or another mapping of which the keys are told."""
    return isinstance(spec.type, type) and issubclass(spec.type, Mapping) and isinstance(spec.context, list)


def _keys(spec: pytree.TreeSpec) -> list[Any]:
    if spec.type is defaultdict:
        return list(spec.context[1])
    return list(spec.context) if _unordered(spec) else list(range(len(spec.children())))


def _kind(spec: pytree.TreeSpec) -> str:
    if spec.is_leaf():
        return "a tensor"
    return f"a {(spec.context if spec.type is namedtuple else spec.type).__name__}"


def _contents(spec: pytree.TreeSpec) -> str:
    return f"{_kind(spec)} of {', '.join(map(repr, _keys(spec))) if _unordered(spec) else len(_keys(spec))}"


def _differs(path: str, expected: str, found: str) -> UsageError:
    return UsageError(f"{path} has another structure than in the example inputs", expected=expected, found=found)
