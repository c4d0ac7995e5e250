"""What the model's own code asks, in its own words, and where it goes on with either answer; read off the bytecode."""

from __future__ import annotations

import dis
import linecache
from functools import lru_cache
from types import CodeType

from isthmus.frontends.torch.asking import excerpt, place_of
from isthmus.frontends.torch.guards import frames, jump_at, raises
from isthmus.frontends.torch.provenance import library
from isthmus.ir.symbols import Question


def question(outside: CodeType | None, answer: bool) -> Question | None:
    """The question that is being asked.

    Args:
        outside: the function that runs the model; the frames around it are not the model's.
        answer: what it is answered.

    Returns:
        None where no code of the model's is running, or its source is not there.
    """
    asker = next((frame for frame in frames(outside) if not library(frame.f_code)), None)
    return None if asker is None else _question(asker.f_code, asker.f_lasti, answer)


@lru_cache(256)
def _question(code: CodeType, offset: int, answer: bool) -> Question | None:
    steps = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    at = {each.offset: place for place, each in enumerate(steps)}
    place = max(at[each] for each in at if each <= offset)  # during a call the offset is that of the call's inline cache
    branch = jump_at(steps, place)
    operand = steps[place].opname.startswith("JUMP_IF_")  # of an `and` or `or` whose value is used
    made = branch - 1 if branch is not None else place - operand  # what a jump looks at is what the step before it made
    while steps[made].opname in ("COPY", "TO_BOOL"):
        made -= 1
    spot = place_of(steps[made])
    text = excerpt(linecache.getlines(code.co_filename), spot) if spot is not None else ""
    if not text:
        return None
    if branch is None:
        return Question(text, answer if operand else None)
    jump = steps[branch]
    there, next_to_it = at[jump.argval], branch + 1
    taken, other = (there, next_to_it) if jump.opname.endswith("_IF_TRUE") is answer else (next_to_it, there)
    if raises(steps, at, other):
        left = "would raise an exception"
    else:
        left = _told("would go on", _way(code.co_filename, steps, other, jump))
    return Question(text, answer, _told("goes on", _way(code.co_filename, steps, taken, jump)), left)


def _told(what: str, line: str) -> str:
    return f"{what} at {line}" if line else ""


def _way(file: str, steps: list[dis.Instruction], place: int, jump: dis.Instruction) -> str:
    """The line with which the code goes on at a place; empty where it is the one that asks."""
    lines = (step.positions.lineno for step in steps[place:] if step.positions and step.positions.lineno)
    line = next(lines, 0)
    text = linecache.getline(file, line).strip()
    same = jump.positions is not None and line == jump.positions.lineno
    return f"line {line}, `{text}`" if text and not same else ""
