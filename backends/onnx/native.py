"""Ops that a file had and that were kept whole: written as they were, where the opset and the reader have them still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from isthmus.backends.onnx.custom import named, since
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import bounds
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Trait


def of_whole(e: Emitter, node: Node, inputs: list[str | None]) -> Any:
    """Tries the op that a `whole` is of; it must be the same op at the opset that is written."""
    domain, name, versions = (node.attrs[key] for key in ("domain", "name", "opsets"))
    if not domain and since(name, versions[""]) != since(name, e.opset):
        refuse(f"{name} of opset {versions['']} is not there at opset {e.opset}")
    found = _native(e, node, inputs)
    if not e.keep_ops:
        if domain:
            refuse(f"whether {e.profile.name} has {domain}.{name} is not known")
        if e.profile.base == "onnxruntime" and name in _UNLIKE and not _UNLIKE[name][0](node):
            refuse(f"onnxruntime {_UNLIKE[name][1]}")
        given = {key: value for key, value in node.attrs["attributes"].items() if not isinstance(value, dict)}
        e.check(name, inputs[: len(inputs) - len(node.attrs["captures"])], given, len(node.results) + len(node.attrs["absent"]))
    return found


def _input(node: Node, index: int) -> Value | None:
    return node.operands[index] if index < len(node.operands) else None


def _batch_is_second(node: Node) -> bool:
    return not node.attrs["attributes"].get("layout")


def _some(node: Node) -> bool:
    x = node.operands[0]
    assert x is not None
    return x.tensor.dtype.kind != "bool" or all(bounds(dim)[0] >= 1 for dim in x.tensor.shape or ())


def _mask_and_scores(node: Node) -> bool:
    """Without scores of what is hidden, and without lengths beside a mask."""
    masked = _input(node, 3) is not None
    return not (node.attrs["attributes"].get("is_causal") and len(node.results) > 3) and not (masked and _input(node, 6))


def _one_zero_point(node: Node) -> bool:
    zero = _input(node, 3)
    return zero is None or zero.tensor.shape in ((), (1,))


def _no_bf16(node: Node) -> bool:
    values = _input(node, 2)
    return values is None or values.tensor.dtype is not dtypes.bf16


def _corners_by_sizes(node: Node) -> bool:
    scales = _input(node, 2)
    return scales is None or node.attrs["attributes"].get("coordinate_transformation_mode") != "align_corners"


_ROUGH: Final = (lambda node: False, "adds up more roughly than the standard's own tests allow")
_LAYOUT: Final = (_batch_is_second, "takes no batches in front of time")
_NONE: Final = (_some, "takes no bools of which there are none")
_UNLIKE: Final[dict[str, tuple[Callable[[Node], bool], str]]] = {
    "Attention": (_mask_and_scores, "gives scores of what is hidden, and takes no lengths beside a mask"),
    "ConvInteger": (_one_zero_point, "takes one zero point for all weights"),
    "DFT": _ROUGH, "STFT": _ROUGH, "GRU": _LAYOUT, "LSTM": _LAYOUT, "RNN": _LAYOUT, "ReduceMax": _NONE, "ReduceMin": _NONE,
    "MaxUnpool": (lambda node: _input(node, 2) is None, "takes indices to be of the wanted shape, not of the pooled one"),
    "OneHot": (_no_bf16, "has no kernel for OneHot on bf16"),
    "Resize": (_corners_by_sizes, "aligns corners by sizes that are rounded"),
    "Split": (lambda node: not node.attrs["absent"], "ends the process where a part has no name"),
}  # fmt: skip
"""Where onnxruntime gives other results than the standard, or none: what holds where it does not, and what it does."""


def lowered(b: Builder, node: Node) -> Sequence[Value]:
    """The `native` that a `whole` becomes."""
    drawn = any(Trait.RANDOM in inner.op.traits for inner in node.regions[0].walk())
    types = [result.type for result in node.results]
    return b.emit("native", node.operands, {**node.attrs, "types": types, "random": drawn}).results


@emits("native")
def _native(e: Emitter, node: Node, inputs: list[str | None]) -> Any:
    return named(e, node, inputs)
