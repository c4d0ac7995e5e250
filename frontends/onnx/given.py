"""Sizes that a user gives in place of those that a file leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from isthmus.frontends.base import TensorSpec
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir.dims import Dim
from isthmus.ir.errors import UsageError


def fix(inputs: Sequence[Any], given: Mapping[str, TensorSpec]) -> tuple[dict[str, Any], dict[str, int]]:
    """The types of inputs with the sizes that are given, and the numbers that names of sizes stand for.

    Args:
        inputs: the ValueInfoProtos.
        given: for some of them, by name, an element type and sizes: a number fixes one, a name leaves it open.

    Returns:
        A TypeProto for each input, by name, and the numbers by the names that the file has for sizes.

    Raises:
        UsageError: what is given contradicts the file, or itself.
    """
    types = {each.name: each.type for each in inputs}
    numbers: dict[str, int] = {}
    for name, spec in given.items():
        types[name] = _fixed(name, types[name], spec, numbers)
    return types, numbers


def _fixed(name: str, told: Any, spec: TensorSpec, numbers: dict[str, int]) -> Any:
    if not told.HasField("tensor_type"):
        raise UsageError(f"no sizes can be given for the input {name}, which is no tensor")
    type = onnx.TypeProto()
    type.CopyFrom(told)
    tensor = type.tensor_type
    if (dtype := dtype_of(tensor.elem_type, f"the input {name!r}")) is not spec.dtype:
        raise UsageError(f"the input {name} is of another element type", expected=str(dtype), found=str(spec.dtype))
    if not tensor.HasField("shape"):
        tensor.shape.dim.extend(_dim(size) for size in spec.shape)
        return type
    if len(tensor.shape.dim) != len(spec.shape):
        raise UsageError(f"the input {name} has another rank", expected=str(len(tensor.shape.dim)), found=str(len(spec.shape)))
    for axis, (dim, size) in enumerate(zip(tensor.shape.dim, spec.shape, strict=True)):
        said = size
        if dim.HasField("dim_value"):
            said = dim.dim_value
        elif dim.dim_param and isinstance(size, int):
            said = numbers.setdefault(dim.dim_param, size)
        if said != size:
            what = f"the size {dim.dim_param or said} of the input {name}, at axis {axis},"
            raise UsageError(f"{what} cannot be {size}", expected=str(said))
        if isinstance(size, int):
            dim.dim_value = size
    return type


def _dim(size: Dim) -> Any:
    made = onnx.TensorShapeProto.Dimension()
    if isinstance(size, int):
        made.dim_value = size
    else:
        made.dim_param = str(size)
    return made
