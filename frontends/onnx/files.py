"""Reads files that say that they are ONNX models, and believes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from isthmus.frontends.onnx.external import Files
from isthmus.frontends.onnx.held import HeldFile
from isthmus.frontends.onnx.wire import light
from isthmus.ir.errors import FileError


def read(path: Path) -> tuple[Any, Files | None]:
    """The model in a file, without its external data; its own large tensors stay in the file, too.

    Returns:
        The ModelProto, and the files that its tensors lie in; None where what the path leads to can only be read once.

    Raises:
        FileError: there is no such file, or it is no ONNX model.
    """
    model = onnx.ModelProto()
    try:
        files = Files(HeldFile(path)) if path.is_file() else None
        model.ParseFromString(path.read_bytes() if files is None else _content(files.own))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    except DecodeError as error:
        raise FileError(f"{path} is no ONNX model: it cannot be decoded", remedy="give a file that onnx.save wrote") from error
    if not model.HasField("graph"):
        raise FileError(f"{path} is no ONNX model: it holds no graph")
    return model, files


def _content(file: HeldFile) -> bytes:
    if not file.size:
        return b""
    found = light(file.content, file.size)
    return file.read(0, file.size).tobytes() if found is None else found
