"""Example tensors in words."""

from __future__ import annotations

import re

from isthmus.frontends.base import TensorSpec
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, Symbol
from isthmus.ir.errors import UsageError

_SPEC = re.compile(r"\s*(?P<dtype>\w+)\s*\[(?P<dims>[^\[\]]*)\]\s*")
_GREATEST = 2**63 - 1
_DIM = re.compile(r"(?P<size>\d+)|(?P<name>[^\W\d]\w*)(\s*=\s*(?P<hint>\d+))?")


def spec(text: str) -> TensorSpec:
    """A stand-in for an example tensor.

    Args:
        text: a dtype and a shape, such as ``f32[N,3,224,224]`` or ``i64[]``. A name is a dynamic size, the same one
            wherever it stands; ``H=64`` says at which size the model may be watched.

    Raises:
        UsageError: the text is something else.
    """
    expected = "a dtype and sizes, such as f32[N,3,224,224] or i64[N,S=16]"
    found = _SPEC.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise UsageError(f"{text!r} is not a tensor", expected=expected)
    if not dtypes.is_dtype(found["dtype"]):
        raise UsageError(f"{text!r} has no known dtype", expected=", ".join(d.name for d in dtypes.ALL), found=found["dtype"])
    parts = [part.strip() for part in found["dims"].split(",")] if found["dims"].strip() else []
    symbols: dict[str, Symbol] = {}
    return TensorSpec(dtypes.dtype(found["dtype"]), tuple(_dim(part, text, symbols) for part in parts))


def _dim(part: str, text: str, symbols: dict[str, Symbol]) -> Dim:
    found = _DIM.fullmatch(part)
    if found is None:
        raise UsageError(f"{part!r} in {text!r} is no size", expected="a number, a name, or a name=number")
    if found["size"]:
        return _size(found["size"], 0, part, text)
    hint = _size(found["hint"], 1, part, text) if found["hint"] else None
    symbol = symbols.setdefault(found["name"], Symbol(found["name"], hint=hint))
    if hint is not None:
        symbol.hint = hint
    return symbol.dim


def _size(digits: str, least: int, part: str, text: str) -> int:
    """A number that may be a size."""
    if not least <= int(digits[:20]) <= _GREATEST:
        raise UsageError(f"{part!r} in {text!r} is no size", expected=f"{least} to {_GREATEST}")
    return int(digits)
