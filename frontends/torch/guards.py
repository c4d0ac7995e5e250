"""Questions that only keep bad inputs out: ``if (x < 0).any(): raise ValueError``, and ``assert``.

One answer leads to an exception, whatever else the program does, so that every run that gives a result has the other one.
Whether that is so is read off the bytecode of the function that asks.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Final

import torch

from isthmus.frontends.torch.provenance import library

_ENDS: Final = ("RETURN", "YIELD", "SEND", "RERAISE", "FOR_ITER")
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
    if answer is None or _caught(asker.f_code, asker.f_lasti):
        return None
    if any(not library(frame.f_code) and _caught(frame.f_code, frame.f_lasti) for frame in around):
        return None
    return answer, asker


def frames(outside: CodeType | None) -> Iterator[FrameType]:
    """The frames of the program, the innermost first; those of the watcher and of torch's sizes are left out."""
    frame: FrameType | None = sys._getframe(1)
    inside = True
    while frame is not None and frame.f_code is not outside:
        inside = inside and (
            frame.f_globals.get("__name__", "").startswith(_PREFIX) or frame.f_code.co_filename == torch.__file__
        )
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
            return True
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


@lru_cache(256)
def _caught(code: CodeType, offset: int) -> bool:
    """Whether a function handles exceptions that are raised at a place; leaving a ``with`` is no handling."""
    for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]
        if entry.start <= offset < entry.end:
            names = [each.opname for each in dis.get_instructions(code) if each.offset >= entry.target]
            if names[:2] != ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]:
                return True
    return False
