"""ONNX's constants as weights: what a ``TensorProto`` holds, where it holds it, nothing copied that need not be."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import onnx

from isthmus.frontends.onnx.external import Files, place
from isthmus.frontends.onnx.held import HeldWeight
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir import dtypes
from isthmus.ir.errors import FileError
from isthmus.ir.op import MOST_AXES
from isthmus.ir.weights import ArrayWeight, Weight

MOST_ELEMENTS: Final = 1 << 40
"""No tensor of a file has more elements: beyond that a size is a lie or a mistake."""
MOST_DENSE: Final = 1 << 30
"""No sparse tensor takes more bytes when it is written out."""


def weight_of(proto: Any, files: Files | None) -> Weight:
    """The content of a tensor.

    Args:
        proto: a TensorProto.
        files: the files that the model's tensors lie in; None for a model that is in none.

    Raises:
        FileError: sizes, element type and content do not go together, or external data is not where it says.
    """
    what = f"the tensor {proto.name!r}"
    dtype = dtype_of(proto.data_type, what)
    shape = tuple(proto.dims)
    _check_shape(what, shape)
    if dtype is not dtypes.string:
        nbytes = (math.prod(shape) * dtype.bits + 7) // 8
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            file, offset = place(proto, nbytes, files)
            if dtype.bits % 8 == 0:
                return HeldWeight(file, offset, dtype, shape, proto.name)
            packed = file.read(offset, nbytes).tobytes()
            proto = onnx.TensorProto(name=proto.name, data_type=proto.data_type, dims=shape, raw_data=packed)
        if proto.HasField("raw_data"):
            if len(proto.raw_data) != nbytes:
                raise FileError(f"{what} holds {len(proto.raw_data)} bytes", expected=f"{nbytes} for {dtype}{list(shape)}")
            if dtype.bits % 8 == 0:
                return ArrayWeight(np.frombuffer(proto.raw_data, dtype.numpy).reshape(shape), proto.name)
    elif proto.data_location == onnx.TensorProto.EXTERNAL:
        raise FileError(f"{what} is of strings, which cannot be in another file")
    try:
        array = onnx.numpy_helper.to_array(proto)
    except (ValueError, TypeError) as error:
        raise FileError(f"{what} does not hold what its sizes {list(shape)} say: {error}") from error
    if dtype is dtypes.string:
        return ArrayWeight(_texts(array, shape), proto.name)
    return ArrayWeight(array.astype(dtype.numpy, copy=False).reshape(shape), proto.name)


def _check_shape(what: str, shape: tuple[int, ...]) -> None:
    if len(shape) > MOST_AXES or any(size < 0 for size in shape) or math.prod(size or 1 for size in shape) > MOST_ELEMENTS:
        raise FileError(f"{what} has the sizes {list(shape)}")


def _texts(array: Any, shape: tuple[int, ...]) -> Any:
    texts = np.empty(shape, object)
    texts.reshape(-1)[:] = [
        item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item) for item in array.flat
    ]
    return texts


def dense(proto: Any, files: Files | None) -> Weight:
    """A sparse tensor, written out.

    Raises:
        FileError: its indices are not within its sizes.
    """
    values = weight_of(proto.values, files).array()
    indices = weight_of(proto.indices, files).array()
    shape = tuple(proto.dims)
    what = f"the sparse tensor {proto.values.name!r}"
    _check_shape(what, shape)
    nbytes = math.prod(shape) * values.itemsize
    if nbytes > MOST_DENSE:
        raise FileError(f"{what} takes {nbytes} bytes once it is written out", expected=f"up to {MOST_DENSE}")
    result = np.zeros(shape, values.dtype)
    least = 0 if indices.size == 0 else indices.min()
    if values.ndim != 1 or indices.ndim not in (1, 2) or indices.dtype != np.int64 or len(indices) != len(values) or least < 0:
        raise FileError(f"{what} has indices that do not fit", found=f"indices {list(indices.shape)} from {least}")
    try:
        if indices.ndim == 2:
            result[tuple(indices.T)] = values
        else:
            result.reshape(-1)[indices] = values
    except (IndexError, ValueError) as error:
        raise FileError(f"{what} has indices that do not fit the sizes {list(shape)}") from error
    return ArrayWeight(result, proto.values.name)
