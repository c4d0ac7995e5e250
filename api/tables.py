"""Tables for people: coloured and as wide as the window on a terminal, plain text elsewhere."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; a column whose cells are all numbers stands to the right.

    Args:
        columns: the heads.
        rows: one cell a column; None is left empty, a float gets three significant digits.
    """
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    made = Table()
    for number, head in enumerate(columns):
        cells = [line[number] for line in lines]
        right = bool(cells) and all(cell is None or isinstance(cell, (int, float)) for cell in cells)
        made.add_column(head, justify="right" if right else "left", overflow="fold")
    for line in lines:
        made.add_row(*(Text(_cell(cell)) for cell in line))
    return made


def _cell(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def text(*parts: Table | str) -> str:
    """Tables and lines as one text, coloured where standard output is a terminal."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, no_color=not terminal, width=None if terminal else 160)
    for part in parts:
        console.print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
