"""Writes ONNX files piece by piece, weights straight from their handles.

Building a protobuf object from a weight copies it, and turning the object into bytes copies it again. A protobuf message
is only its fields one behind the other, each a tag and a length, and parts of one message may be written apart: so the
graph without weights is written by protobuf, and behind it each weight as a further field of the same graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import file_digest, sha1
from pathlib import Path
from typing import Any, BinaryIO, Final

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from isthmus.backends.onnx.opsets import enum
from isthmus.ir.errors import FileError
from isthmus.ir.protobuf_wire import LIMIT, Writer, copy, header
from isthmus.ir.weights import Weight

# Field numbers of onnx.proto.
MODEL_GRAPH: Final = 7
GRAPH_INITIALIZER: Final = 5
TENSOR_RAW_DATA: Final = 9

ALIGNMENT: Final = 4096
"""External weights start at multiples of this, so that they can be mapped into memory."""

EXTERNAL_FROM: Final = 1024
"""Weights of fewer bytes stay in the model file even where the others are outside."""


def tensor_start(name: str, weight: Weight, noted: Any = None) -> bytes:
    """A TensorProto up to its content; `noted` is one with what is noted at it."""
    proto = onnx.TensorProto(name=name, data_type=enum(weight.dtype), dims=weight.shape)
    if noted is not None:
        proto.MergeFrom(noted)
    if weight.dtype.kind == "string":
        proto.string_data.extend(str(item).encode() for item in weight.array().reshape(-1).tolist())
        return bytes(proto.SerializeToString())
    return bytes(proto.SerializeToString()) + header(TENSOR_RAW_DATA, weight.nbytes)


def write_model(
    out: Writer, model: Any, graph: Any, weights: Mapping[str, Weight], noted: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Writes a model.

    Args:
        out: where to.
        model: the ModelProto without its graph.
        graph: the GraphProto without these weights.
        weights: the initializers to be put into the file, by name.
        noted: what is noted at some of them, as TensorProtos.
    """
    body = graph.SerializeToString()
    starts = {name: tensor_start(name, weight, (noted or {}).get(name)) for name, weight in weights.items()}
    sizes = {name: len(starts[name]) + weight.nbytes for name, weight in weights.items()}
    total = len(body) + sum(len(header(GRAPH_INITIALIZER, size)) + size for size in sizes.values())
    if total > LIMIT:
        raise FileError(f"a model file holds 2 GB at most, and this needs {total} bytes", remedy="set external_data to 'auto'")
    out.write(model.SerializeToString())
    out.write(header(MODEL_GRAPH, total))
    out.write(body)
    for name, weight in weights.items():
        out.write(header(GRAPH_INITIALIZER, sizes[name]))
        out.write(starts[name])
        copy(weight, out)


def external(name: str, weight: Weight, location: str, offset: int) -> Any:
    """The TensorProto of a weight that is in another file."""
    proto = onnx.TensorProto(name=name, data_type=enum(weight.dtype), dims=weight.shape)
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", weight.nbytes)):
        proto.external_data.add(key=key, value=str(value))
    return proto


def is_large(weight: Weight) -> bool:
    """Whether a weight goes outside where weights do."""
    return weight.nbytes >= EXTERNAL_FROM and weight.dtype.kind != "string"


def write_external(out: BinaryIO, weights: Mapping[str, Weight], location: str, checksum: bool = False) -> list[Any]:
    """Writes weights one behind the other, and gives the TensorProtos that point to them.

    Args:
        out: the file, at its beginning.
        weights: the weights by name.
        location: the file's name.
        checksum: whether each TensorProto carries the SHA-1 digest of the file, as onnx.proto has it.
    """
    protos = []
    position = 0
    writer = Digesting(out) if checksum else out
    for name, weight in weights.items():
        gap = -position % ALIGNMENT
        writer.write(b"\0" * gap)
        position += gap
        protos.append(external(name, weight, location, position))
        copy(weight, writer)
        position += weight.nbytes
    if isinstance(writer, Digesting):
        for proto in protos:
            proto.external_data.add(key="checksum", value=writer.digest.hexdigest())
    return protos


class Digesting:
    """Writes to a file, and digests what it writes."""

    def __init__(self, out: Writer) -> None:
        self.digest = sha1(usedforsecurity=False)
        self._out = out

    def write(self, data: Any, /) -> None:
        self.digest.update(data)
        self._out.write(data)


def check_external(path: Path) -> None:
    """Holds the files of weights beside a model against the checksums in it, where there are any.

    Raises:
        FileError: a file is not there, or is another one.
    """
    wanted: dict[str, str] = {}
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)  # whatever the name's ending
    except DecodeError:
        return  # the runtime says what it thinks of the file
    for proto in model.graph.initializer:
        told = {entry.key: entry.value for entry in proto.external_data}
        if "checksum" in told:
            wanted[told["location"]] = told["checksum"]
    for location, checksum in wanted.items():
        try:
            with (path.parent / location).open("rb") as file:
                found = file_digest(file, "sha1").hexdigest()
        except OSError as error:
            raise FileError(f"{path.parent / location}, which holds weights, cannot be read: {error.strerror}") from error
        if found != checksum.lower():
            raise FileError(
                f"{location} does not hold the weights that {path.name} was written with",
                expected=f"the SHA-1 digest {checksum}", found=found, remedy="save the model again",
            )  # fmt: skip


def check_location(name: str) -> None:
    """Raises FileError where readers of ONNX do not take a name for a file of weights."""
    try:
        taken = name.encode() and "\\" not in name and ".." not in name
    except UnicodeEncodeError:
        taken = False
    if not taken:
        raise FileError(
            f"readers of ONNX do not take {name!r} as the file of a model's weights",
            expected="a name in UTF-8, without a backslash or two dots in a row",
            remedy="save under another name, or in one file (external_data='never')",
        )


def left_over(path: Path, data: Path) -> list[Path]:
    """The second file that a model saved here before has, for a new one that has none: only where both were written here.

    Args:
        path: the model file.
        data: the second file as it would be called.
    """
    if not path.is_file() or not data.is_file() or data.is_symlink():
        return []
    try:
        old = onnx.load(path, format="protobuf", load_external_data=False)
    except (DecodeError, OSError):
        return []
    places = {entry.value for proto in old.graph.initializer for entry in proto.external_data if entry.key == "location"}
    return [data] if old.producer_name == "isthmus" and places == {data.name} else []


def total_bytes(weights: Iterable[Weight]) -> int:
    """The bytes of some weights together."""
    return sum(weight.nbytes for weight in weights)
