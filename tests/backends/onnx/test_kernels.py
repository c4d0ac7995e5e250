from __future__ import annotations

import onnx
import onnxruntime
import pytest

from isthmus.backends.onnx import kernels, opsets
from isthmus.ir import dtypes


@pytest.mark.skipif(onnxruntime.__version__ != kernels.VERSION, reason=f"the table is of onnxruntime {kernels.VERSION}")
def test_table_is_that_of_the_runtime() -> None:
    assert kernels.kernels() == kernels.installed()


def test_signature_joins_standard_and_runtime() -> None:
    conv = opsets.signature("Conv", 17)
    assert conv is not None
    assert conv.refusal(0, dtypes.f32) is None
    assert conv.refusal(0, dtypes.f16) is None  # by casts around it
    assert conv.refusal(0, dtypes.f64) == "onnxruntime has no kernel for Conv-11 on f64"
    assert conv.refusal(0, dtypes.i32) == "Conv-11 does not take i32"


def test_concrete_types_are_held() -> None:
    reshape = opsets.signature("Reshape", 17)
    assert reshape is not None
    assert reshape.refusal(1, dtypes.i32) == "Reshape takes i64 for input 1, not i32"


def test_op_that_is_not_there_yet() -> None:
    assert opsets.signature("Gelu", 19) is None
    assert opsets.signature("Gelu", 20) is not None


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_element_type_has_its_number(dtype: dtypes.DType) -> None:
    assert opsets.by_enum(opsets.enum(dtype)) is dtype


@pytest.mark.parametrize(("opset", "version"), [(13, 7), (17, 8), (18, 8), (21, 10), (23, 11)])
def test_files_are_as_old_as_the_opset_allows(opset: int, version: int) -> None:
    assert opsets.ir_version(opset) == version


def test_element_types_have_the_numbers_of_the_standard() -> None:
    numbers = set(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
    assert numbers == set(dtypes.BY_ONNX)
    others = {number: each for number, each in dtypes.BY_ONNX.items() if each is not dtypes.string}
    assert {number: onnx.helper.tensor_dtype_to_np_dtype(number) for number in others} == {
        number: each.numpy for number, each in others.items()
    }
