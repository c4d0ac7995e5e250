"""Ways in which a part of a script ends that gives no results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isthmus.ir.errors import CaptureError
from isthmus.ir.location import Location

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.plans import Growing


class Raised(Exception):
    """The script raises an exception.

    Args:
        kind: the exception's class; empty where the message tells it.
        message: what it says.
        location: where.
    """

    def __init__(self, kind: str, message: str, location: Location) -> None:
        super().__init__(": ".join(part for part in (kind, message) if part))
        self.location = location


class Unjoinable(CaptureError):
    """Two branches give what cannot be one value."""


class Rerun(Exception):
    """A loop's body has to be run anew, since it looks at a list that was thought only to grow.

    Args:
        growing: the loop's plan for the list.
    """

    def __init__(self, growing: Growing) -> None:
        super().__init__()
        self.growing = growing
