"""Caffemodel: streamed from the handles, read again without a copy, and refused where it is malformed."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.backends.caffe import schema, wire
from isthmus.backends.caffe.schema import Message
from isthmus.errors import FileError
from isthmus.ir import LazyWeight, weight
from isthmus.ir.dtypes import f32
from isthmus.ir.protobuf_wire import collect, header, varint

BASE = schema.base()


def net(*arrays: Any) -> Message:
    blobs = [wire.blob(array if isinstance(array, LazyWeight) else weight(array), array.shape) for array in arrays]
    layer = Message("LayerParameter", {"name": "a", "type": "Convolution", "blobs": blobs})
    return Message("NetParameter", {"name": "net", "layer": [layer]})


def written(message: Message) -> bytes:
    return collect(lambda out: wire.write(message, BASE, out))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "net.caffemodel"
    kernel, bias = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2), np.array([-1, 2], np.float32)
    path.write_bytes(written(net(kernel, bias)))
    (layer,) = wire.read(path, BASE)["layer"]
    assert (layer["name"], layer["type"]) == ("a", "Convolution")
    for blob, array in zip(layer["blobs"], (kernel, bias), strict=True):
        assert wire.blob_shape(blob) == array.shape
        np.testing.assert_array_equal(blob["data"], array.reshape(-1))
        assert not blob["data"].flags.writeable


def test_weights_are_streamed() -> None:
    rows = np.ones((1 << 14, 1), np.float32)
    large = LazyWeight(f32, (1 << 14, 1 << 10), lambda x: x * np.ones((1, 1 << 10), np.float32), [weight(rows)], "large", True)
    count = 0

    class Counter:
        def write(self, data: Any, /) -> None:
            nonlocal count
            count += len(data)

    tracemalloc.start()
    try:
        wire.write(net(large), BASE, Counter())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count > large.nbytes
    assert peak < large.nbytes / 8


def test_more_than_a_message_holds_is_refused() -> None:
    vast = LazyWeight(f32, (1 << 15, 1 << 15), lambda: None, [], "vast")
    with pytest.raises(FileError, match="holds 2 GB at most"):
        wire.write(net(vast), BASE, open)  # type: ignore[arg-type]


def test_old_blob_sizes_and_numbers_one_by_one() -> None:
    numbers = b"".join(varint(5 << 3 | 5) + struct.pack("<f", number) for number in (1.5, -2.0))
    blob = b"".join(varint(field << 3) + varint(size) for field, size in ((1, 1), (2, 2), (3, 1), (4, 1))) + numbers
    found = wire.decode(memoryview(blob), BASE, "blob", "BlobProto")
    assert wire.blob_shape(found) == (1, 2, 1, 1)
    assert found["data"] == [1.5, -2.0]


def test_negative_numbers() -> None:
    message = Message("ReshapeParameter", {"shape": Message("BlobShape", {"dim": [0, -1]}), "axis": -2})
    assert wire.decode(memoryview(written(message)), BASE, "it", "ReshapeParameter") == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(100, 1000) + b"abc", "NetParameter.layer claims 1000 bytes and 3 are left"),
        (b"\xff" * 20, "a number has more than ten bytes"),
        (b"\x80", "the file is cut short"),
        (header(99, 0), "NetParameter has no field 99"),
        (header(2, 1) + b"x", "NetParameter has no field 2"),
        (header(1, 2) + b"\xff\xfe", "name is not UTF-8"),
        (header(1, 1) + b"a" + header(1, 1) + b"b", "NetParameter.name is there twice"),
        (header(100, 7) + header(7, 6) + header(5, 3) + b"abc", "LayerParameter.blobs claims 6 bytes and 5 are left"),
        (header(100, 7) + header(7, 5) + header(5, 3) + b"abc", "data has 3 bytes, which are no whole numbers"),
        (varint(1 << 3) + b"\x01", "name is str, which is not written with wire type 0"),
        (varint(5 << 3 | 3), "force_backward is bool, which is not written with wire type 3"),
        (header(100, 2) + varint(10 << 3) + b"\x09", "phase has no value 9"),
        (varint(5 << 3 | 2) + b"\x00", "force_backward is bool, not a run of bytes"),
    ],
)  # fmt: skip
def test_malformed_files(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.caffemodel"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        wire.read(path, BASE)
    assert message in caught.value.message
    assert "bad.caffemodel" in caught.value.message


def test_nesting_has_an_end() -> None:
    boxes = schema.Schema({}, {}).extended({"Box": "box=1:Box"}, {})
    content = b""
    for _ in range(2000):
        content = header(1, len(content)) + content
    with pytest.raises(FileError, match="nest more than"):
        wire.decode(memoryview(content), boxes, "deep", "Box")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="could not be read"):
        wire.read(tmp_path / "none.caffemodel", BASE)
    (tmp_path / "empty").touch()
    assert wire.read(tmp_path / "empty", BASE).fields == {}


GOOD = written(net(np.arange(6, dtype=np.float32).reshape(2, 3)))


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(0, len(GOOD)))
@settings(max_examples=400, deadline=None)
def test_a_broken_file_is_read_or_refused(place: int, byte: int, length: int) -> None:
    broken = bytearray(GOOD)
    broken[place] = byte
    for content in (bytes(broken), GOOD[:length]):
        try:
            wire.decode(memoryview(content), BASE, "broken")
        except FileError:
            continue
