"""Versions of the standard's ops: which of two opsets have the same op, or one that means the same by the same node."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import onnx

REWORDED: Final = {
    "DequantizeLinear": (13, 19, 21, 23), "Div": (14,), "Mod": (13, 28), "Pad": (13, 18, 19),
    "QuantizeLinear": (13, 19, 21, 23, 25), "Range": (27,), "Resize": (18, 19), "Slice": (11, 13), "TopK": (11,),
}  # fmt: skip
"""Versions that say in other words what those before them said, or can do more by inputs and attributes that these had not."""


@cache
def since(name: str, opset: int) -> int | None:
    """The opset of which an op of the standard is at an opset; None where there is none."""
    try:
        return int(onnx.defs.get_schema(name, opset, "").since_version)
    except onnx.defs.SchemaError:
        return None


@cache
def carries(name: str, opset: int, newer: int) -> bool:
    """Whether a node of an op of the standard at one opset says the same at another.

    It does where the op is the same. At a newer one it does, too, where each version between them has the inputs, outputs and
    attributes of the one before, and but for element types is put in the same words, or is known to mean the same.
    """
    first, last = since(name, opset), since(name, newer)
    if first is None or last is None or first >= last:
        return first == last
    schema = onnx.defs.get_schema(name, last, "")
    while schema.since_version > first:
        before = onnx.defs.get_schema(name, schema.since_version - 1, "")
        same = before.doc == schema.doc and _form(before) == _form(schema)
        if not same and schema.since_version not in REWORDED.get(name, ()):
            return False
        schema = before
    return True


def _form(schema: Any) -> tuple[Any, ...]:
    attributes = {
        key: (each.type, each.required, each.default_value.SerializeToString()) for key, each in schema.attributes.items()
    }
    return [(each.name, each.option) for each in schema.inputs], [each.name for each in schema.outputs], attributes
