"""What nodes of a file are called."""

from __future__ import annotations

from typing import Any, Final

from isthmus.ir.errors import FileError
from isthmus.ir.interface import Note


def domain_of(proto: Any) -> str:
    """A node's domain; the standard one is empty."""
    domain: str = proto.domain
    return "" if domain == "ai.onnx" else domain


def op_of(proto: Any) -> str:
    """A node's op, for people."""
    domain = domain_of(proto)
    return f"{domain}.{proto.op_type}" if domain else str(proto.op_type)


def note_of(proto: Any) -> Note:
    """What is noted at a node, value, tensor or graph.

    Raises:
        FileError: it is no text.
    """
    found = Note(proto.doc_string, {each.key: each.value for each in proto.metadata_props})
    check_texts(found.doc, *found.metadata, *found.metadata.values())
    return found


_TEXT: Final = frozenset((str,))


def check_texts(*texts: Any) -> None:
    """Raises FileError where one is not text: protobuf hands out as bytes what is not UTF-8."""
    for text in () if set(map(type, texts)) <= _TEXT else texts:
        if not isinstance(text, str):
            raise FileError(f"the name {text!r} is no text", expected="UTF-8")
