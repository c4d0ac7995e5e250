"""Caffemodel, protobuf's binary form: written with the weights straight from their handles, read without copying them."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from isthmus.backends.caffe.schema import DEPTH, FLOATS, VARINTS, Field, Message, Schema
from isthmus.ir.errors import FileError
from isthmus.ir.protobuf_wire import LENGTH_DELIMITED, LIMIT, Writer, copy, header, varint
from isthmus.ir.weights import Weight

Part: TypeAlias = "bytes | Weight"

_VARINT: Final = 0
_FORMATS: Final = {"f32": "<f", "f64": "<d"}
_WIRE: Final = {"f32": 5, "f64": 1}


def write(message: Message, schema: Schema, out: Writer) -> None:
    """Writes a message; a weight in a field of packed numbers is streamed.

    Raises:
        FileError: it would be larger than 2 GB, or a weight gives another number of bytes than its type says.
    """
    parts, length = _parts(message, schema)
    if length > LIMIT:
        raise FileError(f"a caffemodel holds 2 GB at most, and this needs {length} bytes", remedy="use a smaller model")
    for part in parts:
        if isinstance(part, bytes):
            out.write(part)
        else:
            copy(part, out)


def _parts(message: Message, schema: Schema) -> tuple[list[Part], int]:
    parts: list[Part] = []
    length = 0

    def add(*more: Part) -> None:
        nonlocal length
        parts.extend(more)
        length += sum(len(part) if isinstance(part, bytes) else part.nbytes for part in more)

    for name, content in message.fields.items():
        row = schema.messages[message.type][name]
        if isinstance(content, Weight):
            add(header(row.number, content.nbytes), content)
        elif row.packed:
            body = b"".join(_scalar(item, row, schema) for item in content)
            add(header(row.number, len(body)), body)
        else:
            for item in content if row.repeated else (content,):
                if isinstance(item, Message):
                    inner, size = _parts(item, schema)
                    add(header(row.number, size), *inner)
                elif row.type in ("str", "bytes"):
                    body = item.encode() if isinstance(item, str) else item
                    add(header(row.number, len(body)), body)
                else:
                    add(varint(row.number << 3 | _WIRE.get(row.type, _VARINT)), _scalar(item, row, schema))
    return parts, length


def _scalar(item: Any, row: Field, schema: Schema) -> bytes:
    if row.type in FLOATS:
        return struct.pack(_FORMATS[row.type], item)
    number = schema.enums[row.type][item] if row.type in schema.enums else int(item)
    return varint(number & (2**64 - 1))


# ---- reading


def read(path: str | Path, schema: Schema, type: str = "NetParameter") -> Message:
    """The message in a file. Packed floats become arrays over the file's memory, mapped and not copied.

    Raises:
        FileError: the file cannot be opened, is cut short, lies about a length, or has a field that the schema lacks.
    """
    try:
        with open(path, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if Path(path).stat().st_size else b""
    except OSError as error:
        raise FileError(f"{path} could not be read: {error.strerror}") from error
    return decode(memoryview(content), schema, str(path), type)


def decode(content: memoryview, schema: Schema, source: str, type: str = "NetParameter") -> Message:
    """`read` from bytes in memory."""
    return _Reader(content, schema, source).message(type, 0, len(content), 0)


class _Reader:
    def __init__(self, content: memoryview, schema: Schema, source: str) -> None:
        self.content = content
        self.schema = schema
        self.source = source

    def fail(self, message: str, place: int) -> NoReturn:
        raise FileError(f"{self.source}: {message} at byte {place}")

    def varint(self, place: int, end: int) -> tuple[int, int]:
        number = shift = 0
        start = place
        while True:
            if place >= end:
                self.fail("the file is cut short: a number does not end", start)
            byte = self.content[place]
            place += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number, place
            if shift >= 70:
                self.fail("a number has more than ten bytes", start)

    def message(self, type: str, place: int, end: int, depth: int) -> Message:
        if depth > DEPTH:
            self.fail(f"messages nest more than {DEPTH} deep", place)
        made = Message(type)
        table = self.schema.numbers[type]
        runs: dict[str, list[Any]] = {}  # of fields that repeat: each run of numbers, packed or of one
        while place < end:
            start = place
            tag, place = self.varint(place, end)
            number, wire = tag >> 3, tag & 7
            row = table.get(number)
            if row is None:
                self.fail(f"{type} has no field {number}", start)
            if wire == LENGTH_DELIMITED:
                length, place = self.varint(place, end)
                if length > end - place:
                    self.fail(f"{type}.{row.name} claims {length} bytes and {end - place} are left", start)
                item, place = self.delimited(row, place, place + length, depth + 1), place + length
                if row.repeated and not isinstance(item, (np.ndarray, list)):
                    item = [item]
            else:
                item, place = self.scalar(row, wire, place, end, start)
                item = [item] if row.repeated else item
            if row.repeated:
                runs.setdefault(row.name, []).append(item)
            elif row.name in made.fields:
                self.fail(f"{type}.{row.name} is there twice", start)
            else:
                made.fields[row.name] = item
        for name, found in runs.items():
            floats = isinstance(found[0], np.ndarray) and len(found) == 1
            made.fields[name] = found[0] if floats else [item for run in found for item in run]
        return made

    def delimited(self, row: Field, place: int, end: int, depth: int) -> Any:
        if row.type == "str":
            try:
                return str(self.content[place:end], "utf-8")
            except UnicodeDecodeError:
                self.fail(f"{row.name} is not UTF-8", place)
        if row.type == "bytes":
            return bytes(self.content[place:end])
        if row.type in self.schema.messages:
            return self.message(row.type, place, end, depth)
        if not row.repeated:
            self.fail(f"{row.name} is {row.type}, not a run of bytes", place)
        if row.type in FLOATS:
            if (end - place) % FLOATS[row.type]:
                self.fail(f"{row.name} has {end - place} bytes, which are no whole numbers", place)
            return np.frombuffer(self.content[place:end], _FORMATS[row.type])
        items = []
        while place < end:
            number, place = self.varint(place, end)
            items.append(self.integer(row, number, place))
        return items

    def scalar(self, row: Field, wire: int, place: int, end: int, start: int) -> tuple[Any, int]:
        if row.type in _WIRE and wire == _WIRE[row.type]:
            size = FLOATS[row.type]
            if end - place < size:
                self.fail(f"the file is cut short inside {row.name}", start)
            return struct.unpack_from(_FORMATS[row.type], self.content, place)[0], place + size
        integer = row.type in VARINTS or row.type in self.schema.enums
        if wire != _VARINT or not integer:
            self.fail(f"{row.name} is {row.type}, which is not written with wire type {wire}", start)
        number, place = self.varint(place, end)
        return self.integer(row, number, start), place

    def integer(self, row: Field, number: int, place: int) -> Any:
        if row.type in self.schema.enums:
            names = [name for name, value in self.schema.enums[row.type].items() if value == number]
            return names[0] if names else self.fail(f"{row.name} has no value {number}", place)
        if row.type == "bool":
            return bool(number)
        if row.type[0] == "i":
            number &= 2**64 - 1
            return number - 2**64 if number >> 63 else number
        return number


def blob_shape(blob: Message) -> tuple[int, ...]:
    """The sizes of a blob, those in the old four fields included."""
    shape = blob.get("shape")
    if shape is not None:
        return tuple(shape.get("dim", ()))
    return tuple(blob.get(name, 0) for name in ("num", "channels", "height", "width"))


def blob(weight: Weight, shape: Sequence[int]) -> Message:
    """A blob of these sizes with a weight's elements."""
    return Message("BlobProto", {"shape": Message("BlobShape", {"dim": list(shape)}), "data": weight})
