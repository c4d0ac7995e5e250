"""Prototxt, protobuf's text form: a writer, and a reader that takes nothing it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import numpy as np

from isthmus.backends.caffe.schema import DEPTH, FLOATS, SCALARS, Field, Message, Schema
from isthmus.ir.errors import FileError


def write(message: Message, schema: Schema) -> str:
    """A message as text, each field on a line, in the order in which it was set."""
    lines: list[str] = []
    _write(message, schema, "", lines)
    return "".join(lines)


def _write(message: Message, schema: Schema, indent: str, lines: list[str]) -> None:
    for name, content in message.fields.items():
        row = schema.messages[message.type][name]
        for item in content if row.repeated else (content,):
            if isinstance(item, Message):
                lines.append(f"{indent}{name} {{\n")
                _write(item, schema, indent + "  ", lines)
                lines.append(f"{indent}}}\n")
            else:
                lines.append(f"{indent}{name}: {_scalar(item, row)}\n")


def _scalar(item: Any, row: Field) -> str:
    if row.type == "bool":
        return "true" if item else "false"
    if row.type in FLOATS:
        return str(np.float32(item)) if row.type == "f32" else repr(float(item))
    return _quoted(item) if row.type == "str" else str(item)


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if " " <= char <= "~" else "".join(f"\\{byte:03o}" for byte in char.encode())


# ---- reading

_TOKEN: Final = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)|(?P<word>[A-Za-z_][\w.]*)|(?P<number>[-+]?\s*(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)"""
    r"""(?:[eE][-+]?\d+)?[fF]?|inf\b|nan\b))|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<sign>[{}<>\[\]:;,])"""
)
_ESCAPE: Final = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_PLAIN: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_RANGES: Final = {"i32": (-(2**31), 2**31), "i64": (-(2**63), 2**63), "u32": (0, 2**32), "u64": (0, 2**64)}


def read(text: str, schema: Schema, source: str, type: str = "NetParameter") -> Message:
    """The message that a text says.

    Args:
        text: the text.
        schema: the fields that may be there.
        source: the file's name, for errors.
        type: the message.

    Raises:
        FileError: it is malformed, has an unknown field, or a value that the field does not take; with line and column.
    """
    return _Reader(text, schema, source).message(type, "", 0)


class _Reader:
    def __init__(self, text: str, schema: Schema, source: str) -> None:
        self.text = text
        self.schema = schema
        self.source = source
        self.place = 0  # where the token at hand begins
        self.kind = self.token = ""
        self._tokens = self._scan()
        self.advance()

    def _scan(self) -> Iterator[tuple[str, str, int]]:
        place = 0
        while place < len(self.text):
            match = _TOKEN.match(self.text, place)
            if match is None:
                self.place = place
                self.fail(f"{self.text[place]!r} is not expected here")
            if match.lastgroup != "space":
                yield str(match.lastgroup), match[0], place
            place = match.end()
        yield "end", "", place

    def advance(self) -> str:
        token = self.token
        self.kind, self.token, self.place = next(self._tokens)
        return token

    def fail(self, message: str, expected: str | None = None) -> NoReturn:
        line = self.text.count("\n", 0, self.place) + 1
        column = self.place - self.text.rfind("\n", 0, self.place)
        raise FileError(f"{self.source}:{line}:{column}: {message}", expected=expected)

    def take(self, sign: str) -> bool:
        if self.token == sign and self.kind == "sign":
            self.advance()
            return True
        return False

    def message(self, type: str, closing: str, depth: int) -> Message:
        if depth > DEPTH:
            self.fail(f"messages nest more than {DEPTH} deep")
        made = Message(type)
        table = self.schema.messages[type]
        while not (self.kind == "sign" and self.token == closing if closing else self.kind == "end"):
            if self.kind == "end":
                self.fail(f"the file ends inside {type}", closing)
            if self.kind != "word":
                self.fail(f"{self.token!r} is not the name of a field")
            row = table.get(self.token)
            if row is None:
                self.fail(f"{type} has no field {self.token!r}", ", ".join(table) or "none")
            if row.name in made.fields and not row.repeated:
                self.fail(f"{type}.{row.name} is there twice")
            self.advance()
            self.value(made, row, depth)
            _ = self.take(";") or self.take(",")
        if closing:
            self.advance()
        return made

    def value(self, made: Message, row: Field, depth: int) -> None:
        scalar = row.type in SCALARS or row.type in self.schema.enums
        colon = self.take(":")
        if not colon and scalar:
            self.fail(f"{made.type}.{row.name} has no value", ":")
        items = []
        if self.take("["):
            if not row.repeated:
                self.fail(f"{made.type}.{row.name} does not repeat")
            while not self.take("]"):
                items.append(self.item(made, row, depth))
                if not self.take(",") and self.token != "]":
                    self.fail(f"{self.token!r} is not expected in a list", ", or ]")
        else:
            items.append(self.item(made, row, depth))
        if row.repeated:
            made.fields.setdefault(row.name, []).extend(items)
        else:
            made.fields[row.name] = items[0]

    def item(self, made: Message, row: Field, depth: int) -> Any:
        if row.type in SCALARS or row.type in self.schema.enums:
            return self.scalar(made, row)
        closing = "}" if self.take("{") else ">" if self.take("<") else ""
        if not closing:
            self.fail(f"{made.type}.{row.name} is a message", "{")
        return self.message(row.type, closing, depth + 1)

    def scalar(self, made: Message, row: Field) -> Any:
        what = f"{made.type}.{row.name}"
        if row.type in ("str", "bytes"):
            if self.kind != "string":
                self.fail(f"{what} is a string, not {self.token!r}")
            parts = b""
            while self.kind == "string":
                parts += self.unescaped(self.token[1:-1])
                self.advance()
            try:
                return parts.decode() if row.type == "str" else parts
            except UnicodeDecodeError:
                self.fail(f"{what} is not UTF-8")
        if row.type in self.schema.enums:
            return self.enum(what, self.schema.enums[row.type])
        if row.type == "bool":
            known = {"true": True, "True": True, "t": True, "1": True, "false": False, "False": False, "f": False, "0": False}
            if self.token not in known:
                self.fail(f"{what} is true or false, not {self.token!r}")
            return known[self.advance()]
        return self.number(what, row)

    def enum(self, what: str, values: Any) -> str:
        if self.kind == "number":
            names = [name for name, number in values.items() if str(number) == self.token]
            if names:
                self.advance()
                return str(names[0])
        if self.token not in values:
            self.fail(f"{what} cannot be {self.token!r}", ", ".join(values))
        return self.advance()

    def number(self, what: str, row: Field) -> float | int:
        words = ("inf", "infinity", "nan")
        token = self.token.lower().replace(" ", "")
        if self.kind != "number" and not (row.type in FLOATS and token in words):
            self.fail(f"{what} is a number, not {self.token!r}")
        if row.type in FLOATS:
            if "inf" not in token and "0x" not in token:
                token = token.rstrip("f")
            found: float | int = float(int(token, 16)) if "0x" in token else float(token)
        else:
            lo, hi = _RANGES[row.type]
            try:
                found = int(token, 16 if "0x" in token else 10)
            except ValueError:
                self.fail(f"{what} is an integer, not {self.token!r}")
            if not lo <= found < hi:
                self.fail(f"{what} is out of range: {self.token}", f"{lo} to {hi - 1}")
        self.advance()
        return found

    def unescaped(self, text: str) -> bytes:
        found = b""
        place = 0
        for match in _ESCAPE.finditer(text):
            found += text[place : match.start()].encode()
            octal, code, char = match.groups()
            if char is not None:
                found += _PLAIN.get(char, char).encode()
            else:
                found += bytes([int(octal, 8) & 255 if octal else int(code, 16)])
            place = match.end()
        return found + text[place:].encode()
