"""ONNX's own numbers: opsets, IR versions, element types, and what each op takes at each opset."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, Literal

import onnx

from isthmus.backends.onnx.attributes import plain
from isthmus.backends.onnx.kernels import NEVER, element, kernels
from isthmus.ir import dtypes
from isthmus.ir.dtypes import DType
from isthmus.ir.ops.complex import REAL_OF
from isthmus.ir.types import Map, Optional, Sequence, Tensor, Type

Base = Literal["onnxruntime", "onnx"]
"""What says which element types an op has kernels for: onnxruntime, or the standard, which allows all."""

OLDEST: Final = 7
DEFAULT: Final = 18
NEWEST: Final = min(onnx.defs.onnx_opset_version(), 28)

_SINCE: Final[dict[DType, int]] = {
    dtypes.bf16: 13,
    **dict.fromkeys((dtypes.f8e4m3fn, dtypes.f8e4m3fnuz, dtypes.f8e5m2, dtypes.f8e5m2fnuz), 19),
    **dict.fromkeys((dtypes.u4, dtypes.i4), 21),
    dtypes.f4e2m1: 23, dtypes.f8e8m0: 24, dtypes.u2: 25, dtypes.i2: 25, dtypes.f6e2m3: 28, dtypes.f6e3m2: 28,
}  # fmt: skip

# onnxruntime runs these in f32 and casts around them, where it has no kernel of its own.
_STANDS_FOR: Final[dict[DType, DType]] = {dtypes.f16: dtypes.f32}


# For want of a kernel it writes these in f16 as the standard's function instead, which overflows.
_OVERFLOWS: Final = frozenset(("Softplus", "ReduceLogSumExp"))


# Functions of the standard that it does not have, or that are made of such.
_NO_FUNCTION: Final = frozenset(("Swish", "SwiGLU"))


# The ops that functions are made of have kernels for these at least.
_IN_FUNCTIONS: Final = frozenset((dtypes.f32, dtypes.i64, dtypes.i32, dtypes.bool_))


def nearest(opset: int) -> int:
    """The opset that is written, of all those that are, for a model of this one."""
    return int(min(max(opset, OLDEST), NEWEST))


def enum(dtype: DType) -> int:
    """The number that ``TensorProto.DataType`` gives an element type."""
    return dtypes.ONNX[dtype]


def by_enum(number: int) -> DType:
    """The element type with this number."""
    return dtypes.BY_ONNX[number]


def since(dtype: DType) -> int:
    """The first opset whose files may hold this element type."""
    return _SINCE.get(dtype, 1)


def ir_version(opset: int) -> int:
    """The oldest file version that may carry an opset, so that the oldest readers still take the file.

    Before version 4 every constant had to be an input as well, which callers of the model would see.
    """
    return max(4, int(onnx.helper.OP_SET_ID_VERSION_MAP["ai.onnx", opset]))


class Signature:
    """What a standard op takes and gives at one opset.

    Attributes:
        attributes: the names of its attributes.
        inputs: the type parameter of each input, or a concrete type such as ``tensor(int64)``.
        outputs: the same of each output.
        names: the names of its inputs.
        variadic: whether the last input may be repeated.
        most: how many outputs it may have; None for any number.
        allowed: the element types for each parameter, by the standard; None where other types are allowed as well.
        runs: those for which onnxruntime has a kernel, or runs the function of other ops that the standard gives; those
            allowed where it is not meant to be the runtime.
        available: whether the runtime has anything at all for it.
    """

    def __init__(self, schema: Any, base: Base = "onnxruntime") -> None:
        self.name: str = schema.name
        self.version: int = schema.since_version
        self.inputs: list[str] = [item.type_str for item in schema.inputs]
        self.names: list[str] = [item.name for item in schema.inputs]
        self.outputs: list[str] = [item.type_str for item in schema.outputs]
        self.attributes = frozenset(schema.attributes)
        self.variadic = bool(schema.inputs) and str(schema.inputs[-1].option).endswith("Variadic")
        open_ended = bool(schema.outputs) and str(schema.outputs[-1].option).endswith("Variadic")
        self.most = None if open_ended else len(schema.outputs)
        constraints = {item.type_param_str: item.allowed_type_strs for item in schema.type_constraints}
        self.allowed: dict[str, frozenset[DType]] = {
            parameter: frozenset(filter(None, map(element, types))) for parameter, types in constraints.items()
        }
        self.runs: dict[str, frozenset[DType]]
        if base == "onnx":
            self.runs, self.available = self.allowed, True
            return
        found = [types for first, last, types in kernels().get(self.name, ()) if _serves(first, last, self.version)]
        function = schema.has_function or schema.has_context_dependent_function
        self.available = bool(found) or (function and self.name not in _NO_FUNCTION)
        if not found:
            self.runs = dict.fromkeys(self.allowed, _IN_FUNCTIONS)
        else:
            self.runs = {
                parameter: frozenset().union(*(types.get(parameter, allowed) for types in found))
                for parameter, allowed in self.allowed.items()
            }

    def parameter(self, index: int) -> str:
        """The type parameter of an input."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def name_of(self, index: int) -> str:
        """The name of an input."""
        return self.names[min(index, len(self.names) - 1)]

    def bound(self, inputs: Iterable[DType | None]) -> dict[str, DType]:
        """The element types that stand for type parameters, to judge by those of the inputs."""
        found: dict[str, DType] = {}
        for index, dtype in enumerate(inputs):
            if dtype is not None:
                found.setdefault(self.parameter(index), dtype)
        return found

    def refusal(self, index: int, dtype: DType) -> str | None:
        """Why an input may not have this element type; None when it may."""
        parameter = self.parameter(index)
        allowed = self.allowed.get(parameter)
        if allowed is None:
            concrete = element(parameter)
            return None if concrete in (None, dtype) else f"{self.name} takes {concrete} for input {index}, not {dtype}"
        if dtype not in allowed:
            return f"{self.name}-{self.version} does not take {dtype}"
        instead = None if self.name in _OVERFLOWS else _STANDS_FOR.get(dtype)
        if not {dtype, instead} & self.runs[parameter]:
            return f"onnxruntime has no kernel for {self.name}-{self.version} on {dtype}"
        return None

    def result_refusal(self, dtype: DType) -> str | None:
        """Why a result may not be asked for in this element type; None when it may."""
        parameter = self.outputs[0]
        allowed = self.allowed.get(parameter)
        if not allowed:
            return None  # a sequence or an optional
        if dtype not in allowed:
            return f"{self.name}-{self.version} does not give {dtype}"
        if not {dtype, _STANDS_FOR.get(dtype)} & self.runs.get(parameter, {dtype}):
            return f"onnxruntime has no kernel for {self.name}-{self.version} to {dtype}"
        return None


def _serves(first: int, last: int, version: int) -> bool:
    """Whether a kernel registered for these opsets serves an op of this version, as onnxruntime decides it."""
    return first == version or (first < version <= last and last != NEVER)


@cache
def signature(name: str, opset: int, base: Base = "onnxruntime") -> Signature | None:
    """The signature of a standard op at an opset; None when there is no such op yet."""
    try:
        return Signature(onnx.defs.get_schema(name, opset, ""), base)
    except onnx.defs.SchemaError:
        return None


@cache
def outputs(
    name: str, opset: int, base: Base, inputs: tuple[DType | None, ...], attributes: tuple[str, ...], asked: DType | None,
    results: int,
) -> tuple[DType | None, ...] | str:  # fmt: skip
    """The element types of a node's results, None for those that are not known; or why there is no such node.

    Args:
        name: the op.
        opset: the opset.
        base: what says which element types there are kernels for.
        inputs: the element types of its inputs, where they are known.
        attributes: the names of those that it has.
        asked: the element type that one of them asks for.
        results: how many results it has.
    """
    found = signature(name, opset, base)
    if found is None:
        return f"there is no {name} at opset {opset}"
    if not found.available:
        return f"onnxruntime has no kernel for {name}-{found.version}"
    for attribute in attributes:
        if attribute not in found.attributes:
            return f"{name}-{found.version} has no {attribute}"
    if found.most is not None and results > found.most:
        return f"{name}-{found.version} gives no more than {found.most} results"
    if len(inputs) > len(found.inputs) and not found.variadic:
        return f"{name}-{found.version} takes {len(found.inputs)} inputs"
    for index, dtype in enumerate(inputs):
        reason = None if dtype is None else found.refusal(index, dtype)
        if reason is not None:
            return reason
    reason = None if asked is None else found.result_refusal(asked)
    if reason is not None:
        return reason
    bound = found.bound(inputs)
    # A `dtype` beside a sequence is that of its elements.
    return tuple(
        bound.get(parameter) or element(parameter) or (asked if found.allowed.get(parameter, True) else None)
        for parameter in found.outputs
    )


def is_complex(type: Type) -> bool:
    """Whether this is a tensor of complex numbers."""
    return isinstance(type, Tensor) and type.dtype.is_complex


def written(type: Tensor) -> Tensor:
    """The type that a tensor has in a file: complex numbers, which no runtime computes with, are pairs along a last axis."""
    real = REAL_OF.get(type.dtype)
    if real is None:
        return type
    return Tensor(real, None if type.shape is None else (*type.shape, 2))


def type_proto(type: Type) -> Any:
    """A type as ONNX writes it; sizes that are not integers become dim names, expressions as text. What is unknown has none."""
    proto = onnx.TypeProto()
    if isinstance(type, Tensor):
        type = written(type)
        proto.tensor_type.elem_type = enum(type.dtype)
        if type.shape is not None:
            proto.tensor_type.shape.SetInParent()
            for dim in type.shape:
                entry = proto.tensor_type.shape.dim.add()
                if isinstance(dim, int):
                    entry.dim_value = dim
                elif dim is not None:
                    symbol = dim.symbol
                    entry.dim_param = plain(str(dim) if symbol is None else symbol.name)
    elif isinstance(type, Sequence):
        proto.sequence_type.elem_type.CopyFrom(type_proto(type.element))
    elif isinstance(type, Optional):
        proto.optional_type.elem_type.CopyFrom(type_proto(type.element))
    elif isinstance(type, Map):
        proto.map_type.key_type = enum(type.key)
        proto.map_type.value_type.CopyFrom(type_proto(type.element))
    return proto
