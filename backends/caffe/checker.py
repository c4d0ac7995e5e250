"""Has a strict eye on both files of a net: every field known, every layer one of the dialect, every name in its place."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from isthmus.backends.caffe import text, wire
from isthmus.backends.caffe.dialect import Dialect
from isthmus.backends.caffe.schema import Message
from isthmus.ir.errors import FileError, VerifyError

_COMMON: Final = ("name", "type", "bottom", "top")


def read_text(path: str | Path, dialect: Dialect) -> Message:
    """The NetParameter in a prototxt.

    Raises:
        FileError: it cannot be read, is malformed, or has a field that the dialect's schema lacks.
    """
    try:
        content = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} could not be read: {error}") from error
    return text.read(content, dialect.format, str(path))


def check(prototxt: str | Path, caffemodel: str | Path, dialect: Dialect) -> None:
    """Reads both files of a net again and holds them against a dialect.

    Raises:
        VerifyError: a file is malformed, a layer is none of the dialect, a blob is not there or is there twice.
    """
    try:
        net = read_text(prototxt, dialect)
        weights = wire.read(caffemodel, dialect.format)
    except FileError as error:
        raise VerifyError(f"the files cannot be read again: {error.message}") from error
    held: dict[str, Message] = {}
    for layer in weights.messages("layer"):
        name = layer.get("name", "")
        if name in held:
            raise VerifyError(f"the caffemodel has two layers {name!r}")
        held[name] = layer
        for number, blob in enumerate(layer.messages("blobs")):
            count, shape = len(blob.get("data", ())), wire.blob_shape(blob)
            if count != math.prod(shape):
                raise VerifyError(f"blob {number} of layer {name!r} has {count} elements", expected=f"{list(shape)}")
    blobs: set[str] = set()
    for layer in net.messages("layer"):
        _check_layer(layer, held.pop(layer.get("name", ""), None), blobs, dialect)
    if held:
        raise VerifyError(f"the caffemodel has weights of layers that the prototxt lacks: {', '.join(held)}")


def _check_layer(layer: Message, held: Message | None, blobs: set[str], dialect: Dialect) -> None:
    name, type = layer.get("name", ""), layer.get("type", "")
    bottoms, tops = layer.get("bottom", []), layer.get("top", [])
    if held is not None and held.get("type") != type:
        raise VerifyError(f"layer {name!r} is {type} in the prototxt and {held.get('type')} in the caffemodel")
    if not tops or tops[0] != name:
        raise VerifyError(f"layer {name!r} has not the name of its first top", found=", ".join(tops) or "no top")
    missing = [bottom for bottom in bottoms if bottom not in blobs]
    if missing:
        raise VerifyError(f"layer {name!r} reads {', '.join(missing)}, which no layer before it makes")
    twice = [top for place, top in enumerate(tops) if top in blobs or top in tops[:place]]
    if twice:
        raise VerifyError(f"layer {name!r} makes {', '.join(twice)}, which is there already")
    blobs.update(tops)
    holder = dialect.parameter_field(type)
    strange = [field for field in layer.fields if field not in (*_COMMON, holder)]
    if strange:
        raise VerifyError(f"layer {name!r} of type {type} has {', '.join(strange)}")
    parameters = layer.get(holder) if holder is not None else None
    count = 0 if held is None else len(list(held.messages("blobs")))
    objection = dialect.objection(type, parameters, len(bottoms), len(tops), count)
    if objection is not None:
        raise VerifyError(f"layer {name!r}: {objection}")
