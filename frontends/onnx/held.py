"""Files that are held open while a model is in use: weights are read from them, wherever their names lead meanwhile.

A file that is saved in the place of one that is held open (written beside it and renamed) is another file. What is held
stays what it was, so that a model can be saved over the file that it was read from.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isthmus.ir.dtypes import DType
from isthmus.ir.errors import FileError
from isthmus.ir.weights import CHUNK_BYTES, READ_BYTES, Array, Weight


class HeldFile:
    """A regular file, open for reading as long as this object lives.

    Attributes:
        path: the name that it was opened by.
        size: its bytes.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._stamp = _state(os.fstat(self._file))
        self.size = self._stamp[2]

    @property
    def key(self) -> Hashable:
        """Equal for the same file in the same state."""
        return self._stamp

    def check(self) -> None:
        """Raises FileError where the content was written to since."""
        if _state(os.fstat(self._file)) != self._stamp:
            raise FileError(f"{self.path} has changed since it was read", remedy="load the model again")

    def check_name(self) -> None:
        """Raises FileError where the name leads to another file by now."""
        try:
            found = _state(os.stat(self.path))
        except OSError as error:
            raise FileError(f"{self.path} cannot be read: {error.strerror}") from error
        if found != self._stamp:
            raise FileError(f"{self.path} is not the file any more that was read", remedy="load the model again")

    def read(self, offset: int, count: int) -> Array:
        """Bytes of the file, in memory of their own.

        Raises:
            FileError: it holds fewer, or cannot be read.
        """
        found: Array = np.empty(count, np.uint8)
        room, done = memoryview(found.data), 0
        try:
            while done < count:
                got = os.preadv(self._file, [room[done:]], offset + done)
                if not got:
                    raise FileError(f"{self.path} is too short", expected=f"{count} bytes at {offset}")
                done += got
        except OSError as error:
            raise FileError(f"{self.path} cannot be read: {error.strerror}") from error
        return found

    @cached_property
    def content(self) -> mmap.mmap:
        """The whole, mapped; for files that are not empty."""
        return mmap.mmap(self._file, 0, access=mmap.ACCESS_READ)

    def view(self, offset: int, count: int, dtype: Any) -> Array:
        """Elements of the file, mapped. With the last view of them their pages go."""
        found: Array = np.frombuffer(self.content, dtype, count, offset)
        start = offset - offset % mmap.PAGESIZE
        going = weakref.finalize(found, self.content.madvise, mmap.MADV_DONTNEED, start, offset + found.nbytes - start)
        going.atexit = False
        return found


def _state(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class HeldWeight(Weight):
    """A weight in a file that is held open: elements of whole bytes, little-endian, row-major.

    Args:
        file: the file, which must be long enough.
        offset: where in it the weight begins.
        dtype, shape, name: as for every weight.
    """

    __slots__ = ("file", "offset")

    def __init__(self, file: HeldFile, offset: int, dtype: DType, shape: Sequence[int], name: str = "") -> None:
        super().__init__(dtype, shape, name)
        self.file = file
        self.offset = offset

    @property
    def key(self) -> Hashable:
        return ("file", self.file.key, self.offset, self.dtype.name, self.shape)

    def array(self) -> Array:
        return self._part(self.offset, self.shape)

    def rows(self, start: int, stop: int) -> Array:
        width = self.nbytes // self.shape[0] if self.shape[0] else 0
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        return self._part(self.offset + start * width, (max(0, stop - start), *self.shape[1:]))

    def _part(self, offset: int, shape: tuple[int, ...]) -> Array:
        """Mapped where that is worth it and the elements begin where the machine wants them to, else read."""
        self.file.check()
        kind = np.dtype(self.dtype.numpy)
        size = int(np.prod(shape, dtype=object))
        if size * kind.itemsize <= READ_BYTES or offset % kind.alignment:
            found: Array = self.file.read(offset, size * kind.itemsize).view(kind)
            found.flags.writeable = False
        else:
            found = self.file.view(offset, size, kind)
        return found.reshape(shape)

    def chunks(self) -> Iterator[memoryview]:
        self.file.check()
        for start in range(0, self.nbytes, CHUNK_BYTES):
            yield self.file.read(self.offset + start, min(CHUNK_BYTES, self.nbytes - start)).data
