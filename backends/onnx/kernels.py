"""Which element types onnxruntime's CPU kernels take, by op and range of opsets.

A standard says what may be written; this says what then runs. The table is written down rather than asked for, so that
what is legal does not depend on what is installed; `installed` reads the one of the installed onnxruntime, and a test
holds the two together. An op that is not in it runs only where the standard defines it by a function of others.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from isthmus.ir.dtypes import DType, dtype

Kernel = tuple[int, int, dict[str, frozenset[DType]]]
"""First opset, last opset, and the element types allowed for each type parameter."""

NEVER = 2**31 - 1
VERSION = "1.32.0"

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
    for line in _TABLE.strip().splitlines():
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


_TABLE = """
Abs 6-12 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Abs 13 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Acos 7-21 T=f32
Acos 22 T=f32
Acosh 9-21 T=f32
Acosh 22 T=f32
Add 7-12 T=f32,f64,i32,i64,u32,u64
Add 13-13 T=f32,f64,i32,i64,u32,u64
Add 14 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Affine 1 T=f32
AffineGrid 20 T1=f32,f64 T2=i64
And 7 T=bool T1=bool
ArgMax 1-10 T=f32,f64,i32,i64,i8,u8
ArgMax 11-12 T=f32,f64,i32,i64,i8,u8
ArgMax 13 T=f32,f64,i32,i64,i8,u8
ArgMin 1-10 T=f32,f64,i32,i64,i8,u8
ArgMin 11-12 T=f32,f64,i32,i64,i8,u8
ArgMin 13 T=f32,f64,i32,i64,i8,u8
Asin 7-21 T=f32
Asin 22 T=f32
Asinh 9-21 T=f32
Asinh 22 T=f32
Atan 7-21 T=f32
Atan 22 T=f32
Atanh 9-21 T=f32
Atanh 22 T=f32
Attention 23-23 T1=f16,f32 T2=f16,f32 U=bool,f16,f32
Attention 24 T1=f16,f32 T2=f16,f32 U=bool,f16,f32
AveragePool 7-9 T=f32
AveragePool 10-10 T=f32
AveragePool 11-18 T=f32
AveragePool 19-21 T=f32
AveragePool 22 T=f32
BatchNormalization 7-8 T=f32,f64
BatchNormalization 9-13 T=f32,f64
BatchNormalization 14-14 T=f32,f64 U=f32,f64
BatchNormalization 15 T=f32,f64 T1=f32,f64 T2=f32,f64
BitCast 26 T1=bf16,f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T2=bf16,f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
BitShift 11-27 T=u16,u32,u64,u8
BitShift 28 T=i16,i32,i64,i8,u16,u32,u64,u8
BitwiseAnd 18 T=i16,i32,i64,i8,u16,u32,u64,u8
BitwiseNot 18 T=i16,i32,i64,i8,u16,u32,u64,u8
BitwiseOr 18 T=i16,i32,i64,i8,u16,u32,u64,u8
BitwiseXor 18 T=i16,i32,i64,i8,u16,u32,u64,u8
BlackmanWindow 17 T1=i32,i64 T2=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Cast 6-12 T1=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8
Cast 13-18 T1=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8
Cast 19-20 T1=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8
Cast 21-22 T1=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8
Cast 23-23 T1=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8
Cast 24-24 T1=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,f8e8m0,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,f8e8m0,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8
Cast 25-27 T1=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,f8e8m0,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,f8e8m0,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8
Cast 28 T1=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,f8e8m0,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,f8e8m0,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8
Ceil 6-12 T=f32,f64
Ceil 13 T=f32,f64
Celu 12-27 T=f32
Celu 28 T=bf16,f16,f32,f64
Clip 6-10 T=f32
Clip 11-11 T=f32
Clip 12-12 T=f16,f32,f64,i32,i64,i8,u32,u64,u8
Clip 13 T=f16,f32,f64,i32,i64,i8,u32,u64,u8
Col2Im 18 T=f32
Compress 9-10 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=bool
Compress 11-27 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=bool
Compress 28 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=bool
Concat 4-10 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Concat 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Concat 13 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
ConcatFromSequence 11 S=
ConstantOfShape 9-19 T1=i64 T2=bf16,bool,f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
ConstantOfShape 20-20 T1=i64 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,u16,u32,u64,u8
ConstantOfShape 21-22 T1=i64 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,u16,u32,u64,u8
ConstantOfShape 23-23 T1=i64 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,u16,u32,u64,u8
ConstantOfShape 24-24 T1=i64 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,u16,u32,u64,u8
ConstantOfShape 25 T1=i64 T2=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,u16,u32,u64,u8
Conv 1-10 T=f32
Conv 11-21 T=f32
Conv 22 T=f32
ConvInteger 10 T1=i8,u8 T2=i8,u8 T3=i32
ConvTranspose 1-10 T=f32
ConvTranspose 11-21 T=f32
ConvTranspose 22 T=f32
Cos 7-21 T=f32,f64
Cos 22 T=f32,f64
Cosh 9-21 T=f32
Cosh 22 T=f32
Crop 1 T=f32
CumProd 26 T=f32,f64,i32,i64,u32,u64 T2=i32,i64
CumSum 11-13 T=f32,f64,i32,i64 T2=i32,i64
CumSum 14 T=f32,f64,i32,i64 T2=i32,i64
DFT 17-19 T1=f32,f64 T2=i32,i64
DFT 20 T1=f32,f64 T2=i32,i64
DeformConv 19-21 T=f32,f64
DeformConv 22 T=f32,f64
DepthToSpace 1-10 T=f32,f64
DepthToSpace 11-12 T=f32,f64,i8,u8
DepthToSpace 13-27 T=f32,f64,i8,u8
DepthToSpace 28 T=f32,f64,i8,u8
DequantizeLinear 10-12 T=i32,i8,u8
DequantizeLinear 13-18 T=i32,i8,u8
DequantizeLinear 19-20 T1=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i32,i8,u8 T2=f16,f32
DequantizeLinear 21-22 T1=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i4,i8,u16,u4,u8 T2=f16,f32
DequantizeLinear 23-23 T1=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i4,i8,u16,u4,u8 T2=f16,f32 T3=f16,f32
DequantizeLinear 24-24 T1=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i4,i8,u16,u4,u8 T2=f16,f32 T3=f16,f32
DequantizeLinear 25 T1=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i8,u16,u2,u4,u8 T2=f16,f32 T3=f16,f32
Det 11-21 T=f32
Det 22 T=f32
Div 7-12 T=f32,f64,i32,i64,u32,u64
Div 13-13 T=f32,f64,i32,i64,u32,u64
Div 14 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Dropout 7-9 T=f16,f32,f64
Dropout 10-11 T=f16,f32,f64 T1=bool
Dropout 12-12 T=f32,f64 T1=f32,f64 T2=bool
Dropout 13-21 T=f32,f64 T1=f32,f64 T2=bool
Dropout 22 T=f32,f64 T1=f32,f64 T2=bool
DynamicQuantizeLinear 11 T2=u8
DynamicSlice 1 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
Einsum 12-27 T=f32,f64,i32,i64
Einsum 28 T=bf16,f32,f64,i32,i64
Elu 6-21 T=f32
Elu 22 T=f32
Equal 7-10 T=bool,f32,f64,i32,i64 T1=bool
Equal 11-12 T=bool,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
Equal 13-18 T=bool,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
Equal 19 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=bool
Erf 9-12 T=f32
Erf 13 T=f32
Exp 6-12 T=f32,f64
Exp 13 T=f32,f64
Expand 8-12 T=bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Expand 13 T=bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
EyeLike 9-21 T1=f32,f64,i32,i64,u64 T2=f32,f64,i32,i64,u64
EyeLike 22 T1=f32,f64,i32,i64,u64 T2=f32,f64,i32,i64,u64
Flatten 1-8 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Flatten 9-10 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Flatten 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Flatten 13-20 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Flatten 21-22 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Flatten 23-23 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Flatten 24-24 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Flatten 25 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Floor 6-12 T=f32,f64
Floor 13 T=f32,f64
GRU 7-13 T=f32,f64 T1=i32
GRU 14-21 T=f32,f64 T1=i32
GRU 22 T=f32,f64 T1=i32
Gather 1-10 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
Gather 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
Gather 13 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
GatherElements 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
GatherElements 13 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
GatherND 11-11 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 indices=i64
GatherND 12-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 indices=i64
GatherND 13 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 indices=i64
Gelu 20 T=f32
Gemm 7-8 T=f32,f64
Gemm 9-10 T=f32,f64
Gemm 11-12 T=f32,f64
Gemm 13 T=f32,f64
GlobalAveragePool 1-21 T=f32
GlobalAveragePool 22 T=f32
GlobalLpPool 2 T=f32
GlobalMaxPool 1-21 T=f32
GlobalMaxPool 22 T=f32
Greater 7-8 T=f32,f64 T1=bool
Greater 9-12 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
Greater 13 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
GreaterOrEqual 12-15 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
GreaterOrEqual 16 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
GridSample 16-19 T1=f32 T2=f32
GridSample 20-21 T1=f32,f64 T2=f32,f64
GridSample 22 T1=f32,f64 T2=f32,f64
HammingWindow 17 T1=i32,i64 T2=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
HannWindow 17 T1=i32,i64 T2=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
HardSigmoid 6-21 T=f32
HardSigmoid 22 T=f32
Hardmax 1-10 T=f32
Hardmax 11-12 T=f32
Hardmax 13 T=f32
Identity 1-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Identity 13-13 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Identity 14-15 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Identity 16-18 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Identity 19-20 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Identity 21-22 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Identity 23-23 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Identity 24-24 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Identity 25 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
If 1-10 B=bool V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
If 11-12 B=bool V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
If 13-15 B=bool V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
If 16-18 B=bool V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
If 19-20 B=bool V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
If 21-22 B=bool V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
If 23-23 B=bool V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
If 24-24 B=bool V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
If 25 B=bool V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
ImageScaler 1 T=f32
InstanceNormalization 6-21 T=f32
InstanceNormalization 22 T=f32
IsInf 10-19 T1=f32,f64 T2=bool
IsInf 20 T1=bf16,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz T2=bool
IsNaN 9-12 T1=f16,f32,f64 T2=bool
IsNaN 13-19 T1=f16,f32,f64 T2=bool
IsNaN 20 T1=bf16,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz T2=bool
LRN 1-12 T=f32
LRN 13 T=f32
LSTM 7-13 T=f32,f64 T1=i32
LSTM 14-21 T=f32,f64 T1=i32
LSTM 22 T=f32,f64 T1=i32
LayerNormalization 1-16 T=bf16,f16,f32,f64 U=f32 V=bf16,f16,f32,f64
LayerNormalization 17 T=bf16,f16,f32,f64 U=f32
LeakyRelu 6-15 T=f32
LeakyRelu 16 T=f32
Less 7-8 T=f32,f64 T1=bool
Less 9-12 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
Less 13 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
LessOrEqual 12-15 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
LessOrEqual 16 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8 T1=bool
Log 6-12 T=f32,f64
Log 13 T=f32,f64
LogSoftmax 1-10 T=f32,f64
LogSoftmax 11-12 T=f32,f64
LogSoftmax 13 T=f32,f64
Loop 1-10 B=bool I=i64 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Loop 11-12 B=bool I=i64 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Loop 13-15 B=bool I=i64 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Loop 16-18 B=bool I=i64 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Loop 19-20 B=bool I=i64 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Loop 21-22 B=bool I=i64 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Loop 23-23 B=bool I=i64 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Loop 24-24 B=bool I=i64 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Loop 25 B=bool I=i64 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
LpNormalization 1-21 T=f32,f64
LpNormalization 22 T=f32,f64
LpPool 2-10 T=f32
LpPool 11-17 T=f32
LpPool 18-21 T=f32
LpPool 22 T=f32
MatMul 1-8 T=f32,f64
MatMul 9-12 T=f32,f64,i32,i64,u32,u64
MatMul 13 T=f32,f64,i32,i64,u32,u64
MatMulInteger 10 T1=i8,u8 T2=i8,u8 T3=i32
Max 6-7 T=f32
Max 8-11 T=f32,f64
Max 12-12 T=f16,f32,f64,i32,i64,i8,u32,u64,u8
Max 13 T=f16,f32,f64,i32,i64,i8,u32,u64,u8
MaxPool 1-7 T=f32
MaxPool 8-11 I=i64 T=f32,f64
MaxPool 12-21 I=i64 T=f32,f64,i8,u8
MaxPool 22 I=i64 T=f32,f64,i8,u8
MaxRoiPool 1 T=f32
MaxUnpool 9-10 T1=f32 T2=i64
MaxUnpool 11-21 T1=f32 T2=i64
MaxUnpool 22 T1=f32 T2=i64
Mean 6-7 T=f32
Mean 8-12 T=f32
Mean 13 T=f32
MeanVarianceNormalization 1-8 T=f32
MeanVarianceNormalization 9-12 T=f32
MeanVarianceNormalization 13 T=f32
MelWeightMatrix 17 T1=i32,i64 T2=f32 T3=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
MemcpyFromHost 1 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,u16,u32,u64,u8
MemcpyToHost 1 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,u16,u32,u64,u8
Min 6-7 T=f32
Min 8-11 T=f32,f64
Min 12-12 T=f16,f32,f64,i32,i64,i8,u32,u64,u8
Min 13 T=f16,f32,f64,i32,i64,i8,u32,u64,u8
Mod 10-12 T=f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Mod 13-27 T=f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Mod 28 T=f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Mul 7-12 T=f32,f64,i32,i64,u32,u64
Mul 13-13 T=f32,f64,i32,i64,u32,u64
Mul 14 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Multinomial 7 T1=f32 T2=i32,i64
Neg 6-12 T=f32,f64,i16,i32,i64,i8
Neg 13 T=f32,f64,i16,i32,i64,i8
NonMaxSuppression 10-10
NonMaxSuppression 11
NonZero 9-12 T=bool,f32,i32,i64,u8
NonZero 13 T=bool,f32,i32,i64,u8
Not 1 T=bool
OneHot 9-10 T1=f32,i32,i64 T2=f32,i32,i64 T3=f32,i32,i64,str
OneHot 11-27 T1=f32,i32,i64 T2=f32,i32,i64 T3=f32,i32,i64,str
OneHot 28 T1=f32,i32,i64 T2=f32,i32,i64 T3=bf16,f32,i32,i64,str
Optional 15 O= V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
OptionalGetElement 15-17 O= V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
OptionalGetElement 18 O=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
OptionalHasElement 15-17 B=bool O=
OptionalHasElement 18 B=bool O=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Or 7 T=bool T1=bool
PRelu 7-8 T=f32
PRelu 9-15 T=f32
PRelu 16 T=f32
Pad 2-10 T=f32,f64
Pad 11-12 T=f32,f64,i32,i64,i8,u32,u64,u8
Pad 13-17 T=bool,f32,f64,i32,i64,i8,u32,u64,u8
Pad 18-18 T=bool,f32,f64,i32,i64,i8,u32,u64,u8
Pad 19-20 T=bool,f32,f64,i32,i64,i8,u32,u64,u8
Pad 21-22 T=bf16,bool,f32,f64,i32,i64,i8,u32,u64,u8
Pad 23-23 T=bf16,bool,f32,f64,i32,i64,i8,u32,u64,u8
Pad 24-24 T=bf16,bool,f32,f64,i32,i64,i8,u32,u64,u8
Pad 25 T=bf16,bool,f32,f64,i32,i64,i8,u32,u64,u8
ParametricSoftplus 1 T=f32
Pow 7-11 T=f32,f64
Pow 12-12 T=f32,f64,i32,i64 T1=f32,f64,i32,i64
Pow 13-14 T=f32,f64,i32,i64 T1=f32,f64,i32,i64
Pow 15 T=f32,f64,i32,i64 T1=f32,f64,i32,i64
QLinearConv 10 T1=i8,u8 T2=i8,u8 T3=i8,u8 T4=i32
QLinearMatMul 10-20 T1=i8,u8 T2=i8,u8 T3=i8,u8
QLinearMatMul 21 T1=i8,u8 T2=i8,u8 T3=i8,u8 TS=f32
QuantizeLinear 10-12 T1=f32 T2=i8,u8
QuantizeLinear 13-18 T1=f32 T2=i8,u8
QuantizeLinear 19-20 T1=f16,f32 T2=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i8,u8
QuantizeLinear 21-22 T1=f16,f32 T2=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i4,i8,u16,u4,u8
QuantizeLinear 23-23 T1=f16,f32 T2=f16,f32 T3=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i4,i8,u16,u4,u8
QuantizeLinear 24-24 T1=f16,f32 T2=f16,f32 T3=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i4,i8,u16,u4,u8
QuantizeLinear 25 T1=f16,f32 T2=f16,f32 T3=f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i4,i8,u16,u2,u4,u8
RMSNormalization 23 T=f16,f32,f64 V=f16,f32,f64
RNN 7-13 T=f32 T1=i32
RNN 14-21 T=f32 T1=i32
RNN 22 T=f32 T1=i32
RandomNormal 1 T=f32,f64
RandomNormalLike 1 T1=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T2=f32,f64
RandomUniform 1 T=f32,f64
RandomUniformLike 1 T1=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T2=f32,f64
Range 11-26 T=f32,f64,i16,i32,i64
Range 27 T=f32,f64,i16,i32,i64
Reciprocal 6-12 T=f32,f64
Reciprocal 13 T=f32,f64
ReduceL1 1-10 T=f32,f64,i32,i64
ReduceL1 11-12 T=f32,f64,i32,i64
ReduceL1 13-17 T=f32,f64,i32,i64
ReduceL1 18 T=f32,f64,i32,i64
ReduceL2 1-10 T=f32,f64,i32,i64
ReduceL2 11-12 T=f32,f64,i32,i64
ReduceL2 13-17 T=f32,f64,i32,i64
ReduceL2 18 T=f32,f64,i32,i64
ReduceLogSum 1-10 T=f32,f64,i32,i64
ReduceLogSum 11-12 T=f32,f64,i32,i64
ReduceLogSum 13-17 T=f32,f64,i32,i64
ReduceLogSum 18 T=f32,f64,i32,i64
ReduceLogSumExp 1-10 T=f32,f64,i32,i64
ReduceLogSumExp 11-12 T=f32,f64,i32,i64
ReduceLogSumExp 13-17 T=f32,f64,i32,i64
ReduceLogSumExp 18 T=f32,f64,i32,i64
ReduceMax 1-10 T=f32,f64,i32,i64
ReduceMax 11-11 T=f32,f64,i32,i64
ReduceMax 12-12 T=f32,f64,i32,i64,i8,u8
ReduceMax 13-17 T=f32,f64,i32,i64,i8,u8
ReduceMax 18-19 T=f32,f64,i32,i64,i8,u8
ReduceMax 20 T=bool,f32,f64,i32,i64,i8,u8
ReduceMean 1-10 T=f32,f64,i32,i64
ReduceMean 11-12 T=f32,f64,i32,i64
ReduceMean 13-17 T=f32,f64,i32,i64
ReduceMean 18 T=f32,f64,i32,i64
ReduceMin 1-10 T=f32,f64,i32,i64
ReduceMin 11-11 T=f32,f64,i32,i64
ReduceMin 12-12 T=f32,f64,i32,i64,i8,u8
ReduceMin 13-17 T=f32,f64,i32,i64,i8,u8
ReduceMin 18-19 T=f32,f64,i32,i64,i8,u8
ReduceMin 20 T=bool,f32,f64,i32,i64,i8,u8
ReduceProd 1-10 T=f32,f64,i32,i64
ReduceProd 11-12 T=f32,f64,i32,i64
ReduceProd 13-17 T=f32,f64,i32,i64
ReduceProd 18 T=f32,f64,i32,i64
ReduceSum 1-10 T=f32,f64,i32,i64
ReduceSum 11-12 T=f32,f64,i32,i64
ReduceSum 13 T=f32,f64,i32,i64
ReduceSumSquare 1-10 T=f32,f64,i32,i64
ReduceSumSquare 11-12 T=f32,f64,i32,i64
ReduceSumSquare 13-17 T=f32,f64,i32,i64
ReduceSumSquare 18 T=f32,f64,i32,i64
RegexFullMatch 20 T1=str T2=bool
Relu 6-12 T=f32,f64
Relu 13-13 T=f32,f64
Relu 14 T=f32,f64,i32,i8
Reshape 5-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 shape=i64
Reshape 13-13 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 shape=i64
Reshape 14-18 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 shape=i64
Reshape 19-20 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 shape=i64
Reshape 21-22 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8 shape=i64
Reshape 23-23 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8 shape=i64
Reshape 24-24 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8 shape=i64
Reshape 25 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8 shape=i64
Resize 10-10 T=f32,i32,i8,u8
Resize 11-12 T1=f32,i32,i8,u8
Resize 13-17 T1=f32,i32,i8,u8
Resize 18-18 T1=f32,i32,i8,u8
Resize 19 T1=f32,i32,i8,u8
ReverseSequence 10-27 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
ReverseSequence 28 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
RoiAlign 10-15 T1=f32,f64 T2=i64
RoiAlign 16 T1=f32,f64 T2=i64
RotaryEmbedding 23 M=i64 T=f16,f32
Round 11-21 T=f16,f32,f64
Round 22 T=f16,f32,f64
STFT 17 T1=f32,f64 T2=i32,i64
Scale 1 T=f32
ScaledTanh 1 T=f32
Scan 8-8 I=i64 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Scan 9-10 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Scan 11-15 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Scan 16-18 V=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Scan 19-20 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Scan 21-22 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Scan 23-23 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Scan 24-24 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Scan 25 V=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8
Scatter 9-10 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
ScatterElements 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
ScatterElements 13-15 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
ScatterElements 16-17 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
ScatterElements 18 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
ScatterND 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
ScatterND 13-15 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
ScatterND 16-17 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
ScatterND 18 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Selu 6-21 T=f32
Selu 22 T=f32
SequenceAt 11 I=i32,i64 S= T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
SequenceConstruct 11 S= T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
SequenceEmpty 11 S=
SequenceErase 11 I=i32,i64 S=
SequenceInsert 11 I=i32,i64 S=
SequenceLength 11 I=i64 S=
Shape 1-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Shape 13-14 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Shape 15-18 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Shape 19-20 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Shape 21-22 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Shape 23-23 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Shape 24-24 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Shape 25 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Shrink 9 T=bf16,f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Sigmoid 6-12 T=f32,f64
Sigmoid 13 T=f32,f64
Sign 9-12 T=bf16,f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Sign 13 T=bf16,f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
SimplifiedLayerNormalization 1 T=bf16,f16,f32,f64 U=f32 V=bf16,f16,f32,f64
Sin 7-21 T=f32,f64
Sin 22 T=f32,f64
Sinh 9-21 T=f32
Sinh 22 T=f32
Size 1-12 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Size 13-18 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Size 19-20 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Size 21-22 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Size 23-23 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Size 24-24 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Size 25 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Slice 1-9 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Slice 10-10 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
Slice 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
Slice 13 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 Tind=i32,i64
Softmax 1-10 T=f32,f64
Softmax 11-12 T=f32,f64
Softmax 13 T=f32,f64
Softplus 1-21 T=f32
Softplus 22 T=f32
Softsign 1-21 T=f32
Softsign 22 T=f32
SpaceToDepth 1-12 T=f32,f64,i8,u8
SpaceToDepth 13-27 T=f32,f64,i8,u8
SpaceToDepth 28 T=f32,f64,i8,u8
Split 2-10 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Split 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Split 13-17 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Split 18 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
SplitToSequence 11-23 I=i32,i64 S= T=bool,f16,f32,f64,i32,i64,str
SplitToSequence 24 I=i32,i64 S= T=bool,f16,f32,f64,i32,i64,str
Sqrt 6-12 T=f32,f64
Sqrt 13 T=f32,f64
Squeeze 1-10 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Squeeze 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Squeeze 13-20 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Squeeze 21-22 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Squeeze 23-23 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Squeeze 24-24 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Squeeze 25 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
StringConcat 20 T=str
StringNormalizer 10 X=str
StringSplit 20 T1=str T2=str T3=i64
Sub 7-12 T=f32,f64,i32,i64,u32,u64
Sub 13-13 T=f32,f64,i32,i64,u32,u64
Sub 14 T=f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
Sum 6-7 T=f32,f64
Sum 8-12 T=f32,f64
Sum 13 T=f32,f64
Tan 7-21 T=f32
Tan 22 T=f32
Tanh 6-12 T=f32,f64
Tanh 13 T=f32,f64
TensorScatter 24 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,u16,u32,u64,u8
TfIdfVectorizer 9 T=i32,i64,str T1=f32
ThresholdedRelu 1-9 T=f32
ThresholdedRelu 10-21 T=f32
ThresholdedRelu 22 T=f32
Tile 6-12 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
Tile 13 T=bool,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8 T1=i64
TopK 1-9 I=i64 T=f32,f64
TopK 10-10 I=i64 T=f32,f64
TopK 11-23 I=i64 T=f32,f64,i16,i32,i64,i8,u8
TopK 24 I=i64 T=f32,f64,i16,i32,i64,i8,u8
Transpose 1-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Transpose 13-20 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Transpose 21-22 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i4,i64,i8,str,u16,u32,u4,u64,u8
Transpose 23-23 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i4,i64,i8,str,u16,u32,u4,u64,u8
Transpose 24-24 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i32,i4,i64,i8,str,u16,u32,u4,u64,u8
Transpose 25 T=bf16,bool,f16,f32,f64,f8e4m3fn,f8e4m3fnuz,f8e5m2,f8e5m2fnuz,i16,i2,i32,i4,i64,i8,str,u16,u2,u32,u4,u64,u8
Trilu 14 T=bool,f32,f64,i32,i64
Unique 11-27 T=f32,f64,i64,i8,str
Unique 28 T=bf16,f32,f64,i64,i8,str
Unsqueeze 1-10 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Unsqueeze 11-12 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Unsqueeze 13-20 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Unsqueeze 21-22 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Unsqueeze 23-23 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Unsqueeze 24-24 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Unsqueeze 25 T=bf16,bool,f16,f32,f64,i16,i32,i64,i8,str,u16,u32,u64,u8
Upsample 7-8 T=f32,i32,i8,u8
Upsample 9-9 T=f32,i32,i8,u8
Where 9-15 T=f32,f64,i32,i64,i8,str,u32,u8
Where 16 T=f32,f64,i32,i64,i8,str,u32,u8
Xor 7 T=bool T1=bool
"""  # noqa: E501
