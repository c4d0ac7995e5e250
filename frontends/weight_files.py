"""Weights in files, as handles by name: ``.safetensors`` files, alone or in shards. Nothing but their headers is read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from isthmus.ir import dtypes
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import FileError, UsageError
from isthmus.ir.weights import MappedWeight, Weight

Source: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, Any]"

HEADER_BYTES: Final = 100_000_000
"""The greatest header that the format allows."""

DTYPES: Final[dict[str, DType]] = {
    "BOOL": dtypes.bool_, "U8": dtypes.u8, "I8": dtypes.i8, "U16": dtypes.u16, "I16": dtypes.i16, "U32": dtypes.u32,
    "I32": dtypes.i32, "U64": dtypes.u64, "I64": dtypes.i64, "F16": dtypes.f16, "BF16": dtypes.bf16, "F32": dtypes.f32,
    "F64": dtypes.f64, "C64": dtypes.c64, "F8_E4M3": dtypes.f8e4m3fn, "F8_E5M2": dtypes.f8e5m2, "F8_E8M0": dtypes.f8e8m0,
}  # fmt: skip
"""The format's words for element types of whole bytes."""


def open_weights(source: Source) -> dict[str, Any]:
    """The weights that a user has named, by name.

    Args:
        source: a ``.safetensors`` file; the ``.safetensors.index.json`` of a sharded one; several of either, which are
            taken together; or tensors, arrays or handles by name, which are handed back as they are.

    Raises:
        UsageError: it is none of these, or there is no such file.
        FileError: a file is not what its name says, is cut off, or two of them hold the same name.
    """
    if isinstance(source, Mapping):
        if wrong := [name for name in source if not isinstance(name, str)]:
            raise UsageError("weights must have names", found=repr(wrong[0]))
        return dict(source)
    paths = [source] if isinstance(source, (str, os.PathLike)) else source
    if not isinstance(paths, Sequence) or not paths or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise UsageError(
            "weights must be a .safetensors file, several of them, or tensors by name", found=repr(type(source).__name__)
        )
    found: dict[str, Weight] = {}
    homes: dict[str, Path] = {}
    for path in map(Path, paths):
        for file, weights in _files(path):
            if twice := [name for name in weights if name in found]:
                raise FileError(f"{', '.join(twice)} {'is' if len(twice) == 1 else 'are'} in both {homes[twice[0]]} and {file}")
            found |= weights
            homes |= dict.fromkeys(weights, file)
    return found


def _files(path: Path) -> list[tuple[Path, dict[str, Weight]]]:
    """The files that one of the user's leads to, each with its weights."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    if path.suffix == ".safetensors":
        return [(path, read_safetensors(path))]
    if not path.name.endswith(".safetensors.index.json"):
        raise UsageError(
            f"weights are not read from {path.name}",
            expected="a .safetensors or .safetensors.index.json file",
            remedy="of a .pt file give the tensors: weights=torch.load(path, mmap=True, weights_only=True)",
        )
    try:
        places = dict(json.loads(path.read_bytes())["weight_map"].items())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileError(f"{path} is no index of .safetensors files", expected="a JSON object with a weight_map") from error
    shards = {name: path.with_name(_shard(path, name, shard)) for name, shard in places.items()}
    found = []
    for shard in dict.fromkeys(shards.values()):
        if not shard.is_file():
            raise FileError(f"{path} names the file {shard.name}, which is not there")
        held = read_safetensors(shard)
        listed = [name for name, home in shards.items() if home == shard]
        if absent := [name for name in listed if name not in held]:
            raise FileError(f"{shard} does not hold {', '.join(absent)}, which {path.name} says")
        found.append((shard, {name: held[name] for name in listed}))
    return found


def _shard(index: Path, name: str, shard: Any) -> str:
    """The name of a file beside an index; where an entry says another place, that is not followed."""
    if not isinstance(shard, str) or shard != Path(shard).name or shard in ("", "..") or "\0" in shard:
        raise FileError(
            f"{index} is no index of .safetensors files: its entry for {name} names {shard!r}",
            expected="the name of a file that stands beside the index",
        )
    return shard


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Weight]:
    """Handles onto all tensors of a ``.safetensors`` file, by name. The file must stay as it is while they are used.

    Raises:
        FileError: it cannot be read, its header is malformed, or the tensors do not fill it exactly.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start, header = _header(file, path, size)
    except OSError as error:
        raise FileError(f"{os.fspath(path)} cannot be read: {error.strerror or error}") from error
    found: dict[str, Weight] = {}
    spans = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape, (begin, end) = _entry(path, name, entry)
        if end > size - start:
            raise _cut_off(path, start + end, size)
        if (takes := math.prod(shape) * dtype.bits // 8) != end - begin:
            raise _malformed(path, f"{name} has {end - begin} bytes, {dtype}{list(shape)} takes {takes}")
        found[name] = MappedWeight(path, start + begin, dtype, shape, name)
        spans.append((begin, end, name))
    position = 0
    for begin, end, name in sorted(spans):
        if begin != position:
            raise _malformed(path, f"{name} begins at {begin}, the one before ends at {position}")
        position = end
    if start + position != size:
        raise _malformed(path, f"the tensors end at {start + position} of {size} bytes")
    return found


def _header(file: BinaryIO, path: str | os.PathLike[str], size: int) -> tuple[int, dict[str, Any]]:
    """Where the tensors begin, and what the file says about them."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8:
        raise _malformed(path, f"it has {size} bytes")
    if length > HEADER_BYTES:
        raise _malformed(path, f"its header would have {length} bytes")
    if 8 + length > size:
        raise _cut_off(path, 8 + length, size)
    try:
        header = json.loads(file.read(length), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _malformed(path, f"its header: {error}") from error
    if not isinstance(header, dict):
        raise _malformed(path, "its header is no JSON object")
    return 8 + length, header


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys differ."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is there twice")
    return found


def _entry(path: str | os.PathLike[str], name: str, entry: Any) -> tuple[DType, tuple[int, ...], tuple[int, int]]:
    """What a header says about one tensor."""
    try:
        word, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        plain = isinstance(word, str) and all(type(number) is int and number >= 0 for number in (*shape, begin, end))
    except (TypeError, KeyError, ValueError):
        plain = False
    if not plain:
        raise _malformed(path, f"the entry of {name}: {entry!r}")
    if word not in DTYPES:
        raise FileError(f"{os.fspath(path)}: {name} has the element type {word}", expected=", ".join(DTYPES))
    return DTYPES[word], shape, (begin, end)


def _malformed(path: str | os.PathLike[str], why: str) -> FileError:
    return FileError(f"{os.fspath(path)} is no .safetensors file: {why}")


def _cut_off(path: str | os.PathLike[str], expected: int, found: int) -> FileError:
    return FileError(f"{os.fspath(path)} is cut off", expected=f"{expected} bytes or more", found=f"{found} bytes")
