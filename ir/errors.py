"""The one family of errors. Each says what was wrong, where in the user's model, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isthmus.ir.location import Location


class IsthmusError(Exception):
    """Base of every error that isthmus raises on purpose.

    Args:
        message: what is wrong, in one sentence.
        op: name of the op (ours or the framework's) that it is about.
        location: where in the user's model.
        expected: what would have been right.
        found: what was there instead.
        remedy: what the user can do.
    """

    def __init__(
        self,
        message: str,
        *,
        op: str | None = None,
        location: Location | None = None,
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.message = message
        self.op = op
        self.location = location
        self.expected = expected
        self.found = found
        self.remedy = remedy
        super().__init__(message)

    def __str__(self) -> str:
        lines = [f"{self.op}: {self.message}" if self.op else self.message]
        if self.location:
            lines.append(f"  at {self.location}")
        if self.expected is not None:
            lines.append(f"  expected: {self.expected}")
        if self.found is not None:
            lines.append(f"  found: {self.found}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)


class UsageError(IsthmusError):
    """A call of the public interface is wrong: an unknown name, option, target or malformed spec."""


class InferError(IsthmusError):
    """An op was given operands or attributes that its row in the op table does not allow."""


class UnknownSizeError(InferError):
    """What an op gives has a form that hangs on a size which is not known yet."""


class SizeLimitError(UnknownSizeError):
    """A size comes to an expression that is too large to be followed."""


class VerifyError(IsthmusError):
    """A graph breaks one of the IR's invariants.

    Args:
        message, more: as for `IsthmusError`.
        excerpt: some lines of the graph's text around the place.
    """

    def __init__(self, message: str, *, excerpt: str = "", **more: Any) -> None:
        super().__init__(message, **more)
        self.excerpt = excerpt

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.excerpt}".rstrip()


class ParseError(IsthmusError):
    """A text is not the text form of a graph."""


class EvaluationError(IsthmusError):
    """A graph could not be evaluated on the given inputs."""


class UnavailableError(EvaluationError):
    """What a target runs on is not on this machine: a runtime that is not installed, a device that is not there."""


class CaptureError(IsthmusError):
    """A model could not be written down: it raised, branched on data, or left the watched world."""


class Refusal(IsthmusError):
    """One node or one operation that cannot be carried over.

    Args:
        message, more: as for `IsthmusError`.
        cause: what the message comes down to, where it is worded for its own node: other nodes, of other ops too, are refused
            for the same cause. None where the message says it all.
    """

    def __init__(self, message: str, *, cause: str | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.cause = cause


PLACES = 5
"""So many places are told of what is refused for one cause, and so many ops."""


class UnsupportedError(IsthmusError):
    """Everything that cannot be carried over, all at once. What has one cause is one item of the text.

    Args:
        message: a summary line.
        refusals: each op with its location, reason and remedy.
    """

    def __init__(self, message: str, refusals: Sequence[Refusal]) -> None:
        super().__init__(message)
        self.refusals = tuple(refusals)

    def __str__(self) -> str:
        causes: dict[tuple[str | None, ...], list[Refusal]] = {}
        for each in self.refusals:
            whose = (each.op, each.message) if each.cause is None else (None, each.cause)
            causes.setdefault((*whose, each.expected, each.found, each.remedy), []).append(each)
        return "\n".join([self.message, *(f"- {_together(group)}".replace("\n", "\n  ") for group in causes.values())])


def _together(refusals: Sequence[Refusal]) -> str:
    """Refusals for one cause: the ops with how often each is there, what the first one says, and the first places."""
    first = refusals[0]
    if len(refusals) == 1:
        return str(first)
    ops = Counter(each.op for each in refusals if each.op)
    names = [f"{op} ({count} times)" if count > 1 else op for op, count in ops.items()]
    more = len(names) - PLACES
    whole = Refusal(
        first.message, op=", ".join(names[:PLACES]) + (f" and {more} more op{'s' * (more > 1)}" if more > 0 else ""),
        expected=first.expected, found=first.found, remedy=first.remedy,
    )  # fmt: skip
    places = list(dict.fromkeys(f"  at {each.location}" for each in refusals if each.location))
    beyond = len(places) - PLACES
    places[PLACES:] = [f"  and at {beyond} more place{'s' * (beyond > 1)}"] if beyond > 0 else []
    head, *rest = str(whole).split("\n")
    return "\n".join([head, *places, *rest])


class FileError(IsthmusError):
    """A file could not be read or written, or lies about its content."""


class MismatchError(IsthmusError):
    """A compiled model and its source disagree."""


class IsthmusWarning(UserWarning):
    """A compiled model is most likely not the one that was meant, though nothing about it is wrong."""
