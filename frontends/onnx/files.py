"""Reads files that say that they are ONNX models, and believes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from isthmus.ir.errors import FileError


def read(path: Path) -> Any:
    """The ModelProto in a file, without its external data.

    Raises:
        FileError: there is no such file, or it is no ONNX model.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise FileError(f"{path} is no ONNX model: it cannot be decoded", remedy="give a file that onnx.save wrote") from error
    if not model.HasField("graph"):
        raise FileError(f"{path} is no ONNX model: it holds no graph")
    return model
