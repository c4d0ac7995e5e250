"""Weight handles: packing, streaming, lazy chains, mapped files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus.ir import ArrayWeight, LazyWeight, MappedWeight, Weight, dtypes, weight, weights
from isthmus.ir.errors import FileError
from isthmus.ir.weight_sources import files_of


def packed(handle: Weight) -> bytes:
    data = b"".join(handle.chunks())
    assert len(data) == handle.nbytes
    return data


def bits_of(codes: list[int], bits: int) -> bytes:
    """The codes one after the other, the first in the lowest bits: what ONNX lays down for sub-byte elements."""
    number = sum(code << (index * bits) for index, code in enumerate(codes))
    return number.to_bytes((len(codes) * bits + 7) // 8, "little")


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if 0 < d.bits < 8], ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 13])
def test_sub_byte_elements_are_packed(dtype: dtypes.DType, count: int) -> None:
    codes = [(7 * index + 3) % (1 << dtype.bits) for index in range(count)]
    raw = np.array(codes, np.uint8)
    if dtype.kind == "int":  # the high bits of a signed element are its sign
        raw = np.where(raw >> (dtype.bits - 1), raw | (0xFF << dtype.bits & 0xFF), raw).astype(np.uint8)
    assert packed(ArrayWeight(raw.view(dtype.numpy))) == bits_of(codes, dtype.bits)


def test_known_bytes() -> None:
    assert packed(weight([1, -2, 3], dtypes.i4)) == bytes([0xE1, 0x03])
    assert packed(weight([[1, -1], [0, -2]], dtypes.i2)) == bytes([0b10_00_11_01])
    assert packed(weight([1.0, -1.0, 0.5], dtypes.f4e2m1)) == bytes([0xA2, 0x01])
    assert packed(weight([True, False])) == b"\x01\x00"
    assert packed(weight(1.0, dtypes.f32)) == b"\x00\x00\x80\x3f"


def test_large_arrays_are_streamed_by_rows_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CHUNK_BYTES", 64)
    array = np.arange(100 * 7, dtype=np.float32).reshape(7, 100).T
    handle = ArrayWeight(array)
    chunks = list(handle.chunks())
    assert len(chunks) > 10
    assert b"".join(chunks) == array.tobytes()
    assert list(ArrayWeight(np.zeros((0, 3))).chunks()) == []


class Watched(ArrayWeight):
    """Counts the rows that were asked for at once."""

    def __init__(self, array: weights.Array) -> None:
        super().__init__(array)
        self.asked: list[int] = []

    def array(self) -> weights.Array:
        self.asked.append(self.shape[0])
        return super().array()

    def rows(self, start: int, stop: int) -> weights.Array:
        self.asked.append(stop - start)
        return super().rows(start, stop)


def lazy(compute: Any, *sources: Weight, shape: tuple[int, ...], elementwise: bool = True, sign: str = "f") -> LazyWeight:
    return LazyWeight(dtypes.f32, shape, compute, sources, sign, elementwise)


def test_an_elementwise_chain_is_computed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CHUNK_BYTES", 120)
    base = Watched(np.arange(300, dtype=np.float32).reshape(100, 3))
    scale = weight(np.linspace(1, 2, 100, dtype=np.float32).reshape(100, 1))
    row = weight(np.array([1, 2, 3], np.float32))
    first = lazy(np.multiply, base, scale, shape=(100, 3))
    chain = lazy(np.add, first, row, shape=(100, 3))
    expected = base._array * scale.array() + row.array()
    assert b"".join(chain.chunks()) == expected.tobytes()
    assert max(base.asked) == 10
    np.testing.assert_array_equal(chain.rows(5, 8), expected[5:8])
    np.testing.assert_array_equal(chain.array(), expected)


def test_a_source_of_one_row_is_broadcast() -> None:
    base = weight(np.arange(12, dtype=np.float32).reshape(4, 3))
    single = weight(np.full((1, 3), 2, np.float32))
    chain = lazy(np.multiply, base, single, shape=(4, 3))
    np.testing.assert_array_equal(chain.rows(1, 3), chain.array()[1:3])


def test_a_chain_that_is_not_elementwise_is_computed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CHUNK_BYTES", 8)
    base = Watched(np.arange(12, dtype=np.float32).reshape(4, 3))
    turned = lazy(np.transpose, base, shape=(3, 4), elementwise=False)
    assert b"".join(turned.chunks()) == base._array.T.tobytes()
    assert base.asked == [4]
    assert not lazy(np.negative, turned, shape=(3, 4)).row_wise


def test_keys() -> None:
    array = np.zeros((2, 3), np.float32)
    assert weight(array).key == weight(array[:]).key
    assert weight(array).key != weight(array[:1]).key
    assert weight(array).key != weight(array.copy()).key
    assert weight(array).digest() == weight(array.copy()).digest()
    assert weight(array).digest() != weight(array.reshape(3, 2)).digest()
    assert weight(array).digest() != weight(array.astype(np.int32)).digest()
    one, two = (lazy(np.negative, weight(array), shape=(2, 3)) for _ in range(2))
    assert one.key == two.key
    assert one.key != lazy(np.negative, weight(array), shape=(2, 3), sign="g").key


def test_strings() -> None:
    handle = weight(["a", "bc"])
    assert (handle.dtype, handle.shape, handle.nbytes) == (dtypes.string, (2,), 0)
    assert handle.digest() != weight(["a", "bd"]).digest()


def test_arrays_are_not_copied() -> None:
    array = np.zeros(3, np.float32)
    handle = weight(array, name="w")
    assert np.shares_memory(handle.array(), array)
    assert weight(handle) is handle
    assert weight(array, dtypes.f64).dtype is dtypes.f64
    assert weight(3).shape == ()


def test_bytes_in_big_endian_order_are_turned() -> None:
    handle = weight(np.arange(3, dtype=">f4"))
    assert handle.dtype is dtypes.f32
    assert b"".join(handle.chunks()) == np.arange(3, dtype="<f4").tobytes()


def test_mapped_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CHUNK_BYTES", 16)
    array = np.arange(24, dtype=np.float32).reshape(6, 4)
    path = tmp_path / "weights.bin"
    path.write_bytes(b"head" + array.tobytes())
    handle = MappedWeight(path, 4, dtypes.f32, (6, 4), "w")
    np.testing.assert_array_equal(handle.array(), array)
    np.testing.assert_array_equal(handle.rows(2, 4), array[2:4])
    assert b"".join(handle.chunks()) == array.tobytes()
    assert handle.digest() == weight(array).digest()
    assert handle.key == MappedWeight(path, 4, dtypes.f32, (6, 4)).key
    assert MappedWeight(path, 4, dtypes.f32, ()).array() == 0
    assert MappedWeight(path, 100, dtypes.f32, (0, 4)).array().shape == (0, 4)
    with pytest.raises(ValueError, match="read-only"):
        handle.array()[0, 0] = 1


def test_a_file_that_is_too_short(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(8))
    for offset, shape in ((5, (1,)), (0, (3,)), (-1, (1,)), (9, (0,))):
        with pytest.raises(FileError, match="is too short for the weight 'w'"):
            MappedWeight(path, offset, dtypes.f32, shape, "w")
    with pytest.raises(ValueError, match="elements of i4 cannot be mapped"):
        MappedWeight(path, 0, dtypes.i4, (2,))


@pytest.mark.parametrize("change", ["replaced", "shorter", "other content", "gone"])
def test_a_mapped_file_that_changes_is_named_and_not_read(tmp_path: Path, change: str) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(24))
    handle, old = MappedWeight(path, 8, dtypes.f32, (4,), "w"), MappedWeight(path, 8, dtypes.f32, (4,), "w")
    assert handle.key == old.key
    if change == "replaced":
        (tmp_path / "new").write_bytes(bytes(24))
        (tmp_path / "new").replace(path)
    elif change == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(4) if change == "shorter" else bytes(range(24)))
        os.utime(path, ns=(1, 1))
    with pytest.raises(FileError, match=r"weights\.bin, which holds the weight 'w', (has changed|cannot be read)"):
        handle.array()
    with pytest.raises(FileError, match=r"weights\.bin, which holds"):
        list(handle.chunks())
    if change == "other content":
        assert MappedWeight(path, 8, dtypes.f32, (4,), "w").key != handle.key


def test_the_files_that_weights_are_read_from(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one", "two", "three")]
    for path in paths:
        path.write_bytes(bytes(1 << 16))
    one, two = MappedWeight(paths[0], 0, dtypes.f32, (4,)), ArrayWeight(np.memmap(paths[1], np.float32, "r")[100:])
    lazy = LazyWeight(dtypes.f32, (4,), np.add, [one, ArrayWeight(np.zeros(4, np.float32))], "add")
    assert set(files_of([lazy, lazy, two]).values()) == {str(path) for path in paths[:2]}
    assert files_of([one]) == {(os.stat(paths[0]).st_dev, os.stat(paths[0]).st_ino): str(paths[0])}
    paths[0].unlink()
    assert files_of([lazy]) == {}
