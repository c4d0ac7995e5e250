"""Older forms of ops: what emitters say in the newest form, as files of older opsets say it.

Emitters write sizes, axes and bounds as inputs. Ops that had them as attributes before get them as attributes there, where
they are constants; what an older form cannot say is refused, and the node is then said in other ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from isthmus.backends.onnx.table import refuse
from isthmus.ir.weights import Weight

AS_ATTRIBUTES: Final[dict[str, tuple[int, dict[int, str]]]] = {
    "Clip": (11, {1: "min", 2: "max"}),
    "Pad": (11, {1: "pads", 2: "value"}),
    "Slice": (10, {1: "starts", 2: "ends", 3: "axes"}),
    "Split": (13, {1: "split"}),
    "Upsample": (9, {1: "scales"}),
    "TopK": (10, {1: "k"}),
    **dict.fromkeys(("Squeeze", "Unsqueeze", "ReduceSum"), (13, {1: "axes"})),
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
         "ReduceSumSquare"), (18, {1: "axes"}),
    ),
}  # fmt: skip
"""The opset from which an op has inputs that were attributes before, and these by the inputs' positions."""

RENAMED: Final = {"ScatterElements": (11, "Scatter"), "Resize": (10, "Upsample")}
"""What an op was called before an opset."""

SCALARS: Final = frozenset(("min", "max", "value", "k"))
"""Attributes that are one number."""


def form(
    op_type: str, opset: int, inputs: tuple[str | None, ...], attrs: dict[str, Any], contents: Mapping[str, Weight],
) -> tuple[str, tuple[str | None, ...], dict[str, Any]]:  # fmt: skip
    """An op as an opset has it: its name, inputs and attributes.

    Args:
        op_type: its newest name.
        opset: the opset.
        inputs: its inputs in the newest form.
        attrs: its attributes in the newest form.
        contents: the contents of the inputs that are constants.

    Raises:
        Refused: an input that must be an attribute is no constant.
    """
    renamed = RENAMED.get(op_type)
    if renamed is not None and opset < renamed[0]:
        op_type = renamed[1]
    since, names = AS_ATTRIBUTES.get(op_type, (0, {}))
    if opset >= since:
        return op_type, inputs, attrs
    attrs = dict(attrs)
    for index, name in names.items():
        given = inputs[index] if index < len(inputs) else None
        if given is None:
            continue
        weight = contents.get(given)
        if weight is None:
            refuse(f"{op_type} takes computed {name} from opset {since} on")
        numbers = weight.array().reshape(-1).tolist()
        attrs[name] = numbers[0] if name in SCALARS else numbers
    left = [each for index, each in enumerate(inputs) if index not in names]
    while left and left[-1] is None:
        left.pop()
    return op_type, tuple(left), attrs
