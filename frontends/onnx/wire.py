"""An ONNX file without its weights: what is large is left where it lies, and protobuf parses the small rest.

A protobuf message is its fields one behind the other, each with a tag and perhaps a length. Messages that are too small to
hold a large tensor are stepped over whole. What looks odd here is left to protobuf, which says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from isthmus.frontends.onnx.external import OWN
from isthmus.ir.protobuf_wire import LENGTH_DELIMITED, header

LARGE: Final = 1 << 12
"""Contents of fewer bytes are parsed."""

RAW_DATA: Final = 9
VARINT, FIXED64, FIXED32 = 0, 1, 5

MODEL: Final = "ModelProto"
TENSOR: Final = "TensorProto"
SPARSE: Final = "SparseTensorProto"
NESTED: Final[dict[str, dict[int, str]]] = {
    MODEL: {7: "GraphProto", 25: "FunctionProto"},
    "GraphProto": {1: "NodeProto", 5: TENSOR, 15: SPARSE},
    "FunctionProto": {7: "NodeProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {5: TENSOR, 6: "GraphProto", 10: TENSOR, 11: "GraphProto", 22: SPARSE, 23: SPARSE},
    SPARSE: {1: TENSOR, 2: TENSOR},
}  # fmt: skip
"""The fields of onnx.proto's messages, by number, in which tensors lie."""


class Bytes(Protocol):
    """What can be looked at byte by byte, such as a mapped file."""

    def __getitem__(self, place: Any, /) -> Any: ...


class Odd(Exception):
    """Nothing that is known here."""


def light(data: Bytes, size: int) -> bytes | None:
    """A ModelProto in which large tensors refer to the place of their content, as those with external data do.

    Args:
        data: the file.
        size: its bytes.

    Returns:
        The message; None where there is nothing to take out, or something is odd.
    """
    try:
        return _light(data, 0, size, MODEL)
    except (Odd, IndexError, DecodeError, RecursionError):
        return None


def _varint(data: Bytes, at: int) -> tuple[int, int]:
    """A number, and the place behind it."""
    found = shift = 0
    while True:
        byte = data[at]
        found |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return found, at
        shift += 7
        if shift > 63:
            raise Odd


def _behind(data: Bytes, at: int, wire: int) -> int:
    """The place behind a field without a length."""
    if wire == VARINT:
        return _varint(data, at)[1]
    if wire not in (FIXED32, FIXED64):
        raise Odd
    return at + (4 if wire == FIXED32 else 8)


def _fields(data: Bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message that have a length: the number, where it begins, where its content does, and where it ends."""
    at = start
    while at < end:
        field = at
        tag, at = _varint(data, at)
        if tag & 7 != LENGTH_DELIMITED:
            at = _behind(data, at, tag & 7)
            continue
        length, at = _varint(data, at)
        if at + length > end:
            raise Odd
        yield tag >> 3, field, at, at + length
        at += length
    if at != end:
        raise Odd


def _light(data: Bytes, start: int, end: int, kind: str) -> bytes | None:
    """A message without what is large in it; None where nothing is."""
    parts: list[bytes] = []
    kept = start
    nested = NESTED[kind]
    for number, field, content, behind in _fields(data, start, end):
        inner = nested.get(number) if behind - content >= LARGE else None
        if inner is not None:
            lighter = (_tensor if inner == TENSOR else _light)(data, content, behind, inner)
            if lighter is not None:
                parts += [data[kept:field], header(number, len(lighter)), lighter]
                kept = behind
    return b"".join([*parts, data[kept:end]]) if parts else None


def _tensor(data: Bytes, start: int, end: int, kind: str) -> bytes | None:
    """A TensorProto that tells the place of its content; None where it is not large, or is elsewhere anyway."""
    places = [rest for number, *rest in _fields(data, start, end) if number == RAW_DATA]
    if len(places) != 1:
        return None
    field, content, behind = places[0]
    if behind - content < LARGE:
        return None
    proto = onnx.TensorProto.FromString(data[start:field] + data[behind:end])
    if proto.external_data or proto.data_location or proto.data_type == onnx.TensorProto.STRING:
        return None
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", OWN), ("offset", content), ("length", behind - content)):
        proto.external_data.add(key=key, value=str(value))
    return bytes(proto.SerializeToString())
