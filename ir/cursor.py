"""What the text form is made of: tokens, dims, locations. `isthmus.ir.parser` puts graphs together from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from isthmus.ir import dims, dtypes
from isthmus.ir.dims import Dim, Symbol
from isthmus.ir.errors import ParseError
from isthmus.ir.location import Location
from isthmus.ir.symbols import Symbols

_STRING: Final = r'"(?:[^"\\]|\\.)*"'
TOKEN: Final = re.compile(
    rf"""(?:^[ \t]*\#.*|\s)*                                                     # whole lines of comment are skipped
    ( \#.*                                                                       # a location
    | %(?:[^\W\d][\w.]*|\d+|{_STRING})(?:~\d+)?                                  # a value
    | (?:{"|".join(d.name for d in dtypes.ALL)})\[(?:[^][`]|`[^`]*`)*\]          # a tensor's type, whole
    | [^\W\d][\w.]* | 0x[0-9a-f]+ | \d+(?:\.\d*)?(?:e[+-]?\d+)?
    | {_STRING} | `[^`]*` | // | [=!<>]= | \S )""",
    re.VERBOSE | re.MULTILINE,
)
_LETTER: Final = re.compile(r"[^\W\d]")
PLACE: Final = re.compile(rf'\s*({_STRING}(?::\d+)?|[()]|[^\s"()]+)')
_PRODUCTS: Final[dict[str, Callable[[Any, Any], Dim]]] = {
    "*": lambda left, right: left * right, "//": dims.floordiv, "%": dims.mod,
}  # fmt: skip
_EXTREMES: Final = {"min": dims.minimum, "max": dims.maximum}


class WrongError(Exception):
    """What was expected and what was found; the parser knows where."""


class Cursor:
    """A place in a list of tokens, and what can be read from there: dims, types, literals."""

    def __init__(self, tokens: list[str], symbols: Symbols) -> None:
        self.tokens = tokens
        tokens.append("")
        self.at = 0
        self.symbols = symbols

    def wrong(self, expected: str, found: str | None = None) -> NoReturn:
        raise WrongError(expected, self.tokens[self.at] if found is None else found)

    def take(self) -> str:
        token = self.tokens[self.at]
        if token:
            self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        if self.tokens[self.at] != token:
            self.wrong(token)
        self.at += 1

    def string(self, text: str | None = None) -> str:
        """The content of a string literal: the token here, or part of one."""
        literal = self.tokens[self.at] if text is None else text
        try:
            content = json.loads(literal) if literal.startswith('"') else None
        except ValueError:
            content = None
        if not isinstance(content, str):
            self.wrong("a string")
        self.at += text is None
        return content

    def word(self) -> str:
        """A bare word or a string."""
        token = self.tokens[self.at]
        if _LETTER.match(token):
            self.at += 1
            return token
        return self.string()

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.tokens[self.at]
        if not token.isdecimal() or len(token) > 1000:
            self.wrong("an integer")
        self.at += 1
        return -int(token) if negative else int(token)

    # ---- dims

    def symbol_name(self) -> str:
        token = self.tokens[self.at]
        if token.startswith("`") and len(token) > 1:
            name = self.string(f'"{token[1:-1]}"')
        elif token.isidentifier():
            name = token
        else:
            self.wrong("a symbol")
        self.at += 1
        return name

    def symbol(self) -> Symbol:
        at = self.at
        found = self.symbols.by_name.get(self.symbol_name())
        if found is None:
            self.at = at
            self.wrong("a symbol that was declared")
        return found

    def dim(self) -> Dim:
        total = self.product()
        while (sign := self.tokens[self.at]) in ("+", "-"):
            self.at += 1
            term = self.product()
            total = total + term if sign == "+" else total - term
        return total

    def product(self) -> Dim:
        total = self.factor()
        while (operator := _PRODUCTS.get(self.tokens[self.at])) is not None:
            self.at += 1
            try:
                total = operator(total, self.factor())
            except ZeroDivisionError:
                self.at -= 1
                self.wrong("a divisor that is not 0")
        return total

    def factor(self) -> Dim:
        token = self.tokens[self.at]
        if self.accept("-"):
            return -self.factor()
        if self.accept("("):
            inner = self.dim()
            self.expect(")")
            return inner
        if token.isdecimal():
            return self.integer()
        if token in _EXTREMES:
            self.at += 1
            self.expect("(")
            parts = [self.dim()]
            while self.accept(","):
                parts.append(self.dim())
            self.expect(")")
            return _EXTREMES[token](*parts)
        if not token.isidentifier() and not token.startswith("`"):
            self.wrong("a size")
        return self.symbol().dim

    def shape(self) -> tuple[Any, ...] | None:
        """Dims between square brackets."""
        self.expect("[")
        if self.accept("*"):
            self.expect("]")
            return None
        shape: list[Dim | None] = []
        while not self.accept("]"):
            if shape:
                self.expect(",")
            shape.append(None if self.accept("?") else self.dim())
        return tuple(shape)


def read_location(words: Cursor) -> Location:
    """A location from its words, up to a closing bracket or the end."""

    def text() -> str:
        token = words.take()
        return words.string(token) if token.startswith('"') else token

    module = file = function = ""
    line = 0
    made_by: list[str] = []
    merged: list[Location] = []
    while (token := words.tokens[words.at]) not in ("", ")"):
        if words.accept("in"):
            function = text()
        elif words.accept("by"):
            made_by.append(text())
        elif words.accept("+"):
            words.expect("(")
            merged.append(read_location(words))
            words.expect(")")
        elif (place := re.fullmatch(r"(.*):(\d+)", token)) is not None and not (file or line):
            words.at += 1
            file, line = place[1], int(place[2])
            if file.startswith('"'):
                file = words.string(file)
        elif not module:
            module = text()
        else:
            words.wrong("a location: module, file:line, in function, by pass, + (location)")
    return Location(file, line, function, module, tuple(made_by), tuple(merged))


def parse_dim(text: str, symbols: Symbols) -> Dim:
    """The dim that a text such as ``2*N + H//2`` says, over symbols that exist already.

    Raises:
        ParseError: it is not a dim, or uses a symbol that is not there.
    """
    cursor = Cursor(TOKEN.findall(text), symbols)
    try:
        dim = cursor.dim()
        if cursor.tokens[cursor.at]:
            cursor.wrong("the end of the dim")
    except WrongError as wrong:
        raise ParseError(f"{text!r} is not a dim", expected=wrong.args[0], found=wrong.args[1]) from None
    return dim
