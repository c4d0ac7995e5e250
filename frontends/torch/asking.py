"""Who asks, and with which words: the expression in the user's source, and the statement that it stands in.

What the code does with either answer is told in `isthmus.frontends.torch.questions`.
"""

from __future__ import annotations

import ast
import dis
import linecache
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Final

import torch

from isthmus.frontends.torch.provenance import Provenance

_LONGEST: Final = 120
_STORES: Final = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}


@dataclass(frozen=True)
class Asking:
    """A question in the user's source.

    Attributes:
        text: the expression that asks; the whole line where its place in it is unknown, empty where there is no source.
        place: what it decides: ``while``, ``for``, ``if``, ``index`` or ``format``; else empty.
        function: the name of what is called, where the expression is a call.
    """

    text: str = ""
    place: str = ""
    function: str = ""


def asking(provenance: Provenance) -> Asking:
    """What asks now."""
    if provenance.script is not None:
        return Asking(linecache.getline(provenance.script.file, provenance.script.line).strip())
    frame = provenance.frame()
    if frame is None:
        return Asking()
    at = id(frame.f_code), frame.f_lasti
    found = provenance.asked.get(at)
    if found is None:
        found = provenance.asked[at] = _asking(frame)  # the whole file is parsed for it
    return found


def _asking(frame: FrameType) -> Asking:
    place, around = nodes(frame)
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if place is None or not lines:
        return Asking(" ".join(linecache.getline(frame.f_code.co_filename, frame.f_lineno).split())[:_LONGEST])
    asker = around[-1] if around else None
    if isinstance(asker, ast.Subscript) and isinstance(asker.ctx, ast.Store):  # `a[0] = t` asks, where `a[0]` stands
        around = around[:-1]
        whole = around[-1]
        if isinstance(whole, ast.stmt):
            place = whole.lineno, whole.end_lineno or whole.lineno, whole.col_offset, whole.end_col_offset or 0
    function = ast.unparse(asker.func).rpartition(".")[2] if isinstance(asker, ast.Call) else ""
    return Asking(excerpt(lines, place), _decided(around), function)


def nodes(frame: FrameType) -> tuple[Place | None, list[ast.AST]]:
    """What a frame computes now: its place in the source, and the nodes around that, the outermost first."""
    place = _position(frame.f_code, frame.f_lasti)
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    return place, _around_in(lines, place) if place is not None and lines else []


def assigns(frame: FrameType) -> bool:
    """Whether a frame is at an assignment to an element or slice: ``a[i] = b``."""
    return frame.f_code.co_code[frame.f_lasti] in _STORES


def inner(provenance: Provenance) -> tuple[str, int, str] | None:
    """The file, line and function of torch that asks, where it is not the user's own code that does."""
    user = provenance.frame()
    for frame in provenance.frames():
        if frame is user:
            return None
        if frame.f_code.co_filename.startswith(_TORCH) and frame.f_code.co_filename not in _THIN:
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    return None


_TORCH: Final = torch.__file__.removesuffix("__init__.py")
_THIN: Final = (torch.__file__, torch._tensor.__file__)
"""Where torch only hands on what the user's code asks."""

Place = tuple[int, int, int, int]
"""First and last line, first and last column (in bytes)."""


def _position(code: CodeType, offset: int) -> Place | None:
    """The place of what an instruction stands for."""
    steps = [each for each in dis.get_instructions(code) if each.offset <= offset]
    step = steps[-1]
    if step.opname.startswith(("POP_JUMP", "JUMP_IF")) and len(steps) > 1:
        step = steps[-2]  # what a jump looks at is what the step before it made
    return place_of(step)


def place_of(step: dis.Instruction) -> Place | None:
    """The place in the source of what an instruction stands for; None where that is not known."""
    line, end_line, column, end_column = step.positions or (None, None, None, None)
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return line, end_line, column, end_column


def excerpt(lines: list[str], place: Place) -> str:
    """What stands at a place, on one line."""
    line, end_line, column, end_column = place
    part = [text.encode() for text in lines[line - 1 : end_line]]
    if not part:
        return ""
    part[-1] = part[-1][:end_column]
    part[0] = part[0][column:]
    text = " ".join(b"".join(part).decode(errors="replace").split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


def _around_in(lines: list[str], place: Place) -> list[ast.AST]:
    try:
        return _around(ast.parse("".join(lines)), place)
    except SyntaxError:
        return []


def _decided(around: list[ast.AST]) -> str:
    """What the innermost of some nodes decides."""
    found = [_decides(node, outer) for outer, node in zip([None, *around], around, strict=False)]
    return next((word for word in found if word in ("while", "for")), next(filter(None, reversed(found)), ""))


def _around(tree: ast.AST, place: Place) -> list[ast.AST]:
    """The nodes that a place lies in, the outermost first."""
    line, end_line, column, end_column = place
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.expr, ast.stmt)):
            start, end = (child.lineno, child.col_offset), (child.end_lineno or 0, child.end_col_offset or 0)
            if start <= (line, column) and (end_line, end_column) <= end:
                return [child, *_around(child, place)]
        elif inside := _around(child, place):  # a node without a place of its own, such as a comprehension's `for`
            return [child, *inside]
    return []


def _decides(node: ast.AST, outer: ast.AST | None) -> str:
    """What an expression decides, by the node around it."""
    for kind, part, word in _STATEMENTS:
        if isinstance(outer, kind):
            return word if node is getattr(outer, part) else ""
    return next((word for kinds, word in _EXPRESSIONS if isinstance(node, kinds)), "")


_STATEMENTS: Final = (
    (ast.While, "test", "while"), (ast.For, "iter", "for"), (ast.comprehension, "iter", "for"), (ast.If, "test", "if"),
    (ast.IfExp, "test", "if"), (ast.Assert, "test", "if"), (ast.Match, "subject", "if"),
)  # fmt: skip
_EXPRESSIONS: Final = (((ast.BoolOp, ast.Compare), "if"), (ast.Subscript, "index"), (ast.JoinedStr, "format"))
