"""Weights: handles onto arrays that are loaded when they are touched and never copied to be kept.

A handle may be a lazy chain over others: folding batch norm into a convolution makes such a chain, not an array. It is
evaluated only while it is streamed out, where it can be piece by piece.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from isthmus.ir.dtypes import DType, from_numpy
from isthmus.ir.errors import FileError

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

CHUNK_BYTES: Final = 1 << 20
"""About how many bytes a stream hands out at a time."""

READ_BYTES: Final = 1 << 14
"""Weights in files of up to so many bytes are read rather than mapped: a mapping makes the system read far ahead."""


class Weight(ABC):
    """A constant tensor that is somewhere else.

    Attributes:
        dtype: element type.
        shape: sizes, all integers.
        name: the framework's name for it, such as ``layer1.0.conv1.weight``; empty when it has none.
        size: the number of elements.
        nbytes: the number of bytes that `chunks` yields in all; sub-byte elements are packed, strings count as 0.
    """

    __slots__ = ("_digest", "dtype", "name", "nbytes", "shape", "size")

    def __init__(self, dtype: DType, shape: Sequence[int], name: str = "") -> None:
        self.dtype = dtype
        self.shape = tuple(shape)
        self.name = name
        self.size = math.prod(self.shape)
        self.nbytes = (self.size * dtype.bits + 7) // 8
        self._digest: str | None = None

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Equal for handles onto the same data, such as tied weights."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Array:
        """The part from `start` to `stop` along the first axis (rank 1 and up)."""

    @abstractmethod
    def array(self) -> Array:
        """The whole, as a numpy array that must not be written to."""

    @property
    def address(self) -> int | None:
        """Where the content lies in memory that may be mapped from a file; None where it does not."""
        return None

    @property
    def row_wise(self) -> bool:
        """Whether `rows` costs no more than its share of `array`."""
        return True

    def chunks(self) -> Iterator[memoryview]:
        """The bytes in row-major, little-endian order, about `CHUNK_BYTES` at a time.

        Sub-byte elements are packed, the first into the lowest bits, as ONNX lays them out.
        """
        bits = self.dtype.bits
        rows = self.shape[0] if self.shape else 0
        step = max(1, CHUNK_BYTES * rows // max(1, self.nbytes))
        if bits % 8 or rows <= step or not self.row_wise:
            whole = np.asarray(self.array(), order="C")
            if bits % 8:
                yield _pack(whole, bits).data
            elif whole.size:
                yield whole.reshape(-1).view(np.uint8).data
            return
        for start in range(0, rows, step):
            part = np.asarray(self.rows(start, min(rows, start + step)), order="C")
            if part.size:
                yield part.reshape(-1).view(np.uint8).data

    def digest(self) -> str:
        """A hash of dtype, shape and content, computed once."""
        if self._digest is None:
            hasher = hashlib.blake2b(f"{self.dtype}{list(self.shape)}".encode(), digest_size=16)
            if self.dtype.kind == "string":
                hasher.update(repr(self.array().tolist()).encode())
            else:
                for chunk in self.chunks():
                    hasher.update(chunk)
            self._digest = hasher.hexdigest()
        return self._digest

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.name or '-'}: {self.dtype}{list(self.shape)})"


def _pack(array: Array, bits: int) -> Array:
    codes: Array = array.reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    if bits == 6:
        six: Array = np.unpackbits(codes[:, None], axis=1, count=6, bitorder="little")
        return np.packbits(six.reshape(-1), bitorder="little")
    per_byte = 8 // bits
    codes = np.concatenate([codes, np.zeros(-len(codes) % per_byte, np.uint8)]).reshape(-1, per_byte)
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    packed: Array = np.bitwise_or.reduce(codes << shifts, axis=1).astype(np.uint8)
    return packed


class ArrayWeight(Weight):
    """A weight in memory that numpy can see. The array is kept, not copied."""

    __slots__ = ("_array",)

    def __init__(self, array: Array, name: str = "") -> None:
        super().__init__(from_numpy(array.dtype), array.shape, name)
        self._array = array

    @property
    def key(self) -> Hashable:
        # A view of the same bytes is the same weight; a zero-sized or broadcast array is told apart by its strides.
        interface = self._array.__array_interface__
        return ("memory", interface["data"][0], self.dtype.name, self.shape, self._array.strides)

    @property
    def address(self) -> int | None:
        root: Any = self._array
        while isinstance(root, np.ndarray) and root.base is not None:
            root = root.base
        if isinstance(root, bytes) or (isinstance(root, np.ndarray) and root.flags.owndata):
            return None  # it was allocated
        return int(self._array.__array_interface__["data"][0])

    def array(self) -> Array:
        return self._array

    def rows(self, start: int, stop: int) -> Array:
        return self._array[start:stop]


class MappedWeight(Weight):
    """A weight in a file, mapped when touched: elements of whole bytes, little-endian, row-major.

    Raises:
        FileError: the file does not hold that many bytes at that place. Reading it, too: it is not the file any more that it
            was, for instance since something was saved over it.
        ValueError: the elements are not of whole bytes.
    """

    __slots__ = ("_stamp", "offset", "path")

    def __init__(self, path: str | os.PathLike[str], offset: int, dtype: DType, shape: Sequence[int], name: str = "") -> None:
        super().__init__(dtype, shape, name)
        self.path = os.path.abspath(path)
        self.offset = offset
        if dtype.bits % 8 or not dtype.bits:
            raise ValueError(f"elements of {dtype} cannot be mapped")
        self._stamp = self._state()
        if offset < 0 or offset + self.nbytes > self._stamp[2]:
            raise FileError(f"{self.path} is too short for the weight {name!r}", expected=f"{self.nbytes} bytes at {offset}")

    @property
    def key(self) -> Hashable:
        return ("file", self.path, self._stamp, self.offset, self.dtype.name, self.shape)

    def _state(self) -> tuple[int, int, int, int]:
        """Tells a file from others and from itself after a change."""
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise FileError(f"{self.path}, which holds the weight {self.name!r}, cannot be read: {error.strerror}") from error
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def check(self) -> None:
        """Raises FileError when the file is not any more what it was."""
        if self._state() != self._stamp:
            raise FileError(
                f"{self.path}, which holds the weight {self.name!r}, has changed since it was read",
                remedy="load the model again; save to another file than the one that its weights are in",
            )

    def array(self) -> Array:
        self.check()
        if not self.size:
            return np.empty(self.shape, self.dtype.numpy)
        try:
            if self.nbytes <= READ_BYTES:
                read: Array = np.fromfile(self.path, self.dtype.numpy, self.size, offset=self.offset).reshape(self.shape)
                read.flags.writeable = False
                return read
            return np.memmap(self.path, self.dtype.numpy, "r", self.offset, self.shape or (1,)).reshape(self.shape)
        except (OSError, ValueError) as error:
            raise FileError(f"{self.path}, which holds the weight {self.name!r}, cannot be read: {error}") from error

    def rows(self, start: int, stop: int) -> Array:
        return self.array()[start:stop]


class LazyWeight(Weight):
    """A weight that is computed from others whenever it is read, and not kept.

    Args:
        dtype: element type of the result.
        shape: sizes of the result.
        compute: the function from the sources' arrays to the result; pure.
        sources: what it is computed from.
        signature: says what `compute` does; with the sources' keys it makes the key.
        elementwise: `compute` is elementwise with numpy's broadcasting, so a part can be computed from parts.
        name: the framework's name for the result.
    """

    __slots__ = ("compute", "elementwise", "signature", "sources")

    def __init__(
        self,
        dtype: DType,
        shape: Sequence[int],
        compute: Callable[..., Array],
        sources: Sequence[Weight],
        signature: Hashable,
        elementwise: bool = False,
        name: str = "",
    ) -> None:
        super().__init__(dtype, shape, name)
        self.compute = compute
        self.sources = tuple(sources)
        self.signature = signature
        self.elementwise = elementwise

    @property
    def key(self) -> Hashable:
        return ("lazy", self.signature, tuple(source.key for source in self.sources))

    @property
    def row_wise(self) -> bool:
        return self.elementwise and all(source.row_wise for source in self.sources)

    def array(self) -> Array:
        return self.compute(*(source.array() for source in self.sources))

    def rows(self, start: int, stop: int) -> Array:
        if not self.row_wise:
            return self.array()[start:stop]
        rank = len(self.shape)
        # A source of lower rank, or of size 1 in front, is broadcast along the rows and read whole.
        return self.compute(*(
            source.rows(start, stop) if len(source.shape) == rank and source.shape[0] != 1 else source.array()
            for source in self.sources
        ))  # fmt: skip


def weight(value: object, dtype: DType | None = None, name: str = "") -> Weight:
    """A handle for a number, a nested list, an array or a handle.

    Args:
        value: what to hold; arrays are not copied unless their dtype differs or their bytes are in big-endian order.
        dtype: element type wanted; the array's own by default.
        name: the framework's name for it.
    """
    if isinstance(value, Weight):
        return value
    array = np.asarray(value)
    if dtype is not None and dtype.kind != "string":
        array = array.astype(dtype.numpy, copy=False)
    elif not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return ArrayWeight(array.astype(object) if array.dtype.kind in "UST" else array, name)
