"""What a model says of itself while it is captured."""

from __future__ import annotations

import sys
from typing import TypeVar

T = TypeVar("T")


def constant(value: T) -> T:
    """Says that a tensor, or a size, is the same for all inputs.

    While the model is captured, the value is computed at once and becomes a constant: nothing that it was computed with is
    in the graph. Anywhere else nothing happens.

    Args:
        value: a tensor or a number.

    Returns:
        The same.

    Raises:
        CaptureError: it depends on an input's content or on a dynamic size; the line, the expression and the input are told.
    """
    # A capture that is running has loaded this; to load it here would load torch.
    leaving = sys.modules.get("isthmus.frontends.torch.leaving")
    return value if leaving is None else leaving.constant(value)
