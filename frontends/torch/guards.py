"""Questions that only keep bad inputs out: ``if (x < 0).any(): raise ValueError``, and ``assert``.

One answer leads to an exception, whatever else the program does, so that every run that gives a result has the other one.
Whether that is so is read off the bytecode of the function that asks. Nobody may catch the exception; the context managers
around it are looked up by their names in the source.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dis
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

import torch

from isthmus.frontends.torch.asking import nodes
from isthmus.frontends.torch.provenance import library

_ENDS: Final = ("RETURN", "YIELD", "SEND", "RERAISE", "FOR_ITER")
_PROTOCOL: Final = frozenset((
    "AttributeError", "StopIteration", "StopAsyncIteration", "IndexError", "KeyError", "LookupError", "TypeError",
    "NotImplementedError",
))  # fmt: skip
"""Exceptions that Python itself expects of attributes, iterators and containers, and that no frame is seen to handle."""
_UNCONDITIONAL: Final = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")
_PREFIX: Final = __name__.rpartition(".")[0]


def passing(outside: CodeType | None) -> tuple[bool, FrameType] | None:
    """The only answer to the question that is being asked with which the program goes on, and who asks.

    Args:
        outside: the function that runs the model; the frames around it are not the model's.

    Returns:
        None when it goes on with both, or when somebody may catch the exception.
    """
    around = frames(outside)
    asker = next(around, None)
    if asker is None:
        return None
    answer = _answer(asker.f_code, asker.f_lasti)
    if answer is None or _caught(asker):
        return None
    if any(_decorated(frame) if library(frame.f_code) else _caught(frame) for frame in around):
        return None
    return answer, asker


def frames(outside: CodeType | None) -> Iterator[FrameType]:
    """The frames of the program, the innermost first; those of the watcher and of torch's sizes are left out."""
    frame: FrameType | None = sys._getframe(1)
    inside = True
    while frame is not None and frame.f_code is not outside:
        code = frame.f_code
        sizes = code.co_filename == torch.__file__ and code is not torch._assert.__code__
        inside = inside and (sizes or frame.f_globals.get("__name__", "").startswith(_PREFIX))
        if not inside:
            yield frame
        frame = frame.f_back


@lru_cache(256)
def _answer(code: CodeType, offset: int) -> bool | None:
    """With which truth the program goes on behind a jump that asks for it; None when with both or neither."""
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    at = {each.offset: place for place, each in enumerate(instructions)}
    place = at.get(offset)
    if place is None:
        return None
    found = jump_at(instructions, place)
    if found is None:
        return None
    place, jump = found, instructions[found]
    jumps = raises(instructions, at, at[jump.argval])
    falls = raises(instructions, at, place + 1)
    return None if jumps == falls else jump.opname.endswith("_TRUE") is falls


def jump_at(instructions: list[dis.Instruction], place: int) -> int | None:
    """The place of the jump that looks at the truth that is asked for at a place; None where none does."""
    step = instructions[place]
    place += step.opname == "TO_BOOL" or step.argrepr.startswith("bool(")  # a comparison may ask for the truth as well
    name = instructions[place].opname
    return place if name.startswith("POP_JUMP") and name.endswith(("_IF_TRUE", "_IF_FALSE")) else None


def raises(instructions: list[dis.Instruction], at: dict[int, int], place: int) -> bool:
    """Whether all ways from a place end in an exception that is raised there."""
    while True:
        step = instructions[place]
        if step.opname == "RAISE_VARARGS":
            return _raised(instructions, place) not in (*_PROTOCOL, None)
        if step.opname.startswith(_ENDS):
            return False
        target = at[step.argval] if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs else None
        if target is None:
            place += 1
        elif target <= place:
            return False  # a loop, which may go on
        elif step.opname in _UNCONDITIONAL:
            place = target
        else:
            return raises(instructions, at, target) and raises(instructions, at, place + 1)


def _raised(instructions: list[dis.Instruction], place: int) -> str | None:
    """The name of the exception that a statement raises: what its expression begins with; None where that is a variable."""
    whole = instructions[place].positions
    loads = [step for step in instructions if step.opname.startswith("LOAD_") and _within(step.positions, whole)]
    # An assert's statement begins with what is asserted, also where a test runner has made a raise of it.
    if any(step.opname == "LOAD_ASSERTION_ERROR" or step.argval == "AssertionError" for step in loads):
        return "AssertionError"
    return str(loads[0].argval) if loads and loads[0].opname in ("LOAD_GLOBAL", "LOAD_NAME") else None


def _within(part: dis.Positions | None, whole: dis.Positions | None) -> bool:
    """Whether a piece of source lies in another; not where one's place is not known."""
    if part is None or whole is None or None in (*part, *whole):
        return False
    start, end = (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)
    return (whole.lineno, whole.col_offset) <= start and end <= (whole.end_lineno, whole.end_col_offset)


def _caught(frame: FrameType) -> bool:
    """Whether a function may handle an exception that is raised where it is now."""
    handled = _handled(frame.f_code, frame.f_lasti)
    return not _all_harmless(frame) if handled is None else handled


@lru_cache(256)
def _handled(code: CodeType, offset: int) -> bool | None:
    """Whether a function handles exceptions that are raised at a place; None where a ``with`` alone may."""
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
    managed = None
    while (entry := next((each for each in entries if each.start <= offset < each.end), None)) is not None:
        names = [each.opname for each in dis.get_instructions(code) if each.offset >= entry.target]
        if names[:2] == ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]:
            managed = entry
        elif names[:3] != ["COPY", "POP_EXCEPT", "RERAISE"]:  # with which the leaving of a `with` or handler ends
            return True
        offset = entry.target
    return False if managed is None else None


def _all_harmless(frame: FrameType) -> bool:
    """Whether no context manager around the place where a function is now swallows exceptions, as far as is known."""
    _, around = nodes(frame)
    start = max((place for place, node in enumerate(around) if isinstance(node, _FUNCTIONS)), default=-1)
    managed = [node for node in around[start + 1 :] if isinstance(node, (ast.With, ast.AsyncWith))]
    return bool(managed) and all(_harmless(item.context_expr, frame) for node in managed for item in node.items)


def _harmless(manager: ast.expr, frame: FrameType) -> bool:
    """Whether the expression of a ``with`` makes a context manager that is known to swallow no exceptions."""
    if isinstance(manager, ast.IfExp):
        return _harmless(manager.body, frame) and _harmless(manager.orelse, frame)
    if isinstance(manager, ast.Call):
        return _known(_found(manager.func, frame))
    return _known(type(_found(manager, frame)))


def _known(maker: Any) -> bool:
    """Whether a class or function makes context managers that swallow no exceptions."""
    return maker in _HARMLESS or str(getattr(maker, "__module__", "")).partition(".")[0] in _HARMLESS_PACKAGES


def _found(expr: ast.expr, frame: FrameType) -> Any:
    """What a name, or an attribute of one, stands for; None where that is not known without running code."""
    if isinstance(expr, ast.Name):
        every = (frame.f_locals, frame.f_globals, vars(builtins))
        return next((names[expr.id] for names in every if expr.id in names), None)
    if not isinstance(expr, ast.Attribute):
        return None
    owner = _found(expr.value, frame)
    return (getattr if isinstance(owner, ModuleType) else inspect.getattr_static)(owner, expr.attr, None)


def _decorated(frame: FrameType) -> bool:
    """Whether a frame of Python's own is of a context manager as a decorator that may swallow exceptions."""
    manager = frame.f_locals.get("self") if frame.f_code.co_filename == contextlib.__file__ else None
    return manager is not None and not _known(getattr(manager, "func", type(manager)))


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_HARMLESS: Final = (contextlib.nullcontext, contextlib.closing, contextlib.redirect_stdout, contextlib.redirect_stderr)
_HARMLESS_PACKAGES: Final = ("torch", "numpy", "warnings", "threading", "_thread", "io", "_io", "tempfile", "decimal")
