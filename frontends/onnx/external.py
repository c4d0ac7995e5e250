"""Tensors whose content is in another file, which must lie in the model's own folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from isthmus.ir.errors import FileError


def place(proto: Any, nbytes: int, folder: Path | None) -> tuple[Path, int]:
    """The file that holds the content of a tensor with ``data_location`` external, and where in it that begins.

    Args:
        proto: the TensorProto.
        nbytes: how many bytes it must take.
        folder: the folder that the file must lie in.

    Raises:
        FileError: the entry is malformed, or the file is outside the folder, missing, too short or no regular file.
    """
    what = f"the tensor {proto.name!r}"
    entries = {entry.key: entry.value for entry in proto.external_data}
    if folder is None:
        raise FileError(f"{what} is in another file, and the model is not in a folder", remedy="give the path of the model")
    path = _inside(folder, entries.get("location", ""), what)
    offset, length = (_number(entries, key, default, what) for key, default in (("offset", 0), ("length", nbytes)))
    if length != nbytes:
        raise FileError(f"{what} says that it takes {length} bytes", expected=f"{nbytes}, as its sizes say")
    size = path.stat().st_size
    if offset + nbytes > size:
        raise FileError(f"{path} is too short for {what}", expected=f"{nbytes} bytes at {offset}", found=f"{size} bytes in all")
    return path, offset


def _inside(folder: Path, location: str, what: str) -> Path:
    """The path of a location, which must not lead out of the folder, links included."""
    root = folder.resolve()
    path = root / location
    if not location or os.path.isabs(location) or not path.resolve().is_relative_to(root):
        raise FileError(f"{what} is in {location!r}, which is not in the model's folder", remedy="put it beside the model")
    try:
        state = path.stat()
    except OSError as error:
        raise FileError(f"{path}, which holds {what}, cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(state.st_mode):
        raise FileError(f"{path}, which holds {what}, is no file")
    return path


def _number(entries: dict[str, str], key: str, default: int, what: str) -> int:
    text = entries.get(key, "") or str(default)
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise FileError(f"{what} gives {text!r} as the {key} of its content", expected="a number of bytes")
    return int(text)
