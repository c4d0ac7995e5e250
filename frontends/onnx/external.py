"""The files that a model's tensors lie in: the model's own, and others, which must lie in its folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

from isthmus.frontends.onnx.held import HeldFile
from isthmus.ir.errors import FileError

OWN: Final = "\0"
"""The location of tensors whose content is in the model's file itself; no file has such a name."""


class Files:
    """The files of one model, each opened once.

    Args:
        own: the model's file.

    Attributes:
        opened: all of them, by path; the model's own first.
    """

    def __init__(self, own: HeldFile) -> None:
        self.own = own
        self.folder = own.path.parent.resolve()
        self.opened = {own.path: own}

    @property
    def outside(self) -> bool:
        """Whether tensors lie in other files than the model's own."""
        return len(self.opened) > 1

    def at(self, location: str, what: str) -> HeldFile:
        """The file at a location, which must not lead out of the folder, links included.

        Raises:
            FileError: it does, or no regular file is there.
        """
        if location == OWN:
            return self.own
        path = self.folder / location
        if path in self.opened:
            return self.opened[path]
        if not location or os.path.isabs(location) or "\0" in location or not self._inside(path):
            remedy = "put it beside the model"
            raise FileError(f"{what} is in {location!r}, which is not in the model's folder", remedy=remedy)
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise FileError(f"{path}, which holds {what}, is no file")
            file = self.opened[path] = HeldFile(path)
        except OSError as error:
            raise FileError(f"{path}, which holds {what}, cannot be read: {error.strerror}") from error
        return file

    def _inside(self, path: Path) -> bool:
        try:
            return path.resolve().is_relative_to(self.folder)
        except (OSError, RuntimeError):  # links that lead to each other
            return False


def place(proto: Any, nbytes: int, files: Files | None) -> tuple[HeldFile, int]:
    """The file that holds the content of a tensor with ``data_location`` external, and where in it that begins.

    Args:
        proto: the TensorProto.
        nbytes: how many bytes it must take.
        files: the model's; None where it is in none.

    Raises:
        FileError: the entry is malformed, or the file is outside the folder, missing, too short or no regular file.
    """
    what = f"the tensor {proto.name!r}"
    entries = {entry.key: entry.value for entry in proto.external_data}
    if files is None:
        raise FileError(f"{what} is in another file, and the model is not in a folder", remedy="give the path of the model")
    file = files.at(entries.get("location", ""), what)
    offset, length = (_number(entries, key, default, what) for key, default in (("offset", 0), ("length", nbytes)))
    if length != nbytes:
        found = f"{what} holds {length} bytes" if file is files.own else f"{what} says that it takes {length} bytes"
        raise FileError(found, expected=f"{nbytes}, as its sizes say")
    if offset + nbytes > file.size:
        expected, found = f"{nbytes} bytes at {offset}", f"{file.size} bytes in all"
        raise FileError(f"{file.path} is too short for {what}", expected=expected, found=found)
    return file, offset


def _number(entries: dict[str, str], key: str, default: int, what: str) -> int:
    text = entries.get(key, "") or str(default)
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise FileError(f"{what} gives {text!r} as the {key} of its content", expected="a number of bytes")
    return int(text)
