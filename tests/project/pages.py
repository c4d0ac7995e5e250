"""Pages of the documentation whose examples are run: each ``python`` block, with the ``text`` block behind it as its output.

The blocks of a page share their names. A block that ends in one of isthmus's errors shows the error.
``python tests/project/pages.py`` writes the outputs anew; read the difference.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from isthmus.errors import IsthmusError

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGES: Final = ("capture.md",)
_BLOCK: Final = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One example.

    Attributes:
        code: what is run.
        output: what the page says that it prints; None where it says nothing.
        span: where in the page both are.
    """

    code: str
    output: str | None
    span: tuple[int, int]


def blocks(text: str) -> list[Block]:
    """The examples of a page, in order."""
    return [Block(match["code"], match["output"], match.span()) for match in _BLOCK.finditer(text)]


def run(name: str, examples: list[Block]) -> list[str]:
    """What each example prints, run one behind the other."""
    scope: dict[str, Any] = {"__name__": name}
    return [_printed(f"example{number}.py", block.code, scope) for number, block in enumerate(examples, 1)]


def _printed(file: str, code: str, scope: dict[str, Any]) -> str:
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file  # what errors and reports quote
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            exec(compile(code, file, "exec"), scope)
        except IsthmusError as error:
            print(f"{type(error).__name__}: {error}")
    return output.getvalue()


def renewed(text: str, outputs: list[str]) -> str:
    """The page with these outputs in place of its own; a block that prints nothing has none."""
    for block, output in zip(reversed(blocks(text)), reversed(outputs), strict=True):
        shown = f"```python\n{block.code}```\n" + (f"```text\n{output}```\n" if output else "")
        text = text[: block.span[0]] + shown + text[block.span[1] :]
    return text


if __name__ == "__main__":
    for name in PAGES:
        page = DOCS / name
        before = page.read_text()
        page.write_text(renewed(before, run(name, blocks(before))))
