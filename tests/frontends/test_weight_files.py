"""``.safetensors`` files as handles: what the official writer writes is read back, and what is malformed is refused."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import isthmus
from isthmus.frontends.weight_files import read_safetensors
from isthmus.ir import MappedWeight
from isthmus.ir.errors import FileError, UsageError

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3), "b.scale": np.array(3.0), "empty": np.zeros((0, 4), np.int64),
    "flags": np.array([True, False, True]), "half": np.arange(5).astype(np.float16), "odd": np.arange(3, dtype=np.uint8),
    "brain": np.arange(7).astype(ml_dtypes.bfloat16), "large": np.arange(50_000, dtype=np.int32),
}  # fmt: skip


def written(path: Path, header: Any, content: bytes = b"") -> Path:
    """A file with this header, whatever it is."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)
    return path


def entry(dtype: str = "F32", shape: Any = (2,), begin: int = 0, end: int = 8) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "w.safetensors", metadata={"format": "np"})
    found = isthmus.open_weights(tmp_path / "w.safetensors")
    assert set(found) == set(TENSORS)
    for name, array in TENSORS.items():
        handle = found[name]
        assert isinstance(handle, MappedWeight)
        assert (handle.name, handle.shape, handle.dtype.numpy) == (name, array.shape, array.dtype)
        np.testing.assert_array_equal(handle.array(), array)


def test_places_that_are_no_multiple_of_the_element(tmp_path: Path) -> None:
    content = b"\0" + np.arange(2, dtype=np.float32).tobytes()
    path = written(tmp_path / "w", {"x": entry("U8", [1], 0, 1), "y": entry("F32", [2], 1, 9)}, content)
    assert read_safetensors(path)["y"].array().tolist() == [0, 1]


def test_shards_and_their_index(tmp_path: Path) -> None:
    shards = [tmp_path / f"model-{number}.safetensors" for number in (1, 2)]
    save_file({"a": TENSORS["a"]}, shards[0])
    save_file({"half": TENSORS["half"], "odd": TENSORS["odd"]}, shards[1])
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shards[0].name, "half": shards[1].name}}))
    assert list(isthmus.open_weights(index)) == ["a", "half"]
    assert list(isthmus.open_weights(list(map(str, shards)))) == ["a", "half", "odd"]
    assert isthmus.open_weights({"x": 1}) == {"x": 1}


@pytest.mark.parametrize(("weight_map", "told"), [
    ({"a": "none.safetensors"}, "names the file none.safetensors, which is not there"),
    ({"b": "one.safetensors"}, r"one\.safetensors does not hold b, which model\.safetensors\.index\.json says"),
    ({"a": 3}, "is no index"), (None, "is no index"), ([], "is no index"), ({"a": ""}, "is no index"),
    *(({"a": "one.safetensors", "b": place}, rf".*: its entry for b names {re.escape(repr(place))}\n  expected: the name")
      for place in ("../../etc/passwd", "/etc/passwd", "..", ".", "sub/one.safetensors", "a\0b", None, ["one.safetensors"])),
])  # fmt: skip
def test_an_index_that_lies(tmp_path: Path, weight_map: Any, told: str) -> None:
    save_file({"a": TENSORS["a"]}, tmp_path / "one.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(FileError, match=told):
        isthmus.open_weights(index)
    index.write_text("{")
    with pytest.raises(FileError, match="is no index"):
        isthmus.open_weights(index)


def test_a_name_in_two_shards(tmp_path: Path) -> None:
    paths = [tmp_path / "one.safetensors", tmp_path / "two.safetensors"]
    for path in paths:
        save_file({"a": TENSORS["a"], "odd": TENSORS["odd"]}, path)
    with pytest.raises(FileError, match=r"a, odd are in both \S*one\.safetensors and \S*two\.safetensors"):
        isthmus.open_weights(paths)


@pytest.mark.parametrize("length", [0, 7])
def test_a_file_without_a_header(tmp_path: Path, length: int) -> None:
    (tmp_path / "w").write_bytes(bytes(length))
    with pytest.raises(FileError, match=f"is no .safetensors file: it has {length} bytes"):
        read_safetensors(tmp_path / "w")


def test_a_file_that_is_cut_off_anywhere(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    save_file(TENSORS, whole)
    content = whole.read_bytes()
    path = tmp_path / "w"
    for length in (9, 100, len(content) - 200_000, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(FileError, match=r"w is cut off\n.*expected: \d+ bytes or more\n.*found: " + f"{length} bytes"):
            read_safetensors(path)


@pytest.mark.parametrize(("header", "content", "told"), [
    (b"{", b"", "its header"), (b"\xff\xfe", b"", "its header"), (b"[" * 100_000, b"", "its header"),
    ([], b"", "no JSON object"),
    (b'{"x": {}, "x": {}}', b"", "x is there twice"),
    ({"x": None}, b"", "the entry of x"), ({"x": {"dtype": "F32"}}, b"", "the entry of x"),
    ({"x": entry(shape=[-2])}, bytes(8), "the entry of x"), ({"x": entry(shape=[True, 2])}, bytes(8), "the entry of x"),
    ({"x": entry(shape=[2.0])}, bytes(8), "the entry of x"), ({"x": entry(begin=-8, end=0)}, bytes(8), "the entry of x"),
    ({"x": entry(dtype=["F32"])}, bytes(8), "the entry of x"),  # type: ignore[arg-type]
    ({"x": {**entry(), "data_offsets": [0]}}, bytes(8), "the entry of x"),
    ({"x": entry(shape=[3])}, bytes(8), r"x has 8 bytes, f32\[3\] takes 12"),
    ({"x": entry(), "y": entry()}, bytes(8), "y begins at 0, the one before ends at 8"),
    ({"x": entry(begin=4, end=12)}, bytes(12), "x begins at 4"),
    ({"x": entry()}, bytes(9), "the tensors end at"), ({}, bytes(9), "the tensors end at"),
])  # fmt: skip
def test_malformed_files(tmp_path: Path, header: Any, content: bytes, told: str) -> None:
    with pytest.raises(FileError, match=f"w is no .safetensors file: (.|\n)*{told}"):
        read_safetensors(written(tmp_path / "w", header, content))


def test_a_header_of_absurd_length(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(struct.pack("<Q", 2**63) + bytes(100))
    with pytest.raises(FileError, match="its header would have 9223372036854775808 bytes"):
        read_safetensors(tmp_path / "w")


def test_an_element_type_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"x has the element type F4\n.*expected: BOOL"):
        read_safetensors(written(tmp_path / "w", {"x": entry("F4", [16])}, bytes(8)))


@pytest.mark.parametrize(("source", "told"), [
    ("none.safetensors", "there is no file none.safetensors"), ({3: 4}, "must have names"),
    *((source, "must be a .safetensors file") for source in ([], 3, [3], b"w.safetensors")),
])  # fmt: skip
def test_sources_that_are_none(source: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        isthmus.open_weights(source)


def test_a_pickled_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(b"")
    with pytest.raises(UsageError, match=r"weights are not read from w\.pt(.|\n)*mmap=True"):
        isthmus.open_weights(tmp_path / "w.pt")


def test_nothing_but_the_header_is_read(tmp_path: Path) -> None:
    """The content is a hole in the file, of more than any disk or memory holds."""
    size = 1 << 40
    path = written(tmp_path / "w", {"x": entry("F32", [size // 4], 0, size)})
    os.truncate(path, path.stat().st_size + size)
    assert read_safetensors(path)["x"].nbytes == size
