"""Protobuf's wire format, written piece by piece: what every room with protobuf files needs.

A message is only its fields one behind the other, each a tag and perhaps a length; so it can be written in parts, and
weights go from their handles straight into the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from isthmus.ir.errors import FileError
from isthmus.ir.weights import Weight

LENGTH_DELIMITED: Final = 2

LIMIT: Final = 2**31 - 1
"""The greatest size of a protobuf message."""


class Writer(Protocol):
    """What bytes are written to."""

    def write(self, data: Any, /) -> Any:
        """Takes all the bytes."""


def varint(number: int) -> bytes:
    """A number as protobuf writes it: seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def header(field: int, length: int) -> bytes:
    """What stands in front of a field of so many bytes."""
    return varint(field << 3 | LENGTH_DELIMITED) + varint(length)


def copy(weight: Weight, out: Writer) -> None:
    """Writes a weight's bytes.

    Raises:
        FileError: the handle gives another number of bytes than its type says.
    """
    if weight.dtype.kind == "string":
        return
    count = 0
    for chunk in weight.chunks():
        count += chunk.nbytes
        out.write(chunk)
    if count != weight.nbytes:
        raise FileError(f"the weight {weight.name!r} gave {count} bytes", expected=f"{weight.nbytes} bytes for {weight!r}")


def collect(write: Callable[[Writer], None]) -> bytes:
    """What a function writes, as bytes."""
    parts: list[bytes] = []

    class Collector:
        def write(self, data: Any, /) -> None:
            parts.append(bytes(data))

    write(Collector())
    return b"".join(parts)
