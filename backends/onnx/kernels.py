"""Which element types onnxruntime's CPU kernels take, by op and range of opsets.

A standard says what may be written; this says what then runs. The table, ``kernels.txt``, is written down rather than asked
for, so that what is legal does not depend on what is installed; `installed` reads the one of the installed onnxruntime, and a
test holds the two together. An op that is not in it runs only where the standard defines it by a function of others.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from isthmus.ir.dtypes import DType, dtype

Kernel = tuple[int, int, dict[str, frozenset[DType]]]
"""First opset, last opset, and the element types allowed for each type parameter."""

NEVER = 2**31 - 1
VERSION = "1.32.0"
"""The onnxruntime that the table is of."""

_NAMES = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16",
    "int8": "i8", "int4": "i4", "int2": "i2", "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8",
    "uint4": "u4", "uint2": "u2", "bool": "bool", "string": "str", "complex64": "c64", "complex128": "c128",
    "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz",
    "float8e8m0": "f8e8m0", "float4e2m1": "f4e2m1", "float6e2m3": "f6e2m3", "float6e3m2": "f6e3m2",
}  # fmt: skip


def element(text: str) -> DType | None:
    """The element type that ONNX writes as ``tensor(float)``; None for sequences and other types."""
    match = re.fullmatch(r"tensor\((\w+)\)", text)
    return dtype(_NAMES[match[1]]) if match else None


@cache
def kernels() -> dict[str, list[Kernel]]:
    """The table, by op."""
    found: dict[str, list[Kernel]] = {}
    for line in (resources.files(__package__) / "kernels.txt").read_text().splitlines():
        name, versions, *parameters = line.split()
        first, _, last = versions.partition("-")
        pairs = (parameter.partition("=") for parameter in parameters)
        types = {key: frozenset(map(dtype, filter(None, names.split(",")))) for key, _, names in pairs}
        found.setdefault(name, []).append((int(first), int(last or NEVER), types))
    return found


def installed() -> dict[str, list[Kernel]]:
    """The same table, read from the onnxruntime that is installed."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    rows: dict[tuple[str, int, int], dict[str, set[DType]]] = {}
    kernel: Any
    for kernel in get_all_opkernel_def():
        first, last = kernel.version_range
        if kernel.provider == "CPUExecutionProvider" and kernel.domain == "" and last >= 7:
            row = rows.setdefault((kernel.op_name, first, last), {})
            for parameter, types in kernel.type_constraints.items():
                row.setdefault(parameter, set()).update(filter(None, map(element, types)))
    found: dict[str, list[Kernel]] = {}
    for (name, first, last), row in sorted(rows.items()):
        found.setdefault(name, []).append((first, last, {key: frozenset(row[key]) for key in sorted(row)}))
    return found
